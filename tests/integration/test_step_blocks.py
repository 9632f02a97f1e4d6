"""Blocks of steps hold what steps_log holds, row by row, whatever is replaced, pruned, lost or older."""

import pytest

from prism_ch.assets import asset
from prism_ch.health.integrity import check_rows, mend_database
from prism_ch.settings import Settings
from prism_ch.store.client import Store
from prism_ch.store.integrity import lost_blocks
from prism_ch.store.migrate import migrate
from prism_ch.store.retention import prune
from prism_ch.store.statements import split_statements
from tests.integration.test_prune import finish, publish
from tests.integration.test_results import ENDPOINTS, revision, window
from tests.revisions import write_revisions
from tests.sweeps import swept

_COLUMNS = "job_id, tenant, step, start_time, end_time, duration_s, complete"
SINGLE = f"SELECT {_COLUMNS} FROM steps ORDER BY ALL"  # noqa: S608 - columns of this file
PACKED = f"""
    SELECT {_COLUMNS}
    FROM
    (
        SELECT job_id, tenant, until_step, steps, start_times, end_times, durations_s, complete AS whole
        FROM step_blocks
    )
    ARRAY JOIN
        steps AS step, start_times AS start_time, end_times AS end_time, durations_s AS duration_s, whole AS complete
    WHERE step < until_step
    ORDER BY ALL
"""  # noqa: S608 - as above


#: So many workings publish blocks: some cut others, some go back.
WORKINGS = 8


def delete(store: Store, where: str) -> None:
    store.command(f"ALTER TABLE step_blocks_log DELETE WHERE {where}", settings={"mutations_sync": 1})


@pytest.mark.parametrize("seed", [1, *swept(0)])
def test_blocks_hold_the_steps_that_count(store: Store, seed: int) -> None:
    last = publish(store, seed, WORKINGS)
    assert store.rows(PACKED) == store.rows(SINGLE) != []
    finish(store, last // 2)
    before = store.rows(SINGLE)
    assert prune(store) > 0
    assert store.rows(PACKED) == store.rows(SINGLE) == before
    assert prune(store) == 0


def test_a_block_cut_in_its_middle_stays_cut_when_pruned(store: Store) -> None:
    for number, values in enumerate(([1.0, 2.0, 3.0], [9.0], [4.0])):
        write_revisions(store, ENDPOINTS, window(number), number + 1, [revision("one", min(number, 1), values)])
    finish(store, 2)
    prune(store)
    assert store.rows("SELECT revision, last_step FROM step_blocks_log ORDER BY revision") == [(1, 2), (3, 1)]
    assert store.rows(PACKED) == store.rows(SINGLE)
    assert prune(store) == 0


def test_steps_written_before_there_were_blocks_are_packed(store: Store) -> None:
    publish(store, 1, WORKINGS)
    packed = store.rows(PACKED)
    (text,) = [
        each
        for each in split_statements(asset("sql/migrations/0023_step_blocks.sql").read_text(encoding="utf-8"))
        if "INSERT INTO step_blocks_log" in each
    ]
    delete(store, "revision > 5")
    assert store.rows(PACKED) != packed
    for _ in range(2):
        store.command(text)
        assert store.rows(PACKED) == packed


@pytest.mark.parametrize("lost", ["revision > 5", *swept("1", "job_id = 'a'")])
def test_blocks_that_are_gone_are_named_and_made_again(store: Store, lost: str) -> None:
    publish(store, 1, WORKINGS)
    packed = store.rows("SELECT * EXCEPT written_at FROM step_blocks_log ORDER BY ALL")
    for _ in range(2):
        delete(store, lost)
        assert store.rows(PACKED) != store.rows(SINGLE)
        (named,) = (each for each in check_rows(store, Settings()) if each.name == "rows of blocks")
        assert named.state == "bad"
        assert "`prism-ch doctor --mend`" in named.mend
        assert "made step_blocks_log again from steps" in mend_database(store, Settings())
        assert lost_blocks(store) == []
        assert store.rows("SELECT * EXCEPT written_at FROM step_blocks_log ORDER BY ALL") == packed


def test_doctor_counts_the_steps_that_blocks_lack(store: Store) -> None:
    write_revisions(store, ENDPOINTS, window(0), 1, [revision("one", 0, [1.0, 2.0])])
    write_revisions(store, ENDPOINTS, window(1), 2, [revision("one", 2, [1.0])])
    delete(store, "revision = 1")
    (named,) = (each for each in check_rows(store, Settings()) if each.name == "rows of blocks")
    assert named.what == "step_blocks_log has 0 of 2 steps of 1 days"


def test_blocks_of_what_was_never_published_are_not_missed(store: Store) -> None:
    publish(store, 1, WORKINGS)
    store.command("INSERT INTO steps_log (job_id, revision, start_time) VALUES ('a', 99, '2027-01-15 08:00:00')")
    delete(store, "revision = 99")
    assert lost_blocks(store) == []


def test_blocks_of_steps_that_may_be_gone_are_not_missed(store: Store) -> None:
    publish(store, 1, WORKINGS)
    store.command(
        "ALTER TABLE steps_log UPDATE written_at = now() - INTERVAL 730 DAY - INTERVAL 1 HOUR WHERE 1",
        settings={"mutations_sync": 1},
    )
    delete(store, "1")
    assert lost_blocks(store) == []


def test_pruned_blocks_are_not_missed(store: Store) -> None:
    finish(store, publish(store, 1, WORKINGS) // 2)
    assert prune(store) > 0
    assert lost_blocks(store) == []


def test_a_lost_table_of_blocks_is_filled_by_migrate(store: Store) -> None:
    publish(store, 1, WORKINGS)
    store.command("DROP TABLE step_blocks_log")
    assert migrate(store) == ["step_blocks_log, which was gone"]
    assert store.rows(PACKED) == store.rows(SINGLE) != []


def test_steps_written_without_the_view_packed_by_migrate(store: Store) -> None:
    store.command("DROP TABLE step_blocks_mv")
    publish(store, 1, WORKINGS)
    assert migrate(store) == ["step_blocks_mv, which was gone"]
    assert store.rows(PACKED) == store.rows(SINGLE) != []
