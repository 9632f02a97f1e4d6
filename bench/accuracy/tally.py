"""Adds up the outcomes of scenarios, and gives the shares that bounds and tables show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from bench.accuracy.work import Outcome
from tests.scoring import Counts


@dataclass(frozen=True, slots=True)
class Tally:
    """Sums over scenarios.

    `misnumbered` counts jobs some of whose endpoints have another stage than is true; `step_error_sum` is of the
    relative errors of the durations of `timed` steps.
    """

    scenarios: int = 0
    jobs: Counts = field(default_factory=Counts)
    strangers: int = 0
    pairs: dict[str, Counts] = field(default_factory=dict)
    dp_groups: Counts = field(default_factory=Counts)
    chains: Counts = field(default_factory=Counts)
    misnumbered: int = 0
    steps: int = 0
    missed: int = 0
    extra: int = 0
    timed: int = 0
    step_error_sum: float = 0.0
    warnings: int = 0
    claims: Counter[tuple[float, bool]] = field(default_factory=Counter)
    cpu_s: float = 0.0
    errors: tuple[str, ...] = ()

    @classmethod
    def of(cls, outcome: Outcome) -> Tally:
        """Count one scenario."""
        if outcome.error:
            return cls(scenarios=1, errors=(outcome.error,))
        scores = outcome.scores
        return cls(
            scenarios=1,
            jobs=outcome.jobs,
            strangers=outcome.strangers,
            pairs=_added_by_kind(score.pairs for score in scores),
            dp_groups=sum((score.dp_groups for score in scores), Counts()),
            chains=sum((score.pp_chains for score in scores), Counts()),
            misnumbered=sum(not score.stages_exact for score in scores),
            steps=sum(score.steps for score in scores),
            missed=sum(score.missed for score in scores),
            extra=sum(score.extra for score in scores),
            timed=sum(score.timed for score in scores),
            step_error_sum=sum(score.duration_error * score.timed for score in scores if score.timed),
            warnings=outcome.warnings,
            claims=outcome.claims,
            cpu_s=outcome.cpu_s,
        )

    def __add__(self, other: Tally) -> Tally:
        return Tally(
            self.scenarios + other.scenarios,
            self.jobs + other.jobs,
            self.strangers + other.strangers,
            _added_by_kind((self.pairs, other.pairs)),
            self.dp_groups + other.dp_groups,
            self.chains + other.chains,
            self.misnumbered + other.misnumbered,
            self.steps + other.steps,
            self.missed + other.missed,
            self.extra + other.extra,
            self.timed + other.timed,
            self.step_error_sum + other.step_error_sum,
            self.warnings + other.warnings,
            self.claims + other.claims,
            self.cpu_s + other.cpu_s,
            self.errors + other.errors,
        )

    def jobs_precision(self) -> float | None:
        """Return the share of the found jobs that have exactly a true job's endpoints."""
        return self.jobs.precision if self.jobs.found else None

    def jobs_recall(self) -> float | None:
        """Return the share of the true jobs that were found with exactly their endpoints."""
        return self.jobs.recall if self.jobs.true else None

    def precision(self, kind: str) -> float | None:
        """Return the precision of the pairs of a kind; None without true or found pairs."""
        counts = self.pairs.get(kind, Counts())
        return counts.precision if counts.true + counts.found else None

    def recall(self, kind: str) -> float | None:
        """Return the recall of the pairs of a kind; None without true pairs."""
        counts = self.pairs.get(kind, Counts())
        return counts.recall if counts.true else None

    def dp_groups_exact(self) -> float | None:
        """Return the share of exact ones among true or found data-parallel groups."""
        return _exact(self.dp_groups)

    def chains_exact(self) -> float | None:
        """Return the share of true or found pipelines that are exact and in stage order."""
        return _exact(self.chains)

    def wrong_steps(self) -> float | None:
        """Return the steps missed and extra as a share of the true ones."""
        return (self.missed + self.extra) / self.steps if self.steps else None

    def step_error(self) -> float | None:
        """Return the mean relative error of the durations of steps."""
        return self.step_error_sum / self.timed if self.timed else None


def total(tallies: Iterable[Tally]) -> Tally:
    """Return the sum of tallies."""
    return sum(tallies, Tally())


def _exact(counts: Counts) -> float | None:
    """Return the share of right things among those that are true or found."""
    either = counts.true + counts.found - counts.right
    return counts.right / either if either else None


def _added_by_kind(parts: Iterable[dict[str, Counts]]) -> dict[str, Counts]:
    sums: dict[str, Counts] = {}
    for part in parts:
        for kind, counts in part.items():
            sums[kind] = sums.get(kind, Counts()) + counts
    return sums
