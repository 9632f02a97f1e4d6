"""What the records show of the exporters that made them, window by window."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from prism_ch.model.columns import Columns, Float64, Int32, Int64


@dataclass(frozen=True, slots=True)
class Timeouts(Columns):
    """Inferred timeouts, one row an exporter of the batch they were inferred from, float64 each, in seconds.

    `idle_s` is the silence after which a record is closed, where its edge shows; `idle_at_most_s` the shortest silence
    seen between two records of one flow: the idle timeout is no longer, but may be much shorter. `active_s` is the
    length at which a record is closed though its flow goes on. NaN where nothing shows it.
    """

    exporters: tuple[str, ...]
    idle_s: Float64
    idle_at_most_s: Float64
    active_s: Float64

    def __post_init__(self) -> None:
        Columns.__post_init__(self)
        _check_names(self.exporters, len(self.idle_s))


@dataclass(frozen=True, slots=True)
class ExporterStates(Columns):
    """What one window shows of the exporters in it, one a row.

    `clock_offset_s` is how far the clock is ahead of most others', NaN where nothing shows it; `clock_uncertainty_s`
    its standard deviation, NaN likewise; `clock_matches` counts the observations matched with those of others.
    `idle_timeout_s` and `active_timeout_s` are when it closes records, NaN where they don't show (see Timeouts).
    """

    exporters: tuple[str, ...]
    clock_offset_s: Float64
    clock_uncertainty_s: Float64
    clock_matches: Int64
    idle_timeout_s: Float64
    active_timeout_s: Float64

    def __post_init__(self) -> None:
        Columns.__post_init__(self)
        _check_names(self.exporters, len(self.clock_matches))

    @classmethod
    def unknown(cls, exporters: Sequence[str]) -> ExporterStates:
        """Return exporters without any observation."""
        nothing = np.full(len(exporters), np.nan)
        return cls(tuple(exporters), nothing, nothing, np.zeros(len(exporters), dtype=np.int64), nothing, nothing)

    def closing_after(self, timeouts: Timeouts) -> ExporterStates:
        """Return the same exporters with the timeouts inferred of them."""
        row = {name: place for place, name in enumerate(timeouts.exporters)}
        mine = [row[name] for name in self.exporters]
        return replace(self, idle_timeout_s=timeouts.idle_s[mine], active_timeout_s=timeouts.active_s[mine])


@dataclass(frozen=True, slots=True)
class ExporterHistory(Columns):
    """The clock offsets that windows found, one row an exporter and window, sorted by (exporter, window_start_ns).

    `exporter` is an index into `exporters`; no offset is NaN.
    """

    exporter: Int32
    window_start_ns: Int64
    clock_offset_s: Float64
    clock_uncertainty_s: Float64
    exporters: tuple[str, ...] = ()

    def since(self, from_ns: int) -> ExporterHistory:
        """Return what windows found that start at a time or later."""
        return self.take(self.window_start_ns >= from_ns)

    def followed_by(self, states: ExporterStates, window_start_ns: int) -> ExporterHistory:
        """Return the history with what the next window found added to it."""
        known = np.flatnonzero(~np.isnan(states.clock_offset_s))
        found = [states.exporters[row] for row in known]
        names = tuple(sorted({*self.exporters, *found}))
        code = {name: place for place, name in enumerate(names)}
        exporter = np.array([code[self.exporters[row]] for row in self.exporter] + [code[name] for name in found])
        order = np.argsort(exporter, kind="stable")
        return ExporterHistory(
            exporter[order],
            np.concatenate([self.window_start_ns, np.full(len(known), window_start_ns)])[order],
            np.concatenate([self.clock_offset_s, states.clock_offset_s[known]])[order],
            np.concatenate([self.clock_uncertainty_s, states.clock_uncertainty_s[known]])[order],
            names,
        )

    def latest_offset_s(self, exporters: Sequence[str]) -> Float64:
        """Return the offset last found of each exporter, float64[exporters]; NaN without."""
        last = {self.exporters[code]: row for row, code in enumerate(self.exporter.tolist())}
        found = [self.clock_offset_s[last[name]] if name in last else np.nan for name in exporters]
        return np.array(found, dtype=np.float64)


def _check_names(exporters: tuple[str, ...], rows: int) -> None:
    if len(exporters) != rows:
        raise ValueError(f"{len(exporters)} exporters, but {rows} rows in the columns")
