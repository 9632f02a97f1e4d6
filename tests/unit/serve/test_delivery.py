"""A collector's INSERT is written anew from the names in it, and all else is refused."""

import pytest

from prism_ch.serve.delivery import Delivery, delivery_of
from prism_ch.serve.refusal import Refusal
from prism_ch.serve.statement import as_insert


def delivered(text: str, **asked: str) -> Delivery:
    return delivery_of(as_insert(text), asked, "co", "prism")


@pytest.mark.parametrize(
    "text, written",
    [
        ("INSERT INTO flow_landing FORMAT CSV\n", "INSERT INTO `flow_landing` (* EXCEPT(landing, received_at))"),
        ("insert into prism.pmacct_lines (line) format LineAsString\n", "INSERT INTO `pmacct_lines` (`line`)"),
        ("INSERT INTO `prism`.`flow_landing`(a, `b`) FORMAT TSV\n", "INSERT INTO `flow_landing` (`a`, `b`)"),
    ],
)
def test_rows_for_a_landing_table_pass(text: str, written: str) -> None:
    assert delivered(text).text == written


def test_a_token_is_the_collectors_own() -> None:
    asked = {"insert_deduplication_token": "t", "max_threads": "9"}
    one = delivered("INSERT INTO flow_landing FORMAT CSV\n", **asked)
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
    with pytest.raises(Refusal) as refused:
        delivered(text)
    assert refused.value.name == "ACCESS_DENIED"
