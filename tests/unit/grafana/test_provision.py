"""A resource differs where Grafana lacks something or has another value, not where it adds something."""

from typing import Any

import pytest

from prism_ch.grafana.provision import differences


@pytest.mark.parametrize(
    "desired, found, places",
    [
        ({"a": 1}, {"a": 1, "b": 2}, []),
        ({"a": 1}, {}, ["a"]),
        ({"a": {"b": 1, "c": [1, {"d": "x"}]}}, {"a": {"b": 1, "c": [1, {"d": "x", "e": 0}]}}, []),
        ({"a": {"b": 1, "c": [1, {"d": "x"}]}}, {"a": {"b": 2, "c": [1, {"d": "y"}]}}, ["a.b", "a.c.1.d"]),
        ({"a": [1, 2]}, {"a": [1, 2, 3]}, ["a"]),
        ({"a": {}}, {"a": 1}, ["a"]),
        ({"a": "x"}, {"a": ["x"]}, ["a"]),
        ({"labels": {"a": "1"}}, {"labels": {"a": "1", "old": "2"}}, ["labels"]),
        ({"r": [{"annotations": {"a": "1"}}]}, {"r": [{"annotations": {}}]}, ["r.0.annotations"]),
    ],
)
def test_differences_named_without_values(desired: dict[str, Any], found: dict[str, Any], places: list[str]) -> None:
    assert list(differences(desired, found)) == places
