"""A collector's INSERT is written anew from the names in it; everyone may run one query of settings."""

import pytest

from prism_ch.serve.permission import PermittedInsert, collector_insert, is_settings_query
from prism_ch.serve.request import RequestError, as_insert


def permitted(text: str, **settings: str) -> PermittedInsert:
    return collector_insert(as_insert(text), settings, "co", "prism")


@pytest.mark.parametrize(
    "text, written",
    [
        ("INSERT INTO flow_landing FORMAT CSV\n", "INSERT INTO `flow_landing` (* EXCEPT(landing, received_at))"),
        ("insert into prism.pmacct_lines (line) format LineAsString\n", "INSERT INTO `pmacct_lines` (`line`)"),
        ("INSERT INTO `prism`.`flow_landing`(a, `b`) FORMAT TSV\n", "INSERT INTO `flow_landing` (`a`, `b`)"),
    ],
)
def test_rows_for_a_landing_table_pass(text: str, written: str) -> None:
    assert permitted(text).text == written


def test_a_token_is_the_collectors_own() -> None:
    settings = {"insert_deduplication_token": "t", "max_threads": "9"}
    one = permitted("INSERT INTO flow_landing FORMAT CSV\n", **settings)
    assert "http co t" in one.settings.values()
    assert "max_threads" not in one.settings


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1",
        "INSERT INTO jobs_log FORMAT CSV\n",
        "INSERT INTO other.flow_landing FORMAT CSV\n",
        "INSERT INTO flow_landing VALUES (1)",
        "INSERT INTO flow_landing FORMAT Template\n",
        "INSERT INTO flow_landing",
        "INSERT INTO flow_landing (received_at) FORMAT CSV\n",
        "INSERT INTO flow_landing (a + 1) FORMAT CSV\n",
        "INSERT INTO flow_landing SETTINGS a = 1 FORMAT CSV\n",
        "INSERT INTO FUNCTION file('x') FORMAT CSV\n",
        "INSERT INTO flow_landing -- x\n FORMAT CSV\n",
    ],
)
def test_all_else_is_refused(text: str) -> None:
    with pytest.raises(RequestError) as raised:
        permitted(text)
    assert raised.value.name == "ACCESS_DENIED"


def test_only_the_settings_query_is_recognised() -> None:
    assert is_settings_query("SELECT name, value, readonly FROM system.settings LIMIT 10000")
    assert not is_settings_query("SELECT name, value, readonly FROM system.settings UNION ALL SELECT 1")
