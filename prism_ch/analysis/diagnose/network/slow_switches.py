"""Slow switches: what the jobs behind a switch say of it, put together (LLMPrism, section V-C)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from prism_ch.analysis.diagnose.findings import identity
from prism_ch.model.finding import Finding
from prism_ch.model.window import Window


def join_slow_switches(claims: Sequence[Finding], known: Sequence[Finding], window: Window) -> tuple[Finding, ...]:
    """Join what the jobs behind each switch say of it in one window.

    Parameters: `claims`, findings of jobs that a switch explains what is slow of them; `known`, findings open before
    the window: one on the same switch goes on, one whose switch is no longer slow is closed.
    """
    going = {finding.subject: finding for finding in known if finding.kind == "slow_switch"}
    by_switch: dict[str, list[Finding]] = {}
    for claim in claims:
        if claim.status == "open" or claim.end_ns >= window.start_ns:
            by_switch.setdefault(claim.subject, []).append(claim)
    found = [_join(of_switch, going.pop(switch, None)) for switch, of_switch in by_switch.items()]
    found.extend(replace(finding, status="closed") for finding in going.values())
    return tuple(found)


def _join(claims: Sequence[Finding], going: Finding | None) -> Finding:
    """Put what jobs say of one switch into one finding; the worst hit speaks for all."""
    worst = max(claims, key=lambda claim: (claim.slowdown, claim.score))
    begin_ns = min(claim.start_ns for claim in claims) if going is None else going.start_ns
    return replace(
        worst,
        diagnosis_id=identity("", "slow_switch", worst.subject, begin_ns) if going is None else going.diagnosis_id,
        first_step=0,
        last_step=0,
        start_ns=begin_ns,
        end_ns=max(claim.end_ns for claim in claims),
        status="open" if any(claim.status == "open" for claim in claims) else "closed",
        score=float(np.sqrt(sum(claim.score**2 for claim in claims))),
        evidence={**worst.evidence, "jobs": len(claims)},
    )
