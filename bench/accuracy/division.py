"""Ways to divide an endpoint's time into steps: ours, ours with a part left out, plain rules, and libraries."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from prism_ch.analysis.steps.sequences import Sequences, communicators, read_sequences
from prism_ch.analysis.steps.step_volume import KnownSteps, collective_ends
from prism_ch.analysis.steps.steps import agree, divide
from prism_ch.core import bocd, robust
from prism_ch.model.columns import Bool, Float64, Int32, Int64
from prism_ch.model.job import PairKinds
from prism_ch.model.params import DivideParams
from prism_ch.model.traffic import Traffic

PARAMS = DivideParams()

#: The end of each step, rising, on every endpoint.
Ends = dict[int, Int64]

#: Chooses among the gaps of one sequence, float64[n] in seconds, those between two steps, bool[n].
Chooser = Callable[[Float64], Bool]


@dataclass(frozen=True, slots=True)
class Job:
    """A job's bursts, the kinds of its pairs, its closing bursts, and its endpoints, sorted."""

    traffic: Traffic
    kinds: PairKinds
    endpoints: Int32

    @property
    def closing(self) -> Traffic:
        """The bursts that close steps."""
        return self.kinds.of_kind(self.traffic, self.kinds.closing)


def ours(job: Job) -> Ends:
    """Divide as the pipeline does."""
    division = divide(job.traffic, job.kinds, job.endpoints, PARAMS)
    return dict(zip(division.endpoints.tolist(), division.end_ns, strict=True))


def without_agreement(job: Job) -> Ends:
    """Let every endpoint find its own step volume and step ends."""
    sequences, endpoint = _by_endpoint(job.closing)
    ends = collective_ends(sequences, KnownSteps.none(sequences), int(job.traffic.end_ns.max()), PARAMS)
    return _ends_alone(sequences, endpoint, ends)


def without_step_volume(job: Job) -> Ends:
    """Take each communicator's changepoints of gaps for step ends, on which communicators agree."""
    closing = job.closing
    line_of_pair = communicators(closing)
    sequences = read_sequences(closing, line_of_pair, PARAMS)
    agreed = agree(sequences, _changepoints(sequences), PARAMS)
    return _on_endpoints(closing, line_of_pair, list(agreed))


def bocd_alone(job: Job) -> Ends:
    """Take changepoints of the gaps of each endpoint's closing bursts for step ends.

    Source: LLMPrism, section IV-C.
    """
    sequences, endpoint = _by_endpoint(job.closing)
    return _ends_alone(sequences, endpoint, _changepoints(sequences))


def by_gaps(choose: Chooser) -> Callable[[Job], Ends]:
    """Return a division that ends the steps of each communicator at its chosen gaps."""

    def division(job: Job) -> Ends:
        closing = job.closing
        line_of_pair = communicators(closing)
        sequences = read_sequences(closing, line_of_pair, PARAMS)
        ends = np.isinf(sequences.gap_s)
        for low, high in zip(sequences.offsets[:-1].tolist(), sequences.offsets[1:].tolist(), strict=True):
            if high - low > 1:
                ends[low : high - 1] = choose(sequences.gap_s[low : high - 1])
        lines = [sequences.end_ns[ends & (sequences.line == line)] for line in range(len(sequences))]
        return _on_endpoints(closing, line_of_pair, lines)

    return division


def every_burst(job: Job) -> Ends:
    """Let every burst of a communicator close a step."""
    return by_gaps(lambda gap_s: np.ones(len(gap_s), dtype=bool))(job)


def two_classes(gap_s: Float64) -> Bool:
    """Choose the longer of two classes of gaps."""
    threshold, _ = robust.two_class_split(gap_s)
    return np.asarray(gap_s > threshold)


def longer_than(times: float) -> Chooser:
    """Choose the gaps longer than a multiple of the median."""
    return lambda gap_s: np.asarray(gap_s > times * np.median(gap_s))


def _changepoints(sequences: Sequences) -> Bool:
    """Mask the bursts before changepoints of gaps, bool[bursts].

    A gap counts if a run of gaps most probably begins with it and it is longer than the sequence's median.
    """
    ends = np.isinf(sequences.gap_s)
    inner = ~ends
    log_gap = np.log(sequences.gap_s[inner])
    offsets = np.concatenate([[0], np.cumsum(np.diff(sequences.offsets) - 1)])
    found = bocd.detect(log_gap, offsets, expected_run=PARAMS.expected_run)
    usual = robust.median_by(sequences.line[inner], log_gap, len(sequences))[sequences.line[inner]]
    ends[inner] = (found.new_run_mass > PARAMS.half) & (log_gap > usual)
    return ends


def _by_endpoint(closing: Traffic) -> tuple[Sequences, Int64]:
    """Read each endpoint's bursts of both directions as one sequence; return also the endpoints."""
    endpoint, line = np.unique(np.concatenate([closing.pair_src, closing.pair_dst]), return_inverse=True)
    both_ways = Traffic(
        np.concatenate([closing.pair, closing.pair + len(closing.pair_src)]).astype(np.int32),
        np.tile(closing.start_ns, 2),
        np.tile(closing.end_ns, 2),
        np.tile(closing.payload, 2),
        np.tile(closing.pair_src, 2),
        np.tile(closing.pair_dst, 2),
        np.tile(closing.pair_blur_ns, 2),
        np.tile(closing.pair_tick_ns, 2),
    )
    return read_sequences(both_ways, line.astype(np.int32), PARAMS), endpoint.astype(np.int64)


def _ends_alone(sequences: Sequences, endpoint: Int64, ends: Bool) -> Ends:
    """Return the ends on each endpoint from its own sequence."""
    line, end_ns = sequences.line[ends], sequences.end_ns[ends]
    return {int(row): end_ns[line == number] for number, row in enumerate(endpoint)}


def _on_endpoints(closing: Traffic, line_of_pair: Int32, lines: list[Int64]) -> Ends:
    """Return for each endpoint its last burst before each end of its communicator."""
    found: Ends = {}
    for endpoint in np.union1d(closing.pair_src, closing.pair_dst).tolist():
        mine = (closing.pair_src == endpoint) | (closing.pair_dst == endpoint)
        end_ns = np.sort(closing.end_ns[mine[closing.pair]])
        place = np.searchsorted(end_ns, lines[line_of_pair[np.argmax(mine)]], side="right") - 1
        found[endpoint] = end_ns[np.unique(place[place >= 0])]
    return found
