"""What a check found: how much was asked, how long it took, and what is wrong."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from prism_ch.grafana.check.ask import Asked


@dataclass(slots=True)
class Findings:
    """What a check found: the queries of how many dashboards were asked, the slowest, the largest, the problems.

    Where times matter, `bounds_s` are the seconds within which 95 of 100 queries and all of them are to be answered,
    and `least_s` what a query of nothing took on the same machine.
    """

    dashboards: int = 0
    asked: list[tuple[str, float]] = field(default_factory=list)
    slowest: Asked | None = None
    largest: Asked | None = None
    problems: list[str] = field(default_factory=list)
    models_checked: bool = False
    bounds_s: tuple[float, float] | None = None
    least_s: float = 0.0

    def add(self, asked: Asked) -> None:
        """Take in what came of one query."""
        self.asked.append((str(asked.query), asked.seconds))
        self.problems += [line for found in asked.problems if (line := f"{asked.query}: {found}") not in self.problems]
        if self.slowest is None or asked.seconds > self.slowest.seconds:
            self.slowest = asked
        if asked.frame is not None and (self.largest is None or len(asked.frame.rows) > _rows(self.largest)):
            self.largest = asked

    def quantile_s(self, share: float) -> float:
        """Return the seconds within which a share of the queries was answered."""
        ordered = sorted(seconds for _, seconds in self.asked)
        return ordered[min(int(share * len(ordered)), len(ordered) - 1)] if ordered else 0.0

    def longer_than(self, bound_s: float) -> list[tuple[str, float]]:
        """Return the queries that took longer, and how long, the slowest first."""
        return sorted((each for each in self.asked if each[1] > bound_s), key=lambda each: -each[1])

    def lines(self) -> Iterator[str]:
        """Yield the report: counts, the slowest, the largest, and one line a problem."""
        queries = len({query for query, _ in self.asked})
        yield (
            f"{self.dashboards} dashboards, {queries} queries asked {len(self.asked):,} times: "
            f"median {self.quantile_s(0.5) * 1000:.0f} ms, p95 {self.quantile_s(0.95) * 1000:.0f} ms"
        )
        if self.slowest is not None:
            yield f"slowest: {self.slowest.seconds * 1000:,.0f} ms, {self.slowest.query}"
        if self.largest is not None:
            yield f"largest: {_rows(self.largest):,} rows, {self.largest.query}"
        if self.bounds_s is not None:
            p95, longest = (f"{bound * 1000:,.0f} ms" for bound in self.bounds_s)
            least = f"a query of nothing takes {self.least_s * 1000:.0f} ms here"
            yield f"bounds: p95 {p95}, longest {longest}; {least}"
        elif not self.models_checked:
            yield "not checked against Grafana's models: grafana-foundation-sdk is not installed"
        yield from (f"problem: {problem}" for problem in self.problems)
        yield f"problems: {len(self.problems)}"


def _rows(asked: Asked) -> int:
    """Count the rows of an answer."""
    return len(asked.frame.rows) if asked.frame is not None else 0
