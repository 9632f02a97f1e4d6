"""Simulated jobs that stand still: a hang, a stall, a restart and a lost exporter are told apart."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from prism_ch.ingest.files import land_files
from prism_ch.ingest.topology_file import load_topology
from prism_ch.settings import Settings
from prism_ch.simulate import Simulation, generate, write
from prism_ch.simulate.draws import Draws
from prism_ch.simulate.job import Attempt, Fault, Layout, Pause
from prism_ch.simulate.scenario import Scenario
from prism_ch.store.client import Store, connect
from prism_ch.store.migrate import migrate
from prism_ch.worker import analyse
from tests.e2e.analysed import NewUrl
from tests.sweeps import swept

pytestmark = pytest.mark.slow

SECOND = 10**9
WINDOW_S = 10
STEP_S = 1.5
STOPS_S = 40.0


@dataclass(frozen=True)
class Told:
    """What the tables say of the only job."""

    findings: list[tuple[Any, ...]]
    status: str
    losses: list[tuple[Any, ...]]


def healthy(seed: int = 102) -> Scenario:
    """Replicas of two stages, on a GPU of each of eight servers and on one that is idle."""
    draws = Draws("standing-still", seed, servers=9)
    job = draws.job(0, Layout(tp=1, pp=2, dp=4), STEP_S, gpus=range(0, 64, 8))
    return draws.scenario([job], STEP_S, duration_s=90.0, phases=False)


@contextmanager
def analysed(made: Simulation, folder: Path, url: str, until_s: float) -> Iterator[Store]:
    """Land a simulation, and work its windows as a service does up to so long after its beginning."""
    write(made, folder)
    until_ns = made.scenario.start_ns + round(until_s * SECOND)
    with connect(url) as store:
        migrate(store)
        load_topology(store, str(folder / "topology.csv"))
        land_files(store, [str(folder / "flows" / "*.parquet")])
        analyse(store, Settings(url=url, window_s=WINDOW_S), until_ns=until_ns, silent_until_ns=until_ns)
        yield store


@pytest.fixture
def told(new_url: NewUrl, tmp_path: Path) -> Callable[..., Told]:
    def ask(made: Simulation, until_s: float = 90.0) -> Told:
        with analysed(made, tmp_path, new_url(), until_s) as store:
            return Told(
                store.rows(
                    "SELECT kind::String, subject, status::String FROM diagnoses WHERE severity != 'info'"
                    " ORDER BY start_time"
                ),
                store.scalar("SELECT status::String FROM jobs"),
                store.rows(
                    "SELECT cause::String, interruptions, round(gap_s), members_before, members_after,"
                    " lost_s BETWEEN gap_s - 3 AND gap_s + 6 FROM losses WHERE interruptions > 0"
                ),
            )

    return ask


def test_all_is_silent_and_the_rank_that_hangs_is_named(told: Callable[..., Told]) -> None:
    made = generate(replace(healthy(), faults=(Fault(kind="hang", gpu=24, start_s=STOPS_S),)))
    found = told(made)
    [(kind, subject, status)] = found.findings
    assert (kind, subject, status) == ("hang", made.truth["faults"].to_pylist()[0]["subject"], "open")
    assert found.status == "stalled"
    [(cause, interruptions, gap_s, _, _, is_lost)] = found.losses
    assert (cause, interruptions, is_lost) == ("hang", 1, True)
    assert gap_s == pytest.approx(90 - STOPS_S, abs=5)


@pytest.mark.parametrize("saves", [1 << 30, *swept(0)])
def test_first_pause_of_a_job_is_an_alarm_though_it_saves(told: Callable[..., Told], saves: int) -> None:
    run = healthy()
    pause = Pause(kind="checkpoint", duration_s=12.0, at_step=28, payload_bytes=saves)
    job = replace(run.jobs[0], pauses=(pause,))
    found = told(generate(replace(run, jobs=(job,), cluster=replace(run.cluster, storage_nodes=2))))
    assert [(kind, status) for kind, _, status in found.findings] == [("stall", "closed")]
    assert found.status == "running"
    assert found.losses == [("stall", 1, 12.0, 0, 0, True)]


def test_job_that_begins_anew_on_another_server_was_restarted(told: Callable[..., Told]) -> None:
    run = healthy()
    [attempt] = run.jobs[0].attempts
    again = Attempt(gpus=(64, *attempt.gpus[1:]), start_s=STOPS_S + 10, startup_s=3.0)
    job = replace(run.jobs[0], attempts=(replace(attempt, end_s=STOPS_S), again))
    found = told(generate(replace(run, jobs=(job,))))
    assert [kind for kind, *_ in found.findings] == ["restart"]
    assert found.status == "running"
    [(cause, interruptions, gap_s, before, after, is_lost)] = found.losses
    assert (cause, interruptions, before, after, is_lost) == ("restart", 1, 8, 8, True)
    assert gap_s == pytest.approx(13, abs=3)


def test_an_exporter_that_is_lost_is_no_hang(told: Callable[..., Told]) -> None:
    made = generate(healthy())
    exporters = np.array(made.flows["sampler_address"].to_pylist())
    lost = min(set(exporters.tolist()))
    ended_s = (made.flows["time_flow_end_ns"].to_numpy() - made.scenario.start_ns) / SECOND
    found = told(replace(made, flows=made.flows.filter((exporters != lost) | (ended_s < STOPS_S))))
    assert found.findings == [("telemetry", lost, "open")]
    assert found.status == "running"
    assert found.losses == []
