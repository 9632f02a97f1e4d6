"""Slow switches: first-hop switches whose flows take longer for their bytes than elsewhere (LLMPrism, section V-C)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from prism_ch.core import robust
from prism_ch.model.columns import Float64, Int32
from prism_ch.model.params import DiagnoseParams
from prism_ch.model.result import Diagnosis
from prism_ch.model.topology import Topology
from prism_ch.model.traffic import Traffic
from prism_ch.model.window import Window
from prism_ch.stages.diagnose.episode import identity, severity


def find_slow_switches(
    traffic: Sequence[Traffic], window: Window, known: Sequence[Diagnosis], topology: Topology, params: DiagnoseParams
) -> tuple[Diagnosis, ...]:
    """Find leaf switches that slow the flows of every job behind them, in one window.

    Parameters: `traffic`, the typed bursts of each job, which end in the window; `known`, findings open before the
    window: one on the same switch goes on, one whose switch is no longer slow is closed. A pair is compared by its
    seconds per byte with pairs whose bursts are of about the same size; a switch is slow where the median of its
    pairs stands out among the switches. With fewer than `min_peers` switches nothing is found.
    """
    going = {finding.subject: finding for finding in known if finding.kind == "slow_switch"}
    found: list[Diagnosis] = []
    measured = [_relative_pace(bursts, params) for bursts in traffic]
    if measured:
        pace = np.concatenate([np.tile(pairs, 2) for pairs in measured])
        leaf = np.concatenate([topology.leaf[np.concatenate([bursts.pair_src, bursts.pair_dst])] for bursts in traffic])
        for switch, times, score in _standing_out(leaf, pace, len(topology.leaf_names), params):
            name = topology.leaf_names[switch]
            found.append(_describe(name, times, score, window, going.pop(name, None), params))
    found.extend(replace(finding, status="closed") for finding in going.values())
    return tuple(found)


def _relative_pace(bursts: Traffic, params: DiagnoseParams) -> Float64:
    """Return each pair's seconds per byte over the median of its size class, float64[pairs]; NaN of too few bursts."""
    pairs = len(bursts.pair_src)
    count = np.bincount(bursts.pair, minlength=pairs)
    length = np.bincount(bursts.pair, weights=(bursts.end_ns - bursts.start_ns) / 1e9, minlength=pairs)
    payload = np.bincount(bursts.pair, weights=bursts.payload, minlength=pairs)
    known = (count >= params.min_pair_bursts) & (length > 0) & (payload > 0)
    pace = np.divide(length, payload, out=np.full(pairs, np.nan), where=known)
    mean_size = np.divide(payload, count, out=np.ones(pairs), where=known)
    size_class = np.log2(np.maximum(mean_size, 1)).astype(np.int32)
    relative: Float64 = pace / robust.median_by(size_class, pace)[size_class]
    return relative


def _standing_out(leaf: Int32, pace: Float64, leaves: int, params: DiagnoseParams) -> list[tuple[int, float, float]]:
    """List the switches whose median pace stands out: number, times the others' median, score."""
    typical = robust.median_by(leaf, pace, leaves)
    if np.count_nonzero(~np.isnan(typical)) < params.min_peers:
        return []
    ratio = typical / robust.median(typical)
    score = robust.robust_z(ratio, floor=params.peer_jitter_floor)
    slow = (np.nan_to_num(ratio) > 1 + params.min_peer_excess) & (np.nan_to_num(score) > params.min_score)
    return [(int(row), float(ratio[row]), float(score[row])) for row in np.flatnonzero(slow)]


def _describe(
    name: str, times: float, score: float, window: Window, going: Diagnosis | None, params: DiagnoseParams
) -> Diagnosis:
    """Put one switch's finding into words and numbers."""
    begin_ns = window.start_ns if going is None else going.start_ns
    slowdown = 1 - 1 / times
    return Diagnosis(
        diagnosis_id=identity("", "slow_switch", name, begin_ns),
        kind="slow_switch",
        subject_type="switch",
        subject=name,
        first_step=0,
        last_step=0,
        start_ns=begin_ns,
        end_ns=window.end_ns,
        status="open",
        severity=severity(slowdown, params),
        observed=times,
        expected=1.0,
        score=score,
        slowdown=slowdown,
        summary=f"Flows through switch {name} take {times:.2g} times as long as elsewhere: check its ports.",
        evidence=json.dumps({"ratio_to_peers": round(times, 4)}),
    )
