"""How long a replay takes: a thousand steps of a thousand GPUs. Run with `python -m bench.replay`."""

from __future__ import annotations

import resource
import time
from dataclasses import replace

import numpy as np

from bench.accuracy.replay import attempts
from prism_ch.analysis.replay.attempts import graph_of
from prism_ch.analysis.replay.causes import find_cause, without
from prism_ch.analysis.replay.replay import replay
from prism_ch.model.params import Params
from prism_ch.simulate import generate
from prism_ch.simulate.families import FAMILIES

#: Servers of eight GPUs, and steps.
_SERVERS, _STEPS = 128, 1_000

_SWEEPS = Params().replay.sweeps


def main() -> None:
    """Replay a simulated job with and without a GPU. Its few steps are repeated."""
    drawn = FAMILIES["pipeline-1f1b"](7_000, servers=_SERVERS)
    [attempt] = attempts(generate(replace(drawn, phases=False, duration_s=30.0)))
    begun = time.perf_counter()
    built = graph_of(attempt)
    assert built is not None
    print(f"{len(built.endpoints)} GPUs, {built.dag.nodes} nodes, {len(built.kind)} edges")
    print(f"graph of {built.steps} steps: {time.perf_counter() - begun:.2f} s")
    again = np.arange(_STEPS) % built.steps
    graph = replace(
        built,
        base_ns=built.base_ns[again],
        known=built.known[again],
        at=built.at[:, again],
        lag=built.lag[:, again],
        speed=built.speed[:, again],
    )
    begun = time.perf_counter()
    everywhere, nobody = np.ones(_STEPS, dtype=np.bool_), np.zeros(len(graph.endpoints), dtype=np.bool_)
    lag = without(graph, find_cause(graph, [0], nobody), everywhere, Params().replay)
    actual, would = (replay(graph, lags, _SWEEPS).duration_ns.mean() / 1e9 for lags in (graph.lag, lag))
    took_s, peak = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"replay of {_STEPS} steps, with and without a GPU: {took_s:.2f} s, {peak:.2f} GiB at the most")
    print(f"a step takes {actual:.3f} s, without it {would:.3f} s")


if __name__ == "__main__":
    main()
