"""Faults as people write them: every way to name a subject, and what is refused."""

from dataclasses import replace
from math import inf
from typing import Any

import pytest

from prism_ch.errors import UsageError
from prism_ch.simulate import Scenario, generate, textbook
from prism_ch.simulate.families import FAMILIES
from prism_ch.simulate.job import Fault
from prism_ch.simulate.network import Network
from prism_ch.simulate.subjects import FAULT_KINDS, read_fault

STORAGE = FAMILIES["storage-hub"](1)


@pytest.fixture(scope="module")
def scenario() -> Scenario:
    return textbook(duration_s=30.0, step_s=1.0)


@pytest.mark.parametrize("name", ["19", "019", "server-00002/3", "10.19.0.3"])
def test_gpu_is_found_by_every_name_of_it(scenario: Scenario, name: str) -> None:
    fault = read_fault(("slow_gpu", name, "1.5", "5", "9.5"), scenario)
    assert fault == Fault(kind="slow_gpu", gpu=19, factor=1.5, start_s=5.0, end_s=9.5)


@pytest.mark.parametrize("name", ["8->0", "server-00001/0->server-00000/0", " 10.16.0.2 -> 10.16.0.1 "])
def test_link_is_found_by_the_names_of_its_ends(scenario: Scenario, name: str) -> None:
    fault = read_fault(("slow_link", name, "0.5", "0", "-"), scenario)
    assert fault == Fault(kind="slow_link", gpu=8, peer=0, factor=0.5, end_s=inf)


@pytest.mark.parametrize("family", ["pipeline-1f1b", "four-nics", "leaf-spine", "storage-hub"])
def test_every_nic_and_leaf_of_a_family_is_found(family: str) -> None:
    drawn = FAMILIES[family](1)
    network, nics = Network(drawn.cluster), drawn.cluster.servers * drawn.cluster.nics
    for row in range(nics):
        by_address = read_fault(("slow_nic", str(network.addresses[row]), "0.5", "0", "-"), drawn)
        by_gpu = read_fault(
            ("slow_nic", f"{network.server_names[network.server[row]]}/{network.gpu[row]}", "0.5", "0", "-"), drawn
        )
        assert network.ends(by_address)[0] == row
        assert by_gpu == by_address
    for leaf in range(network.leaf[:nics].max() + 1):
        fault = read_fault(("slow_switch", str(network.switches[leaf]), "0.5", "0", "-"), drawn)
        assert network.leaf[network.ends(fault)[0]] == leaf


def test_spine_and_uplink_are_found_by_their_addresses(scenario: Scenario) -> None:
    spine = read_fault(("slow_spine", "172.31.0.2", "0.5", "5", "9"), scenario)
    uplink = read_fault(("slow_uplink", "172.16.0.3->172.31.0.1", "0.5", "5", "9"), scenario)
    assert (spine.kind, spine.spine) == ("slow_spine", 1)
    assert (Network(scenario.cluster).leaf[uplink.gpu], uplink.spine) == (2, 0)


@pytest.mark.parametrize("words", ["slow_spine 172.16.0.1", "slow_spine 3", "slow_uplink 172.16.0.1->172.16.0.2"])
def test_what_is_no_spine_is_refused(scenario: Scenario, words: str) -> None:
    with pytest.raises(UsageError, match=r"no spine .*: there are 172\.31\.0\.1 to 172\.31\.0\.4"):
        read_fault([*words.split(), "0.5", "5", "9"], scenario)


@pytest.mark.parametrize("name", ["64", "-1", "9" * 5000, "٣", "", "/", "server-00000/8", "server-00000/", "10.16.9.9"])
@pytest.mark.parametrize("kind,form", [("slow_gpu", "{}"), ("slow_link", "0->{}"), ("slow_switch", "{}")])
def test_subject_that_does_not_exist_is_refused(scenario: Scenario, name: str, kind: str, form: str) -> None:
    with pytest.raises(UsageError, match=r"no (GPU|leaf)"):
        read_fault((kind, form.format(name), "1", "5", "9"), scenario)


@pytest.mark.parametrize("name", ["10.250.0.1", "storage-00000/0"])
def test_storage_node_is_no_gpu(name: str) -> None:
    with pytest.raises(UsageError, match="no GPU"):
        read_fault(("slow_nic", name, "0.5", "5", "9"), STORAGE)


def test_spine_and_leaf_of_storage_are_no_leaves_of_gpus() -> None:
    network = Network(STORAGE.cluster)
    for switch in (network.switches[-1], network.switches[network.leaf[network.storage[0]]]):
        with pytest.raises(UsageError, match="no leaf"):
            read_fault(("slow_switch", str(switch), "0.5", "5", "9"), STORAGE)


@pytest.mark.parametrize("kind", FAULT_KINDS)
def test_every_kind_needs_a_subject(scenario: Scenario, kind: str) -> None:
    with pytest.raises(UsageError, match="needs a subject"):
        read_fault((kind, "-", "1", "5", "9"), scenario)


@pytest.mark.parametrize(
    "words,reason",
    [
        ("slow_cat 3 2 5 9", "no kind of fault 'slow_cat': there are slow_gpu, "),
        ("slow_gpu 3 0.5 5 9", "faster, not slower"),
        ("slow_nic 3 2 5 9", "faster, not slower"),
        ("slow_nic 3 0 5 9", "more than 0, not 0"),
        ("slow_nic 3 -1 5 9", "more than 0, not -1"),
        ("slow_gpu 3 1e300 5 9", "more than 1,000,000 times slower"),
        ("slow_nic 3 1e-300 5 9", "more than 1,000,000 times slower"),
        ("slow_gpu 3 - 5 9", "the magnitude is a number, not '-'"),
        ("slow_gpu 3 nan 5 9", "the magnitude is a finite number"),
        ("slow_gpu 3 2 inf 9", "the start is a finite number"),
        ("slow_gpu 3 2 5 nan", "the end is a finite number"),
        ("slow_gpu 3 2 9 5", "ends after it starts"),
        ("slow_gpu 3 2 -1 5", "-1 to 5 s is not inside the recording, 0 to 30 s"),
        ("slow_gpu 3 2 5 30.1", "not inside the recording"),
        ("slow_gpu 3 2 30 -", "not inside the recording"),
        ("slow_drift 3 2 5 -", "when it gets there"),
        ("slow_uplink 172.16.0.1 0.5 5 9", "written a->b"),
        ("hang 3 2 5 -", "neither magnitude nor end"),
        ("hang 3 - 5 9", "neither magnitude nor end"),
        ("slow_link 3 0.5 5 9", "written a->b, not '3'"),
        ("slow_link 0->8->16 0.5 5 9", "written a->b"),
        ("slow_link 0->1 0.5 5 9", "in one server"),
    ],
)
def test_fault_that_can_not_be_is_refused(scenario: Scenario, words: str, reason: str) -> None:
    with pytest.raises(UsageError) as refused:
        read_fault(words.split(), scenario)
    assert reason in str(refused.value)


@pytest.mark.parametrize("words", ["hang 3 - 5 -", "slow_gpu 3 1000000 5 -", "slow_nic 3 1e-6 5 -"])
def test_faults_together_are_no_slower_than_a_hang(scenario: Scenario, words: str) -> None:
    faults = (read_fault(words.split(), scenario),) * 3
    rows = generate(replace(scenario, faults=faults)).truth["faults"].to_pylist()
    assert len({row["impact"] for row in rows}) == 1


def hangs(drawn: Scenario, gpu: int, start_s: float) -> dict[str, Any]:
    fault = read_fault(("hang", str(gpu), "-", str(start_s), "-"), drawn)
    rows: list[dict[str, Any]] = generate(replace(drawn, faults=(fault,))).truth["faults"].to_pylist()
    return rows[0]


def test_hang_of_a_gpu_left_behind_ends_with_its_attempt() -> None:
    drawn = FAMILIES["restart-elsewhere"](1)
    first, again = drawn.jobs[0].attempts
    [gpu, *_] = sorted(set(first.gpus) - set(again.gpus))
    row = hangs(drawn, gpu, first.end_s / 2)
    assert row["effective"]
    assert drawn.ns(first.end_s / 2) < row["effect_start_ns"] < drawn.ns(first.end_s)
    assert row["effect_end_ns"] <= drawn.ns(again.start_s + again.startup_s + 1)


def test_hang_after_the_last_step_began_harms_nobody() -> None:
    drawn = FAMILIES["restart-elsewhere"](1)
    first, again = drawn.jobs[0].attempts
    [gpu, *_] = sorted(set(first.gpus) - set(again.gpus))
    row = hangs(drawn, gpu, first.end_s + 1)
    assert (row["job_id"], row["effective"]) == ("", False)


def test_a_stage_is_written_with_its_job() -> None:
    scenario = textbook(32, 4, 2, 4)
    fault = read_fault(("slow_stage", "job-00/stage/1", "1.33", "5", "-"), scenario)
    assert fault == Fault(kind="slow_stage", gpu=16, factor=1.33, start_s=5.0, end_s=inf)
    for wrong in ("job-00/stage/2", "job-01/stage/0", "job-00"):
        with pytest.raises(UsageError, match="stage"):
            read_fault(("slow_stage", wrong, "1.33", "5", "-"), scenario)
