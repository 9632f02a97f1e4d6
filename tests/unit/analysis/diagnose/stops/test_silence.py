"""Silence that lasts: whether it is the job or its exporter that is silent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from prism_ch.analysis.diagnose.stops.hang_culprits import TrainingPairs
from prism_ch.analysis.diagnose.stops.lost_exporters import find_lost_exporters
from prism_ch.analysis.diagnose.stops.silence import QuietJob, find_silence, usual_rhythm
from prism_ch.analysis.observe.holes import Hole
from prism_ch.model.finding import Finding
from prism_ch.model.flow import FlowBatch
from prism_ch.model.params import Params
from prism_ch.model.result import DP, PP
from prism_ch.model.window import Interval
from tests.unit.analysis.build import BEGIN_NS, Flow, batch, every, renamed, ring, steps_of, topology

PARAMS = Params()
WHERE = topology(6)
SECOND = 10**9
STEPS = steps_of([1.0] * 20)


def quiet(flows: Sequence[Flow], until_s: float, around: Sequence[Flow] = ()) -> QuietJob:
    others = batch(around) if around else FlowBatch.empty()
    seen = batch(flows)
    src, dst = np.unique(np.stack([seen.src, seen.dst]), axis=1)
    pairs = TrainingPairs(src, dst, np.full(len(src), DP, dtype=np.uint8))
    members = np.arange(3, dtype=np.int32)
    until_ns = BEGIN_NS + round(until_s * SECOND)
    return QuietJob("job", members, pairs, STEPS, seen, background=others, seen=others, until_ns=until_ns)


def silence(seen: QuietJob) -> Finding | None:
    return find_silence(seen, usual_rhythm(seen, PARAMS.stops), WHERE, PARAMS)


def lost_exporters(seen: QuietJob, raw: FlowBatch, since_s: float = 0) -> tuple[Finding, ...]:
    since_ns = BEGIN_NS + round(since_s * SECOND)
    return find_lost_exporters(seen, usual_rhythm(seen, PARAMS.stops), raw, since_ns, PARAMS.stops)


def test_job_is_given_some_seconds_and_none_without_flows() -> None:
    flows = ring(range(3), every(1000, 20, 1000))
    assert silence(quiet(flows, 24.9)) is None
    assert silence(quiet(flows, 26)) is not None
    nothing = replace(quiet(flows, 26), flows=FlowBatch.empty())
    assert silence(nothing) is None
    assert lost_exporters(nothing, FlowBatch.empty()) == ()


def test_exporter_is_lost_once_it_misses_several_steps() -> None:
    left = [replace(flow, exporter="left") for flow in ring(range(3), every(1000, 20, 1000))]
    right = [replace(flow, exporter="right", port=50_001) for flow in ring(range(3), every(1000, 8, 1000))]
    (lost,) = lost_exporters(quiet([*left, *right], 20), FlowBatch.empty())
    assert (lost.subject, lost.status, lost.start_ns) == ("right", "open", BEGIN_NS + 8 * SECOND)
    assert lost.baseline.exporters == ("right",)


def test_what_an_exporter_sent_beside_others_counts_too() -> None:
    left = [replace(flow, exporter="left") for flow in ring(range(3), every(1000, 20, 1000))]
    right = [replace(flow, exporter="right") for flow in left]
    job = quiet([*left, *right[: 8 * 3]], 20)
    for since_s, told in ((9, []), (15, ["right"]), (21, ["right"])):
        assert [one.subject for one in lost_exporters(job, batch(right), since_s)] == told


def test_exporter_is_lost_once_it_misses_two_whole_steps() -> None:
    left = [replace(flow, exporter="left") for flow in ring(range(3), [*every(3000, 12, 3000), 36_600])]
    right = [replace(flow, exporter="right", port=50_001) for flow in ring(range(3), every(3000, 10, 3000))]
    job = replace(quiet([*left, *right], 37), steps=steps_of([3.0] * 12))
    (lost,) = lost_exporters(job, FlowBatch.empty())
    assert (lost.subject, lost.status, lost.start_ns) == ("right", "open", BEGIN_NS + 30 * SECOND)


def test_exporter_is_lost_once_others_moved_two_steps() -> None:
    """A step's end shows once another step has ended, what it moves before that. Those that wait do not move it."""
    right = [replace(flow, exporter="right") for flow in ring(range(3), every(1000, 20, 1000))]
    for moved_ms, told in (([23_000, 25_900], True), ([23_000], False)):
        ends_ms = [*every(1000, 20, 1000), *moved_ms]
        left = [replace(flow, exporter="left") for flow in renamed(ring(range(3), ends_ms), [3, 4, 5])]
        late = [Flow(3, 4, 25_800, size=1000, exporter="left")]
        lost = lost_exporters(quiet([*left, *late, *right], 26), FlowBatch.empty())
        assert [one.subject for one in lost] == ["right"] * told


def test_exporter_is_lost_though_steps_seem_to_last_longer() -> None:
    """Where the steps that it hides show as parts of others, the job's usual step says how many there were."""
    left = [replace(flow, exporter="left") for flow in ring(range(3), every(2000, 10, 2000))]
    later = [replace(flow, exporter="left") for flow in ring(range(3), every(4000, 2, 24_000))]
    right = [replace(flow, exporter="right", port=50_001) for flow in ring(range(3), every(2000, 10, 2000))]
    job = replace(quiet([*left, *later, *right], 28), steps=steps_of([2.0] * 10 + [4.0] * 2))
    (lost,) = lost_exporters(job, FlowBatch.empty())
    assert (lost.subject, lost.status, lost.start_ns) == ("right", "open", BEGIN_NS + 20 * SECOND)


def test_exporter_that_is_silent_in_each_slow_step_is_not_lost() -> None:
    """Its rails wait for a slow one that others see, whose steps seem to end twice more in the last wait."""
    step_s = [1.0] * 16 + [10.0] * 3
    for last_s, told in (([3.0, 3.0, 4.0], []), ([8.0, 8.0, 8.0], ["right"])):
        job_ends_ms = (1000 * np.cumsum([*step_s, *last_s])).tolist()
        left = [replace(flow, exporter="left") for flow in renamed(ring(range(3), job_ends_ms), [3, 4, 5])]
        right_ends_ms = [*job_ends_ms[: len(step_s)], job_ends_ms[-1]]
        right = [replace(flow, exporter="right") for flow in ring(range(3), right_ends_ms)]
        job = replace(quiet([*left, *right], job_ends_ms[-1] / 1000), steps=steps_of([*step_s, *last_s]))
        assert [one.subject for one in lost_exporters(job, FlowBatch.empty())] == told


def test_job_hidden_by_a_hole_is_silent_only_since_its_end() -> None:
    flows = ring(range(3), every(1000, 20, 1000))
    for until_s, is_open, found in ((40, True, None), (33, False, None), (40, False, BEGIN_NS + 30 * SECOND)):
        span = Interval(BEGIN_NS + 20 * SECOND, BEGIN_NS + (until_s if is_open else 30) * SECOND)
        hole = Hole(("leaf",), True, span, is_open=is_open, is_sure=True)
        stop = silence(replace(quiet(flows, until_s), holes=(hole,)))
        assert (None if stop is None else stop.start_ns) == found


def replicas(until_ms: float) -> list[Flow]:
    """Three pipelines of two stages: 0 to 2 send to 3 to 5 and get an answer, then gradients go round."""
    sent = [Flow(rank, rank + 3, 1000 * step + 200) for step in range(25) for rank in range(3)]
    sent += [Flow(rank + 3, rank, 1000 * step + 500) for step in range(25) for rank in range(3)]
    for ranks in (range(3), range(3, 6)):
        sent += ring(ranks, every(1000, 25, 900))
    return [flow for flow in sent if flow.start_ms < until_ms]


def of_replicas(flows: Sequence[Flow], until_s: float, around: Sequence[Flow] = ()) -> QuietJob:
    seen = batch(flows)
    src, dst = np.unique(np.stack([seen.src, seen.dst]), axis=1)
    kind = np.where(np.abs(src - dst) == 3, PP, DP).astype(np.uint8)
    others = batch(around) if around else FlowBatch.empty()
    until_ns = BEGIN_NS + round(until_s * SECOND)
    members = np.arange(6, dtype=np.int32)
    pairs = TrainingPairs(src, dst, kind)
    return QuietJob("job", members, pairs, STEPS, seen, background=others, seen=others, until_ns=until_ns)


def test_all_replicas_cut_at_one_place_miss_records() -> None:
    flows = replicas(20_400)
    assert silence(of_replicas(flows, 23)) is None
    found = silence(of_replicas(flows, 30))
    assert found is not None
    assert (found.kind, found.subject) == ("telemetry", "all exporters")


def test_one_replica_behind_the_others_hangs() -> None:
    flows = [flow for flow in replicas(20_800) if not (flow.src == 4 and flow.dst == 1 and flow.start_ms > 20_000)]
    found = silence(of_replicas(flows, 30))
    assert found is not None
    assert (found.kind, found.subject) == ("hang", "10.0.104.0")


def test_messages_torn_apart_are_no_hole() -> None:
    """All three replicas send at once: a hole would have to begin at that moment."""
    torn = [flow for flow in replicas(20_400) if flow.start_ms < 20_000 or flow.src == 0]
    found = silence(of_replicas(torn, 30))
    assert found is not None
    assert (found.kind, found.subject) == ("hang", "job")


def test_replica_that_goes_on_shows_that_there_is_no_hole() -> None:
    """Two of three replicas stop before the first message; the third is through until gradients are due."""
    flows = [flow for flow in replicas(20_800) if flow.start_ms < 20_000 or flow.src in (0, 3)]
    found = silence(of_replicas(flows, 30))
    assert found is not None
    assert found.kind == "hang"


def test_first_pause_of_all_is_told_and_the_next_as_long_is_not() -> None:
    """Both come between two steps, the first one for 9 s."""
    later = [
        flow if flow.start_ms < 10_000 else replace(flow, start_ms=flow.start_ms + 9000) for flow in replicas(20_000)
    ]
    once = replace(of_replicas(later, 38), steps=steps_of([1.0] * 10 + [10.0] + [1.0] * 9))
    found = [
        silence(of_replicas(replicas(20_000), 30)),
        silence(once),
        silence(replace(once, until_ns=once.until_ns + 8 * SECOND)),
    ]
    assert [one and one.severity for one in found] == ["warning", "info", "warning"]


def test_job_that_has_become_slow_rests_as_long_as_it_did_before() -> None:
    """Its last three steps wait for the answer 9 s longer, as behind a slow NIC; so does the one that does not end."""
    flows = []
    for flow in replicas(20_400):
        slow_steps = max(flow.start_ms - 17_000, 0) // 1000
        waits = flow.start_ms >= 17_000 and flow.start_ms % 1000 > 400
        flows.append(replace(flow, start_ms=flow.start_ms + 9000 * (slow_steps + waits)))
    job = replace(of_replicas(flows, 0), steps=steps_of([1.0] * 17 + [10.0] * 3))
    found = [silence(replace(job, until_ns=BEGIN_NS + until_s * SECOND)) for until_s in (56, 60)]
    assert [one and one.kind for one in found] == [None, "telemetry"]
