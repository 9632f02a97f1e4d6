"""Finds hang culprits: whose send is overdue first, who misses the last collective.

A pipeline's message waits for its sender alone. In a collective all wait for whoever is not there: its peers have begun
to send, or wait for it on every link that they share. So the culprit is the rank of a communicator that is behind on
all of its links, out and in, while others are not. A lost record looks like a send that was never made: nobody is named
for what random loss explains as well. Sources: Jiang et al., "MegaScale", NSDI 2024, section 5.2, and NCCL's flight
recorder: the rank that never entered the last collective.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy import special

from prism_ch.core import robust
from prism_ch.core.arrays import distinct, run_places, run_starts
from prism_ch.core.graph import components
from prism_ch.core.pairs import PairIndex
from prism_ch.model.columns import Bool, Float64, Int32, Int64, UInt8
from prism_ch.model.flow import FlowBatch
from prism_ch.model.params import StopParams
from prism_ch.model.result import DP, PP


@dataclass(frozen=True, slots=True)
class TrainingPairs:
    """The directed pairs that a job trains on: `src`, `dst` int32[pairs], `kind` uint8[pairs]."""

    src: Int32
    dst: Int32
    kind: UInt8

    def rows_of(self, flows: FlowBatch) -> Int64:
        """Return the pair of each flow, int64[flows], -1 for none."""
        return PairIndex.of(self.src, self.dst).rows_of(flows.src, flows.dst)

    def holds(self, src: Int32, dst: Int32) -> Bool:
        """Mask the pairs (src[i], dst[i]) that are among these, bool[n]."""
        return PairIndex.of(self.src, self.dst).holds(src, dst)

    def have_peers(self, some: Int32, params: StopParams) -> bool:
        """Return whether most of the data-parallel peers of some endpoints are not among them.

        A whole stage is behind in an evaluation, which is only forward, and wherever records end for all at once.
        """
        gradients = np.flatnonzero(self.kind == DP)
        if not len(gradients):
            return True
        members, ends = np.unique(np.stack([self.src[gradients], self.dst[gradients]]), return_inverse=True)
        src, dst = ends.reshape(2, -1).astype(np.int32)
        group = components(len(members), src, dst)
        of_group, among = np.bincount(group), np.bincount(group, weights=np.isin(members, some))
        if not among.any():
            return True
        return bool((among <= params.half * of_group)[among > 0].mean() >= params.half)


@dataclass(frozen=True, slots=True)
class Sends:
    """The sends of a job: `pair` int64[n], -1 for untrained ones, and `start_ns` int64[n]."""

    pair: Int64
    start_ns: Int64

    def before(self, time_ns: int) -> Sends:
        """Return those that began earlier."""
        rows = self.start_ns < time_ns
        return Sends(self.pair[rows], self.start_ns[rows])


@dataclass(frozen=True, slots=True)
class HangCulprits:
    """Who may keep a job from going on.

    `endpoints` int32[n], sorted: those whose sends were due first, at `due_ns` (None if unknown); any of several may be
    the culprit. `inside_step`: they have computed in the step since its data were read. `anybody`: no peer is ahead of
    them, so the cause may concern them all. `begun`: somebody sent in the step; else the job may have ended before it.
    """

    endpoints: Int32
    due_ns: int | None = None
    inside_step: bool = False
    anybody: bool = False
    begun: bool = True

    @property
    def named(self) -> Int32:
        """Those who are known to be behind their peers."""
        return self.endpoints[:0] if self.anybody else self.endpoints

    def without_names(self) -> HangCulprits:
        """Return it where none of them is behind their peers."""
        return replace(self, anybody=True)


class _Candidate(NamedTuple):
    """Possible culprits, when their send was due, and whether no peer is ahead of them."""

    due_s: float
    endpoints: Int32
    anybody: bool = False


@dataclass(frozen=True, slots=True)
class _Progress:
    """How far each pair is in the step that does not end.

    One row a pair, times in seconds since the step began. `left` int64[pairs]: sends that it usually still makes.
    `due_s` float64[pairs]: when the next is due, NaN for none; `made_s`: when its last was due. `touched` bool[pairs]:
    it sent in this step. `usual`: sends of all pairs in a usual step; `lost`: the share of them without a record in
    earlier steps. Sends due within `together_s` are due at once. `usual_s` float64[usual], rising: when each is due.
    """

    left: Int64
    due_s: Float64
    made_s: Float64
    usual_s: Float64
    touched: Bool
    usual: int
    lost: float
    together_s: float

    def stopped_inside(self, params: StopParams) -> bool:
        return float(special.bdtrc(int(self.left.sum()) - 1, self.usual, self.lost)) <= params.max_loss_probability

    def missed(self, sends: Int64, params: StopParams) -> Bool:
        """Mask the candidates whose missing sends lost records do not explain, bool[n]."""
        mask: Bool = len(sends) * self.lost**sends <= params.max_loss_probability
        return mask


@dataclass(frozen=True, slots=True)
class _Links:
    """The members that some pairs join, sorted, and each member's communicator.

    `src`, `dst` int32[pairs]: the rows of each pair's two ends among the members.
    """

    members: Int32
    src: Int32
    dst: Int32
    group: Int32

    @classmethod
    def of(cls, pairs: TrainingPairs, rows: Int64) -> _Links:
        members, ends = np.unique(np.stack([pairs.src[rows], pairs.dst[rows]]), return_inverse=True)
        src, dst = ends.reshape(2, -1).astype(np.int32)
        return cls(members, src, dst, components(len(members), src, dst))

    def sums(self, counts: Int64 | Bool) -> Int64:
        """Add up what is counted of the pairs at either end of each, int64[members]."""
        ends = np.concatenate([self.src, self.dst])
        return np.bincount(ends, np.tile(counts, 2), minlength=len(self.members)).astype(np.int64)

    def all_of(self, marked: Bool) -> Bool:
        """Mask the members that send and whose pairs are all marked, bool[members]."""
        mask: Bool = (self.sums(~marked) == 0) & (np.bincount(self.src, minlength=len(self.members)) > 0)
        return mask


def find_hang_culprits(
    sends: Sends, pairs: TrainingPairs, begin_ns: Int64, step_s: float, params: StopParams
) -> HangCulprits:
    """Find who keeps a job that stands still from going on.

    Parameters: `begin_ns` int64[k], when steps began, the last being the one that does not end; `step_s`, the usual
    duration of a step. If ranks took no part in the step before while others did, that step is the one that does not
    end: what ended it was cut short.
    """
    begin_ns, progress = _unended_step(sends, pairs, begin_ns, step_s, params)
    exchanges, waiting = _of_exchange(progress, pairs, params)
    messages = [one for one in _of_pipeline(progress, pairs, params) if not np.isin(one.endpoints, waiting).all()]
    candidates = [*messages, *_of_collectives(progress, pairs, params), *exchanges]
    if not candidates:
        return HangCulprits(np.empty(0, dtype=np.int32))
    first_s = min(one.due_s for one in candidates)
    together = [one for one in candidates if one.due_s <= first_s + progress.together_s]
    # A rank that a collective singles out outweighs ranks that nothing exculpates.
    together = [one for one in together if not one.anybody] or together
    endpoints = np.unique(np.concatenate([one.endpoints for one in together])).astype(np.int32)
    begun = bool(progress.touched.any())
    return HangCulprits(
        endpoints,
        int(begin_ns[-1]) + round(first_s * 1e9),
        _have_computed(endpoints, sends, pairs, int(begin_ns[-1])),
        not begun or all(one.anybody for one in together),
        begun,
    )


def are_cut_at_once(
    sends: Sends, end_ns: Int64, pairs: TrainingPairs, begin_ns: Int64, step_s: float, params: StopParams
) -> bool:
    """Return whether records end as if all had been cut at one moment.

    In a hole, all that usually ends before that moment is there, and nothing that ends later. Where a rank hangs, those
    who don't depend on it go on, and of what ends together a part is missing: a moment seldom falls between that.
    Parameters: `end_ns` int64[n], the end of each send; else as for `find_hang_culprits`.
    """
    begin_ns, _ = _unended_step(sends, pairs, begin_ns, step_s, params)
    progress = _progress(sends, pairs, begin_ns, step_s, params, end_ns)
    due_s = progress.due_s[~np.isnan(progress.due_s)]
    last_s = float(np.nanmax(progress.made_s, initial=-np.inf))
    if not len(due_s) or np.isinf(last_s):
        return True
    overtaken = due_s < last_s - progress.together_s
    if overtaken.any() and progress.missed(np.array([np.count_nonzero(overtaken)]), params).all():
        return False
    apart_s = np.abs(due_s[~overtaken] - last_s).min(initial=np.inf)
    gaps_s = np.diff(progress.usual_s)
    return float(gaps_s[gaps_s <= apart_s].sum()) > params.min_cut_share * step_s


def _unended_step(
    sends: Sends, pairs: TrainingPairs, begin_ns: Int64, step_s: float, params: StopParams
) -> tuple[Int64, _Progress]:
    """Return when steps began, int64[k], and how far the last is, which does not end."""
    progress = _progress(sends, pairs, begin_ns, step_s, params)
    if len(begin_ns) > params.enough + 1:
        before = _progress(sends, pairs, begin_ns[:-1], step_s, params)
        if _some_are_idle(before, pairs, params):
            return begin_ns[:-1], before
    return begin_ns, progress


def _progress(
    sends: Sends,
    pairs: TrainingPairs,
    begin_ns: Int64,
    step_s: float,
    params: StopParams,
    seen_ns: Int64 | None = None,
) -> _Progress:
    """Compare each pair's sends in the last step with those in earlier steps.

    Parameters: `seen_ns` int64[n], when each send was seen, by default its start.

    1. Number the sends of each pair in each step by turn: first, second, ...
    2. Take the median offset of each turn from the step's beginning, if the turn is usual.
    3. Count a turn as done if the pair sent as often, or a later send of the pair shows that a record was lost.
    4. Read off the first turn that is not done, and the last that is.
    """
    count, steps = len(pairs.src), len(begin_ns) - 1
    within = np.searchsorted(begin_ns, sends.start_ns, side="right") - 1
    known = (within >= 0) & (sends.pair >= 0)
    order = np.lexsort((sends.start_ns[known], within[known], sends.pair[known]))
    seen_ns = sends.start_ns if seen_ns is None else seen_ns
    pair, step, seen_ns = sends.pair[known][order], within[known][order], seen_ns[known][order]
    first = run_starts(pair, step)
    turn = run_places(first, len(pair))
    offset_s = (seen_ns - begin_ns[step]) / 1e9
    before = step < steps
    turns = int(turn.max(initial=0)) + 1
    place = (pair[before] * turns + turn[before]).astype(np.int32)
    usual_s = robust.median_by(place, offset_s[before], count * turns).reshape(count, turns)
    often = np.bincount(place, minlength=count * turns).reshape(count, turns) >= params.usual_share * steps
    usual_s = np.where(often, usual_s, np.nan)
    sent = np.bincount(pair[~before], minlength=count)
    latest_s, together_s = np.full(count, -np.inf), params.together_share * step_s
    np.maximum.at(latest_s, pair[~before], offset_s[~before])
    passed = (usual_s < latest_s[:, None] - together_s).sum(axis=1) + (sent > 0)
    done, each = np.maximum(sent, passed), np.arange(count)
    due_s = np.where(done < turns, usual_s[each, np.minimum(done, turns - 1)], np.nan)
    made_s = np.where(done > 0, usual_s[each, np.minimum(done, turns) - 1], np.nan)
    usual = often.sum(axis=1)
    seen = np.bincount(pair[before] * steps + step[before], minlength=count * steps).reshape(count, steps)
    lost = np.maximum(usual[:, None] - seen, 0).sum() / max(int(usual.sum()) * steps, 1)
    left, all_s = np.maximum(usual - done, 0), np.sort(usual_s[often])
    return _Progress(left, due_s, made_s, all_s, sent > 0, int(usual.sum()), float(lost), together_s)


def _some_are_idle(progress: _Progress, pairs: TrainingPairs, params: StopParams) -> bool:
    """Return whether ranks took no part in a step while others did.

    They sent nothing to those with whom they exchange gradients, or in whose pipeline they are.
    """
    piped = np.flatnonzero((pairs.kind == PP) & ((progress.left > 0) | progress.touched))
    links = _Links.of(pairs, piped)
    idle = links.all_of(~progress.touched[piped]) & progress.missed(links.sums(progress.left[piped]), params)
    in_pipeline = bool(idle.any() and progress.touched[piped].any())
    return in_pipeline or any(not one.anybody for one in _of_collectives(progress, pairs, params, idle=True))


def _of_pipeline(progress: _Progress, pairs: TrainingPairs, params: StopParams) -> list[_Candidate]:
    """List who sends no message that is due, and waits for none itself."""
    rows = np.flatnonzero((pairs.kind == PP) & ~np.isnan(progress.due_s) & progress.stopped_inside(params))
    size = int(max(pairs.src.max(initial=0), pairs.dst.max(initial=0))) + 1
    input_s = np.full(size, np.inf)
    np.minimum.at(input_s, pairs.dst[rows], progress.due_s[rows])
    rows = rows[progress.due_s[rows] <= input_s[pairs.src[rows]]]
    return [_Candidate(float(progress.due_s[row]), pairs.src[row : row + 1]) for row in rows.tolist()]


def _of_collectives(
    progress: _Progress, pairs: TrainingPairs, params: StopParams, *, idle: bool = False
) -> list[_Candidate]:
    """List who misses each collective that is due, or all members of one not begun.

    Parameters: `idle`, only those missing members who sent nothing in the step.
    """
    found = []
    for kind in np.unique(pairs.kind[pairs.kind != PP]).tolist():
        rows = np.flatnonzero(pairs.kind == kind)
        links = _Links.of(pairs, rows)
        of_pair = links.group[links.src]
        least = np.full(int(links.group.max()) + 1, np.iinfo(np.int64).max)
        np.minimum.at(least, of_pair, progress.left[rows])
        due = ~np.isnan(progress.due_s[rows])
        more = progress.left[rows] - least[of_pair]
        behind = due & (more > 0)
        blocked = links.all_of(behind & ~(idle & progress.touched[rows]))
        blocked &= progress.missed(links.sums(more), params)
        for number in np.unique(of_pair[due]).tolist():
            late, mine = behind & (of_pair == number), links.group == number
            if late.any():
                first_s = float(progress.due_s[rows[late]].min())
                found.append(_Candidate(first_s, links.members[blocked & mine]))
            else:
                middle_s = float(np.median(progress.due_s[rows[due & (of_pair == number)]]))
                found.append(_Candidate(middle_s, links.members[mine], anybody=True))
    return [one for one in found if len(one.endpoints)]


def _of_exchange(progress: _Progress, pairs: TrainingPairs, params: StopParams) -> tuple[list[_Candidate], Int32]:
    """List who misses the exchange that is due first, and who waits for it.

    All its pairs count together, whatever their kind: some carry gradients as well and are labelled by those. Whatever
    those who wait should send next, such as a pipeline's message, waits with them.
    """
    rows = np.flatnonzero((pairs.kind != PP) & ~(np.isnan(progress.due_s) & np.isnan(progress.made_s)))
    if np.isnan(progress.due_s[rows]).all():
        return [], np.empty(0, dtype=np.int32)
    first_s = float(np.nanmin(progress.due_s[rows]))
    made = np.abs(progress.made_s[rows] - first_s) <= progress.together_s
    overdue = ~made & (progress.due_s[rows] <= first_s + progress.together_s)
    rows, overdue = rows[overdue | made], overdue[overdue | made]
    links = _Links.of(pairs, rows)
    goes_on = np.bincount(links.group[links.src], ~overdue) > 0
    blocked = links.all_of(overdue) & progress.missed(links.sums(overdue), params) & goes_on[links.group]
    numbers = np.unique(links.group[blocked])
    waiting = links.members[np.isin(links.group, numbers) & ~blocked]
    found = [_Candidate(first_s, links.members[blocked & (links.group == number)]) for number in numbers.tolist()]
    return found, waiting


def _have_computed(endpoints: Int32, sends: Sends, pairs: TrainingPairs, begin_ns: int) -> bool:
    """Return whether all of some endpoints have computed since the step's data were read.

    Data are read after gradients were exchanged: whoever has exchanged anything else since is beyond that. In a job
    that exchanges nothing but gradients this can't be known.
    """
    since = distinct(sends.pair[(sends.start_ns >= begin_ns) & (sends.pair >= 0)])
    since = since[pairs.kind[since] != DP]
    computed = np.concatenate([pairs.src[since], pairs.dst[since]])
    return bool(len(endpoints)) and bool(np.isin(endpoints, computed).all())
