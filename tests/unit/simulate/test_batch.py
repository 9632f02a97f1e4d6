"""A batch that becomes larger: every rank computes longer, activations are larger, gradients are not."""

from __future__ import annotations

import numpy as np
import pytest
from pydantic import ValidationError

from prism_ch.simulate import Scenario, generate
from prism_ch.simulate.job import Attempt, BatchChange, Compute, Job, Layout, Pipeline
from prism_ch.simulate.scenario import Cluster


def test_from_a_step_on_steps_take_longer_and_move_more() -> None:
    job = Job(
        job_id="job",
        tenant="t",
        layout=Layout(tp=8, dp=2, pp=2),
        compute=Compute(forward_s=0.05),
        attempts=(Attempt(gpus=tuple(range(32))),),
        pipeline=Pipeline(microbatches=4),
        batch_changes=(BatchChange(from_step=6, factor=2.0),),
    )
    made = generate(Scenario(name="x", cluster=Cluster(servers=4), jobs=(job,), duration_s=20.0, phases=False))
    steps = sorted(made.truth["steps"].to_pylist(), key=lambda row: row["step"])
    taken_s = [row["duration_s"] for row in steps if row["complete"]]
    assert np.median(taken_s[6:]) / np.median(taken_s[:5]) == pytest.approx(2, abs=0.2)
    kind = {(row["src_addr"], row["dst_addr"]): row["kind"] for row in made.truth["pairs"].to_pylist()}
    flows = made.flows.to_pylist()
    change_ns = steps[6]["start_ns"]
    for name, factor in (("PP", 2.0), ("DP", 1.0)):
        of_kind = [row for row in flows if kind[row["src_addr"], row["dst_addr"]] == name]
        before, after = (
            np.median([row["bytes"] for row in of_kind if (row["time_flow_start_ns"] > change_ns) == late])
            for late in (False, True)
        )
        assert after / before == pytest.approx(factor, rel=1e-3)
    assert job.with_batch(1.0) == job


def test_a_batch_without_samples_is_refused() -> None:
    with pytest.raises(ValidationError, match="greater than 0"):
        BatchChange(from_step=1, factor=0.0)
