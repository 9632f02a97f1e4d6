"""Compares alarms, and findings of any grade, with an injected fault: found, named, how often, what else is wrong."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from bench.accuracy.faults.alarms import Alarm, Log, findings, incidents
from bench.accuracy.faults.cases import Case
from bench.accuracy.faults.identifiable import tells_ways
from bench.accuracy.faults.phases import PhaseError, phase_error
from bench.accuracy.faults.service import served
from bench.accuracy.faults.stream import windows
from bench.accuracy.faults.truth import ABOVE_LEAVES, PATH_KINDS, PLACED, STOPS, Truth, true_of
from prism_ch.analysis.diagnose.findings import HOLDING
from prism_ch.analysis.diagnose.network.together import SPINES
from prism_ch.model.params import ConfidenceParams
from prism_ch.model.topology import Topology
from prism_ch.simulate import Scenario, generate
from tests.unit.chain import Results

#: Length of a window by default, in seconds.
_WINDOW_S = 60.0

#: Phases are compared in jobs of up to this many GPUs; in larger ones the truth takes long to make.
_PHASES_GPUS = 128

_SURE = ConfidenceParams()

#: How a fault is called by the step with which it begins, up to a step: a job is young until it has some.
BEGINS = ((1, "step 0"), (8, "step 2 to 8"), (20, "step 9 to 20"), (1_000_000, "later"))


@dataclass(frozen=True, slots=True)
class Claim:
    """The confidence of an alarm that names a place, and whether its subject is the culprit.

    `place` is its type, or `spines`; `others` counts what may be it as well and is no part of it.
    """

    confidence: float
    right: bool
    place: str
    others: int


@dataclass(frozen=True, slots=True)
class Graded:
    """How a fault came out among the alarms, or among the findings of any grade.

    `found`: whether one is about it. `kind`: whether the foremost of those has the most exact kind. `subject`: whether
    its subject is the culprit or one that leaves the same records; `exact`: whether it and `may_also_be` are all of
    those, and no other; `itself`: whether its subject is the culprit itself. `alarms` counts those that overlap the
    effect; `right` and `wrong` count all, `wrongly` are the kinds and subjects of the latter. `contradictions` counts
    pairs that name different culprits of one job and time. `delay_s` is None if none is about it. `sure` has a
    claim for each that names a place. `withdrawn` counts those that
    were read for a while: they became part of others, or cost less in the end. `texts` has all, a line each.
    """

    found: bool = False
    kind: bool = False
    subject: bool = False
    exact: bool = False
    itself: bool = False
    alarms: int = 0
    right: int = 0
    wrong: int = 0
    wrongly: tuple[str, ...] = ()
    contradictions: int = 0
    accuses_healthy: bool = False
    delay_s: float | None = None
    sure: tuple[Claim, ...] = ()
    withdrawn: int = 0
    texts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FaultOutcome:
    """How a fault came out.

    `lost_gpu_s` and `share` are its true cost. `losses` are GPU-seconds of each job that loses much: true ones, and
    those of the incidents. `alike` counts those that leave the same records as the culprit. `lasts` is false for
    a single slow step. `begins` is the step with which the fault begins, roughly. `phases` is the error of phases.
    """

    family: str
    gpus: int
    lost_gpu_s: float
    share: float
    is_costly: bool
    placed: bool
    alike: int
    lasts: bool = True
    begins: str = ""
    culprit: str = ""
    losses: tuple[tuple[float, float], ...] = ()
    phases: PhaseError = field(default_factory=PhaseError)
    alarms: Graded = field(default_factory=Graded)
    findings: Graded = field(default_factory=Graded)
    error: str = ""


def failed(case: Case, reason: str) -> FaultOutcome:
    """Return the outcome of a case that failed: nothing is found."""
    return FaultOutcome("", 0, 0.0, 1.0, is_costly=True, placed=case.kind in PLACED, alike=0, error=reason)


def work(case: Case) -> FaultOutcome:
    """Simulate and analyse a case, and compare what readers see with the truth."""
    scenario = case.scenario()
    gpus = sum(len(job.attempts[0].gpus) for job in scenario.jobs)
    scenario = replace(scenario, phases=case.kind in PLACED and gpus <= _PHASES_GPUS)
    made = generate(scenario)
    truth = true_of(case, made)
    whole = ((window.end_ns, results, topology) for window, results, topology in windows(made, _WINDOW_S))
    raised, found = Log(), Log()
    results, topology = Results(), None
    for now_ns, results, topology in served(made) if case.kind in STOPS else whole:
        raised.read(incidents(results, topology), now_ns)
        found.read(findings(results, topology), now_ns)
    assert topology is not None, "a recording has a window"
    return FaultOutcome(
        family=scenario.name,
        gpus=gpus,
        lost_gpu_s=truth.lost_gpu_s,
        share=truth.share,
        is_costly=truth.is_costly,
        placed=is_placed(case.kind, scenario),
        alike=len(truth.alike),
        lasts=case.kind != "slow_step",
        begins=_begins(truth.first_step),
        culprit=" ".join(sorted(truth.culprit)),
        losses=tuple(_losses(results, topology, truth)),
        phases=phase_error(results, topology, made) if scenario.phases else PhaseError(),
        alarms=grade(raised, truth, case.kind),
        findings=grade(found, truth, case.kind),
    )


def _begins(step: int) -> str:
    """Return in words with which of a job's steps a fault begins."""
    return next(words for until, words in BEGINS if step <= until)


def is_placed(kind: str, scenario: Scenario) -> bool:
    """Return whether records can show where a fault is. Above the leaves they can only with ways."""
    return kind in PLACED and (kind not in ABOVE_LEAVES or tells_ways(scenario))


def _losses(results: Results, topology: Topology, truth: Truth) -> Iterator[tuple[float, float]]:
    """Yield GPU-seconds lost, true ones and those of incidents.

    Jobs count that lose much, if records show it. Information about another time does not: what hiccups take, the run
    without the fault lost as well.
    """
    counted = [one for one in results.incidents.values() if one.severity != "info" or truth.meets(one)]
    for cost in truth.costs:
        if not (truth.is_shown and cost.is_costly):
            continue
        mine = set()
        for job_id, job in results.jobs.items():
            held = {topology.endpoints[row] for row in job.last.members.endpoint.tolist()}
            if 2 * len(held & cost.endpoints) > len(held):
                mine.add(job_id)
        told = (part.lost_gpu_s for one in counted for part in one.costs if part.job_id in mine)
        yield cost.lost_gpu_s, sum(told)


def grade(log: Log, truth: Truth, kind: str) -> Graded:
    """Compare alarms or findings with the truth.

    Of several that are about the fault, the weightiest is judged.
    """
    seen = list(log.now.values())
    about = [one for one in seen if is_about(one, truth)]
    related = [one for one in seen if one in about or may_be_about(one, truth)]
    wrong = [one for one in seen if one not in related]
    pairs = [(a, b) for place, a in enumerate(seen) for b in seen[place + 1 :] if a.contradicts(b)]
    overlapping = [one for one in seen if truth.meets(one)]
    said = Graded(
        alarms=len(overlapping),
        right=len(related),
        wrong=len(wrong),
        wrongly=tuple(f"{one.kind} {one.subject}" for one in wrong),
        contradictions=len(pairs),
        accuses_healthy=kind in ABOVE_LEAVES and any(_accuses_healthy(one, truth) for one in overlapping),
        sure=tuple(_claim(one, truth) for one in seen if one.is_place),
        withdrawn=len(log.gone),
        texts=(
            *(f"{_verdict(one, about, related):6} {one.text()}" for one in seen),
            *(f"gone   {one.text()}" for one in log.gone.values()),
        ),
    )
    if not about:
        return said
    main = max(about, key=lambda one: (one.is_place, *one.weight))
    return replace(
        said,
        found=True,
        kind=main.kind == truth.accepted[0] or main.kind in _equal_kinds(truth),
        subject=bool(main.subjects) and main.subjects <= truth.alike,
        exact=is_exact(main.names, truth.alike),
        itself=_is_itself(main, truth),
        delay_s=max(min(one.first_ns for one in related) - truth.shown_ns, 0) / 1e9,
    )


def is_about(alarm: Alarm, truth: Truth) -> bool:
    """Return whether an alarm has a right kind and overlaps the fault's effect.

    If exactly the same flows cross a NIC, a link and a switch, any of these kinds is right that names one of them.
    """
    if not truth.meets(alarm):
        return False
    either = alarm.kind in PATH_KINDS and not PATH_KINDS.isdisjoint(truth.accepted)
    return alarm.kind in truth.accepted or (either and not truth.alike.isdisjoint(alarm.names))


def may_be_about(alarm: Alarm, truth: Truth) -> bool:
    """Return whether an alarm has a kind that is right while the fault lasts."""
    return alarm.kind in truth.meanwhile and alarm.first_ns >= truth.meanwhile_ns


def is_exact(named: frozenset[str], alike: frozenset[str]) -> bool:
    """Return whether all that leave the same records are named, and no other.

    A link need not be named beside one of its ends, and may be.
    """
    return bool(named) and _without_implied(named, alike) == _without_implied(alike, alike)


def _without_implied(names: frozenset[str], alike: frozenset[str]) -> frozenset[str]:
    """Leave out the links of `alike` that have an end in `alike`."""
    implied = {link for link in names & alike if "->" in link and not alike.isdisjoint(link.split("->"))}
    return names - implied


def _equal_kinds(truth: Truth) -> frozenset[str]:
    """Return the kinds that place a fault as exactly as records can."""
    return PATH_KINDS if len(truth.alike) > 1 and truth.accepted[0] in PATH_KINDS else frozenset()


def _is_itself(alarm: Alarm, truth: Truth) -> bool:
    """Return whether an alarm's subject is the culprit, or holds it.

    A server holds its endpoints, a group its members and the links between them, and `spines` what is above leaves.
    """
    if not is_about(alarm, truth):
        return False
    if alarm.subject == SPINES:
        return bool(truth.across)
    held = [
        one for one in truth.culprit if alarm.subject_type == "group" and alarm.subjects.issuperset(one.split("->"))
    ]
    return bool(held) or not truth.culprit.isdisjoint(alarm.subjects)


def _claim(alarm: Alarm, truth: Truth) -> Claim:
    # A group may hold not all that may be it, and one of two servers is half as sure.
    holds = alarm.subject_type in HOLDING and alarm.confidence >= getattr(_SURE, alarm.subject_type)
    others = 0 if holds else len(alarm.may_also_be)
    place = SPINES if alarm.subject == SPINES else alarm.subject_type
    return Claim(alarm.confidence, _is_itself(alarm, truth), place, others)


def _accuses_healthy(alarm: Alarm, truth: Truth) -> bool:
    """Check whether an alarm's subject is a healthy leaf, NIC or path.

    `spines` accuses none: no record names one.
    """
    return (
        alarm.is_place
        and alarm.subject_type not in ("stage", "group")
        and alarm.subject != SPINES
        and bool(alarm.subjects)
        and alarm.subjects.isdisjoint(truth.alike | truth.across)
    )


def _verdict(alarm: Alarm, about: Sequence[Alarm], related: Sequence[Alarm]) -> str:
    return "right" if alarm in about else "while" if alarm in related else "WRONG"


__all__ = ["PLACED", "STOPS", "Claim", "FaultOutcome", "Graded", "failed", "grade", "work"]
