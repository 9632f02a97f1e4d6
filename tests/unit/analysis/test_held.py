"""What a window holds of its jobs from one stage to the next: no copies of its flows, and bursts once."""

from __future__ import annotations

import gc
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pytest

from prism_ch.analysis.continuity.continuity import JobsAround
from prism_ch.analysis.continuity.resume import AttemptSteps
from prism_ch.analysis.diagnose.context import ExaminedJob
from prism_ch.analysis.executor import Given, Held, LocalExecutor
from prism_ch.analysis.observe.known_jobs import KnownJobs
from prism_ch.analysis.observe.observe import WindowFlows
from prism_ch.analysis.window import DescribedJob, analyse_window
from prism_ch.model.exporter import ExporterHistory
from prism_ch.model.flow import FlowBatch
from prism_ch.model.flow_span import ReadFlows
from prism_ch.model.memory import WindowMemory
from prism_ch.model.traffic import Traffic
from prism_ch.model.window import Window
from tests.unit.analysis.build import BEGIN_NS, batch, every, job, ring, shaken, topology
from tests.unit.chain import PARAMS

SECOND = 10**9


class Noting(LocalExecutor):
    """Notes the values that it holds, and how many calls of each kind there were."""

    def __init__(self) -> None:
        super().__init__()
        self.shared: list[Any] = []
        self.held: list[Any] = []
        self.calls: dict[str, int] = defaultdict(int)

    def share(self, value: Any) -> Held[Any]:
        self.shared.append(value)
        return super().share(value)

    def start(self, work: Callable[..., Any], given: Iterable[Given]) -> Sequence[Held[Any]]:
        given = list(given)
        started = super().start(work, given)
        self.held.extend(self.results(started))
        for call, *_ in given:
            self.calls[getattr(call, "__name__", "")] += 1
        return started


class Counting(LocalExecutor):
    """Counts the examined jobs that there are when each job is described."""

    def __init__(self) -> None:
        super().__init__()
        self.examined: list[int] = []

    def start(self, work: Callable[..., Any], given: Iterable[Given]) -> Sequence[Held[Any]]:
        def call(inner: Callable[..., Any], *arguments: Any) -> Any:
            if getattr(inner, "__name__", "") == "_described":
                gc.collect()
                self.examined.append(sum(type(one) is ExaminedJob for one in gc.get_objects()))
            return work(inner, *arguments)

        return super().start(call, given)


def worked(flows: FlowBatch, servers: int, gpus: int = 1) -> Noting:
    """Analyse flows as one window, and note what is held."""
    executor = Noting()
    analyse(flows, executor, servers, gpus)
    return executor


def analyse(flows: FlowBatch, executor: LocalExecutor, servers: int, gpus: int = 1) -> None:
    """Analyse flows as one window."""
    where = topology(servers, gpus=gpus)
    window = Window(BEGIN_NS - 3600 * SECOND, int(flows.end_ns.max()) + 1)
    known = KnownJobs.of(WindowMemory(), window, flows, where, PARAMS.going_on)
    read = WindowFlows(window, ReadFlows(flows=flows), ExporterHistory.empty(), known)
    analyse_window(read, WindowMemory(), where, PARAMS, executor)


def parts(value: object, kind: type[Any]) -> Iterator[Any]:
    """Yield the objects of a class in another."""
    if isinstance(value, kind):
        yield value
    elif isinstance(value, tuple | list):
        for one in value:
            yield from parts(one, kind)
    elif hasattr(value, "__dataclass_fields__"):
        for name in value.__dataclass_fields__:
            yield from parts(getattr(value, name), kind)


@pytest.fixture(scope="module")
def two_jobs() -> Noting:
    flows = [*job(((0, 1), (2, 3)), 20), *ring([4, 5, 6], every(730, 27))]
    return worked(batch(shaken(flows, 1)), 7)


def test_no_stage_copies_flows(two_jobs: Noting) -> None:
    window = next(one.seen.flows for one in two_jobs.shared if isinstance(one, JobsAround))
    of_jobs = [one for one in two_jobs.held if isinstance(one, AttemptSteps | ExaminedJob)]
    assert len(of_jobs) == 4
    for held in of_jobs:
        assert all(one is window or not len(one) for one in parts(held, FlowBatch))


def test_bursts_of_all_jobs_are_not_with_their_flows(two_jobs: Noting) -> None:
    around = next(one for one in two_jobs.shared if isinstance(one, JobsAround))
    assert [len(one) for one in parts(around, Traffic)] == [0]
    assert two_jobs.calls["_divided"] == 2
    # Each job has its bursts once.
    own = {id(one.bursts.start_ns) for one in two_jobs.held if isinstance(one, AttemptSteps)}
    examined = [one for one in two_jobs.held if isinstance(one, ExaminedJob)]
    assert {id(one.start_ns) for held in examined for one in parts(held, Traffic)} <= own


def test_examined_jobs_go_once_they_are_described() -> None:
    flows = [*job(((0, 1), (2, 3)), 20), *ring([4, 5, 6], every(730, 27))]
    executor = Counting()
    analyse(batch(shaken(flows, 1)), executor, 7)
    first, second = executor.examined
    assert first - second == 1


def test_replays_are_without_traffic(two_jobs: Noting) -> None:
    described = [one for one in two_jobs.held if isinstance(one, DescribedJob) and one.replays]
    assert described
    assert not [one for held in described for one in parts(held, Traffic)]


def test_bursts_are_compared_of_those_on_the_same_servers(two_jobs: Noting) -> None:
    assert two_jobs.calls["_typed_bursts"] == 0
    flows = ring([0, 2, 4], every(1000, 20)) + ring([1, 3, 5], every(730, 26))
    assert worked(batch(shaken(flows, 1)), 3, gpus=2).calls["_typed_bursts"] == 2
