"""Compares findings with an injected fault: whether, when and where it was found, and what else was found."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from bench.accuracy.faults.cases import KINDS, Case
from bench.accuracy.faults.identifiable import computes_in_one_go, is_identifiable
from bench.accuracy.faults.stream import JobFinding, windows
from prism_ch.model.columns import Int64
from prism_ch.model.finding import Finding
from prism_ch.model.window import Window
from prism_ch.simulate import Simulation, generate
from prism_ch.simulate.job import Fault
from prism_ch.simulate.network import Network, RankGrid

#: Length of a window from the fault on, in seconds: generally, for large jobs (more GPUs than the last number), and
#: for drifts, which would take long to analyse in short windows. A bound of 15 s needs windows shorter than that.
_WINDOW_S, _LARGE_JOB_WINDOW_S, _DRIFT_WINDOW_S, _LARGE_JOB_GPUS = 5.0, 10.0, 20.0, 200

#: Findings that report no fault of training: one is about records, one about a job's own shape.
NO_FAULT = ("telemetry", "imbalance")

#: The right kinds of finding for each kind of fault whose truth lists none, most exact first.
_ACCEPTED = {
    "slow_step": ("slow_step", "slow_gpu"),
    "stall": ("stall",),
    "restart": ("restart",),
}


#: Kinds of fault whose effect is on steps alone: flows that take longer only wait for a rank.
_COMPUTE_KINDS = ("slow_gpu", "slow_step", "slow_drift", "hang")

#: Kinds of fault whose culprit records may not identify.
_CULPRIT_KINDS = ("slow_gpu", "slow_drift", "slow_nic", "slow_link", "slow_switch", "hang")

#: Kinds of finding that localise a fault in the network.
_PATH_KINDS = frozenset({"slow_nic", "slow_link", "slow_switch"})

#: A job that moves nothing for this long should be found to hang, whether or not it goes on in the end.
_HANGS_AFTER_NS = 15 * 10**9


@dataclass(frozen=True, slots=True)
class Injected:
    """The truth about a fault.

    `start_ns` to `end_ns` is the time of its effect; records show it from `readable_ns` on. `accepted` are the right
    kinds of finding. `culprits` is empty if there is none. `effect` is the share by which it lengthens a step or the
    flows of a step. `meanwhile` are kinds of finding that are also right from `meanwhile_ns` on, since only the end of
    the fault shows its kind. `identifiable`: whether records single the culprit out. `step_end_ns`: int64[steps], the
    ends of the job's steps.
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
    identifiable: bool = True


@dataclass(frozen=True, slots=True)
class FaultOutcome:
    """How a fault came out.

    `found`: whether a finding is about it. `named`: whether the culprit was localised; None if there is none, if the
    fault was not found, or if the culprit is not `identifiable` and nobody else was localised. `delay_steps` and
    `delay_s` count from the arrival of the evidence's records to the finding. `right` and `wrong` count the findings of
    warning or above, each kind and subject once, that are about it and that are not; `wrongly` lists the latter.
    """

    gpus: int
    effect: float
    found: bool = False
    named: bool | None = None
    identifiable: bool = True
    delay_steps: int = 0
    delay_s: float = 0.0
    right: int = 0
    wrong: int = 0
    wrongly: tuple[str, ...] = ()


#: Takes the place of the outcome of a case that failed.
NOTHING_FOUND = FaultOutcome(gpus=0, effect=1.0, wrong=1, wrongly=("failed",))


def work(case: Case) -> FaultOutcome:
    """Simulate a case, analyse it window by window, and compare the findings with the truth."""
    scenario = case.scenario()
    gpus = len(scenario.jobs[0].attempts[0].gpus)
    made = generate(scenario)
    truth = injected(case, made)
    window_s = _LARGE_JOB_WINDOW_S if gpus > _LARGE_JOB_GPUS else _WINDOW_S
    window_s = _DRIFT_WINDOW_S if case.kind == "slow_drift" else window_s
    from_s = (truth.start_ns - scenario.start_ns) / 1e9

    def is_found(current: list[JobFinding]) -> bool:
        return any(is_about(one.finding, truth) for one in current)

    return compare(truth, windows(made, window_s, from_s, is_found), gpus)


def compare(truth: Injected, seen: Iterable[tuple[Window, list[JobFinding]]], gpus: int) -> FaultOutcome:
    """Compare the findings after each window, in order, with the truth."""
    warned: dict[tuple[str, str], bool] = {}
    found_ns = readable_ns = 0
    about: list[Finding] = []
    for window, current in seen:
        about = [one.finding for one in current if is_about(one.finding, truth)]
        for one in current:
            if one.finding.severity != "info" and one.finding.kind not in NO_FAULT:
                key = (one.finding.kind, one.finding.subject)
                right = is_about(one.finding, truth) or may_be_about(one.finding, truth, window)
                warned[key] = warned.get(key, False) or right
        if truth.readable_ns < window.end_ns and not readable_ns:
            readable_ns = window.end_ns
        # A stall is found as soon as the job is rightly found to hang, not only when it goes on.
        hangs = "stall" in truth.accepted and any(may_be_about(one.finding, truth, window) for one in current)
        if not found_ns and (about or hangs):
            found_ns = window.end_ns
    wrongly = tuple(" ".join(key) for key, right in warned.items() if not right)
    rightly = len(warned) - len(wrongly)
    nothing = FaultOutcome(
        gpus, truth.effect, identifiable=truth.identifiable, right=rightly, wrong=len(wrongly), wrongly=wrongly
    )
    if not about:
        return nothing
    late = (truth.step_end_ns >= readable_ns) & (truth.step_end_ns < found_ns)
    named = is_named(about, truth) if truth.culprits else None
    delay_s = max(found_ns - readable_ns, 0) / 1e9
    return replace(nothing, found=True, named=named, delay_steps=int(late.sum()), delay_s=delay_s)


def is_about(finding: Finding, truth: Injected) -> bool:
    """Return whether a finding has a right kind and overlaps the fault's effect.

    If exactly the same flows cross a NIC, a link and a switch, records can't identify which is slow. Any of the three
    kinds is right then, if the culprit is among the subjects that the finding localises.
    """
    if finding.start_ns >= truth.end_ns or finding.end_ns <= truth.start_ns:
        return False
    either = not truth.identifiable and finding.kind in _PATH_KINDS and not _PATH_KINDS.isdisjoint(truth.accepted)
    return finding.kind in truth.accepted or (either and not truth.culprits.isdisjoint(localised_subjects(finding)))


def may_be_about(finding: Finding, truth: Injected, window: Window) -> bool:
    """Return whether a finding has a kind that is right while the fault lasts."""
    return finding.kind in truth.meanwhile and window.end_ns >= truth.meanwhile_ns


def is_named(about: Sequence[Finding], truth: Injected) -> bool | None:
    """Return whether findings localise the culprit.

    None if records can't identify it and no finding localises a single other subject.
    """
    localised = [localised_subjects(finding) for finding in about]
    if not truth.identifiable:
        return False if any(len(one) == 1 and one.isdisjoint(truth.culprits) for one in localised) else None
    return any(one and one <= truth.culprits for one in localised) or any(
        names_culprit(one, truth.culprits) for one in about
    )


def names_culprit(finding: Finding, culprits: frozenset[str]) -> bool:
    """Return whether a finding's subject or summary names a culprit; False for slowness."""
    if finding.kind.startswith("slow_"):
        return False
    return finding.subject in culprits or not culprits.isdisjoint(re.findall(r"[\w.:>-]*\w", finding.summary))


def localised_subjects(finding: Finding) -> frozenset[str]:
    """Return the subjects that a finding localises: any one of them may be slow."""
    evidence = finding.evidence
    if finding.kind == "slow_step":
        cause = evidence.get("root_cause", {})
        return frozenset({cause["subject"], *cause.get("may_also_be", ())} if cause else ())
    if not finding.kind.startswith("slow_"):
        return frozenset()
    own = set(evidence.get("members", ())) if finding.subject_type == "group" else {finding.subject}
    return frozenset(own | set(evidence.get("may_also_be", ())))


def injected(case: Case, made: Simulation) -> Injected:
    """Return the truth about the only fault of a simulation."""
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
        fault["impact"] if case.kind in _COMPUTE_KINDS else max(fault["impact"], fault["dp_impact"]),
        ends,
        identifiable=case.kind not in _CULPRIT_KINDS or is_identifiable(made.scenario, made.scenario.faults[0]),
    )


def _event(case: Case, made: Simulation, ends: Int64, step_ns: int) -> Injected:
    """Return the truth about a stall or restart, the simulation's only event."""
    [event] = [row for row in made.truth["events"].to_pylist() if row["kind"] in ("stall", "checkpoint", "restart")]
    start_ns, end_ns = event["start_ns"], event["end_ns"]
    resumed_ns = int(ends[np.searchsorted(ends, end_ns)])
    shown_ns = end_ns if case.kind == "restart" else min(start_ns + 2 * step_ns, resumed_ns)
    late = _late_replica(made) if event["kind"] == "stall" else ()
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
        identifiable=not late or is_identifiable(made.scenario, Fault(kind="hang", gpu=late[0][0])),
    )


def _may_be_slow(case: Case, made: Simulation) -> bool:
    """Return whether a late replica leaves the same records as a slow GPU could."""
    return case.magnitude <= max(KINDS["slow_step"].magnitudes) - 1 and computes_in_one_go(made.scenario)


def _late_replica(made: Simulation) -> Sequence[tuple[int, str, str]]:
    """List GPU, endpoint and server of each rank of the late replica.

    The list is empty in a job of one replica: it has no culprit.
    """
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
