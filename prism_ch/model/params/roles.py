"""Which pairs are data-parallel, which pipeline-parallel, which part of an operation."""

from __future__ import annotations

from dataclasses import dataclass

from prism_ch.model.params.shared import SharedParams


@dataclass(frozen=True, slots=True)
class IdentifyParams(SharedParams):
    """Which pairs are data-parallel and which pipeline-parallel."""

    #: Share of unanswered bursts at which pipeline and collective are equally likely: more than records get lost
    #: (2 %), less than the first and last message of a step with 16 microbatches.
    unanswered_even: float = 0.05
    #: Keeps the logarithm finite where every burst is answered at once.
    unanswered_floor: float = 0.005
    #: Bursts slower than this share of the fastest collective's are mostly silence: some tens of ranks contend for a
    #: link, and compute for much longer between two messages than one takes.
    sparse_share: float = 0.03
    #: Slow bursts may hide a pipeline's messages if they cover this share of the time: a pipeline moves data during
    #: most of a step, and a collective that closes it does not.
    sparse_cover: float = 0.25
    #: Log-odds for each factor e of unanswered bursts.
    answer_weight: float = 2.0
    #: An inner collective moves data at least this many times as often as the one that closes the step: once a layer
    #: or a microbatch, not once a step.
    inner_rate: float = 3.0
    #: An inner collective on the same pairs as the closing one has messages this many times smaller: tokens for an
    #: expert are some MB to 100, gradients up to GB, while those of buckets and of layers vary by less from one size to
    #: the next.
    inner_size_gap: float = 4.0
    #: An inner collective fills this share of the time between two closings; gradients reduced during the backward
    #: fill two thirds.
    inner_coverage: float = 0.75
    #: A burst is compared with so many that begin before it, and as many after: most edges of a ring begin together,
    #: and what a router sends is like one of eight by accident in a few of a hundred.
    like_neighbours: int = 4
    #: A size that a pair moves no more often than this is a stray: twice may be by accident.
    stray_sizes: int = 2
    #: Half way between the one size that a tensor group reduces and the two of a context ring: means over pairs.
    several_sizes: float = 1.5
