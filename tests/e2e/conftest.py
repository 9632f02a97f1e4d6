"""What the end-to-end tests share: databases on the session's engine, and analyses that several of them look at."""

from __future__ import annotations

from functools import cache
from itertools import count
from pathlib import Path

import pytest

from prism_ch.simulate import generate, textbook, write
from tests.e2e.analysed import PRODUCTION, RECORDED, Analysed, NewUrl, Production, Recorded, run, simulate


@pytest.fixture(scope="session")
def new_url(engine_folder: Path) -> NewUrl:
    """Name a database that does not exist yet, on the session's engine."""
    numbers = count(1)
    return lambda: f"chdb://{engine_folder}?database=e2e_{next(numbers)}"


@pytest.fixture(scope="session")
def recorded(new_url: NewUrl) -> Recorded:
    """Analyse a recorded run, once however many tests ask for it."""

    @cache
    def analysed(name: str) -> Analysed:
        return run(RECORDED / name, "flows.parquet", new_url())

    return analysed


@pytest.fixture(scope="session")
def production(new_url: NewUrl) -> Production:
    """Analyse the timings of a production run, once however many tests ask for a length of windows."""

    @cache
    def analysed(window_s: int) -> Analysed:
        return run(PRODUCTION, "flows.parquet", new_url(), window_s)

    return analysed


@pytest.fixture(scope="session")
def healthy(new_url: NewUrl, tmp_path_factory: pytest.TempPathFactory) -> Analysed:
    """64 simulated GPUs with nothing wrong."""
    return simulate(tmp_path_factory.mktemp("healthy"), new_url())


@pytest.fixture(scope="session")
def slow_gpu(new_url: NewUrl, tmp_path_factory: pytest.TempPathFactory) -> Analysed:
    """64 simulated GPUs of which the sixth computes twice as long in steps 20 to 30."""
    return simulate(tmp_path_factory.mktemp("slow_gpu"), new_url(), "--slow-gpu", "5", "2", "20", "30", "--seed", "1")


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The records of a minute of a job on 32 GPUs, one of which is slow in steps 70 to 80; topology and truth beside.

    It is a hard one: the network shows two halves, one of which falls behind, and a stage that ends long after another.
    """
    folder = tmp_path_factory.mktemp("cluster")
    shape = textbook(32, 4, 2, 4, microbatches=2, step_s=0.5, duration_s=60.0, slow_gpu=(5, 3.0, 70, 80), seed=3)
    write(generate(shape), folder)
    return folder
