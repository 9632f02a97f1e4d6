"""Colours of the dashboards are told apart by everybody, in dark and light."""

from __future__ import annotations

from typing import Any

import pytest

from prism_ch.grafana.organisations import shipped_dashboards
from tools.dashboards.palettes import contrast, distance, problems


@pytest.mark.parametrize("uid", sorted(shipped_dashboards()))
def test_everybody_tells_the_colours_of_a_dashboard_apart(uid: str) -> None:
    assert list(problems(shipped_dashboards()[uid])) == []


def test_contrast_is_that_of_the_standard() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


def test_red_and_green_of_one_lightness_near_for_deuteranopes() -> None:
    assert distance("#a8483a", "#6f7a20") > 40
    assert distance("#a8483a", "#6f7a20", "deuteranopes") < 15


def board(**config: Any) -> dict[str, Any]:
    return {"panels": [{"title": "P", "fieldConfig": {"defaults": config, "overrides": []}}]}


@pytest.mark.parametrize(
    "colors, problem",
    [
        (("green", "red"), "green is another colour in each theme"),
        (("#f0e442",), "#f0e442 on #ffffff has a contrast of 1.3"),
        (("#2b2f33",), "#2b2f33 on #181b1f has a contrast of 1.3"),
        (("#a8483a", "#6f7a20"), "apart for deuteranopes"),
    ],
)
def test_palette_that_somebody_can_not_read_is_named(colors: tuple[str, ...], problem: str) -> None:
    steps = [{"value": None, "color": color} for color in colors]
    assert any(problem in found for found in problems(board(thresholds={"steps": steps})))


def test_letters_are_held_to_the_cell_they_stand_on() -> None:
    mapping = {"options": {"a": {"text": "a", "color": "#c98500"}}}
    cell = {"custom.cellOptions": {"type": "color-background"}}
    assert list(problems(board(mappings=[mapping], **cell))) == ["letters on #c98500 have a contrast of 2.9 in 'P'"]
