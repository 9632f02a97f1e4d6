"""Watches for silence between windows: whose records are overdue is looked at before the window closes.

A window closes long after a job fell silent: it may have begun just before, and while nothing arrives nobody knows
whether more will come. So each tick asks who is silent, as far as records have arrived.

1. A job or exporter that has been silent for `SILENCE_S`, and for longer than it usually is, is looked at, and again
   ever later; and once a window was worked, which replaces what was seen in between.
2. Where a pair that a job trains on has sent nothing for longer than any usually does, while others have, a part of the
   job stands still: that is looked at as silence is.
3. A job that sends again after a pause that is longer than usual ones, or whose parts all do, is looked at, too, and
   again as above for some steps: only what comes after a stop shows what it was.
4. Looking takes a quarter of the time at most.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

#: Who is silent for longer than this, in seconds, is looked at; the analysis calls nothing shorter a stop.
SILENCE_S = 5.0
#: Who is silent for longer than this, in seconds, is left to the windows as they close.
KNOWN_S = 60.0
#: Who sent nothing for longer than this, in seconds, is not asked for.
SINCE_S = 3 * round(KNOWN_S)
#: Each look comes this many times as long after the silence began as the one before: so much of what it takes until a
#: stop shows is lost at most.
_AGAIN = 1.15
#: How much longer than a look the pause after it is.
_PAUSE = 3.0
#: A pause that exceeds usual ones by more than this many steps is none of them. Steps vary by 1 to 3 %.
_MORE_STEPS = 0.25
#: Nor by less than this, in seconds, between newest flows: of two that end between ticks only the later one is seen.
_TICK_S = 1.0
#: Pauses show how long they usually are once they fill this many steps, and only so many of the last ones do.
_KNOWN_STEPS, _REMEMBERED = 3, 256
#: Steps after a pause of a job that show what it was.
_JUDGED = 8

#: Whom to look at and since when that is so.
_Key: TypeAlias = tuple[str, int]
#: That, for how many seconds it has been so, and from how many on it is looked at.
_Look: TypeAlias = tuple[_Key, float, float]


@dataclass(frozen=True, slots=True)
class ExporterArrival:
    """Up to when an exporter's flows have come, nanoseconds since the epoch."""

    exporter: str
    last_ns: int


@dataclass(frozen=True, slots=True)
class JobSilence:
    """Up to when a job's flows are analysed, and when the newest one ended; nanoseconds since the epoch.

    `quiet_ns` is when the newest flow of the pair ended that has been silent for longest. `step_s` is its usual step in
    seconds.
    """

    job_id: str
    status: str
    known_ns: int
    last_ns: int
    quiet_ns: int
    step_s: float

    @property
    def quiet_s(self) -> float:
        """For how long that pair had sent nothing when the newest flow ended."""
        return (self.last_ns - self.quiet_ns) / 1e9


@dataclass(frozen=True, slots=True)
class _Pauses:
    """How long the last pauses between sends were, in seconds."""

    last_s: tuple[float, ...] = ()

    def usual_s(self, step_s: float) -> float:
        """Return the length that only pauses exceed which together take a tenth of the time.

        A step may have many short ones and a long one. As long as too few are known, they may last a step.
        """
        left_s = sum(self.last_s) / 10
        if not left_s or 10 * left_s < _KNOWN_STEPS * step_s:
            return step_s
        for pause_s in sorted(self.last_s, reverse=True):
            left_s -= pause_s
            if left_s < 0:
                break
        return pause_s

    def and_one(self, pause_s: float) -> _Pauses:
        """Return them with another one that has ended."""
        return _Pauses((*self.last_s, pause_s)[-_REMEMBERED:])


@dataclass(frozen=True, slots=True)
class _Heard:
    """What was heard of a job at the last tick, and the first flow after its latest pause, 0 without any.

    `pauses` lie between its newest flows, `quiet` are those of the pair that has been silent for longest; `part_stands`
    is whether a part of it stands still while others go on.
    """

    job: JobSilence
    resumed_ns: int = 0
    pauses: _Pauses = _Pauses()
    quiet: _Pauses = _Pauses()
    part_stands: bool = False

    def then(self, job: JobSilence) -> _Heard:
        """Return what is heard now."""
        before, more_s = self.job, _MORE_STEPS * job.step_s
        pause_s = (job.last_ns - before.last_ns) / 1e9
        if pause_s <= 0:
            return replace(self, job=job)
        sent = job.quiet_ns != before.quiet_ns
        stands = job.quiet_s > self.quiet.usual_s(job.step_s) + more_s
        paused = pause_s > self.pauses.usual_s(job.step_s) + max(more_s, _TICK_S)
        return _Heard(
            job=job,
            resumed_ns=job.last_ns if paused or (self.part_stands and not stands) else self.resumed_ns,
            pauses=self.pauses.and_one(pause_s),
            quiet=self.quiet.and_one(before.quiet_s) if sent else self.quiet,
            part_stands=stands,
        )


class Watch:
    """What was heard of jobs, and who was looked at when. One for each service."""

    def __init__(self) -> None:
        self._looked_s: dict[_Key, float] = {}
        self._heard: dict[str, _Heard] = {}
        self._exporters: dict[str, tuple[int, _Pauses]] = {}
        self._rests_until_s = 0.0

    def is_due(
        self, jobs: Sequence[JobSilence], exporters: Sequence[ExporterArrival], until_ns: int, at_s: float
    ) -> bool:
        """Return whether somebody is to be looked at; `at_s` is a clock that nobody sets."""
        self._heard = {one.job_id: self._before(one).then(one) for one in jobs}
        self._exporters = {one.exporter: self._sent(one) for one in exporters}
        if at_s < self._rests_until_s:
            return False
        due = False
        looked: dict[_Key, float] = {}
        for key, shown_s, least_s in (*self._silent(until_ns), *self._resumed(until_ns)):
            before_s = self._looked_s.get(key, 0.0)
            again = shown_s >= max(least_s, _AGAIN * before_s)
            looked[key] = shown_s if again else before_s
            due |= again
        self._looked_s = looked
        return due

    def window_worked(self) -> None:
        """Note that a window replaced what looks have shown. Who is silent is looked at anew."""
        self._looked_s = {}

    def looked(self, began_s: float, at_s: float) -> None:
        """Note how long a look took."""
        self._rests_until_s = at_s + _PAUSE * (at_s - began_s)

    def _before(self, job: JobSilence) -> _Heard:
        """Return what was heard of a job before. Of one not asked for yet, that is what is known if it stands still."""
        if job.status == "running":
            return self._heard.get(job.job_id, _Heard(job))
        return self._heard.get(job.job_id, _Heard(replace(job, last_ns=job.known_ns)))

    def _sent(self, one: ExporterArrival) -> tuple[int, _Pauses]:
        """Return when an exporter's newest flow ended, and the pauses between its newest flows."""
        last_ns, pauses = self._exporters.get(one.exporter, (one.last_ns, _Pauses()))
        return one.last_ns, pauses.and_one((one.last_ns - last_ns) / 1e9) if one.last_ns > last_ns else pauses

    def _silent(self, until_ns: int) -> Iterator[_Look]:
        """Yield who is silent since when, and for how many seconds.

        What is usual beyond SILENCE_S is left out.
        """
        heard = [(one, one.job) for one in self._heard.values()]
        for name, last_ns, heard_ns, usual_s in (
            *((job.job_id, job.last_ns, until_ns, one.pauses.usual_s(job.step_s)) for one, job in heard),
            *(
                (f"{job.job_id} part", job.quiet_ns, job.last_ns, one.quiet.usual_s(job.step_s))
                for one, job in heard
                if one.part_stands
            ),
            *(
                (f"exporter {name}", last_ns, until_ns, sent.usual_s(0.0))
                for name, (last_ns, sent) in self._exporters.items()
            ),
        ):
            silent_s = (heard_ns - last_ns) / 1e9
            if silent_s <= KNOWN_S:
                yield (name, last_ns), silent_s - max(usual_s - SILENCE_S, 0), SILENCE_S

    def _resumed(self, until_ns: int) -> Iterator[_Look]:
        """Yield the jobs that send again, and for how long they have.

        Half a step is added to the seconds, so that looks come ever later.
        """
        for heard in self._heard.values():
            job, resumed_ns = heard.job, heard.resumed_ns
            on_s = (min(until_ns, job.last_ns) - resumed_ns) / 1e9
            if resumed_ns and on_s <= min((_JUDGED + 1) * job.step_s, KNOWN_S):
                yield (f"{job.job_id} again", resumed_ns), on_s + job.step_s / 2, job.step_s / 2
