"""Steps of communicators: lost records are imputed, and other traffic shows when closing traffic is over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from prism_ch.analysis.steps.periods import find_periods, period_ends
from prism_ch.analysis.steps.sequences import Sequences, communicators, read_sequences, whole_payload
from prism_ch.analysis.steps.step_volume import KnownSteps, collective_ends, impute
from prism_ch.analysis.steps.steps import divide
from prism_ch.model.columns import Int64
from prism_ch.model.job import Division
from prism_ch.model.params import DivideParams
from prism_ch.model.traffic import Traffic
from tests.unit.analysis.build import (
    BEGIN_NS,
    MB,
    MS,
    Flow,
    buckets,
    division,
    every,
    job,
    links,
    pipeline,
    ring,
    shaken,
    traffic,
    typed,
)

PARAMS = DivideParams()
ENDS = every(1000, 40, 1000)


def read(flows: Sequence[Flow]) -> tuple[Sequences, Sequences]:
    """The sequences as counted, and with what lost records moved."""
    seen = traffic(flows)
    line = communicators(seen)
    counted = read_sequences(seen, line, PARAMS)
    return counted, impute(counted, whole_payload(seen, line, PARAMS), PARAMS)


def lossy(flows: Sequence[Flow], share: float, seed: int = 1) -> list[Flow]:
    """The flows without some of them, all of the last step's excepted."""
    lost = np.random.default_rng(seed).random(len(flows)) < share
    return [flow for flow, gone in zip(flows, lost, strict=True) if not gone or flow.start_ms > ENDS[-2]]


@pytest.mark.parametrize("members, lost", [([0, 1], 0.1), ([0, 1, 2, 3], 0.02)], ids=["two", "four"])
def test_pairs_that_are_short_have_moved_what_the_others_have(members: list[int], lost: float) -> None:
    counted, imputed = read(lossy(ring(members, ENDS), lost))
    assert len(set(counted.payload)) > 1
    assert set(imputed.payload) == {len(members) * 40 * MB}
    np.testing.assert_array_equal(imputed.end_ns, counted.end_ns)


def test_each_line_is_judged_by_itself() -> None:
    whole, short = ring([0, 1, 2, 3], ENDS), ring([4, 5, 6, 7], ENDS)
    _, imputed = read([*whole, *lossy(short, 0.02)])
    assert set(imputed.payload) == {160 * MB}


def test_pairs_of_another_volume_say_nothing() -> None:
    small = [replace(flow, size=10 * MB) for flow in ring([0, 2], ENDS)]
    _, imputed = read([*lossy(ring([0, 1, 2, 3], ENDS), 0.02), *small])
    assert set(imputed.payload) == {180 * MB}


def test_where_nothing_is_lost_nothing_changes() -> None:
    counted, imputed = read(ring([0, 1, 2, 3], ENDS))
    assert imputed is counted


def test_pairs_that_are_late_by_turns_are_not_counted_twice() -> None:
    flows = ring([0, 1, 2, 3], ENDS, length_ms=10)
    late = [replace(flow, start_ms=flow.start_ms + 15) if n % 12 == n % 5 else flow for n, flow in enumerate(flows)]
    counted, imputed = read(late)
    assert imputed.payload.sum() == counted.payload.sum()


def test_of_the_last_burst_more_may_come() -> None:
    counted, imputed = read(lossy(ring([0, 1, 2, 3], ENDS), 0.02)[:-1])
    assert imputed.payload[-1] == counted.payload[-1] == 120 * MB


def test_steps_of_many_records_end_when_most_lack_one() -> None:
    flows = buckets(range(8), ENDS, [40 * MB] * 6, apart_ms=60)
    seen = traffic(lossy(flows, 0.03))
    found = divide(seen, typed(seen), np.arange(8, dtype=np.int32), PARAMS)
    assert [(end - BEGIN_NS) / MS for end in found.job_end_ns().tolist()] == ENDS


def test_halved_bursts_end_steps_when_passes_follow() -> None:
    grid = [[0, 1, 2, 3], [4, 5, 6, 7]]
    rng = np.random.default_rng(3)
    steps = [flow for flow in job(grid, 40) if abs(flow.src - flow.dst) == 4]
    halved = [
        replace(flow, size=flow.size // 2) if rng.random() < 0.5 else flow
        for stage in grid
        for flow in ring(stage, ENDS)
    ]
    seen = traffic(steps + halved)
    pipeline = [(a, b) for a in range(8) for b in range(8) if abs(a - b) == 4]
    found = divide(seen, typed(seen, pp=pipeline), np.arange(8, dtype=np.int32), PARAMS)
    # Nothing shows that the last one is over.
    assert [(end - BEGIN_NS) / MS for end in found.job_end_ns().tolist()] == pytest.approx(ENDS[:-1])


def sequences_of(rows: Sequence[tuple[int, float, float, float]]) -> Sequences:
    """Bursts of 5 ms, given as line, end in ms, bytes, and bytes of other traffic that follow."""
    line, ended_ms, payload, followed_by = (np.array(column) for column in zip(*rows, strict=True))
    end_ns = BEGIN_NS + (ended_ms * MS).astype(np.int64)
    offsets = np.append(0, np.cumsum(np.bincount(line)))
    gap_s = np.append((np.diff(end_ns) - 5 * MS) / 1e9, np.inf)
    gap_s[offsets[1:] - 1] = np.inf
    return Sequences(line.astype(np.int32), end_ns - 5 * MS, end_ns, payload, gap_s, followed_by, offsets)


def ends_ms(sequences: Sequences, line: int) -> list[float]:
    """When a sequence ends steps."""
    end_ns = sequences.end_ns
    ends = collective_ends(sequences, KnownSteps.none(sequences), int(end_ns.max()), PARAMS)
    return [(end - BEGIN_NS) / MS for end in end_ns[ends & (sequences.line == line)].tolist()]


def test_step_that_others_show_is_as_regular_as_theirs() -> None:
    """Eight microbatches and a gather. On one of three lines passes come between microbatches, which are alike."""
    chance, bucket = np.random.default_rng(6), 80.0 * MB
    starts = [start + chance.uniform(0, 150) for start in every(1000, 20)]
    rows = []
    for number, turn_ms in enumerate((20, 80, 20)):
        for until_ms in (round(start + 900) for start in starts):
            for left in range(8, 0, -1):
                at_ms = until_ms - 10 - (left - 1) * turn_ms
                followed = float(number == 1 and left > 1)
                rows += [(number, at_ms - 10, bucket, 0.0), (number, at_ms, bucket, followed)]
            rows.append((number, until_ms, 2 * bucket, float(number == 1) or 8.0))
    assert ends_ms(sequences_of(rows), 1) == [round(start + 900) for start in starts]


def test_steps_far_more_even_than_sums_need_less_that_is_alike() -> None:
    """Of four microbatches each moves a fifth less where the records of a rail are gone; a gather follows at once."""
    chance, rows = np.random.default_rng(4), []
    for step in range(40):
        for at_ms in (400, 800, 1200, 1600):
            moved = (100.0 if chance.random() < 0.65 else 78.0) * MB
            rows.append((0, 1650 * step + at_ms + chance.uniform(0, 4), moved, 0.0))
        rows.append((0, 1650.0 * step + 1630, 7.0 * MB, 0.0))
    assert ends_ms(sequences_of(rows), 0) == [1650 * step + 1630 for step in range(40)]


def test_passes_forward_and_backward_part_no_step() -> None:
    """One microbatch: its gradients come back before the last and largest bucket is reduced."""
    sizes = ((340, 44), (375, 266), (410, 108), (445, 43), (480, 151), (525, 4537))
    rows = [
        (0, 660.0 * step + at_ms, size * float(MB), float(size in (151, 4537)))
        for step in range(40)
        for at_ms, size in sizes
    ]
    assert ends_ms(sequences_of(rows), 0) == [660 * step + 525 for step in range(40)]


GRID = ([0, 1], [2, 3])
STEPS = 30


def waiting(seed: int, exchange_mb: int = 0) -> tuple[list[Flow], list[float]]:
    """A job of two stages, and when its steps end: with a gathering for which the second waits long and unevenly.

    In between, first and last stage may exchange the gradients of tied embeddings.
    """
    rng = np.random.default_rng(seed)
    flows: list[Flow] = []
    ends = []
    now = 0.0
    for wait in rng.uniform(300, 900, STEPS).tolist():
        flows += [flow for pair in links(GRID) for flow in pipeline(pair, [now], microbatches=8)]
        flows += ring(GRID[1], [now + 650], size=80 * MB)
        now += 650 + wait
        flows += ring(GRID[0], [now], size=80 * MB)
        if exchange_mb:
            ways = [way for low, high in links(GRID) for way in ((low, high), (high, low))]
            flows += [Flow(a, b, now + 2, 4, exchange_mb * MB) for a, b in ways]
        now += 60
        flows += [flow for stage in GRID for flow in ring(stage, [now], size=40 * MB)]
        ends.append(now)
    return flows, ends


def divided(flows: list[Flow]) -> Division:
    seen = traffic(flows)
    return divide(seen, typed(seen, links(GRID)), np.arange(4, dtype=np.int32), PARAMS)


@pytest.mark.parametrize("exchange_mb", [0, 12])
@pytest.mark.parametrize("seed", range(4))
def test_stage_ends_with_others_when_waiting_amid_closing(seed: int, exchange_mb: int) -> None:
    flows, ends = waiting(seed, exchange_mb)
    found = divided(flows)
    for row in found.end_ns:
        assert ((row - BEGIN_NS) / MS).tolist() == pytest.approx(ends)


@pytest.mark.parametrize("together", [4, 8, 10])
@pytest.mark.parametrize("pause_ms", [1500, 4000])
def test_steps_stay_apart_when_pauses_follow_every_few(together: int, pause_ms: int) -> None:
    steps = together * 6
    later = [pause_ms * (step // together) for step in range(steps)]
    flows = [replace(flow, start_ms=flow.start_ms + later[step_of(flow)]) for flow in job(GRID, steps)]
    ends = [1000 * (step + 1) + later[step] for step in range(steps)]
    found = divided(shaken(flows, 1, ms=0.2))
    assert [(end - BEGIN_NS) / MS for end in found.job_end_ns().tolist()] == pytest.approx(ends, abs=3)


def step_of(flow: Flow) -> int:
    """The step of a flow in a job of a second a step."""
    return int((flow.start_ms + flow.length_ms - 1) // 1000)


def one_after_another(steps: Sequence[Sequence[Sequence[float]]]) -> tuple[Traffic, Int64]:
    """Bursts of a pair, and when each step ends, in ns: units, lengths and silences after them in ms, of each step."""
    flows: list[Flow] = []
    now, last_ms, ends_ms, shake = 0.0, 0.0, [], np.random.default_rng(1)
    for step in steps:
        for size, length_ms, gap_ms in zip(*step, strict=True):
            flows += [Flow(src, dst, now, length_ms, round(size) * MB) for src, dst in ((0, 1), (1, 0))]
            last_ms = now + length_ms
            now = last_ms + gap_ms * (1 + 0.01 * shake.normal())
        ends_ms.append(last_ms)
    return traffic(flows), BEGIN_NS + np.rint(np.array(ends_ms) * MS).astype(np.int64)


def test_steps_that_carried_the_same_go_on_to_do_so() -> None:
    """A burst of a thirtieth of a step is within what steps may differ by, and these never did."""
    sizes = [2, *[1] * 7, *[3] * 6, 2, 2] * 2
    # Collectives last longer and longer in a pass, so that silences get shorter, and after a step comes the shortest.
    gaps_ms = [*range(65, 51, -2), 115, 105, *range(96, 70, -5), 65] * 2
    gaps_ms[-1] = 47
    seen, ends_ns = one_after_another([(sizes, [10.0] * len(sizes), gaps_ms)] * 40)
    known = division([0, 1], ((ends_ns[:20] - BEGIN_NS) / MS).tolist())
    found = divide(seen, typed(seen), known.endpoints, PARAMS, known)
    assert found.job_end_ns().tolist() == ends_ns.tolist()


def test_microbatches_are_no_steps_after_a_slow_beginning() -> None:
    """One of two ends with the optimizer. In slow steps other collectives run into one another than usually."""
    slow = (
        [2, 1, 1, 1, 3, 3, 6, 1, 1, 1, 3, 3, 4],
        [8, 40, 78, 154, 235, 315, 840, 40, 78, 149, 225, 307, 827],
        [181, 144, 292, 221, 142, 55, 183, 144, 294, 232, 150, 71, 140],
    )
    usual = (
        [2, 1, 1, 1, 3, 3, 2, 4, 1, 1, 1, 3, 3, 2, 2],
        [10, 6, 8, 11, 17, 22, 27, 33, 8, 9, 11, 17, 22, 27, 23],
        [183, 178, 364, 364, 356, 356, 354, 183, 178, 363, 364, 353, 348, 353, 142],
    )
    seen, ends_ns = one_after_another([*[slow] * 6, *[usual] * 30])
    found = divide(seen, typed(seen), np.arange(2, dtype=np.int32), PARAMS)
    assert found.job_end_ns()[6:].tolist() == ends_ns[6:].tolist()


def test_a_stragglers_rail_is_cut_as_the_others() -> None:
    """They wait for it in each collective, so that theirs run into one another; its own still follow one by one."""
    sizes = [2, 1, 1, 1, 1, 1, 3, 3, 3, 3, 2, 2]
    usual = (
        sizes,
        [0, 132, 264, 397, 661, 945, 1230, 1515, 1802, 2086, 2371, 2560],
        [3, 3, 4, 6, 7, 9, 15, 20, 25, 25, 29, 4],
    )
    slowly = (
        sizes,
        [0, 333, 666, 1000, 1330, 1998, 2710, 3427, 4144, 4861, 5572, 6290],
        [3, 1, 1, 1, 1, 1, 3, 3, 3, 3, 2, 2],
    )
    waiting = [2, 4, 17], [0, 137, 1464], [4, 1193, 4828]
    begins = [*every(2600, 28), *every(6340, 6, 72_800)]
    flows = [
        Flow(src, dst, begin + at, length, size * MB)
        for rail in range(4)
        for step, begin in enumerate(begins)
        for size, at, length in zip(*(usual if step < 28 else waiting if rail < 3 else slowly), strict=True)
        for src, dst in ((2 * rail, 2 * rail + 1), (2 * rail + 1, 2 * rail))
    ]
    seen = traffic(shaken(flows, 1, ms=0.3))
    found = divide(seen, typed(seen), np.arange(8, dtype=np.int32), PARAMS)
    assert found.steps == 34
    assert np.ptp(found.end_ns, axis=0).max() < 40 * MS


#: In a step of shards: units of some megabytes, and when they begin, in milliseconds.
SHARDS = {
    # They are gathered again right after a step, and each is computed on for longer.
    "gathered": ([20, 10, 10, 10, 20, 20, 10, 10], [0, 370, 740, 1470, 2200, 2930, 3650, 4380], 4500),
    # Gradients are scattered after each of four microbatches, and the parameters gathered once.
    "scattered": (
        [*[18, 17, 15] * 4, 50],
        [at + unit for at in (0, 600, 1200, 1800) for unit in (0, 128, 256)] + [2080],
        2460,
    ),
}


@pytest.mark.parametrize("kind", SHARDS)
def test_steps_end_as_known_ones_whatever_silence_follows(kind: str) -> None:
    sizes, begins_ms, step_ms = SHARDS[kind]
    flows = [
        Flow(src, dst, step_ms * step + begin, 10, size * MB)
        for step in range(20)
        for begin, size in zip(begins_ms, sizes, strict=True)
        for src, dst in ((0, 1), (1, 0))
    ]
    seen = traffic(shaken(flows, 1, ms=0.2))
    ends_ns = np.sort(seen.end_ns).reshape(20, -1).max(axis=1)
    known = division([0, 1], ((ends_ns[:16] - BEGIN_NS) / MS).tolist())
    found = divide(seen, typed(seen), known.endpoints, PARAMS, known)
    assert found.job_end_ns().tolist() == ends_ns.tolist()


@pytest.mark.parametrize("followed", [0.0, 1.0], ids=["alone", "in a pipeline"])
def test_period_ends_where_most_steps_of_others_do(followed: float) -> None:
    """Silences are all alike in one of two sequences. The stages of a pipeline end their steps one after the other."""
    sizes = ((100, 30.0), (200, 40.0), (300, 10.0), (400, 20.0))
    rows = [(n, 700.0 * step + at, mb * MB, followed) for n in (0, 1) for step in range(20) for at, mb in sizes]
    sequences = sequences_of(rows)
    alike = (sequences.line == 1) & np.isfinite(sequences.gap_s)
    sequences = replace(sequences, gap_s=np.where(alike, 0.095, sequences.gap_s))
    periods = find_periods(sequences, PARAMS)
    ends, shown = period_ends(sequences, periods, np.ones(len(rows), dtype=bool), PARAMS)
    assert shown.tolist() == [True, not followed]
    of_steps = np.tile([False, False, False, True], 20)
    assert [(ends[sequences.rows(line)] == of_steps).all() for line in (0, 1)] == [True, not followed]


def zero2_of_stages(steps: int) -> list[tuple[int, float, float, float]]:
    """Two stages that reduce four buckets in each of eight microbatches, and gather, in a step of 4060 ms.

    Passes follow each microbatch of the first; of some, records of the largest bucket are lost.
    """
    buckets_ms_mb = ((210, 69), (280, 118), (350, 115), (430, 1075))
    rows = []
    for stage, gathered_ms in ((0, 3790), (1, 3600)):
        for step in range(steps):
            for microbatch in range(8):
                for at_ms, size_mb in buckets_ms_mb:
                    is_lost = (stage, microbatch, step % 3, size_mb) == (0, 2, 0, 1075)
                    seen = size_mb * MB * (0.2 if is_lost else 1.0)
                    rows.append((stage, 4060.0 * step + 440 * microbatch + at_ms, seen, float(size_mb == 1075) * 8))
            rows.append((stage, 4060.0 * step + gathered_ms, 164.0 * MB, 1.0))
    return rows


def test_more_regular_of_two_sequences_shows_steps() -> None:
    sequences = sequences_of(zero2_of_stages(40))
    # Nothing shows that the last one is over.
    assert ends_ms(sequences, 0)[:39] == [4060 * step + 3790 for step in range(39)]
    assert ends_ms(sequences, 1)[:39] == [4060 * step + 3600 for step in range(39)]


def test_ends_of_known_steps_count_more_than_silences() -> None:
    """Records are lost of further steps, which may then end before as well as after a long silence."""
    chance = np.random.default_rng(1)
    rows = [
        (stage, at_ms, moved * (chance.uniform(0.94, 1.0) if at_ms > 80_000 and followed == 8 else 1.0), followed)
        for stage, at_ms, moved, followed in zero2_of_stages(40)
    ]
    sequences = sequences_of(rows)
    volume = np.full(2, 11_180.0 * MB)
    at_ms = (sequences.end_ns - BEGIN_NS) / MS
    gathers = np.isclose(sequences.payload, 164 * MB)
    known = KnownSteps(volume, np.full(2, np.nan), gathers & (at_ms < 80_000))
    ends = collective_ends(sequences, known, int(sequences.end_ns.max()), PARAMS)
    for stage, gathered_ms in ((0, 3790), (1, 3600)):
        wanted = [4060 * step + gathered_ms for step in range(39)]
        assert at_ms[ends & (sequences.line == stage)].tolist()[:39] == wanted
