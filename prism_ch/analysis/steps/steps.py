"""Divide: a job's time into training steps (LLMPrism, section IV-C).

A step moves the same bytes every time: that, not silence, is what a step is made of. Production traces hold longer
silences inside a step than at its edge.

1. Closing traffic (data-parallel, or pipeline where there is none) is read as sequences of bursts, one a communicator.
   What lost records leave out of a collective is made up from its other members.
2. BOCD on the gaps of each sequence, a split of the gaps into short and long, and the messages that begin again
   after the closing traffic of a pipeline's step propose boundaries.
3. The proposals vote on the quantum: the payload of a whole step, equal from step to step. Of steps that were published
   it is known, also while a slow rank makes others run the bursts of a step together.
4. Segments of one quantum each are cut by dynamic programming, the gaps deciding where bytes leave it open.
5. Where a step is known to have begun inside the closing traffic, with its all-gather, all others do.
6. The communicators of a job agree: what half of them confirm at one moment is a step.
"""

from __future__ import annotations

import numpy as np

from prism_ch.analysis.steps.agreement import agree
from prism_ch.analysis.steps.background import read_beside
from prism_ch.analysis.steps.imputation import impute
from prism_ch.analysis.steps.null_model import regularity
from prism_ch.analysis.steps.onset import read_known, with_onset
from prism_ch.analysis.steps.pipelines import chains, pipeline_ends, without_strays
from prism_ch.analysis.steps.sequences import Sequences, communicators, links, read_sequences
from prism_ch.analysis.steps.step_volume import collective_ends
from prism_ch.model.columns import Int32, Int64
from prism_ch.model.job import Division, PairKinds
from prism_ch.model.params import DivideParams
from prism_ch.model.result import DP, OTHER, PP
from prism_ch.model.traffic import Traffic

__all__ = ["Sequences", "divide", "read_sequences"]


def divide(
    traffic: Traffic, kinds: PairKinds, endpoints: Int32, params: DivideParams, known: Division | None = None
) -> Division:
    """Divide a job's time into steps.

    Parameters: `traffic`, the job's bursts; `kinds`, of its pairs; `endpoints` int32[m], its members, sorted; `known`,
    the steps published before, where there are some: steps go on to end where those ended.
    Only steps whose end is in the data are returned; the first may lack its beginning.
    """
    closing_kind = kinds.closing
    closing = kinds.of_kind(traffic, closing_kind)
    if len(closing) == 0:
        return Division.none(endpoints)
    line_of_pair = communicators(closing) if closing_kind == DP else links(closing)
    chain = None if closing_kind == DP else chains(closing, line_of_pair)
    sequences = read_sequences(closing, line_of_pair, params)
    if chain is None:
        everybody = endpoints if known is None else np.append(endpoints, known.endpoints)  # some may have left
        line_of_endpoint = _line_of_endpoint(closing, line_of_pair, _endpoint_span(traffic, everybody))
        beside = read_beside(sequences, line_of_endpoint, traffic.take((kinds.burst != DP) & (kinds.burst != OTHER)))
        pipelined = (kinds.burst == PP).any()
        follows = beside.follows(sequences) if pipelined else np.zeros(len(sequences.line))
        sequences = impute(sequences, closing, line_of_pair, follows, params)
        before = read_known(sequences, line_of_endpoint, known, params)
        ends = collective_ends(sequences, follows, before, int(traffic.end_ns.max()), params)
        ends = with_onset(sequences, ends, line_of_endpoint, beside, known, params)
    else:
        ends = pipeline_ends(closing, line_of_pair, chain, sequences, int(traffic.end_ns.max()), params)
    agreed = agree(sequences, ends, params, chain)
    if agreed.shape[1] == 0:
        return Division.none(endpoints)
    if chain is not None:
        agreed = without_strays(sequences, agreed, chain, params)
    whole = np.ones(agreed.shape[1], dtype=bool)
    whole[0] = _begins_whole(sequences, agreed, params)
    judged = known is None and agreed.shape[1] >= params.judged_steps
    regular = regularity(sequences, ends, params) if judged else 1.0
    return Division(np.array(endpoints), _endpoint_ends(closing, line_of_pair, agreed, endpoints), whole, regular)


def _line_of_endpoint(closing: Traffic, line_of_pair: Int32, endpoints: int) -> Int32:
    """Return the sequence of each endpoint, -1 where it has no closing traffic, int32[endpoints]."""
    line = np.full(endpoints, -1, dtype=np.int32)
    line[closing.pair_src] = line[closing.pair_dst] = line_of_pair
    return line


def _begins_whole(sequences: Sequences, ends: Int64, params: DivideParams) -> bool:
    """Say whether the first step carries as much as the second on most lines: whether it began inside the data."""
    lines, steps = ends.shape
    if steps == 1:
        return False
    carried = np.zeros((lines, 3))
    step = (sequences.end_ns > ends[sequences.line, 0]).astype(np.int64) + (sequences.end_ns > ends[sequences.line, 1])
    np.add.at(carried, (sequences.line, step), sequences.payload)
    return bool(np.median(carried[:, 0] / np.maximum(carried[:, 1], 1)) > 1 - 2 * params.size_spread)


def _endpoint_span(traffic: Traffic, endpoints: Int32) -> int:
    """Return one more than the largest endpoint."""
    return int(max(endpoints.max(), traffic.pair_src.max(), traffic.pair_dst.max())) + 1


def _endpoint_ends(traffic: Traffic, line_of_pair: Int32, ends: Int64, endpoints: Int32) -> Int64:
    """Return when each step ends on each endpoint: with its last closing burst of the step, int64[m, k].

    An endpoint without one in a step ends with the job's last line.
    """
    lines, steps = ends.shape
    line = line_of_pair[traffic.pair].astype(np.int64)
    first = int(ends.min())
    span = int(max(ends.max(), traffic.end_ns.max())) - first + 1
    place = np.searchsorted(
        (np.arange(lines)[:, None] * span + (ends - first)).ravel(), line * span + (traffic.end_ns - first).clip(0)
    )
    step = place - line * steps
    inside = step < steps
    row = np.full(_endpoint_span(traffic, endpoints), -1)
    row[endpoints] = np.arange(len(endpoints))
    result = np.full((len(endpoints), steps), np.iinfo(np.int64).min)
    for end in (traffic.src, traffic.dst):
        np.maximum.at(result, (row[end[inside]], step[inside]), traffic.end_ns[inside])
    missing = result == np.iinfo(np.int64).min
    return np.where(missing, ends.max(axis=0)[None, :], result)
