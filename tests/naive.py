"""Slow, obvious versions of the algorithms of prism_ch.core: the oracle of its tests. Plain Python, no cleverness."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import combinations
from statistics import median
from typing import NamedTuple

Interval = tuple[int, int]


def components(n: int, edges: Iterable[tuple[int, int]]) -> list[int]:
    """Label connected components by breadth-first search from each node not reached yet."""
    neighbours: list[set[int]] = [set() for _ in range(n)]
    for a, b in edges:
        neighbours[a].add(b)
        neighbours[b].add(a)
    label = [-1] * n
    found = 0
    for root in range(n):
        if label[root] >= 0:
            continue
        queue = [root]
        label[root] = found
        while queue:
            for neighbour in neighbours[queue.pop(0)]:
                if label[neighbour] < 0:
                    label[neighbour] = found
                    queue.append(neighbour)
        found += 1
    return label


def longest_path(edges: Sequence[tuple[int, int, float]], begin: Sequence[float], node: int) -> float:
    """Return when a node takes place: the latest of its sources, each and its lag, or its beginning without any."""
    before = [(source, lag) for source, target, lag in edges if target == node]
    return max((longest_path(edges, begin, source) + lag for source, lag in before), default=begin[node])


def overlap(one: set[int], other: set[int]) -> float:
    """Return |A and B| / min(|A|, |B|), and 0 where a set is empty."""
    smaller = min(len(one), len(other))
    return len(one & other) / smaller if smaller else 0.0


def merge(intervals: Sequence[Interval], gap: int = 0) -> list[Interval]:
    """Unite intervals in order of start: extend the last one or open another."""
    merged: list[Interval] = []
    for start, end in sorted(intervals):
        if merged and start - merged[-1][1] <= gap:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return merged


def cut(interval: Interval, spans: Sequence[Interval]) -> list[tuple[int, int, int]]:
    """Return (span, start, end) of each part of an interval that lies in a span."""
    parts = [(i, max(interval[0], start), min(interval[1], end)) for i, (start, end) in enumerate(spans)]
    return [(i, start, end) for i, start, end in parts if end > start]


def tile(
    span: Interval, labelled: Sequence[tuple[int, int, int]], strongest: Sequence[int], fill: int
) -> list[tuple[int, int, int]]:
    """Label each unit of time by itself, then join equal neighbours to (start, end, label)."""
    pieces: list[tuple[int, int, int]] = []
    for moment in range(*span):
        active = {label for start, end, label in labelled if start <= moment < end}
        shown = next((label for label in strongest if label in active), fill)
        if pieces and pieces[-1][2] == shown:
            pieces[-1] = (pieces[-1][0], moment + 1, shown)
        else:
            pieces.append((moment, moment + 1, shown))
    return pieces


def mad(values: Sequence[float]) -> float:
    """Return the scaled median absolute deviation."""
    centre = median(values)
    return 1.482602218505602 * median(abs(value - centre) for value in values)


def quantile(values: Sequence[float], q: float) -> float:
    """Interpolate linearly between the order statistics around the position q (n - 1)."""
    ordered = sorted(values)
    position = q * (len(ordered) - 1)
    lower = math.floor(position)
    upper = min(lower + 1, len(ordered) - 1)
    return ordered[lower] + (position - lower) * (ordered[upper] - ordered[lower])


def two_class_threshold(values: Sequence[float], min_share: float) -> float:
    """Try every cut of the sorted logarithms; return the one with the greatest classification likelihood."""
    logs = sorted(math.log(value) for value in values)
    best: tuple[float, float] = (math.inf, math.exp(logs[-1]))
    for i in range(1, len(logs)):
        low, high = logs[:i], logs[i:]
        if high[0] - low[-1] <= 1e-9 or min(len(low), len(high)) < min_share * len(logs):
            continue
        means = sum(low) / len(low), sum(high) / len(high)
        squares = sum((v - means[0]) ** 2 for v in low) + sum((v - means[1]) ** 2 for v in high)
        share = len(low) / len(logs)
        entropy = -share * math.log(share) - (1 - share) * math.log(1 - share)
        cost = math.log(squares / len(logs)) / 2 + entropy if squares > 0 else -math.inf
        best = min(best, (cost, math.exp((low[-1] + high[0]) / 2)))
    return best[1]


def size_classes(values: Sequence[float], tolerance: float) -> list[int]:
    """Walk through the sorted sizes and open a class at every jump."""
    ordered = sorted(set(values))
    classes = {}
    current = 0
    for i, value in enumerate(ordered):
        if i and value - ordered[i - 1] > tolerance * ordered[i - 1]:
            current += 1
        classes[value] = current
    return [classes[value] for value in values]


def volume_cost(
    amounts: Sequence[float], preference: Sequence[float], ends: Sequence[int], tolerance: float, longest: int
) -> float:
    """Return the cost of a choice of ends, infinity if it is not allowed.

    A whole segment carries an amount of 1.
    """
    cost = 0.0
    begin = 0
    for end in ends:
        carried = sum(amounts[begin : end + 1])
        if end + 1 - begin > longest:
            return math.inf
        if begin > 0 or carried >= 1:  # the first segment may have begun before the data
            cost += min(((carried - 1) / tolerance) ** 2, 32.0 if carried > 1 else 16.0)
        cost -= preference[end]
        begin = end + 1
    return cost if sum(amounts[begin:]) < 0.99 else math.inf


def best_volume_cost(amounts: Sequence[float], preference: Sequence[float], tolerance: float, longest: int) -> float:
    """Return the least cost over all choices of ends."""
    items = range(len(amounts))
    choices = (ends for size in range(len(amounts) + 1) for ends in combinations(items, size))
    return min(volume_cost(amounts, preference, ends, tolerance, longest) for ends in choices)


class Run(NamedTuple):
    """A run of BOCD: its Normal-Inverse-Gamma posterior, number of data, joint log probability."""

    mu: float
    kappa: float
    alpha: float
    beta: float
    length: int
    log_joint: float


def student_t_log_density(x: float, run: Run) -> float:
    """Return the log predictive density of a run's next datum in textbook form."""
    freedom = 2 * run.alpha
    scale = math.sqrt(run.beta * (run.kappa + 1) / (run.alpha * run.kappa))
    z = (x - run.mu) / scale
    return (
        math.lgamma((freedom + 1) / 2)
        - math.lgamma(freedom / 2)
        - math.log(freedom * math.pi) / 2
        - math.log(scale)
        - (freedom + 1) / 2 * math.log1p(z * z / freedom)
    )


def log_sum(terms: Sequence[float]) -> float:
    """Return log(sum(exp(terms)))."""
    top = max(terms)
    return top + math.log(math.fsum(math.exp(term - top) for term in terms))


def grow(run: Run, x: float, log_weight: float) -> Run:
    """Return a run with one more datum.

    Its joint probability is multiplied by the predictive density and a weight.
    """
    return Run(
        mu=(run.kappa * run.mu + x) / (run.kappa + 1),
        kappa=run.kappa + 1,
        alpha=run.alpha + 0.5,
        beta=run.beta + run.kappa * (x - run.mu) ** 2 / (2 * (run.kappa + 1)),
        length=run.length + 1,
        log_joint=run.log_joint + student_t_log_density(x, run) + log_weight,
    )


def run_lengths(
    data: Sequence[float], prior: tuple[float, float, float, float], expected_run: float
) -> list[dict[int, float]]:
    """Return at each datum the posterior of the run length, by BOCD run by run.

    A run length is the number of earlier data in the run.
    """
    hazard = 1 / expected_run
    runs: list[Run] = []
    posterior = []
    for x in data:
        evidence = log_sum([run.log_joint for run in runs]) if runs else -math.log(hazard)
        runs.append(Run(*prior, length=0, log_joint=evidence))
        runs = [grow(run, x, math.log(hazard) if run.length == 0 else math.log1p(-hazard)) for run in runs]
        total = log_sum([run.log_joint for run in runs])
        posterior.append({run.length - 1: math.exp(run.log_joint - total) for run in runs})
    return posterior


def share_equal(symbols: Sequence[int], lag: int) -> float:
    """Return the share of symbols that equal the one `lag` later."""
    pairs = list(zip(symbols, symbols[lag:], strict=False))
    return sum(one == other for one, other in pairs) / len(pairs)


class Record(NamedTuple):
    """One record of a flow: its 5-tuple or a stand-in, times, exporter, bytes."""

    flow: tuple[int, ...]
    start: int
    end: int
    exporter: str
    size: int


def elect(records: Sequence[Record]) -> list[Record]:
    """Keep the exporter with most bytes among overlapping records of each 5-tuple."""
    kept = []
    for flow in sorted({record.flow for record in records}):
        mine = [record for record in records if record.flow == flow]
        for start, end in merge([(record.start, record.end) for record in mine]):
            one = [record for record in mine if start <= record.start and record.end <= end]
            seen = {record.exporter: 0 for record in one}
            for record in one:
                seen[record.exporter] += record.size
            elected = min(seen, key=lambda exporter: (-seen[exporter], exporter))
            kept += [record for record in one if record.exporter == elected]
    return sorted(kept)


def bursts(messages: Sequence[tuple[int, int, int]], gap: int) -> list[tuple[int, int, int]]:
    """Join messages at most a gap apart to (start, end, size)."""
    joined = []
    for start, end in merge([(start, end) for start, end, _ in messages], gap):
        inside = [size for begin, finish, size in messages if start <= begin and finish <= end]
        joined.append((start, end, sum(inside)))
    return joined
