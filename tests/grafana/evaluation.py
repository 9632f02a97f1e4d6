"""Evaluates alert rules as Grafana does: which alerts a rule has, and the texts of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.grafana.templates import Row, expand


@dataclass(frozen=True)
class Instance:
    """One alert of a rule; its labels are its identity, texts are filled in anew at each evaluation."""

    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    state: str


def instances(rule: Mapping[str, Any], frames: Mapping[str, Sequence[Row]]) -> list[Instance]:
    """Return the alerts of a rule with a threshold, by the rows that each of its queries returned.

    An alert is a row of the query that the condition compares. Rows of other queries belong to it if their labels hold
    those of that row, or are held by them; of several, Grafana takes one, so there must be no more.
    Raises TemplateError where Grafana would log an error.
    """
    (condition,) = [each["model"] for each in rule["data"] if each["refId"] == rule["condition"]]
    (above,) = condition["conditions"][0]["evaluator"]["params"]
    if not any(frames.values()):
        return [_instance(rule, {}, {}, "Normal (NoData)")]
    found = []
    for labels, number in frames[condition["expression"]]:
        values: dict[str, Row] = {}
        for name, rows in frames.items():
            own = [row for row in rows if row[0].items() >= labels.items() or row[0].items() <= labels.items()]
            assert len(own) < 2, f"{name} has several rows for {labels}"
            if own:
                values[name] = own[0]
        found.append(_instance(rule, labels, values, "Alerting" if number > above else "Normal"))
    assert len({tuple(sorted(each.labels.items())) for each in found}) == len(found), "labels tell alerts apart"
    return found


def _instance(rule: Mapping[str, Any], labels: Mapping[str, str], values: Mapping[str, Row], state: str) -> Instance:
    all_labels = {**labels, **rule["labels"]}
    notes = {name: expand(text, all_labels, values) for name, text in rule["annotations"].items()}
    return Instance(all_labels, notes, state)
