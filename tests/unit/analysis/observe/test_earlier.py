"""Earlier flows: what each job has made of its own is what would be made of all."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from prism_ch.analysis.observe import clocks
from prism_ch.analysis.observe.bursts import elect_among
from prism_ch.analysis.observe.earlier import EarlierFlows
from prism_ch.analysis.observe.known_jobs import KnownJobs
from prism_ch.model.exporter import ExporterHistory
from prism_ch.model.flow_cut import FlowCut
from prism_ch.model.params import ClockParams
from tests.unit.analysis.build import BEGIN_NS, MS, Flow, batch, known_job

PARAMS = ClockParams()
NOBODY = KnownJobs((), (), (), ())

seen = st.lists(
    st.builds(
        Flow,
        src=st.integers(0, 3),
        dst=st.integers(4, 6),
        start_ms=st.integers(0, 90),
        size=st.sampled_from([10**5, 10**6]),
        port=st.integers(1, 2),
        exporter=st.sampled_from(["leaf", "spine", "core"]),
    ),
    unique=True,
    max_size=40,
)


def offsets(ahead_s: float) -> ExporterHistory:
    """The clock of the spine is ahead by some seconds, known well."""
    one = np.ones(1)
    return ExporterHistory(np.zeros(1, np.int32), np.array([BEGIN_NS]), ahead_s * one, 1e-6 * one, ("spine",))


@given(seen, st.sets(st.integers(0, 6), min_size=1), st.sampled_from([0.0, 0.02, -0.03]), st.integers(0, 3))
def test_a_jobs_own_are_those_of_all_between_its_ends(
    flows: list[Flow], endpoints: set[int], ahead_s: float, blur_ms: int
) -> None:
    read, until_ns = batch(flows), BEGIN_NS + 60 * MS
    mine = np.array(sorted(endpoints), np.int32)
    earlier = EarlierFlows(read, until_ns, offsets(ahead_s), NOBODY, blur_ms * MS, PARAMS)
    found = earlier.between(mine, BEGIN_NS + 10 * MS, BEGIN_NS + 50 * MS)
    before = clocks.correct(read.take(read.end_ns < until_ns), offsets(ahead_s), PARAMS)
    elected = elect_among(before, before.shared(), blur_ms * MS)
    wanted = FlowCut(elected, mine, BEGIN_NS + 10 * MS, BEGIN_NS + 50 * MS).batch()
    for name in ("src", "dst", "start_ns", "end_ns", "src_port", "bytes", "exporter"):
        np.testing.assert_array_equal(getattr(found, name), getattr(wanted, name), err_msg=name)


def test_flows_of_attempts_that_are_over_are_left_out() -> None:
    read = batch([Flow(0, 1, at_ms) for at_ms in (0, 1000, 2000)])
    job = known_job("job", [0, 1], steps=3)
    over = KnownJobs((job,), (), (), ())
    ends_ns = [
        EarlierFlows(read, BEGIN_NS + 100_000 * MS, ExporterHistory.empty(), known, 0, PARAMS)
        .between(np.array([0, 1], np.int32), BEGIN_NS, BEGIN_NS + 100_000 * MS)
        .end_ns.tolist()
        for known in (NOBODY, over)
    ]
    assert (len(ends_ns[0]), len(ends_ns[1])) == (3, 0)
