"""How the moments of a step are told apart, and how long what lies between them takes."""

from __future__ import annotations

from dataclasses import dataclass

from prism_ch.model.params.shared import SharedParams


@dataclass(frozen=True, slots=True)
class ReplayParams(SharedParams):
    """Which ranks and rounds go together, and what computing takes where it can't be seen.

    `every_window`: windows replay the new steps of their jobs, see the setting `replay`.
    """

    every_window: bool = True

    #: Rounds of one collective end within this of one another, in nanoseconds, and a share of how long they take:
    #: links of one kind differ by some percent.
    round_ns: int = 500_000
    round_share: float = 0.05
    #: Ranks begin a round together within this, in nanoseconds, and a share of how long it takes.
    ready_ns: int = 300_000
    ready_share: float = 0.03
    #: Rounds begin on the result of the round before unless they come more regularly after its begin, by this factor:
    #: what is computed beside a round takes as long however long that does. Without a slow round both are regular.
    more_regular: float = 2.0
    #: A pair that moves more than others of its communicator by this factor carries other traffic as well: rings and
    #: trees load all of their edges alike.
    other_traffic: float = 1.1
    #: A moment is explained by what it waits for if it comes later than that tells by no more than this share of the
    #: computing between: GPUs vary by 1 to 3 %.
    explained: float = 0.08
    #: Sources explain a moment if they leave at most this share of ranks and steps: hiccups and lost records.
    left_share: float = 0.05
    #: A source has a lag of its own if what is left comes this regularly after it, as a share.
    regular: float = 0.05
    #: Work was put off to the end of a step if after the last input a stage computes for more than this share of an
    #: operation longer than for one: a schedule without bubbles leaves the gradients of weights, as long again.
    put_off: float = 0.5
    #: A weight gradient fits into idle time that is shorter by at most this share of it: GPUs vary by 1 to 3 %, and how
    #: long it takes is known within some percent.
    fits: float = 0.15
    #: What it counts for where a hidden operation might have been computed earlier, as a share of it. It decides where
    #: moments do not: medians of many steps differ by less than this, other orders by a whole operation.
    waiting: float = 0.01
    #: The part of an output's places in the schedule in which nothing else is computed before it.
    plain_quantile: float = 0.25
    #: The quantile of the times after the last source that is computing alone: where ranks wait for something else
    #: they come later.
    least_quantile: float = 0.2
    #: Ranks compute at most this many times longer than usual, or shorter by as much: what is beyond was read wrongly.
    speed_range: float = 100.0
    #: How often the offsets at which stages begin are found from the steps before: what one step changes reaches the
    #: next one, and seldom the one after that.
    sweeps: int = 3
    #: Numbers of steps over whose median a rank's speed is taken.
    speed_steps: int = 5
