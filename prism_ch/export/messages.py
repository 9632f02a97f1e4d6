"""Reads what a job sent, from flow records, as the analysis reads them: once each, and by right clocks."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from prism_ch.analysis.observe import clocks
from prism_ch.analysis.observe.bursts import elect, read_bursts
from prism_ch.errors import StoreError
from prism_ch.export.reader import JobReader
from prism_ch.model.columns import Bool, Columns, Int32, Int64
from prism_ch.model.exporter import ExporterHistory
from prism_ch.model.params import Params
from prism_ch.model.topology import Topology
from prism_ch.model.traffic import Traffic
from prism_ch.model.window import Interval
from prism_ch.store.client import Store
from prism_ch.store.flows import read_flows
from prism_ch.store.read import read_exporter_history
from prism_ch.store.topology import read_topology

log = logging.getLogger(__name__)

_Read = TypeVar("_Read")

#: ClickHouse's code where a user may not read a table.
_ACCESS_DENIED = 497


@dataclass(frozen=True, slots=True)
class Sent(Columns):
    """What was sent, one a row: from and to which of the reader's endpoints, when, and how many bytes."""

    src: Int32
    dst: Int32
    start_ns: Int64
    end_ns: Int64
    bytes: Int64


class RecordReader:
    """Reads the flow records of a job, where its reader may: a tenant may not.

    There are none once the database has refused.
    """

    def __init__(self, reader: JobReader) -> None:
        self._store = reader.source.records
        self._reader = reader
        self._params = Params()
        self._known: tuple[Topology, ExporterHistory] | None = None
        self._known_until_ns = 0
        rows = reader.table("export_pairs").to_pylist() if self.is_open else []
        self._pairs = {(row["src_addr"], row["dst_addr"]) for row in rows}

    def around(self, time: Interval) -> Interval:
        """Widen a span by how far the exporters' clocks are off. What ends in it may be noted outside."""
        known = self._may(lambda store: self._surroundings(store, time))
        if known is None:
            return time
        reach_ns = clocks.reach_ns(known[1], self._params.clocks)
        return Interval(time.start_ns - reach_ns, time.end_ns + reach_ns)

    def read(self, time: Interval) -> tuple[Sent, Sent]:
        """Read the records that end in a span of time.

        Returns the pipeline messages that they make, and the records themselves.
        """
        return self._may(lambda store: self._read(store, time)) or (Sent.empty(), Sent.empty())

    @property
    def is_open(self) -> bool:
        """Whether records may be read, as far as is known."""
        return self._store is not None

    def _may(self, read: Callable[[Store], _Read]) -> _Read | None:
        """Read records. Returns None, now and from here on, if the database refuses."""
        if self._store is None:
            return None
        try:
            return read(self._store)
        except StoreError as error:
            if error.code != _ACCESS_DENIED:
                raise
            log.debug("records not read error=%r", error)
            self._store = None
        return None

    def _surroundings(self, store: Store, time: Interval) -> tuple[Topology, ExporterHistory]:
        """Return the topology and the exporters' clocks, which are read once for a while."""
        if self._known is None or time.end_ns > self._known_until_ns:
            while_ns = self._params.clocks.remembered_s * 10**9
            self._known_until_ns = time.end_ns + while_ns
            history = read_exporter_history(store, time.start_ns - while_ns, self._known_until_ns)
            self._known = read_topology(store, time.end_ns), history
        return self._known

    def _read(self, store: Store, time: Interval) -> tuple[Sent, Sent]:
        params = self._params
        topology, history = self._surroundings(store, time)
        rows = np.array([topology.index.get(endpoint, -1) for endpoint in self._reader.endpoints], dtype=np.int32)
        number = np.full(len(topology) + 1, -1, dtype=np.int32)  # the last row takes what the topology does not know
        number[rows] = np.arange(len(rows), dtype=np.int32)
        batch = read_flows(store, topology, time.start_ns, time.end_ns, endpoints=np.flatnonzero(number[:-1] >= 0))
        if not len(batch):
            return Sent.empty(), Sent.empty()
        ticks_ns = batch.ticks_ns()
        blurs_ns = clocks.blurs_ns(ticks_ns, params.clocks)
        flows = elect(clocks.correct(batch, history, params.clocks), blurs_ns)
        bursts = read_bursts(flows, blurs_ns, ticks_ns, params.observe)
        bursts = bursts.take(self._is_pipeline(topology, bursts)[bursts.pair])
        messages = Sent(number[bursts.src], number[bursts.dst], bursts.start_ns, bursts.end_ns, bursts.payload)
        return messages, Sent(number[flows.src], number[flows.dst], flows.start_ns, flows.end_ns, flows.bytes)

    def _is_pipeline(self, topology: Topology, bursts: Traffic) -> Bool:
        """Mask the pairs of bursts that exchange pipeline messages, bool[pairs]."""
        names = topology.endpoints
        pairs = zip(bursts.pair_src, bursts.pair_dst, strict=True)
        return np.array([(names[src], names[dst]) in self._pairs for src, dst in pairs], dtype=bool)
