"""What findings say of a fault that was injected: whether, when, on whom; and what they say besides."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from bench.accuracy.faults.cases import KINDS, Case
from bench.accuracy.faults.stream import Said, windows
from bench.accuracy.faults.tellable import computes_in_one_go, is_tellable
from prism_ch.model.columns import Int64
from prism_ch.model.finding import Finding
from prism_ch.model.window import Window
from prism_ch.simulate import Simulation, generate
from prism_ch.simulate.job import Fault
from prism_ch.simulate.network import Network, RankGrid

#: A window lasts this long from the fault on, but for large jobs, and for drifts, that would take long to examine so
#: often. What is promised within 15 s can't be measured in windows that are longer.
_WINDOW_S, _LARGE_JOB_WINDOW_S, _DRIFT_WINDOW_S, _LARGE_JOB_GPUS = 5.0, 10.0, 20.0, 200

#: Findings that accuse nobody: of records, not of training, and of a job's own shape.
NO_FAULT = ("telemetry", "imbalance")

#: What a finding may rightly call each kind of fault, most exact first, where the truth does not say.
_ACCEPTED = {
    "slow_step": ("slow_step", "slow_gpu"),
    "stall": ("stall",),
    "restart": ("restart",),
}


#: Kinds of which flows that take longer say only that somebody waits.
_OF_COMPUTING = ("slow_gpu", "slow_step", "slow_drift", "hang")

#: Kinds of which records may not tell who is to blame.
_OF_SOMEBODY = ("slow_gpu", "slow_drift", "slow_nic", "slow_link", "slow_switch", "hang")

#: Findings that accuse a part of the network, by what it is.
_OF_PATHS = frozenset({"slow_nic", "slow_link", "slow_switch"})

#: A job of which nothing moves has to be said to hang so soon, whether or not it goes on in the end.
_HANGS_AFTER_NS = 15 * 10**9


@dataclass(frozen=True, slots=True)
class Injected:
    """A fault as it truly was: when it was felt, from when on records show it, what calls it rightly, who is to blame.

    Where nobody is, `culprits` is empty. `effect` is the share by which it lengthens a step or the flows of a step.
    `meanwhile` are kinds that are right as well from `meanwhile_ns` on, since no more can be told until it is over.
    `tellable` says that the records tell the culprit from everybody else. `step_end_ns` int64[steps] are the ends of
    the steps that the job did.
    """

    start_ns: int
    end_ns: int
    readable_ns: int
    accepted: tuple[str, ...]
    culprits: frozenset[str]
    effect: float
    step_end_ns: Int64
    meanwhile: tuple[str, ...] = ()
    meanwhile_ns: int = 0
    tellable: bool = True


@dataclass(frozen=True, slots=True)
class FaultOutcome:
    """How a fault came out.

    `found`: it was found; `named`: so was the culprit (None where there is none, or it was not found, or where the
    records can't tell, which `tellable` says, and nobody else was accused). `delay_steps`
    and `delay_s` are from when the records of the evidence had come to when the finding stood. `right` and `wrong`
    count the findings of warning or above, each kind and subject once, that are about it and that are not;
    `wrongly` says what the latter were.
    """

    gpus: int
    effect: float
    found: bool = False
    named: bool | None = None
    tellable: bool = True
    delay_steps: int = 0
    delay_s: float = 0.0
    right: int = 0
    wrong: int = 0
    wrongly: tuple[str, ...] = ()


#: What counts for a case that could not be worked.
NOTHING_FOUND = FaultOutcome(gpus=0, effect=1.0, wrong=1, wrongly=("failed",))


def work(case: Case) -> FaultOutcome:
    """Simulate a case, examine it window by window, and compare."""
    scenario = case.scenario()
    gpus = len(scenario.jobs[0].attempts[0].gpus)
    made = generate(scenario)
    truth = injected(case, made)
    window_s = _LARGE_JOB_WINDOW_S if gpus > _LARGE_JOB_GPUS else _WINDOW_S
    window_s = _DRIFT_WINDOW_S if case.kind == "slow_drift" else window_s
    from_s = (truth.start_ns - scenario.start_ns) / 1e9

    def is_found(said: list[Said]) -> bool:
        return any(is_about(one.finding, truth) for one in said)

    return compare(truth, windows(made, window_s, from_s, is_found), gpus)


def compare(truth: Injected, seen: Iterable[tuple[Window, list[Said]]], gpus: int) -> FaultOutcome:
    """Compare what windows say, one after the other, with the truth."""
    warned: dict[tuple[str, str], bool] = {}
    found_ns = readable_ns = 0
    about: list[Finding] = []
    for window, said in seen:
        about = [one.finding for one in said if is_about(one.finding, truth)]
        for one in said:
            if one.finding.severity != "info" and one.finding.kind not in NO_FAULT:
                key = (one.finding.kind, one.finding.subject)
                right = is_about(one.finding, truth) or may_be_about(one.finding, truth, window)
                warned[key] = warned.get(key, False) or right
        if truth.readable_ns < window.end_ns and not readable_ns:
            readable_ns = window.end_ns
        # That a job stands still is told when it is rightly said to hang, and not only when it goes on in the end.
        stands_still = "stall" in truth.accepted and any(may_be_about(one.finding, truth, window) for one in said)
        if not found_ns and (about or stands_still):
            found_ns = window.end_ns
    wrongly = tuple(" ".join(key) for key, right in warned.items() if not right)
    rightly = len(warned) - len(wrongly)
    nothing = FaultOutcome(
        gpus, truth.effect, tellable=truth.tellable, right=rightly, wrong=len(wrongly), wrongly=wrongly
    )
    if not about:
        return nothing
    late = (truth.step_end_ns >= readable_ns) & (truth.step_end_ns < found_ns)
    named = is_named(about, truth) if truth.culprits else None
    delay_s = max(found_ns - readable_ns, 0) / 1e9
    return replace(nothing, found=True, named=named, delay_steps=int(late.sum()), delay_s=delay_s)


def is_about(finding: Finding, truth: Injected) -> bool:
    """Say whether a finding is of a kind that calls the fault rightly, at the time of its effect.

    Where just the same flows cross a NIC, a link and a switch, records can't tell them apart, and no name is better
    than another: then it is by any of the three, if the culprit is among those whom the finding says it may be.
    """
    if finding.start_ns >= truth.end_ns or finding.end_ns <= truth.start_ns:
        return False
    either = not truth.tellable and finding.kind in _OF_PATHS and not _OF_PATHS.isdisjoint(truth.accepted)
    return finding.kind in truth.accepted or (either and not truth.culprits.isdisjoint(accuses(finding)))


def may_be_about(finding: Finding, truth: Injected, window: Window) -> bool:
    """Say whether a finding is of a kind that is right as well, of a job that has stood still for long enough."""
    return finding.kind in truth.meanwhile and window.end_ns >= truth.meanwhile_ns


def is_named(about: Sequence[Finding], truth: Injected) -> bool | None:
    """Say whether findings name the culprit; None where records can't tell it and nobody else is accused for sure."""
    accused = [accuses(finding) for finding in about]
    if not truth.tellable:
        return False if any(len(one) == 1 and one.isdisjoint(truth.culprits) for one in accused) else None
    return any(one and one <= truth.culprits for one in accused) or any(names(one, truth.culprits) for one in about)


def names(finding: Finding, culprits: frozenset[str]) -> bool:
    """Say whether a finding that is not about slowness names a culprit, as its subject or in its sentence."""
    if finding.kind.startswith("slow_"):
        return False
    return finding.subject in culprits or not culprits.isdisjoint(re.findall(r"[\w.:>-]*\w", finding.summary))


def accuses(finding: Finding) -> frozenset[str]:
    """Return who is slow, as a finding has it: one, or some of whom any may be to blame, or nobody in particular."""
    evidence = finding.evidence
    if finding.kind == "slow_step":
        cause = evidence.get("root_cause", {})
        return frozenset({cause["subject"], *cause.get("may_also_be", ())} if cause else ())
    if not finding.kind.startswith("slow_"):
        return frozenset()
    own = set(evidence.get("members", ())) if finding.subject_type == "group" else {finding.subject}
    return frozenset(own | set(evidence.get("may_also_be", ())))


def injected(case: Case, made: Simulation) -> Injected:
    """Say what is true of the only fault of a simulation."""
    job = made.scenario.jobs[0].job_id
    steps = [row for row in made.truth["steps"].to_pylist() if row["job_id"] == job]
    ends = np.array(sorted(row["end_ns"] for row in steps), dtype=np.int64)
    step_ns = int(np.median(np.diff(ends)))
    if case.kind in ("stall", "restart"):
        return _event(case, made, ends, step_ns)
    [fault] = made.truth["faults"].to_pylist()
    start_ns, end_ns = fault["effect_start_ns"], fault["effect_end_ns"]
    shown_ns = start_ns + step_ns if case.kind == "hang" else int(ends[np.searchsorted(ends, start_ns + step_ns // 2)])
    return Injected(
        start_ns,
        end_ns,
        min(shown_ns, end_ns),
        _ACCEPTED.get(case.kind, tuple(fault["accept_kinds"])),
        frozenset({fault["subject"], *(() if case.kind == "slow_nic" else fault["alt_subjects"])} - {""}),
        fault["impact"] if case.kind in _OF_COMPUTING else max(fault["impact"], fault["dp_impact"]),
        ends,
        tellable=case.kind not in _OF_SOMEBODY or is_tellable(made.scenario, made.scenario.faults[0]),
    )


def _event(case: Case, made: Simulation, ends: Int64, step_ns: int) -> Injected:
    """Say what is true of a stall or a restart: the one event that the simulation has beside its steps."""
    [event] = [row for row in made.truth["events"].to_pylist() if row["kind"] in ("stall", "checkpoint", "restart")]
    start_ns, end_ns = event["start_ns"], event["end_ns"]
    resumed_ns = int(ends[np.searchsorted(ends, end_ns)])
    shown_ns = end_ns if case.kind == "restart" else min(start_ns + 2 * step_ns, resumed_ns)
    late = _replica(made) if event["kind"] == "stall" else ()
    return Injected(
        start_ns,
        resumed_ns,
        shown_ns,
        (*_ACCEPTED[case.kind], *(_ACCEPTED["slow_step"] if late and _may_be_slow(case, made) else ())),
        frozenset(name for gpu in late for name in gpu[1:]),
        (end_ns - start_ns) / step_ns,
        ends,
        ("hang",),  # until it goes on, or begins anew, it may as well never do
        0 if case.kind == "restart" else start_ns + step_ns + _HANGS_AFTER_NS,
        tellable=not late or is_tellable(made.scenario, Fault(kind="hang", gpu=late[0][0])),
    )


def _may_be_slow(case: Case, made: Simulation) -> bool:
    """Say whether a replica that is late leaves the records of one that computes as slowly as any that is injected."""
    return case.magnitude <= max(KINDS["slow_step"].magnitudes) - 1 and computes_in_one_go(made.scenario)


def _replica(made: Simulation) -> Sequence[tuple[int, str, str]]:
    """List GPU, endpoint and server of the replica whose data come late; in a job of one, there is nobody to blame."""
    scenario = made.scenario
    job, network = scenario.jobs[0], Network(scenario.cluster)
    grid = RankGrid(job.layout, job.attempts[0].gpus, network)
    if grid.lanes == 1:
        return ()
    gpu, endpoint = (
        part.reshape(grid.stages, grid.lanes, -1)[:, job.pauses[0].replica % grid.lanes].reshape(-1).tolist()
        for part in (grid.gpu, grid.endpoint)
    )
    names = [(network.addresses[e], network.server_names[network.server[e]]) for e in endpoint]
    return [(g, *name) for g, name in zip(gpu, names, strict=True)]
