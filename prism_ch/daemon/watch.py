"""Watches for silence between windows: whose records are overdue is looked at before the window closes.

A window closes long after a job fell silent: it may have begun just before, and while nothing arrives nobody knows
whether more will come. So each tick asks who is silent, and up to when records have arrived for sure.

1. Learn from their arrivals how often records come, and how long after their flows end.
2. What ended `prompt_s` ago has arrived. Where nothing comes at all, records are due again after the usual distance of
   arrivals, and after each further one: what ended before such a moment would have come with them.
3. A job or exporter that has been silent for `silence_s` is looked at, and again each time it is silent a third as long
   again; and once a window was worked, which replaces what was seen in between.
4. A pair that trains sends once in each step. Where one has not for half a step longer, while others of its job have, a
   part of the job stands still: that is looked at as silence is.
5. A job that sends again after a pause that is half a step longer than usual ones, or whose parts all do, is looked at,
   too, and again as above for some steps: only what comes after a stop shows what it was.
6. Looking takes a quarter of the time at most.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TypeAlias

#: Records that have not come this long after the end of their flow are missing: typical lateness is 4 s.
PROMPT_S = 4.0
#: Who is silent for longer than this, in seconds, is looked at; the analysis calls nothing shorter a stop.
SILENCE_S = 5.0
#: Who is silent for longer than this, in seconds, is left to the windows as they close.
KNOWN_S = 60.0
#: Who sent nothing for longer than this, in seconds, is not asked for.
SINCE_S = 3 * round(KNOWN_S)
#: Each look comes this many times as long after the silence began as the one before.
_AGAIN = 1.3
#: How much longer than a look the pause after it is.
_PAUSE = 3.0
#: Arrivals that show how often records come.
_ENOUGH, _REMEMBERED = 8, 64
#: Records that come later than this after their flows, in seconds, are of the past, as files are.
_PAST_S = 60.0

#: A pair that trains sends once in each step: one that has not for so many stands still.
_STANDS_STEPS = 1.5
#: Steps after a pause of a job that show what it was.
_JUDGED = 8

#: Whom to look at and since when that is so.
_Key: TypeAlias = tuple[str, int]
#: That, for how many seconds it has been so, and from how many on it is looked at.
_Look: TypeAlias = tuple[_Key, float, float]


@dataclass(frozen=True, slots=True)
class ExporterArrival:
    """Up to when an exporter's flows have come, and when its last record did; nanoseconds since the epoch."""

    exporter: str
    last_ns: int
    received_ns: int
    now_ns: int


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
    def part_stands(self) -> bool:
        """Whether a part of it stands still while others go on."""
        return self.last_ns - self.quiet_ns > _STANDS_STEPS * self.step_s * 1e9


@dataclass(frozen=True, slots=True)
class _Heard:
    """The newest flow of a job, and the first one after its latest pause, 0 without any.

    `pauses_s` are the seconds between the newest flows of which it was heard one after the other; `part_stands` is
    whether a part of it stood still.
    """

    last_ns: int
    resumed_ns: int = 0
    pauses_s: tuple[float, ...] = ()
    part_stands: bool = False

    def then(self, job: JobSilence) -> _Heard:
        """Return what is heard now."""
        pause_s = (job.last_ns - self.last_ns) / 1e9
        if pause_s <= 0:
            return self
        # As long as its pauses are not known they may last a step, of which only the end is seen.
        known = len(self.pauses_s) >= _ENOUGH
        paused = pause_s > (_usual(self.pauses_s) if known else job.step_s) + job.step_s / 2
        goes_on = paused or (self.part_stands and not job.part_stands)
        resumed_ns = job.last_ns if goes_on else self.resumed_ns
        return _Heard(job.last_ns, resumed_ns, (*self.pauses_s, pause_s)[-_REMEMBERED:], job.part_stands)


class Watch:
    """What was seen of arrivals, and who was looked at when. One for each service."""

    def __init__(self, prompt_s: float = PROMPT_S) -> None:
        self._prompt_s = prompt_s
        self._newest_ns = 0
        self._distances_s: deque[float] = deque(maxlen=_REMEMBERED)
        self._looked_s: dict[_Key, float] = {}
        self._heard: dict[str, _Heard] = {}
        self._rests_until_s = 0.0

    def arrived_until_ns(self, exporters: Sequence[ExporterArrival]) -> int | None:
        """Return up to when records have arrived, None while too little is known."""
        if not exporters:
            return None
        now_ns, newest_ns = exporters[0].now_ns, max(one.received_ns for one in exporters)
        if newest_ns > self._newest_ns:
            if self._newest_ns:
                self._distances_s.append((newest_ns - self._newest_ns) / 1e9)
            self._newest_ns = newest_ns
        lag_s = median(max(one.received_ns - one.last_ns, 0) / 1e9 for one in exporters)
        if len(self._distances_s) < _ENOUGH or lag_s > _PAST_S:
            return None
        usual_s = _usual(self._distances_s)
        overdue_s = (now_ns - newest_ns) / 1e9 - max(self._prompt_s, 2 * lag_s)
        if overdue_s < usual_s:
            return min(now_ns - round(self._prompt_s * 1e9), max(one.last_ns for one in exporters))
        return newest_ns + round((overdue_s // usual_s * usual_s - lag_s) * 1e9)

    def is_due(
        self, jobs: Sequence[JobSilence], exporters: Sequence[ExporterArrival], until_ns: int, at_s: float
    ) -> bool:
        """Return whether somebody is to be looked at; `at_s` is a clock that nobody sets."""
        self._heard = {one.job_id: self._before(one).then(one) for one in jobs}
        if at_s < self._rests_until_s:
            return False
        due = False
        looked: dict[_Key, float] = {}
        for key, shown_s, least_s in (*_silent(jobs, exporters, until_ns), *self._resumed(jobs, until_ns)):
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
        return self._heard.get(job.job_id, _Heard(job.last_ns if job.status == "running" else job.known_ns))

    def _resumed(self, jobs: Sequence[JobSilence], until_ns: int) -> Iterator[_Look]:
        """Yield the jobs that send again, and for how long they have.

        Half a step is added to the seconds, so that looks come ever later.
        """
        for job in jobs:
            resumed_ns = self._heard[job.job_id].resumed_ns
            on_s = (min(until_ns, job.last_ns) - resumed_ns) / 1e9
            if resumed_ns and on_s <= min((_JUDGED + 1) * job.step_s, KNOWN_S):
                yield (f"{job.job_id} again", resumed_ns), on_s + job.step_s / 2, job.step_s / 2


def _usual(distances_s: Sequence[float]) -> float:
    """Return the distance that one in ten exceeds."""
    return sorted(distances_s)[round(0.9 * (len(distances_s) - 1))]


def _silent(jobs: Sequence[JobSilence], exporters: Sequence[ExporterArrival], until_ns: int) -> Iterator[_Look]:
    """Yield who is silent since when, and for how many seconds."""
    for name, last_ns, heard_ns in (
        *((job.job_id, job.last_ns, until_ns) for job in jobs),
        *((f"{job.job_id} part", job.quiet_ns, job.last_ns) for job in jobs if job.part_stands),
        *((f"exporter {one.exporter}", one.last_ns, until_ns) for one in exporters),
    ):
        if heard_ns - last_ns <= KNOWN_S * 1e9:
            yield (name, last_ns), (heard_ns - last_ns) / 1e9, SILENCE_S
