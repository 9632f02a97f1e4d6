"""The same records give the same results, however and whenever they are delivered."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from prism_ch.store.client import Store, connect
from tests.contract import RESULTS, Snapshot, snapshot
from tests.e2e.analysed import NewUrl, run
from tests.e2e.commands import Done, prism_ch
from tests.records import csv_text, json_text
from tests.scoring import read_simulated_truth, score

pytestmark = pytest.mark.slow

WINDOW_S = 20
END = "time_flow_end_ns"

#: What counts records as they were delivered, repeats and all.
AS_DELIVERED = ("exporters", "windows")


@dataclass(frozen=True, slots=True)
class Delivery:
    """A database into which a test lands records, a folder for its files, and how long windows are."""

    store: Store
    url: str
    folder: Path
    window_s: int = WINDOW_S

    def ingest(self, *files: Path) -> Done:
        """Land files."""
        return self._do("ingest", *files)

    def topology(self, file: Path) -> Done:
        """Load a topology."""
        return self._do("topology", file)

    def analyse(self, *options: str) -> Done:
        """Work what is due."""
        return self._do("analyse", *options)

    def land(self, name: str, flows: pa.Table) -> Done:
        """Land records from a file of that name."""
        return self.ingest(write(self.folder / name, flows))

    def results(self, *tables: str) -> Snapshot:
        """Read the public tables."""
        return snapshot(self.store, *tables)

    def revisions(self) -> int:
        """Count what was published."""
        number: int = self.store.scalar("SELECT count() FROM revisions")
        return number

    def _do(self, *arguments: str | Path) -> Done:
        done = prism_ch(*arguments, url=self.url, window_s=self.window_s)
        assert (done.status, done.err) == (0, "")
        return done


@pytest.fixture(scope="module")
def flows(cluster: Path) -> pa.Table:
    """All records, in the order of the file."""
    return pq.read_table(cluster / "flows" / "part-00000.parquet")


@pytest.fixture(scope="module")
def at_once(cluster: Path, new_url: NewUrl) -> Iterator[Store]:
    """The results where all records come at once, in one file."""
    analysed = run(cluster, "flows/*.parquet", new_url(), WINDOW_S)
    with connect(analysed.url) as store:
        yield store


@pytest.fixture(scope="module")
def undisturbed(at_once: Store) -> Snapshot:
    """What the public tables say then."""
    return snapshot(at_once)


@pytest.fixture
def delivery(store: Store, store_url: str, cluster: Path, tmp_path: Path) -> Delivery:
    """An empty database that knows the topology."""
    made = Delivery(store, store_url, tmp_path)
    made.topology(cluster / "topology.csv")
    return made


def write(path: Path, flows: pa.Table) -> Path:
    """Write records in the format that the name says."""
    if path.suffix == ".parquet":
        pq.write_table(flows, path)
    else:
        rows = flows.drop_columns("path").to_pylist()
        path.write_text(csv_text(rows, list(rows[0])) if path.suffix == ".csv" else json_text(rows))
    return path


def divided(flows: pa.Table, share: npt.NDArray[np.bool_]) -> tuple[pa.Table, pa.Table]:
    """Part records by a mask: those masked, and the others."""
    return flows.filter(pa.array(share)), flows.filter(pa.array(~share))


def without(tables: Sequence[str], found: Snapshot) -> Snapshot:
    """Leave tables out."""
    return {name: rows for name, rows in found.items() if name not in tables}


def test_what_is_compared_is_true(cluster: Path, at_once: Store, undisturbed: Snapshot) -> None:
    [found] = score(at_once, read_simulated_truth(cluster))
    assert (found.members_exact, found.dp_groups_exact, found.pp_chains_exact) == (True, True, True)
    assert (found.missed, found.extra) == (0, 0)
    assert len(undisturbed["windows"]) == 60 // WINDOW_S
    slow_steps = at_once.rows("SELECT first_step, last_step, status FROM diagnoses WHERE kind = 'slow_step'")
    assert slow_steps == [(70, 80, "closed")]


def test_the_order_of_rows_and_files_does_not_matter(
    delivery: Delivery, flows: pa.Table, undisturbed: Snapshot
) -> None:
    shuffled = flows.take(np.random.default_rng(1).permutation(len(flows)))
    size = len(flows) // 3
    files = [write(delivery.folder / f"{n}.parquet", shuffled.slice(n * size, size)) for n in (2, 0, 1)]
    files.append(write(delivery.folder / "rest.parquet", shuffled.slice(3 * size)))
    for file in files:
        delivery.ingest(file)
    delivery.analyse()
    assert delivery.results() == undisturbed


def test_the_format_does_not_matter(delivery: Delivery, flows: pa.Table, undisturbed: Snapshot) -> None:
    part = np.random.default_rng(2).integers(0, 3, len(flows))
    for number, suffix in enumerate(("csv", "jsonl", "parquet")):
        write(delivery.folder / f"part.{suffix}", divided(flows, part == number)[0])
    delivery.ingest(delivery.folder / "part.*")
    delivery.analyse()
    pathless = ("flows",)  # text files of the canonical columns without the optional path
    assert without(pathless, delivery.results()) == without(pathless, undisturbed)


def test_a_record_delivered_again_counts_once(delivery: Delivery, flows: pa.Table, undisturbed: Snapshot) -> None:
    again, _ = divided(flows, np.random.default_rng(3).random(len(flows)) < 0.3)
    delivery.land("all.parquet", pa.concat_tables([flows, again]))
    delivery.land("again.parquet", again)
    done = delivery.land("other-name.parquet", again)
    assert "its content has landed before, as " in done.out
    delivery.analyse()
    assert without(AS_DELIVERED, delivery.results()) == without(AS_DELIVERED, undisturbed)


def test_a_flow_seen_by_two_exporters_counts_once(delivery: Delivery, flows: pa.Table, undisturbed: Snapshot) -> None:
    column = flows.schema.get_field_index("sampler_address")
    seen_too = flows.set_column(column, "sampler_address", pc.binary_join_element_wise(flows[column], "spine", "-"))
    delivery.land("leaf.parquet", flows)
    delivery.land("spine.parquet", seen_too)
    delivery.analyse()
    assert delivery.results(*RESULTS) == {name: undisturbed[name] for name in RESULTS}


def test_late_records_give_the_results_of_records_in_time(
    delivery: Delivery, flows: pa.Table, undisturbed: Snapshot
) -> None:
    end_s = (flows[END].to_numpy() - flows[END].to_numpy().min()) / 1e9
    late = np.random.default_rng(4).random(len(flows)) < 0.2
    late |= (end_s > 25) & (end_s < 32)
    first, rest = divided(flows, ~late)
    delivery.land("first.parquet", first)
    delivery.analyse()
    assert delivery.results("steps") != {"steps": undisturbed["steps"]}
    delivery.land("rest.parquet", rest)
    delivery.analyse()
    assert delivery.results() == undisturbed
    assert delivery.store.scalar("SELECT sum(late_flows) FROM windows") == len(rest)


def test_analysis_as_time_goes_by_ends_where_one_over_all_does(
    delivery: Delivery, flows: pa.Table, undisturbed: Snapshot
) -> None:
    end_ns = flows[END].to_numpy()
    for number, part in enumerate(np.array_split(np.argsort(end_ns), 4)):
        delivery.land(f"{number}.parquet", flows.take(part))
        delivery.analyse()
    assert delivery.results() == undisturbed


def test_analysis_again_is_nothing_and_forced_gives_the_same(
    delivery: Delivery, flows: pa.Table, undisturbed: Snapshot
) -> None:
    delivery.land("all.parquet", flows)
    delivery.analyse()
    published = delivery.revisions()
    assert delivery.analyse().out == "nothing to work\n"
    assert delivery.revisions() == published
    assert delivery.analyse("--force").out.startswith(f"worked {60 // WINDOW_S} windows")
    assert delivery.revisions() > published
    assert delivery.results() == undisturbed


def test_another_topology_makes_all_windows_due(
    delivery: Delivery, flows: pa.Table, cluster: Path, undisturbed: Snapshot
) -> None:
    places = (cluster / "topology.csv").read_text()
    delivery.land("all.parquet", flows)
    delivery.analyse()
    sold = delivery.folder / "topology.csv"
    sold.write_text(places.replace("tenant-00", "tenant-77"))
    delivery.topology(sold)
    assert delivery.analyse().out.startswith(f"worked {60 // WINDOW_S} windows")
    assert delivery.store.rows("SELECT tenant FROM jobs") == [("tenant-77",)]
    assert delivery.store.rows("SELECT DISTINCT tenant FROM gpu_steps") == [("tenant-77",)]
    delivery.topology(cluster / "topology.csv")
    delivery.analyse()
    assert delivery.results() == undisturbed


@pytest.mark.sweep
@pytest.mark.parametrize("window_s", [10, 30, 60])
def test_results_do_not_depend_on_the_length_of_windows(
    delivery: Delivery, flows: pa.Table, at_once: Store, window_s: int
) -> None:
    delivery = replace(delivery, window_s=window_s)
    delivery.land("all.parquet", flows)
    assert delivery.analyse().out.startswith(f"worked {60 // window_s} window")
    # Who was slowest among equals, how sure a kind is, how far a finding stands out, and for how long a rank computes
    # where no flow shows that, are judged over what a window looks back at.
    for question in (
        "SELECT * FROM jobs ORDER BY ALL",
        "SELECT * FROM job_members ORDER BY ALL",
        "SELECT * FROM groups ORDER BY ALL",
        "SELECT * EXCEPT confidence FROM pairs ORDER BY ALL",
        "SELECT * EXCEPT slowest_endpoint FROM steps ORDER BY ALL",
        "SELECT * EXCEPT (idle_s, bubble_s) FROM gpu_steps ORDER BY ALL",
        "SELECT * FROM timeline ORDER BY ALL",
        "SELECT * EXCEPT (summary, evidence, score, slowdown) FROM diagnoses ORDER BY ALL",
    ):
        assert delivery.store.rows(question) == at_once.rows(question)
    idle = "SELECT idle_s / duration_s, bubble_s / duration_s FROM gpu_steps ORDER BY job_id, endpoint, step"
    here, there = (np.array(one.rows(idle), dtype=np.float64) for one in (delivery.store, at_once))
    assert np.nanquantile(np.abs(here - there), 0.95) < 0.02
