"""Flow records before they are written: what exporters count, and how they cut, sample and repeat it."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np
import numpy.typing as npt

from prism_ch.model.columns import Int32, Int64
from prism_ch.simulate.cluster import Network
from prism_ch.simulate.scenario import Observation
from prism_ch.simulate.transfers import MONITOR, SERVING, STARTUP, STORAGE, STRAY, Transfers

ROCE_PORT, TCP_PORT = 4791, 29_500
TCP, UDP = 6, 17
#: Bytes of headers a packet that a flow exporter counts: IPv4, UDP, BTH and ICRC; or IPv4 and TCP with timestamps.
ROCE_HEADER_BYTES, TCP_HEADER_BYTES = 44, 52
TCP_MTU_BYTES = 1448
#: What a switch may count besides: nothing, Ethernet, Ethernet with its checksum.
_EXTRA_HEADER_BYTES = np.array([0, 14, 18])
_FIRST_EPHEMERAL = 49_152
_SURROUNDING = (STORAGE, MONITOR, STARTUP, STRAY)


@dataclass(frozen=True, slots=True)
class Records:
    """One row a record, int64 columns; `switch` is one of the Network's, `route` int32[n, 3] as its route gives it."""

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

    def __len__(self) -> int:
        """Count the records."""
        return len(self.start_ns)

    def take(self, rows: npt.NDArray[np.bool_] | npt.NDArray[np.integer]) -> Records:
        """Return the rows of a mask or an index, in that order."""
        return Records(*(getattr(self, f.name)[rows] for f in fields(self)))

    def joined(self, other: Records) -> Records:
        """Return these rows, then those of another."""
        return Records(*(np.concatenate([getattr(self, f.name), getattr(other, f.name)]) for f in fields(self)))


def first_records(transfers: Transfers, observation: Observation, network: Network, seed: list[int]) -> Records:
    """Return one faultless record a flow, as its first switch counts it."""
    nics = network.cluster.servers * network.cluster.nics
    outside = (transfers.src >= nics) | (transfers.dst >= nics)
    tcp = np.isin(transfers.kind, _SURROUNDING) | ((transfers.kind == SERVING) & outside)
    tcp |= observation.transport == "tcp"
    counted, packets = count(transfers.payload_bytes, tcp, observation, seed)
    mixed = transfers.src.astype(np.int64) * 2_654_435_761 + transfers.dst.astype(np.int64) * 40_503
    # a queue pair keeps its port; every TCP connection of the surroundings has one of its own
    once = np.where(np.isin(transfers.kind, _SURROUNDING), transfers.start_ns // 1000, 0)
    port = _FIRST_EPHEMERAL + (mixed % 16_381 + transfers.queue.astype(np.int64) * 613 + once) % 16_381
    route = network.route(transfers.src, transfers.dst, port)
    return Records(
        start_ns=transfers.start_ns,
        end_ns=transfers.end_ns,
        src=transfers.src.astype(np.int64),
        dst=transfers.dst.astype(np.int64),
        src_port=port,
        dst_port=np.where(tcp, TCP_PORT, ROCE_PORT),
        proto=np.where(tcp, TCP, UDP),
        bytes=counted,
        packets=packets,
        switch=route[:, 0].astype(np.int64),
        route=route,
    )


def count(
    payload_bytes: Int64, tcp: npt.NDArray[np.bool_], observation: Observation, seed: list[int]
) -> tuple[Int64, Int64]:
    """Return what an exporter counts for each flow: bytes with headers, and packets.

    TCP segments are of uneven size, so that equal payloads differ in packets, and by their headers in bytes.
    """
    packets = np.maximum(-(-payload_bytes // np.where(tcp, TCP_MTU_BYTES, observation.mtu_bytes)), 1)
    if tcp.any():
        uneven = np.random.default_rng(seed).gamma(1.5, 0.15, len(packets))
        packets = np.where(tcp, np.rint(packets * (1 + uneven)).astype(np.int64), packets)
    return payload_bytes + packets * np.where(tcp, TCP_HEADER_BYTES, ROCE_HEADER_BYTES), packets


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
    return records.joined(back)


def merged(records: Records, idle_ns: int) -> Records:
    """Return the records of a flow table that ends an entry after `idle_ns` of silence: closer flows become one."""
    if not len(records):
        return records
    keys = (records.src, records.dst, records.src_port, records.dst_port, records.proto)
    order = np.lexsort((records.start_ns, *keys))
    held = records.take(order)
    changed = np.zeros(len(held), dtype=bool)
    changed[:1] = True
    for key in keys:
        changed[1:] |= np.diff(key[order]) != 0
    group = np.cumsum(changed) - 1
    # what ends last so far, within each 5-tuple: every 5-tuple's times are moved behind those of the one before
    base, span = held.end_ns.min(), np.ptp(held.end_ns) + 1
    latest = np.maximum.accumulate(held.end_ns - base + group * span) - group * span + base
    fresh = changed.copy()
    fresh[1:] |= held.start_ns[1:] - latest[:-1] > idle_ns
    first = np.flatnonzero(fresh)
    return replace(
        held.take(first),
        end_ns=np.maximum.reduceat(held.end_ns, first),
        bytes=np.add.reduceat(held.bytes, first),
        packets=np.add.reduceat(held.packets, first),
    )


def cut(records: Records, active_ns: int) -> Records:
    """Return the records with those longer than `active_ns` reported in pieces, each at most that long."""
    duration = records.end_ns - records.start_ns
    pieces = np.maximum(-(-duration // active_ns), 1)
    rows = np.repeat(np.arange(len(records)), pieces)
    piece = np.arange(len(rows)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    whole = records.take(rows)
    start = whole.start_ns + piece * active_ns
    end = np.minimum(start + active_ns, whole.end_ns)
    until = (end - whole.start_ns) / np.maximum(duration[rows], 1)
    since = (start - whole.start_ns) / np.maximum(duration[rows], 1)
    last = piece == pieces[rows] - 1

    def part(total: Int64) -> Int64:
        upto = np.where(last, total, np.floor(total * until))
        return np.asarray(upto - np.floor(total * since), dtype=np.int64)

    packets = part(whole.packets)
    return replace(whole, start_ns=start, end_ns=end, bytes=part(whole.bytes), packets=packets).take(packets > 0)


def sampled(records: Records, one_in: int, rng: np.random.Generator) -> Records:
    """Return what is left of the records when one packet in `one_in` is looked at, scaled up again.

    First and last sighting lie inside the flow: the extremes of as many uniform draws as packets were seen.
    """
    seen = rng.binomial(records.packets, 1.0 / one_in)
    kept = records.take(seen > 0)
    seen = seen[seen > 0]
    low, high = rng.beta(1, seen), rng.beta(1, seen)
    duration = kept.end_ns - kept.start_ns
    first = np.where(seen == 1, rng.random(len(seen)), np.minimum(low, 1 - high))
    last = np.where(seen == 1, first, np.maximum(low, 1 - high))
    size = kept.bytes / kept.packets
    return replace(
        kept,
        start_ns=kept.start_ns + np.floor(first * duration).astype(np.int64),
        end_ns=kept.start_ns + np.floor(last * duration).astype(np.int64),
        packets=seen * one_in,
        bytes=np.rint(seen * one_in * size).astype(np.int64),
    )


def seen_on_the_way(records: Records, rng: np.random.Generator) -> Records:
    """Return each record once a switch it passes, a microsecond apart, counted with that switch's idea of headers."""
    row, hop = np.nonzero(records.route >= 0)
    spread = records.take(row)
    switch = records.route[row, hop].astype(np.int64)
    extra = _EXTRA_HEADER_BYTES[switch % len(_EXTRA_HEADER_BYTES)]
    missed = np.minimum(rng.poisson(spread.packets * 2e-5), spread.packets - 1)
    packets = spread.packets - np.where(hop > 0, missed, 0)
    size = spread.bytes / spread.packets
    return replace(
        spread,
        start_ns=spread.start_ns + hop * 1000,
        end_ns=spread.end_ns + hop * 1000,
        switch=switch,
        packets=packets,
        bytes=np.rint(packets * (size + extra)).astype(np.int64),
    )
