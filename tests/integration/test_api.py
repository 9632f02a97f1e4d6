"""The common questions as functions: right columns, right rows, and each tenant its own."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from bench import example_data
from prism_ch.errors import UsageError
from prism_ch.query import api
from prism_ch.store.client import Store, connect
from prism_ch.store.migrate import migrate

START = datetime(2026, 3, 2, tzinfo=UTC)


@pytest.fixture(scope="module")
def run(engine_folder: Path) -> Iterator[Store]:
    """Two jobs of 8 GPUs, 500 steps each."""
    with connect(f"chdb://{engine_folder}?database=asked") as store:
        migrate(store)
        example_data.fill(store, 8, 500)
        yield store
        store.command("DROP DATABASE asked SYNC", use_database=False)


def test_jobs_are_those_of_the_span(run: Store) -> None:
    assert api.jobs(run).column("job_id").to_pylist() == ["job-one", "job-two"]
    assert api.jobs(run, to_time=START).num_rows == 0
    assert api.jobs(run).column("status").to_pylist() == ["running", "running"]


def test_steps_are_cut_by_time(run: Store) -> None:
    assert api.steps(run, "job-one").num_rows == 500
    minute = api.steps(run, "job-one", from_time=START, to_time=START + timedelta(minutes=1))
    assert minute.column("step").to_pylist() == [0, 1, 2, 3, 4, 5]
    assert minute.schema.field("start_time").type == pa.timestamp("ns", "UTC")


def test_diagnosed_steps_name_their_findings(run: Store) -> None:
    found = api.columns(api.diagnosed_steps(run, "job-one"))
    assert np.flatnonzero(found["findings"]).tolist() == [*range(180, 200), *range(380, 400)]
    assert found["severity"][180] == "critical"
    assert list(found["kinds"][180]) == ["slow_gpu"]


def test_the_timeline_is_of_the_steps_asked_for(run: Store) -> None:
    told = api.timeline(run, "job-two", 7, 8)
    assert set(told.column("step").to_pylist()) == {7, 8}
    assert set(told.column("phase").to_pylist()) == {"compute", "PP", "DP"}
    assert told.num_rows == 2 * 8 * 4
    with pytest.raises(UsageError, match="behind the last"):
        api.timeline(run, "job-two", 8, 7)


def test_findings_are_the_worst_first_and_no_milder_than_asked(run: Store) -> None:
    assert api.findings(run).column("severity").to_pylist() == ["critical", "critical", "warning"]
    assert api.findings(run, severity="critical").num_rows == 2
    assert api.findings(run, job_id="job-two").column("kind").to_pylist() == ["stall"]


def test_incidents_are_open_first_and_no_milder_than_asked(run: Store) -> None:
    found = api.incidents(run)
    assert found.column("status").to_pylist() == ["open", "closed", "closed"]
    assert found.column("severity").to_pylist() == ["warning", "critical", "critical"]
    assert api.incidents(run, severity="critical").num_rows == 2
    assert api.incidents(run, to_time=START).num_rows == 0


def test_losses_are_the_dearest_first(run: Store) -> None:
    lost = api.losses(run).column("gpu_hours_lost").to_pylist()
    assert len(lost) == 2
    assert lost[0] >= lost[1] > 0


def test_numbers_are_numpys_and_tables_pandas(run: Store) -> None:
    assert api.columns(api.steps(run, "job-one"))["duration_s"].dtype == np.float64
    assert api.steps(run, "job-one").to_pandas()["step"].sum() == 499 * 500 // 2


def test_sql_takes_parameters_and_gives_pages(run: Store) -> None:
    text = "SELECT step FROM steps WHERE job_id = {job:String} ORDER BY step"
    pages = [api.sql(run, text, parameters={"job": "job-one"}, rows=200, first_row=at) for at in (0, 200, 400)]
    assert [page.num_rows for page in pages] == [200, 200, 100]
    assert pa.concat_tables(pages) == api.sql(run, text, parameters={"job": "job-one"})
    hostile = {"job": "x' OR 1 = 1 --"}
    assert api.sql(run, text, parameters=hostile).num_rows == 0
    with pytest.raises(UsageError, match="leave out FORMAT"):
        api.sql(run, "SELECT 1 FORMAT CSV")


@pytest.mark.parametrize(
    "ask",
    [
        api.jobs,
        api.findings,
        api.incidents,
        api.losses,
        lambda store, *, tenant: api.steps(store, "job-two", tenant=tenant),
        lambda store, *, tenant: api.diagnosed_steps(store, "job-two", tenant=tenant),
        lambda store, *, tenant: api.timeline(store, "job-two", 0, 3, tenant=tenant),
    ],
    ids=["jobs", "findings", "incidents", "losses", "steps", "diagnosed_steps", "timeline"],
)
def test_a_tenant_sees_its_own(run: Store, ask: Callable[..., pa.Table]) -> None:
    assert "job-two" not in str(ask(run, tenant="research").to_pydict())
    assert "job-two" in str(ask(run, tenant="product").to_pydict())


def test_times_need_a_zone_and_an_order(run: Store) -> None:
    with pytest.raises(UsageError, match="without zone"):
        api.jobs(run, from_time=datetime(2026, 1, 1))  # noqa: DTZ001 - that is the mistake
    with pytest.raises(UsageError, match="before to_time"):
        api.steps(run, "job-one", from_time=START, to_time=START)
