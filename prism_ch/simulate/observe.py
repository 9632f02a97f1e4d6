"""From flows to records as they arrive: exporters' clocks, losses, repeats and disorder; then canonical columns."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from prism_ch.model.columns import Float64, Int32, Int64
from prism_ch.simulate.cluster import Network
from prism_ch.simulate.records import Records, acknowledged, cut, first_records, merged, sampled, seen_on_the_way
from prism_ch.simulate.scenario import Observation, Scenario
from prism_ch.simulate.transfers import Transfers


@dataclass(frozen=True, slots=True)
class Observed:
    """Records in the order of their arrival, and what was done to them.

    `counted_bytes`, `ack_bytes`: int64[flows], what a faultless exporter counts of each flow and of its
    acknowledgements (empty: none).
    `skew_s` is the clock offset of each exporter by name; `bad_exporter` the one whose clock is wrong; `counts` go
    from flows to records.
    """

    table: pa.Table
    counted_bytes: Int64
    ack_bytes: Int64
    skew_s: dict[str, float]
    bad_exporter: str
    counts: dict[str, int]


def observe(transfers: Transfers, scenario: Scenario, network: Network) -> Observed:
    """Take the records of a scenario's flows with all their defects."""
    taking = scenario.observation
    rng = np.random.default_rng([scenario.seed, 6])
    counts = {"true_flows": len(transfers)}
    records = first_records(transfers, taking, network, [scenario.seed, 7])
    flows = len(records)
    if taking.acks:
        records = acknowledged(records, network, rng)
    counted, ack_bytes = records.bytes[:flows], records.bytes[flows:]
    if taking.idle_timeout_s or taking.coarse_leaves:
        before = len(records)
        records = _merged(records, taking, network)
        counts["merged"] = before - len(records)
    if taking.active_timeout_s:
        before = len(records)
        records = cut(records, round(taking.active_timeout_s * 1e9))
        counts["split_extra"] = len(records) - before
    if taking.sampling > 1:
        records = sampled(records, taking.sampling, rng)
    if taking.exporters == "every":
        records = seen_on_the_way(records, rng)
    records, skew_s, bad = _by_the_clock(records, taking, network, rng)
    records, delivery = _delivered(records, taking, rng)
    table = _table(records, taking, network)
    return Observed(table, counted, ack_bytes, skew_s, bad, counts | delivery | {"records": len(table)})


def _merged(records: Records, taking: Observation, network: Network) -> Records:
    """Return the records as the idle timeouts of their exporters leave them, which are the first switches."""
    coarse = records.switch >= network.leaves - round(taking.coarse_leaves * network.leaves)
    parts = [
        merged(records.take(rows), round(idle_s * 1e9)) if idle_s else records.take(rows)
        for rows, idle_s in ((~coarse, taking.idle_timeout_s), (coarse, taking.coarse_idle_timeout_s))
    ]
    return parts[0].joined(parts[1])


def _by_the_clock(
    records: Records, taking: Observation, network: Network, rng: np.random.Generator
) -> tuple[Records, dict[str, float], str]:
    """Return the records with the times of their exporters' clocks, those clocks' offsets, and the wrong one."""
    offset_s = rng.uniform(-1.0, 1.0, len(network.switches)) * taking.skew_s
    bad = ""
    if taking.bad_exporter_s and len(records):
        active = np.unique(records.switch)
        wrong = int(active[rng.integers(0, len(active))])
        offset_s[wrong] = taking.bad_exporter_s
        bad = network.switches[wrong]
    offset = np.rint(offset_s * 1e9).astype(np.int64)[records.switch]
    tick = max(round(taking.tick_s * 1e9), 1)
    start = (records.start_ns + offset) // tick * tick
    end = (records.end_ns + offset) // tick * tick
    named = {name: float(offset_s[row]) for row, name in enumerate(network.switches) if offset_s[row]}
    return replace(records, start_ns=start, end_ns=end), named, bad


def _delivered(records: Records, taking: Observation, rng: np.random.Generator) -> tuple[Records, dict[str, int]]:
    """Return the records that arrive, in the order in which they do."""
    counts: dict[str, int] = {}
    records = records.take(_order(records, np.zeros(len(records))))
    if taking.loss:
        kept = ~_lost(records.switch, taking, rng)
        counts["lost"] = int((~kept).sum())
        records = records.take(kept)
    if taking.duplicates:
        twice = rng.random(len(records)) < taking.duplicates
        counts["duplicates"] = int(twice.sum())
        records = records.take(np.repeat(np.arange(len(records)), 1 + twice))
    if taking.late:
        late = rng.random(len(records)) < taking.late
        counts["late"] = int(late.sum())
        delay = rng.exponential(taking.late_mean_s * 1e9, len(records))
        records = records.take(_order(records, np.where(late, delay, 0.0)))
    return records, counts


def _lost(switch: Int64, taking: Observation, rng: np.random.Generator) -> npt.NDArray[np.bool_]:
    """Mark the records in lost export packets: `loss_packet` records of one exporter in a row share a packet."""
    order = np.argsort(switch, kind="stable")
    place = np.empty(len(switch), dtype=np.int64)
    first = np.searchsorted(switch[order], switch[order])
    place[order] = (np.arange(len(switch)) - first) // taking.loss_packet
    packet = switch * (len(switch) + 1) + place
    _, which = np.unique(packet, return_inverse=True)
    gone = rng.random(int(which.max(initial=-1)) + 1) < taking.loss
    return np.asarray(gone[which], dtype=bool)


def _order(records: Records, delay_ns: Float64) -> Int64:
    """Return the rows in order of their ends, each so much later."""
    arrival = records.end_ns + np.rint(delay_ns).astype(np.int64)
    keys = (records.switch, records.src_port, records.dst, records.src, records.start_ns, records.end_ns, arrival)
    return np.lexsort(keys)


def _table(records: Records, taking: Observation, network: Network) -> pa.Table:
    """Return the canonical columns."""
    columns = {
        "time_flow_start_ns": records.start_ns,
        "time_flow_end_ns": records.end_ns,
        "src_addr": _texts(records.src, network.addresses),
        "dst_addr": _texts(records.dst, network.addresses),
        "src_port": records.src_port.astype(np.uint16),
        "dst_port": records.dst_port.astype(np.uint16),
        "proto": records.proto.astype(np.uint8),
        "bytes": records.bytes.astype(np.uint64),
        "packets": records.packets.astype(np.uint64),
        "sampler_address": _texts(records.switch, network.switches),
        "sampling_rate": np.full(len(records), taking.sampling, dtype=np.uint32),
    }
    if taking.path:
        columns["path"] = _paths(records.route, network)
    return pa.table(columns)


def _texts(index: npt.NDArray[np.integer], values: tuple[str, ...]) -> pa.Array:
    """Return the texts that an index names, as plain strings."""
    return pa.DictionaryArray.from_arrays(pa.array(index, pa.int32()), pa.array(values, pa.string())).cast(pa.string())


def _paths(route: Int32, network: Network) -> pa.Array:
    """Return each route's switches as a list of texts."""
    held = route >= 0
    offsets = np.concatenate([[0], np.cumsum(held.sum(axis=1))]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), _texts(route[held], network.switches))
