"""What the records show of the exporters that made them, window by window."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from prism_ch.model.columns import Float64, Int32, Int64, freeze


@dataclass(frozen=True, slots=True)
class Timeouts:
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
        """Check and freeze the columns."""
        freeze(self, idle_s=np.float64, idle_at_most_s=np.float64, active_s=np.float64)
        if len(self.exporters) != len(self.idle_s):
            raise ValueError(f"{len(self.exporters)} exporters, but {len(self.idle_s)} rows in the columns")


@dataclass(frozen=True, slots=True)
class ExporterStates:
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
        """Check and freeze the columns."""
        freeze(
            self,
            clock_offset_s=np.float64,
            clock_uncertainty_s=np.float64,
            clock_matches=np.int64,
            idle_timeout_s=np.float64,
            active_timeout_s=np.float64,
        )
        if len(self.exporters) != len(self.clock_matches):
            raise ValueError(f"{len(self.exporters)} exporters, but {len(self.clock_matches)} rows in the columns")

    def __len__(self) -> int:
        """Count the exporters."""
        return len(self.exporters)

    @classmethod
    def unknown(cls, exporters: Sequence[str]) -> ExporterStates:
        """Return exporters of which nothing is known."""
        nothing = np.full(len(exporters), np.nan)
        return cls(tuple(exporters), nothing, nothing, np.zeros(len(exporters), dtype=np.int64), nothing, nothing)

    def closing_after(self, timeouts: Timeouts) -> ExporterStates:
        """Return the same exporters with the timeouts that were inferred, of these and maybe others."""
        row = {name: place for place, name in enumerate(timeouts.exporters)}
        mine = [row[name] for name in self.exporters]
        return replace(self, idle_timeout_s=timeouts.idle_s[mine], active_timeout_s=timeouts.active_s[mine])


@dataclass(frozen=True, slots=True)
class ExporterHistory:
    """The clock offsets that windows found, one row an exporter and window, sorted by (exporter, window_start_ns).

    `exporter` is an index into `exporters`; no offset is NaN.
    """

    exporter: Int32
    window_start_ns: Int64
    clock_offset_s: Float64
    clock_uncertainty_s: Float64
    exporters: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check and freeze the columns."""
        freeze(
            self,
            exporter=np.int32,
            window_start_ns=np.int64,
            clock_offset_s=np.float64,
            clock_uncertainty_s=np.float64,
        )

    def __len__(self) -> int:
        """Count the rows."""
        return len(self.exporter)

    @classmethod
    def none(cls) -> ExporterHistory:
        """Return the history of no exporter."""
        nothing = np.empty(0)
        return cls(nothing.astype(np.int32), nothing.astype(np.int64), nothing, nothing)

    def since(self, from_ns: int) -> ExporterHistory:
        """Return what windows found that start at a time or later."""
        rows = self.window_start_ns >= from_ns
        return ExporterHistory(
            self.exporter[rows],
            self.window_start_ns[rows],
            self.clock_offset_s[rows],
            self.clock_uncertainty_s[rows],
            self.exporters,
        )

    def followed_by(self, states: ExporterStates, window_start_ns: int) -> ExporterHistory:
        """Return the history with what the next window found added to it."""
        known = np.flatnonzero(~np.isnan(states.clock_offset_s))
        names = tuple(sorted({*self.exporters, *(states.exporters[row] for row in known)}))
        number = {name: place for place, name in enumerate(names)}
        old = np.array([number[name] for name in self.exporters], dtype=np.int32)[self.exporter]
        new = np.array([number[states.exporters[row]] for row in known], dtype=np.int32)
        order = np.argsort(np.concatenate([old, new]), kind="stable")
        return ExporterHistory(
            np.concatenate([old, new])[order],
            np.concatenate([self.window_start_ns, np.full(len(known), window_start_ns)])[order],
            np.concatenate([self.clock_offset_s, states.clock_offset_s[known]])[order],
            np.concatenate([self.clock_uncertainty_s, states.clock_uncertainty_s[known]])[order],
            names,
        )

    def latest_offset_s(self, exporters: Sequence[str]) -> Float64:
        """Return the offset last found of each exporter by name, float64[len(exporters)], NaN where none was."""
        last = {self.exporters[code]: row for row, code in enumerate(self.exporter.tolist())}
        found = [self.clock_offset_s[last[name]] if name in last else np.nan for name in exporters]
        return np.array(found, dtype=np.float64)
