"""Adds up what each server sent, moment by moment, for counters of bytes a second."""

from __future__ import annotations

import numpy as np

from prism_ch.core.arrays import ranges
from prism_ch.export.messages import Sent
from prism_ch.model.columns import Int32, Int64

#: Values a step: enough to see its phases, few beside these.
_VALUES_PER_STEP = 20
#: Values are not closer than this, in nanoseconds.
_MIN_BIN_NS = 1_000_000


class Rates:
    """Sums of bytes by server and bin of time; the bytes of a record are spread evenly over its time.

    Bins are closed as time goes on. What a later record sent in a closed bin is left out.
    """

    def __init__(self, start_ns: int, step_s: float) -> None:
        self._bin_ns = max(round(step_s * 1e9 / _VALUES_PER_STEP), _MIN_BIN_NS)
        self._start_ns = start_ns
        self._first = 0
        self._sums = np.zeros((0, 0))

    def add(self, sent: Sent, server: Int32) -> None:
        """Add records; `server` int32[endpoints] numbers the server of each endpoint."""
        sent = sent.take(sent.src >= 0)
        begin, end = sent.start_ns - self._start_ns, np.maximum(sent.end_ns, sent.start_ns + 1) - self._start_ns
        low = np.maximum(begin // self._bin_ns, self._first)
        bins = np.maximum((end - 1) // self._bin_ns - low + 1, 0)
        row = np.repeat(np.arange(len(sent)), bins)
        place = ranges(low, bins)
        overlap = np.minimum(end[row], (place + 1) * self._bin_ns) - np.maximum(begin[row], place * self._bin_ns)
        share = sent.bytes[row] * (overlap / (end - begin)[row])
        self._widen(int(server.max(initial=-1)) + 1, int(place.max(initial=self._first - 1)) + 1 - self._first)
        width = self._sums.shape[1]
        cell = server[sent.src[row]].astype(np.int64) * width + place - self._first
        self._sums += np.bincount(cell, weights=share, minlength=self._sums.size).reshape(self._sums.shape)

    def close(self, until_ns: int | None) -> tuple[Int64, Int64, Int64]:
        """Close the bins that end by a time, all if it is None.

        Returns the server, the time in nanoseconds and the value in bytes a second wherever the value changes, sorted
        by (server, time); after the last bin all values are 0.
        """
        width = self._sums.shape[1]
        closed = width if until_ns is None else (until_ns - self._start_ns) // self._bin_ns - self._first
        closed = min(max(closed, 0), width)
        rates = np.rint(self._sums[:, :closed] * (1e9 / self._bin_ns)).astype(np.int64)
        self._sums = self._sums[:, closed:]
        if until_ns is None and self._first + width:
            rates = np.pad(rates, ((0, 0), (0, 1)))
        changes = np.ones(rates.shape, dtype=bool)
        changes[:, 1:] = rates[:, 1:] != rates[:, :-1]
        server, place = np.nonzero(changes)
        time_ns = self._start_ns + (self._first + place) * self._bin_ns
        self._first += closed
        return server, time_ns, rates[server, place]

    def _widen(self, servers: int, bins: int) -> None:
        more = max(servers - self._sums.shape[0], 0), max(bins - self._sums.shape[1], 0)
        self._sums = np.pad(self._sums, ((0, more[0]), (0, more[1])))
