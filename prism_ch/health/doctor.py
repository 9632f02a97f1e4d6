"""The checks of `prism-ch doctor`: configuration, database, topology, clocks and timeouts of exporters, folders."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from prism_ch.errors import SettingsError, StoreError
from prism_ch.health.checks import Check, check_machine, check_service, guarded
from prism_ch.health.integrity import check_files, check_rows, mend_database
from prism_ch.ingest.topology_check import examine_topology
from prism_ch.settings import Settings
from prism_ch.store.client import Store
from prism_ch.store.migrate import require_schema
from prism_ch.store.statements import statement
from prism_ch.store.topology import read_topology_rows

#: A clock offset above this, in seconds, spoils the order of events; the shortest steps take a few times as long.
_OFFSET_S = 0.1
#: Mistakes in the topology that are shown; all are by `prism-ch topology FILE --check`.
_SHOWN = 3
_HANGS = "see whether the database works or hangs"
#: An idle timeout above this share of a step merges the bursts of the step into one record.
_IDLE_SHARE = 0.05


@dataclass(frozen=True, slots=True)
class _Inferred:
    """What was inferred about an exporter, and the median step of the fastest job."""

    exporter: str
    clock_offset_s: float | None
    idle_timeout_s: float | None
    step_s: float | None


def examine(
    load: Callable[[], Settings],
    load_schedule: Callable[[Settings], object],
    open_store: Callable[[], AbstractContextManager[Store]],
) -> list[Check]:
    """Run all checks; those that need what an earlier one found missing are left out.

    Parameters: `load` reads the settings, `load_schedule` their schedule; both may raise SettingsError. `open_store`
    opens their database.
    """
    try:
        settings = load()
        load_schedule(settings)
    except SettingsError as error:
        return [Check("configuration", "bad", str(error), "mend the file, the environment or the option it names")]
    checks = [Check("configuration", "ok", "settings and schedule can be read")]
    try:
        with open_store() as store:
            checks += guarded("database", lambda: _check_database(store, settings), _HANGS)
    except SettingsError as error:
        checks.append(Check("database", "bad", str(error), "mend --url or PRISM_CH_URL"))
    except StoreError as error:
        checks.append(Check("database", "bad", str(error), "start the database, or mend --url or PRISM_CH_URL"))
    else:
        checks += guarded("machine", lambda: check_machine(settings), "give the user rights on the folders")
    return checks


def mend(load: Callable[[], Settings], open_store: Callable[[], AbstractContextManager[Store]]) -> list[str]:
    """Mend what the database needs nothing from outside for; return what was done, see mend_database()."""
    with open_store() as store:
        require_schema(store)
        return mend_database(store, load())


def _check_database(store: Store, settings: Settings) -> list[Check]:
    files = check_files(store)
    if any(check.state == "bad" for check in files):
        # What reads a damaged file fails by its own words.
        return files + guarded("database", lambda: check_service(store, settings), "mend the files first")
    checks = check_service(store, settings)
    if checks[0].state == "bad":
        return checks
    checks += files + check_rows(store, settings)
    exporters = [_Inferred(*row) for row in store.rows(statement("doctor_exporters"))]
    topology = [_check_topology(store), *_check_places(store)]
    return [*checks, *topology, _check_clocks(exporters), _check_idle_timeouts(exporters)]


def _check_topology(store: Store) -> Check:
    name = "topology"
    endpoints, seen, unknown, unknown_flows, flows, examples = store.rows(statement("doctor_topology"))[0]
    if not endpoints:
        return Check(name, "bad", "none is loaded, so no job can be found", "`prism-ch topology topology.csv`")
    if not unknown:
        what = f"{endpoints:,} endpoints, {seen:,} of them seen in flows; it covers all addresses seen"
        return Check(name, "ok", what)
    share = unknown_flows / flows
    what = f"{unknown:,} addresses in flows are not in it ({', '.join(examples)}): {share:.1%} of the records"
    mend = "add the GPUs among them to topology.csv and load it again; others may stay out"
    return Check(name, "warn" if seen else "bad", what, mend)


def _check_places(store: Store) -> list[Check]:
    """Check the loaded topology against itself and traffic, if there is one."""
    name, rows = "places of endpoints", read_topology_rows(store)
    if not rows:
        return []
    report = examine_topology(rows, store)
    against = f"itself and the traffic of {report.pairs:,} pairs" if report.pairs else "itself, as it has no traffic"
    if not report.problems:
        return [Check(name, "ok", f"nothing is wrong in the topology, checked against {against}")]
    shown = [f"{problem.reason} ({problem.mend})" for problem in report.problems[:_SHOWN]]
    more = len(report.problems) - len(shown)
    what = "; ".join(shown) + (f"; and {more:,} more" if more else "")
    return [Check(name, "warn", what, "see the lines with `prism-ch topology topology.csv --check`, and load it again")]


def _check_clocks(exporters: Sequence[_Inferred]) -> Check:
    name = "clocks"
    offsets = {each.exporter: each.clock_offset_s for each in exporters if each.clock_offset_s is not None}
    if not offsets:
        return Check(name, "ok", "no offset could be inferred")
    worst = max(offsets, key=lambda exporter: abs(offsets[exporter]))
    if abs(offsets[worst]) <= _OFFSET_S:
        return Check(name, "ok", f"{len(offsets)} exporters agree within {abs(offsets[worst]):.3f} s")
    off = sum(abs(offset_s) > _OFFSET_S for offset_s in offsets.values())
    what = f"{off} of {len(offsets)} exporters are off, {worst} by {offsets[worst]:+.3f} s"
    return Check(name, "warn", what, "synchronise their clocks (NTP or PTP)")


def _check_idle_timeouts(exporters: Sequence[_Inferred]) -> Check:
    name = "idle timeouts"
    known = [(each.exporter, each.idle_timeout_s, each.step_s) for each in exporters if each.idle_timeout_s is not None]
    if not known:
        return Check(name, "ok", "none could be inferred")
    long = [
        (exporter, idle_s, step_s) for exporter, idle_s, step_s in known if step_s and idle_s > _IDLE_SHARE * step_s
    ]
    if not long:
        return Check(name, "ok", f"short enough at all {len(known)} exporters where one could be inferred")
    exporter, idle_s, step_s = max(long, key=lambda each: each[1])
    merging = f"{len(long)} of {len(known)} exporters merge too much"
    what = f"{merging}: {exporter} waits {idle_s:.3g} s of {step_s:.3g} s steps"
    return Check(name, "warn", what, f"set their idle (inactive) timeout below {_IDLE_SHARE * step_s:.3g} s")
