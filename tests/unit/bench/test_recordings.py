"""Recordings written slice by slice hold what their jobs send, in order."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from bench.growth import mixed
from bench.recordings import write_in_slices
from prism_ch.simulate import generate, write
from prism_ch.simulate.scenario import Observation


def test_slices_hold_every_job_in_order_of_time(tmp_path: Path) -> None:
    scenario = mixed(servers=12, duration_s=25.0)
    write_in_slices(scenario, tmp_path / "slices", slice_s=10.0)
    write(generate(scenario), tmp_path / "whole")
    files = sorted((tmp_path / "slices" / "flows").iterdir())
    slices = [pq.read_table(file)["time_flow_end_ns"] for file in files]
    edges_ns = scenario.ns([0.0, 10.0, 20.0, 25.0]).tolist()
    assert len(slices) == 3
    for ends, from_ns, to_ns in zip(slices, edges_ns, edges_ns[1:], strict=False):
        span = pc.min_max(ends).as_py()
        assert from_ns <= span["min"] <= span["max"] < to_ns
        assert ends.to_pylist() == sorted(ends.to_pylist())
    whole, [first, *_] = pq.read_table(tmp_path / "whole" / "flows"), scenario.jobs
    alone = generate(replace(scenario, jobs=(first,))).flows
    theirs = pc.is_in(pq.read_table(tmp_path / "slices" / "flows")["src_addr"], alone["src_addr"])
    assert pc.sum(theirs).as_py() == len(alone)
    assert sum(map(len, slices)) == pytest.approx(len(whole), rel=0.05)
    topologies = [(tmp_path / kind / "topology.csv").read_text() for kind in ("slices", "whole")]
    assert topologies[0] == topologies[1]
    assert sorted(file.name for file in (tmp_path / "slices").iterdir()) == ["flows", "topology.csv"]


def test_late_records_are_refused(tmp_path: Path) -> None:
    late = replace(mixed(servers=2, duration_s=5.0), observation=Observation(late=0.1))
    with pytest.raises(ValueError, match="in order"):
        write_in_slices(late, tmp_path)
