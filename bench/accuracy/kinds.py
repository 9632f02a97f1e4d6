"""Ways to identify data-parallel and pipeline traffic: ours, ours with a part left out, and LLMPrism's rule."""

from __future__ import annotations

import numpy as np

from prism_ch.analysis.roles.links import find_links, is_one_way
from prism_ch.analysis.roles.roles import identify
from prism_ch.analysis.steps.sequences import read_sequences
from prism_ch.core import bocd, robust
from prism_ch.model.columns import Bool, UInt8
from prism_ch.model.job import PairKinds
from prism_ch.model.params import DivideParams, IdentifyParams
from prism_ch.model.result import DP, OTHER, PP
from prism_ch.model.traffic import Traffic

_PARAMS = IdentifyParams()


def ours(traffic: Traffic, steady: Bool) -> PairKinds:
    """Identify kinds as the analysis does."""
    return identify(traffic, steady, _PARAMS)


def each_link_alone(traffic: Traffic, steady: Bool) -> PairKinds:
    """Identify each link by its late answers alone, without replicas and graph."""
    links = find_links(traffic.keep_pairs(steady))
    pipeline = ~is_one_way(links, _PARAMS) & (links.unanswered > _PARAMS.unanswered_even)
    return _kinds(traffic, steady, pipeline[links.of_pair])


def one_size(traffic: Traffic, steady: Bool) -> PairKinds:
    """Identify pairs that move one size in most steps as pipeline traffic.

    Steps are the changepoints of each pair's own gaps. Source: LLMPrism, section IV-B, without its refinement.
    """
    moved = traffic.keep_pairs(steady)
    params = DivideParams()
    sequences = read_sequences(moved, np.arange(len(moved.pair_src), dtype=np.int32), params)
    inner = ~np.isinf(sequences.gap_s)
    offsets = np.concatenate([[0], np.cumsum(np.diff(sequences.offsets) - 1)])
    found = bocd.detect(np.log(sequences.gap_s[inner]), offsets, expected_run=params.expected_run)
    ends = ~inner
    ends[inner] = found.new_run_mass > params.half
    step = np.cumsum(ends) - ends
    size = robust.size_classes(sequences.payload, _PARAMS.same_size, sequences.line)
    sizes = np.bincount(np.unique(np.stack([step, size]), axis=1)[0])
    pair = sequences.line[ends]
    return _kinds(traffic, steady, robust.median_by(pair, sizes) == 1)


def _kinds(traffic: Traffic, steady: Bool, pipeline: Bool) -> PairKinds:
    """Return the kinds of pairs: steady ones are pipeline or data-parallel, the rest other."""
    kind: UInt8 = np.full(len(steady), OTHER, dtype=np.uint8)
    kind[steady] = np.where(pipeline, PP, DP)
    return PairKinds(kind, steady.astype(np.float64), kind[traffic.pair])
