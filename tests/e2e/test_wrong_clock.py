"""A job whose flows every switch on their way reports, one of them by a clock that is off, beside right clocks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from prism_ch.simulate import generate, write
from prism_ch.simulate.families import CONDITIONS, FAMILIES
from prism_ch.store.client import Store, connect
from tests.contract import RESULTS, snapshot
from tests.e2e.analysed import Analysed, NewUrl, run
from tests.e2e.commands import prism_ch
from tests.scoring import read_simulated_truth, score, strangers

pytestmark = pytest.mark.slow

SEED = 2
WINDOW_S, DURATION_S = 20, 120.0
END = "time_flow_end_ns"
WRONG = CONDITIONS["bad-exporter-200ms"]

#: How records are taken, by how far the wrong clock is ahead; 0 where all clocks are right.
TAKEN = {ahead_s: replace(WRONG, bad_exporter_s=ahead_s) for ahead_s in (-0.2, 3.0)} | {0.0: CONDITIONS["every-switch"]}

#: Gives the analysis of the job's records by clocks of which one is so far ahead, and the name of its exporter.
ByClock = Callable[[float], tuple[Analysed, str]]


@pytest.fixture(scope="module")
def by_clock(new_url: NewUrl, tmp_path_factory: pytest.TempPathFactory) -> ByClock:
    """Simulate and analyse the job, once for each clock."""

    @cache
    def analysed(ahead_s: float) -> tuple[Analysed, str]:
        folder = tmp_path_factory.mktemp("clock")
        scenario = replace(FAMILIES["pipeline-1f1b"](SEED), duration_s=DURATION_S, phases=False)
        made = generate(replace(scenario, observation=TAKEN[ahead_s]))
        write(made, folder)
        return run(folder, "flows/*.parquet", new_url(), WINDOW_S), made.summary["bad_exporter"]

    return analysed


def rows(analysed: Analysed, question: str) -> list[tuple[Any, ...]]:
    with connect(analysed.url) as store:
        return store.rows(question)


@pytest.mark.parametrize("ahead_s", [-0.2, 3.0])
def test_the_job_is_found_whole_and_its_steps_to_a_thousandth(by_clock: ByClock, ahead_s: float) -> None:
    analysed, _ = by_clock(ahead_s)
    truth = read_simulated_truth(analysed.folder)
    with connect(analysed.url) as store:
        [found] = score(store, truth)
        assert strangers(store, truth) == set()
    assert found.members_exact
    assert found.stages_exact
    assert found.steps > 20
    assert (found.missed, found.extra) == (0, 0)
    assert found.duration_error <= 0.001


@pytest.mark.parametrize("ahead_s", [-0.2, 3.0])
@pytest.mark.parametrize(
    "question",
    [
        "SELECT src_addr, dst_addr, kind, flows, bytes FROM pairs ORDER BY ALL",
        "SELECT kind, pp_stage, members FROM groups ORDER BY ALL",
        "SELECT endpoint, step FROM gpu_steps ORDER BY ALL",
        "SELECT kind, subject FROM diagnoses ORDER BY ALL",
    ],
)
def test_every_flow_counts_once_and_all_is_as_by_right_clocks(by_clock: ByClock, ahead_s: float, question: str) -> None:
    assert rows(by_clock(ahead_s)[0], question) == rows(by_clock(0.0)[0], question)


@pytest.mark.parametrize("ahead_s", [-0.2, 3.0])
def test_the_exporter_is_named_with_its_offset(by_clock: ByClock, ahead_s: float) -> None:
    analysed, wrong = by_clock(ahead_s)
    offset_s = dict(rows(analysed, "SELECT exporter, clock_offset_s FROM exporters"))
    assert offset_s.pop(wrong) == pytest.approx(ahead_s, abs=0.003)
    others = np.array(list(offset_s.values()), np.float64)
    assert len(others) > 10
    assert (np.abs(others) < 0.0045).all()  # two clocks that are 2 ms off may be 4 ms apart


def test_right_clocks_are_said_to_be_right(by_clock: ByClock) -> None:
    offsets = rows(by_clock(0.0)[0], "SELECT max(abs(clock_offset_s)), countIf(clock_offset_s IS NULL) FROM exporters")
    assert offsets == [(pytest.approx(0, abs=1e-5), 0)]


@pytest.mark.sweep
def test_when_and_how_often_windows_are_worked_changes_nothing(
    by_clock: ByClock, store: Store, store_url: str, tmp_path: Path
) -> None:
    analysed, _ = by_clock(-0.2)
    [file] = (analysed.folder / "flows").iterdir()
    flows = pq.read_table(file)

    def done(*arguments: str | Path) -> bool:
        return prism_ch(*arguments, url=store_url, window_s=WINDOW_S).status == 0

    assert done("topology", analysed.folder / "topology.csv")
    for number, part in enumerate(np.array_split(np.argsort(flows[END].to_numpy()), 3)):
        pq.write_table(flows.take(part), tmp_path / f"{number}.parquet")
        assert done("ingest", tmp_path / f"{number}.parquet")
        assert done("analyse")
    assert done("analyse", "--force")
    with connect(analysed.url) as at_once:
        assert snapshot(store, *RESULTS, "exporters") == snapshot(at_once, *RESULTS, "exporters")
