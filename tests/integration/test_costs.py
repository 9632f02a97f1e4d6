"""What windows cost is measured on those that were worked, nothing is written, and others are predicted by it."""

from dataclasses import replace
from pathlib import Path

import pytest

from prism_ch.health.costs import CostModel, WindowCost, measure_costs
from prism_ch.ingest.files import land_files
from prism_ch.ingest.topology_file import load_topology
from prism_ch.model.window import Window
from prism_ch.settings import AnalysisSettings, Settings
from prism_ch.simulate import generate, textbook, write
from prism_ch.store.client import Store
from prism_ch.store.pull import PLANS
from prism_ch.worker import analyse
from tests.e2e.commands import prism_ch

SETTINGS = Settings(url="chdb://-", window_s=30)


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the flows of two jobs over two minutes."""
    folder = tmp_path_factory.mktemp("recording")
    write(replace(generate(textbook(32, 2, 2, 4, step_s=1.0, duration_s=119.0, seed=4, jobs=2)), truth={}), folder)
    return folder


def test_the_model_is_found_in_what_follows_it() -> None:
    model = CostModel(3e-6, 0.02, 0.15)
    costs = [
        WindowCost(Window(0, 1), flows, jobs, model.predict(flows, jobs), 1.0, 0.0)
        for flows, jobs in ((1000, 1), (50_000, 3), (9000, 12), (70_000, 2), (20_000, 7))
    ]
    found = CostModel.of(costs[:4])
    assert found.errors(costs[4:]) == pytest.approx([0], abs=1e-9)
    assert (found.flow_s, found.job_s, found.window_s) == pytest.approx((3e-6, 0.02, 0.15))


def test_one_stray_measurement_of_a_window_does_not_count(store: Store, recording: Path) -> None:
    load_topology(store, str(recording / "topology.csv"))
    land_files(store, [str(recording / "flows" / "*.parquet")])
    analyse(store, SETTINGS)
    strays = iter([9.0, 1.0, 90.0, 3.0, 4.0, 60.0, 2.0, 3.1, 4.1, 1.1, 2.1, 70.0, 4.2])
    costs: list[WindowCost] = []

    def stray(store: Store, window: Window, *_: object) -> WindowCost:
        costs.append(WindowCost(window, 1, 1, next(strays), 1.0, 0.0))
        return costs[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("prism_ch.health.costs._window_cost", stray)
        found = measure_costs(store, SETTINGS)
    assert [one.cpu_s for one in found.fitted] == [1.1, 3.1]
    assert [one.cpu_s for one in found.unseen] == [2.1, 4.1]
    assert next(strays, None) is None


@pytest.mark.sweep
def test_windows_of_a_database_are_measured_and_left_alone(store: Store, recording: Path) -> None:
    load_topology(store, str(recording / "topology.csv"))
    land_files(store, [str(recording / "flows" / "*.parquet")])
    analyse(store, SETTINGS)
    worked = "SELECT window_start, attempts, worked_at FROM windows ORDER BY window_start"
    before = store.rows(worked)
    done: list[tuple[int, int]] = []
    costs = measure_costs(store, SETTINGS, lambda *count: done.append(count))
    assert store.rows(worked) == before
    assert len({one.window for one in costs.windows}) == len(costs.windows) == len(before) == 4
    assert done[-1] == (3 * len(before) + 1, 3 * len(before) + 1)
    assert {one.jobs for one in costs.windows} == {2}
    assert all(one.flows > 0 < one.cpu_s for one in costs.windows)
    assert {cost.plan for cost in costs.reads} == set(PLANS)
    assert [cost.flow_s for cost in costs.reads] == sorted(cost.flow_s for cost in costs.reads)
    assert costs.chosen(SETTINGS) is costs.reads[0]
    here = SETTINGS.model_copy(update={"analysis": AnalysisSettings(pushdown="here")})
    assert costs.chosen(here).plan == PLANS[2]


def test_doctor_shows_what_windows_cost(recording: Path, store_url: str) -> None:
    flows = ("run", recording / "flows" / "*.parquet", "--topology", recording / "topology.csv")
    done = prism_ch(*flows, url=store_url)
    assert (done.status, done.err) == (0, "")
    done = prism_ch("doctor", "--costs", url=store_url)
    assert (done.status, done.err) == (0, "")
    first = [line.split()[0] for line in done.out.splitlines() if not line.startswith(" ")]
    assert first == ["windows", "a", "predicted", "clock", "reading", "reading", "reading", "saved"]
    assert "2 of 60 s analysed anew, 3 times each, and nothing written" in done.out
    assert done.out.count("chosen") == 1


def test_a_database_without_windows_has_no_costs(store_url: str) -> None:
    assert prism_ch("migrate", url=store_url).status == 0
    done = prism_ch("doctor", "--costs", url=store_url)
    assert (done.status, done.out) == (2, "")
    assert done.err == "prism-ch: fewer than two windows with flows have been worked; run `prism-ch analyse` first\n"


def test_measuring_and_mending_are_two_things(store_url: str) -> None:
    done = prism_ch("doctor", "--costs", "--mend", url=store_url)
    assert done.status == 2
    assert "--mend and --costs are two things" in done.err
