"""A tenant's answers are the same whatever rows others have: statuses, headers, bodies and blocks."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

import prism_ch.query.answer
from prism_ch.query.checked import CheckedStatement
from prism_ch.store.client import connect
from tests.cookbook import OPERATORS_ONLY, examples
from tests.interference import KNOWN, Statements, answers, columns, databases
from tests.serving import OwnEndpoint

_DRAWN = 40


@pytest.fixture(scope="module")
def served(engine_folder: Path) -> Iterator[list[OwnEndpoint]]:
    with databases(engine_folder) as endpoints:
        yield endpoints


def statements(served: list[OwnEndpoint], engine_folder: Path) -> Iterator[str]:
    yield from KNOWN
    yield from (text for name, _, text in examples() if name not in OPERATORS_ONLY)
    with connect(f"chdb://{engine_folder}?database={served[0].database}") as store:
        yield from islice(Statements(columns(store), seed=1), _DRAWN)


@pytest.mark.sweep
def test_answers_do_not_depend_on_rows_of_others(served: list[OwnEndpoint], engine_folder: Path) -> None:
    answered = 0
    for statement in statements(served, engine_folder):
        first, *others = answers(served, statement)
        assert all(other == first for other in others), statement
        answered += first[0] == 200
    assert answered > _DRAWN / 2


@pytest.mark.sweep
def test_the_databases_differ_where_conditions_are_seen(
    served: list[OwnEndpoint], monkeypatch: pytest.MonkeyPatch
) -> None:
    def seen(checked: CheckedStatement, _: str) -> CheckedStatement:
        return checked

    monkeypatch.setattr(prism_ch.query.answer, "without_seen_conditions", seen)
    told = [len(set(answers(served, statement + " SETTINGS max_threads = 1"))) > 1 for statement in KNOWN[:5]]
    assert any(told)
