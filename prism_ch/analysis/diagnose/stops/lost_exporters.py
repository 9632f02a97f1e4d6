"""Finds exporters that send nothing while a job that they always saw goes on.

The job's steps go on by what others see of it: what the silent exporter sees is missing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from prism_ch.analysis.diagnose.findings import identity
from prism_ch.analysis.diagnose.stops.silence import QuietJob, UsualRhythm, rested_as_long
from prism_ch.analysis.diagnose.stops.stop_findings import SILENCE, Stop, stop_finding
from prism_ch.core.arrays import distinct
from prism_ch.model.columns import Int64
from prism_ch.model.finding import Baseline, Finding
from prism_ch.model.flow import FlowBatch
from prism_ch.model.job import ALWAYS_NS
from prism_ch.model.params import StopParams
from prism_ch.model.window import Interval


def find_lost_exporters(
    quiet: QuietJob, rhythm: UsualRhythm | None, raw: FlowBatch, since_ns: int, params: StopParams
) -> tuple[Finding, ...]:
    """Find the exporters that send nothing while a job that they always saw goes on.

    Parameters: `raw`, all observations, also those of flows that other exporters saw as well; `since_ns`, when the
    newest window begins.
    """
    if rhythm is None:
        return ()
    long_ns = round(max(params.silence_s, params.twice * rhythm.step_s) * 1e9)
    irregular = _irregular(quiet, long_ns, params)
    new_ns = {name: _ends_of(name, raw, since_ns) for name in irregular}
    return tuple(stop for name in irregular for stop in _gaps_of(name, quiet, new_ns[name], rhythm, long_ns, params))


def _irregular(quiet: QuietJob, long_ns: int, params: StopParams) -> list[str]:
    """Name the exporters that saw the job, and missed steps of it or are silent."""
    step = np.searchsorted(quiet.steps.end_ns, quiet.flows.end_ns)
    reached = np.zeros((len(quiet.flows.exporters), len(quiet.steps) + 1), dtype=bool)
    reached[quiet.flows.exporter, step] = True
    missed = (~reached[:, step.min() : -1]).sum(axis=1)
    last_ns = np.zeros(len(reached), dtype=np.int64)
    np.maximum.at(last_ns, quiet.flows.exporter, quiet.flows.end_ns)
    silent = quiet.flows.end_ns.max() - last_ns > long_ns
    saw = np.flatnonzero(reached.any(axis=1) & ((missed >= params.slow_steps) | silent))
    return [quiet.flows.exporters[code] for code in saw.tolist()]


def _gaps_of(
    name: str, quiet: QuietJob, new_ns: Int64, rhythm: UsualRhythm, long_ns: int, params: StopParams
) -> Iterator[Finding]:
    """Yield a finding for each gap in an exporter's records while the job went on.

    Parameters: `new_ns` int64[n], the ends of those of the newest window.
    """
    step_end_ns = quiet.steps.end_ns[quiet.steps.end_ns > quiet.flows.end_ns.min()]
    ends = distinct(np.concatenate([*(_ends_of(name, batch) for batch in (quiet.flows, quiet.around)), new_ns]))
    end_ns = np.append(ends, quiet.flows.end_ns.max() + 1)
    for gap in np.flatnonzero(np.diff(end_ns) > long_ns).tolist():
        span = Interval(int(end_ns[gap]), int(end_ns[gap + 1]))
        before = step_end_ns[step_end_ns <= span.start_ns][-params.enough - 1 :]
        reached = np.diff(np.searchsorted(ends[: gap + 1], before, side="right")) > 0
        if len(reached) < params.enough or not reached.all():
            continue
        # A job that has become slow rests as long in each step where others still move what is slow.
        rests_ns = np.sort(np.diff(ends[: gap + 1][ends[: gap + 1] > before[0]]))
        if rested_as_long(rests_ns[-params.slow_steps :], span.length_ns, params):
            continue
        # Steps last longer where a part of each is hidden: of two step ends in a gap, a whole step was not seen.
        ended = int(np.diff(np.searchsorted(step_end_ns, [span.start_ns + 1, span.end_ns]))[0])
        if ended >= params.slow_steps or _steps_moved(quiet, span, before) >= params.slow_steps:
            step = int(quiet.steps.step[np.searchsorted(quiet.steps.end_ns[:-1], span.start_ns)])
            stop = Stop(quiet.job_id, step, span.start_ns, span.end_ns, rhythm.rest_s, 0.0, 0.0)
            yield _describe_gap(name, stop, is_open=gap == len(ends) - 1)


def _steps_moved(quiet: QuietJob, span: Interval, step_end_ns: Int64) -> float:
    """Return how many steps' bytes a job moved in a span.

    Pairs count that are seen in it. That shows before the ends of steps do; if a rank stands still, the others come to
    the end of one step at most. `step_end_ns` int64[k], rising, parts the steps that show what they usually move.
    """
    end_ns, pair = quiet.flows.end_ns, quiet.pair
    during = (end_ns > span.start_ns) & (end_ns < span.end_ns)
    seen = np.zeros(len(quiet.pairs.src), dtype=np.bool_)
    seen[pair[during]] = True
    usual = (end_ns > step_end_ns[0]) & (end_ns <= step_end_ns[-1]) & seen[pair]
    a_step = float(quiet.flows.bytes[usual].sum()) / (len(step_end_ns) - 1)
    return float(quiet.flows.bytes[during].sum()) / a_step if a_step else 0.0


def _ends_of(exporter: str, flows: FlowBatch, since_ns: int = ALWAYS_NS) -> Int64:
    code = flows.exporters.index(exporter) if exporter in flows.exporters else -1
    return np.asarray(flows.end_ns[(flows.exporter == code) & (flows.end_ns >= since_ns)])


def _describe_gap(exporter: str, stop: Stop, *, is_open: bool) -> Finding:
    sent = f"{exporter or 'without a name'} {'sends' if is_open else 'sent'} nothing for {stop.length_s:.3g} s"
    finding = stop_finding(
        "telemetry",
        stop,
        "warning",
        f"Exporter {sent} since step {stop.step}, while others saw this job go on: what it sees is missing; look at "
        "the exporter, its switch and the way to the collector.",
        {"because": SILENCE, "exporters": [exporter]},
        ("exporter", exporter),
        is_open=is_open,
    )
    name = identity(stop.job_id, "telemetry", exporter, stop.start_ns)
    return replace(finding, diagnosis_id=name, baseline=Baseline(records_missing=True, exporters=(exporter,)))
