"""Exporters that join a job's steps into one record: the job is found, no step is invented, and it is said why."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from prism_ch.simulate import generate, textbook, write
from prism_ch.simulate.scenario import Observation
from prism_ch.store.client import connect
from tests.e2e.analysed import Analysed, NewUrl, run
from tests.scoring import read_simulated_truth, score, strangers

pytestmark = pytest.mark.slow

_FINDINGS = """
SELECT subject, kind::String, subject_type::String, status::String, severity::String, expected, summary
FROM diagnoses ORDER BY subject
"""


def recording(folder: Path, url: str, observation: Observation) -> Analysed:
    """Three minutes of a job on 64 GPUs with steps of two seconds."""
    shape = textbook(64, 4, 4, 4, microbatches=8, step_s=2.0, duration_s=190.0, seed=4)
    write(generate(replace(shape, observation=observation)), folder)
    return run(folder, "flows/*.parquet", url)


@pytest.fixture(scope="module")
def coarse(new_url: NewUrl, tmp_path_factory: pytest.TempPathFactory) -> Analysed:
    """All exporters wait for 15 s."""
    seen = Observation(idle_timeout_s=15.0, active_timeout_s=60.0)
    return recording(tmp_path_factory.mktemp("coarse"), new_url(), seen)


@pytest.fixture(scope="module")
def half(new_url: NewUrl, tmp_path_factory: pytest.TempPathFactory) -> Analysed:
    """Half of the leaves do."""
    seen = Observation(coarse_leaves=0.5, coarse_idle_timeout_s=15.0, active_timeout_s=60.0)
    return recording(tmp_path_factory.mktemp("half"), new_url(), seen)


def test_the_job_is_found_with_its_members_and_no_step(coarse: Analysed) -> None:
    truth = read_simulated_truth(coarse.folder)
    with connect(coarse.url) as store:
        [found] = score(store, truth)
        assert strangers(store, truth) == set()
        assert store.rows("SELECT steps FROM jobs") == [(0,)]
        assert store.rows("SELECT step FROM steps") == store.rows("SELECT step FROM gpu_steps") == []
        assert store.rows("SELECT step FROM timeline") == store.rows("SELECT group_id FROM groups") == []
        assert store.rows("SELECT kind::String, max(confidence) < 0.5 FROM pairs GROUP BY kind") == [("other", 1)]
    assert found.members_exact


def test_each_exporter_named_once_with_a_fitting_timeout(coarse: Analysed) -> None:
    with connect(coarse.url) as store:
        findings = store.rows(_FINDINGS)
        exporters = store.rows("SELECT DISTINCT sampler_address FROM flows ORDER BY sampler_address")
    assert [(subject,) for subject, *_ in findings] == exporters
    for subject, *rest, expected, summary in findings:
        assert rest == ["telemetry", "exporter", "open", "warning"]
        assert expected == 0.1
        assert f"Exporter {subject} " in summary
        assert "set it to 0.1 s or less" in summary
    assert "none could be told apart" in coarse.told.out
    assert "set it to 0.1 s or less" in " ".join(coarse.told.out.split())


def test_what_exporters_show_of_their_timeouts_is_kept(coarse: Analysed, half: Analysed) -> None:
    with connect(coarse.url) as store:
        assert store.rows("SELECT DISTINCT idle_timeout_s, active_timeout_s FROM exporters") == [(None, 60.0)]
    with connect(half.url) as store:
        known = store.rows("SELECT active_timeout_s, count() FROM exporters GROUP BY 1 ORDER BY 1 NULLS LAST")
    assert known == [(60.0, 4), (None, 4)]


def test_steps_are_those_that_half_of_the_exporters_show(half: Analysed) -> None:
    with connect(half.url) as store:
        [found] = score(store, read_simulated_truth(half.folder))
        findings = store.rows(_FINDINGS)
        coarse = store.rows(
            "SELECT sampler_address FROM flows GROUP BY 1"
            " HAVING median(time_flow_end_ns - time_flow_start_ns) > 30e9 ORDER BY 1"
        )
    assert found.members_exact
    assert found.steps >= 80
    assert (found.missed, found.extra) == (0, 0)
    assert found.precision == dict.fromkeys(found.precision, 1.0)
    assert len(coarse) == 4
    assert [(subject,) for subject, *_ in findings] == coarse
    for _, *rest, expected, summary in findings:
        assert rest == ["telemetry", "exporter", "open", "warning"]
        assert 0.1 < expected < 2.0
        assert "that other exporters show" in summary
