"""What is wrong with a dashboard's JSON is found, and the shipped ones are sound."""

import copy
from collections.abc import Callable
from typing import Any

import pytest

from prism_ch.grafana.organisations import shipped_dashboards
from tools.dashboards import structure

UID = "prism-job"


Change = Callable[[dict[str, Any]], None]


def found_after(change: Change) -> list[str]:
    dashboards = {uid: copy.deepcopy(dict(dashboard)) for uid, dashboard in shipped_dashboards().items()}
    change(dashboards[UID])
    return list(structure.problems(UID, dashboards))


def move(dashboard: dict[str, Any]) -> None:
    dashboard["panels"][1]["gridPos"] = dict(dashboard["panels"][0]["gridPos"])


def widen(dashboard: dict[str, Any]) -> None:
    dashboard["panels"][1]["gridPos"]["w"] = 23


def same_id(dashboard: dict[str, Any]) -> None:
    dashboard["panels"][1]["id"] = 1


def untitled(dashboard: dict[str, Any]) -> None:
    dashboard["panels"][1]["description"] = ""


def other_source(dashboard: dict[str, Any]) -> None:
    dashboard["panels"][1]["targets"][0]["datasource"]["uid"] = "abc123"


def lost_link(dashboard: dict[str, Any]) -> None:
    dashboard["panels"][1]["links"] = [{"url": "/d/prism-nowhere?x=1"}]


def lost_variable(dashboard: dict[str, Any]) -> None:
    dashboard["panels"][1]["links"] = [{"url": "/d/prism-job?var-rank=1"}]


def bare(dashboard: dict[str, Any]) -> None:
    dashboard["panels"][1]["targets"][0]["rawSql"] = "SELECT 1 WHERE job_id = '$job'"


def unknown(dashboard: dict[str, Any]) -> None:
    dashboard["panels"][1]["targets"][0]["rawSql"] = "SELECT ${rank:sqlstring}"


def renamed(dashboard: dict[str, Any]) -> None:
    dashboard["uid"] = "other"


def unknown_unit(dashboard: dict[str, Any]) -> None:
    dashboard["panels"][2]["fieldConfig"]["defaults"]["unit"] = "parsecs"


def unknown_field(dashboard: dict[str, Any]) -> None:
    dashboard["panels"][2]["colour"] = "red"


def foreign_target(dashboard: dict[str, Any]) -> None:
    dashboard["panels"][2]["targets"][0]["sql"] = "SELECT 1"


@pytest.mark.parametrize(
    "change, problem",
    [
        (move, "lie on one another"),
        (widen, "reaches out of the 24 columns"),
        (same_id, "the id 1 is used twice"),
        (untitled, "has no description"),
        (other_source, "names the data source"),
        (lost_link, "leads to prism-nowhere"),
        (lost_variable, "sets var-rank"),
        (bare, "puts $job into SQL without quotes"),
        (unknown, "uses $rank, which is no variable"),
        (renamed, "another uid than 'other'"),
        (unknown_unit, "the unit 'parsecs' is not one of Grafana's"),
        (unknown_field, ".panels[2].colour"),
        (foreign_target, "can't read it"),
    ],
)
def test_broken_dashboard_reported_with_the_reason(change: Change, problem: str) -> None:
    assert any(problem in line for line in found_after(change))


@pytest.mark.parametrize("uid", sorted(shipped_dashboards()))
def test_shipped_dashboard_has_no_problem(uid: str) -> None:
    assert list(structure.problems(uid, shipped_dashboards())) == []
