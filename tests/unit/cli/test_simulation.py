"""`simulate`: every family, condition and kind of fault can be had, and errors are one line."""

import csv
import json
import re
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

from prism_ch.cli import main
from prism_ch.simulate.families import CONDITIONS, FAMILIES
from prism_ch.simulate.subjects import FAULT_KINDS

ROOT = Path(__file__).parents[3]
SHORT = ("--duration-s", "12")
SUBJECTS = {
    "slow_link": "10.16.0.2->10.16.0.1",
    "slow_switch": "172.16.0.3",
    "slow_spine": "172.31.0.2",
    "slow_uplink": "172.16.0.1->172.31.0.2",
    "slow_stage": "job-00/stage/1",
}
PEER = {
    "slow_link": "link",
    "slow_switch": "switch",
    "slow_spine": "switch",
    "slow_uplink": "link",
    "slow_stage": "stage",
}


def rows(folder: Path, table: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pyarrow.parquet.read_table(folder / "truth" / f"{table}.parquet").to_pylist()
    return found


def described(folder: Path) -> dict[str, Any]:
    summary: dict[str, Any] = json.loads((folder / "truth" / "scenario.json").read_text(encoding="utf-8"))
    return summary


def refused(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> str:
    assert main(["simulate", *map(str, arguments)]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert re.fullmatch(r"prism-ch: [^\n]+\n", printed.err)
    return printed.err


@pytest.mark.parametrize("family", FAMILIES)
def test_family_writes_topology_flows_and_truth(family: str, tmp_path: Path) -> None:
    assert main(["simulate", str(tmp_path / "sim"), "--family", family, "--seed", "3", *SHORT]) == 0
    assert (described(tmp_path / "sim")["scenario"], described(tmp_path / "sim")["seed"]) == (family, 3)
    with (tmp_path / "sim" / "topology.csv").open(encoding="utf-8") as topology:
        listed = {line["endpoint"] for line in csv.DictReader(topology)}
    flows = pyarrow.parquet.read_table(tmp_path / "sim" / "flows")
    assert listed & set(flows["src_addr"].to_pylist())
    jobs = [job.job_id for job in FAMILIES[family](3).jobs]
    assert [job["job_id"] for job in rows(tmp_path / "sim", "jobs")] == jobs


@pytest.mark.parametrize("condition", CONDITIONS)
def test_condition_reaches_the_records(condition: str, tmp_path: Path) -> None:
    options = ["--family", "ddp-fused", "--condition", condition, *SHORT]
    assert main(["simulate", str(tmp_path / "sim"), *options]) == 0
    observed = described(tmp_path / "sim")["observe"]
    assert observed == json.loads(json.dumps(asdict(CONDITIONS[condition])))


@pytest.mark.parametrize("exporters, lost", [("all", None), ("172.16.0.1, 172.16.0.2", {"172.16.0.1", "172.16.0.2"})])
def test_silence_leaves_out_records_and_is_told(exporters: str, lost: set[str] | None, tmp_path: Path) -> None:
    assert main(["simulate", str(tmp_path / "sim"), "--silence", exporters, "4", "8", *SHORT]) == 0
    flows = pyarrow.parquet.read_table(tmp_path / "sim" / "flows")
    begin_ns = described(tmp_path / "sim")["window_start_ns"]
    inside = [4 <= (end - begin_ns) / 1e9 < 8 for end in flows["time_flow_end_ns"].to_pylist()]
    senders = {name for name, here in zip(flows["sampler_address"].to_pylist(), inside, strict=True) if here}
    assert senders == set() if lost is None else senders and not senders & lost
    (row,) = rows(tmp_path / "sim", "faults")
    assert (row["kind"], row["accept_kinds"], row["effective"]) == ("silence", ["telemetry"], True)


def test_silence_of_an_unknown_switch_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "no switch 10.0.0.1" in refused(capsys, tmp_path / "sim", "--silence", "10.0.0.1", "4", "-", *SHORT)


def test_condition_leaves_the_textbook_its_paths(tmp_path: Path) -> None:
    assert main(["simulate", str(tmp_path / "sim"), "--condition", "loss-2%", *SHORT]) == 0
    observed = described(tmp_path / "sim")["observe"]
    assert (observed["loss"], observed["path"]) == (0.02, True)


@pytest.mark.parametrize("kind", FAULT_KINDS)
@pytest.mark.parametrize("family", [(), ("--family", "pipeline-1f1b")])
def test_fault_reaches_the_truth(
    kind: str, family: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    subject, hang = SUBJECTS.get(kind, "server-00001/2"), kind == "hang"
    magnitude = "-" if hang else "1.5" if kind in ("slow_gpu", "slow_drift", "slow_stage") else "0.5"
    fault = ["--fault", kind, subject, magnitude, "10", "-" if hang else "25"]
    assert main(["simulate", str(tmp_path / "sim"), *family, "--duration-s", "40", *fault]) == 0
    [row], start_ns = rows(tmp_path / "sim", "faults"), described(tmp_path / "sim")["window_start_ns"]
    assert (row["kind"], row["subject_type"]) == (kind, PEER.get(kind, "endpoint"))
    assert row["subject"] == SUBJECTS.get(kind, "10.18.0.2")
    assert (row["start_ns"] - start_ns) / 1e9 == 10
    assert (row["end_ns"] - start_ns) / 1e9 == (40 if kind in ("hang", "slow_drift") else 25)
    assert row["magnitude"] == (1e6 if hang else float(magnitude))
    assert f"\nfault-000: {kind} {row['subject']}: s" in capsys.readouterr().out


def test_faults_come_after_those_of_options_and_family(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    faults = ["--fault", "slow_nic", "8", "0.5", "1", "9", "--fault", "hang", "3", "-", "5", "-"]
    for own in (["--slow-gpu", "5", "2", "1", "2"], ["--family", "production-straggler"]):
        assert main(["simulate", str(tmp_path / "sim"), "--force", *own, *faults, *SHORT]) == 0
        assert [row["kind"] for row in rows(tmp_path / "sim", "faults")] == ["slow_gpu", "slow_nic", "hang"]
        assert re.findall("fault-00.", capsys.readouterr().out) == ["fault-001", "fault-002"]


def test_lists_name_all_families_and_conditions(capsys: pytest.CaptureFixture[str]) -> None:
    for option, names in (("--family", FAMILIES), ("--condition", CONDITIONS)):
        assert main(["simulate", option, "list"]) == 0
        assert capsys.readouterr() == ("\n".join(names) + "\n", "")


def test_help_and_how_to_name_all_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--help"]) == 0
    shown = capsys.readouterr().out
    assert [kind for kind in FAULT_KINDS if kind not in shown] == []
    page = (ROOT / "docs/howto/simulate.md").read_text(encoding="utf-8")
    assert [name for name in (*FAMILIES, *CONDITIONS, *FAULT_KINDS) if f"`{name}`" not in page] == []


@pytest.mark.parametrize(
    "arguments,reason",
    [
        (["--family", "zero9"], "no family 'zero9'; `prism-ch simulate --family list` shows them"),
        (["--family", ""], "no family ''"),
        (["--condition", "nope"], "no condition 'nope'"),
        (["--family", "zero3", "--tp", "4"], "--tp goes without --family"),
        (["--family", "zero3", "--slow-gpu", "1", "2", "3", "4"], "--slow-gpu goes without --family"),
        (["--family", "zero3", "--duration-s", "inf"], "duration_s: Input should be a finite number"),
        (["--family", "zero3", "--duration-s", "0"], "duration_s: Input should be greater than 0"),
        (["--duration-s", "nan"], "finite number"),
        (["--duration-s", "1e12"], "a recording lasts at most 604,800 s"),
        (["--seed", "-1"], "'--seed'"),
        (["--seed", "x"], "'--seed'"),
        (["--step-s", "inf"], "finite number"),
        (["--slow-gpu", "1", "inf", "1", "2"], "finite number"),
        (["--dp", "1000000000"], "servers: Input should be less than or equal to 16000"),
        (["--microbatches", "1000000000"], "microbatches: Input should be less than"),
        (["--fault", "slow_gpu", "3", "2", "10"], "requires 5 arguments"),
        (["--fault", "slow_gpu", "3", "2", "10", "2\n0"], "the end is a number"),
        (["--fault", "slow_gpu", "3", "2", "10", "20", "--fault", "slow_gpu", "99", "2", "1", "9"], "no GPU '99'"),
    ],
)
def test_wrong_usage_is_one_line_and_writes_nothing(
    arguments: list[str], reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert reason in refused(capsys, tmp_path / "sim", *arguments)
    assert not (tmp_path / "sim").exists()


def test_fault_is_measured_against_the_recording_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    late = ["--fault", "slow_gpu", "3", "2", "70", "80"]
    line = refused(capsys, tmp_path / "sim", "--family", "ddp-fused", *late)
    assert line.endswith("70 to 80 s is not inside the recording, 0 to 60 s\n")


def test_a_recording_is_replaced_by_force_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "sim"
    assert main(["simulate", str(folder), *SHORT]) == 0
    first = (folder / "truth" / "scenario.json").read_text()
    left = folder / "flows" / "part-00007.parquet"
    left.write_bytes(b"of a longer recording")
    capsys.readouterr()
    assert main(["simulate", str(folder), *SHORT, "--seed", "9"]) == 2
    assert "holds a recording already" in capsys.readouterr().err
    assert (folder / "truth" / "scenario.json").read_text() == first
    assert main(["simulate", str(folder), *SHORT, "--seed", "9", "--force"]) == 0
    assert (folder / "truth" / "scenario.json").read_text() != first
    assert not left.exists()
