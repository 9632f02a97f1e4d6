"""Telemetry: exporters that join the records of a job over many steps, and the timeout that would tell them apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from prism_ch.analysis.diagnose.findings import Extent, Measured, identity, make_finding
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
#: The idle timeout that tells messages inside a step apart: at 5 ms exporters resolve 99 to 100 % of gaps.
MESSAGE_TIMEOUT_S = 0.005


@dataclass(frozen=True, slots=True)
class StepsTold:
    """What is known of a job's steps in spite of merged records: how many, from which exporters' records.

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
    told: StepsTold,
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
    for exporter in np.unique(flows.exporter[merged]).tolist():
        mine = flows.take(merged & (flows.exporter == exporter))
        before = going.pop(flows.exporters[exporter], None)
        found.append(_describe(job_id, mine, exporter, told, timeouts, before, window, params))
    seen = {flows.exporters[number] for number in np.unique(flows.exporter[flows.end_ns >= window.start_ns]).tolist()}
    over = (replace(finding, status="closed") if finding.subject in seen else finding for finding in going.values())
    return (*found, *over)


def steps_told(flows: FlowBatch, merged: Bool, closing: Traffic, steps: int) -> StepsTold:
    """Say what is known of a job's steps in spite of merged records.

    Parameters: as of `find_merged_records`; `closing`, the traffic that closes its steps; `steps`, how many.
    """
    exporter = np.zeros(len(flows.exporters), dtype=bool)
    if steps == 0 or len(closing) == 0:
        return StepsTold(steps, exporter, np.nan)
    span = 1 + int(max(flows.src.max(), flows.dst.max(), closing.pair_src.max(), closing.pair_dst.max()))
    closes = np.isin(
        flows.src.astype(np.int64) * span + flows.dst, closing.pair_src.astype(np.int64) * span + closing.pair_dst
    )
    exporter[flows.exporter[closes & ~merged]] = True
    return StepsTold(steps, exporter, _shortest_silence_s(closing, steps))


def _shortest_silence_s(closing: Traffic, steps: int) -> float:
    """Return the shortest silence that has to show for every step to show, NaN where there is none.

    Of as many silences of a pair as there are steps, the longest ones, the shortest; the median over pairs, so that a
    few lost or strayed records don't matter.
    """
    same = np.diff(closing.pair) == 0
    pair, silence_s = closing.pair[1:][same], (closing.start_ns[1:] - closing.end_ns[:-1])[same] / 1e9
    order = np.lexsort((-silence_s, pair))
    first = np.searchsorted(pair[order], np.arange(len(closing.pair_src)))
    last = np.searchsorted(pair[order], np.arange(len(closing.pair_src)), side="right") - 1
    place = np.minimum(first + steps - 2, last)  # so many steps have one silence fewer between them
    shown = (last >= first) & (place >= first)
    return float(np.median(silence_s[order][place[shown]])) if shown.any() else np.nan


def _describe(
    job_id: str,
    mine: FlowBatch,
    exporter: int,
    told: StepsTold,
    timeouts: Timeouts,
    before: Finding | None,
    window: Window,
    params: MergedParams,
) -> Finding:
    """Put what one exporter merges of a job into words and numbers."""
    name = mine.exporters[exporter]
    length_s = (mine.end_ns - mine.start_ns) / 1e9
    usual_s = float(np.median(length_s))
    first_ns = int(mine.start_ns.min()) if told.steps == 0 else window.start_ns
    start_ns = first_ns if before is None else before.start_ns
    remedy = _remedy(told, exporter, params)
    return make_finding(
        "telemetry",
        ("exporter", name),
        identity(job_id, "telemetry", name, start_ns) if before is None else before.diagnosis_id,
        Extent(0, max(told.steps - 1, 0), start_ns, int(mine.end_ns.max())),
        Measured(usual_s, remedy.timeout_s),
        "warning",
        f"Exporter {name or 'without a name'} joins what this job sends into records of {usual_s:.3g} s: its idle "
        f"timeout, {_inferred(timeouts, exporter)}, is longer than {remedy.hides}; set it to "
        f"{remedy.timeout_s:.3g} s or less.",
        {
            "records": len(mine),
            "pairs": len(np.unique(np.stack([mine.src, mine.dst]), axis=1).T),
            "record_s_median": round(usual_s, 6),
            "record_s_longest": round(float(length_s.max()), 6),
            "idle_timeout_s": _known(timeouts.idle_s[exporter]),
            "idle_timeout_at_most_s": _known(timeouts.idle_at_most_s[exporter]),
            "active_timeout_s": _known(timeouts.active_s[exporter]),
            "silence_between_steps_s": _known(told.silence_s),
            "steps_told": told.steps,
            "timeout_that_would_do_s": remedy.timeout_s,
            "because": remedy.because,
        },
    )


@dataclass(frozen=True, slots=True)
class _Remedy:
    """The idle timeout that would do, which pauses the present one hides, and why that timeout."""

    timeout_s: float
    hides: str
    because: str


def _remedy(told: StepsTold, exporter: int, params: MergedParams) -> _Remedy:
    """Choose the idle timeout that would do for an exporter."""
    if told.exporter[exporter]:
        return _Remedy(
            MESSAGE_TIMEOUT_S,
            "the pauses inside a step, so its other records show when a step ends, but these not what happens in it",
            "idle timeouts of 5 ms were seen to tell nearly all messages of a step apart",
        )
    if np.isnan(told.silence_s):
        return _Remedy(
            STEP_TIMEOUT_S,
            "the pauses between steps, so no step can be told",
            "gradients pause for at least a tenth of a step, and steps of large jobs take a second or more",
        )
    return _Remedy(
        float(f"{params.half * told.silence_s:.2g}"),
        f"the pauses of {told.silence_s:.2g} s between steps that other exporters show",
        "it is half of the pause between steps that other exporters show",
    )


def _inferred(timeouts: Timeouts, exporter: int) -> str:
    """Say what is known of an exporter's idle timeout."""
    if not np.isnan(timeouts.idle_s[exporter]):
        return f"about {timeouts.idle_s[exporter]:.2g} s"
    if not np.isnan(timeouts.idle_at_most_s[exporter]):
        return f"at most {timeouts.idle_at_most_s[exporter]:.2g} s"
    return "which its records do not show"


def _known(value: float) -> float | None:
    """Return a number for JSON, null where it is not known."""
    return None if np.isnan(value) else round(float(value), 6)
