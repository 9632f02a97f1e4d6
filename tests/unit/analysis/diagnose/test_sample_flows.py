"""Samples: the records behind a finding are those of its subject, at its time, the slowest for their bytes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from prism_ch.analysis.diagnose import sample_flows
from prism_ch.analysis.diagnose.sample_flows import with_sample_flows
from prism_ch.model.finding import Finding
from tests.unit.analysis.build import BEGIN_NS, MB, MS, Flow, batch, finding, topology

WHERE = topology(6, leaves=("a", "b"))
FINDING = finding(
    kind="slow_link",
    subject_type="link",
    subject="10.0.100.0->10.0.101.0",
    start_ns=BEGIN_NS + 1000 * MS,
    end_ns=BEGIN_NS + 2000 * MS,
    summary="",
)
#: Of each of three pairs: one before the finding, then one fast, two slow, and a control message.
FLOWS = [
    Flow(src, dst, at, length, size)
    for src, dst in ((0, 1), (1, 0), (2, 3))
    for at, length, size in (
        (500, 90, MB),
        (1100, 10, MB),
        (1300, 20, MB),
        (1500, 30, MB),
        (1700, 90, 100),
    )
]


@pytest.fixture(autouse=True)
def two_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sample_flows, "_SHOWN", 2)


def shown(finding: Finding) -> list[tuple[str, str, int]]:
    """Sender, receiver and milliseconds since the scene began of each record shown."""
    (one,) = with_sample_flows([finding], batch(FLOWS), WHERE)
    samples = one.evidence.get("sample_flows", [])
    assert all(flow["bytes"] >= MB and flow["time_flow_end_ns"] > flow["time_flow_start_ns"] for flow in samples)
    return [
        (flow["src_addr"][-5:], flow["dst_addr"][-5:], (flow["time_flow_start_ns"] - BEGIN_NS) // MS)
        for flow in samples
    ]


def test_a_link_shows_its_slowest_messages_in_one_direction() -> None:
    assert shown(FINDING) == [("100.0", "101.0", 1300), ("100.0", "101.0", 1500)]


@pytest.mark.parametrize(
    "changes",
    [
        {"kind": "slow_nic", "subject_type": "endpoint", "subject": "10.0.101.0"},
        {
            "kind": "slow_group",
            "subject_type": "group",
            "subject": "4",
            "about": ("10.0.100.0", "10.0.101.0"),
        },
        {
            "kind": "slow_gpu",
            "subject_type": "server",
            "subject": "host-01",
            "about": ("10.0.101.0",),
        },
    ],
)
def test_others_show_messages_of_either_direction(changes: dict[str, Any]) -> None:
    assert shown(replace(FINDING, **changes)) == [("100.0", "101.0", 1500), ("101.0", "100.0", 1500)]


def test_a_switch_shows_messages_of_its_endpoints() -> None:
    switch = replace(FINDING, kind="slow_switch", subject_type="switch", subject="b")
    assert {flow[0] for flow in shown(switch)} <= {"100.0", "101.0", "102.0"}
    assert len(shown(switch)) == 2


def test_a_finding_about_a_job_shows_any_of_its_messages() -> None:
    assert len(shown(replace(FINDING, kind="slow_step", subject_type="job", subject="job"))) == 2


def test_where_no_record_is_left_the_evidence_stays() -> None:
    assert shown(replace(FINDING, start_ns=0, end_ns=1)) == []
    assert with_sample_flows([FINDING], batch([]), WHERE) == (FINDING,)
