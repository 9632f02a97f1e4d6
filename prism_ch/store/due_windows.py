"""Which windows are due: those whose flows, inputs or predecessors are not those that the ledger has."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from prism_ch import __version__
from prism_ch.model.columns import Bool, Int64, UInt64
from prism_ch.model.window import Window
from prism_ch.store.client import Store
from prism_ch.store.statements import statement

_EARLIEST_NS, _LATEST_NS = -(2**63), 2**63 - 1
_LATEST_S = 2**32 - 1


@dataclass(frozen=True, slots=True)
class WindowSelection:
    """Which windows to analyse; times are nanoseconds since the epoch, None is no bound.

    `until_ns`: leave windows that end later for later. `from_ns`, `to_ns`: only windows that overlap [from, to) are due
    by themselves; analysed windows after a due one always follow it. `force`: take all windows within the bounds.
    `silent_until_ns`: windows without flows that end by then are due too, 0 where the cluster is not silent.
    """

    until_ns: int | None = None
    from_ns: int | None = None
    to_ns: int | None = None
    force: bool = False
    silent_until_ns: int = 0

    def overlaps(self, start_ns: Int64, length_ns: int) -> Bool:
        """Mask the windows of a length that are within the bounds, bool[n]."""
        end_ns = start_ns + length_ns
        begins = start_ns < (_LATEST_NS if self.to_ns is None else self.to_ns)
        ends = end_ns > (_EARLIEST_NS if self.from_ns is None else self.from_ns)
        return np.asarray(begins & ends & (end_ns <= (_LATEST_NS if self.until_ns is None else self.until_ns)))


ALL_WINDOWS = WindowSelection()


def final_until_ns(store: Store) -> int:
    """Return the latest start of a final window, nanoseconds since the epoch, or 0."""
    end_ns: int = store.scalar(statement("final_until"))
    return end_ns


def due_windows(
    store: Store, window_s: int, selection: WindowSelection = ALL_WINDOWS, *, inputs: int = 0, final: bool = False
) -> list[Window]:
    """List the windows to analyse, in order of time.

    Parameters: `window_s`, length of a window; with another length than before all windows are due again, and the
    ledger's old rows are superseded. `inputs`: digest (64 bits) of all else the results depend on, such as topology and
    parameters; a window analysed with another is due again. `final`: list instead those that would be due but are left
    as they are, since raw flows that they rest on may be gone.

    1. A window that holds flows is due where it was never worked, failed, was worked in part by another version, was
       worked with other flows or other inputs, or was worked before an earlier window was: results rest on those of all
       earlier windows.
    2. So is one without flows that follows the last one with any and ends by `silent_until_ns`: that nothing comes is
       news too.
    3. Every worked window after the first due one follows it, also those outside the bounds.

    Final windows are never worked again, whatever came or changed. The engine takes most of its time to read a
    statement, and would take several times as long to compare what two short ones give.
    """
    length_ns, final_ns = window_s * 10**9, final_until_ns(store)
    final_s = final_ns // 10**9
    first_s, last_s = (0, final_s + window_s - 1) if final else (final_s + 1, _LATEST_S)
    span = {"window_s": window_s, "first_s": first_s, "last_s": last_s}
    arrived = store.arrow(statement("arrived_windows"), span)
    start_ns: Int64 = arrived["number"].to_numpy().astype(np.int64) * length_ns
    listed = (start_ns <= final_ns) == final
    start_ns, prints = start_ns[listed], arrived["fingerprint"].to_numpy()[listed]
    ledger = _Ledger.read(store, length_ns, {"final_until_s": final_s, "final": int(final)})
    silent: list[Int64] = []
    if len(start_ns) and not final:
        after = np.arange(start_ns.max() + length_ns, selection.silent_until_ns - length_ns + 1, length_ns)
        silent = [after, ledger.start_ns[ledger.is_silent & (ledger.start_ns > final_ns)]]
    present = np.unique(np.concatenate([start_ns, *silent]))
    fingerprint = np.zeros(len(present), dtype=np.uint64)
    fingerprint[np.searchsorted(present, start_ns)] = prints
    before = ledger.revision[ledger.start_ns <= final_ns].max(initial=0)  # the last analysis of any final window
    known = ledger.of(present)
    changed = ~known.is_worked | (known.fingerprint != fingerprint) | (known.inputs != np.uint64(inputs))
    if not final:
        changed |= known.revision < np.maximum(np.maximum.accumulate(known.revision), before)
    due = (changed | selection.force) & selection.overlaps(present, length_ns)
    if not final:
        due |= (known.revision > 0) & np.logical_or.accumulate(due)
    return [Window(one, one + length_ns) for one in present[due].tolist()]


@dataclass(frozen=True, slots=True)
class _Ledger:
    """The last analysis of windows: `start_ns` int64[n], rising; what it was of; whether it counts as worked."""

    start_ns: Int64
    revision: UInt64
    fingerprint: UInt64
    inputs: UInt64
    is_worked: Bool
    is_silent: Bool

    @classmethod
    def read(cls, store: Store, length_ns: int, bounds: dict[str, int]) -> _Ledger:
        """Read those of windows of one length, which was not another one since.

        `bounds`: of windows that are final, one is read.
        """
        rows = store.arrow(statement("worked_windows"), {"version": __version__, **bounds})
        columns = {name: rows[name].to_numpy() for name in rows.column_names}
        other = columns.pop("length_ns") != length_ns
        kept = ~other & (columns["revision"] > columns["revision"][other].max(initial=0))
        kept = np.flatnonzero(kept)[np.argsort(columns["start_ns"][kept])]
        flags = {name: columns[name][kept].astype(np.bool_) for name in ("is_worked", "is_silent")}
        return cls(**{name: column[kept] for name, column in columns.items()} | flags)

    def of(self, start_ns: Int64) -> _Ledger:
        """Return what is known of some windows; nothing is 0."""
        row = np.searchsorted(self.start_ns, start_ns)
        known = row < len(self.start_ns)
        known[known] = self.start_ns[row[known]] == start_ns[known]
        names = ("revision", "fingerprint", "inputs", "is_worked", "is_silent")
        found = {name: np.zeros(len(start_ns), dtype=getattr(self, name).dtype) for name in names}
        for name, column in found.items():
            column[known] = getattr(self, name)[row[known]]
        return _Ledger(start_ns, **found)
