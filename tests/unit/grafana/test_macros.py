"""Variables and macros are expanded as Grafana and its ClickHouse plugin do."""

import pytest

from prism_ch.errors import GrafanaError
from prism_ch.grafana.queries import UNEXPANDED, Selection, TimeRange, expand

FROM_MS, TO_MS = 1_415_792_726_123, 1_447_328_726_456
RANGE = TimeRange(FROM_MS, TO_MS, 20_000)

# The plugin's own cases of its tests, and what its parser makes of the odd ones.
GOLDEN = [
    ("$__fromTime", "toDateTime(1415792726)"),
    ("$__toTime", "toDateTime(1447328726)"),
    ("$__fromTime_ms", "fromUnixTimestamp64Milli(1415792726123)"),
    ("$__toTime_ms", "fromUnixTimestamp64Milli(1447328726456)"),
    ("$__timeFilter(c)", "c >= toDateTime(1415792726) AND c <= toDateTime(1447328726)"),
    (
        "$__timeFilter(cast(sth as timestamp) )",
        "cast(sth as timestamp) >= toDateTime(1415792726) AND cast(sth as timestamp) <= toDateTime(1447328726)",
    ),
    (
        "$__timeFilter_ms(c)",
        "c >= fromUnixTimestamp64Milli(1415792726123) AND c <= fromUnixTimestamp64Milli(1447328726456)",
    ),
    ("$__dateFilter(d)", "d >= toDate('2014-11-12') AND d <= toDate('2015-11-12')"),
    (
        "$__dateTimeFilter(d, t)",
        (
            "(d >= toDate('2014-11-12') AND d <= toDate('2015-11-12'))"
            " AND (t >= toDateTime(1415792726) AND t <= toDateTime(1447328726))"
        ),
    ),
    (
        "$__dt(d, t)",
        (
            "(d >= toDate('2014-11-12') AND d <= toDate('2015-11-12'))"
            " AND (t >= toDateTime(1415792726) AND t <= toDateTime(1447328726))"
        ),
    ),
    ("$__timeInterval(c)", "toStartOfInterval(toDateTime(c), INTERVAL 20 second)"),
    ("$__timeInterval_ms(c)", "toStartOfInterval(toDateTime64(c, 3), INTERVAL 20000 millisecond)"),
    ("$__interval_s", "20"),
    ("( t >= $__fromTime ) AND x", "( t >= toDateTime(1415792726) ) AND x"),
    ("$__interval_seconds $__nonsense(a)", "$__interval_seconds $__nonsense(a)"),
    ("1 -- $__fromTime\n2", "1               \n2"),
    ("1 /* $__timeFilter() */ 2", "1                       2"),
    ("'-- no comment' $__interval_s", "'-- no comment' 20"),
    ("$__timeInterval(if(a = ')', b, c))", "toStartOfInterval(toDateTime(if(a = ')', b, c)), INTERVAL 20 second)"),
    ("$__interval_s(", "20("),
]


@pytest.mark.parametrize("sql, expanded", GOLDEN)
def test_macro_expanded_as_the_plugin_does(sql: str, expanded: str) -> None:
    assert expand(sql, RANGE) == expanded


@pytest.mark.parametrize("sql", ["$__timeFilter()", "$__timeFilter(a, b)", "$__dateTimeFilter(a)", "$__timeInterval"])
def test_macro_refused_with_wrong_number_of_arguments(sql: str) -> None:
    with pytest.raises(GrafanaError, match="takes"):
        expand(sql, RANGE)


def test_interval_in_seconds_is_at_least_one() -> None:
    assert expand("$__interval_s", TimeRange(FROM_MS, TO_MS, 250)) == "1"
    assert "INTERVAL 250 millisecond" in expand("$__timeInterval_ms(c)", TimeRange(FROM_MS, TO_MS, 250))


@pytest.mark.parametrize(
    "sql, values, expanded",
    [
        ("${v:sqlstring}", ("a",), "'a'"),
        ("${v:sqlstring}", ("a", "o'b"), "'a','o''b'"),
        ("$v ${v} ${v:csv} ${w:sqlstring}", ("a",), "$v ${v} ${v:csv} ${w:sqlstring}"),
    ],
)
def test_only_known_variables_that_are_quoted_are_expanded(sql: str, values: tuple[str, ...], expanded: str) -> None:
    assert expand(sql, RANGE, {"v": Selection(values)}) == expanded


@pytest.mark.parametrize(
    "length_s, interval_ms", [(60, 1000), (3600, 12_000), (3 * 3600, 36_000), (604_800, 2_016_000)]
)
def test_interval_chosen_for_about_300_points(length_s: int, interval_ms: int) -> None:
    assert TimeRange.until(1_000_000, length_s) == TimeRange((1_000_000 - length_s) * 1000, 1_000_000_000, interval_ms)


CONDITION = "$__conditionalAll(job_id IN (${job:sqlstring}), $job) AND x"


@pytest.mark.parametrize(
    "selection, expanded",
    [
        (Selection(("a", "b")), "job_id IN ('a','b') AND x"),
        (Selection(("a", "b"), is_all=True), "1=1 AND x"),
        (Selection(()), "1=1 AND x"),
    ],
)
def test_conditional_all_dropped_if_all_is_selected(selection: Selection, expanded: str) -> None:
    assert expand(CONDITION, RANGE, {"job": selection}) == expanded


def test_conditional_all_of_another_form_stays() -> None:
    assert expand("$__conditionalAll(a)", RANGE, {}) == "$__conditionalAll(a)"
    assert expand("$__conditionalAll(a, $no)", RANGE, {}) == "a"


def test_alert_rule_has_no_variables() -> None:
    sql = "SELECT $__interval_s, ${v:sqlstring}"
    assert expand(sql, RANGE) == "SELECT 20, ${v:sqlstring}"
    assert expand(sql, RANGE, {"v": Selection(("1",))}) == "SELECT 20, '1'"
    assert UNEXPANDED.search(expand(sql, RANGE))
    assert not UNEXPANDED.search(expand(sql, RANGE, {"v": Selection(("1",))}))
