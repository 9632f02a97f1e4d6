"""Blocks of steps hold what steps_log holds, row by row, whatever is replaced, pruned or was there before them."""

from datetime import UTC, datetime

import pytest

from prism_ch.assets import asset
from prism_ch.store.client import Store
from prism_ch.store.retention import prune
from prism_ch.store.statements import split_statements
from tests.integration.test_prune import finish, publish
from tests.integration.test_results import ENDPOINTS, T0, S, revision, window
from tests.revisions import write_revisions

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


def by_cause(view: str, since_s: int, until_s: int) -> str:
    """Return a statement that sums up a view of GPU time."""
    since, until = (f"{datetime.fromtimestamp(T0 // S + at, UTC):%F %T}" for at in (since_s, until_s))
    return f"""
        SELECT job_id, tenant, cause, round(sum(gpu_s), 6), round(sum(lost_gpu_s), 6) FROM
        {view}(from_time = '{since}', to_time = '{until}') GROUP BY ALL HAVING sum(gpu_s) > 0 ORDER BY ALL
    """  # noqa: S608 - as above


@pytest.mark.parametrize("seed", range(3))
def test_blocks_hold_the_steps_that_count(store: Store, seed: int) -> None:
    last = publish(store, seed)
    assert store.rows(PACKED) == store.rows(SINGLE) != []
    finish(store, last // 2)
    before = store.rows(SINGLE)
    assert prune(store) > 0
    assert store.rows(PACKED) == store.rows(SINGLE) == before
    assert prune(store) == 0


@pytest.mark.parametrize("seed", range(4))
def test_sums_by_cause_are_those_of_single_steps(store: Store, seed: int) -> None:
    last = publish(store, seed)
    store.command("ALTER TABLE diagnoses_log UPDATE slowdown = 0.25 WHERE 1", settings={"mutations_sync": 1})
    spans = [(-3600, 3600 * 30), (0, 60 * last // 2), (60 * last // 2, 3600), (3600 * 20, 3600 * 30)]
    for span in spans:
        assert store.rows(by_cause("gpu_time_by_cause", *span)) == store.rows(by_cause("gpu_time", *span))
    assert {row[2] for row in store.rows(by_cause("gpu_time_by_cause", *spans[0]))} > {""}


def test_a_block_cut_in_its_middle_stays_cut_when_pruned(store: Store) -> None:
    for number, values in enumerate(([1.0, 2.0, 3.0], [9.0], [4.0])):
        write_revisions(store, ENDPOINTS, window(number), number + 1, [revision("one", min(number, 1), values)])
    finish(store, 2)
    prune(store)
    assert store.rows("SELECT revision, last_step FROM step_blocks_log ORDER BY revision") == [(1, 2), (3, 1)]
    assert store.rows(PACKED) == store.rows(SINGLE)
    assert prune(store) == 0


def test_steps_written_before_there_were_blocks_are_packed(store: Store) -> None:
    publish(store, 1)
    packed = store.rows(PACKED)
    (text,) = [
        each
        for each in split_statements(asset("sql/migrations/0023_step_blocks.sql").read_text(encoding="utf-8"))
        if "INSERT INTO step_blocks_log" in each
    ]
    store.command("ALTER TABLE step_blocks_log DELETE WHERE revision > 5", settings={"mutations_sync": 1})
    assert store.rows(PACKED) != packed
    for _ in range(2):
        store.command(text)
        assert store.rows(PACKED) == packed
