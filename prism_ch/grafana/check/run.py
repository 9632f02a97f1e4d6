"""Checks dashboards on a database that a made-up cluster fills, or times their queries there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from tempfile import TemporaryDirectory
from time import time
from typing import Any

from prism_ch.grafana.check import ask, structure, tenancy
from prism_ch.grafana.check.findings import Findings
from prism_ch.grafana.macros import Span
from prism_ch.grafana.sample import LARGE, SMALL, SampleCluster, fill, settle
from prism_ch.grafana.wanted import shipped_dashboards
from prism_ch.store.client import Store, connect
from prism_ch.store.migrate import migrate

Dashboards = Mapping[str, Mapping[str, Any]]
#: Takes note of how many dashboards are done, and of how many there are.
Report = Callable[[int, int], None]

#: How many points a panel asks for, which sets the interval.
POINTS = 300
#: Bounds of --bench: within what 95 of 100 queries are to be answered, and all of them; seconds.
P95_S, LONGEST_S = 0.2, 1.0
_HOUR_S = 3600


def check_shipped(*, bench: bool, report: Report | None = None) -> Findings:
    """Check the shipped dashboards on a small cluster, or time their queries on a large one."""
    cluster = LARGE if bench else SMALL
    dashboards = shipped_dashboards()
    with made(cluster) as (store, end_s):
        every = span(end_s, cluster.hours)
        if not bench:
            return check(store, dashboards, every, report=report)
        settle(store)
        return time_queries(store, dashboards, every, report=report)


def check(store: Store, dashboards: Dashboards, every: Span, *more: Span, report: Report | None = None) -> Findings:
    """Check dashboards: their form, what their queries answer, and that tenants see nothing of others.

    Parameters: `every`, all of the time that the store has data for; `more`, other spans to ask for.
    """
    findings = Findings(dashboards=len(dashboards), models_checked=find_spec("grafana_foundation_sdk") is not None)
    for uid, dashboard in _reported(dashboards, report):
        findings.problems += structure.problems(uid, dashboards)
        if findings.models_checked:
            from prism_ch.grafana.check import models  # noqa: PLC0415 - needs a library that is not always there

            findings.problems += models.problems(uid, dashboard)
        for asked in ask.all_of(store, uid, dashboard, (every, *more)):
            findings.add(asked)
        if tenancy.for_tenants(dashboard):
            for asked in tenancy.all_of(store, uid, dashboard, every):
                findings.add(asked)
    return findings


def time_queries(store: Store, dashboards: Dashboards, every: Span, *, report: Report | None = None) -> Findings:
    """Ask each query as it is when its dashboard opens on all of the time; the middle one of three counts."""
    findings = Findings(dashboards=len(dashboards), bounds_s=(P95_S, LONGEST_S))
    for uid, dashboard in _reported(dashboards, report):
        for asked in ask.as_opened(store, uid, dashboard, every):
            findings.add(asked)
    findings.least_s = ask.least_s(store)
    if findings.quantile_s(0.95) > P95_S:
        findings.problems.append(
            f"95 of 100 queries are answered within {findings.quantile_s(0.95):.3f} s, not {P95_S} s"
        )
    slow = [
        f"{query}: takes {seconds:.3f} s, more than {LONGEST_S} s" for query, seconds in findings.longer_than(LONGEST_S)
    ]
    findings.problems += slow
    return findings


def _reported(dashboards: Dashboards, report: Report | None) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the dashboards, and report each once it is done."""
    for done, item in enumerate(dashboards.items(), start=1):
        yield item
        if report is not None:
            report(done, len(dashboards))


def span(end_s: int, hours: float) -> Span:
    """Return the hours up to a second, with the interval that Grafana would choose."""
    length_ms = int(hours * _HOUR_S * 1000)
    return Span(end_s * 1000 - length_ms, end_s * 1000, max(length_ms // POINTS // 1000 * 1000, 1000))


@contextmanager
def made(cluster: SampleCluster) -> Iterator[tuple[Store, int]]:
    """Make a cluster up for the length of a block; yield its database and the second when its data end."""
    end_s = int(time()) // _HOUR_S * _HOUR_S
    with TemporaryDirectory(prefix="prism-ch-check-") as folder, connect(f"chdb://{folder}") as store:
        migrate(store)
        fill(store, cluster, end_s)
        yield store, end_s
