"""Traffic that is no training: start-up meshes, storage, monitoring, stray flows, inference."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from prism_ch.model.columns import Float64, Int64
from prism_ch.simulate.cluster import Network
from prism_ch.simulate.scenario import Scenario, Serving
from prism_ch.simulate.training import LifeRun
from prism_ch.simulate.transfers import MONITOR, PLAIN, SERVING, STARTUP, STORAGE, STRAY, Transfers

#: A request's key-value cache leaves in this many pieces, a group of layers each.
_CACHE_PIECES = 4

Index = npt.NDArray[np.integer]


def surrounding_transfers(scenario: Scenario, network: Network) -> Transfers:
    """Return all flows of the scenario's surroundings that end inside the recording."""
    rng = np.random.default_rng([scenario.seed, 3])
    parts = [*_periodic(scenario, network, rng), _stray(scenario, network, rng)]
    parts += [
        part
        for number, serving in enumerate(scenario.surroundings.serving)
        for part in _serve(scenario, serving, network, np.random.default_rng([scenario.seed, 4, number]))
    ]
    return Transfers.concatenate(parts)


def startup_transfers(scenario: Scenario, number: int, runs: Sequence[LifeRun], network: Network) -> Transfers:
    """Return how the ranks of job `number` find one another at the beginning of each life: nearly each with each."""
    parts = []
    for index, run in enumerate(runs):
        if not run.life.startup_s:
            continue
        rng = np.random.default_rng([scenario.seed, 5, number, index])
        endpoints = np.unique(run.grid.endpoint)
        src, dst = (side.reshape(-1) for side in np.meshgrid(endpoints, endpoints, indexing="ij"))
        met = (network.server[src] != network.server[dst]) & (rng.random(len(src)) < 0.95)
        src, dst = src[met], dst[met]
        start = run.life.start_s + run.life.startup_s * rng.uniform(0.05, 0.9, len(src))
        took = rng.uniform(0.0005, 0.02, len(src))
        size = rng.integers(300, 20_000, len(src))
        parts.append(_transfers(scenario, start, took, src, dst, size, (STARTUP, number)))
    return Transfers.concatenate(parts)


def _periodic(scenario: Scenario, network: Network, rng: np.random.Generator) -> Iterator[Transfers]:
    """Yield what storage and monitors do, again and again, each endpoint at its own phase."""
    around, duration_s = scenario.surroundings, scenario.duration_s
    nics = np.arange(scenario.cluster.servers * scenario.cluster.nics)
    if around.read_period_s and len(network.storage):
        readers = nics[:: scenario.cluster.nics]
        reader, start = _phased(readers, around.read_period_s, duration_s, rng)
        node = network.storage[rng.integers(0, len(network.storage), len(reader))]
        size = np.rint(around.read_bytes * rng.uniform(0.8, 1.2, len(reader))).astype(np.int64)
        yield _transfers(scenario, start, size / 5e9, node, reader, size, (STORAGE, -1))
        asked = np.full(len(reader), 400)
        yield _transfers(scenario, start - 0.001, np.full(len(reader), 5e-4), reader, node, asked, (STORAGE, -1))
    if around.monitor_period_s and len(network.monitors):
        scraped, start = _phased(nics, around.monitor_period_s, duration_s, rng)
        monitor = network.monitors[scraped % len(network.monitors)]
        took = rng.uniform(0.002, 0.02, len(scraped))
        size = rng.integers(70_000, 90_000, len(scraped))
        yield _transfers(scenario, start, took, scraped, monitor, size, (MONITOR, -1))
        yield _transfers(scenario, start - 0.001, took + 0.001, monitor, scraped, size // 80, (MONITOR, -1))


def _phased(who: Index, period_s: float, duration_s: float, rng: np.random.Generator) -> tuple[Int64, Float64]:
    """Return who acts when: each every period from a phase of its own, a little unpunctual."""
    rounds = int(duration_s / period_s) + 1
    phase = rng.uniform(0.0, period_s, len(who))
    start = (phase[:, None] + period_s * np.arange(rounds)).reshape(-1)
    return np.repeat(who, rounds).astype(np.int64), start + rng.normal(0.0, 0.01, len(start))


def _stray(scenario: Scenario, network: Network, rng: np.random.Generator) -> Transfers:
    """Return small flows between endpoints that have nothing to do with one another."""
    count = int(rng.poisson(scenario.surroundings.stray_s * scenario.duration_s))
    src, dst = rng.integers(0, scenario.cluster.servers * scenario.cluster.nics, (2, count))
    apart = network.server[src] != network.server[dst]
    start = rng.uniform(0.0, scenario.duration_s, count)[apart]
    took = rng.uniform(0.0002, 0.05, count)[apart]
    size = np.rint(rng.lognormal(9.0, 1.5, count)).astype(np.int64)[apart]
    return _transfers(scenario, start, took, src[apart], dst[apart], size, (STRAY, -1))


def _serve(scenario: Scenario, serving: Serving, network: Network, rng: np.random.Generator) -> Iterator[Transfers]:
    """Yield requests, key-value caches and answers of one deployment."""
    arrival, client = _arrivals(serving, max(len(network.clients), 1), scenario.duration_s, rng)
    count, nics = len(arrival), scenario.cluster.nics
    prefill = np.asarray(serving.prefill)[rng.integers(0, len(serving.prefill), count)]
    decode = np.asarray(serving.decode)[rng.integers(0, len(serving.decode), count)]
    cache = serving.cache_bytes * rng.lognormal(-0.32, 0.8, count)
    if len(network.clients):
        asker = network.clients[client]
        question = rng.integers(500, 30_000, count)
        yield _transfers(
            scenario, arrival, rng.uniform(1e-3, 5e-3, count), asker, prefill * nics, question, (SERVING, -1)
        )
        answering_s = rng.gamma(2.0, 2.0, count)
        begun = arrival + 0.3
        size = np.rint(answering_s * 400).astype(np.int64) + 200
        yield _transfers(scenario, begun, answering_s, decode * nics, asker, size, (SERVING, -1))
    prefill_s = 0.02 + cache / 20e9
    piece = np.tile(np.arange(_CACHE_PIECES), count * nics)
    rail = np.tile(np.repeat(np.arange(nics), _CACHE_PIECES), count)
    request = np.repeat(np.arange(count), nics * _CACHE_PIECES)
    size = np.maximum(cache[request] / nics / _CACHE_PIECES, 1).astype(np.int64)
    start = arrival[request] + prefill_s[request] * (1 + piece) / _CACHE_PIECES
    start = start + rng.uniform(0.0, 3e-4, len(start))
    took = size * 8e-9 / scenario.cluster.link_gbps * rng.uniform(1.05, 1.4, len(size)) + 1e-5
    src, dst = prefill[request] * nics + rail, decode[request] * nics + rail
    yield _transfers(scenario, start, took, src, dst, size, (SERVING, -1))


def _arrivals(serving: Serving, clients: int, duration_s: float, rng: np.random.Generator) -> tuple[Float64, Int64]:
    """Return when each request comes and from which client: a Gamma renewal process a client."""
    mean_s = clients / serving.requests_s
    shape = 1.0 / serving.burstiness**2
    draws = int(np.ceil(duration_s / mean_s * 2)) + 20
    when = np.cumsum(rng.gamma(shape, mean_s / shape, (clients, draws)), axis=1)
    when -= rng.uniform(0.0, mean_s, (clients, 1))
    inside = (when >= 0) & (when < duration_s)
    return when[inside], np.nonzero(inside)[0]


def _transfers(
    scenario: Scenario,
    start_s: Float64,
    took_s: Float64,
    src: Index,
    dst: Index,
    payload_bytes: Index,
    label: tuple[int, int],
) -> Transfers:
    """Build flows of one kind that belong to no step; `label` is their kind and job."""
    kind, job = label
    count = len(start_s)
    return Transfers(
        start_ns=np.rint(start_s * 1e9).astype(np.int64) + scenario.start_ns,
        end_ns=np.rint((start_s + took_s) * 1e9).astype(np.int64) + scenario.start_ns,
        src=np.asarray(src, dtype=np.int32),
        dst=np.asarray(dst, dtype=np.int32),
        payload_bytes=np.asarray(payload_bytes, dtype=np.int64),
        kind=np.full(count, kind, dtype=np.uint8),
        role=np.full(count, PLAIN, dtype=np.uint8),
        job=np.full(count, job, dtype=np.int32),
        step=np.full(count, -1, dtype=np.int32),
        queue=np.zeros(count, dtype=np.int32),
    )
