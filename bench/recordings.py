"""Recordings that `prism-ch simulate` makes, also those that are too large for memory, and databases of them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from shutil import rmtree

import pyarrow as pa
import pyarrow.parquet as pq

from prism_ch.ingest.files import land_files
from prism_ch.ingest.topology_file import load_topology
from prism_ch.simulate import Scenario, generate
from prism_ch.simulate.generate import write_topology
from prism_ch.simulate.scenario import Surroundings
from prism_ch.store.client import Store, connect
from prism_ch.store.migrate import migrate

#: Jobs that are simulated side by side.
_PROCESSES = 2
#: Records that are read together, or not at all.
_GROUP_RECORDS = 100_000
#: What records are in the order of.
_ARRIVAL = "time_flow_end_ns"


@contextmanager
def landed(folder: Path) -> Iterator[Store]:
    """Land a recording in a database beside it, while a block runs."""
    with connect(f"chdb://{folder}/data") as store:
        migrate(store)
        load_topology(store, str(folder / "topology.csv"))
        land_files(store, [str(folder / "flows" / "*.parquet")])
        yield store


def write_in_slices(scenario: Scenario, folder: Path, slice_s: float = 60.0) -> None:
    """Write a recording that need not fit into memory.

    Each job is simulated by itself, so that what is drawn by chance differs from that of `generate`. What all of them
    send in `slice_s` seconds is one file of `flows/`. Truth is left out. Raises ValueError for late records, which are
    in the slice of their end, not of their arrival.
    """
    if scenario.observation.late:
        raise ValueError("records of a recording in slices come in order")
    parts, flows = folder / "parts", folder / "flows"
    parts.mkdir(parents=True)
    flows.mkdir()
    with ProcessPoolExecutor(_PROCESSES, mp_context=get_context("spawn")) as pool:
        made = list(pool.map(partial(_write_job, scenario, parts), range(len(scenario.jobs))))
    files = [file for file, _ in made]
    tenants = {endpoint: tenant for _, of_job in made for endpoint, tenant in of_job.items()}
    one = generate(replace(scenario, jobs=scenario.jobs[:1], duration_s=1.0))
    tenant = pa.array([tenants.get(endpoint, "") for endpoint in one.topology["endpoint"].to_pylist()])
    place = one.topology.schema.get_field_index("tenant")
    write_topology(one.topology.set_column(place, "tenant", tenant), folder)
    for number in range(math.ceil(scenario.duration_s / slice_s)):
        from_ns, to_ns = scenario.ns([slice_s * number, slice_s * (number + 1)]).tolist()
        inside = [(_ARRIVAL, ">=", from_ns), (_ARRIVAL, "<", to_ns)]
        records = pa.concat_tables([pq.read_table(file, filters=inside) for file in files]).sort_by(_ARRIVAL)
        pq.write_table(records, flows / f"slice-{number:05d}.parquet", compression="zstd")
    rmtree(parts)


def _write_job(scenario: Scenario, folder: Path, number: int) -> tuple[Path, dict[str, str]]:
    """Simulate one job of a scenario. What belongs to no job comes with the first.

    Returns the file of its records, and the tenant of its endpoints.
    """
    surroundings = Surroundings() if number else scenario.surroundings
    alone = replace(scenario, jobs=(scenario.jobs[number],), seed=scenario.seed + number, surroundings=surroundings)
    made, file = generate(alone), folder / f"job-{number:05d}.parquet"
    pq.write_table(made.flows, file, row_group_size=_GROUP_RECORDS)
    pairs = zip(made.topology["endpoint"].to_pylist(), made.topology["tenant"].to_pylist(), strict=True)
    return file, {endpoint: tenant for endpoint, tenant in pairs if tenant}
