"""Checks the dashboards on a made-up cluster, or times their queries there with --bench."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from tempfile import TemporaryDirectory
from time import time
from typing import Any

from prism_ch.cli.terminal import progress
from prism_ch.grafana.organisations import dashboards_of, is_tenants, shipped_dashboards
from prism_ch.grafana.queries import TimeRange
from prism_ch.store.client import Store, connect
from prism_ch.store.migrate import migrate
from tools.dashboards import ask, structure
from tools.dashboards.ask import Answer
from tools.dashboards.sample import HANG, LARGE, MANY, SMALL, SampleCluster, fill, settle

Dashboards = Mapping[str, Mapping[str, Any]]

#: Bounds of --bench: 95 of 100 queries answer within the first, all within the second; seconds.
P95_MAX_S, LONGEST_MAX_S = 0.2, 1.0
#: Whose GPUs are most in the large cluster.
LARGEST_TENANT = "acme"
_HOUR_S = 3600


@dataclass(slots=True)
class Report:
    """The results of a check.

    `empty_query_s` is the duration of an empty query on this machine, None unless queries were timed; `rules_p95_s` is
    that within which 95 of 100 queries of alert rules answered.
    """

    dashboards: int = 0
    durations_s: list[tuple[str, float]] = field(default_factory=list)
    largest: tuple[int, str] = (0, "")
    problems: list[str] = field(default_factory=list)
    empty_query_s: float | None = None
    rules_p95_s: float = 0.0

    def add(self, answer: Answer) -> None:
        """Add one answer."""
        place = str(answer.query)
        self.durations_s.append((place, answer.duration_s))
        found = (f"{place}: {problem}" for problem in answer.problems)
        self.problems += [problem for problem in found if problem not in self.problems]
        if answer.frame is not None:
            self.largest = max(self.largest, (len(answer.frame.rows), place), key=lambda each: each[0])

    def quantile_s(self, share: float) -> float:
        """Return the seconds within which a share of the queries answered."""
        ordered = sorted(duration_s for _, duration_s in self.durations_s)
        return ordered[min(int(share * len(ordered)), len(ordered) - 1)] if ordered else 0.0

    def lines(self) -> Iterator[str]:
        """Yield the report: counts, the slowest, the largest, and one line a problem."""
        places = {place for place, _ in self.durations_s}
        yield (
            f"{self.dashboards} dashboards, {len(places)} queries asked {len(self.durations_s):,} times: "
            f"median {self.quantile_s(0.5) * 1000:.0f} ms, p95 {self.quantile_s(0.95) * 1000:.0f} ms"
        )
        if self.durations_s:
            place, duration_s = max(self.durations_s, key=lambda each: each[1])
            yield f"slowest: {duration_s * 1000:,.0f} ms, {place}"
            yield f"largest: {self.largest[0]:,} rows, {self.largest[1]}"
        if self.empty_query_s is not None:
            bounds = f"p95 {P95_MAX_S * 1000:,.0f} ms, longest {LONGEST_MAX_S * 1000:,.0f} ms"
            yield f"alert rules: p95 {self.rules_p95_s * 1000:.0f} ms"
            yield f"bounds: {bounds}; a query of nothing takes {self.empty_query_s * 1000:.0f} ms here"
        yield from (f"problem: {problem}" for problem in self.problems)
        yield f"problems: {len(self.problems)}"


def check(store: Store, dashboards: Dashboards, *time_ranges: TimeRange) -> Report:
    """Check dashboards: their JSON, what their queries answer, and that tenants see nothing of others.

    Parameters: `time_ranges` to ask for; the store has data for all of the first.
    """
    report = Report(len(dashboards))
    for uid, dashboard in _with_progress(dashboards, "checking the dashboards"):
        report.problems += structure.problems(uid, dashboards)
        for answer in ask.ask_all(store, uid, dashboard, time_ranges):
            report.add(answer)
        if is_tenants(dashboard):
            for answer in ask.ask_as_tenants(store, uid, dashboard, time_ranges[0]):
                report.add(answer)
    return report


def time_queries(store: Store, dashboards: Dashboards, time_range: TimeRange, tenant: str | None = None) -> Report:
    """Time each query of dashboards as they open, and those of alert rules.

    Parameters: `tenant`, who asks, None for an operator. Times beyond the bounds are problems, and what misleads.
    """
    report = Report(len(dashboards))
    for uid, dashboard in _with_progress(dashboards, "timing the dashboards' queries"):
        for answer in ask.time_all(store, uid, dashboard, time_range, tenant):
            report.add(answer)
    rules = Report()
    for answer in ask.time_rules(store, time_range.to_ms // 1000, tenant):
        rules.add(answer)
    report.durations_s += rules.durations_s
    report.rules_p95_s = rules.quantile_s(0.95)
    report.empty_query_s = ask.duration_s(store, "SELECT 1")
    for what, p95_s in (("queries", report.quantile_s(0.95)), ("queries of alert rules", report.rules_p95_s)):
        if p95_s > P95_MAX_S:
            report.problems.append(f"95 of 100 {what} are answered within {p95_s:.3f} s, not {P95_MAX_S} s")
    report.problems += [
        f"{place}: takes {duration_s:.3f} s, more than {LONGEST_MAX_S} s"
        for place, duration_s in sorted(report.durations_s, key=lambda each: -each[1])
        if duration_s > LONGEST_MAX_S
    ]
    return report


def open_all(report: Report, store: Store, dashboards: Dashboards, time_range: TimeRange) -> None:
    """Ask every query as its dashboard opens; a panel may have nothing to show."""
    for uid, dashboard in _with_progress(dashboards, "opening the dashboards"):
        for answer in ask.ask_opened(store, uid, dashboard, time_range):
            report.add(answer)


def main(*, bench: bool) -> int:
    """Check the shipped dashboards, or time them; return the exit status."""
    with sample_store(LARGE if bench else SMALL) as (store, time_range):
        dashboards = shipped_dashboards()
        if bench:
            settle(store)
            reports = {
                "an operator": time_queries(store, dashboards, time_range),
                f"the tenant {LARGEST_TENANT}": time_queries(
                    store, dashboards_of(LARGEST_TENANT), time_range, LARGEST_TENANT
                ),
            }
        else:
            reports = {"operators and tenants": check(store, dashboards, time_range)}
    for cluster in () if bench else (MANY, HANG, None):
        with sample_store(cluster) as (store, time_range):
            open_all(reports["operators and tenants"], store, dashboards, time_range)
    for who, report in reports.items():
        print(f"as {who}:")
        for line in report.lines():
            print(line)
    return 1 if any(report.problems for report in reports.values()) else 0


@contextmanager
def sample_store(cluster: SampleCluster | None) -> Iterator[tuple[Store, TimeRange]]:
    """Provide the database and time range of a sample cluster. It is empty without one."""
    end_s = int(time()) // _HOUR_S * _HOUR_S
    with TemporaryDirectory(prefix="prism-ch-check-") as folder, connect(f"chdb://{folder}") as store:
        migrate(store)
        if cluster is not None:
            fill(store, cluster, end_s)
        yield store, TimeRange.until(end_s, (cluster or SMALL).hours * _HOUR_S)


def _with_progress(dashboards: Dashboards, what: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the dashboards, and show on a terminal how many are done."""
    with progress(what) as report:
        for done, each in enumerate(dashboards.items(), start=1):
            yield each
            if report is not None:
                report(done, len(dashboards))


if __name__ == "__main__":
    sys.exit(main(bench="--bench" in sys.argv[1:]))
