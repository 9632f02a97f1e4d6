"""From flows to records as they arrive: exporters, their clocks, and delivery."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from prism_ch.core.arrays import order_by, ranges, run_starts
from prism_ch.core.intervals import merge
from prism_ch.model.columns import Bool, Float64, Int32, Int64
from prism_ch.model.job import FOREVER_NS
from prism_ch.simulate.network import MONITOR, SERVING, STARTUP, STORAGE, STRAY, Flows, Index, Network, Rows
from prism_ch.simulate.scenario import Observation, Scenario

ROCE_PORT, TCP_PORT = 4791, 29_500
TCP, UDP = 6, 17
#: Bytes of headers a packet that a flow exporter counts: IPv4, UDP, BTH and ICRC; or IPv4 and TCP with timestamps.
ROCE_HEADER_BYTES, TCP_HEADER_BYTES = 44, 52
TCP_MTU_BYTES = 1448
#: What a switch may count besides: nothing, Ethernet, Ethernet with its checksum.
_EXTRA_HEADER_BYTES = np.array([0, 14, 18])
_SURROUNDING = (STORAGE, MONITOR, STARTUP, STRAY)


@dataclass(frozen=True, slots=True)
class Records(Rows):
    """One row a record; `switch` is the Network's, `route` int32[n, 3] as Network.route has it."""

    start_ns: Int64
    end_ns: Int64
    src: Int64
    dst: Int64
    src_port: Int64
    dst_port: Int64
    proto: Int64
    bytes: Int64
    packets: Int64
    switch: Int64
    route: Int32


@dataclass(frozen=True, slots=True)
class Observed:
    """Records in the order of their arrival, and what was done to them.

    `counted_bytes`, `ack_bytes`: int64[flows], what a faultless exporter counts of each flow and of its
    acknowledgements (empty: none). `summary` has `counts` from flows to records, the clock offset of each exporter
    (`exporter_skew_s`), and the exporter whose clock is wrong (`bad_exporter`).
    """

    table: pa.Table
    counted_bytes: Int64
    ack_bytes: Int64
    summary: dict[str, Any]


def observe(flows: Flows, scenario: Scenario, network: Network) -> Observed:
    """Take the records of a scenario's flows with all their defects."""
    observation = scenario.observation
    rng = np.random.default_rng([scenario.seed, 6])
    counts = {"true_flows": len(flows)}
    records = first_records(flows, observation, network, [scenario.seed, 7])
    if observation.acks:
        records = acknowledged(records, network, rng)
    counted, ack_bytes = np.split(records.bytes, [len(flows)])
    if observation.idle_timeout_s or observation.coarse_leaves:
        before = len(records)
        records = _merged(records, observation, network)
        counts["merged"] = before - len(records)
    if observation.active_timeout_s:
        before = len(records)
        records = cut(records, round(observation.active_timeout_s * 1e9))
        counts["split_extra"] = len(records) - before
    if observation.sampling > 1:
        records = sampled(records, observation.sampling, rng)
    if observation.exporters == "every":
        records = seen_on_the_way(records, rng)
    if observation.silences:
        unseen = silenced(records, scenario, network)
        counts["silenced"] = int(unseen.sum())
        records = records.take(~unseen)
    records, clocks = _by_exporter_clock(records, observation, network, rng)
    records, delivery = _delivered(records, observation, rng)
    counts |= delivery | {"records": len(records)}
    return Observed(_table(records, observation, network), counted, ack_bytes, {"counts": counts, **clocks})


def pieces_of(counts: Int64) -> tuple[Int64, Int64]:
    """Divide rows into `counts` pieces each; return row and number of each piece."""
    return np.repeat(np.arange(len(counts)), counts), ranges(np.zeros_like(counts), counts)


def first_records(flows: Flows, observation: Observation, network: Network, seed: list[int]) -> Records:
    """Return one faultless record a flow, as its first switch counts it: bytes with headers.

    TCP segments are of uneven size, so that equal payloads differ in packets, and by their headers in bytes.
    """
    nics = network.cluster.servers * network.cluster.nics
    outside = (flows.src >= nics) | (flows.dst >= nics)
    surrounding = np.isin(flows.kind, _SURROUNDING)
    tcp = surrounding | ((flows.kind == SERVING) & outside) | (observation.transport == "tcp")
    packets = np.maximum(-(-flows.payload_bytes // np.where(tcp, TCP_MTU_BYTES, observation.mtu_bytes)), 1)
    if tcp.any():
        uneven = np.random.default_rng(seed).gamma(1.5, 0.15, len(packets))
        packets = np.where(tcp, np.rint(packets * (1 + uneven)).astype(np.int64), packets)
    # every TCP connection of the surroundings has a port of its own
    once = np.where(surrounding, flows.start_ns // 1000, 0)
    port = network.ports(flows.src, flows.dst, flows.queue, once)
    route = network.route(flows.src, flows.dst, port)
    return Records(
        start_ns=flows.start_ns,
        end_ns=flows.end_ns,
        src=flows.src.astype(np.int64),
        dst=flows.dst.astype(np.int64),
        src_port=port,
        dst_port=np.where(tcp, TCP_PORT, ROCE_PORT),
        proto=np.where(tcp, TCP, UDP),
        bytes=flows.payload_bytes + packets * np.where(tcp, TCP_HEADER_BYTES, ROCE_HEADER_BYTES),
        packets=packets,
        switch=route[:, 0].astype(np.int64),
        route=route,
    )


def acknowledged(records: Records, network: Network, rng: np.random.Generator) -> Records:
    """Return the records with those of their acknowledgements, the other way round."""
    tcp = records.proto == TCP
    packets = np.maximum(records.packets // np.where(tcp, 2, 16), 1)
    delay = rng.integers(10_000, 60_000, len(records))
    route = network.route(records.dst.astype(np.int32), records.src.astype(np.int32), records.dst_port)
    back = replace(
        records,
        start_ns=records.start_ns + delay,
        end_ns=records.end_ns + delay,
        src=records.dst,
        dst=records.src,
        src_port=np.where(tcp, records.dst_port, records.src_port ^ 1),
        dst_port=np.where(tcp, records.src_port, ROCE_PORT),
        packets=packets,
        bytes=packets * np.where(tcp, TCP_HEADER_BYTES, ROCE_HEADER_BYTES + 4),
        switch=route[:, 0].astype(np.int64),
        route=route,
    )
    return Records.concatenate([records, back])


def merged(records: Records, idle_ns: int) -> Records:
    """Merge flows of a 5-tuple at most `idle_ns` apart, as flow tables do."""
    if not len(records):
        return records
    five_tuple = (records.proto, records.dst_port, records.src_port, records.dst, records.src)
    held = records.take(order_by(*five_tuple, records.start_ns, records.end_ns))
    starts = run_starts(held.proto, held.dst_port, held.src_port, held.dst, held.src)
    entry = np.repeat(np.arange(len(starts), dtype=np.int32), np.diff(starts, append=len(held)))
    entries = merge(entry, held.start_ns, held.end_ns, idle_ns)
    counted, packets = (np.add.reduceat(column, entries.first_row) for column in (held.bytes, held.packets))
    return replace(held.take(entries.first_row), end_ns=entries.end, bytes=counted, packets=packets)


def cut(records: Records, active_ns: int) -> Records:
    """Cut the records into pieces of at most `active_ns`."""
    duration = records.end_ns - records.start_ns
    pieces = np.maximum(-(-duration // active_ns), 1)
    rows, piece = pieces_of(pieces)
    whole, length = records.take(rows), np.maximum(duration[rows], 1)
    start = whole.start_ns + piece * active_ns
    end = np.minimum(start + active_ns, whole.end_ns)
    since, until = (start - whole.start_ns) / length, (end - whole.start_ns) / length
    last = piece == pieces[rows] - 1

    def part(total: Int64) -> Int64:
        up_to = np.where(last, total, np.floor(total * until))
        return np.asarray(up_to - np.floor(total * since), dtype=np.int64)

    packets = part(whole.packets)
    return replace(whole, start_ns=start, end_ns=end, bytes=part(whole.bytes), packets=packets).take(packets > 0)


def sampled(records: Records, one_in: int, rng: np.random.Generator) -> Records:
    """Sample one packet in `one_in`, and scale the records up again.

    First and last sighting lie inside the flow: the extremes of as many uniform draws as packets were seen.
    """
    seen = rng.binomial(records.packets, 1.0 / one_in)
    kept = records.take(seen > 0)
    seen = seen[seen > 0]
    low, high = rng.beta(1, seen), rng.beta(1, seen)
    duration = kept.end_ns - kept.start_ns
    first = np.where(seen == 1, rng.random(len(seen)), np.minimum(low, 1 - high))
    last = np.where(seen == 1, first, np.maximum(low, 1 - high))
    return replace(
        kept,
        start_ns=kept.start_ns + np.floor(first * duration).astype(np.int64),
        end_ns=kept.start_ns + np.floor(last * duration).astype(np.int64),
        packets=seen * one_in,
        bytes=np.rint(seen * one_in * (kept.bytes / kept.packets)).astype(np.int64),
    )


def seen_on_the_way(records: Records, rng: np.random.Generator) -> Records:
    """Repeat each record for every switch on its way, counted with that switch's headers."""
    row, hop = np.nonzero(records.route >= 0)
    spread = records.take(row)
    switch = records.route[row, hop].astype(np.int64)
    extra = _EXTRA_HEADER_BYTES[switch % len(_EXTRA_HEADER_BYTES)]
    missed = np.minimum(rng.poisson(spread.packets * 2e-5), spread.packets - 1)
    packets = spread.packets - np.where(hop > 0, missed, 0)
    return replace(
        spread,
        start_ns=spread.start_ns + hop * 1000,
        end_ns=spread.end_ns + hop * 1000,
        switch=switch,
        packets=packets,
        bytes=np.rint(packets * (spread.bytes / spread.packets + extra)).astype(np.int64),
    )


def silenced(records: Records, scenario: Scenario, network: Network) -> Bool:
    """Mask the records that end while their exporter is silent, bool[n]."""
    unseen = np.zeros(len(records), dtype=bool)
    for silence in scenario.observation.silences:
        theirs = np.isin(network.switches[records.switch], silence.exporters) | (not silence.exporters)
        ended = records.end_ns >= (scenario.ns(silence.to_s) if silence.to_s < scenario.duration_s else FOREVER_NS)
        unseen |= theirs & (records.end_ns >= scenario.ns(silence.from_s)) & ~ended
    return unseen


def _merged(records: Records, observation: Observation, network: Network) -> Records:
    """Merge records by the idle timeouts of their exporters, the first switches."""
    coarse = records.switch >= network.leaves - round(observation.coarse_leaves * network.leaves)
    timeouts = ((~coarse, observation.idle_timeout_s), (coarse, observation.coarse_idle_timeout_s))
    return Records.concatenate(
        merged(records.take(rows), round(idle_s * 1e9)) if idle_s else records.take(rows) for rows, idle_s in timeouts
    )


def _by_exporter_clock(
    records: Records, observation: Observation, network: Network, rng: np.random.Generator
) -> tuple[Records, dict[str, Any]]:
    offset_s = rng.uniform(-1.0, 1.0, len(network.switches)) * observation.skew_s
    bad = ""
    if observation.bad_exporter_s and len(records):
        active = np.unique(records.switch)
        wrong = int(active[rng.integers(0, len(active))])
        offset_s[wrong] = observation.bad_exporter_s
        bad = str(network.switches[wrong])
    offset = np.rint(offset_s * 1e9).astype(np.int64)[records.switch]
    tick = max(round(observation.tick_s * 1e9), 1)
    start, end = ((time + offset) // tick * tick for time in (records.start_ns, records.end_ns))
    named = {str(name): float(offset) for name, offset in zip(network.switches, offset_s, strict=True) if offset}
    return replace(records, start_ns=start, end_ns=end), {"exporter_skew_s": named, "bad_exporter": bad}


def _delivered(records: Records, observation: Observation, rng: np.random.Generator) -> tuple[Records, dict[str, int]]:
    counts: dict[str, int] = {}
    records = records.take(_order(records, np.zeros(len(records))))
    if observation.loss:
        lost = _lost(records.switch, observation, rng)
        counts["lost"] = int(lost.sum())
        records = records.take(~lost)
    if observation.duplicates:
        twice = rng.random(len(records)) < observation.duplicates
        counts["duplicates"] = int(twice.sum())
        records = records.take(np.repeat(np.arange(len(records)), 1 + twice))
    if observation.late:
        late = rng.random(len(records)) < observation.late
        counts["late"] = int(late.sum())
        delay = rng.exponential(observation.late_mean_s * 1e9, len(records))
        records = records.take(_order(records, np.where(late, delay, 0.0)))
    return records, counts


def _lost(switch: Int64, observation: Observation, rng: np.random.Generator) -> Bool:
    """Mark lost records; `loss_packet` records of one exporter in a row share a packet."""
    order = np.argsort(switch, kind="stable")
    place = np.empty(len(switch), dtype=np.int64)
    first = np.searchsorted(switch[order], switch[order])
    place[order] = (np.arange(len(switch)) - first) // observation.loss_packet
    _, packet = np.unique(switch * (len(switch) + 1) + place, return_inverse=True)
    gone: Bool = rng.random(int(packet.max(initial=-1)) + 1) < observation.loss
    return gone[packet]


def _order(records: Records, delay_ns: Float64) -> Int64:
    arrival = records.end_ns + np.rint(delay_ns).astype(np.int64)
    keys = (records.switch, records.src_port, records.dst, records.src, records.start_ns, records.end_ns, arrival)
    return np.lexsort(keys)


def _table(records: Records, observation: Observation, network: Network) -> pa.Table:
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
        "sampling_rate": np.full(len(records), observation.sampling, dtype=np.uint32),
    }
    if observation.path:
        held = records.route >= 0
        offsets = np.concatenate([[0], np.cumsum(held.sum(axis=1))]).astype(np.int32)
        columns["path"] = pa.ListArray.from_arrays(pa.array(offsets), _texts(records.route[held], network.switches))
    return pa.table(columns)


def _texts(index: Index, values: npt.NDArray[np.str_]) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(index, pa.int32()), pa.array(values, pa.string())).cast(pa.string())
