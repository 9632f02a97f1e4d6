"""Where the steps of sequences may end, from silences and from what follows bursts."""

from __future__ import annotations

import numpy as np

from prism_ch.analysis.steps.sequences import Sequences
from prism_ch.core import bocd, robust
from prism_ch.model.columns import Bool, Float64, Int64
from prism_ch.model.params import DivideParams


def propose(sequences: Sequences, params: DivideParams) -> tuple[Float64, list[Bool]]:
    """Propose after which bursts a step ends, from silences and from what follows.

    Returns the log-odds of an end after each burst, float64[n], and sets to choose from, bool[n] each: every burst,
    changepoints of the gaps (BOCD), the longer of two classes of gaps, bursts that other traffic follows.
    """
    last = np.isinf(sequences.gap_s)
    every = np.ones(len(last), dtype=bool)
    if last.all():
        return np.zeros(len(last)), [every]
    inner = ~last
    log_gap = np.log(sequences.gap_s[inner])
    counts = np.diff(sequences.offsets) - 1
    offsets = np.concatenate([[0], np.cumsum(counts)])
    found = bocd.detect(log_gap, offsets, expected_run=params.expected_run, run_lengths=False)
    typical = robust.median_by(sequences.line[inner], log_gap, len(sequences))[sequences.line[inner]]
    threshold, separation = robust.two_class_split(sequences.gap_s[inner])
    long = np.log(threshold) if separation >= params.min_separation else typical
    longer = log_gap > typical + np.log(params.silence_contrast)
    odds = np.zeros(len(last))
    mass = np.clip(found.new_run_mass, 1e-6, 1 - 1e-6)
    surprise = np.where(longer, np.log(mass / (1 - mass)), -np.abs(np.log(mass / (1 - mass))))
    odds[inner] = np.clip(log_gap - long, -1, 1) + np.clip(surprise, -1, 1)
    changed = every.copy()
    changed[inner] = (found.new_run_mass > params.half) & longer
    split = every.copy()
    split[inner] = sequences.gap_s[inner] > threshold
    followed = _follow_odds(sequences)
    odds = params.gap_weight * odds + params.followed_weight * followed
    return odds, [every, changed, split, last | (followed > 0)]


def _follow_odds(sequences: Sequences) -> Float64:
    """Rate how much other traffic follows each burst as log-odds in -1..1, float64[n]."""
    inner = np.isfinite(sequences.gap_s)
    line, follows = sequences.line, sequences.followed_by
    carried = np.bincount(line[inner], weights=follows[inner], minlength=len(sequences))
    mean = (carried / np.maximum(np.bincount(line[inner], minlength=len(sequences)), 1))[line]
    share = np.divide(follows, mean, out=np.ones(len(follows)), where=inner & (mean > 0))
    return np.asarray(np.log(np.clip(share, np.exp(-1), np.exp(1))))


def order_by_pieces(sequences: Sequences, proposals: list[Bool]) -> Int64:
    """Order the proposals for each sequence, the finest first, int64[proposals, k]."""
    pieces = np.array([np.bincount(sequences.line[ends], minlength=len(sequences)) for ends in proposals])
    return np.argsort(-pieces, axis=0, kind="stable")


def pass_share(sequences: Sequences, ends: Bool, params: DivideParams) -> Float64:
    """Return the share of pieces with a step's whole pass of other traffic, float64[k]."""
    closed, piece = sequences.pieces(ends)
    moved = np.bincount(piece, weights=sequences.followed_by)
    line = sequences.line[closed]
    # The edge of the data may cut the first and the last piece of a sequence.
    within = np.concatenate([[False], line[1:] == line[:-1]]) & np.isfinite(sequences.gap_s[closed])
    usual = robust.median_by(line[within], moved[within], len(sequences))
    alike = np.abs(moved - usual[line]) < 2 * params.size_spread * usual[line]
    count = np.maximum(np.bincount(line[within], minlength=len(sequences)), 1)
    return np.asarray(np.bincount(line[within & alike], minlength=len(sequences)) / count)
