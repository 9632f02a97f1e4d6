"""How records become bursts by right clocks: clocks, timeouts, bursts, records that run on."""

from __future__ import annotations

from dataclasses import dataclass

from prism_ch.model.params.shared import SharedParams


@dataclass(frozen=True, slots=True)
class ObserveParams(SharedParams):
    """How records become bursts of payload."""

    #: A direction with less than this share of its pair's payload carries acknowledgements only: TCP acknowledges every
    #: other segment with 52 of 2 x 1500 bytes (1.7 % of bytes, next to no payload).
    acknowledgement_share: float = 0.01
    #: Bursts smaller than this share of the pair's typical one are control messages: barriers, norms and metadata take
    #: bytes to kilobytes.
    control_share: float = 0.005
    #: Bursts of as many bytes are data all the same: tokens for an expert are megabytes next to gradients of gigabytes
    #: on the same pair.
    control_bytes: int = 1_000_000


@dataclass(frozen=True, slots=True)
class ClockParams(SharedParams):
    """How far exporters' clocks are off."""

    #: Offsets are looked for within as many seconds of none first: a host that follows NTP is well inside, and few
    #: messages of one queue pair come so close together. NetFlow v9 headers in whole seconds shift times by up to
    #: 0.6 s.
    near_s: float = 1.0
    #: Offsets that are not near are looked for within as many seconds. Larger ones are mistakes of time zones or of
    #: years, which no window of a minute shows.
    far_s: float = 10.0
    #: How closely, in seconds, observations of one flow may agree: by what a packet waits between switches, in
    #: milliseconds, or where packets are sampled or clocks drift.
    widths_s: tuple[float, ...] = (1e-4, 1e-3, 1e-2)
    #: Weight of two observations with unlike counters, where alike ones weigh 1: exporters that cut or sample records
    #: agree on none.
    unlike_weight: float = 0.25
    #: An offset is clear if it explains this share of what both exporters can have seen: those that sample or cut
    #: records miss many.
    min_share: float = 0.3
    #: An offset is clear at this log likelihood ratio of its matches against the null model: some 10^5 places are tried
    #: for each pair.
    min_log_ratio: float = 25.0
    #: Moments looked at of exporters that share no flow, if they have as many: of dense traffic anything agrees with a
    #: few, and of as many hardly anything by chance.
    lane_moments: int = 32
    #: A pair whose offset differs by more seconds from those of all others is mistaken.
    agreement_s: float = 0.005
    #: Switches of one path see a flow about as many seconds apart, its packets being queued.
    path_delay_s: float = 5e-5


@dataclass(frozen=True, slots=True)
class TimeoutParams(SharedParams):
    """When exporters close their records."""

    #: As many times more records end at an active timeout than in a band as wide below it: there they pile up.
    pile_up: float = 3.0
    #: An edge of silences is where the first sixteenth of an octave holds at least this share of the mean sixteenth:
    #: where a peak begins there are few.
    first_part_share: float = 1.0


@dataclass(frozen=True, slots=True)
class MergedParams(SharedParams):
    """Which records run on over many steps, and whose traffic shows training all the same."""

    #: Records run on if a pair moves data without a pause for as many seconds: bulk transfers between two pauses are
    #: shorter, 2 GB of a checkpoint at 1 Gbit/s take 16 s.
    min_span_s: float = 30.0
    #: Bytes a second below which what runs on are heartbeats, of some packets a second. One activation of 4 MiB in the
    #: longest steps known, of 46 s, is 90 kB/s.
    min_rate_bytes_s: float = 5e4
    #: Endpoints of rings, trees and chains have at most as many partners, or half of the other servers; meshes, as of a
    #: shuffle, a replicated store or a gossip, have all.
    few_partners: int = 2
    #: Confidence that a merged link alone, between two groups, is of a pipeline: tensor groups seldom leave a server.
    lone_link_confidence: float = 0.7
    #: Confidence that a merged link inside a data-parallel group is of that group.
    group_confidence: float = 0.8
    #: Confidence in `other` for a merged pair if nothing shows what it is for.
    unknown_confidence: float = 0.3
