"""Divide a job's time into training steps (LLMPrism, section IV-C).

A step moves the same bytes every time: that, not silence, is what a step is made of. Production traces hold longer
silences inside a step than at its edge.
"""

from __future__ import annotations

import numpy as np

from prism_ch.analysis.steps.link_balance import pipeline_ends
from prism_ch.analysis.steps.onset import read_known, with_onset
from prism_ch.analysis.steps.regularity import regularity
from prism_ch.analysis.steps.sequences import (
    Sequences,
    communicators,
    links,
    read_background,
    read_sequences,
    still_sent,
    whole_payload,
)
from prism_ch.analysis.steps.step_volume import collective_ends, impute
from prism_ch.analysis.steps.strays import without_strays
from prism_ch.core import robust
from prism_ch.core.arrays import fold_at
from prism_ch.model.columns import Bool, Float64, Int32, Int64
from prism_ch.model.job import Division, PairKinds
from prism_ch.model.params import DivideParams
from prism_ch.model.result import DP, OTHER, PP
from prism_ch.model.traffic import Traffic

#: Later than any moment.
_NEVER_NS = np.iinfo(np.int64).max


def divide(
    traffic: Traffic, kinds: PairKinds, endpoints: Int32, params: DivideParams, known: Division | None = None
) -> Division:
    """Divide a job's time into the steps whose end is in the data.

    Parameters: `traffic`, the job's bursts; `kinds`, of its pairs; `endpoints` int32[m], its members, sorted; `known`,
    the steps published before, where there are some: steps go on to end where those ended.

    1. Read closing traffic (data-parallel, or pipeline where there is none) as sequences of bursts, one a line: a
       communicator, or a link.
    2. Find the bursts that end a step on each line: on communicators by the volume of a step, on links of pipelines by
       the balance of what is sent and answered.
    3. Agree on the steps of the job: what half of the lines confirm at one moment.
    4. End each step on each endpoint with its last closing burst.
    """
    closing = kinds.of_kind(traffic, kinds.closing)
    if len(closing) == 0:
        return Division.none(endpoints)
    chain: Int32 | None = None
    if kinds.closing == DP:
        line_of_pair = communicators(closing)
        sequences, ends = _collective_ends(traffic, kinds, closing, line_of_pair, params, known)
    else:
        line_of_pair = links(closing)
        chain = communicators(closing)[np.unique(line_of_pair, return_index=True)[1]]
        sequences = read_sequences(closing, line_of_pair, params)
        volume = _known_volume(sequences, known, params)
        ends = pipeline_ends(closing, line_of_pair, chain, sequences, volume, int(traffic.end_ns.max()), params)
    agreed = agree(sequences, ends, params, chain)
    if agreed.shape[1] == 0:
        return Division.none(endpoints)
    if chain is not None:
        agreed = without_strays(sequences, agreed, chain, params)
    of_lines = Division(np.arange(len(sequences), dtype=np.int32), agreed, _whole(sequences, agreed, params))
    judged = known is None and of_lines.steps >= params.judged_steps
    regular = regularity(sequences, ends, params) if judged else 1.0
    return Division(
        np.array(endpoints), _end_of_endpoints(closing, line_of_pair, of_lines, endpoints), of_lines.whole, regular
    )


def _known_volume(sequences: Sequences, known: Division | None, params: DivideParams) -> Float64:
    """Return the median bytes of a known step on each line, float64[lines], NaN where unknown."""
    if known is None:
        return np.full(len(sequences), np.nan)
    ends_ns = known.job_end_ns()
    step = np.searchsorted(ends_ns, sequences.end_ns)
    size = len(sequences), len(ends_ns) + 1
    moved = np.bincount(sequences.line * size[1] + step, weights=sequences.payload, minlength=size[0] * size[1])
    of_step = moved.reshape(size)[:, 1:-1]
    of_step[of_step <= 0] = np.nan
    enough = np.count_nonzero(~np.isnan(of_step), axis=1) >= params.repeats
    return np.where(enough, robust.median(of_step, axis=1), np.nan)


def _collective_ends(
    traffic: Traffic,
    kinds: PairKinds,
    closing: Traffic,
    line_of_pair: Int32,
    params: DivideParams,
    known: Division | None,
) -> tuple[Sequences, Bool]:
    """Read the sequences of communicators, lost records imputed, and find where steps end, bool[n]."""
    closing = closing.take(still_sent(closing, line_of_pair, params))
    sequences = read_sequences(closing, line_of_pair, params)
    largest = -1 if known is None else int(known.endpoints.max())  # some of these may have left the job
    line_of_endpoint = np.full(
        max(largest, int(traffic.pair_src.max()), int(traffic.pair_dst.max())) + 1, -1, dtype=np.int32
    )
    line_of_endpoint[closing.pair_src] = line_of_endpoint[closing.pair_dst] = line_of_pair
    other = traffic.take((kinds.burst != DP) & (kinds.burst != OTHER))
    background = read_background(sequences, line_of_endpoint, other)
    if (kinds.burst == PP).any():
        sequences = background.follow(sequences)
    sequences = impute(sequences, whole_payload(closing, line_of_pair, params), params)
    before = read_known(sequences, line_of_endpoint, known, params)
    ends = collective_ends(sequences, before, int(traffic.end_ns.max()), params)
    return sequences, with_onset(sequences, ends, background, before, params)


def agree(sequences: Sequences, ends: Bool, params: DivideParams, chain: Int32 | None = None) -> Int64:
    """Find the end of each step of the job on each line, int64[lines, steps].

    Parameters: `ends` bool[n], the bursts with which a line ends a step by itself; `chain` int32[lines], the pipeline
    of each where lines are links of pipelines.

    1. Lines end a step at different moments: take off by how much they differ from one where they end it together or go
       on as far apart as usual, else their usual distance. A line whose records are missing shows none, and the few
       ends that it seems to have count for nothing.
    2. Pool the ends; those close together are one step.
    3. A step counts if half of the lines confirm it, and no line may yet end it after the data.
    4. A line that misses one ends it at its usual distance.
    """
    lines = len(sequences)
    count = np.bincount(sequences.line[ends], minlength=lines)
    ends = ends & (count >= min(params.repeats, params.half * count.max()))[sequences.line]
    line, end = sequences.line[ends], sequences.end_ns[ends]
    if len(end) == 0:
        return np.empty((lines, 0), dtype=np.int64)
    count = np.bincount(line, minlength=lines)
    reference = end[line == int(np.argmax(count))]
    next_ns = _next_begin(sequences, ends)
    mine = next_ns[line == int(np.argmax(count))]
    if chain is None:
        after, apart_ns = _after_nearest((reference, mine), (end, next_ns), line)
    else:
        after, apart_ns = _after_same_step(reference, mine, end), np.full(len(end), np.inf)
    lag = np.nan_to_num(robust.median_by(line, after, lines)).astype(np.int64)
    is_same = apart_ns < params.jitter_share * _step_around(reference, end, params)
    off = np.where(is_same, after, lag[line])
    moment = end - off
    cluster, seen = _clusters(line, moment, next_ns - off, _step_around(reference, moment, params), params)
    pauses = _pauses(cluster, len(seen), (end, next_ns))
    if chain is None:
        due = _due(sequences, ends) - off
        begun = sequences.start_ns[ends]
        at, due_at, begun_at = (robust.median_by(cluster.astype(np.int32), each) for each in (moment, due, begun))
        least_ns = float(_step_around(reference, reference, params).min())
        number = _join_delayed(seen, (at, due_at, begun_at), pauses, least_ns, params)
    else:
        number = _join_before_next(seen, *pauses)
    step = number[cluster]
    steps = int(step.max()) + 1
    result = np.full((lines, steps), np.iinfo(np.int64).min)
    fold_at(np.maximum, result, (line, step), end)
    seen = result > np.iinfo(np.int64).min
    centre = robust.median_by(step.astype(np.int32), moment, steps).astype(np.int64)
    expected = centre[None, :] + lag[:, None]
    step_ns = _step_around(reference, centre, params)
    # What lines that begin later had ended before the data does not show.
    is_begun = sequences.start_ns[sequences.offsets[:-1]][:, None] <= centre[None, :]
    voting = (count > 0)[:, None] & (is_begun | ~is_begun.any(axis=0))
    last_ns = sequences.end_ns[sequences.offsets[1:] - 1][:, None]
    # A line whose last burst ends when its step usually does has ended it, whatever records of it are lost. That counts
    # half as much as a whole step.
    arrived = ~seen & (np.abs(last_ns - expected) < params.jitter_share * step_ns)
    silent = voting & ~seen & ~arrived & (result.max(axis=1)[:, None] < centre[None, :])
    if chain is not None:
        silent &= ~_overtaken(silent, seen, lag, chain, params)
    pending = _pending(silent, seen & (last_ns > result), last_ns, expected, step_ns, params)
    votes = seen.sum(axis=0) + (voting & arrived).sum(axis=0) / 2
    confirmed = (votes >= params.half * np.count_nonzero(voting, axis=0)) & ~pending
    return np.where(seen, result, np.where(arrived, last_ns, expected))[:, confirmed]


def _overtaken(silent: Bool, seen: Bool, lag: Int64, chain: Int32, params: DivideParams) -> Bool:
    """Mask the ends of steps that only lost records hide, bool[lines, steps].

    Parameters: `silent`, `seen` bool[lines, steps], lines without and with an end of the step; `lag` int64[lines]. A
    gradient passes a pipeline link by link: where most later ones have ended a step, it has passed this one.
    """
    overtaken = np.zeros_like(silent)
    for line in np.flatnonzero(silent.any(axis=1)):
        later = seen[(chain == chain[line]) & (lag > lag[line])]
        if len(later):
            overtaken[line] = later.mean(axis=0) > params.half
    return overtaken


def _pending(
    silent: Bool, went_on: Bool, last_ns: Int64, expected: Int64, step_ns: Float64, params: DivideParams
) -> Bool:
    """Mask the steps at the data's end that some lines are still to end, bool[steps].

    Parameters: `went_on` bool[lines, steps], lines that have sent on since they ended it; `last_ns` int64[lines, 1],
    when each sent last. While none has, all wait for those that have not ended it, however long that takes.
    """
    data_end_ns = int(last_ns.max())
    waits = ~went_on.any(axis=0)
    near = waits | (data_end_ns < expected.max(axis=0) + step_ns)
    unreached = (silent & (expected > data_end_ns + params.jitter_share * step_ns)).any(axis=0)
    missing = silent.sum(axis=0)
    # Where others go on, one line of many has lost a record; several, or half of few, are being waited for.
    delayed = waits | (missing > 1) | (2 * missing >= len(silent))
    return np.asarray(near & (missing > 0) & (unreached | delayed))


def _after_nearest(reference: tuple[Int64, Int64], other: tuple[Int64, Int64], line: Int32) -> tuple[Int64, Float64]:
    """Return how long after the reference's end of the step each end is, in ns.

    Returns as well by how much both miss ending together or going on as far apart as usual. Parameters: when the
    reference and other lines end each step, and when they go on, int64[n] each; `line` int32[n], of the others.
    Communicators end a step together, or go on as always where a slow one has kept the others waiting.
    """
    (ends, goes_on), (end, next_ns) = reference, other
    after = np.clip(np.searchsorted(ends, end), 1, max(len(ends) - 1, 1))
    before, after = np.maximum(after - 1, 0), np.minimum(after, len(ends) - 1)

    def pause_ns(step: Int64) -> Float64:
        known = (next_ns < _NEVER_NS) & (goes_on[step] < _NEVER_NS)
        return np.where(known, next_ns.astype(np.float64) - goes_on[step], np.nan)

    def apart(step: Int64) -> Float64:
        return np.asarray(np.fmin(np.abs(end - ends[step]), np.abs(pause_ns(step))))

    step = np.where(apart(before) <= apart(after), before, after)
    paused_ns = pause_ns(step)
    usual_ns = robust.median_by(line, paused_ns, int(line.max()) + 1)[line]
    return end - ends[step], np.fmin(apart(step), np.abs(paused_ns - usual_ns))


def _next_begin(sequences: Sequences, ends: Bool) -> Int64:
    """Return when a line goes on after each end, int64[ends]. It is `_NEVER_NS` where that is not seen."""
    rows = np.flatnonzero(ends)
    begin_ns = np.append(sequences.start_ns[1:], _NEVER_NS)[rows]
    return np.where(np.isinf(sequences.gap_s[rows]), _NEVER_NS, begin_ns)


def _after_same_step(reference: Int64, next_ns: Int64, end: Int64) -> Int64:
    """Return how long after the reference's end of the step each end is, in ns.

    Parameters: `next_ns`, when the reference begins the step after each of its ends. No pipeline ends a step later than
    any begins the next one; a straggler may end it by more than half a step later than the others.
    """
    return end - reference[np.minimum(np.searchsorted(next_ns, end), len(reference) - 1)]


def _due(sequences: Sequences, ends: Bool) -> Int64:
    """Return when bursts that end steps would end if they lasted as usual, int64[ends]."""
    line, start, end = sequences.line[ends], sequences.start_ns[ends], sequences.end_ns[ends]
    usual_ns = np.nan_to_num(robust.quantile_by(line, (end - start).astype(np.float64), 0.25, len(sequences)))
    return np.minimum(end, start + usual_ns[line].astype(np.int64))


def _step_around(reference: Int64, moment: Int64 | Float64, params: DivideParams) -> Float64:
    """Return how long steps take around some moments, float64[n].

    Parameters: `reference` int64[k], rising, ends of steps. Quick steps are steps, too, where most are slow: it is the
    lower quartile of those around.
    """
    if len(reference) < 2:
        return np.full(np.shape(moment), float(_NEVER_NS))
    side = params.repeats
    lasts = np.pad(np.diff(reference).astype(np.float64), side, constant_values=np.nan)
    around = robust.quantile_of_rows(np.lib.stride_tricks.sliding_window_view(lasts, 2 * side + 1), 0.25)
    return np.asarray(around[np.clip(np.searchsorted(reference, moment) - 1, 0, len(around) - 1)])


def _pauses(cluster: Int64, count: int, pause: tuple[Int64, Int64]) -> tuple[Int64, Int64]:
    """Return when each cluster ends last and goes on first, int64[clusters] each."""
    last_ns, begin_ns = np.full(count, np.iinfo(np.int64).min), np.full(count, _NEVER_NS)
    np.maximum.at(last_ns, cluster, pause[0])
    np.minimum.at(begin_ns, cluster, pause[1])
    return last_ns, begin_ns


def _clusters(line: Int32, moment: Int64, next_ns: Int64, step_ns: Float64, params: DivideParams) -> tuple[Int64, Bool]:
    """Pool moments that lie close together, unless one line goes on before another ends.

    Parameters: `next_ns` int64[n], when the line of each goes on; `step_ns` float64[n], how long steps take around
    each. Near is a share of that; of quick steps, once some line has gone on.
    Returns the cluster of each, int64[n], rising with time, and which lines have one in it, bool[clusters, lines].
    """
    order = np.argsort(moment, kind="stable")
    after_ns = np.diff(moment[order])
    apart, notable = (
        np.concatenate([[True], after_ns > params.same_boundary * length_ns])
        for length_ns in (step_ns[order[1:]], step_ns.min())
    )
    part = np.cumsum(notable) - 1
    goes_on_ns = np.full(int(part[-1]) + 1, _NEVER_NS)
    np.minimum.at(goes_on_ns, part, next_ns[order])
    opens = apart | (notable & (goes_on_ns[part - 1] <= moment[order]))
    cluster = np.empty(len(order), dtype=np.int64)
    cluster[order] = np.cumsum(opens) - 1
    seen = np.zeros((int(cluster.max()) + 1, int(line.max()) + 1), dtype=bool)
    seen[cluster, line] = True
    return cluster, seen


def _join_before_next(seen: Bool, last_ns: Int64, begin_ns: Int64) -> Int64:
    """Return the step that each cluster of ends of pipelines belongs to, int64[clusters], rising.

    Parameters: `seen` bool[clusters, lines], which lines end a step in a cluster; `last_ns`, the last of these ends,
    and `begin_ns`, the first that begins a next step. A straggler's pipeline ends a step long after the others, which
    do not begin another before.
    """
    number = np.arange(len(seen))
    first = 0
    for later in range(1, len(seen)):
        in_common = (seen[first:later].any(axis=0) & seen[later]).any()
        if not in_common and last_ns[later] <= begin_ns[first:later].min():
            number[later:] -= 1
        else:
            first = later
    return number


def _join_delayed(
    seen: Bool,
    moments: tuple[Float64, Float64, Float64],
    pauses: tuple[Int64, Int64],
    least_ns: float,
    params: DivideParams,
) -> Int64:
    """Return the step that each cluster of ends belongs to, int64[clusters], rising.

    Parameters: `seen` bool[clusters, lines], which lines end a step in a cluster; `moments`, its time, when it would be
    if no burst lasted longer than usual, and when the bursts begin; `pauses`, see `_pauses`; `least_ns`, how long quick
    steps take.

    A slow GPU delays its own stage, and a slow network makes its bursts last: neighbours without a common line are one
    step if the later comes, or is due, well before those lines end again, or if most wait for a few before any goes on.
    They are not if the later begins when the earlier goes on.
    """
    centre, due, begun = moments
    last_ns, begin_ns = pauses
    number = np.arange(len(seen))
    in_common = (seen[1:] & seen[:-1]).any(axis=1)
    for later in np.flatnonzero(~in_common) + 1:
        first = int(np.searchsorted(number, number[later - 1]))
        earlier = seen[first:later].any(axis=0)
        again = np.flatnonzero((seen[later:] & earlier).any(axis=1))
        until = centre[later + again[0]] if len(again) else centre[first] + least_ns
        lines = np.count_nonzero(earlier), np.count_nonzero(seen[later])
        # Lost records make single lines miss a step, so that two of them take turns, a step apart; never several.
        apart_ns = until - centre[first] if min(lines) > 1 else min(until - centre[first], least_ns)
        most_wait = lines[0] > 1 and lines[0] >= lines[1]
        next_ns = begin_ns[first:later].min()
        # Those that had gone on would have ended another step by then.
        is_seen = next_ns < _NEVER_NS or centre[later] - centre[first] > params.one_step * least_ns
        waited = most_wait and is_seen and last_ns[later] <= next_ns
        delayed = min(centre[later], due[later]) - centre[first] < params.delay_share * apart_ns
        if (waited or delayed) and begun[later] < next_ns - params.jitter_share * least_ns:
            number[later:] -= 1
    return number


def _whole(sequences: Sequences, ends: Int64, params: DivideParams) -> Bool:
    """Mask whole steps; the first is one if it carries as much as the second."""
    lines, steps = ends.shape
    whole = np.ones(steps, dtype=bool)
    if steps == 1:
        return ~whole
    carried = np.zeros((lines, 3))
    step = (sequences.end_ns > ends[sequences.line, 0]).astype(np.int64) + (sequences.end_ns > ends[sequences.line, 1])
    fold_at(np.add, carried, (sequences.line, step), sequences.payload)
    whole[0] = np.median(carried[:, 0] / np.maximum(carried[:, 1], 1)) > 1 - 2 * params.size_spread
    return whole


def _end_of_endpoints(traffic: Traffic, line_of_pair: Int32, of_lines: Division, endpoints: Int32) -> Int64:
    """End steps on each endpoint with its last closing burst, or the job's, int64[m, k]."""
    step = of_lines.step_of(line_of_pair[traffic.pair].astype(np.int64), traffic.end_ns)
    inside = step < of_lines.steps
    row = np.full(int(max(endpoints.max(), traffic.pair_src.max(), traffic.pair_dst.max())) + 1, -1)
    row[endpoints] = np.arange(len(endpoints))
    result = np.full((len(endpoints), of_lines.steps), np.iinfo(np.int64).min)
    for end in (traffic.src, traffic.dst):
        fold_at(np.maximum, result, (row[end[inside]], step[inside]), traffic.end_ns[inside])
    missing = result == np.iinfo(np.int64).min
    return np.where(missing, of_lines.job_end_ns()[None, :], result)
