"""What a window looks back at: of each job what its own steps need, whatever other jobs need."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest

from prism_ch.analysis.lookback import read_window
from prism_ch.model.window import Window
from tests.unit.analysis.build import BEGIN_NS, batch, every, ring, shaken, topology
from tests.unit.chain import PARAMS, SECOND, FlowsInMemory, Results, work, work_window

#: Jobs settle early here, so that the one with long steps does soon.
SETTLES_SOON = replace(PARAMS, going_on=replace(PARAMS.going_on, settled_steps=20))
LONG_S, SECONDS = 20, 600
QUICK = shaken(ring(range(4), every(1000, SECONDS, 500)), 1)
SLOW = shaken(ring(range(4, 8), every(1000 * LONG_S, SECONDS // LONG_S, 700)), 2)
WHERE = topology(8)


def test_a_settled_job_is_found_the_same_beside_longer_steps() -> None:
    together = work(batch([*QUICK, *SLOW]), WHERE, 60, SETTLES_SOON)
    assert len(together.jobs) == 2
    for flows in (QUICK, SLOW):
        [(name, alone)] = work(batch(flows), WHERE, 60, SETTLES_SOON).jobs.items()
        beside = together.jobs[name]
        for rows, others in ((alone.steps, beside.steps), (alone.last.pairs, beside.last.pairs)):
            for column in fields(rows):
                np.testing.assert_array_equal(getattr(rows, column.name), getattr(others, column.name))


@pytest.mark.parametrize("window_s", [60, 30, 10])
def test_all_of_a_young_job_costs_at_most_three_times_its_flows(window_s: int) -> None:
    flows = batch(shaken(ring(range(4), every(1000, 70, 500)), 1))
    results, looked_at = Results(), 0
    for begin_ns in range(BEGIN_NS, int(flows.end_ns.max()), window_s * SECOND):
        window = Window(begin_ns, begin_ns + window_s * SECOND)
        seen = read_window(FlowsInMemory(flows), window, results.memory, WHERE, PARAMS, before=results.read)
        looked_at += len(seen.looked_at(seen.moving(), PARAMS))
        work_window(results, flows, WHERE, window, PARAMS, is_whole=True)
    assert len(results.only.steps) == 70
    assert len(flows) < looked_at <= 3 * len(flows)
    assert results.rows_read == len(flows)


def test_quick_jobs_are_looked_back_at_for_their_own_steps() -> None:
    flows = batch([*QUICK, *SLOW])
    known = work(flows, WHERE, 60, SETTLES_SOON, until_ns=BEGIN_NS + (SECONDS - 60) * SECOND).memory
    begin_ns = BEGIN_NS + (SECONDS - 60) * SECOND
    window = Window(begin_ns, begin_ns + 60 * SECOND)
    seen = read_window(FlowsInMemory(flows), window, known, WHERE, SETTLES_SOON)
    looked_at = seen.looked_at(seen.moving(), SETTLES_SOON)
    steps = SETTLES_SOON.going_on.recent_steps
    for members, step_s in ((range(4), 1), (range(4, 8), LONG_S)):
        back_s = (begin_ns - looked_at.end_ns[np.isin(looked_at.src, members)].min()) / SECOND
        assert steps * step_s - step_s <= back_s <= (steps + 2) * step_s
    quick, all_quick = (np.count_nonzero(np.isin(each.src, range(4))) for each in (looked_at, seen.flows))
    assert quick == all_quick
    assert len(looked_at) < len(seen.flows)  # the other one is young: all of it is kept
    assert len(looked_at.take(looked_at.end_ns >= begin_ns)) == len(seen.flows.take(seen.flows.end_ns >= begin_ns))


def test_hole_stays_one_when_only_long_steps_reach_back_to_it() -> None:
    hole_ms = (300_000, 340_000)
    left = [flow for flow in (*QUICK, *SLOW) if not hole_ms[0] <= flow.start_ms + flow.length_ms < hole_ms[1]]
    found = work(batch(left), WHERE, 60, SETTLES_SOON)
    assert [(one.kind, one.status, one.subject) for one in found.cluster.values()] == [
        ("telemetry", "closed", "all exporters")
    ]
    assert [job.findings for job in found.jobs.values()] == [{}, {}]
