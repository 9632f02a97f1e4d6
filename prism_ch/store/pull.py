"""Which operators of a pull of flows the engine works, and which are worked here: each has both forms.

They give the same rows in the same order, to the last digit, so that nothing but the cost depends on the choice.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field
from functools import cache

from prism_ch.settings import Pushdown
from prism_ch.store.statements import statement

#: Pulls of fewer rows do not show what a row costs.
_ENOUGH_ROWS = 50_000
#: How often each plan is tried before the cheapest is kept to: the median of three does not heed one stray.
TRIALS = 3


@dataclass(frozen=True, slots=True)
class PullPlan:
    """Whether the engine orders the rows, and whether it folds exact repeats as well; what it does not is done here."""

    orders: bool = True
    folds: bool = False

    @property
    def name(self) -> str:
        """Name who does what."""
        if not self.orders:
            return "ordered and folded here"
        return "ordered and folded by the engine" if self.folds else "ordered by the engine, folded here"

    @property
    def statement(self) -> str:
        """Return the statement that pulls flows by this plan."""
        return _statement(orders=self.orders, folds=self.folds)


#: All plans; the first is taken where nothing is known of what they cost.
PLANS = (PullPlan(), PullPlan(folds=True), PullPlan(orders=False))
#: What each choice leaves to choose among.
AMONG: dict[Pushdown, tuple[PullPlan, ...]] = {"auto": PLANS, "engine": PLANS[1:2], "here": PLANS[2:]}


@cache
def _statement(*, orders: bool, folds: bool) -> str:
    """Leave the order out of read_flows.sql, or fold repeats by it.

    Its keys are all that makes a record but the last, the way: of repeats the first by that is kept.
    """
    text = statement("read_flows")
    before, _, rest = text.partition("ORDER BY")
    keys, _, settings = rest.partition("SETTINGS")
    record = keys.rpartition(",")[0]
    order = f"ORDER BY{keys}" if orders else ""
    return f"{before}{order}{f'LIMIT 1 BY{record} ' if folds else ''}SETTINGS{settings}"


@dataclass(slots=True)
class PullChoice:
    """Chooses a plan for each pull, by what pulls have cost: `row_s`, seconds of the processor a row, by plan.

    Nothing of it outlasts a restart, after which each plan is tried again.
    """

    pushdown: Pushdown = "auto"
    row_s: dict[PullPlan, list[float]] = field(default_factory=dict)

    def note(self, plan: PullPlan, rows: int, cost_s: float) -> None:
        """Note what a pull has cost; small ones do not show what a row costs."""
        if rows >= _ENOUGH_ROWS:
            self.row_s.setdefault(plan, []).append(cost_s / rows)
            del self.row_s[plan][:-TRIALS]

    def plan(self) -> PullPlan:
        """Return a plan that was not tried often enough, or the cheapest."""
        plans = AMONG[self.pushdown]
        untried = [plan for plan in plans if len(self.row_s.get(plan, ())) < TRIALS]
        return untried[0] if untried else min(plans, key=lambda plan: statistics.median(self.row_s[plan]))
