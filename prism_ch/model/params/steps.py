"""Where steps end, and where they go on from window to window."""

from __future__ import annotations

from dataclasses import dataclass

from prism_ch.model.params.shared import SharedParams


@dataclass(frozen=True, slots=True)
class DivideParams(SharedParams):
    """Where steps end."""

    #: Bursts in a step, as a prior: some ten. The posterior depends on it only logarithmically.
    expected_run: float = 10.0
    #: Two classes of gaps part better than one uniform law cut in half (see `robust.two_class_split`).
    min_separation: float = 0.3
    #: A coarser cut wins over a finer one that is less than this much more regular.
    regularity_margin: float = 0.02
    #: Of steps at least this share of the payload is regular, lost records and all; of buckets of several sizes, less.
    min_plain_share: float = 0.75
    #: Steps vary less than this, as the mean deviation from the median over it, jitter and sequence lengths included.
    max_uneven: float = 0.25
    #: Forward pass and optimizer take at least this share of a step, and move no gradients; a shorter silence does
    #: not mark a step.
    min_silence_share: float = 0.15
    #: Largest over smallest burst of a period above which sizes part gathers from scatters.
    sizes_differ: float = 1.3
    #: What the silence between forward and backward counts for: it is of both, and of neither.
    turn_weight: float = 0.25
    #: Periods of sizes and gaps are steps if they leave at most this share of the unevenness.
    even_gain: float = 0.7
    #: Where gradients are scattered in the backward, the silence of a step's only forward is longer than any other by
    #: this factor: the first of two buckets comes after two thirds of the computing, the second a third later. Where
    #: parameters are gathered layer by layer, the longest silence is that of one layer's forward and backward, half as
    #: long again as a backward alone.
    forward_contrast: float = 1.75
    #: Parameters are gathered in at least this share of the bytes in which a microbatch's gradients are reduced: half
    #: as many where gradients are of twice the precision, a quarter of eight bits against 32; and half of that where as
    #: much is reduced of experts, which are gathered elsewhere. A report is less.
    min_gathered: float = 0.1
    #: Microbatches looked for within a step.
    max_microbatches: int = 16
    #: A silence is a longer one by this factor: that after the last of several microbatches beside those after the
    #: others, and one that may end a step beside the usual gap.
    silence_contrast: float = 1.05
    #: Steps less alike than this beyond the null model are no training: serving moves what its clients ask for, when
    #: they do.
    min_regularity: float = 0.4
    #: The most bursts of one communicator in a step: a gather in each pass and a scatter of 80 layers, 16 microbatches.
    max_bursts: int = 4096
    #: Log-odds of all that gaps show; small next to a whole burst too many or too few.
    gap_weight: float = 0.5
    #: Log-odds of what follows a burst: what an endpoint sends next shows more than how long it sends nothing.
    followed_weight: float = 2.0
    #: A gap shorter than this share of a link's long ones (its upper quartile) is two messages passing each other.
    passing_share: float = 0.25
    #: Links of a pipeline from which on one microbatch is told by what moves at a time: over one link, or two,
    #: activations and gradients of several alternate nearly as those of one.
    telling_links: int = 3
    #: Log of how much faster activations follow one another than gradients, at the least; a backward pass takes some
    #: two forward ones, log 2 = 0.7.
    min_haste: float = 0.2
    #: Ends of different communicators are one step if the later comes within this share of the time until the earlier
    #: ends again: a slow GPU delays its own stage.
    delay_share: float = 0.75
    #: A communicator that misses the last step is waited for if it usually ends later after the data than this share of
    #: a step: more than collectives jitter.
    jitter_share: float = 0.05


@dataclass(frozen=True, slots=True)
class ContinueParams(SharedParams):
    """How much of the past a window looks at, and what goes on from it."""

    #: Endpoints in no settled job are looked at over this span: three steps of five minutes and some.
    newcomer_lookback_s: int = 1200
    #: A job that is begun anew moves as many bytes as before, but for this share: some records are lost.
    same_load: float = 0.03
    #: Steps of an earlier attempt after which the kinds of a later one's bursts show: layers repeat first.
    shown_steps: int = 6
    #: A job is over after this silence, or after `repeats` of its steps where those take longer.
    ended_after_s: int = 600
