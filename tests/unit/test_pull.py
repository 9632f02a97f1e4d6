"""Who orders and folds a pull of flows is chosen by what pulls have cost."""

from prism_ch.settings import Pushdown
from prism_ch.store.pull import PLANS, TRIALS, PullChoice, PullPlan

LARGE = 100_000


def test_each_plan_is_tried_and_then_the_cheapest_is_kept_to() -> None:
    choice = PullChoice()
    costs_s = dict(zip(PLANS, (0.03, 0.01, 0.02), strict=True))
    tried = []
    for _ in range(TRIALS * len(PLANS)):
        tried.append(choice.plan())
        choice.note(tried[-1], LARGE, costs_s[tried[-1]])
    assert {plan: tried.count(plan) for plan in PLANS} == dict.fromkeys(PLANS, TRIALS)
    assert choice.plan() is PLANS[1]
    choice.note(PLANS[1], LARGE, 9.0)
    assert choice.plan() is PLANS[1], "one stray does not change it"
    choice.note(PLANS[1], LARGE, 9.0)
    assert choice.plan() is PLANS[2], "two of the last three do"


def test_small_pulls_show_nothing() -> None:
    choice = PullChoice()
    for _ in range(10):
        choice.note(choice.plan(), 10, 5.0)
    assert choice.row_s == {}
    assert choice.plan() is PLANS[0]


def test_a_setting_leaves_no_choice() -> None:
    cases: dict[Pushdown, PullPlan] = {"engine": PLANS[1], "here": PLANS[2]}
    for pushdown, wanted in cases.items():
        choice = PullChoice(pushdown)
        choice.note(wanted, LARGE, 99.0)
        assert choice.plan() is wanted


def test_the_statements_differ_in_what_the_engine_does() -> None:
    orders, folds, neither = (plan.statement for plan in PLANS)
    assert "ORDER BY" in orders
    assert "LIMIT 1 BY" not in orders
    assert "LIMIT 1 BY" in folds
    assert folds.index("ORDER BY") < folds.index("LIMIT 1 BY")
    assert "ORDER BY" not in neither
    assert all(
        "SETTINGS output_format_arrow_low_cardinality_as_dictionary" in each for each in (orders, folds, neither)
    )
