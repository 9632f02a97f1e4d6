"""Telemetry: exporters that join the records of a job over many steps, and the timeout that would part them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from prism_ch.analysis.diagnose.findings import Extent, Measured, identity, make_finding
from prism_ch.core.arrays import distinct
from prism_ch.core.pairs import PairIndex
from prism_ch.model.columns import Bool
from prism_ch.model.exporter import Timeouts
from prism_ch.model.finding import Finding
from prism_ch.model.flow import FlowBatch
from prism_ch.model.params import MergedParams
from prism_ch.model.traffic import Traffic
from prism_ch.model.window import Window

#: The idle timeout to set where nothing shows how long steps pause: gradients pause for 15 % of a step at the least,
#: and published steps of large jobs take 2 to 46 s; a tenth of 1 s.
STEP_TIMEOUT_S = 0.1
#: The idle timeout that parts messages inside a step: at 5 ms exporters resolve 99 to 100 % of gaps.
MESSAGE_TIMEOUT_S = 0.005


@dataclass(frozen=True, slots=True)
class ResolvedSteps:
    """How many steps of a job are resolved, and by which exporters' records.

    `exporter` bool[exporters] are those whose records show steps; `silence_s` is the silence that marks a step on
    pairs that show them, NaN where none does.
    """

    steps: int
    exporter: Bool
    silence_s: float


def find_merged_records(
    job_id: str,
    flows: FlowBatch,
    merged: Bool,
    resolved: ResolvedSteps,
    timeouts: Timeouts,
    known: Sequence[Finding],
    window: Window,
    params: MergedParams,
) -> tuple[Finding, ...]:
    """Find the exporters that join many steps of a job into one record.

    Parameters: `flows`, between members of the job, one observation a flow, and `merged` bool[n], those on pairs whose
    records run on; `timeouts`, of the exporters of `flows`; `known`, the findings of the job that were open before the
    window: one on the same exporter goes on. It is closed when the exporter's records in the window run on no longer,
    and stays as it is while there are none.
    `observed` is the usual length of the records, `expected` the idle timeout that would do, both in seconds.
    """
    going = {finding.subject: finding for finding in known if finding.kind == "telemetry"}
    found: list[Finding] = []
    for exporter in distinct(flows.exporter[merged]).tolist():
        mine = flows.take(merged & (flows.exporter == exporter))
        before = going.pop(flows.exporters[exporter], None)
        first_ns = int(mine.start_ns.min()) if resolved.steps == 0 else window.start_ns
        start_ns = first_ns if before is None else before.start_ns
        name = identity(job_id, "telemetry", flows.exporters[exporter], start_ns)
        extent = Extent(0, max(resolved.steps - 1, 0), start_ns, int(mine.end_ns.max()))
        name = name if before is None else before.diagnosis_id
        found.append(_describe(mine, exporter, name, extent, resolved, timeouts, params))
    seen = {flows.exporters[number] for number in distinct(flows.exporter[flows.end_ns >= window.start_ns]).tolist()}
    over = (replace(finding, status="closed") if finding.subject in seen else finding for finding in going.values())
    return (*found, *over)


def resolve_steps(flows: FlowBatch, merged: Bool, closing: Traffic, steps: int) -> ResolvedSteps:
    """Find which exporters show a job's steps in spite of merged records.

    Parameters: `flows` and `merged`, see `find_merged_records`; `closing`, the traffic that closes the job's `steps`.
    """
    exporter = np.zeros(len(flows.exporters), dtype=bool)
    if steps == 0 or len(closing) == 0:
        return ResolvedSteps(steps, exporter, np.nan)
    closes = PairIndex.of(closing.pair_src, closing.pair_dst).holds(flows.src, flows.dst)
    exporter[flows.exporter[closes & ~merged]] = True
    return ResolvedSteps(steps, exporter, _shortest_silence_s(closing, steps))


def _shortest_silence_s(closing: Traffic, steps: int) -> float:
    """Return the shortest silence that shows every step, NaN if there is none.

    1. A pair that shows n steps has n - 1 silences between them, the longest ones it has.
    2. The shortest of these has to show; the median over pairs is robust against a few lost or strayed records.
    """
    same = np.diff(closing.pair) == 0
    pair, silence_s = closing.pair[1:][same], (closing.start_ns[1:] - closing.end_ns[:-1])[same] / 1e9
    order = np.lexsort((-silence_s, pair))
    first = np.searchsorted(pair[order], np.arange(len(closing.pair_src)))
    last = np.searchsorted(pair[order], np.arange(len(closing.pair_src)), side="right") - 1
    place = np.minimum(first + steps - 2, last)
    shown = (last >= first) & (place >= first)
    return float(np.median(silence_s[order][place[shown]])) if shown.any() else np.nan


def _choose_remedy(resolved: ResolvedSteps, exporter: int, params: MergedParams) -> tuple[float, str, str]:
    """Choose an idle timeout, in seconds. Returns it, the pauses that the present one hides, and why."""
    if resolved.exporter[exporter]:
        return (
            MESSAGE_TIMEOUT_S,
            "the pauses inside a step, so its other records show when a step ends, but these not what happens in it",
            "idle timeouts of 5 ms were seen to tell nearly all messages of a step apart",
        )
    if np.isnan(resolved.silence_s):
        return (
            STEP_TIMEOUT_S,
            "the pauses between steps, so no step can be told",
            "gradients pause for at least a tenth of a step, and steps of large jobs take a second or more",
        )
    return (
        float(f"{params.half * resolved.silence_s:.2g}"),
        f"the pauses of {resolved.silence_s:.2g} s between steps that other exporters show",
        "it is half of the pause between steps that other exporters show",
    )


def _describe(
    mine: FlowBatch,
    exporter: int,
    diagnosis_id: str,
    extent: Extent,
    resolved: ResolvedSteps,
    timeouts: Timeouts,
    params: MergedParams,
) -> Finding:
    name, length_s = mine.exporters[exporter], (mine.end_ns - mine.start_ns) / 1e9
    usual_s = float(np.median(length_s))
    timeout_s, hides, because = _choose_remedy(resolved, exporter, params)
    inferred = "which its records do not show"
    if not np.isnan(timeouts.idle_s[exporter]):
        inferred = f"about {timeouts.idle_s[exporter]:.2g} s"
    elif not np.isnan(timeouts.idle_at_most_s[exporter]):
        inferred = f"at most {timeouts.idle_at_most_s[exporter]:.2g} s"
    return make_finding(
        "telemetry",
        ("exporter", name),
        diagnosis_id,
        extent,
        Measured(usual_s, timeout_s),
        # Where steps show all the same nobody is hidden, and what seems joined may be a transfer that lasts.
        "info" if resolved.exporter[exporter] else "warning",
        f"Exporter {name or 'without a name'} joins what this job sends into records of {usual_s:.3g} s: its idle "
        f"timeout, {inferred}, is longer than {hides}; set it to {timeout_s:.3g} s or less.",
        {
            "records": len(mine),
            "pairs": len(np.unique(np.stack([mine.src, mine.dst]), axis=1).T),
            "record_s_median": round(usual_s, 6),
            "record_s_longest": round(float(length_s.max()), 6),
            "idle_timeout_s": _known(timeouts.idle_s[exporter]),
            "idle_timeout_at_most_s": _known(timeouts.idle_at_most_s[exporter]),
            "active_timeout_s": _known(timeouts.active_s[exporter]),
            "silence_between_steps_s": _known(resolved.silence_s),
            "steps_told": resolved.steps,
            "timeout_that_would_do_s": timeout_s,
            "because": because,
        },
    )


def _known(value: float) -> float | None:
    return None if np.isnan(value) else round(float(value), 6)
