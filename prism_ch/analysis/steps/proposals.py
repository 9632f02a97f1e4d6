"""Proposals: after which closing bursts a step may end, from the silences and from what follows them."""

from __future__ import annotations

import numpy as np

from prism_ch.analysis.steps.sequences import Sequences
from prism_ch.core import bocd, robust
from prism_ch.model.columns import Bool, Float64
from prism_ch.model.params import DivideParams


def propose(sequences: Sequences, follows: Float64, params: DivideParams) -> tuple[Float64, list[Bool]]:
    """Propose boundaries: the log-odds of one after each burst, float64[n], and sets to choose from, bool[n] each.

    Parameters: `follows` float64[n], the payload of other traffic after each burst, see `Beside.follows`.
    """
    last = np.isinf(sequences.gap_s)
    every = np.ones(len(last), dtype=bool)
    if last.all():
        return np.zeros(len(last)), [every]
    inner = ~last
    log_gap = np.log(sequences.gap_s[inner])
    counts = np.diff(sequences.offsets) - 1
    found = bocd.detect(log_gap, np.concatenate([[0], np.cumsum(counts)]), expected_run=params.expected_run)
    typical = robust.median_by(sequences.line[inner], log_gap, len(sequences))[sequences.line[inner]]
    threshold, separation = robust.two_class_split(sequences.gap_s[inner])
    long = np.log(threshold) if separation >= params.min_separation else typical
    odds = np.zeros(len(last))
    mass = np.clip(found.new_run_mass, 1e-6, 1 - 1e-6)
    surprise = np.where(log_gap > typical, np.log(mass / (1 - mass)), -np.abs(np.log(mass / (1 - mass))))
    odds[inner] = np.clip(log_gap - long, -1, 1) + np.clip(surprise, -1, 1)
    changed = every.copy()
    changed[inner] = (found.new_run_mass > params.half) & (log_gap > typical)
    split = every.copy()
    split[inner] = sequences.gap_s[inner] > threshold
    followed = _follow_odds(sequences, follows)
    odds = params.gap_weight * odds + params.followed_weight * followed
    return odds, [every, changed, split, last | (followed > 0)]


def _follow_odds(sequences: Sequences, follows: Float64) -> Float64:
    """Return the log-odds that a step ends after each burst, from how much other traffic follows it, float64[n].

    The logarithm of its payload over the mean of the sequence, in -1..1; 0 where a sequence has no other traffic, and
    after its last burst, of which nobody knows what follows.
    """
    inner = np.isfinite(sequences.gap_s)
    carried = np.bincount(sequences.line[inner], weights=follows[inner], minlength=len(sequences))
    mean = (carried / np.maximum(np.bincount(sequences.line[inner], minlength=len(sequences)), 1))[sequences.line]
    share = np.divide(follows, mean, out=np.ones(len(follows)), where=inner & (mean > 0))
    return np.asarray(np.log(np.clip(share, np.exp(-1), np.exp(1))))
