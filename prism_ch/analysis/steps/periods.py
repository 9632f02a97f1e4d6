"""Steps of sequences that no silence divides, found by the sizes that recur.

Fully sharded training (ZeRO-3, FSDP) gathers parameters all through the forward and the backward and scatters gradients
all through the backward; the optimizer's silence is no longer than others. Its sizes recur step by step, though:

1. Microbatches carry equal bytes, so every silence of one has its counterpart in the others, but for the optimizer's:
   where the network is the bottleneck it is the longest, once in several periods.
2. A backward moves more bytes a layer, and takes longer over it, than a forward; after the backward comes the edge.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from prism_ch.analysis.steps.sequences import Sequences
from prism_ch.core import periodicity, robust
from prism_ch.core.periodicity import places_in_period
from prism_ch.model.columns import Bool, Float64, Int64
from prism_ch.model.params import DivideParams


@dataclass(frozen=True, slots=True)
class Period:
    """How one sequence repeats: the place of each burst in the period, int64[n].

    `payload` in bytes and `gap_s`, the silence after it, float64[period], are those usual at each place. `volume` is
    what a whole period carries: now and then some of its bursts are joined.
    """

    place: Int64
    payload: Float64
    gap_s: Float64
    volume: float

    def __len__(self) -> int:
        """Count the places."""
        return len(self.payload)

    def moves_throughout(self, params: DivideParams) -> bool:
        """Return whether silences are too alike for one to be a forward pass without gradients."""
        return len(self) >= params.enough and bool(np.median(self.gap_s) > params.half * self.gap_s.max())


def find_periods(sequences: Sequences, params: DivideParams) -> list[Period | None]:
    """Find the period of each sequence's sizes; None where they don't repeat well."""
    sizes = _sizes(sequences, params)
    places = [_find_places(sizes[sequences.rows(line)], params) for line in range(len(sequences))]
    counts = [0 if one is None else one[1] for one in places]
    first = np.append(0, np.cumsum(counts)).tolist()
    cell = np.full(len(sizes), -1, dtype=np.int32)
    last = np.zeros(len(sizes), dtype=np.bool_)
    for line, one in enumerate(places):
        if one is not None:
            rows = sequences.rows(line)
            cell[rows] = first[line] + one[0]
            last[rows.stop - 1] = True  # what comes after it is not known
    of_period = [
        robust.median_by(cell[rows], values[rows], first[-1])  # of all sequences at once
        for values, rows in ((sequences.payload, cell >= 0), (sequences.gap_s, (cell >= 0) & ~last))
    ]
    found: list[Period | None] = []
    for line, (one, mine) in enumerate(zip(places, map(slice, first[:-1], first[1:]), strict=True)):
        payload, gap_s = (values[mine] for values in of_period)
        if one is None or np.isnan(gap_s).any():
            found.append(None)
        else:
            turns = np.diff(np.cumsum(sequences.payload[sequences.rows(line)])[_passes(*one, 0)])
            found.append(Period(one[0], payload, gap_s, float(np.median(turns) if len(turns) else payload.sum())))
    return found


def repetition(sequences: Sequences, params: DivideParams) -> Float64:
    """Return how well the sizes of each sequence repeat, 0 to 1, float64[k]."""
    sizes = _sizes(sequences, params)
    return np.array(
        [
            periodicity.sequence_period(sizes[sequences.rows(line)], params.max_bursts)[1]
            for line in range(len(sequences))
        ]
    )


def at_place_of(sequences: Sequences, others: Bool, chosen: Bool, params: DivideParams) -> Bool:
    """Mask the bursts at the place in their period of most others, bool[n].

    Parameters: `others` bool[n]; `chosen` bool[k], the sequences to look at.
    """
    alike = np.zeros_like(others)
    if not chosen.any():
        return alike
    sizes = _sizes(sequences, params)
    for line in np.flatnonzero(chosen).tolist():
        rows = sequences.rows(line)
        found = _find_places(sizes[rows], params) if others[rows].any() else None
        if found is not None:
            place, _ = found
            alike[rows] = place == np.argmax(np.bincount(place[others[rows]]))
    return alike


def _sizes(sequences: Sequences, params: DivideParams) -> Int64:
    """Return the class of each size in its sequence, int64[n]."""
    return robust.size_classes(sequences.payload, params.size_spread / 2, sequences.line).astype(np.int64)


def _find_places(sizes: Int64, params: DivideParams) -> tuple[Int64, int] | None:
    """Find the place of each size in the period of its sequence, and the period."""
    length, strength = periodicity.sequence_period(sizes, params.max_bursts)
    return (places_in_period(sizes, length), length) if length and strength >= params.half else None


def show_ends(periods: list[Period | None], as_much: Bool, params: DivideParams) -> Bool:
    """Mask sequences whose period shows better than silences do where steps end, bool[k].

    Parameters: `as_much` bool[k], where a step carries as much as a period: if each of its microbatches has a forward
    without traffic, silences are as long after several bursts.
    """
    shown = np.zeros(len(periods), dtype=bool)
    for line, period in enumerate(periods):
        if period is not None:
            counts = _possible_microbatches(period.payload, params) if as_much[line] else []
            apart = [count for count in counts if len(period) % count]  # the gather is a burst of its own
            shown[line] = _first_of_several(period, apart, params) is not None
    return shown


def period_ends(
    sequences: Sequences, periods: list[Period | None], silent: Bool, params: DivideParams
) -> tuple[Bool, Bool]:
    """Cut sequences once in each step that their periods show, bool[n].

    Without a period of sizes, as where buckets of some microbatches run together, it is that of the long silences,
    `silent` bool[n]. Returns as well in which sequences silences, microbatches or other sequences show where a step
    ends, bool[k].
    """
    ends, shown = np.isinf(sequences.gap_s), np.zeros(len(sequences), dtype=bool)
    for line, period in enumerate(periods):
        rows = sequences.rows(line)
        gap_s = sequences.gap_s[rows]
        if period is None:
            last = _last_microbatches(silent[rows], gap_s, params)
            ends[rows] |= last & (np.count_nonzero(last) < np.count_nonzero(silent[rows]))
            continue
        found = _before_longest(period, sequences, rows, params)
        if found is None and (place := _shown_edge(period, params)) is not None:
            found = _ends_at(period, place)
        if found is not None:
            ends[rows] |= found
            shown[line] = True
    others_ns = np.sort(sequences.end_ns[ends & shown[sequences.line]])
    for line in np.flatnonzero(~shown).tolist():
        period, rows = periods[line], sequences.rows(line)
        if period is None:
            continue
        place = _place_of_others(period, sequences, rows, others_ns, params)
        if place is None:
            likeliest = _ends_at(period, _last_place(period, params))
            ends[rows] |= _last_microbatches(likeliest, sequences.gap_s[rows], params)
        else:
            ends[rows] |= _ends_at(period, place)
            shown[line] = True
    return ends, shown


def _place_of_others(
    period: Period, sequences: Sequences, rows: slice, others_ns: Int64, params: DivideParams
) -> int | None:
    """Find the place at which a sequence's bursts end when steps of others do.

    Parameters: `rows`, of the period's sequence; `others_ns` int64[m], sorted, where others end steps. None where fewer
    than most of these fall on one place, as in a period of two steps, or where bursts are followed by messages of a
    pipeline, whose stages end one after the other.
    """
    end_ns = sequences.end_ns[rows]
    within_ns = others_ns[(others_ns >= end_ns[0]) & (others_ns <= end_ns[-1])]
    if len(within_ns) < params.enough or sequences.followed_by[rows].any():
        return None
    after = np.clip(np.searchsorted(end_ns, within_ns), 1, len(end_ns) - 1)
    nearest = after - (within_ns - end_ns[after - 1] < end_ns[after] - within_ns)
    together = np.abs(end_ns[nearest] - within_ns) < params.little * np.median(np.diff(end_ns))
    votes = np.bincount(period.place[nearest[together]], minlength=1)
    return int(np.argmax(votes)) if votes.max() > params.min_plain_share * len(within_ns) else None


def _ends_at(period: Period, place: int) -> Bool:
    """Mask the bursts after which a walk round the period has passed a place, bool[n]."""
    return _passes(period.place, len(period), place)


def _passes(walk: Int64, length: int, place: int) -> Bool:
    """Mask where a walk round a number of places, int64[n], has passed one, bool[n]."""
    since = (walk - place - 1) % length
    passes: Bool = since == length - 1
    passes[:-1] |= since[:-1] - since[1:] > length / 2
    return passes


def _shown_edge(period: Period, params: DivideParams) -> int | None:
    """Find the place after which a step ends, if silences or microbatches show it."""
    forward = _forward_silence(period, params)
    return _lonely_silence(period, params) if forward is None else forward


def _forward_silence(period: Period, params: DivideParams) -> int | None:
    """Find the silence in which the first forward pass of a step runs.

    Where gradients are reduced in the backward, and parameters gathered at the end, no forward moves anything. The
    silence of the only one in a step stands out. Of several, the first follows the burst in which parameters are
    gathered; the optimizer comes before that.
    """
    if len(period) == 1:
        return None  # there is no other silence
    silence = period.gap_s
    longest = int(np.argmax(silence))
    stands_out = silence[longest] > params.forward_contrast * np.delete(silence, longest).max()
    if stands_out and period.payload[longest] >= params.min_gathered * np.delete(period.payload, longest).sum():
        return longest
    return _first_of_several(period, _possible_microbatches(period.payload, params), params)


def _first_of_several(period: Period, counts: list[int], params: DivideParams) -> int | None:
    """Find the silence of the first forward pass of several: one after a gather.

    Parameters: `counts`, of microbatches, that are possible.
    """
    silence = period.gap_s
    near = np.flatnonzero(silence > (1 - params.little) * silence.max()).tolist() if counts else []
    shown = [place for place in near if _gathers_last(period, place, counts, params)]
    return min(shown, key=lambda place: float(silence[place - 1] / silence[place]), default=None)


def _possible_microbatches(payload: Float64, params: DivideParams) -> list[int]:
    """Return numbers of microbatches, alike but for one burst, that a period may have.

    One burst that differs differs from its counterparts on either side; one more puts out of place what is passed over.
    """
    possible = []
    for microbatches in range(2, params.max_microbatches + 1):
        buckets, alone = divmod(len(payload), microbatches)
        if buckets == 0 or alone > 1:
            continue
        later = np.roll(payload, -buckets)
        differ = np.maximum(payload, later) > (1 + params.size_spread) * np.minimum(payload, later)
        if np.count_nonzero(differ) <= (buckets + 1 if alone else 2):
            possible.append(microbatches)
    return possible


def _gathers_last(period: Period, place: int, counts: list[int], params: DivideParams) -> bool:
    """Return whether a step that ends at a place is microbatches alike and a gather.

    The gather is one burst more, or moves more than its counterparts, by as much as parameters are; the silence before
    or after it is its own. Parameters: `counts`, of microbatches, that are possible.
    """
    payload, silence = (np.roll(values, -place - 1) for values in (period.payload, period.gap_s))
    for microbatches in counts:
        buckets, alone = divmod(len(period), microbatches)
        moved, paused = (
            values[: buckets * microbatches].reshape(microbatches, buckets).copy() for values in (payload, silence)
        )
        gathered = payload[-1] if alone else moved[-1, -1] - moved[-2, -1]
        if not alone:
            moved[-1, -1] = moved[-2, -1]
        paused[-1, -1] = paused[-2, -1]
        alike = (moved.max(axis=0) <= (1 + params.size_spread) * moved.min(axis=0)).all()
        alike &= (params.half * paused.max(axis=0) < paused.min(axis=0)).all()
        if alike and gathered >= params.min_gathered * moved[0].sum():
            return True
    return False


def _lonely_silence(period: Period, params: DivideParams) -> int | None:
    """Find the place of a silence that one of several microbatches has alone.

    Places are compared by the bytes before them: a gather straight after a scatter makes one burst, but no other bytes.
    """
    carried = np.cumsum(period.payload)
    step = carried[-1]
    places = np.append(0.0, carried)  # that of the last one is that of the step before, too
    near = params.little * np.quantile(period.payload, 0.25)
    for microbatches in range(min(params.max_microbatches, (len(period) - 1) // 2), 1, -1):
        elsewhere = (carried[:, None] + np.arange(1, microbatches) * step / microbatches) % step
        after = np.clip(np.searchsorted(places, elsewhere), 1, len(period))
        distance = np.minimum(np.abs(elsewhere - places[after - 1]), np.abs(places[after] - elsewhere))
        lonely = distance.max(axis=1) > near
        if np.count_nonzero(lonely) == 1:
            return int(np.argmax(lonely))
    return None


def _last_place(period: Period, params: DivideParams) -> int:
    """Find the place that ends a period.

    1. Where sizes differ little, it is the place with the longest silence.
    2. Else gathers and scatters part it: the edge is between backward and forward, if the backward moves more.
    3. Else the longest run of small bursts begins a step.
    """
    usual = period.payload
    if usual.max() < params.sizes_differ * usual.min():
        return int(np.argmax(period.gap_s))
    best = min(_parting(period, place, params.turn_weight) for place in range(len(period)))
    forward, backward = np.split(np.roll(usual, -best.place - 1), [best.forward])
    if backward.sum() > forward.sum():
        return best.place
    large = np.flatnonzero(usual > (usual.min() + usual.max()) / 2)
    small_after = np.diff(np.append(large, large[0] + len(period))) - 1
    return int(large[np.argmax(small_after)])


class _Parting(NamedTuple):
    """A forward of some places and a backward up to `place`, and how unlike both are within."""

    unlike: float
    place: int
    forward: int


def _parting(period: Period, place: int, turn_weight: float) -> _Parting:
    """Part a period ending at a place into a forward and a larger, slower backward.

    The best way leaves the least squared deviations of logarithms within the two, in variances. The first gather, the
    last scatter and the optimizer's silence don't count; the silence between the passes counts for `turn_weight`.
    """
    length = len(period)
    inside = np.ones(length)
    inside[[0, -1]] = 0.0
    unlike, rising = np.zeros(length - 1), np.zeros(length - 1)
    for usual, weight, border in (
        (period.payload, inside, 1.0),
        (period.gap_s, np.append(np.ones(length - 1), 0.0), turn_weight),
    ):
        values = np.log(usual)
        values = np.roll((values - values.mean()) / max(values.std(), np.finfo(np.float64).tiny), -place - 1)
        moments = np.stack([weight * values**power for power in range(3)])
        forward = np.cumsum(moments, axis=1)[:, :-1] - (1 - border) * moments[:, :-1]
        backward = moments.sum(axis=1)[:, None] - np.cumsum(moments, axis=1)[:, :-1]
        means = []
        for count, first, second in (forward, backward):
            means.append(first / np.maximum(count, turn_weight))
            unlike += second - first * means[-1]
        rising += means[1] - means[0]
    unlike = np.where(rising > 0, unlike, np.inf)
    best = int(np.argmin(unlike))
    return _Parting(float(unlike[best]), place, best + 1)


def _before_longest(period: Period, sequences: Sequences, rows: slice, params: DivideParams) -> Bool | None:
    """Find the steps whose optimizer's silence is longer than all others, bool[n].

    Steps are one or several periods, and as many of the longest silences as there would be steps lie that many periods
    apart. None if there are no such ones. Parameters: `rows`, of the period's sequence.
    Where each period has a longest silence, it may be the one between forward and backward, and a little longer at a
    report: those of steps stand out from as many that come next. An optimizer takes less time than a microbatch, which
    is a period or the smallest part of one, while an evaluation or a checkpoint may take more.
    """
    gap_s, end_ns, moved = sequences.gap_s[rows], sequences.end_ns[rows], np.cumsum(sequences.payload[rows])
    period_s = (end_ns[-1] - end_ns[0]) / 1e9 * period.volume / moved[-1]
    longest = np.argsort(-gap_s[:-1], kind="stable")
    each_has_one = False
    for periods in range(1, params.max_microbatches + 1):
        count = round(moved[-1] / (periods * period.volume))
        if count < params.enough:
            break
        last = np.sort(longest[:count])
        alike = np.abs(np.diff(moved[last]) / period.volume - periods) <= params.size_spread
        if np.mean(alike) < params.min_plain_share:
            continue
        each_has_one |= periods == 1
        shorter, usual_s = longest[count : 2 * count], np.median(gap_s[last])
        stands_out = len(shorter) > 0 and usual_s > params.twice * np.median(gap_s[shorter])
        microbatch_s = period_s if periods > 1 else period_s / params.max_microbatches
        if usual_s < microbatch_s and (stands_out or not each_has_one):
            ends = np.zeros(len(gap_s), dtype=np.bool_)
            ends[last] = True
            return ends
    return None


def _last_microbatches(edges: Bool, gap_s: Float64, params: DivideParams) -> Bool:
    """Keep those ends of microbatches that end a step, bool[n].

    Every k-th one does whose silence is longer than that of all others, by quartiles: the optimizer comes after the
    last of k microbatches.
    """
    rows = np.flatnonzero(edges[:-1])
    counts = range(2, params.max_microbatches + 1)
    found = periodicity.long_turn(gap_s[rows], counts, params.silence_contrast, params.repeats)
    if found is None:
        return edges
    last, microbatches = found
    kept = np.zeros_like(edges)
    kept[rows[last::microbatches]] = True
    return kept
