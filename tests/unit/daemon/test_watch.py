"""Who is silent is looked at once records should have come, and not again all the time."""

from __future__ import annotations

import pytest

from prism_ch.daemon.watch import ExporterArrival, JobSilence, Watch

SECOND = 10**9
T0_NS = 1_800_000_000 * SECOND


def job(last_s: float, known_s: float = 0.0, status: str = "running") -> JobSilence:
    last_ns = T0_NS + round(last_s * SECOND)
    return JobSilence("job", status, T0_NS + round(known_s * SECOND), last_ns, last_ns, step_s=2.0)


def test_silent_job_is_looked_at_and_again_ever_later() -> None:
    watch = Watch()
    looks = [at for at in range(80) if watch.is_due([job(100)], [], T0_NS + (100 + at) * SECOND, at_s=float(at))]
    assert looks == [5, 6, 7, 9, 11, 13, 15, 18, 21, 25, 29, 34, 40, 46, 53]


def test_job_that_sends_is_not_looked_at_nor_one_long_gone() -> None:
    watch = Watch()
    assert not any(watch.is_due([job(at - 2), job(0)], [], T0_NS + at * SECOND, float(at)) for at in range(100, 150))


def test_stalled_job_that_sends_again_is_looked_at() -> None:
    watch = Watch()
    sends = [job(known_s=100, last_s=110 + at, status="stalled") for at in range(11)]
    due = [watch.is_due([one], [], one.last_ns, float(at)) for at, one in enumerate(sends)]
    assert [at for at, is_due in enumerate(due) if is_due] == [0, 1, 2, 3, 4, 5, 6, 8, 10]


def looks_of_resumed(watch: Watch, last_s: dict[int, float], *, step_s: float) -> list[int]:
    """The seconds at which a job whose newest flow ended then and then is looked at, all of it having arrived."""
    looks = []
    for at, newest_s in last_s.items():
        last_ns = T0_NS + round(newest_s * SECOND)
        one = JobSilence("job", "running", T0_NS, last_ns, last_ns, step_s)
        if watch.is_due([one], [], one.last_ns, float(at)):
            looks.append(at)
    return looks


def test_job_that_goes_on_after_a_pause_is_looked_at() -> None:
    """It rests for 4 s in steps of 1.5 s, too short to be looked at meanwhile."""
    last_s = {at: at - 1 if at < 10 else max(8.0, at - 1.0) if at >= 13 else 8.0 for at in range(40)}
    assert looks_of_resumed(Watch(), last_s, step_s=1.5) == [13, 14, 15, 16, 17, 18, 19, 21, 23, 25]


def test_job_that_rests_for_a_step_more_than_usual_is_looked_at() -> None:
    """Something of it ends twice a second, but for one step of 3 s."""
    last_s = {at: float(at) if at < 20 or at > 23 else 20.0 for at in range(40)}
    assert looks_of_resumed(Watch(), last_s, step_s=3.0) == [24, 25, 26, 27, 28, 29, 30, 32, 34, 36, 39]


@pytest.mark.parametrize("step_s", [0.96, 1.04, 3.0])
def test_job_in_its_usual_rhythm_is_not_looked_at(step_s: float) -> None:
    """Something of it ends once in each step. Of two that end between two ticks the later one is seen."""
    last_s = {at: step_s * (at // step_s) for at in range(200)}
    assert looks_of_resumed(Watch(), last_s, step_s=step_s) == []


def looks_of_part(quiet_s: dict[int, float], *, step_s: float) -> list[int]:
    """The seconds at which a job is looked at that sends all the time, but for one pair."""
    watch, looks = Watch(), []
    for at, quiet in quiet_s.items():
        last_ns, quiet_ns = T0_NS + at * SECOND, T0_NS + round(quiet * SECOND)
        one = JobSilence("job", "running", T0_NS, last_ns, quiet_ns, step_s)
        if watch.is_due([one], [], last_ns, float(at)):
            looks.append(at)
    return looks


def test_part_of_a_job_that_stands_still_is_looked_at() -> None:
    """One pair sends nothing from second 10 to second 20; the others send on."""
    quiet_s = {at: at - 3.0 if at < 13 else 10.0 if at < 20 else at - 3.0 for at in range(30)}
    assert looks_of_part(quiet_s, step_s=4.0) == [15, 16, 17, 19, 20, 21, 22, 23, 24, 25, 27, 29]


def test_part_that_sends_all_the_time_is_missed_sooner() -> None:
    """All pairs send each second, in steps of 10 s; one of them sends nothing from second 40 to second 50."""
    quiet_s = {at: at - 1.0 if at < 40 or at >= 50 else 39.0 for at in range(60)}
    assert looks_of_part(quiet_s, step_s=10.0)[0] == 44


def test_part_of_a_job_that_sends_in_every_step_is_not_looked_at() -> None:
    assert looks_of_part({at: 10.0 * ((at + 4) // 10) - 4 for at in range(60)}, step_s=10.0) == []


def test_job_that_rests_in_each_step_is_looked_at_when_overdue() -> None:
    """It sends for 10 s, and computes for 20 s, until it stands still from second 160 on."""
    last_s = {at: min(at, 160) if min(at, 160) % 30 < 10 else min(at, 160) // 30 * 30 + 9 for at in range(200)}
    watch, looks = Watch(), []
    for at, newest_s in last_s.items():
        last_ns = T0_NS + newest_s * SECOND
        one = JobSilence("job", "running", T0_NS, last_ns, last_ns, step_s=30.0)
        if watch.is_due([one], [], T0_NS + at * SECOND, float(at)):
            looks.append(at)
    assert looks[0] == 180


def test_silent_exporter_is_looked_at() -> None:
    watch = Watch()
    silent = ExporterArrival("silent", T0_NS + 100 * SECOND)
    assert watch.is_due([], [silent], T0_NS + 106 * SECOND, 0.0)


def test_exporter_that_usually_rests_is_looked_at_when_overdue() -> None:
    """It sends once in 20 s, until second 160."""
    watch = Watch()
    sends = {at: ExporterArrival("leaf", T0_NS + min(at // 20 * 20, 160) * SECOND) for at in range(200)}
    looks = [at for at, one in sends.items() if watch.is_due([], [one], T0_NS + at * SECOND, float(at))]
    assert [at for at in looks if at > 20] == [180, 181, 182, 184, 186, 188, 190, 193, 196]


def test_silence_is_looked_at_again_once_a_window_was_worked() -> None:
    watch = Watch()
    assert watch.is_due([job(100)], [], T0_NS + 110 * SECOND, 10.0)
    assert not watch.is_due([job(100)], [], T0_NS + 111 * SECOND, 11.0)
    watch.window_worked()
    assert watch.is_due([job(100)], [], T0_NS + 111 * SECOND, 11.0)


def test_looking_leaves_most_of_the_time_to_others() -> None:
    watch = Watch()
    assert watch.is_due([job(100)], [], T0_NS + 106 * SECOND, 10.0)
    watch.looked(10.0, 12.0)
    assert not watch.is_due([job(100)], [], T0_NS + 120 * SECOND, 17.9)
    assert watch.is_due([job(100)], [], T0_NS + 120 * SECOND, 18.1)
