"""Traffic that is no training: start-up meshes, storage, monitoring, stray flows, inference."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from prism_ch.model.columns import Float64, Int64
from prism_ch.simulate.flows import MONITOR, SERVING, STARTUP, STORAGE, STRAY, Flows, Index
from prism_ch.simulate.network import Network
from prism_ch.simulate.scenario import Scenario, Serving
from prism_ch.simulate.training import AttemptRun

#: A request's key-value cache leaves in this many pieces, a group of layers each.
_CACHE_PIECES = 4


def surrounding_flows(scenario: Scenario, network: Network) -> Flows:
    """Return all flows of the scenario's surroundings."""
    rng = np.random.default_rng([scenario.seed, 3])
    parts = [*_storage_reads(scenario, network, rng), *_monitoring(scenario, network, rng)]
    parts.append(_stray(scenario, network, rng))
    for number, serving in enumerate(scenario.surroundings.serving):
        parts += _serve(scenario, serving, network, np.random.default_rng([scenario.seed, 4, number]))
    return Flows.concatenate(parts)


def startup_flows(scenario: Scenario, number: int, runs: Sequence[AttemptRun], network: Network) -> Flows:
    """Return how ranks connect at the beginning of attempts: nearly each with each."""
    parts = []
    for index, run in enumerate(runs):
        if not run.attempt.startup_s:
            continue
        rng = np.random.default_rng([scenario.seed, 5, number, index])
        endpoints = np.unique(run.grid.endpoint)
        src, dst = (side.reshape(-1) for side in np.meshgrid(endpoints, endpoints, indexing="ij"))
        met = network.crosses(src, dst) & (rng.random(len(src)) < 0.95)
        src, dst = src[met], dst[met]
        start = run.attempt.start_s + run.attempt.startup_s * rng.uniform(0.05, 0.9, len(src))
        took = rng.uniform(0.0005, 0.02, len(src))
        size = rng.integers(300, 20_000, len(src))
        parts.append(Flows.of(src, dst, size, kind=STARTUP, job=number, **scenario.span(start, took)))
    return Flows.concatenate(parts)


def _storage_reads(scenario: Scenario, network: Network, rng: np.random.Generator) -> Iterator[Flows]:
    """Yield what servers read from storage, by a NIC each, and their requests."""
    around, cluster = scenario.surroundings, scenario.cluster
    if not around.read_period_s or not len(network.storage):
        return
    readers = np.arange(0, cluster.servers * cluster.nics, cluster.nics)
    reader, start = _periodic(readers, around.read_period_s, scenario.duration_s, rng)
    node = network.storage[rng.integers(0, len(network.storage), len(reader))]
    size = np.rint(around.read_bytes * rng.uniform(0.8, 1.2, len(reader)))
    yield Flows.of(node, reader, size, kind=STORAGE, **scenario.span(start, size / 5e9))
    yield Flows.of(reader, node, 400, kind=STORAGE, **scenario.span(start - 0.001, 5e-4))


def _monitoring(scenario: Scenario, network: Network, rng: np.random.Generator) -> Iterator[Flows]:
    """Yield what monitors query of every endpoint, and the answers."""
    period_s = scenario.surroundings.monitor_period_s
    if not period_s or not len(network.monitors):
        return
    nics = np.arange(scenario.cluster.servers * scenario.cluster.nics)
    queried, start = _periodic(nics, period_s, scenario.duration_s, rng)
    monitor = network.monitors[queried % len(network.monitors)]
    took = rng.uniform(0.002, 0.02, len(queried))
    size = rng.integers(70_000, 90_000, len(queried))
    yield Flows.of(queried, monitor, size, kind=MONITOR, **scenario.span(start, took))
    yield Flows.of(monitor, queried, size // 80, kind=MONITOR, **scenario.span(start - 0.001, took + 0.001))


def _periodic(who: Index, period_s: float, duration_s: float, rng: np.random.Generator) -> tuple[Index, Float64]:
    """Return who acts when: every period, from a phase of its own, unpunctually."""
    rounds = int(duration_s / period_s) + 1
    phase = rng.uniform(0.0, period_s, len(who))
    start = (phase[:, None] + period_s * np.arange(rounds)).reshape(-1)
    return np.repeat(who, rounds), start + rng.normal(0.0, 0.01, len(start))


def _stray(scenario: Scenario, network: Network, rng: np.random.Generator) -> Flows:
    """Return small flows between endpoints that have nothing to do with one another."""
    count = int(rng.poisson(scenario.surroundings.stray_s * scenario.duration_s))
    src, dst = rng.integers(0, scenario.cluster.servers * scenario.cluster.nics, (2, count))
    start = rng.uniform(0.0, scenario.duration_s, count)
    took = rng.uniform(0.0002, 0.05, count)
    size = np.rint(rng.lognormal(9.0, 1.5, count))
    return Flows.of(src, dst, size, kind=STRAY, **scenario.span(start, took)).take(network.crosses(src, dst))


def _serve(scenario: Scenario, serving: Serving, network: Network, rng: np.random.Generator) -> Iterator[Flows]:
    """Yield requests, key-value caches and answers of one deployment."""
    arrival, client = _arrivals(serving, max(len(network.clients), 1), scenario.duration_s, rng)
    count, nics = len(arrival), scenario.cluster.nics
    prefill = np.asarray(serving.prefill)[rng.integers(0, len(serving.prefill), count)]
    decode = np.asarray(serving.decode)[rng.integers(0, len(serving.decode), count)]
    cache = serving.cache_bytes * rng.lognormal(-0.32, 0.8, count)
    if len(network.clients):
        sender = network.clients[client]
        question = rng.integers(500, 30_000, count)
        took = rng.uniform(1e-3, 5e-3, count)
        yield Flows.of(sender, prefill * nics, question, kind=SERVING, **scenario.span(arrival, took))
        answering_s = rng.gamma(2.0, 2.0, count)
        size = np.rint(answering_s * 400) + 200
        yield Flows.of(decode * nics, sender, size, kind=SERVING, **scenario.span(arrival + 0.3, answering_s))
    prefill_s = 0.02 + cache / 20e9
    request, rail, piece = (axis.reshape(-1) for axis in np.indices((count, nics, _CACHE_PIECES)))
    size = np.maximum(cache[request] / nics / _CACHE_PIECES, 1).astype(np.int64)
    start = arrival[request] + prefill_s[request] * (1 + piece) / _CACHE_PIECES
    start = start + rng.uniform(0.0, 3e-4, len(start))
    took = size * 8e-9 / scenario.cluster.link_gbps * rng.uniform(1.05, 1.4, len(size)) + 1e-5
    src, dst = prefill[request] * nics + rail, decode[request] * nics + rail
    yield Flows.of(src, dst, size, kind=SERVING, **scenario.span(start, took))


def _arrivals(serving: Serving, clients: int, duration_s: float, rng: np.random.Generator) -> tuple[Float64, Int64]:
    """Return when each request comes and from which client: a Gamma renewal process a client."""
    mean_s = clients / serving.requests_s
    shape = 1.0 / serving.burstiness**2
    draws = int(np.ceil(duration_s / mean_s * 2)) + 20
    when = np.cumsum(rng.gamma(shape, mean_s / shape, (clients, draws)), axis=1)
    when -= rng.uniform(0.0, mean_s, (clients, 1))
    inside = (when >= 0) & (when < duration_s)
    return when[inside], np.nonzero(inside)[0]
