"""Suspects: whose send is overdue first in a job that stands still, and who takes no part in its last collective.

A pipeline's message waits for its sender alone. In a collective all wait for whoever is not there: its peers have begun
to send, or are waiting for it on every link that they share, and so of the ranks of a communicator the suspect is the
one that is behind on all of its links, out and in, while others are not. Sources: Jiang et al., "MegaScale", NSDI 2024,
section 5.2, and NCCL's flight recorder: the rank that never entered the last collective.

A record that was lost looks like a send that was never made: nobody is suspected of what chance loses as easily.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import special

from prism_ch.core import robust
from prism_ch.core.arrays import run_starts
from prism_ch.core.graph import components
from prism_ch.model.columns import Bool, Float64, Int32, Int64, UInt8
from prism_ch.model.flow import FlowBatch
from prism_ch.model.params import StopParams
from prism_ch.model.result import DP, PP


@dataclass(frozen=True, slots=True)
class Ways:
    """The directed pairs that a job trains on, and their kinds: int32[pairs], int32[pairs], uint8[pairs]."""

    src: Int32
    dst: Int32
    kind: UInt8

    def rows_of(self, flows: FlowBatch) -> Int64:
        """Return the pair of each flow, int64[flows], -1 for none."""
        if not len(self.src):
            return np.full(len(flows), -1)
        span = 1 + int(max(self.src.max(), self.dst.max(), flows.src.max(initial=0), flows.dst.max(initial=0)))
        known, wanted = (part.src.astype(np.int64) * span + part.dst for part in (self, flows))
        order = np.argsort(known)
        place = np.minimum(np.searchsorted(known[order], wanted), len(known) - 1)
        return np.asarray(np.where(known[order][place] == wanted, order[place], -1))


@dataclass(frozen=True, slots=True)
class HangCulprits:
    """Who may keep a job from going on.

    `endpoints` int32[n], sorted, whose sends were due first; of several, any may be it. `due_ns`: when that was, None
    where it can't be told. `amid`: they had worked in the step since its data were read. `anybody`: no peer has come
    farther, since nobody began the step, or takes part in the collective that is due: what it is may concern them all.
    `begun`: somebody sent in the step; else the job may have ended with the one before.
    """

    endpoints: Int32
    due_ns: int | None = None
    amid: bool = False
    anybody: bool = False
    begun: bool = True

    @property
    def named(self) -> Int32:
        """Those who are known to be behind their peers."""
        return self.endpoints[:0] if self.anybody else self.endpoints


@dataclass(frozen=True, slots=True)
class _Progress:
    """How far each pair is in the step that does not end, one row a pair.

    `left` int64[pairs], the sends that it usually makes yet; `due_s` float64[pairs], when the next is due, in seconds
    since the step began, NaN where none is, and `made_s` when the last was that it made; `touched` bool[pairs], it sent
    in this step. `usual` is how many sends all of them make in a step, and `lost` the share of those that no record
    showed in the steps before. `together_s`: sends due so shortly after one another are due at once.
    """

    left: Int64
    due_s: Float64
    made_s: Float64
    touched: Bool
    usual: int
    lost: float
    together_s: float

    def stopped_amid(self, params: StopParams) -> bool:
        """Say whether more sends are missing than records that are lost explain: all stopped before they were made."""
        return float(special.bdtrc(int(self.left.sum()) - 1, self.usual, self.lost)) <= params.max_lost_chance

    def missed(self, sends: Int64, candidates: int, params: StopParams) -> Bool:
        """Mask those of some candidates that missed more sends than lost records explain, bool[n]."""
        mask: Bool = candidates * self.lost**sends <= params.max_lost_chance
        return mask


@dataclass(frozen=True, slots=True)
class Sends:
    """What a job sent: when each began, int64[n], and on which of its `ways`, int64[n], -1 for none."""

    way: Int64
    start_ns: Int64

    def before(self, time_ns: int) -> Sends:
        """Return those that began earlier."""
        rows = self.start_ns < time_ns
        return Sends(self.way[rows], self.start_ns[rows])


def find_hang_culprits(sends: Sends, ways: Ways, begin_ns: Int64, step_s: float, params: StopParams) -> HangCulprits:
    """Find who keeps a job that stands still from going on.

    Parameters: `begin_ns` int64[k], when steps began, of which the last does not end; `step_s`, the usual length of
    one. Where ranks took no part in the step before, and others did, it was that one that does not end: what ended it
    was cut short.
    """
    progress = _progress(sends, ways, begin_ns, step_s, params)
    if len(begin_ns) > params.enough + 1:
        before = _progress(sends, ways, begin_ns[:-1], step_s, params)
        if any(len(who) and not anybody for _, who, anybody in _of_collectives(before, ways, params, idle=True)):
            begin_ns, progress = begin_ns[:-1], before
    exchanges, waiting = _of_exchange(progress, ways, params)
    messages = [one for one in _of_pipeline(progress, ways, params) if not np.isin(one[1], waiting).all()]
    candidates = [*messages, *_of_collectives(progress, ways, params), *exchanges]
    if not candidates:
        return HangCulprits(np.empty(0, dtype=np.int32))
    first_s = min(due_s for due_s, _, _ in candidates)
    together = [one for one in candidates if one[0] <= first_s + progress.together_s]
    # Whom a collective singles out is more than whom nothing exculpates.
    together = [one for one in together if not one[2]] or together
    endpoints = np.unique(np.concatenate([who for _, who, _ in together])).astype(np.int32)
    begun = bool(progress.touched.any())
    return HangCulprits(
        endpoints,
        int(begin_ns[-1]) + round(first_s * 1e9),
        _worked(endpoints, sends, ways, int(begin_ns[-1])),
        not begun or all(one[2] for one in together),
        begun,
    )


def _progress(sends: Sends, ways: Ways, begin_ns: Int64, step_s: float, params: StopParams) -> _Progress:
    """Compare the sends of each pair since the last of `begin_ns`, with those in the steps that begin at the others.

    A record that was lost is not a send that is missing: what comes later in the step says that it was sent.
    """
    pairs, steps = len(ways.src), len(begin_ns) - 1
    within = np.searchsorted(begin_ns, sends.start_ns, side="right") - 1
    known = (within >= 0) & (sends.way >= 0)
    order = np.lexsort((sends.start_ns[known], within[known], sends.way[known]))
    pair, step, start_ns = sends.way[known][order], within[known][order], sends.start_ns[known][order]
    first = run_starts(pair, step)
    turn = np.arange(len(pair)) - np.repeat(first, np.diff(np.append(first, len(pair))))
    offset_s = (start_ns - begin_ns[step]) / 1e9
    before = step < steps
    turns = int(turn.max(initial=0)) + 1
    place = (pair[before] * turns + turn[before]).astype(np.int32)
    usual_s = robust.median_by(place, offset_s[before], pairs * turns).reshape(pairs, turns)
    often = np.bincount(place, minlength=pairs * turns).reshape(pairs, turns) >= params.usual_share * steps
    usual_s = np.where(often, usual_s, np.nan)
    sent = np.bincount(pair[~before], minlength=pairs)
    latest_s, together_s = np.full(pairs, -np.inf), params.together_share * step_s
    np.maximum.at(latest_s, pair[~before], offset_s[~before])
    passed = (usual_s < latest_s[:, None] - together_s).sum(axis=1) + (sent > 0)
    done, each = np.maximum(sent, passed), np.arange(pairs)
    due_s = np.where(done < turns, usual_s[each, np.minimum(done, turns - 1)], np.nan)
    made_s = np.where(done > 0, usual_s[each, np.minimum(done, turns) - 1], np.nan)
    usual = often.sum(axis=1)
    seen = np.bincount(pair[before] * steps + step[before], minlength=pairs * steps).reshape(pairs, steps)
    lost = np.maximum(usual[:, None] - seen, 0).sum() / max(int(usual.sum()) * steps, 1)
    return _Progress(np.maximum(usual - done, 0), due_s, made_s, sent > 0, int(usual.sum()), float(lost), together_s)


_Candidate = tuple[float, Int32, bool]


def _of_pipeline(progress: _Progress, ways: Ways, params: StopParams) -> list[_Candidate]:
    """List the messages of a pipeline that are due: when, in seconds, who should send, and that it is nobody else.

    What comes after it in a step is missing as well, whoever sends it.
    """
    rows = np.flatnonzero((ways.kind == PP) & ~np.isnan(progress.due_s) & progress.stopped_amid(params))
    return [(float(progress.due_s[pair]), ways.src[pair : pair + 1], False) for pair in rows.tolist()]


def _of_collectives(progress: _Progress, ways: Ways, params: StopParams, *, idle: bool = False) -> list[_Candidate]:
    """List the collectives that are due: when, in seconds, who takes no part, and whether that is all of them.

    Parameters: `idle`, only those whose missing members sent nothing in the step.
    """
    found: list[_Candidate] = []
    for kind in np.unique(ways.kind[ways.kind != PP]).tolist():
        rows = np.flatnonzero(ways.kind == kind)
        members, src, dst, group = _joined(ways, rows)
        of_pair = group[src]
        least = np.full(int(group.max()) + 1, np.iinfo(np.int64).max)
        np.minimum.at(least, of_pair, progress.left[rows])
        due = ~np.isnan(progress.due_s[rows])
        more = progress.left[rows] - least[of_pair]
        behind = due & (more > 0)
        blocked = _all_of(behind & ~(idle & progress.touched[rows]), src, dst, len(members))
        blocked &= progress.missed(_of_both_ends(more, src, dst), len(members), params)
        for number in np.unique(of_pair[due]).tolist():
            mine = due & (of_pair == number)
            late = mine & behind
            who = members[blocked & (group == number)]
            if late.any():
                found.append((float(progress.due_s[rows[late]].min()), who, False))
            else:
                found.append((float(np.median(progress.due_s[rows[mine]])), members[group == number], True))
    return [one for one in found if len(one[1])]


def _of_exchange(progress: _Progress, ways: Ways, params: StopParams) -> tuple[list[_Candidate], Int32]:
    """List who takes no part in the exchange that is due first, by all pairs that it is made on, and who waits for it.

    Some of its pairs carry gradients as well, and are called by those: together they tell more than by kind. What those
    who wait should send next, as a message of a pipeline, waits with them.
    """
    nobody = np.empty(0, dtype=np.int32)
    rows = np.flatnonzero((ways.kind != PP) & ~(np.isnan(progress.due_s) & np.isnan(progress.made_s)))
    if np.isnan(progress.due_s[rows]).all():
        return [], nobody
    first_s = float(np.nanmin(progress.due_s[rows]))
    made = np.abs(progress.made_s[rows] - first_s) <= progress.together_s
    overdue = ~made & (progress.due_s[rows] <= first_s + progress.together_s)
    rows, overdue = rows[overdue | made], overdue[overdue | made]
    members, src, dst, group = _joined(ways, rows)
    goes_on = np.bincount(group[src], ~overdue) > 0
    blocked = _all_of(overdue, src, dst, len(members))
    blocked &= progress.missed(_of_both_ends(overdue.astype(np.int64), src, dst), len(members), params)
    blocked &= goes_on[group]
    numbers = np.unique(group[blocked])
    waiting = members[np.isin(group, numbers) & ~blocked]
    return [(first_s, members[blocked & (group == number)], False) for number in numbers.tolist()], waiting


def _joined(ways: Ways, rows: Int64) -> tuple[Int32, Int32, Int32, Int32]:
    """Return whom some pairs join: the endpoints, sorted, the place of each pair's two ends there, and their groups."""
    members, ends = np.unique(np.stack([ways.src[rows], ways.dst[rows]]), return_inverse=True)
    src, dst = ends.reshape(2, -1).astype(np.int32)
    return members, src, dst, components(len(members), src, dst)


def _of_both_ends(counts: Int64, src: Int32, dst: Int32) -> Int64:
    """Add up what is counted of pairs at either end of each, int64[members]."""
    return np.bincount(np.concatenate([src, dst]), np.tile(counts, 2)).astype(np.int64)


def _all_of(pairs: Bool, src: Int32, dst: Int32, members: int) -> Bool:
    """Mask the members that send, and of which all pairs, out and in, are marked, bool[members]."""
    ends = np.concatenate([src, dst])
    of_each, marked = np.bincount(ends, minlength=members), np.bincount(ends, np.tile(pairs, 2), minlength=members)
    mask: Bool = (marked == of_each) & (np.bincount(src, minlength=members) > 0)
    return mask


def _worked(endpoints: Int32, sends: Sends, ways: Ways, begin_ns: int) -> bool:
    """Say whether all of some endpoints have worked since the data of the step that began at a time were read.

    After gradients were exchanged data are read. Who has exchanged anything else since is beyond that; in a job that
    exchanges nothing but gradients, nobody can tell.
    """
    since = np.unique(sends.way[(sends.start_ns >= begin_ns) & (sends.way >= 0)])
    since = since[ways.kind[since] != DP]
    worked = np.concatenate([ways.src[since], ways.dst[since]])
    return bool(len(endpoints)) and bool(np.isin(endpoints, worked).all())
