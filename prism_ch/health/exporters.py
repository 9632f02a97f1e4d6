"""How the exporters stand: do they send, are their clocks right, do they close flows in time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from prism_ch.health.light import Light
from prism_ch.store.client import Store
from prism_ch.store.statements import statement

#: Records whose flows end so long after they arrived show a clock that is ahead, in seconds.
_AHEAD_S = 1.0
#: A clock that is off by more from the others spoils the order of events, in seconds; the steps are shorter.
_OFFSET_S = 0.1
#: An idle timeout above this part of a step merges what the step consists of.
_IDLE_SHARE = 0.05


@dataclass(frozen=True, slots=True)
class Standing:
    """How an exporter stands: since its last flow ended, since its last record came, how far its clock was ahead."""

    exporter: str
    lag_s: float
    silent_s: float
    ahead_s: float


@dataclass(frozen=True, slots=True)
class Inferred:
    """What was inferred of an exporter, and the median step of the fastest job; None where there is none."""

    exporter: str
    clock_offset_s: float | None
    idle_timeout_s: float | None
    step_s: float | None


def read_standings(store: Store) -> list[Standing]:
    """Read how each exporter stands; the name of those that give none is empty."""
    return [Standing(*row) for row in store.rows(statement("health_exporters"))]


def exporter_lights(store: Store) -> list[Light]:
    """Look at clocks and idle timeouts, where they could be inferred."""
    rows = [Inferred(*row) for row in store.rows(statement("doctor_exporters"))]
    return [_offset_light(rows), _idle_light(rows)]


def silence_light(exporters: Sequence[Standing], silent_after_s: float) -> Light:
    """Look whether exporters have gone silent while others send."""
    name = "exporters"
    if not exporters:
        return Light(
            name, "warn", "no flow record has landed yet", "let a collector write to the spool, or `prism-ch ingest`"
        )
    silent = [each for each in exporters if each.silent_s > silent_after_s]
    if not silent:
        return Light(name, "ok", f"all {len(exporters)} send")
    if len(silent) == len(exporters):
        what = f"none of {len(exporters)} has sent anything for {min(each.silent_s for each in silent):,.0f} s"
        return Light(name, "warn", what, "if jobs run, see whether the collector and its way to the spool work")
    longest = max(silent, key=lambda each: each.silent_s)
    what = (
        f"{len(silent)} of {len(exporters)} are silent, {longest.exporter or 'unnamed'} for {longest.silent_s:,.0f} s"
    )
    return Light(name, "warn", what, "see whether they still export, and whether their records reach the collector")


def future_light(exporters: Sequence[Standing]) -> Light:
    """Look for records that end after they arrived."""
    name = "future records"
    ahead = [each for each in exporters if each.ahead_s > _AHEAD_S]
    if not ahead:
        return Light(name, "ok", "no flow ended after its record arrived")
    worst = max(ahead, key=lambda each: each.ahead_s)
    what = f"{len(ahead)} exporters sent flows of the future, {worst.exporter or 'unnamed'} by {worst.ahead_s:,.1f} s"
    return Light(name, "warn", what, "synchronise their clocks (NTP or PTP), and that of the database's machine")


def _offset_light(exporters: Sequence[Inferred]) -> Light:
    """Look for clocks that are off from those of the others."""
    name = "clocks"
    offsets = {each.exporter: each.clock_offset_s for each in exporters if each.clock_offset_s is not None}
    if not offsets:
        return Light(name, "ok", "no offset could be inferred")
    worst = max(offsets, key=lambda exporter: abs(offsets[exporter]))
    if abs(offsets[worst]) <= _OFFSET_S:
        return Light(name, "ok", f"{len(offsets)} exporters agree within {abs(offsets[worst]):.3f} s")
    off = sum(abs(offset_s) > _OFFSET_S for offset_s in offsets.values())
    what = f"{off} of {len(offsets)} exporters are off, {worst} by {offsets[worst]:+.3f} s"
    return Light(name, "warn", what, "synchronise their clocks (NTP or PTP)")


def _idle_light(exporters: Sequence[Inferred]) -> Light:
    """Look for exporters that close flows too late to tell the parts of a step apart."""
    name = "idle timeouts"
    known = [(each.exporter, each.idle_timeout_s, each.step_s) for each in exporters if each.idle_timeout_s is not None]
    if not known:
        return Light(name, "ok", "none could be inferred")
    long = [
        (exporter, idle_s, step_s) for exporter, idle_s, step_s in known if step_s and idle_s > _IDLE_SHARE * step_s
    ]
    if not long:
        return Light(name, "ok", f"short enough at all {len(known)} exporters where one could be inferred")
    exporter, idle_s, step_s = max(long, key=lambda each: each[1])
    what = (
        f"{len(long)} of {len(known)} exporters merge too much: {exporter} waits {idle_s:.3g} s of {step_s:.3g} s steps"
    )
    return Light(name, "warn", what, f"set their idle (inactive) timeout below {_IDLE_SHARE * step_s:.3g} s")
