"""Where the steps of a communicator end: after segments that carry what a whole step does."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from prism_ch.analysis.steps.periods import at_place_of, repetition
from prism_ch.analysis.steps.proposals import order_by_pieces, pass_share, propose
from prism_ch.analysis.steps.sequences import Sequences
from prism_ch.analysis.steps.usual_volume import choose_volume, segment, usual_step
from prism_ch.core import robust
from prism_ch.model.columns import Bool, Float64, Int64
from prism_ch.model.params import DivideParams


@dataclass(frozen=True, slots=True)
class KnownSteps:
    """What steps published before show of sequences.

    `step_volume` float64[k] is what a step carries, and `spread` float64[k] its relative standard deviation, NaN where
    too few are seen; `ends` bool[n] masks the bursts that closed them; `last` int64[k, steps], the last burst of each
    sequence in each of them, one of an earlier sequence where none of its own came before; None where nothing was
    published.
    """

    step_volume: Float64
    spread: Float64
    ends: Bool
    last: Int64 | None = None

    @classmethod
    def none(cls, sequences: Sequences) -> KnownSteps:
        """Return that nothing is known."""
        unknown = np.full(len(sequences), np.nan)
        return cls(unknown, unknown, np.zeros(len(sequences.line), dtype=bool))


def collective_ends(sequences: Sequences, known: KnownSteps, data_end_ns: int, params: DivideParams) -> Bool:
    """Mask the bursts that close a step of their sequence, bool[n].

    Parameters: `known`, from earlier steps, which stays so; `data_end_ns`, until when the job was looked at.

    1. Choose a step volume for each sequence, or take the known one.
    2. Segment all sequences by step volume, with the proposals' preference where bytes leave it open.
    3. Where passes of the pipeline are more alike than bytes, cut after those.
    4. Close the last step of a sequence before stubs of a hanging collective, and where silence has lasted.
    """
    preference, proposals = propose(sequences, params)
    is_known = ~np.isnan(known.step_volume)
    step_volume, regular = known.step_volume, np.ones(len(sequences))
    if not is_known.all():
        cut = choose_volume(sequences, proposals, preference, params)
        step_volume, regular = np.where(is_known, step_volume, cut.step_volume), np.where(is_known, 1.0, cut.regular)
        preference = np.where(is_known[sequences.line], preference, cut.preference)
    preference = _as_known(sequences, preference, known.ends & is_known[sequences.line], params)
    ends = segment(sequences, step_volume, preference, params, known.spread)
    ends = _cut_by_passes(sequences, ends, proposals, regular, params)
    ends = _end_before_stubs(sequences, ends, step_volume, params)
    return ends | closed_by_silence(sequences, ends, step_volume, data_end_ns, params)


def _as_known(sequences: Sequences, preference: Float64, ends: Bool, params: DivideParams) -> Float64:
    """Prefer to end further steps as known ones end, float64[n].

    Parameters: `ends` bool[n], the bursts that end known steps.

    1. Bursts of the size of those end steps, or at their place in the period of sizes, where hardly any others do, and
       no others are preferred. Silences are other ones in slow steps.
    2. Where those are the least preferred of all, as where shards are gathered again right after a step, what is
       preferred is turned round.
    """
    line, count = sequences.line, len(sequences)
    before: Int64 = np.cumsum(ends) - ends
    first, last = before[sequences.offsets[:-1]], before[sequences.offsets[1:] - 1] + ends[sequences.offsets[1:] - 1]
    within = (before > first[line]) & (before < last[line]) & ~ends
    size = robust.median_by(line[ends], sequences.payload[ends], count)[line]
    alike = np.abs(sequences.payload - size) <= params.size_spread * size
    shows = _shows(sequences, alike, ends, within, params)
    placed = at_place_of(sequences, ends, ~shows & (np.bincount(line[within], minlength=count) > 0), params)
    alike = np.where(shows[line], alike, placed)
    shows |= _shows(sequences, placed, ends, within, params)
    highest = robust.quantile_by(line[ends], preference[ends], 0.75, count)
    lowest = robust.quantile_by(line[within], preference[within], 0.25, count)
    turned = np.where((highest < lowest)[line], -preference, preference)
    alike &= np.isfinite(sequences.gap_s)
    as_known = np.where(shows[line], np.where(alike, params.log_odds, np.minimum(turned, 0)), turned)
    return np.select([ends, within], [params.log_odds, -params.log_odds], as_known)


def _shows(sequences: Sequences, alike: Bool, ends: Bool, within: Bool, params: DivideParams) -> Bool:
    """Return in which sequences a mask shows the ends of known steps, bool[k].

    It holds most of them, and hardly any other bursts `within` those steps.
    """
    of_ends, of_others = (
        np.bincount(sequences.line[mask & alike], minlength=len(sequences))
        / np.maximum(np.bincount(sequences.line[mask], minlength=len(sequences)), 1)
        for mask in (ends, within)
    )
    return np.asarray((of_ends > params.half) & (of_others < params.little))


def impute(sequences: Sequences, whole: Float64, params: DivideParams) -> Sequences:
    """Take the imputed payload (see `whole_payload`) for sequences that it makes more alike.

    It is wrong where late pairs seem to be another burst. Of a sequence's last burst more may yet come: it stays.
    """
    whole = np.where(np.isinf(sequences.gap_s), sequences.payload, whole)
    if np.array_equal(whole, sequences.payload):
        return sequences
    _, proposals = propose(sequences, params)
    imputed = replace(sequences, payload=whole)
    (_, before, _), (_, after, _) = (usual_step(each, proposals, params) for each in (sequences, imputed))
    repeats, repeated = (repetition(each, params) for each in (imputed, sequences))
    better = (after > before + params.regularity_margin) | (repeats > repeated + params.little)
    return replace(sequences, payload=np.where(better[sequences.line], whole, sequences.payload))


def _cut_by_passes(
    sequences: Sequences, ends: Bool, proposals: list[Bool], regular: Float64, params: DivideParams
) -> Bool:
    """Cut sequences by what comes between their bursts where that is more alike, bool[n].

    Parameters: `ends` bool[n], where they were cut by their own payload, of which `regular` float64[k] is alike. Bursts
    halve at random where only one of two GPUs behind a NIC is counted, but a pass of the pipeline still shows a step.
    """
    share = np.array([pass_share(sequences, each, params) for each in proposals])
    shows = share > np.maximum(regular + params.little, params.min_plain_share)
    order = order_by_pieces(sequences, proposals)
    finest = np.argmax(np.take_along_axis(shows, order, axis=0), axis=0)
    chosen = np.take_along_axis(order, finest[None], axis=0)[0]
    proposed: Bool = np.array(proposals)[chosen[sequences.line], np.arange(len(ends))]
    # The last piece may not be whole.
    by_pass = proposed & np.isfinite(sequences.gap_s)
    return np.where(np.take_along_axis(shows, chosen[None], axis=0)[0][sequences.line], by_pass, ends)


def _end_before_stubs(sequences: Sequences, ends: Bool, step_volume: Float64, params: DivideParams) -> Bool:
    """End the last step of a sequence before stubs that come much later, bool[n].

    Stubs carry next to nothing and begin a collective that hangs.
    """
    rows = np.flatnonzero(ends)
    line, same = sequences.line[rows], np.diff(sequences.line[rows]) == 0
    step_s = robust.median_by(line[1:][same], np.diff(sequences.end_ns[rows])[same] / 1e9, len(sequences))
    total = np.concatenate([[0.0], np.cumsum(sequences.payload)])
    after = total[sequences.offsets[1:]][sequences.line] - total[1:]
    stubs_follow = (after > 0) & (after < params.size_spread * step_volume[sequences.line])
    stubs_follow &= np.isfinite(sequences.gap_s) & (sequences.gap_s > params.half * step_s[sequences.line])
    moved = ends.copy()
    for row in np.flatnonzero(stubs_follow).tolist():
        tail = slice(row + 1, int(sequences.offsets[sequences.line[row] + 1]))
        if moved[tail].any():
            moved[tail] = False
            moved[row] = True
    return moved


def closed_by_silence(
    sequences: Sequences, ends: Bool, step_volume: Float64, data_end_ns: int, params: DivideParams
) -> Bool:
    """Mask last bursts that end a step though some payload is missing, bool[n].

    A sequence that is silent for longer than it is inside a step has only lost a record.
    """
    since: Int64 = np.cumsum(ends) - ends
    last = sequences.offsets[1:] - 1
    unfinished: Bool = since == since[last][sequences.line]
    carried = (
        np.bincount(sequences.line, weights=sequences.payload * unfinished, minlength=len(sequences)) / step_volume
    )
    inner = ~ends & np.isfinite(sequences.gap_s)
    pause_s = np.nan_to_num(robust.quantile_by(sequences.line[inner], sequences.gap_s[inner], 0.95, len(sequences)))
    silent_s = (data_end_ns - sequences.end_ns[last]) / 1e9
    closed = np.zeros_like(ends)
    closed[last] = (carried > 1 - 2 * params.size_spread) & (silent_s > pause_s)
    return closed
