"""The questions of sql/README.md give the answers printed there, to the operator and, scoped, to tenants."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from bench import example_data
from prism_ch.assets import asset
from prism_ch.errors import UsageError
from prism_ch.query.answer import answer
from prism_ch.query.tenancy import tenant_views
from prism_ch.store.client import Store, connect
from prism_ch.store.migrate import migrate
from tests.cookbook import GPUS, OPERATORS_ONLY, STEPS, examples, page
from tests.two_tenants import named

EXAMPLES = list(examples())


@pytest.fixture(scope="module")
def made_up_run(engine_folder: Path) -> Iterator[Store]:
    with connect(f"chdb://{engine_folder}?database=made_up") as store:
        migrate(store)
        example_data.fill(store, GPUS, STEPS)
        yield store
        store.command("DROP DATABASE made_up SYNC", use_database=False)


def test_the_page_says_what_the_database_answers(made_up_run: Store) -> None:
    written = asset("sql/README.md").read_text(encoding="utf-8")
    assert page(made_up_run) == written, "write it anew: python -m tests.cookbook > sql/README.md"


def test_there_are_twelve_and_each_view_of_people_has_one() -> None:
    assert len(EXAMPLES) == 12
    text = " ".join(sql for _, _, sql in EXAMPLES)
    assert {"diagnosed_steps", "job_timeline", "losses", "tenant_summary"} <= set(text.split())


@pytest.mark.parametrize("name,sql", [(name, sql) for name, _, sql in EXAMPLES])
def test_a_tenant_gets_its_own_part_of_each_answer(made_up_run: Store, name: str, sql: str) -> None:
    if name in OPERATORS_ONLY:
        with pytest.raises(UsageError, match="not offered"):
            answer(made_up_run, sql, tenant="research")
        return
    own = answer(made_up_run, sql, tenant="research").rows
    assert own
    assert not [row for row in own if "product" in row or "job-two" in row]


@pytest.mark.parametrize("view", sorted(tenant_views()))
def test_tenants_have_no_rows_in_common(made_up_run: Store, view: str) -> None:
    sql = f"SELECT count() FROM {named(view)}"  # noqa: S608 - a name of the schema
    counts = [int(answer(made_up_run, sql, tenant=who).rows[0][0] or 0) for who in (None, "research", "product")]
    assert counts[0] == counts[1] + counts[2] > 0
