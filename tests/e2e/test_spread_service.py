"""A service whose windows are worked on a Dask cluster, that goes away and comes back."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from prism_ch.store.client import connect
from tests.contract import RESULTS, snapshot
from tests.e2e.analysed import RECORDED, Recorded
from tests.e2e.service import Service, serving, until
from tests.e2e.test_killed import read
from tests.spread import cluster

pytestmark = pytest.mark.slow

RUN = RECORDED / "dp4_slow_rank"


def reasons(service: Service) -> str:
    return " ".join(str(one) for one in (service.health() or {}).get("reasons", ()))


@pytest.mark.sweep
def test_service_goes_on_once_its_scheduler_is_back(recorded: Recorded, tmp_path: Path) -> None:
    flows = pq.read_table(RUN / "flows.parquet").sort_by("time_flow_end_ns")
    half = len(flows) // 2
    for name, part in (("first.parquet", flows.slice(0, half)), ("second.parquet", flows.slice(half))):
        pq.write_table(part, tmp_path / name)
    with (
        cluster(workers=1) as spread,
        serving(tmp_path, RUN / "topology.csv", more=f'[analysis]\nexecutor = "{spread.address}"\n') as service,
    ):
        service.drop(tmp_path / "first.parquet", "first.parquet")
        until(lambda: service.is_done(1), service.process)
        spread.kill_scheduler()
        service.drop(tmp_path / "second.parquet", "second.parquet")
        until(lambda: spread.address in reasons(service), service.process)
        spread.start_scheduler()
        until(lambda: service.is_done(2, windows=2), service.process)
        assert service.stop() == 0
    with connect(recorded(RUN.name).url) as store:
        assert {name: rows for name, rows in read(service.folder).items() if name in RESULTS} == snapshot(
            store, *RESULTS
        )
