"""Who is silent is looked at once records should have come, and not again all the time."""

from __future__ import annotations

import pytest

from prism_ch.daemon.watch import ExporterArrival, JobSilence, Watch

SECOND = 10**9
T0_NS = 1_800_000_000 * SECOND


def arrival(now_s: float, received_s: float, last_s: float, exporter: str = "leaf") -> ExporterArrival:
    last_ns, received_ns, now_ns = (T0_NS + round(at * SECOND) for at in (last_s, received_s, now_s))
    return ExporterArrival(exporter, last_ns, received_ns, now_ns)


def job(last_s: float, known_s: float = 0.0, status: str = "running") -> JobSilence:
    last_ns = T0_NS + round(last_s * SECOND)
    return JobSilence("job", status, T0_NS + round(known_s * SECOND), last_ns, last_ns, step_s=2.0)


def until_s(watch: Watch, *exporters: ExporterArrival) -> float | None:
    found = watch.arrived_until_ns(exporters)
    return None if found is None else (found - T0_NS) / SECOND


def watched(every_s: float = 1.0, lag_s: float = 1.0) -> Watch:
    """A watch that has seen records come at this distance, so long after their flows, for 100 s."""
    watch = Watch()
    for number in range(1, round(100 / every_s) + 1):
        at_s = number * every_s
        watch.arrived_until_ns([arrival(at_s, at_s, at_s - lag_s)])
    return watch


def test_nothing_is_known_until_records_came_for_a_while() -> None:
    watch = Watch()
    assert until_s(watch) is None
    assert [until_s(watch, arrival(at, at, at - 1)) for at in range(1, 9)] == [None] * 8
    assert until_s(watch, arrival(9, 9, 8)) == 5


def test_records_of_the_past_show_nothing_of_the_present() -> None:
    watch = watched(lag_s=100.0)
    assert until_s(watch, arrival(101, 101, 1)) is None


@pytest.mark.parametrize(
    "every_s, lag_s, after_s, expected", [(1, 1, 10, 105), (10, 1, 13, 99), (10, 1, 14, 109), (10, 1, 30, 119)]
)
def test_silence_of_all_counts_once_their_rhythm_is_broken(
    every_s: float, lag_s: float, after_s: float, expected: float
) -> None:
    now_s = 100 + after_s
    assert until_s(watched(every_s, lag_s), arrival(now_s, 100, 100 - lag_s)) == expected


def test_slow_collector_is_waited_for() -> None:
    """Records come 8 s after their flows."""
    assert until_s(watched(lag_s=8.0), arrival(101, 101, 93)) == 93


def test_silent_job_is_looked_at_and_again_ever_later() -> None:
    watch = Watch()
    looks = [at for at in range(80) if watch.is_due([job(100)], [], T0_NS + (100 + at) * SECOND, at_s=float(at))]
    assert looks == [5, 7, 10, 13, 17, 23, 30, 39, 51]


def test_job_that_sends_is_not_looked_at_nor_one_long_gone() -> None:
    watch = Watch()
    assert not any(watch.is_due([job(at - 2), job(0)], [], T0_NS + at * SECOND, float(at)) for at in range(100, 150))


def test_stalled_job_that_sends_again_is_looked_at() -> None:
    watch = Watch()
    sends = [job(known_s=100, last_s=110 + at, status="stalled") for at in range(11)]
    due = [watch.is_due([one], [], one.last_ns, float(at)) for at, one in enumerate(sends)]
    assert [at for at, is_due in enumerate(due) if is_due] == [0, 1, 2, 3, 5, 7, 10]


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
    assert looks_of_resumed(Watch(), last_s, step_s=1.5) == [13, 14, 15, 16, 18, 20, 23]


def test_job_that_rests_for_a_step_more_than_usual_is_looked_at() -> None:
    """Something of it ends twice a second, but for one step of 3 s."""
    last_s = {at: float(at) if at < 20 or at > 23 else 20.0 for at in range(40)}
    assert looks_of_resumed(Watch(), last_s, step_s=3.0) == [24, 25, 26, 28, 30, 33, 37]


def test_job_in_its_usual_rhythm_is_not_looked_at() -> None:
    """Something of it ends once in each step of 3 s."""
    last_s = {at: 3.0 * (at // 3) for at in range(60)}
    assert looks_of_resumed(Watch(), last_s, step_s=3.0) == []


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
    assert looks_of_part(quiet_s, step_s=4.0) == [17, 20, 21, 22, 24, 26, 29]


def test_part_of_a_job_that_sends_in_every_step_is_not_looked_at() -> None:
    assert looks_of_part({at: 10.0 * (at // 10) - 4 for at in range(60)}, step_s=10.0) == []


def test_silent_exporter_is_looked_at() -> None:
    watch = Watch()
    silent = arrival(now_s=110, received_s=101, last_s=100, exporter="silent")
    assert watch.is_due([], [silent], T0_NS + 106 * SECOND, 0.0)


def test_silence_is_looked_at_again_once_a_window_was_worked() -> None:
    watch = Watch()
    assert watch.is_due([job(100)], [], T0_NS + 106 * SECOND, 10.0)
    assert not watch.is_due([job(100)], [], T0_NS + 107 * SECOND, 11.0)
    watch.window_worked()
    assert watch.is_due([job(100)], [], T0_NS + 107 * SECOND, 11.0)


def test_looking_leaves_most_of_the_time_to_others() -> None:
    watch = Watch()
    assert watch.is_due([job(100)], [], T0_NS + 106 * SECOND, 10.0)
    watch.looked(10.0, 12.0)
    assert not watch.is_due([job(100)], [], T0_NS + 120 * SECOND, 17.9)
    assert watch.is_due([job(100)], [], T0_NS + 120 * SECOND, 18.1)
