import pytest

from prism_ch.errors import GrafanaError
from prism_ch.grafana.macros import UNEXPANDED, Choice, Span, expand, expand_macros, interpolate

FROM_MS, TO_MS = 1_415_792_726_123, 1_447_328_726_456
SPAN = Span(FROM_MS, TO_MS, 20_000)

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
def test_macros_as_the_plugin_expands_them(sql: str, expanded: str) -> None:
    assert expand_macros(sql, SPAN) == expanded


@pytest.mark.parametrize("sql", ["$__timeFilter()", "$__timeFilter(a, b)", "$__dateTimeFilter(a)", "$__timeInterval"])
def test_a_wrong_number_of_arguments_is_an_error(sql: str) -> None:
    with pytest.raises(GrafanaError, match="takes"):
        expand_macros(sql, SPAN)


def test_intervals_below_a_second_are_one() -> None:
    assert expand_macros("$__interval_s", Span(FROM_MS, TO_MS, 250)) == "1"
    assert "INTERVAL 250 millisecond" in expand_macros("$__timeInterval_ms(c)", Span(FROM_MS, TO_MS, 250))


@pytest.mark.parametrize(
    "sql, values, expanded",
    [
        ("${v:sqlstring}", ("a",), "'a'"),
        ("${v:sqlstring}", ("a", "o'b"), "'a','o''b'"),
        ("${v:singlequote}", ("a", "o'b"), r"'a','o\'b'"),
        ("${v:csv}", ("a", "b"), "a,b"),
        ("($v)", ("a", "b"), "('a','b')"),
        ("[[v]]", ("a",), "'a'"),
        ("$w ${w:raw} $__unknown", ("a",), "$w ${w:raw} $__unknown"),
    ],
)
def test_variables_as_grafana_writes_them(sql: str, values: tuple[str, ...], expanded: str) -> None:
    assert interpolate(sql, SPAN, {"v": Choice(values, several=True)}) == expanded


def test_a_single_value_stands_bare_unless_a_format_is_named() -> None:
    assert interpolate("$v ${v:sqlstring}", SPAN, {"v": Choice(("a",))}) == "a 'a'"


def test_unknown_formats_are_refused() -> None:
    with pytest.raises(GrafanaError, match="percentencode"):
        interpolate("${v:percentencode}", SPAN, {"v": Choice(("a",))})


@pytest.mark.parametrize(
    "interval_ms, text",
    [(250, "250ms"), (1500, "1500ms"), (20_000, "20s"), (120_000, "2m"), (7_200_000, "2h"), (86_400_000, "1d")],
)
def test_built_in_variables(interval_ms: int, text: str) -> None:
    found = interpolate("$__interval ${__interval_ms} $__from $__to", Span(1, 2, interval_ms), {})
    assert found == f"{text} {interval_ms} 1 2"


CONDITION = "$__conditionalAll(job_id IN (${job:sqlstring}), $job) AND x"


@pytest.mark.parametrize(
    "choice, expanded",
    [
        (Choice(("a", "b"), several=True), "job_id IN ('a','b') AND x"),
        (Choice(("a", "b"), several=True, everything=True), "1=1 AND x"),
        (Choice((), several=True), "1=1 AND x"),
    ],
)
def test_conditional_all(choice: Choice, expanded: str) -> None:
    assert interpolate(CONDITION, SPAN, {"job": choice}) == expanded


def test_conditional_all_of_another_form_stays() -> None:
    assert interpolate("$__conditionalAll(a)", SPAN, {}) == "$__conditionalAll(a)"
    assert interpolate("$__conditionalAll(a, $no)", SPAN, {}) == "a"


def test_an_alert_rule_never_sees_the_browser() -> None:
    sql = "SELECT $__interval_s, $v"
    assert expand(sql, SPAN) == "SELECT 20, $v"
    assert expand(sql, SPAN, {"v": Choice(("1",))}) == "SELECT 20, 1"
    assert UNEXPANDED.search(expand(sql, SPAN))
    assert not UNEXPANDED.search(expand(sql, SPAN, {"v": Choice(("1",))}))
