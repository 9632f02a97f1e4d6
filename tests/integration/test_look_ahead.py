"""What stops in a window that is still open is told once records should have come, and worked again as it closes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from prism_ch.errors import ClaimedError
from prism_ch.ingest.files import land_files
from prism_ch.ingest.topology_file import load_topology
from prism_ch.model.window import Window
from prism_ch.settings import Settings
from prism_ch.simulate import Simulation, generate, textbook, write
from prism_ch.simulate.job import Fault
from prism_ch.simulate.scenario import Silence
from prism_ch.store.client import Store
from prism_ch.store.ledger import claim_window, new_worker
from prism_ch.worker import analyse, look_ahead
from tests.contract import RESULTS, snapshot

SECOND = 10**9
#: The first window is over; in the second one something happens.
STOPS_S, LASTS_S = 75.0, 120.0
SETTINGS = Settings(url="chdb://unused")


def recorded(**changes: object) -> Simulation:
    run = textbook(64, 1, 2, 16, jobs=2, duration_s=LASTS_S, step_s=1.0, seed=2)
    return generate(replace(run, **changes))  # type: ignore[arg-type]


def hung() -> Simulation:
    return recorded(faults=(Fault(kind="hang", gpu=5, start_s=STOPS_S),))


def cut_off() -> Simulation:
    run = textbook(64, 1, 2, 16, jobs=2, duration_s=LASTS_S, step_s=1.0, seed=2)
    silence = Silence(from_s=STOPS_S, to_s=LASTS_S)
    return recorded(observation=replace(run.observation, silences=(silence,)))


def land(store: Store, made: Simulation, folder: Path, from_s: float, to_s: float) -> None:
    ended_s = pc.divide(pc.subtract(made.flows["time_flow_end_ns"], made.scenario.start_ns), float(SECOND))
    part = made.flows.filter(pc.and_(pc.greater_equal(ended_s, from_s), pc.less(ended_s, to_s)))
    path = folder / f"{from_s:.0f}.parquet"
    pq.write_table(part, path)
    land_files(store, [str(path)])


def prepared(store: Store, made: Simulation, folder: Path, until_s: float) -> int:
    """Land and analyse all up to then, as a service does; returns that time in nanoseconds."""
    write(made, folder)
    load_topology(store, str(folder / "topology.csv"))
    land(store, made, folder, 0.0, until_s)
    until_ns = made.scenario.start_ns + round(until_s * SECOND)
    analyse(store, SETTINGS, until_ns=until_ns - 10 * SECOND)
    return until_ns


def findings(store: Store) -> list[tuple[str, ...]]:
    return store.rows(
        "SELECT kind::String, status::String FROM diagnoses"
        " WHERE kind IN ('hang', 'stall', 'restart', 'telemetry') ORDER BY start_time"
    )


@pytest.mark.parametrize("made, expected", [(hung, ("hang", "open")), (cut_off, ("telemetry", "open"))])
def test_silence_is_told_before_its_window_closes(
    store: Store, tmp_path: Path, made: object, expected: tuple[str, ...]
) -> None:
    until_ns = prepared(store, made(), tmp_path, STOPS_S + 12)  # type: ignore[operator]
    assert findings(store) == []
    assert look_ahead(store, SETTINGS, until_ns) is not None
    assert findings(store) == [expected]
    assert store.scalar("SELECT count() FROM windows") == 1
    assert store.scalar("SELECT count() FROM incidents WHERE status = 'open' AND severity != 'info'") == 1


@pytest.mark.sweep
def test_looking_ahead_leaves_the_same_results(store: Store, tmp_path: Path) -> None:
    made = hung()
    until_ns = prepared(store, made, tmp_path, STOPS_S + 12)
    for later_s in (0, 5):
        look_ahead(store, SETTINGS, until_ns + later_s * SECOND)
    land(store, made, tmp_path, STOPS_S + 12, LASTS_S)
    analyse(store, SETTINGS)
    looked = snapshot(store, *RESULTS)
    assert [kind for kind, *_ in findings(store)] == ["hang"]
    analyse(store, SETTINGS, force=True)
    assert snapshot(store, *RESULTS) == looked


def test_nothing_is_looked_at_before_a_window_is_finished(store: Store, tmp_path: Path) -> None:
    made = hung()
    write(made, tmp_path)
    load_topology(store, str(tmp_path / "topology.csv"))
    land(store, made, tmp_path, 0.0, 30.0)
    assert look_ahead(store, SETTINGS, made.scenario.start_ns + 30 * SECOND) is None


def test_looking_ahead_leaves_windows_to_whoever_is_at_them(store: Store, tmp_path: Path) -> None:

    until_ns = prepared(store, hung(), tmp_path, STOPS_S + 12)
    with new_worker(store) as other:
        claim_window(store, Window(until_ns - 60 * SECOND, until_ns), worker=other)
        with pytest.raises(ClaimedError):
            look_ahead(store, SETTINGS, until_ns)
