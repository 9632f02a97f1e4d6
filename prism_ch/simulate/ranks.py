"""Where each rank of a job sits: the grid of stages, lanes and tensor groups over endpoints, and its communicators."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from prism_ch.model.columns import Int32, Int64
from prism_ch.model.result import CP, DP, EP, PP, TP
from prism_ch.simulate.cluster import Network
from prism_ch.simulate.workload import Layout


@dataclass(frozen=True, slots=True)
class RankGrid:
    """The ranks of a job in canonical order: stage, then data, expert and context coordinate, then tensor lane.

    A rank's flat number is `(stage x lanes + lane) x tp + tensor`, where lane is `(data x ep + expert) x cp + context`.
    `gpu`, `endpoint`, `server`: int32[ranks]; a server has `server_gpus`. `share` is the fraction of its NIC that a
    rank has (1/2 where two GPUs share one).
    """

    stages: int
    shape: tuple[int, int, int]
    tp: int
    gpu: Int32
    endpoint: Int32
    server: Int32
    server_gpus: int
    share: float

    @property
    def lanes(self) -> int:
        """Tensor groups of one stage: data x expert x context coordinates."""
        return self.shape[0] * self.shape[1] * self.shape[2]

    def numbers(self) -> Int64:
        """Return the flat rank numbers as int64[stages, lanes, tp]."""
        return np.arange(len(self.endpoint)).reshape(self.stages, self.lanes, self.tp)

    def communicators(self, kind: int) -> Int64:
        """Return the ranks of every communicator of a kind (a pair's code), int64[groups, members].

        DP: all replicas of a stage and tensor lane, with their context ranks; PP: in stage order; EP, CP, TP: inside
        one stage.
        """
        data, expert, context = self.shape
        ranks = self.numbers().reshape(self.stages, data, expert, context, self.tp)
        last = {DP: (1, 2, 3), PP: (0,), EP: (2,), CP: (3,), TP: (4,)}[kind]
        axes = [axis for axis in range(5) if axis not in last]
        members = int(np.prod([ranks.shape[axis] for axis in last]))
        return ranks.transpose(*axes, *last).reshape(-1, members)

    def expert_replicas(self) -> Int64:
        """Return the ranks that hold the same experts, int64[groups, data]."""
        data, expert, context = self.shape
        ranks = self.numbers().reshape(self.stages, data, expert, context, self.tp)
        return ranks.transpose(0, 2, 3, 4, 1).reshape(-1, data)


def rank_grid(layout: Layout, gpus: tuple[int, ...], network: Network) -> RankGrid:
    """Place a layout's ranks on GPUs, which are given in the layout's own rank order."""
    data = layout.dp // layout.ep
    placed = np.asarray(gpus, dtype=np.int64)
    if layout.order == "tp-cp-dp-pp":
        grid = placed.reshape(layout.pp, data, layout.ep, layout.cp, layout.tp)
    else:
        grid = placed.reshape(data, layout.ep, layout.pp, layout.cp, layout.tp).transpose(2, 0, 1, 3, 4)
    ranks = grid.reshape(-1)
    endpoint = network.endpoint_of_gpu(ranks)
    return RankGrid(
        stages=layout.pp,
        shape=(data, layout.ep, layout.cp),
        tp=layout.tp,
        gpu=ranks.astype(np.int32),
        endpoint=endpoint,
        server=network.server[endpoint],
        server_gpus=network.cluster.gpus,
        share=network.cluster.nics / network.cluster.gpus,
    )
