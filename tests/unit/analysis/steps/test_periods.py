"""Periods: steps of fully sharded training end with the last gradients scattered, whatever fills them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from prism_ch.analysis.steps.steps import divide
from prism_ch.model.params import DivideParams
from tests.unit.analysis.build import BEGIN_NS, MB, MS, Flow, division, every, ring, shaken, traffic, typed

PARAMS = DivideParams()
RING = (0, 1, 2, 3)
GATHER_MS = 4.0


@dataclass
class Sharded:
    """Fully sharded training, layer by layer: gathers in forward and backward, scatters in the backward, one queue.

    `ahead`: the next layer is gathered while one computes; otherwise when it is its turn. `ratio` is the size of a
    gather over that of a scatter. In `slow` steps computing takes 2.5 times as long, and who waits for it sends from
    the end of one collective to that of the next, in each pass.
    """

    layers: int = 6
    microbatches: int = 1
    ratio: float = 0.5
    ahead: bool = True
    forward_ms: float = 20.0
    backward_ms: float = 45.0
    optimizer_ms: float = 30.0
    steps: int = 30
    slow: range = range(0)

    def run(self, seed: int = 1) -> tuple[list[Flow], list[float]]:
        """Return the flows and the ends of the steps, in ms."""
        self.rng = np.random.default_rng(seed)
        self.flows: list[Flow] = []
        self.queue_ms, now, ends = 0.0, 0.0, []
        for step in range(self.steps):
            self.waits, self.joins = step in self.slow, False
            for _ in range(self.microbatches):
                now = self._microbatch(now)
            now = max(now, self.queue_ms)
            ends.append(now)
            now += self.optimizer_ms * self.rng.uniform(0.9, 1.1)
        return self.flows, ends

    def _microbatch(self, now: float) -> float:
        passes = [False] * self.layers + [True] * self.layers
        ready = self._collective(now, gathers=True)
        for number, backward in enumerate(passes):
            self.joins &= number not in (1, self.layers)
            now = max(now, ready)
            # The last layer of the forward is the first of the backward, and still there.
            needs = number + 1 not in (self.layers, len(passes))
            if needs and self.ahead:
                ready = self._collective(now, gathers=True)
            usual = self.backward_ms if backward else self.forward_ms
            now += usual * self.rng.normal(1, 0.01) * (2.5 if self.waits else 1)
            if backward:
                self._collective(now, gathers=False)
            if needs and not self.ahead:
                ready = self._collective(now, gathers=True)
        return now

    def _collective(self, asked_ms: float, *, gathers: bool) -> float:
        """Move one layer round the ring, after what was asked for before; return when it is through."""
        length = GATHER_MS if gathers else GATHER_MS / self.ratio
        size = int(20 * MB * length / GATHER_MS)
        before_ms, self.queue_ms = self.queue_ms, max(self.queue_ms, asked_ms) + length
        sends_ms = self.queue_ms - before_ms if self.joins else length
        self.joins = self.waits
        self.flows += ring(RING, [self.queue_ms], length_ms=sends_ms, size=size)
        return self.queue_ms


def ends_ms(flows: list[Flow], members: int = len(RING)) -> list[float]:
    """When each step is found to end."""
    seen = traffic(flows)
    found = divide(seen, typed(seen), np.arange(members, dtype=np.int32), PARAMS)
    return [(end - BEGIN_NS) / MS for end in found.job_end_ns().tolist()]


@pytest.mark.parametrize("optimizer_ms", [12, 90, 300])
@pytest.mark.parametrize("ratio", [0.5, 1.0])
@pytest.mark.parametrize("ahead", [True, False], ids=["ahead", "in turn"])
@pytest.mark.parametrize("layers,microbatches", [(4, 2), (8, 1), (8, 4), (24, 1)])
def test_a_step_ends_with_the_last_scatter(
    layers: int, microbatches: int, ahead: bool, ratio: float, optimizer_ms: float
) -> None:
    flows, ends = Sharded(layers, microbatches, ratio, ahead, optimizer_ms=optimizer_ms).run()
    assert ends_ms(flows) == pytest.approx(ends, abs=1)


def test_steps_of_more_than_a_thousand_bursts() -> None:
    flows, ends = Sharded(24, 16, steps=10).run()
    assert ends_ms(flows) == pytest.approx(ends, abs=1)


@pytest.mark.parametrize("layers, microbatches, optimizer_ms", [(8, 2, 15), (12, 4, 6), (12, 8, 40)])
def test_steps_of_which_each_gather_is_waited_for(layers: int, microbatches: int, optimizer_ms: float) -> None:
    """Bursts run together, now these and now those: only the optimizer's silence is longer than others."""
    flows, ends = Sharded(
        layers, microbatches, ahead=False, forward_ms=1, backward_ms=2, optimizer_ms=optimizer_ms, steps=40
    ).run()
    assert ends_ms(flows) == pytest.approx(ends, abs=1)


@pytest.mark.parametrize("optimizer_ms", [4, 40])
def test_microbatches_whose_last_scatter_is_small_are_no_steps(optimizer_ms: float) -> None:
    # A microbatch of 24 collectives, of which the gathers and scatters of the backward run together.
    chance = np.random.default_rng(4)
    flows, ends, now = [], [], 0.0
    for _ in range(30):
        for size, silence_ms in ([(60, 1.1)] * 21 + [(30, 1.5), (730, 1.6), (30, 1.5)]) * 8:
            length_ms = size / 60
            flows += ring(RING, [now + length_ms], length_ms=length_ms, size=size * MB)
            now += length_ms + silence_ms * chance.uniform(0.97, 1.03)
        ends.append(now - 1.5)
        now += optimizer_ms - 1.5
    assert ends_ms(flows) == pytest.approx(ends, abs=1)


@pytest.mark.parametrize("joined", [0.3, 0.5, 0.85])
def test_gather_shows_steps_of_buckets_that_run_together(joined: float) -> None:
    """Two buckets of each of sixteen microbatches, one burst as often as not, and one gather of all parameters."""
    chance = np.random.default_rng(6)
    flows, ends, now = [], [], 0.0
    for _ in range(30):
        for size in [95, 750] * 16 + [190]:
            apart = size == 190 or chance.random() > joined
            now += 10 + (chance.uniform(2, 20) if apart else 0.2)
            flows += ring(RING, [now], length_ms=10, size=size * MB)
        ends.append(now)
        now += 15
    assert ends_ms(flows) == pytest.approx(ends, abs=1)


@pytest.mark.parametrize("loss", [0.0, 0.02])
def test_a_gather_of_two_buckets_size_ends_steps(loss: float) -> None:
    """Three microbatches of four buckets that run together or not; silences after the gather are longest."""
    chance = np.random.default_rng(8)
    flows, ends, now = [], [], 0.0
    for _ in range(60):
        for _ in range(3):
            now += chance.uniform(15, 50)
            for _ in range(4):
                now += 20 + (0.2 if chance.random() < 0.5 else chance.uniform(2, 12))
                flows += ring(RING, [now], length_ms=20, size=120 * MB)
        now += 15
        flows += ring(RING, [now], length_ms=4, size=240 * MB)
        ends.append(now)
        now += 60
    lost = chance.random(len(flows)) < loss
    found = ends_ms([flow for flow, gone in zip(flows, lost, strict=True) if not gone])
    assert found == pytest.approx(ends[: len(found)], abs=1)
    assert len(found) >= 59


def test_large_gather_ends_steps_of_joined_buckets() -> None:
    # Six buckets of each of eight microbatches, a burst each or one together; what is gathered moves as many bytes.
    chance = np.random.default_rng(9)
    flows, ends, now = [], [], 0.0
    for _ in range(30):
        for _ in range(8):
            now += 150
            apart_ms = chance.choice([0.2, 20])
            for _ in range(6):
                now += 55
                flows += ring(RING, [now], length_ms=55 - apart_ms, size=330 * MB)
        now += 130
        flows += ring(RING, [now], length_ms=6, size=6 * 330 * MB)
        ends.append(now)
        now += 40
    assert ends_ms(flows) == pytest.approx(ends, abs=1)


@pytest.mark.parametrize("ratio", [0.5, 1.0])
@pytest.mark.parametrize("layers", [6, 8, 12])
def test_further_steps_end_where_known_ones_do_in_the_period(layers: int, ratio: float) -> None:
    """The optimizer takes as long as a layer's forward, and less than a layer's backward."""
    flows, ends = Sharded(layers, 2, ratio, forward_ms=88, backward_ms=175, optimizer_ms=82, steps=36).run()
    seen, known = traffic(flows), division(RING, ends[:16])
    found = divide(seen, typed(seen), np.array(RING, dtype=np.int32), PARAMS, known)
    assert [(end - BEGIN_NS) / MS for end in found.job_end_ns().tolist()] == pytest.approx(ends, abs=1)


@pytest.mark.parametrize("microbatches", [1, 2])
def test_lost_records_cost_no_step(microbatches: int) -> None:
    flows, ends = Sharded(8, microbatches, steps=40).run()
    lost = np.random.default_rng(2).random(len(flows)) < 0.005
    found = ends_ms([flow for flow, gone in zip(flows, lost, strict=True) if not gone])
    assert found == pytest.approx(ends[: len(found)], abs=1)
    assert len(found) >= 39  # a record lost in the last step leaves it for later


@pytest.mark.parametrize("layers", [4, 8, 12])
def test_bursts_that_are_joined_in_slow_steps_cost_no_step(layers: int) -> None:
    flows, ends = Sharded(layers, slow=range(5, 10), optimizer_ms=12).run()
    assert ends_ms(flows) == pytest.approx(ends, abs=1)


@pytest.mark.parametrize("layers, microbatches, joined, optimizer_ms", [(8, 4, 0.1, 20), (16, 8, 0.05, 36)])
@pytest.mark.parametrize("seed", [1, 2])
def test_bursts_that_are_joined_now_and_then_hide_no_step(
    layers: int, microbatches: int, joined: float, optimizer_ms: float, seed: int
) -> None:
    """Nothing recurs but layers, of which most are alike, and the optimizer's silence."""
    rng, flows, ends = np.random.default_rng(seed), [], []
    moment = ends_at_ms = 0.0
    for _ in range(12):
        for _ in range(microbatches):
            for size, apart_ms in [(4, 5)] * layers + [(12, 10)] * layers:
                moment += 0.3 * size
                ends_at_ms = moment
                flows += ring(RING, [moment], length_ms=0.3 * size, size=size * MB)
                moment += 0 if rng.random() < joined else apart_ms + rng.uniform(0, 0.5)
        ends.append(ends_at_ms)
        moment = ends_at_ms + optimizer_ms
    assert ends_ms(flows) == pytest.approx(ends, abs=1)


def test_scatters_a_microbatch_and_one_gather_make_a_step() -> None:
    # Three buckets after each of four backwards, and one gathering of all: nothing moves in a forward.
    flows: list[Flow] = []
    ends = []
    for step in range(30):
        for moment, size in [(1000 * (m + 1) + 80 * b, 15 - b) for m in range(4) for b in range(3)] + [(4190, 40)]:
            flows += ring(RING, [5000 * step + moment], length_ms=3 * size, size=size * MB)
        ends.append(5000 * step + 4190.0)
    assert ends_ms(flows) == pytest.approx(ends)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_buckets_that_run_together_hide_no_period(seed: int) -> None:
    """Microbatches scatter three buckets, now apart and now as one burst, and as many bytes are gathered at the end."""
    rng, flows, ends, moment = np.random.default_rng(seed), [], [], 0.0
    for step in range(30):
        for microbatch in range(4):
            moment = 4950 * step + 1000 * (microbatch + 1) + rng.uniform(0, 20)
            apart_ms = 30 * (microbatch == 0 or rng.random() < 0.4)
            for size in (15, 14, 13):
                moment += 10 * size
                flows += ring(RING, [moment], length_ms=10 * size, size=size * MB)
                moment += apart_ms
        ends.append(moment + 330)
        flows += ring(RING, ends[-1:], length_ms=300, size=42 * MB)
    assert ends_ms(flows) == pytest.approx(ends, abs=1)


@pytest.mark.parametrize("slow_ms", [0, 20_000])
def test_a_gather_as_large_as_scatters_ends_the_step(slow_ms: int) -> None:
    """Silences are short before it, once in each step, and other bursts do not tell one microbatch from another."""
    begins = [2600.0 * step + slow_ms * (step > 3) for step in range(20)]
    moments = [begin + after for begin in begins for after in (500, 1000, 1500, 2000, 2160)]
    assert ends_ms(shaken(ring(RING, moments, length_ms=100), 1, ms=2)) == pytest.approx(moments[4::5], abs=12)


@pytest.mark.parametrize("pause_ms", [0, 1500])
def test_steps_stay_apart_when_small_collectives_recur(pause_ms: int) -> None:
    """A report after each tenth step, and an evaluation."""
    ends = [end + pause_ms * (number // 10) for number, end in enumerate(every(1000, 60, 1000))]
    reports = ring(RING, [end + 20 for end in ends[9::10]], length_ms=2, size=2 * MB)
    assert ends_ms(ring(RING, ends) + reports) == pytest.approx(ends, abs=25)


def test_equal_bursts_end_a_step_before_the_longest_silence() -> None:
    # Each stage reduces one bucket a microbatch, of two, and gathers as many bytes; the last goes on soon after it.
    chance = np.random.default_rng(3)
    flows, ends, now = [], [], 0.0
    for _ in range(60):
        for silence_ms, first_ms in ((190, 0.0), (80, 20.0), (97, -74.0)):
            now += silence_ms * chance.uniform(0.85, 1.15)
            flows += ring(RING, [now], length_ms=1, size=54 * MB)
            flows += ring([each + len(RING) for each in RING], [now + first_ms], length_ms=1, size=54 * MB)
        ends.append(now)
    assert ends_ms(flows, 2 * len(RING)) == pytest.approx(ends, abs=1)


def reduced_each_microbatch(microbatches: int, buckets: int, gathered: float) -> tuple[list[Flow], list[float]]:
    """A forward of 200 ms without traffic, a backward of 400 ms that reduces buckets, and the parameters at the end."""
    chance = np.random.default_rng(5)
    flows, ends, now = [], [], 0.0
    for _ in range(25):
        for _ in range(microbatches):
            now += 205 * chance.uniform(0.97, 1.03)
            for _ in range(buckets):
                now += 400 / buckets * chance.uniform(0.97, 1.03)
                flows += ring(RING, [now], length_ms=10, size=120 * MB // buckets)
        now += 20
        flows += ring(RING, [now + 12], length_ms=12, size=int(gathered * 120 * MB))
        ends.append(now := now + 12)
    return flows, ends


@pytest.mark.parametrize("gathered", [0.15, 0.5, 1.0, 2.0])
@pytest.mark.parametrize("buckets", [2, 3, 6])
@pytest.mark.parametrize("microbatches", [1, 2, 4, 8])
def test_steps_of_reduced_microbatches_end_with_the_gather(microbatches: int, buckets: int, gathered: float) -> None:
    flows, ends = reduced_each_microbatch(microbatches, buckets, gathered)
    assert ends_ms(flows) == pytest.approx(ends, abs=1)


@pytest.mark.parametrize("seed", [13, 16])
def test_of_silences_as_long_the_one_after_the_gather_ends(seed: int) -> None:
    # Steps differ by their sequences; the first forward has begun when all is gathered.
    chance = np.random.default_rng(seed)
    flows, ends, now = [], [], 0.0
    for _ in range(40):
        pace = chance.normal(1, 0.03)
        for silence_ms in 2 * (190, 0, 0, 0):
            now += (65 + silence_ms) * pace * chance.normal(1, 0.003)
            flows += ring(RING, [now], length_ms=5, size=30 * MB)
        flows += ring(RING, [now + 25], length_ms=19, size=120 * MB)
        ends.append(now + 25)
        now += 22
    assert ends_ms(flows) == pytest.approx(ends, abs=1)


@pytest.mark.parametrize("microbatches, buckets", [(2, 3), (2, 6), (8, 3)])
def test_lost_records_hide_no_microbatch(microbatches: int, buckets: int) -> None:
    flows, ends = reduced_each_microbatch(microbatches, buckets, 0.5)
    lost = np.random.default_rng(3).random(len(flows) - len(RING)) < 0.02
    kept = [flow for flow, gone in zip(flows, lost, strict=False) if not gone] + flows[-len(RING) :]
    assert ends_ms(kept) == pytest.approx(ends, abs=1)
