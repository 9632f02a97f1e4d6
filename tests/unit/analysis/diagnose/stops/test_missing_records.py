"""Missing records, window after window: one finding for one place, no stop of any job, and what is not seen is told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from prism_ch.analysis.diagnose.stops.missing_records import find_missing_records
from prism_ch.analysis.diagnose.stops.stop_findings import Stop, stop_finding
from prism_ch.model.finding import Finding
from prism_ch.model.memory import Visibility
from prism_ch.model.result import PAIR_KINDS
from prism_ch.model.window import Window
from tests.sweeps import swept
from tests.unit.analysis.build import (
    BEGIN_NS,
    MS,
    Flow,
    batch,
    every,
    job,
    observed,
    pipeline,
    renamed,
    shaken,
    shifted,
    topology,
)
from tests.unit.chain import PARAMS, Results, work, work_window

SECOND = 10**9
GRID = ((0, 1), (2, 3), (4, 5))
WHERE = topology(12, tenants=["acme"])
OTHER = [6, 7, 8, 9, 10, 11]


def two_jobs(steps: int = 80) -> list[Flow]:
    return [*job(GRID, steps), *renamed(job(GRID, round(steps / 0.8), 800), OTHER)]


def without(flows: Sequence[Flow], from_s: float, to_s: float) -> list[Flow]:
    return [flow for flow in flows if not from_s * 1000 <= flow.start_ms + flow.length_ms < to_s * 1000]


def worked(flows: Sequence[Flow], window_s: int = 10, until_s: float | None = None) -> Results:
    until_ns = None if until_s is None else BEGIN_NS + round(until_s * SECOND)
    return work(batch(shaken(flows, 1, ms=0.1)), WHERE, window_s, until_ns=until_ns)


def stops(results: Results) -> list[Finding]:
    """What the jobs are said to have lost by standing still."""
    found = [one for each in results.jobs.values() for one in each.findings.values()]
    return [one for one in found if one.kind in ("stall", "hang", "restart") and (one.lost_s or one.status == "open")]


@pytest.mark.parametrize("window_s", [5, 10, 60])
def test_hole_over_two_jobs_is_one_finding_and_no_stop(window_s: int) -> None:
    lasting = worked(without(two_jobs(30), 25.3, 99), window_s, until_s=60)
    (hole,) = lasting.cluster.values()
    assert (hole.kind, hole.subject_type, hole.subject) == ("telemetry", "exporter", "all exporters")
    assert (hole.status, hole.severity, len(hole.jobs)) == ("open", "critical", 2)
    assert (hole.start_ns - BEGIN_NS) / SECOND == pytest.approx(25.3, abs=0.5)
    assert "12 of 12 endpoints can't be seen" in hole.summary
    assert stops(lasting) == []
    assert {one.last.job.status for one in lasting.jobs.values()} == {"running"}


@pytest.mark.parametrize("window_s", [10, 60, *swept(5)])
def test_steps_in_a_hole_are_unseen_and_not_lost(window_s: int) -> None:
    over = worked(without(two_jobs(), 25.3, 55.3), window_s)
    (hole,) = over.cluster.values()
    assert (hole.kind, hole.subject, hole.status) == ("telemetry", "all exporters", "closed")
    assert hole.observed == pytest.approx(30, abs=1)
    assert stops(over) == []
    assert len(over.jobs) == 2
    for one in over.jobs.values():
        whole = one.steps.take(one.steps.complete == 1)
        assert whole.duration_s.max() < 2
        cut = one.steps.step[(one.steps.complete == 0) & (one.steps.step > 0)]
        assert np.diff(cut).tolist() == [1]  # the one with the hole, and the one that begins where that ended
        assert [each for each in one.findings.values() if each.severity != "info"] == []


def test_hole_that_hides_the_only_job_shows_by_its_step() -> None:
    """A job that stands still goes on where it stopped; this one is further on."""
    results = worked(without(job(GRID, 60), 20.4, 35.7))
    (cut,) = results.cluster.values()
    assert (cut.kind, cut.subject, cut.status) == ("telemetry", "all exporters", "closed")
    assert cut.severity == "critical"
    assert stops(results) == []


@pytest.mark.parametrize("pause_ms, severity", [(17_400, "info"), (17_000, "critical")])
def test_only_job_that_goes_on_out_of_time_stood_still(pause_ms: int, severity: str) -> None:
    """Of one that goes on in time with its steps before, it can't be told whether it went on unseen."""
    flows = job(GRID, 50)
    later = shifted([flow for flow in flows if flow.start_ms >= 20_400], pause_ms)
    results = worked([*(flow for flow in flows if flow.start_ms < 20_400), *later])
    (missing,) = results.cluster.values()
    assert (missing.kind, missing.status, missing.severity) == ("telemetry", "closed", severity)
    assert ("stood still: nothing of its step is missing." in missing.summary) == (severity == "info")


@pytest.mark.parametrize(
    "then, severity",
    [(OTHER, "warning"), ([2, 3, 4, 5, 6, 7], "info"), (range(6), "critical")],
    ids=["another job begins", "it begins anew elsewhere", "it goes on"],
)
def test_what_follows_a_silence_of_all_shows_what_it_was(then: Sequence[int], severity: str) -> None:
    """The only job is cut in a step; half a minute later there is training again."""
    first = [flow for flow in job(GRID, 30) if flow.start_ms < 20_400]
    results = worked([*first, *renamed(shifted(job(GRID, 20), 50_000), list(then))])
    (missing,) = results.cluster.values()
    assert (missing.kind, missing.status, missing.severity) == ("telemetry", "closed", severity)
    assert missing.summary.endswith("has ended.") == (severity == "warning")


def test_job_that_stays_silent_after_a_hole_stands_still() -> None:
    both = without(two_jobs(), 25.3, 40.3)
    dead = [flow for flow in both if flow.src >= 6 or flow.start_ms < 26_000]
    results = worked(dead, 10, until_s=78)
    (hole,) = results.cluster.values()
    assert (hole.kind, hole.status) == ("telemetry", "closed")
    (stop,) = [one for each in results.jobs.values() for one in each.findings.values() if one.status == "open"]
    assert stop.kind in ("stall", "hang")
    assert (stop.start_ns - BEGIN_NS) / SECOND == pytest.approx(40.3, abs=1)


def test_exporter_that_is_lost_is_one_finding_over_jobs() -> None:
    """What odd endpoints send is seen by an exporter that falls silent."""
    seen = [replace(flow, exporter="odd" if flow.src % 2 else "even") for flow in two_jobs()]
    lost = [flow for flow in seen if flow.exporter == "even" or flow.start_ms < 30_000]
    results = worked(lost)
    (finding,) = results.cluster.values()
    assert (finding.kind, finding.subject, finding.status, len(finding.jobs)) == ("telemetry", "odd", "open", 2)
    assert "while others saw 2 jobs go on" in finding.summary
    assert stops(results) == []


def seen_of(flows: Sequence[Flow], window: tuple[int, int]) -> tuple[Visibility, ...]:
    """What the last of two windows shows."""
    results, records = Results(), batch(shaken(flows, 1, ms=0.1))
    before, last = (
        Window(BEGIN_NS + start * SECOND, BEGIN_NS + end * SECOND) for start, end in ((0, window[0]), window)
    )
    work_window(results, records, WHERE, before, PARAMS, is_whole=True)
    return work_window(results, records, WHERE, last, PARAMS, is_whole=True).visibility


def test_share_of_each_job_that_is_seen_and_why() -> None:
    everything = seen_of(two_jobs(), (40, 60))
    assert [(one.endpoints, one.endpoints_seen, one.share, one.why) for one in everything] == [(6, 6, 1.0, "")] * 2
    for part in seen_of(without(two_jobs(), 45.3, 99), (40, 60)):
        assert part.endpoints_seen == 6
        assert part.share == pytest.approx(0.26, abs=0.03)
        assert part.why.startswith("no records from all exporters for 14.")
    for none in seen_of(without(two_jobs(), 35.3, 99), (40, 60)):
        assert (none.endpoints_seen, none.share) == (0, 0)


def test_job_that_stands_still_is_seen_to() -> None:
    hung = [flow for flow in two_jobs() if flow.src >= 6 or flow.start_ms < 25_400]
    still = {one.endpoints_seen: one for one in seen_of(hung, (40, 60))}
    assert set(still) == {0, 6}
    assert still[0].why == "6 of 6 endpoints neither sent nor got anything: the job stands still, or not recorded"
    assert np.isclose(still[6].share, 1)


def test_silence_after_records_have_come_again_is_another() -> None:
    """That of a slow job, as one look after the other sees it: what was between is not missing."""
    flows = observed(batch([Flow(0, 1, 0), Flow(0, 1, 9_000)]), BEGIN_NS + 20 * SECOND)

    def told(from_s: int, to_s: int, known: Sequence[Finding]) -> list[Finding]:
        stop = Stop("job", 3, BEGIN_NS + from_s * SECOND, BEGIN_NS + to_s * SECOND, 0.0, 0.0, 0.0)
        gap = stop_finding("telemetry", stop, "warning", "", {}, ("exporter", "all exporters"), is_open=True)
        seen = replace(flows, known=replace(flows.known, findings=tuple(known)))
        return list(find_missing_records((), {"job": [gap]}, (), seen, WHERE, PARAMS))

    (first,) = told(1, 8, [])
    (same,) = told(1, 9, [first])
    assert (same.diagnosis_id, same.observed) == (first.diagnosis_id, 8)
    new, over = told(12, 20, [first])
    assert (new.observed, new.status) == (8, "open")
    assert (over.diagnosis_id, over.status) == (first.diagnosis_id, "closed")


def test_pipelines_stay_pipelines_while_an_exporter_is_silent() -> None:
    """Of two links only what one end sends is seen, for more than half of the time when all is looked at anew."""
    flows = [
        replace(flow, exporter=f"leaf-{flow.src}")
        for stages in ([0, 1, 2, 3], [4, 5, 6, 7])
        for flow in pipeline(stages, every(1000, 70), microbatches=4)
    ]
    seen = [flow for flow in flows if flow.exporter != "leaf-1" or flow.start_ms < 18_000]
    whole, found = (work(batch(shaken(each, 1, ms=0.1)), topology(8), 10).only for each in (flows, seen))
    assert {PAIR_KINDS[kind] for kind in found.last.pairs.kind.tolist()} == {"PP"}
    assert found.last.members.pp_stage.tolist() == [0, 1, 2, 3, 0, 1, 2, 3]
    np.testing.assert_allclose(found.steps.end_ns, whole.steps.end_ns[: len(found.steps)], rtol=0, atol=100 * MS)
    assert len(found.steps) >= 69
