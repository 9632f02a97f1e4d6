"""The tables of faults: by kind with what is promised, by magnitude, and the false alarms of healthy runs."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from scipy import special

from bench.accuracy.faults.cases import Case
from bench.accuracy.faults.healthy import Alarms, Run
from bench.accuracy.faults.outcome import FaultOutcome
from bench.accuracy.layout import NOTHING, share
from bench.accuracy.report import Cells, Table
from bench.accuracy.rows import ALL, CLEAN

Worked = tuple[Case, FaultOutcome]

#: A fault that lengthens a step, or the flows of a step, by a smaller share than this is shown and not judged: its
#: effect is within random variation.
_LEAST_EFFECT = 0.01

#: Bound on the false alarms in 1,000 GPU-hours of healthy training.
_MOST_ALARMS = 1.0


@dataclass(frozen=True, slots=True)
class Promise:
    """Bounds on the faults of a kind from a magnitude on; None is no bound.

    The delay must be within `steps` or within `seconds`.
    """

    what: str
    covers: Callable[[Worked], bool]
    precision: float
    recall: float
    named: float | None
    steps: int | None
    seconds: float | None


def _covers(
    kind: str, enough: Callable[[float, float], bool] = lambda _magnitude, _effect: True
) -> Callable[[Worked], bool]:
    """Cover the faults of a kind that are large enough: by magnitude and by effect."""

    def covers(worked: Worked) -> bool:
        case, outcome = worked
        return case.kind == kind and outcome.effect >= _LEAST_EFFECT and enough(case.magnitude, outcome.effect)

    return covers


PROMISES = (
    Promise("slow GPU, 15 % or more", _covers("slow_gpu", lambda m, _: m >= 1.15), 0.99, 0.98, 0.96, 2, 15.0),
    Promise("slow NIC, at most 60 % left", _covers("slow_nic", lambda m, _: m <= 0.6), 0.99, 0.98, 0.96, 2, 15.0),
    Promise("slow link, at most 60 % left", _covers("slow_link", lambda m, _: m <= 0.6), 0.99, 0.98, 0.96, 2, 15.0),
    Promise("slow switch, at most 60 % left", _covers("slow_switch", lambda m, _: m <= 0.6), 0.99, 0.98, 0.96, 2, 15.0),
    Promise("single slow step, 20 % or more", _covers("slow_step", lambda _, e: e >= 0.2), 0.99, 0.95, None, 1, None),
    Promise("drift, 10 % in 10 min or more", _covers("slow_drift", lambda m, _: m >= 1.1), 0.95, 0.95, 0.9, None, None),
    Promise("stall", _covers("stall"), 0.99, 0.98, 0.95, None, 15.0),
    Promise("hang", _covers("hang"), 0.99, 0.98, 0.95, None, 15.0),
    Promise("restart", _covers("restart"), 0.99, 0.98, None, None, 15.0),
)


def kinds_table(worked: Sequence[Worked]) -> Table:
    """Return a row for each promise.

    Faults whose culprit records can't identify are counted apart: see `faults.identifiable`.
    """
    first = ("fault", "n", "precision", "recall", "culprit", "not tellable")
    header = (*first, "delay p95", "", "promised", "holds", "said wrongly")
    return Table(header, [_kind_cells(one, [w for w in worked if one.covers(w)]) for one in PROMISES], prose=True)


def magnitudes_table(worked: Sequence[Worked]) -> Table:
    """Return a row for each kind and magnitude of fault.

    The last two columns count the faults without effect, and those of them that were found.
    """
    first = ("fault", "magnitude", "n", "effect", "recall", "culprit", "not tellable")
    header = (*first, "wrong", "without effect", "found")
    rows: list[Cells] = []
    for (kind, magnitude), group in groupby(worked, key=lambda item: (item[0].kind, item[0].magnitude)):
        outcomes = [outcome for _, outcome in group]
        felt = [outcome for outcome in outcomes if outcome.effect >= _LEAST_EFFECT]
        unfelt = [outcome for outcome in outcomes if outcome.effect < _LEAST_EFFECT]
        effects = sorted(outcome.effect for outcome in felt)
        rows.append(
            (
                kind,
                f"{magnitude:g}",
                str(len(felt)),
                f"{effects[len(effects) // 2]:+.1%}" if felt else NOTHING,
                share(_recall(felt)),
                share(_named(felt)),
                str(_count_unidentifiable(felt)),
                str(sum(outcome.wrong for outcome in outcomes)),
                str(len(unfelt)),
                str(sum(outcome.found for outcome in unfelt)),
            )
        )
    return Table(header, rows)


def healthy_table(worked: Sequence[tuple[Run, Alarms]]) -> Table:
    """Return a row for each family: its false alarms, and their rate in 1,000 GPU-hours.

    The column "at most, 95 %" is the upper bound of the rate's confidence interval.
    """
    header = (
        *(
            "healthy runs of",
            "GPU-hours",
            "whole records",
            "all defects",
            "a 1,000 GPU-hours",
            "at most, 95 %",
            "holds",
        ),
        "said",
    )
    by_family: dict[str, list[tuple[Run, Alarms]]] = {}
    for item in worked:
        by_family.setdefault(item[0].family, []).append(item)
    rows = [_healthy_cells(family, items) for family, items in by_family.items()]
    return Table(header, [*rows, _healthy_cells("all families", worked)] if rows else [], prose=True)


#: The parameters in `prism_ch.model.params` that set how often a kind of finding is a false alarm.
_THRESHOLDS = {
    "slow_step": "DiagnoseParams.min_score, notable, small_excess",
    "slow_group": "TimePerByteParams.corrected_score, network_excess",
    "slow_gpu": "ComputeTimeParams.corrected_score, small_excess, slow_steps",
    "slow_nic": "TimePerByteParams.corrected_score, network_excess, slow_steps",
    "slow_link": "TimePerByteParams.corrected_score, network_excess, slow_steps",
    "slow_switch": "TimePerByteParams.corrected_score, network_excess, slow_steps",
    "congestion": "TimePerByteParams.corrected_score, network_excess, slow_steps",
    "stall": "StopParams.half, min_excess_rests, max_loss_probability, long_pause_steps, silence_s",
    "hang": "StopParams.silence_s, idle_hang_s, saving_hang_s",
    "restart": "StopParams.half; RecogniseParams.absence_silences, repeats",
}


def thresholds_table(worked: Sequence[tuple[Run, Alarms]]) -> Table:
    """Return a row for each kind of finding: its false alarms and their thresholds."""
    header = ("finding", "false alarms", "a 1,000 GPU-hours", "at most, 95 %", "thresholds")
    hours = sum(alarms.gpu_hours for _, alarms in worked)
    counts = Counter(text.split()[0] for _, alarms in worked for text in alarms.findings)
    return Table(
        header,
        [
            (
                kind,
                str(counts[kind]),
                f"{counts[kind] / hours * 1000:.3g}",
                f"{most_alarms(counts[kind]) / hours * 1000:.3g}",
                _THRESHOLDS.get(kind, NOTHING),
            )
            for kind in (*_THRESHOLDS, *sorted(counts.keys() - _THRESHOLDS.keys()))
        ]
        if hours
        else [],
        prose=True,
    )


def _kind_cells(promise: Promise, worked: Sequence[Worked]) -> Cells:
    outcomes = [outcome for _, outcome in worked]
    precision, recall, named = _precision(outcomes), _recall(outcomes), _named(outcomes)
    steps, seconds = _p95([o.delay_steps for o in outcomes if o.found]), _p95([o.delay_s for o in outcomes if o.found])
    parts = [f"{limit * 100:g}%" if limit else NOTHING for limit in (promise.precision, promise.recall, promise.named)]
    limits = ((promise.steps, "steps"), (promise.seconds, "s"))
    within = [f"{limit:g} {unit}" for limit, unit in limits if limit is not None]
    kept = [
        value >= limit
        for value, limit in ((precision, promise.precision), (recall, promise.recall), (named, promise.named))
        if value is not None and limit is not None
    ]
    if within and steps is not None and seconds is not None:
        in_steps, in_seconds = promise.steps is not None and steps <= promise.steps, seconds <= (promise.seconds or -1)
        kept.append(in_steps or in_seconds)
    return (
        promise.what,
        str(len(outcomes)),
        share(precision),
        share(recall),
        share(named),
        str(_count_unidentifiable(outcomes)),
        NOTHING if steps is None else f"{steps:g} steps",
        NOTHING if seconds is None else f"{seconds:g} s",
        " / ".join([*parts, " or ".join(within) or NOTHING]),
        ("yes" if all(kept) else "no") if kept else NOTHING,
        _counted(kind for outcome in outcomes for kind in outcome.wrongly),
    )


def _healthy_cells(family: str, worked: Sequence[tuple[Run, Alarms]]) -> Cells:
    hours = sum(alarms.gpu_hours for _, alarms in worked)
    by_condition = {
        condition: sum(len(alarms.findings) for run, alarms in worked if run.condition == condition)
        for condition in (CLEAN, ALL)
    }
    alarms = sum(by_condition.values())
    rate = alarms / hours * 1000 if hours else float("inf")
    most = most_alarms(alarms) / hours * 1000 if hours else float("inf")
    return (
        family,
        f"{hours:.1f}",
        *(str(count) for count in by_condition.values()),
        f"{rate:.3g}",
        f"{most:.3g}",
        "yes" if rate <= _MOST_ALARMS else "no",
        _counted(kind for _, alarms in worked for kind in alarms.findings),
    )


def most_alarms(alarms: int, confidence: float = 0.95) -> float:
    """Return the upper confidence bound of a Poisson mean after some alarms.

    Source: Garwood, "Fiducial Limits for the Poisson Distribution", Biometrika 28, 1936.
    """
    return float(special.gammaincinv(alarms + 1, confidence))


def _counted(texts: Iterable[str]) -> str:
    """Write how often each kind of finding occurs, the most frequent first."""
    count = Counter(text.split()[0] for text in texts)
    return ", ".join(f"{times} {kind}" for kind, times in count.most_common())


def _precision(outcomes: Sequence[FaultOutcome]) -> float | None:
    right, wrong = sum(o.right for o in outcomes), sum(o.wrong for o in outcomes)
    return right / (right + wrong) if right + wrong else None


def _recall(outcomes: Sequence[FaultOutcome]) -> float | None:
    return sum(o.found for o in outcomes) / len(outcomes) if outcomes else None


def _named(outcomes: Sequence[FaultOutcome]) -> float | None:
    """Return the share of right culprits among the faults with a judged one."""
    named = [o.named for o in outcomes if o.named is not None]
    return sum(named) / len(named) if named else None


def _count_unidentifiable(outcomes: Sequence[FaultOutcome]) -> int:
    """Count the found faults whose culprit is not identifiable, nor another localised."""
    return sum(outcome.found and outcome.named is None and not outcome.identifiable for outcome in outcomes)


def _p95(values: Sequence[float]) -> float | None:
    """Return the value that 95 % do not exceed; None without values."""
    return sorted(values)[math.ceil(0.95 * len(values)) - 1] if values else None
