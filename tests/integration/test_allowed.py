"""What statements may be made of, compared with what the engine knows."""

import pytest

from prism_ch.errors import UsageError
from prism_ch.query.allowed import FORMATS, SETTABLE, SYSTEM_TABLES, is_refused_function, may_be_called
from prism_ch.query.answer import answer
from prism_ch.query.gate import scope
from prism_ch.store.client import Store
from tools.function_dump import dump_functions


def test_function_outside_the_pure_families_is_refused(store: Store) -> None:
    for line in dump_functions(store).splitlines():
        name = line.removeprefix("!")
        if line.startswith("!") and name != "in" and not name.lower().endswith("in"):
            assert not may_be_called(name, as_word=False), name


@pytest.mark.parametrize(
    "name",
    [
        "file",
        "FILE",
        "fileIf",
        "url",
        "s3",
        "remote",
        "merge",
        "mergeTreeIndex",
        "executable",
        "dictGet",
        "joinGet",
        "sleep",
        "hostName",
        "getSetting",
        "throwIf",
        "catboostEvaluate",
        "aiGenerate",
        "addressToLine",
        "input",
        "view",
        "loop",
        "",
    ],
)
def test_what_reaches_outside_is_no_word_of_ours(name: str) -> None:
    assert not may_be_called(name)
    assert not may_be_called(name, as_word=False)


@pytest.mark.parametrize(
    "name", ["sum", "sumIf", "quantileExactIf", "argMaxMerge", "toStartOfHour", "DATE_DIFF", "count"]
)
def test_what_computes_may_be_called(name: str) -> None:
    assert may_be_called(name)
    assert not is_refused_function(name)


def test_settings_tables_and_formats_are_known_to_the_engine(store: Store) -> None:
    known = {
        kind: {name for (name,) in store.rows(f"SELECT name FROM system.{kind}{where}")}  # noqa: S608 - names of the engine
        for kind, where in {
            "settings": "",
            "formats": " WHERE is_output",
            "tables": " WHERE database = 'system'",
        }.items()
    }
    assert SETTABLE.keys() <= known["settings"]
    assert known["formats"] >= FORMATS
    assert known["tables"] >= SYSTEM_TABLES


@pytest.mark.parametrize("table", sorted(SYSTEM_TABLES))
def test_an_operator_can_read_the_system_tables(store: Store, table: str) -> None:
    assert answer(store, f"SELECT * FROM system.{table} LIMIT 0").rows == ()  # noqa: S608 - names of the engine


def test_setting_in_clause_overrides_that_of_client() -> None:
    asked = scope("SELECT 1 SETTINGS max_threads = 2 FORMAT CSV;", "prism", settings={"max_threads": "3", "limit": "5"})
    assert asked.text == "SELECT 1"
    assert asked.format == "CSV"
    assert asked.settings["max_threads"] == "2"
    assert asked.settings["limit"] == "5"
    assert list(asked.settings)[-1] == "readonly"
    with pytest.raises(UsageError, match="readonly"):
        scope("SELECT 1", "prism", settings={"readonly": "0"})
