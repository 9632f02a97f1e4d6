"""The measures of what users see, each with its bound: how right alarms are, and beside them findings of any grade."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy import special

from bench.accuracy.faults.cases import Case
from bench.accuracy.faults.healthy import Heard, Run
from bench.accuracy.faults.outcome import STOPS, FaultOutcome, Graded
from bench.accuracy.faults.phases import PhaseError
from bench.accuracy.faults.topologies import Mistakes
from bench.accuracy.layout import NOTHING, fault, share
from bench.accuracy.report import Cells, Table

Worked = tuple[Case, FaultOutcome]
#: Picks alarms or findings of an outcome.
Pick = Callable[[FaultOutcome], Graded]

_BINS = 10


@dataclass(frozen=True, slots=True)
class Measure:
    """A number with its bound: at least or at most `limit`; None is shown and not judged.

    `over` counts what it is measured over; `beside` is the same of findings, `more` what else there is to it; `write`
    writes the numbers.
    """

    what: str
    limit: float | None
    value: float | None
    beside: float | None
    over: int
    at_least: bool = True
    write: Callable[[float | None], str] = share
    more: str = ""

    def cells(self) -> Cells:
        """Return the measure's row of the table."""
        sign = ">=" if self.at_least else "<="
        bound = NOTHING if self.limit is None else f"{sign} {self.write(self.limit)}"
        held = None if self.limit is None or self.value is None else self._keeps(self.value, self.limit)
        holds = {True: "yes", False: "no", None: NOTHING}[held]
        beside = self.more if self.beside is None else self.write(self.beside)
        return self.what, bound, self.write(self.value), holds, str(self.over), beside

    def _keeps(self, value: float, limit: float) -> bool:
        return value >= limit if self.at_least else value <= limit


#: GPU-hours of healthy training that the rates of false alarms need.
_GPU_HOURS = 30_000.0

HEADER = ("what", "bound", "alarms", "holds", "of", "any grade")


def measures_table(
    worked: Sequence[Worked],
    heard: Sequence[tuple[Run, Heard]],
    stored: Sequence[tuple[float, float]] = (),
    mistakes: Mistakes | None = None,
) -> Table:
    """Return a row for each measure: over faults, healthy runs and mistakes in topologies.

    `stored` are true lost GPU-seconds of jobs, and those of the view losses.
    """
    measures: list[Measure] = []
    if worked:
        measures += [*_found(worked), *_culprits(worked), *_floods(worked), *_stops(worked)]
    if heard:
        measures += _false(heard)
    if worked:
        measures += [*_phases(worked), *_losses(worked, stored), *_sure(worked)]
    if mistakes is not None:
        measures += _mistakes(mistakes)
    return Table(HEADER, [one.cells() for one in measures])


def _both(of: Callable[[Pick], float | None]) -> tuple[float | None, float | None]:
    """Measure among alarms, and among findings of any grade."""
    return of(lambda one: one.alarms), of(lambda one: one.findings)


def _ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _found(worked: Sequence[Worked]) -> list[Measure]:
    outcomes = [outcome for _, outcome in worked]
    costly = [one for one in outcomes if one.is_costly]

    def precision(pick: Pick) -> float | None:
        right, wrong = sum(pick(one).right for one in outcomes), sum(pick(one).wrong for one in outcomes)
        return _ratio(right, right + wrong)

    def recall(pick: Pick) -> float | None:
        return _ratio(sum(pick(one).found for one in costly), len(costly))

    def lasting(pick: Pick) -> float | None:
        mine = [one for one in costly if one.lasts]
        return _ratio(sum(pick(one).found for one in mine), len(mine))

    said = sum(one.alarms.right + one.alarms.wrong for one in outcomes)
    return [
        Measure("alarms: precision", 0.99, *_both(precision), said),
        Measure("recall of faults that cost 5 % or 10 GPU-minutes", 0.97, *_both(recall), len(costly)),
        Measure("the same without single slow steps", None, *_both(lasting), sum(one.lasts for one in costly)),
    ]


def _culprits(worked: Sequence[Worked]) -> list[Measure]:
    placed = [one for case, one in worked if one.placed and one.is_costly]
    single = [one for one in placed if one.alike == 1]

    def part(of: Callable[[Graded], bool], among: Sequence[FaultOutcome]) -> tuple[float | None, float | None]:
        return _both(lambda pick: _ratio(sum(of(pick(one)) for one in among), len(among)))

    healthy = [one for case, one in worked if case.kind in ("slow_spine", "slow_uplink")]
    accused = _both(lambda pick: float(sum(pick(one).accuses_healthy for one in healthy)) if healthy else None)
    return [
        Measure(
            "the subject is the culprit, or one that records can't tell from it",
            0.85,
            *part(_subject, placed),
            len(placed),
        ),
        Measure("with may_also_be it is all of those, no more", 0.95, *part(_exact, placed), len(placed)),
        Measure("the subject is the culprit, where records single it out", None, *part(_itself, single), len(single)),
        Measure("the kind is the most exact one", None, *part(_kind, placed), len(placed)),
        Measure(
            "healthy leaf or NIC accused for a slow spine or uplink",
            0,
            *accused,
            len(healthy),
            at_least=False,
            write=_number,
        ),
    ]


def _subject(one: Graded) -> bool:
    return one.subject


def _exact(one: Graded) -> bool:
    return one.exact


def _itself(one: Graded) -> bool:
    return one.itself


def _kind(one: Graded) -> bool:
    return one.kind


def _floods(worked: Sequence[Worked]) -> list[Measure]:
    outcomes = [outcome for _, outcome in worked]

    def counts(pick: Pick) -> list[float]:
        return [float(pick(one).alarms) for one in outcomes if pick(one).alarms]

    contradictions = _both(lambda pick: float(sum(pick(one).contradictions for one in outcomes)))
    alarmed = len(counts(lambda one: one.alarms))
    return [
        Measure(
            "alarms a fault that raises any: median",
            1,
            *_both(lambda p: _quantile(counts(p), 0.5)),
            alarmed,
            at_least=False,
            write=_number,
        ),
        Measure(
            "alarms a fault that raises any: p95",
            2,
            *_both(lambda p: _quantile(counts(p), 0.95)),
            alarmed,
            at_least=False,
            write=_number,
        ),
        Measure(
            "alarms that are withdrawn or graded down later",
            None,
            *_both(lambda p: float(sum(p(one).withdrawn for one in outcomes))),
            len(outcomes),
            write=_number,
        ),
        Measure("contradictions on one job and time", 0, *contradictions, len(outcomes), at_least=False, write=_number),
    ]


def _stops(worked: Sequence[Worked]) -> list[Measure]:
    found = []
    for kind in STOPS:
        mine = [one for case, one in worked if case.kind == kind and one.is_costly]
        right, late = _both(partial(_right_kind, mine)), _both(partial(_late, mine))
        found.append(Measure(f"{kind}: right kind", 0.95, *right, len(mine)))
        found.append(Measure(f"{kind}: delay, p95", 15, *late, len(mine), at_least=False, write=_seconds))
    return found


def _right_kind(outcomes: Sequence[FaultOutcome], pick: Pick) -> float | None:
    return _ratio(sum(pick(one).found and pick(one).kind for one in outcomes), len(outcomes))


def _late(outcomes: Sequence[FaultOutcome], pick: Pick) -> float | None:
    delays = (pick(one).delay_s for one in outcomes)
    return _quantile([delay_s for delay_s in delays if delay_s is not None], 0.95)


def _losses(worked: Sequence[Worked], stored: Sequence[tuple[float, float]]) -> list[Measure]:
    errors = [abs(told - lost) / lost for _, one in worked for lost, told in one.losses]
    by_view = [abs(told - lost) / lost for lost, told in stored]
    what = "lost GPU-hours of a job against the same seed without the fault, error"
    at_most = partial(Measure, beside=None, at_least=False, write=fault)
    return [
        at_most(f"{what}: median", 0.02, _quantile(errors, 0.5), over=len(errors)),
        at_most(f"{what}: p95", 0.10, _quantile(errors, 0.95), over=len(errors)),
        at_most("the same by the view losses: median", 0.02, _quantile(by_view, 0.5), over=len(by_view)),
        at_most("the same by the view losses: p95", 0.10, _quantile(by_view, 0.95), over=len(by_view)),
    ]


def _false(heard: Sequence[tuple[Run, Heard]]) -> list[Measure]:
    runs = [one for _, one in heard]
    hours = sum(one.gpu_hours for one in runs)
    alarms = [alarm for one in runs for alarm in one.alarms] + [None for one in runs if one.error]
    critical = sum(alarm is None or alarm.severity == "critical" for alarm in alarms)
    thousands = max(hours, 1e-9) / 1000
    phases = sum((one.phases for one in runs), PhaseError())
    kinds = ", ".join(f"{n} {kind}" for kind, n in Counter(a.kind if a else "failed" for a in alarms).most_common())
    return [
        Measure(
            "false alarms in 1,000 GPU-hours of healthy training",
            1.0,
            len(alarms) / thousands,
            None,
            len(alarms),
            at_least=False,
            write=_number,
            more=kinds,
        ),
        Measure(
            "of them critical, at most with 95 %",
            0.1,
            most_alarms(critical) / thousands,
            None,
            critical,
            at_least=False,
            write=_number,
        ),
        Measure("GPU-hours of healthy training", _GPU_HOURS, hours, None, len(runs), write=_hours),
        Measure(
            "phases of a GPU-step in healthy training, error as a share of the step",
            0.001,
            phases.mean,
            None,
            phases.count,
            at_least=False,
            write=fault,
        ),
    ]


def most_alarms(alarms: int, confidence: float = 0.95) -> float:
    """Return the upper confidence bound of a Poisson mean after some alarms.

    Source: Garwood, "Fiducial Limits for the Poisson Distribution", Biometrika 28, 1936.
    """
    return float(special.gammaincinv(alarms + 1, confidence))


def _mistakes(found: Mistakes) -> list[Measure]:
    return [
        Measure(
            "mistakes in topologies: found with their line", 0.95, _ratio(found.found, found.made), None, found.made
        ),
        Measure("right topologies: problems", 0, float(found.false), None, found.right, at_least=False, write=_number),
    ]


def _phases(worked: Sequence[Worked]) -> list[Measure]:
    error = sum((one.phases for _, one in worked), PhaseError())
    what = "phases of a GPU-step under faults, error as a share of the step"
    return [Measure(what, 0.01, error.mean, None, error.count, at_least=False, write=fault)]


def _sure(worked: Sequence[Worked]) -> list[Measure]:
    def claims(pick: Pick) -> list[tuple[float, bool]]:
        return [(claim.confidence, claim.right) for _, one in worked for claim in pick(one).sure]

    count = len(claims(lambda one: one.alarms))
    return [
        Measure(
            "confidence: expected calibration error",
            0.05,
            *_both(lambda p: calibration_error(claims(p))),
            count,
            at_least=False,
            write=_number,
        ),
        Measure(
            "confidence: Brier score against the best constant's",
            0.8,
            *_both(lambda p: brier_ratio(claims(p))),
            count,
            at_least=False,
            write=_number,
        ),
    ]


def calibration_error(claims: Sequence[tuple[float, bool]]) -> float | None:
    """Return the expected calibration error over ten bins of confidence."""
    if not claims:
        return None
    sure, right = (np.array(column, dtype=np.float64) for column in zip(*claims, strict=True))
    place = np.minimum((sure * _BINS).astype(np.int64), _BINS - 1)
    gaps = np.bincount(place, sure - right, minlength=_BINS)
    return float(np.abs(gaps).sum() / len(sure))


def brier_ratio(claims: Sequence[tuple[float, bool]]) -> float | None:
    """Return the Brier score as a multiple of the best constant's.

    None if all claims came out alike.
    """
    if not claims:
        return None
    sure, right = (np.array(column, dtype=np.float64) for column in zip(*claims, strict=True))
    constant = right.mean() * (1 - right.mean())
    return float(np.mean((sure - right) ** 2) / constant) if constant else None


def _quantile(values: Sequence[float], q: float) -> float | None:
    """Return the least value that a share q does not exceed; None without values."""
    return sorted(values)[max(math.ceil(q * len(values)) - 1, 0)] if values else None


def _number(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.3g}"


def _hours(value: float | None) -> str:
    return NOTHING if value is None else f"{value:,.0f}"


def _seconds(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.3g} s"
