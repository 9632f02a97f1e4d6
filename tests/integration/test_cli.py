"""The command line as its users run it; a process of its own where that makes a difference."""

import io
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow.parquet
import pytest

from prism_ch.store.client import Store
from tests.e2e.commands import Done, prism_ch, prism_ch_process

RUN = Path(__file__).parents[1] / "data" / "real_training" / "dp4_slow_rank"
HEADER = "time_flow_start_ns,time_flow_end_ns,src_addr,dst_addr,src_port,dst_port,proto,bytes,packets,sampler_address"
GOOD = "1772366400000000000,1772366400000001000,10.0.0.1,10.0.0.2,1,4791,UDP,1000,1,10.1.1.1"
BAD = "1772366400000000000,1772366400000001000,nowhere,10.0.0.2,1,4791,UDP,1000,1,10.1.1.1"


@pytest.fixture
def piped(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Done]:
    """Runs a command to which a text is piped."""

    def run(text: str, *arguments: str | Path, url: str) -> Done:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        return prism_ch(*arguments, url=url)

    return run


def lines(folder: Path, name: str, *content: str) -> Path:
    """Write a file of lines."""
    path = folder / name
    path.write_text("".join(f"{line}\n" for line in content), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def analysed(engine_folder: Path) -> tuple[str, str]:
    """A database in which the recorded run with a slow rank was analysed, and what was printed."""
    url = f"chdb://{engine_folder}?database=cli_analysed"
    done = prism_ch("run", RUN / "flows.parquet", "--topology", RUN / "topology.csv", url=url)
    assert (done.status, done.err) == (0, "")
    return url, done.out


@pytest.fixture(scope="module")
def migrated(engine_folder: Path) -> str:
    """An empty database, which tests may land records in."""
    url = f"chdb://{engine_folder}?database=cli_migrated"
    assert prism_ch("migrate", url=url).status == 0
    return url


def summary(printed: str) -> str:
    """Cut off what is said while landing."""
    return printed[printed.index("Records\n") :]


def test_run_tells_the_job_and_what_slows_it(analysed: tuple[str, str]) -> None:
    _, printed = analysed
    records = pyarrow.parquet.read_metadata(RUN / "flows.parquet").num_rows
    assert f"landed {records:,} of {records:,} records from 1 file" in printed
    assert "loaded 4 endpoints" in printed
    assert "tenant-a" in printed
    assert "4 endpoints on 4 servers" in printed
    assert "data-parallel (DP) groups of 4, no pipeline (PP) traffic" in printed
    assert "incidents     1 thing slows it" in printed
    assert "slow_gpu, steps " in printed
    assert "\x1b" not in printed
    assert max(map(len, summary(printed).splitlines())) <= 100


def test_readme_shows_what_the_demo_prints(analysed: tuple[str, str]) -> None:
    _, printed = analysed
    readme = (RUN.parents[3] / "README.md").read_text(encoding="utf-8")
    assert summary(printed) in readme.partition("It prints:")[2]


def test_run_again_changes_nothing(analysed: tuple[str, str]) -> None:
    url, printed = analysed
    again = prism_ch("run", RUN / "flows.parquet", "--topology", RUN / "topology.csv", url=url)
    assert again.status == 0
    assert "its content has landed before\n" in again.out
    assert summary(again.out) == summary(printed)


def test_sql_gives_the_same_findings(analysed: tuple[str, str]) -> None:
    url, _ = analysed
    question = (
        "SELECT kind::String AS kind, severity::String AS severity, first_step, last_step, summary FROM diagnoses"
    )
    found = prism_ch("sql", question, "--format", "json", url=url)
    findings = [json.loads(line) for line in found.out.splitlines()]
    slow = [finding for finding in findings if finding["kind"] == "slow_step"]
    assert any(abs(finding["first_step"] - 30) <= 1 and abs(finding["last_step"] - 45) <= 1 for finding in slow)


def test_every_incident_and_each_finding_of_none_is_printed(analysed: tuple[str, str]) -> None:
    url, printed = analysed
    question = "SELECT summary FROM incidents UNION ALL SELECT summary FROM diagnoses WHERE incident_id = ''"
    found = prism_ch("sql", question, "--format", "json", url=url)
    text = " ".join(printed.split())
    summaries = [json.loads(line)["summary"] for line in found.out.splitlines()]
    assert len(summaries) == 2
    assert [summary for summary in summaries if summary not in text] == []


def test_analyse_has_nothing_left_to_do_unless_forced(analysed: tuple[str, str]) -> None:
    url, _ = analysed
    assert prism_ch("analyse", url=url).out == "nothing to work\n"
    assert prism_ch("analyse", "--to", "2026-01-01", "--force", url=url).out == "nothing to work\n"
    assert prism_ch("analyse", "--force", url=url).out.startswith("worked ")


def test_sql_writes_files_and_reads_statements_from_stdin(
    analysed: tuple[str, str], piped: Callable[..., Done], tmp_path: Path
) -> None:
    url, _ = analysed
    steps = tmp_path / "steps.parquet"
    done = piped("SELECT * FROM steps;\n", "sql", "-", "--format", "parquet", "--output", steps, url=url)
    assert (done.status, done.out, done.err) == (0, "", "")
    assert pyarrow.parquet.read_metadata(steps).num_rows >= 68
    failed = prism_ch("sql", "SELECT 1", "--output", tmp_path / "no" / "x", url=url)
    assert failed.status == 1
    assert failed.err.endswith("can't be written: No such file or directory\n")


def test_a_reader_that_leaves_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    command = [sys.executable, "-m", "prism_ch", "sql", "SELECT number FROM numbers(300000)"]
    with subprocess.Popen(
        [*command, "--url", f"chdb://{tmp_path}/data?database=default"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "number\n"
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 128 + 13


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Children heed SIGINT, which those of a shell's background job ignore."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_ends_a_long_query(tmp_path: Path) -> None:
    endless = "SELECT count() FROM numbers(1000000000000) WHERE sipHash64(number) = 1"
    command = [sys.executable, "-m", "prism_ch", "sql", endless, "--url", f"chdb://{tmp_path}/data?database=default"]
    (tmp_path / "data").mkdir()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        while not (tmp_path / "data" / "status").exists():
            assert process.poll() is None
            time.sleep(0.05)
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        out, error = process.communicate(timeout=30)
    assert out == ""
    assert error.strip() == "prism-ch: interrupted; run the same command again to go on"
    assert process.returncode == 128 + 2


def test_migrate_twice(migrated: str) -> None:
    again = prism_ch("migrate", url=migrated)
    assert again.status == 0
    assert again.out.endswith("is up to date\n")


def test_bad_records_are_kept_counted_and_no_failure(migrated: str, tmp_path: Path) -> None:
    file = lines(tmp_path, "mixed.csv", HEADER, GOOD, BAD, GOOD.replace("000,10", "001,10"))
    done = prism_ch("ingest", file, url=migrated)
    assert done.status == 0
    assert "landed 2 of 3 records from 1 file" in done.out
    assert "rejected 1: 1 bad_src_addr" in done.out
    kept = prism_ch("sql", "SELECT record FROM flows_rejected WHERE endsWith(source, 'mixed.csv')", url=migrated)
    assert kept.out == f"record\n{BAD}\n"


def test_only_bad_records_are_a_failure(migrated: str, piped: Callable[..., Done]) -> None:
    done = piped(f"{HEADER}\n{BAD}\n", "ingest", "-", "--format", "csv", url=migrated)
    assert done.status == 1
    assert "landed 0 of 1 records" in done.out


@pytest.mark.parametrize("command", [["ingest", "absent.csv"], ["topology", "absent.csv"], ["ingest", "absent/*.csv"]])
def test_a_missing_file_is_one_line(migrated: str, command: list[str]) -> None:
    done = prism_ch(*command, url=migrated)
    assert done.status == 1
    assert done.out == ""
    assert done.err.startswith("prism-ch: absent")
    assert done.err.count("\n") == 1


def test_analyse_without_a_topology_says_so(store: Store, store_url: str, tmp_path: Path) -> None:
    flows = lines(tmp_path, "flows.csv", HEADER, GOOD)
    places = ["10.0.0.1,a,0,0,l,p,t", "10.0.0.2,b,0,0,l,p,t"]
    topology = lines(tmp_path, "topology.csv", "endpoint,server,gpu,rail,leaf,pod,tenant", *places)
    assert prism_ch("ingest", flows, url=store_url).status == 0
    done = prism_ch("analyse", url=store_url)
    assert done.status == 0
    assert done.out.startswith("worked 1 window, read 0 flows between known endpoints\nNo topology is loaded")
    assert prism_ch("topology", topology, url=store_url).status == 0
    done = prism_ch("analyse", url=store_url)
    assert done.out == "worked 1 window, read 1 flow between known endpoints\n"


def test_bad_lines_of_a_topology_are_named_and_the_others_load(migrated: str, tmp_path: Path) -> None:
    header = "endpoint,server,gpu,rail,leaf,pod,tenant"
    file = lines(
        tmp_path, "topology.csv", header, "10.0.0.1,a,0,0,l,p,t", "nowhere,a,0,0,l,p,t", "10.0.0.2,b,0,0,l,p,t"
    )
    done = prism_ch("topology", file, url=migrated)
    assert done.status == 0
    assert f"loaded 2 endpoints from {file}; 1 line could not be used" in done.out
    assert f"{file}:3: " in done.err
    assert done.err.count("\n") == 1


def test_error_of_a_second_process_names_the_folder(tmp_path: Path) -> None:
    code = f"""
import sys
from prism_ch.store.client import connect
with connect("chdb://{tmp_path}/data"):
    print("open", flush=True)
    sys.stdin.read()
"""
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "open\n"
        failed = prism_ch_process("sql", "SELECT 1", folder=tmp_path / "data")
        holder.communicate("")
    assert failed.status == 1
    assert f"{tmp_path}/data" in failed.err
    assert failed.err.count("\n") == 1


@pytest.mark.parametrize(
    "content,reason",
    [
        ([HEADER], "No flow records have landed"),
        ([HEADER, GOOD.replace("10.0.0.2", "10.9.9.9")], "Only one endpoint of the topology"),
        ([HEADER, GOOD], "no set of endpoints exchanges them steadily"),
        ([HEADER, GOOD.replace("10.0.0.", "10.9.9.")], "None of the addresses"),
    ],
)
def test_without_a_job_run_says_why(
    store: Store, store_url: str, tmp_path: Path, content: list[str], reason: str
) -> None:
    flows = lines(tmp_path, "flows.csv", *content)
    places = ["10.0.0.1,a,0,0,l,p,t", "10.0.0.2,b,0,0,l,p,t"]
    topology = lines(tmp_path, "topology.csv", "endpoint,server,gpu,rail,leaf,pod,tenant", *places)
    done = prism_ch("run", flows, "--topology", topology, url=store_url)
    assert (done.status, done.err) == (0, "")
    assert "No training job was recognised" in done.out
    assert reason in done.sentences


def test_simulate_names_the_field_out_of_bounds(tmp_path: Path) -> None:
    refused = prism_ch("simulate", tmp_path / "sim", "--queue-pairs", "65")
    assert (refused.status, refused.out) == (2, "")
    assert refused.err == "prism-ch: queue_pairs: Input should be less than or equal to 64, not 65\n"


def test_simulate_writes_what_run_reads(store_url: str, tmp_path: Path) -> None:
    options = ["--tp", "8", "--pp", "2", "--dp", "2", "--steps", "15", "--step-s", "0.5"]
    made = prism_ch("simulate", tmp_path / "sim", *options)
    assert (made.status, made.err) == (0, "")
    done = prism_ch(
        "run", f"{tmp_path}/sim/flows/*.parquet", "--topology", tmp_path / "sim" / "topology.csv", url=store_url
    )
    assert (done.status, done.err) == (0, "")
    assert "tenant-00" in done.out
    assert "data-parallel (DP) groups of 2, 2 pipeline (PP) stages" in done.out


@pytest.mark.parametrize("command", [["sql", "SELECT 1"], ["jobs"], ["analyse"], ["doctor"]])
def test_a_mistyped_url_makes_no_folder(command: list[str], tmp_path: Path) -> None:
    told = prism_ch_process(*command, folder=tmp_path / "data")
    assert told.status == 1
    assert "there is no database in this folder" in told.err + told.out
    assert list(tmp_path.iterdir()) == []
