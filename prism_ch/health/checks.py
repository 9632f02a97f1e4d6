"""Checks and measures what a running service needs: its folders and disks, and its database."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, get_args

import pyarrow as pa

from prism_ch.errors import PrismError, StoreError
from prism_ch.model.finding import FindingKind, Severity
from prism_ch.settings import Settings
from prism_ch.store.client import Store
from prism_ch.store.due_windows import WindowSelection, due_windows
from prism_ch.store.ledger import closed_until_ns
from prism_ch.store.migrate import require_schema
from prism_ch.store.statements import statement
from prism_ch.store.url import EmbeddedLocation, parse_url
from prism_ch.worker import inputs_digest

State = Literal["ok", "warn", "bad"]

#: Shares of a disk that should be free: below the first somebody must act, below the second the engine soon stops.
_FREE_WARN, _FREE_BAD = 0.10, 0.02
_FREE_BAD_BYTES = 1 << 30
#: A share of rejected records above this is no accident.
_REJECTED_SHARE = 0.01
#: Files that failed which are shown, and how much of the reason of each, in characters.
_SHOWN, _REASON_CHARS = 3, 300
#: Numbers of closed windows that wait; a few always do, while the newest are analysed.
_BEHIND_WARN, _BEHIND_BAD = 5, 60
#: A flow that ends longer than this after its record arrived, in seconds, shows a clock that is ahead.
_AHEAD_S = 1.0
#: Values of one label that are measured. The largest fabrics have some thousand switches; each value is one row a tick.
LABELS_MAX = 4096

#: The meaning of each measure and the names of its labels, with blanks between; measures whose name ends in _total are
#: counters.
MEASURES = {
    "exporter_lag_seconds": ("Since the end of the exporter's last flow, seconds", "exporter"),
    "exporter_silent_seconds": ("Since the exporter's last record arrived, seconds", "exporter"),
    "records_landed_total": ("Flow records that can be used, as delivered", ""),
    "records_rejected_total": ("Flow records that can not be used", "reason"),
    "flows_late": ("Flow records that arrived after their window was first worked", ""),
    "windows_worked": ("Windows that have been worked", ""),
    "windows_failed": ("Windows whose last working failed", ""),
    "windows_partial": ("Windows that have been worked without a job that failed", ""),
    "windows_behind": ("Windows that are closed and wait to be worked, new or changed", ""),
    "incidents_open": ("Incidents that still last", "severity kind"),
    "incidents_open_lost_gpu_hours": ("What incidents that still last have cost so far, GPU-hours", ""),
    "stage_seconds": ("What the last workings of all windows took, seconds", "stage"),
    "task_failures": ("Failures of the task in a row, until now", "task"),
    "task_success_time_seconds": ("When the task last succeeded, Unix seconds", "task"),
    "task_failure_time_seconds": ("When the task last failed, Unix seconds", "task"),
    "task_running_seconds": ("How long the task has been at work, seconds; 0 while it rests", "task"),
    "task_units_total": ("What the task has done since the service started: files, windows", "task"),
    "spool_files": ("Files that wait in the spool", ""),
    "memory_bytes": ("Memory of the service in use, bytes", ""),
    "labels_left_out": ("Values of the measure's label that are not shown, as there are too many", "measure"),
    "database_up": ("1 where the database answers, else 0", ""),
}


@dataclass(frozen=True, slots=True)
class Check:
    """The result of one check: what was found, and how to mend it.

    The state `bad` stops or spoils the results, `warn` makes them poorer; `mend` is empty for `ok`.
    """

    name: str
    state: State
    what: str
    mend: str = ""


def guarded(name: str, run: Callable[[], list[Check]], mend: str) -> list[Check]:
    """Run checks. An expected error becomes a bad one of the given name."""
    try:
        return run()
    except (PrismError, OSError) as error:
        return [Check(name, "bad", str(error), mend)]


def check_machine(settings: Settings) -> list[Check]:
    """Check the folders on this machine: of the embedded database, and the spool."""
    location, spool = parse_url(settings.url), settings.serve.spool
    checks = [] if spool is None else [_check_spool(spool)]
    if isinstance(location, EmbeddedLocation):
        checks.append(_check_disk("disk of the database", location.folder))
    if spool is not None:
        checks.append(_check_disk("disk of the spool", spool))
    return checks


def _check_spool(spool: Path) -> Check:
    name = "spool"
    if not spool.is_dir():
        return Check(name, "bad", f"{spool} is no folder", f"mkdir -p '{spool}', or mend serve.spool")
    for folder in filter(Path.is_dir, (spool, spool / "done", spool / "failed")):
        if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
            return Check(name, "bad", f"{folder} can't be read and written", f"give user {os.geteuid()} rights on it")
    failed = spool / "failed"
    errors = sorted(failed.glob("*.error"), key=lambda path: path.lstat().st_mtime_ns, reverse=True)
    if errors:
        shown = "; ".join(f"{path.name.removesuffix('.error')!r}: {_first_line(path)}" for path in errors[:_SHOWN])
        mend = f"see {failed}/*.error; move what was mended back into {spool}, remove the rest"
        return Check(name, "warn", f"{len(errors):,} files could not be read to their end, the last: {shown}", mend)
    return Check(name, "ok", f"{spool} can be read and written, nothing has failed")


def _first_line(path: Path) -> str:
    """Return the reason in a file, shortened; a link is not followed."""
    if path.is_symlink() or not path.is_file():
        return "no reason"
    with path.open(encoding="utf-8", errors="replace") as file:
        return file.read(_REASON_CHARS).partition("\n")[0]


def _check_disk(name: str, folder: Path) -> Check:
    """Check the free space where a folder is, or would be."""
    existing = next(each for each in (folder.absolute(), *folder.absolute().parents) if each.exists())
    usage = shutil.disk_usage(existing)
    share = usage.free / usage.total
    what = f"{usage.free / 2**30:.1f} GiB ({share:.0%}) free at {existing}"
    if share >= _FREE_WARN and usage.free >= _FREE_BAD_BYTES:
        return Check(name, "ok", what)
    is_bad = share < _FREE_BAD or usage.free < _FREE_BAD_BYTES
    mend = "make room or a larger disk; landing stops when it is full, and goes on by itself once it is not"
    return Check(name, "bad" if is_bad else "warn", what, mend)


@dataclass(frozen=True, slots=True)
class Measure:
    """One number. `name` ends in its unit; `label` has a word for each of its labels, or is empty."""

    name: str
    label: str
    value: float


@dataclass(frozen=True, slots=True)
class Exporter:
    """The state of an exporter; the name of exporters that give none is empty.

    `lag_s` is the time since its last flow ended, `silent_s` since its last record arrived, `ahead_s` how far flows
    ended after their records arrived.
    """

    name: str
    lag_s: float
    silent_s: float
    ahead_s: float


def check_service(store: Store, settings: Settings) -> list[Check]:
    """Check the database: schema, parts, exporters, records, windows; only the schema if bad."""
    schema = _check_schema(store)
    if schema.state == "bad":
        return [schema]
    exporters = _read_exporters(store)
    return [
        schema,
        _check_parts(store),
        _check_silence(exporters, settings.serve.silent_after_s),
        _check_future(exporters),
        _check_rejected(store),
        _check_windows(store),
        _check_behind(_count_behind(store, settings)),
    ]


def measure_database(store: Store, settings: Settings) -> list[Measure]:
    """Read the measures that the database knows."""
    measures = [Measure("windows_behind", "", _count_behind(store, settings))]
    for each in _read_exporters(store):
        measures.append(Measure("exporter_lag_seconds", each.name, each.lag_s))
        measures.append(Measure("exporter_silent_seconds", each.name, each.silent_s))
    records = dict(store.rows(statement("health_records")))
    measures.append(Measure("records_landed_total", "", records.pop("", 0)))
    measures += [Measure("records_rejected_total", reason, number) for reason, number in records.items()]
    worked, failed, _, late, *_, partial, _ = store.rows(statement("health_windows"))[0]
    measures += [Measure("windows_worked", "", worked), Measure("windows_failed", "", failed)]
    measures.append(Measure("windows_partial", "", partial))
    measures.append(Measure("flows_late", "", late))
    measures += _measure_incidents(store)
    stages = store.rows(statement("health_stages"))
    measures += [Measure("stage_seconds", stage, seconds) for stage, _, seconds in stages]
    return bounded(measures)


def bounded(measures: Sequence[Measure]) -> list[Measure]:
    """Leave out measures of more labels than a reader can bear, and count them.

    Exporters and reasons have the names that collectors give them, any number of them.
    """
    labels: dict[str, int] = Counter()
    kept = []
    for each in sorted(measures, key=lambda each: (each.name, each.label)):
        labels[each.name] += 1
        if labels[each.name] <= LABELS_MAX:
            kept.append(each)
    left_out = {name: number - LABELS_MAX for name, number in labels.items() if number > LABELS_MAX}
    return kept + [Measure("labels_left_out", name, number) for name, number in left_out.items()]


def without_exporters(measures: Sequence[Measure]) -> list[Measure]:
    """Leave out measures of single exporters, and count them."""
    named = Counter(each.name for each in measures if MEASURES[each.name][1] == "exporter")
    kept = [each for each in measures if each.name not in named and each.label not in named]
    return kept + [Measure("labels_left_out", name, number) for name, number in named.items()]


def _measure_incidents(store: Store) -> list[Measure]:
    """Count the open incidents of each severity and kind.

    Where there is none, that is 0: readers keep the last number that they got.
    """
    rows = store.rows(statement("health_incidents"))
    counts = {f"{severity} {kind}": number for severity, kind, number, _ in rows}
    labels = [f"{severity} {kind}" for severity in get_args(Severity) for kind in get_args(FindingKind)]
    lost = Measure("incidents_open_lost_gpu_hours", "", sum(lost_gpu_h for *_, lost_gpu_h in rows))
    return [*(Measure("incidents_open", label, counts.get(label, 0)) for label in labels), lost]


def write_health(store: Store, process: str, checks: Iterable[Check], measures: Iterable[Measure]) -> None:
    """Write checks and measures to their tables, under the name of a process."""
    store.insert("health_log", pa.Table.from_pylist([{"process": process, **asdict(check)} for check in checks]))
    rows = [
        {"process": process, "measure": each.name, "label": each.label, "value": float(each.value)} for each in measures
    ]
    store.insert("measures_log", pa.Table.from_pylist(rows))


def _count_behind(store: Store, settings: Settings) -> int:
    """Count the closed windows that are new or changed and wait to be analysed."""
    closed = WindowSelection(until_ns=closed_until_ns(store, settings))
    return len(due_windows(store, settings.window_s, closed, inputs=inputs_digest(store, settings)))


def _read_exporters(store: Store) -> list[Exporter]:
    return [Exporter(*row) for row in store.rows(statement("health_exporters"))]


def _check_schema(store: Store) -> Check:
    try:
        require_schema(store)
    except StoreError as error:
        mend = "if it is not reachable, start it; if its schema is old, `prism-ch migrate`"
        return Check("database", "bad", str(error), mend)
    return Check("database", "ok", f"{store} answers and has this version's schema")


def _check_parts(store: Store) -> Check:
    """Check that the engine has set no part of a table aside. Nothing else shows that its rows are missing."""
    name = "parts"
    found = store.rows(statement("health_detached"))
    if not found:
        return Check(name, "ok", "the engine has set no part of a table aside")
    tables = ", ".join(f"{parts:,} of {table} ({', '.join(reasons)})" for table, parts, _, reasons in found[:_SHOWN])
    more = f" and of {len(found) - _SHOWN} more tables" if len(found) > _SHOWN else ""
    what = f"the engine has set parts aside, whose rows are not read: {tables}{more}"
    mend = "`prism-ch doctor --mend` attaches whole ones and removes those of which no row is missing any more"
    return Check(name, "bad", what, mend)


def _check_silence(exporters: Sequence[Exporter], silent_after_s: float) -> Check:
    name = "exporters"
    if not exporters:
        mend = "let a collector write to the spool, or `prism-ch ingest`"
        return Check(name, "warn", "no flow record has landed yet", mend)
    silent = [each for each in exporters if each.silent_s > silent_after_s]
    if not silent:
        return Check(name, "ok", f"all {len(exporters)} send")
    if len(silent) == len(exporters):
        what = f"none of {len(exporters)} has sent anything for {min(each.silent_s for each in silent):,.0f} s"
        return Check(name, "warn", what, "if jobs run, see whether the collector and its way to the spool work")
    longest = max(silent, key=lambda each: each.silent_s)
    what = f"{len(silent)} of {len(exporters)} are silent, {longest.name or 'unnamed'} for {longest.silent_s:,.0f} s"
    return Check(name, "warn", what, "see whether they still export, and whether their records reach the collector")


def _check_future(exporters: Sequence[Exporter]) -> Check:
    """Check that no flow ended after its record arrived."""
    name = "future records"
    ahead = [each for each in exporters if each.ahead_s > _AHEAD_S]
    if not ahead:
        return Check(name, "ok", "no flow ended after its record arrived")
    worst = max(ahead, key=lambda each: each.ahead_s)
    what = f"{len(ahead)} exporters sent flows of the future, {worst.name or 'unnamed'} by {worst.ahead_s:,.1f} s"
    return Check(name, "warn", what, "synchronise their clocks (NTP or PTP), and that of the database's machine")


def _check_rejected(store: Store) -> Check:
    name = "rejected records"
    records = dict(store.rows(statement("health_records")))
    total = sum(records.values())
    rejected = total - records.pop("", 0)
    if not rejected:
        return Check(name, "ok", f"none of {total:,}")
    reason = max(records, key=lambda each: records[each])
    what = f"{rejected:,} of {total:,}, most of them {reason}"
    if rejected <= _REJECTED_SHARE * total:
        return Check(name, "ok", what)
    return Check(name, "warn", what, f"look at some of them in flows_rejected, by reason = '{reason}'")


def _check_windows(store: Store) -> Check:
    name = "windows"
    worked, failed, _, _, start_s, error, attempts, partial, jobs = store.rows(statement("health_windows"))[0]
    if partial and not failed:
        what = f"{worked:,} worked, {partial:,} of them without jobs that failed: {jobs}"
        return Check(name, "warn", what, "report it with the log; the next version tries again, or `analyse --force`")
    if not failed:
        return Check(name, "ok", f"{worked:,} worked, none failed")
    start = datetime.fromtimestamp(start_s, UTC)
    what = f"the window of {start:%Y-%m-%d %H:%M:%S} UTC failed {attempts} times: {error}"
    mend = "mend what the error says; it is tried again by itself, and all that follows is worked again then"
    return Check(name, "bad", what, mend)


def _check_behind(behind: int) -> Check:
    state: State = "ok" if behind <= _BEHIND_WARN else "warn" if behind <= _BEHIND_BAD else "bad"
    mend = "" if state == "ok" else "wait, if much has just landed; else give the service more cores, or longer windows"
    return Check("windows behind", state, f"{behind:,} closed windows wait to be worked", mend)
