"""`prism-ch export perfetto`: a trace shows what the tables have, neither more nor less."""

from __future__ import annotations

import gzip
import itertools
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from prism_ch.errors import StoreError
from prism_ch.export import messages, reader
from prism_ch.store.client import Store, connect
from tests import traces
from tests.e2e.analysed import Analysed, NewUrl, Recorded, run, simulate
from tests.e2e.commands import Done, prism_ch
from tests.unit.export.test_tracks import HOSTILE

PHASES = ("compute", "PP", "DP", "EP", "CP", "TP")


@pytest.fixture(scope="module")
def store(slow_gpu: Analysed) -> Iterator[Store]:
    with connect(slow_gpu.url) as opened:
        yield opened


@pytest.fixture(scope="module")
def job(store: Store) -> str:
    return str(store.scalar("SELECT job_id FROM jobs"))


@pytest.fixture(scope="module")
def whole(slow_gpu: Analysed, job: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of the whole job's trace."""
    file = tmp_path_factory.mktemp("whole") / "trace.pftrace"
    assert export(slow_gpu, job, file).status == 0
    return file


@pytest.fixture(scope="module")
def trace(whole: Path) -> traces.Decoded:
    return traces.read(whole)


def export(run: Analysed, job: str, file: Path, *options: str) -> Done:
    return prism_ch("export", "perfetto", job, "-o", file, *options, url=run.url)


def shown(run: Analysed, job: str, file: Path, *options: str) -> traces.Decoded:
    done = export(run, job, file, *options)
    assert (done.status, done.err) == (0, "")
    assert not [*file.parent.glob("*.part")]
    return traces.read(file)


def test_phases_are_those_of_the_timeline(trace: traces.Decoded, store: Store) -> None:
    rows = store.rows(
        "SELECT endpoint, step, toString(phase), toUnixTimestamp64Nano(start_time) AS s,"
        " toUnixTimestamp64Nano(end_time) FROM timeline ORDER BY endpoint, step, s"
    )
    stages = dict(store.rows("SELECT endpoint, (server, gpu, pp_stage) FROM job_members"))
    wanted: defaultdict[str, list[object]] = defaultdict(list)
    for endpoint, step, phase, start_ns, end_ns in rows:
        wanted[f"GPU {stages[endpoint][1]} ({endpoint}, stage {stages[endpoint][2]})"].append(
            (f"step {step}", phase, start_ns, end_ns)
        )
    found = {
        name: [(each.parent.name, each.name, each.start_ns, each.end_ns) for each in trace.slices[uuid] if each.parent]
        for name, uuid in trace.threads().items()
    }
    assert found == wanted
    servers = {f"GPU {gpu} ({endpoint}, stage {stage})": server for endpoint, (server, gpu, stage) in stages.items()}
    assert {name: trace.process(uuid) for name, uuid in trace.threads().items()} == servers


def test_seconds_of_each_phase_are_those_of_the_timeline(trace: traces.Decoded, store: Store) -> None:
    found = trace.seconds()
    wanted = dict(
        store.rows(
            "SELECT toString(phase), sum(toUnixTimestamp64Nano(end_time) - toUnixTimestamp64Nano(start_time)) / 1e9"
            " FROM timeline GROUP BY phase"
        )
    )
    assert {name: found[name] for name in PHASES if name in found} == pytest.approx(wanted, abs=1e-6, rel=0)


def test_slices_nest_and_do_not_overlap(trace: traces.Decoded) -> None:
    for uuid in trace.threads().values():
        slices = trace.slices[uuid]
        steps = [each for each in slices if each.parent is None]
        assert [each.name for each in steps] == [f"step {number}" for number in range(len(steps))]
        for before, after in itertools.pairwise(steps):
            assert before.end_ns <= after.start_ns
        for step, phases in itertools.groupby(
            (each for each in slices if each.parent), key=lambda each: id(each.parent)
        ):
            inside = list(phases)
            around = inside[0].parent
            assert around is not None
            assert id(around) == step
            assert (inside[0].start_ns, inside[-1].end_ns) == (around.start_ns, around.end_ns)
            assert all(one.end_ns == other.start_ns for one, other in itertools.pairwise(inside))


def test_arrows_are_the_pipeline_messages(trace: traces.Decoded, store: Store) -> None:
    address = {uuid: name.split("(")[1].split(",")[0] for name, uuid in trace.threads().items()}
    arrows = traces.arrows(trace.all_slices())
    drawn = Counter((address[source.track], address[target.track]) for source, target in arrows)
    first, last = store.rows(
        "SELECT toUnixTimestamp64Nano(min(start_time)), toUnixTimestamp64Nano(max(end_time)) FROM timeline"
    )[0]
    sent = {
        (src, dst): number
        for src, dst, number in store.rows(
            "SELECT src_addr, dst_addr, count() FROM flows"
            " WHERE (src_addr, dst_addr) IN (SELECT src_addr, dst_addr FROM pairs WHERE kind = 'PP')"
            " AND time_flow_start_ns >= {first:Int64} AND time_flow_end_ns <= {last:Int64} GROUP BY ALL",
            {"first": first, "last": last},
        )
    }
    assert drawn.keys() == sent.keys()
    # Of the first and the last step some members have no phases while others send already, or still.
    assert all(0.97 * sent[pair] <= number <= sent[pair] for pair, number in drawn.items())
    assert all(source.start_ns < target.start_ns for source, target in arrows)
    assert {source.name for source, _ in arrows} <= {"PP", "DP"}


def test_counters_have_the_bytes_of_the_records(trace: traces.Decoded, store: Store) -> None:
    found = sum(
        value * (later - time_ns) / 1e9
        for values in trace.counters.values()
        for (time_ns, value), (later, _) in itertools.pairwise(values)
    )
    assert all(values[-1][1] == 0 for values in trace.counters.values())
    first, last = store.rows(
        "SELECT toUnixTimestamp64Nano(min(start_time)), toUnixTimestamp64Nano(max(end_time)) FROM timeline"
    )[0]
    wanted = store.scalar(
        "SELECT sum(bytes) FROM flows WHERE time_flow_start_ns >= {first:Int64} AND time_flow_end_ns <= {last:Int64}",
        {"first": first, "last": last},
    )
    assert found == pytest.approx(wanted, rel=1e-3)
    processes = {each.uuid: each.process.process_name for each in trace.tracks.values() if each.HasField("process")}
    parents = [processes[trace.tracks[uuid].parent_uuid] for uuid in trace.counters]
    assert sorted(parents) == sorted(server for (server,) in store.rows("SELECT DISTINCT server FROM job_members"))


def test_incidents_are_those_of_the_view(trace: traces.Decoded, store: Store) -> None:
    wanted = store.rows(
        "SELECT incident_id, toUnixTimestamp64Nano(start_time), toUnixTimestamp64Nano(end_time), summary, lost_gpu_h"
        " FROM incidents ORDER BY incident_id"
    )
    assert wanted
    assert sorted(
        (each.notes["incident_id"], each.start_ns, each.end_ns, each.notes["summary"], each.notes["lost_gpu_h"])
        for each in trace.incidents()
    ) == [tuple(row) for row in wanted]


@pytest.mark.parametrize(
    "steps,first,last", [("10:12", 10, 12), ("40:", 40, None), (":3", 0, 3), (":", 0, None), ("44:99999999", 44, None)]
)
def test_only_the_steps_asked_for_are_there(
    slow_gpu: Analysed, store: Store, job: str, tmp_path: Path, steps: str, first: int, last: int | None
) -> None:
    known = [step for (step,) in store.rows("SELECT step FROM steps ORDER BY step")]
    first = min(first, known[-1])
    trace = shown(slow_gpu, job, tmp_path / "trace.pftrace", "--steps", f"{first}:{'' if last is None else last}")
    there = {each.name for each in trace.all_slices() if each.name.startswith("step")}
    assert there == {f"step {step}" for step in known if first <= step <= (known[-1] if last is None else last)}
    assert traces.arrows(trace.all_slices())


def test_a_trace_is_the_same_however_it_is_read(
    trace: traces.Decoded, slow_gpu: Analysed, job: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "_CHUNK_PHASES", 1)
    assert _content(trace) == _content(shown(slow_gpu, job, tmp_path / "by_step.pftrace"))


@pytest.mark.sweep
def test_arrows_are_the_same_by_records_of_many_switches(new_url: NewUrl, tmp_path: Path) -> None:
    found = []
    for each in ("clean", "bad-exporter-200ms"):
        made = simulate(tmp_path / each, new_url(), "--condition", each)
        with connect(made.url) as store:
            job = str(store.scalar("SELECT job_id FROM jobs"))
        trace = shown(made, job, tmp_path / f"{each}.pftrace")
        arrows = traces.arrows(trace.all_slices())
        found.append(Counter((trace.thread(source.track), trace.thread(target.track)) for source, target in arrows))
    assert found[0] == found[1]


def test_a_packed_trace_is_the_same(whole: Path, slow_gpu: Analysed, job: str, tmp_path: Path) -> None:
    packed = tmp_path / "trace.pftrace.gz"
    assert export(slow_gpu, job, packed).status == 0
    assert gzip.decompress(packed.read_bytes()) == whole.read_bytes()
    assert 3 * packed.stat().st_size < whole.stat().st_size


def test_a_tenant_sees_its_own_job_without_records(
    trace: traces.Decoded, slow_gpu: Analysed, store: Store, job: str, tmp_path: Path
) -> None:
    file = tmp_path / "trace.pftrace"
    done = export(slow_gpu, job, file, "--tenant", store.scalar("SELECT tenant FROM jobs"))
    assert (done.status, done.err) == (0, "")
    assert "no arrows and no counters" in done.out
    own = traces.read(file)
    assert own.seconds() == trace.seconds()
    assert own.threads().keys() == trace.threads().keys()
    assert (own.counters, traces.arrows(own.all_slices())) == ({}, [])


def test_a_tenant_sees_no_job_of_others(slow_gpu: Analysed, job: str, tmp_path: Path) -> None:
    file = tmp_path / "trace.pftrace"
    others = export(slow_gpu, job, file, "--tenant", "somebody else")
    unknown = export(slow_gpu, "job-none", file, "--tenant", "somebody else")
    assert (others.status, others.out) == (unknown.status, unknown.out) == (2, "")
    assert others.err == unknown.err.replace("job-none", job)
    assert not file.exists()


def test_a_user_who_may_not_read_records_gets_the_rest(
    slow_gpu: Analysed, job: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise StoreError("Not enough privileges", code=497)

    monkeypatch.setattr(messages, "read_flows", refuse)
    file = tmp_path / "trace.pftrace"
    done = export(slow_gpu, job, file)
    assert (done.status, done.err) == (0, "")
    assert "no arrows and no counters" in done.out
    assert traces.read(file).named("compute")


def test_an_error_of_the_engine_leaves_the_old_trace(
    slow_gpu: Analysed, job: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise StoreError("memory limit exceeded", code=241)

    monkeypatch.setattr(messages, "read_flows", fail)
    file = tmp_path / "trace.pftrace"
    file.write_text("old")
    done = export(slow_gpu, job, file)
    assert (done.status, done.out, done.err) == (1, "", "prism-ch: memory limit exceeded\n")
    assert [*tmp_path.iterdir()] == [file]
    assert file.read_text() == "old"


@pytest.mark.parametrize(
    "arguments,line",
    [
        (["--steps", "5"], "--steps takes A:B, for example 100:119, not 5"),
        (["--steps", "-1:5"], "--steps takes A:B, for example 100:119, not -1:5"),
        (["--steps", "7:5"], "--steps 7:5 is none: the first may not be behind the last"),
        (["--steps", "900:"], "has none of these steps; it has 0 to "),
    ],
)
def test_steps_that_are_none_are_wrong_usage(
    slow_gpu: Analysed, job: str, tmp_path: Path, arguments: list[str], line: str
) -> None:
    done = export(slow_gpu, job, tmp_path / "trace.pftrace", *arguments)
    assert (done.status, done.out) == (2, "")
    assert line in done.err
    assert done.err.count("\n") == 1
    assert not [*tmp_path.iterdir()]


def test_an_unknown_job_is_wrong_usage(slow_gpu: Analysed, tmp_path: Path) -> None:
    done = export(slow_gpu, "x' OR 1 = 1 --", tmp_path / "trace.pftrace")
    assert (done.status, done.out) == (2, "")
    assert done.err == "prism-ch: there is no job x' OR 1 = 1 -- with steps; `prism-ch jobs` lists the jobs\n"


def test_a_folder_that_is_not_there_is_one_line(slow_gpu: Analysed, job: str, tmp_path: Path) -> None:
    done = export(slow_gpu, job, tmp_path / "none" / "trace.pftrace")
    assert (done.status, done.out) == (1, "")
    assert done.err == f"prism-ch: {tmp_path}/none/trace.pftrace: can't be written: No such file or directory\n"


def test_phases_that_overlap_are_cut_and_counted(
    new_url: NewUrl, slow_gpu: Analysed, store: Store, job: str, tmp_path: Path
) -> None:
    copied = Analysed(slow_gpu.folder, new_url(), slow_gpu.told)
    assert prism_ch("migrate", url=copied.url).status == 0
    with connect(copied.url) as copy:
        for table in ("jobs_log", "job_members_log", "revisions", "steps_log", "timeline_log", "windows_log"):
            copy.command(f"INSERT INTO {table} SELECT * FROM {store.database}.{table}")  # noqa: S608 - our own names
        copy.command(
            "ALTER TABLE timeline_log UPDATE lengths_ns = arrayMap(x -> x * 2, lengths_ns) WHERE step = 3"
            " SETTINGS mutations_sync = 1"
        )
        endpoints = copy.scalar("SELECT uniqExact(endpoint) FROM timeline")
    done = export(copied, job, tmp_path / "trace.pftrace")
    assert (done.status, done.err) == (0, "")
    assert "began before the one before had ended, and were cut" in done.out
    trace = traces.read(tmp_path / "trace.pftrace")
    assert len(trace.threads()) == endpoints


def test_hostile_names_break_nothing(new_url: NewUrl, recorded: Recorded, tmp_path: Path) -> None:
    source = recorded("dp4_slow_rank").folder
    rows = [line.split(",") for line in (source / "topology.csv").read_text().splitlines()]
    place = rows[0].index("server")
    names = [name.replace("\x00", "").replace("\n", " ") for name in HOSTILE]
    for row, name in zip(rows[1:], names, strict=False):
        row[place] = '"' + name.replace('"', '""') + '"'
    (tmp_path / "topology.csv").write_text("\n".join(",".join(row) for row in rows) + "\n")
    (tmp_path / "flows.parquet").write_bytes((source / "flows.parquet").read_bytes())
    hostile = run(tmp_path, "flows.parquet", new_url())
    with connect(hostile.url) as store:
        job = store.scalar("SELECT job_id FROM jobs")
        servers = {server for (server,) in store.rows("SELECT server FROM job_members")}
    trace = shown(hostile, job, tmp_path / "trace.pftrace")
    assert {trace.process(uuid) for uuid in trace.threads().values()} == servers
    assert len(servers) == 4


def _content(trace: traces.Decoded) -> object:
    """All that a trace shows, whatever its numbers and order."""
    slices = sorted((trace.thread(each.track), each.start_ns, each.name, each.end_ns) for each in trace.all_slices())
    arrows = Counter(
        (trace.thread(source.track), source.start_ns, trace.thread(target.track), target.start_ns)
        for source, target in traces.arrows(trace.all_slices())
    )
    return slices, arrows
