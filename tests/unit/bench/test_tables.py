from collections import Counter

import pytest

from bench.accuracy.bounds import BOUNDS
from bench.accuracy.calibration import bins, expected_error
from bench.accuracy.layout import fault, line, markdown, share, table
from bench.accuracy.report import ROW_COLUMNS, bounds_table, row_cells
from bench.accuracy.rows import CLEAN, PLAIN, Row
from bench.accuracy.tally import Tally
from bench.accuracy.work import Outcome


def test_shares_are_never_rounded_towards_what_they_should_be() -> None:
    assert [share(value) for value in (1.0, 0.99999, 0.9995, 0.5, 0.0, None)] == [
        "100%",
        "99.99%",
        "99.95%",
        "50%",
        "0%",
        "-",
    ]
    assert [fault(value) for value in (0.0, 1e-9, 0.001, 0.00101, None)] == ["0%", "0.001%", "0.1%", "0.101%", "-"]


def test_tables_are_laid_out_in_columns() -> None:
    assert table(["name", "n", "why"], [["a", "10", "long words"], ["bc", "9", ""]], prose=True) == [
        "name   n  why",
        "a     10  long words",
        "bc     9",
    ]
    assert markdown(["name", "n"], [["a", "1"]]) == ["| name | n |", "| --- | ---: |", "| a | 1 |"]


def test_a_scenario_that_failed_is_a_row_with_its_reason() -> None:
    cells = row_cells(Row(PLAIN, CLEAN), Tally.of(Outcome(error="StoreError: broken")))
    laid_out = line(cells, (20, *ROW_COLUMNS.values()))
    assert laid_out.startswith(PLAIN)
    assert laid_out.endswith("1 of 1 failed, first with StoreError: broken")


def test_confidence_is_compared_with_how_often_it_is_right() -> None:
    claims = Counter({(0.9, True): 9, (0.9, False): 1, (0.999, True): 30})
    low, high = bins(claims)
    assert (low.low, low.high, low.pairs, low.confidence, low.right) == pytest.approx((0.9, 0.95, 10, 0.9, 0.9))
    assert (high.high, high.pairs, high.right) == (1.0, 30, 1.0)
    assert expected_error([low, high]) == pytest.approx(30 * 0.001 / 40)
    assert expected_error([]) == 0.0


def test_bounds_on_rows_are_shown_if_there_are_rows() -> None:
    checks = {"shuffled": [("a", True), ("b", True)], "duplicated": [("a", True), ("b", False)]}
    same = [
        ("shuffled: same results", "always", "2 of 2", "yes", ""),
        ("duplicated: same results", "always", "1 of 2", "no", "b"),
    ]
    assert bounds_table([], checks).rows == same
    assert bounds_table([(Row(PLAIN, CLEAN), Tally())], checks).rows[len(BOUNDS) :] == same
