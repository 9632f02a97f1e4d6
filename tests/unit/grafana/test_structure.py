import copy
from collections.abc import Callable
from typing import Any

import pytest

from prism_ch.grafana.check import models, structure
from prism_ch.grafana.wanted import shipped_dashboards

UID = "prism-job"


def found_after(change: Callable[[dict[str, Any]], None]) -> list[str]:
    dashboards = {uid: copy.deepcopy(dict(dashboard)) for uid, dashboard in shipped_dashboards().items()}
    change(dashboards[UID])
    return list(structure.problems(UID, dashboards))


def no_change(dashboard: dict[str, Any]) -> None:
    pass


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
    ],
)
def test_what_is_wrong_is_found(change: Callable[[dict[str, Any]], None], problem: str) -> None:
    assert any(problem in line for line in found_after(change))


@pytest.mark.parametrize(
    "uid", ["prism-fleet", "prism-tenant", "prism-job", "prism-finding", "prism-network", "prism-pipeline"]
)
def test_what_is_shipped_is_sound(uid: str) -> None:
    dashboards = shipped_dashboards()
    assert list(structure.problems(uid, dashboards)) == []
    assert list(models.problems(uid, dashboards[uid])) == []


def test_the_models_refuse_what_they_do_not_know() -> None:
    dashboard = copy.deepcopy(dict(shipped_dashboards()[UID]))
    dashboard["panels"][2]["fieldConfig"]["defaults"]["unit"] = "parsecs"
    dashboard["panels"][2]["colour"] = "red"
    found = "\n".join(models.problems(UID, dashboard))
    assert "the unit 'parsecs' is not one of Grafana's" in found
    assert ".panels[2].colour" in found


def test_the_models_refuse_a_query_of_another_form() -> None:
    dashboard = copy.deepcopy(dict(shipped_dashboards()[UID]))
    del dashboard["panels"][2]["targets"][0]["rawSql"]
    assert "can't read it" in next(iter(models.problems(UID, dashboard)))
