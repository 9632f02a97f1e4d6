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
    #: Bursts smaller than this share of the pair's typical one are control messages beside the data ...
    control_share: float = 0.005
    #: ... unless they are as large as data: barriers, norms and metadata take bytes to kilobytes, while tokens for an
    #: expert are megabytes beside gradients of gigabytes on the same pair.
    control_bytes: int = 1_000_000


@dataclass(frozen=True, slots=True)
class ClockParams(SharedParams):
    """How far exporters' clocks are off."""

    #: Offsets are looked for within this of none: a host that follows NTP is well inside, and few messages of one
    #: queue pair come so close together. NetFlow v9 headers in whole seconds shift times by up to 0.6 s.
    near_s: float = 1.0
    #: ... else within this. Larger ones are mistakes of time zones or of years, which no window of a minute shows.
    far_s: float = 10.0
    #: How closely observations of one flow may agree: by what a packet waits between switches, in milliseconds, or
    #: where packets are sampled or clocks drift.
    widths_s: tuple[float, ...] = (1e-4, 1e-3, 1e-2)
    #: ... and others count for less, but count: exporters that cut or sample records agree on none.
    unlike_weight: float = 0.25
    min_share: float = 0.3
    #: Log likelihood ratio of the matches against chance; some 10^5 places are tried for each pair.
    min_log_ratio: float = 25.0
    #: A pair whose offset differs by more from those of all others is mistaken.
    agreement_s: float = 0.005
    #: Switches of one path see a flow some such time apart, its packets being queued.
    path_delay_s: float = 5e-5


@dataclass(frozen=True, slots=True)
class TimeoutParams(SharedParams):
    """When exporters close their records."""

    #: Records pile up at an active timeout: so many times as many as in a band as wide below it.
    pile_up: float = 3.0
    #: ... and how many the first sixteenth holds, over a sixteenth of all: where a peak begins there are few.
    first_part_share: float = 1.0


@dataclass(frozen=True, slots=True)
class MergedParams(SharedParams):
    """Which records run on over many steps, and whose traffic shows training all the same."""

    #: ... for so long that it is no bulk transfer between two pauses: 2 GB of a checkpoint at 1 Gbit/s take 16 s,
    min_span_s: float = 30.0
    #: Heartbeats run on as well, in packets a second. One activation of 4 MiB in the longest steps known, of 46 s, is
    #: 90 kB/s.
    min_rate_bytes_s: float = 5e4
    #: Endpoints of rings, trees and chains have so many partners, or this share of the other servers; meshes, as of a
    #: shuffle, a replicated store or a gossip, have all.
    few_partners: int = 2
    #: ... and where it is not: tensor groups seldom leave a server.
    lone_link_confidence: float = 0.7
    #: ... and that one inside a data-parallel group is of that group.
    group_confidence: float = 0.8
    #: Of a merged pair of which nothing shows what it is for.
    unknown_confidence: float = 0.3
