"""How fast flows land and are analysed, beside what ClickHouse alone takes for the same rows, in one process.

Run with `make bench`. One simulated minute of 2,880 GPUs is landed through the views and analysed; the engine's bare
inserts of the same file, into a table ordered by time and into one ordered as flows are kept, and its bare sorted read
of the same rows, are timed in the same process, turn by turn. What larger clusters with such traffic would need follows
by arithmetic from the rates.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from prism_ch.ingest.files import land_files
from prism_ch.ingest.topology_file import load_topology
from prism_ch.settings import Settings
from prism_ch.simulate import Scenario, generate, write
from prism_ch.simulate.draws import textbook_job
from prism_ch.simulate.job import Job, Layout
from prism_ch.simulate.scenario import Cluster
from prism_ch.store.client import Store, connect
from prism_ch.store.migrate import migrate
from prism_ch.worker import analyse

#: The columns of flows_log, stored plainly: the cost of the rows to the engine without views, codecs and checks.
_BARE_TABLE = """
CREATE OR REPLACE TABLE bare
(
    time_flow_start_ns Int64, time_flow_end_ns Int64, src_addr String, dst_addr String,
    src_port UInt16, dst_port UInt16, proto UInt8, bytes UInt64, packets UInt64, sampler_address String,
    sampling_rate UInt32, path Array(String)
)
ENGINE = MergeTree ORDER BY {order}
"""
#: The order in which records come.
_BY_TIME = "time_flow_end_ns"
#: The order of flows_log: a pair's flows of a minute side by side.
_BY_PAIR = (
    "(intDiv(time_flow_end_ns, 60000000000), src_addr, dst_addr, time_flow_start_ns, time_flow_end_ns,"
    " src_port, dst_port, proto, bytes, packets, sampler_address)"
)
_BARE_INSERT = "INSERT INTO bare SELECT * FROM file({files:String}, Parquet)"
_BARE_READ = """
SELECT
    time_flow_start_ns, time_flow_end_ns, src_addr, dst_addr, src_port, dst_port, proto, bytes, packets, sampler_address
FROM flows_log
ORDER BY src_addr, dst_addr, time_flow_start_ns, time_flow_end_ns
SETTINGS output_format_arrow_low_cardinality_as_dictionary = 1
"""

#: The sizes of cluster that the arithmetic is done for, in GPUs.
_LARGER = (2_880, 10_000, 28_800, 100_000, 1_000_000)


@dataclass(frozen=True, slots=True)
class Rates:
    """What one machine like this one does, and what its cluster sends.

    `flows_per_gpu_s` come in a second from each GPU; `landed_s` and `analysed_s` are flow records a second, and
    `bytes_per_flow` stay on disk with the rollups.
    """

    flows_per_gpu_s: float
    landed_s: float
    analysed_s: float
    bytes_per_flow: float

    def needs(self, gpus: int) -> tuple[float, int, int, float]:
        """Return flow records a second, machines to land and to analyse, and bytes a day."""
        flows_s = self.flows_per_gpu_s * gpus
        stored = flows_s * 86_400 * self.bytes_per_flow
        return flows_s, math.ceil(flows_s / self.landed_s), math.ceil(flows_s / self.analysed_s), stored

    def table(self) -> str:
        """Write what clusters of several sizes need, as Markdown."""
        header = ("GPUs", "flow records/s", "machines to land", "machines to analyse", "TB a day")
        rows = ((gpus, *self.needs(gpus)) for gpus in _LARGER)
        lines = [
            f"{gpus:,} | {rate:,.0f} | {land:,} | {work:,} | {size / 1e12:,.2f}"
            for gpus, rate, land, work, size in rows
        ]
        return "\n".join(f"| {line} |" for line in (" | ".join(header), " | ".join(["---:"] * len(header)), *lines))


def bench_scenario(seed: int = 0, servers: int = 360, duration_s: float = 60.0) -> Scenario:
    """Describe a cluster of 2,880 GPUs with five jobs: 2.4 million records a minute."""
    jobs: list[Job] = []
    first = 0
    for number, (tp, pp, dp) in enumerate(((8, 8, 16), (8, 8, 12), (8, 4, 16), (8, 4, 12), (8, 4, 6))):
        layout = Layout(tp=tp, pp=pp, dp=max(round(dp * servers / 360), 1))
        step_s = 3.8 * 1.05**number
        jobs.append(textbook_job(number, layout, first, step_s, microbatches=32, overlap=number % 2 == 1))
        first += layout.gpus
    cluster = Cluster(servers=servers, pod_servers=32, spines=16)
    return Scenario(name="bench", cluster=cluster, jobs=tuple(jobs), duration_s=duration_s, seed=seed, phases=False)


def main() -> None:
    """Generate the minute, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--servers", type=int, default=360, help="of 8 GPUs each (default: 360)")
    parser.add_argument(
        "--repeats", type=int, default=3, help="how often each is timed; medians are printed (default: 3)"
    )
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        minute = Path(folder) / "minute"
        note(f"simulating one minute of {chosen.servers * 8:,} GPUs")
        scenario = bench_scenario(seed=1, servers=chosen.servers)
        made = generate(replace(scenario, observation=replace(scenario.observation, path=True)))
        write(made, Path(folder) / "ways")
        write(replace(made, flows=made.flows.drop_columns(["path"])), minute)
        with connect(f"chdb://{folder}/data") as store:
            measure(store, minute, chosen.repeats, chosen.servers * 8)


def measure(store: Store, minute: Path, repeats: int, gpus: int) -> None:
    """Time landing against the bare insert, and analysis against the bare read."""
    migrate(store)
    load_topology(store, str(minute / "topology.csv"))
    settings = Settings(url="chdb://-")
    landed = {"land": minute, "ways": minute.parent / "ways", "unkept": minute.parent / "ways"}
    names = ("insert", "order", "land", "ways", "unkept", "read", "analyse")
    times: dict[str, list[float]] = {name: [] for name in names}
    flows = 0
    for turn in range(repeats):
        note(f"turn {turn + 1} of {repeats}")
        for name, order in (("insert", _BY_TIME), ("order", _BY_PAIR)):
            store.command(_BARE_TABLE.format(order=order))
            times[name].append(
                duration_s(lambda: store.command(_BARE_INSERT, {"files": str(minute / "flows" / "*.parquet")}))
            )
        # Each is as often first: what lands after another finds memory and files warm. What is analysed has no ways.
        in_turn = [*landed, *landed][turn % len(landed) :][: len(landed)]
        for name in (*in_turn, *reversed(in_turn)):
            times[name].append(_landing_s(store, landed[name], by_way=name != "unkept"))
        _landing_s(store, minute)
        flows = store.scalar("SELECT count() FROM flows_log")
        times["read"].append(duration_s(lambda: store.arrow(_BARE_READ)))
        times["analyse"].append(duration_s(lambda: analyse(store, settings, force=True)))
    seconds = {name: statistics.median(values) for name, values in times.items()}
    print(f"{flows:,} flow records of one minute, {store.scalar('SELECT count() FROM jobs')} jobs recognised")
    print(f"{'':44}{'seconds':>9}{'flows/s':>12}  ratio")
    for name, what, against in (
        ("insert", "ClickHouse's bare insert, by time", {}),
        ("order", "ClickHouse's bare insert, as flows are kept", {}),
        ("land", "landing through the views", {"insert": "by time", "order": "as kept"}),
        ("unkept", "landing records with ways, by pair alone", {}),
        ("ways", "landing them by way, too", {"unkept": "by pair alone", "land": "records without"}),
        ("read", "ClickHouse's bare read", {}),
        ("analyse", "analysis, read to published", {"read": "the bare read"}),
    ):
        ratios = ", ".join(f"{seconds[other] / seconds[name]:.2f} of {words}" for other, words in against.items())
        print(f"{what:44}{seconds[name]:9.2f}{flows / seconds[name]:12,.0f}  {ratios}".rstrip())
    stored = store.scalar(
        "SELECT sum(bytes_on_disk) FROM system.parts WHERE active AND database = currentDatabase() AND table IN"
        " ('flows_log', 'flow_pair_1m_log', 'flow_pair_1h_log', 'switch_1s_log', 'switch_1m_log',"
        " 'switch_1h_log', 'arrivals_log')"
    )
    print(f"{stored / flows:.1f} bytes on disk a flow, rollups included\n")
    print("What larger clusters with such traffic would need, of machines like this one:")
    print(Rates(flows / 60 / gpus, flows / seconds["land"], flows / seconds["analyse"], stored / flows).table())


def _landing_s(store: Store, minute: Path, *, by_way: bool = True) -> float:
    """Land a minute in an empty database, and return how long that takes, in seconds."""
    empty_flows(store)
    with nullcontext() if by_way else without_ways(store):
        return duration_s(partial(land_files, store, [str(minute / "flows" / "*.parquet")]))


@contextmanager
def without_ways(store: Store) -> Iterator[None]:
    """Sum minutes by pair alone, as if nothing was kept by way."""
    query = "SELECT create_table_query FROM system.tables WHERE database = currentDatabase() AND name = {name:String}"
    views = {name: str(store.scalar(query, {"name": name})) for name in ("flow_minutes_mv", "flow_way_1m_mv")}
    by_pair = views["flow_minutes_mv"]
    for part, instead in (("any(l.path)", "CAST([], 'Array(String)')"), (", cityHash64(l.path)", "")):
        assert by_pair.count(part) == 1, f"sums of minutes hold {part} {by_pair.count(part)} times"
        by_pair = by_pair.replace(part, instead)
    for name in views:
        store.command("DROP VIEW {name:Identifier}", {"name": name})
    store.command(by_pair)
    yield
    store.command("DROP VIEW flow_minutes_mv")
    for statement in views.values():
        store.command(statement)


def empty_flows(store: Store) -> None:
    """Remove all landed records, so that the same file can land again."""
    tables = store.rows(
        "SELECT name FROM system.tables WHERE database = currentDatabase() AND engine LIKE '%MergeTree'"
        " AND (name LIKE 'flow%' OR name LIKE 'land%' OR name LIKE 'switch%' OR name LIKE 'arrivals%')"
    )
    for (name,) in tables:
        store.command("TRUNCATE TABLE {name:Identifier}", {"name": name})


def duration_s(call: Callable[[], object]) -> float:
    """Return how long a call takes, in seconds."""
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def note(text: str) -> None:
    """Print progress at a terminal; print nothing in a pipe."""
    if sys.stderr.isatty():
        print(text, file=sys.stderr)


if __name__ == "__main__":
    main()
