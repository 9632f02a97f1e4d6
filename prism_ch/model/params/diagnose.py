"""What is slow or stands still, and how bad that is."""

from __future__ import annotations

from dataclasses import dataclass, field

from prism_ch.model.params.shared import SharedParams


@dataclass(frozen=True, slots=True)
class ComputeTimeParams(SharedParams):
    """Which rank computes longer than its peers."""

    #: An output needs an input that comes before it in this share of steps: lost records and clocks hide the rest.
    causal_share: float = 0.95
    #: Numbers of steps over which a median is taken: a GPU that is slower by little shows over several steps only.
    widths: tuple[int, ...] = (2, 4, 8, 16)
    #: Ranks of a role needed for one of them to stand out: of two nobody knows which is the slow one.
    min_peers: int = 3


@dataclass(frozen=True, slots=True)
class TimePerByteParams(SharedParams):
    """Which part of the network takes longer for its bytes than others."""

    #: Bursts are of one operation if they end closer than this share of a step's bytes, and this part of a usual burst.
    #: Headers and lost packets make less of a difference, the next operation more.
    same_turn_share: float = 0.005
    same_turn_part: float = 0.25
    #: Numbers of steps over which a median is taken: a small delay shows over several steps only.
    widths: tuple[int, ...] = (2, 4, 8)
    #: Groups on the same servers are slow alike if their delay is at least this share of the slowest one's: parts of
    #: one communicator wait for the same link, and differ by jitter alone.
    together_share: float = 0.7
    #: Parts of the network that are named at once at the most: more that fail together share a cause that is not seen.
    max_culprits: int = 4


@dataclass(frozen=True, slots=True)
class DiagnoseParams(SharedParams):
    """What is slow, and how bad it is."""

    compute: ComputeTimeParams = field(default_factory=ComputeTimeParams)
    network: TimePerByteParams = field(default_factory=TimePerByteParams)

    #: Ranks are seen to be ready one after the other if the last one is later than most by this share of a step, or by
    #: this number of seconds. After a barrier all begin within the time that packets take to cross a fabric.
    ready_spread: float = 0.002
    ready_spread_s: float = 0.001
    #: Steps end the later, the later their last rank is ready, if the rank correlation of both is at least this number
    #: of its standard deviations: by chance one time in forty.
    min_connection: float = 2.0
    #: Numbers of steps over which a median is taken: steps that are longer by little show it together only.
    run_steps: tuple[int, ...] = (4, 8, 16)
    #: A GPU or server is the straggler if it was last to be ready in this share of the slow steps: in most of them.
    min_culprit_share: float = 0.6
    #: False stragglers expected an episode at the most, by the null model that draws the last server at random: one in
    #: a thousand episodes. As many slow groups are expected of all steps looked at, were a group slow in as many as
    #: its peers are.
    max_false_culprits: float = 1e-3
    #: Excess of a group's time per byte over its peers from which it is slow, as a share: flows contend for links by
    #: less.
    min_peer_excess: float = 0.25


@dataclass(frozen=True, slots=True)
class StopParams(SharedParams):
    """When a job stands still, and what that is called.

    Calibrated to at most one false stop of a warning or more in 1,000 GPU-hours of healthy training, with its pauses:
    `make accuracy ARGS='--parts faults'` counts them, by kind of finding and the thresholds that settle it.
    """

    #: A rest is a stop if it exceeds the usual one by more than this multiple of it. Where all computing is one rest,
    #: a slow GPU at most doubles it.
    min_excess_rests: float = 1.0
    #: A send is usual if it was seen in this share of the earlier steps. Records are lost, and steps of two kinds may
    #: take turns, which leaves half of them.
    usual_share: float = 0.4
    #: Sends due within this share of a step after the first overdue one are due at once: jitter of steps is 1 to 3 %.
    together_share: float = 0.02
    #: A rank is a hang culprit if lost records explain its missing sends with at most this probability. With 512 ranks,
    #: two sends a step and 2 % loss, one in five steps misses both sends of some rank.
    max_loss_probability: float = 0.01
    #: Records were cut by a hole if at least this share of a step's moments would cut apart what is as close together.
    #: A hole begins at any moment, so that one hole in so many is taken for a hang.
    min_cut_share: float = 0.01
    #: A job is silent for at least this long, in seconds, before a rank that may wait for data is called hung. Data
    #: loaders make others wait for some seconds; slow GPUs and networks do not make a job silent. Records come 4 s
    #: late, and take some to be worked: with that it is told within 15 s.
    idle_hang_s: float = 8.0
    #: A job is silent for at least this long, in seconds, before it is called hung while data go to or from other
    #: machines: storage may take that long for a checkpoint.
    saving_hang_s: float = 60.0
    #: A job that hung for this long, in seconds, before another began on its endpoints was killed for that; one that
    #: was killed in the middle of a step leaves the same records for less.
    killed_hang_s: float = 60.0
    #: Background traffic is a checkpoint, or loads one, from this share of the bytes on that a member moves in a usual
    #: step. Gradients are as large as the weights that a rank holds, and replicas hold the same, which are saved once;
    #: strays and control messages are far smaller.
    min_saved_share: float = 0.1
    #: An exporter was lost if its earlier rate predicts at least this many other records during its silence. By a
    #: Poisson count, none of five come with a probability of 0.7 %.
    min_missed_records: float = 5.0
