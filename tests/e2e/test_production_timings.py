"""The timings of a production run: steps of uneven length, longer silences inside them than between them."""

import pytest

from prism_ch.store.client import connect
from tests.e2e.analysed import PRODUCTION, Production
from tests.scoring import JobScore, read_production_truth, score, strangers

WRONG_STEPS_MAX = 0.01
DURATION_ERROR_MAX = 0.003


@pytest.fixture(scope="module")
def found(production: Production) -> JobScore:
    truth = read_production_truth(PRODUCTION)
    with connect(production(60).url) as store:
        [job] = score(store, truth)
        assert store.scalar("SELECT count() FROM jobs") == 1
        assert strangers(store, truth) == set()
    return job


def test_the_job_its_groups_and_the_order_of_its_stages(found: JobScore) -> None:
    assert found.members_exact
    assert found.dp_groups_exact
    assert found.pp_chains_exact
    assert found.stages_exact
    for kind in ("DP", "PP"):
        assert (kind, found.precision[kind], found.recall[kind]) == (kind, 1.0, 1.0)


def test_every_step_from_the_first_to_the_last(found: JobScore) -> None:
    assert found.steps == 43
    assert found.missed + found.extra <= WRONG_STEPS_MAX * found.steps
    assert found.duration_error <= DURATION_ERROR_MAX


def test_the_first_step_begins_with_the_first_record(production: Production) -> None:
    with connect(production(60).url) as store:
        [first_ns] = store.rows("SELECT toUnixTimestamp64Nano(min(start_time)) FROM steps WHERE step = 0")[0]
        [record_ns] = store.rows("SELECT min(time_flow_start_ns) FROM flows")[0]
    assert first_ns == record_ns


def test_sequences_of_uneven_length_are_nobodys_fault(production: Production) -> None:
    analysed = production(60)
    with connect(analysed.url) as store:
        assert store.rows("SELECT kind, summary FROM diagnoses WHERE severity != 'info'") == []
    assert "nothing slows it" in analysed.told.out


@pytest.mark.sweep
@pytest.mark.parametrize("window_s", [30, 120])
def test_the_length_of_windows_changes_no_step(production: Production, window_s: int) -> None:
    query = "SELECT endpoint, step, start_time, end_time FROM gpu_steps ORDER BY endpoint, step"
    with connect(production(60).url) as store:
        usual = store.rows(query)
    with connect(production(window_s).url) as store:
        assert store.rows(query) == usual
    assert len(usual) == 43 * 128
