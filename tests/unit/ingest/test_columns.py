"""Which columns a file must have, may have, and must not have twice."""

import pytest

from prism_ch.errors import InputError
from prism_ch.ingest.columns import COLUMNS, OPTIONAL, REQUIRED, constant, find_columns


def test_columns_are_found_in_any_order_and_case() -> None:
    names = ["other", *(f" {name.upper()} " for name in reversed(COLUMNS)), "other"]
    found = find_columns(names, "flows.csv")
    assert found == {name: len(COLUMNS) - number for number, name in enumerate(COLUMNS)}


def test_optional_columns_may_be_missing() -> None:
    assert list(find_columns(REQUIRED, "flows.csv")) == list(REQUIRED)
    assert not set(REQUIRED) & set(OPTIONAL)


@pytest.mark.parametrize("missing", REQUIRED)
def test_error_names_the_missing_and_the_expected_columns(missing: str) -> None:
    names = [name for name in COLUMNS if name != missing]
    with pytest.raises(InputError, match=f"^flows.csv: has no column {missing}; expected are time_flow_start_ns, "):
        find_columns(names, "flows.csv")


def test_the_error_suggests_that_there_is_no_header() -> None:
    with pytest.raises(
        InputError, match=r"found are ('17', '4', ){10}\.\.\.; is the line with the names of the columns"
    ):
        find_columns(["17", "4"] * 30, "flows.csv")


def test_a_column_must_not_be_there_twice() -> None:
    with pytest.raises(InputError, match=r"^flows\.csv: has more than one column bytes; leave one of each$"):
        find_columns([*COLUMNS, "Bytes"], "flows.csv")


def test_a_constant_column() -> None:
    assert constant("a", 3).to_pylist() == ["a", "a", "a"]
    assert constant("a", 0).to_pylist() == []
