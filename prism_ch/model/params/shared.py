"""Thresholds that several layers go by, each in one place with its reason."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SharedParams:
    """What counts as most, as few, as alike, as much longer, wherever it is asked."""

    # Shares of a whole.

    #: What more than half of the cases show is the rule; what fewer show is noise, loss or a stray.
    half: float = 0.5
    #: What should hold for all holds for this share at the least: records are lost by some percent, and one in ten may
    #: have joined late.
    nearly_all: float = 0.9
    #: A part of a whole that is smaller shows little of it.
    little: float = 0.1
    #: The largest share of things that settle into a pattern and yet stray from it.
    stray_share: float = 0.2
    #: A loss of less than this share of a job's time is not reported.
    worth_share: float = 0.01
    #: Lost shares of the jobs' time from which a person should look, and look now (contract).
    warning_slowdown: float = 0.05
    critical_slowdown: float = 0.20

    # Counts.

    #: What was seen fewer times than this does not repeat: twice may be a coincidence.
    repeats: int = 3
    #: The fewest values whose median one stray among them does not move.
    enough: int = 4
    #: The fewest steps that show whether they are alike.
    judged_steps: int = 8
    #: The fewest observations that show an edge or an agreement: fewer may be a coincidence.
    min_count: int = 8
    #: A slow rank or link is slow in this many steps at the least; a single one is a hiccup.
    slow_steps: int = 2
    #: Steps outside an episode that show what steps cost without it: a job that gets slow soon has no more of them.
    reference_steps: int = 4
    #: The newest steps, which stand for what is so now: enough to see what repeats in them.
    recent_steps: int = 16
    #: Steps by which a job has settled: most layouts repeat within a few.
    settled_steps: int = 64
    #: The lost share of time is taken over this number of steps at the least where evidence places no cause and fewer
    #: than `judged_steps` are slow: steps vary; of a recorded run on real GPUs that nothing slowed, five took 11 %
    #: longer. Of a single slow step for which a GPU or server is named that did not just pause in one operation it is
    #: `judged_steps`: hiccups leave the same records. Of those that lose twice what any other does, and more where few
    #: others are known, it is the steps themselves if somebody is so named, and else `slow_steps`: if a replay shows
    #: whose work took longer and `recent_steps` others what the job's own hiccups cost, or if they lose more than
    #: `min_lost_s` together. So it is of a step in which a replay shows that most of what a rank computed took longer.
    severity_steps: int = 20
    #: Steps kept as the history that new ones are compared with, and again as many that stand for all older ones.
    history_steps: int = 256

    # How much more.

    #: More than usual is twice as much: counts of what comes now and then vary by less.
    twice: float = 2.0
    #: Longer by this share matters to an operator; computing varies by 1 to 3 %.
    notable: float = 0.10
    #: Longer by this share is noted where many ranks or many steps show it together.
    small_excess: float = 0.05
    #: A link with 80 % of its bandwidth left matters, and so does a fifth more to move.
    network_excess: float = 0.2
    #: Bytes beyond those of a usual step by this share mean that the step does something else: lost records add none.
    other_work: float = 0.1
    #: More than this many steps' bytes are several steps in one record; two steps are twice.
    one_step: float = 1.5

    # How nearly the same.

    #: Volumes of pairs that do the same agree to this, lost records and a step cut at the edge of the data included.
    same_volume: float = 0.15
    #: Sizes of one kind of message, and the payload of a step, vary by this share: losses and control messages, not
    #: training, change them.
    size_spread: float = 0.05
    #: Sizes of one message agree better than this.
    same_size: float = 0.01
    #: Counters and lengths of one flow at two exporters agree to this: headers are 1 % of a full packet, and exporters
    #: look at a flow of a minute once a second.
    same_count: float = 0.02
    #: Step ends closer than this share of a step are one.
    same_boundary: float = 0.25
    #: Records of one message cut apart by queue pairs, an active timeout or a millisecond clock lie closer than this;
    #: a GPU computes for longer between two messages.
    burst_gap_ns: int = 1_000_000
    #: Ranks that end an operation together begin to send within this, in nanoseconds: a message waits for the one
    #: before it on a NIC for less, and operations of different replicas differ by more.
    near_ns: int = 100_000

    # Surprise.

    #: Robust deviations from the usual: the paper's k, above its 3 because thousands of steps are compared an hour.
    min_score: float = 5.0
    #: Deviations after correction for all comparisons made in 1,000 GPU-hours: one false alarm in 100 times as many,
    #: were jitter normal.
    corrected_score: float = 2.3
    #: The least spread of compute times believed in, as a share: GPUs of one kind differ by 1 to 3 %.
    compute_jitter: float = 0.02
    #: The least spread among links and groups believed in, as a share: flows contend for links at random.
    network_jitter: float = 0.05
    #: What one kind of structural evidence is worth, as log-odds: seven to one.
    log_odds: float = 2.0
    #: No amount of one kind of evidence is worth more than this.
    certain_log_odds: float = 6.0

    # Times.

    #: A stop or a single slow step that loses less time than this, in seconds, is a hiccup, as garbage collection
    #: causes.
    min_lost_s: float = 1.0
    #: Records that last for longer hold more than a message: the largest bucket of gradients, 2 GB, takes 1.6 s at
    #: 10 Gbit/s.
    message_s: float = 2.0
    #: A silence that is shorter is none: records of other jobs may come some seconds earlier.
    silence_s: float = 5.0
    #: How long measurements are remembered: what gets slower by 10 % in ten minutes shows only against long before,
    #: and a clock that drifts by 50 parts in a million is off by 0.2 s then.
    remembered_s: int = 3600
