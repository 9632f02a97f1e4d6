"""Slow switches: one whose pairs all need longer for their bytes than pairs elsewhere."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

import pytest

from prism_ch.model.params import DiagnoseParams
from prism_ch.model.result import Diagnosis
from prism_ch.model.topology import Topology
from prism_ch.model.traffic import Traffic
from prism_ch.model.window import Window
from prism_ch.stages.diagnose.switches import find_slow_switches
from tests.unit.stages.build import BEGIN_NS, Flow, every, topology, traffic

PARAMS = DiagnoseParams()
SECOND = 10**9
WINDOW = Window(BEGIN_NS, BEGIN_NS + 60 * SECOND)
LATER = Window(BEGIN_NS + 60 * SECOND, BEGIN_NS + 120 * SECOND)
LEAVES = ("leaf-a", "leaf-b", "leaf-c", "leaf-d")
#: Two servers behind each leaf.
WHERE = topology(8, leaves=LEAVES)


def everyone(
    slow: str | None = None, *, times: float = 3.0, bursts: int = 10, leaves: Sequence[str] = LEAVES
) -> Traffic:
    """One job behind all leaves, each of whose servers talks to its neighbour behind the same one."""
    flows = []
    for leaf in leaves:
        number, length_ms = LEAVES.index(leaf), 10 * (times if leaf == slow else 1)
        for src, dst in ((number, number + 4), (number + 4, number)):
            flows += [Flow(src, dst, at, length_ms) for at in every(1000, bursts)]
    return traffic(flows)


def found(
    jobs: Sequence[Traffic], known: Sequence[Diagnosis] = (), window: Window = WINDOW, where: Topology = WHERE
) -> tuple[Diagnosis, ...]:
    return find_slow_switches(jobs, window, known, where, PARAMS)


def test_all_alike_nothing_is_found() -> None:
    assert found([everyone()]) == ()


def test_the_switch_whose_pairs_are_slow_is_found() -> None:
    (one,) = found([everyone(slow="leaf-c")])
    assert (one.kind, one.subject_type, one.subject, one.status) == ("slow_switch", "switch", "leaf-c", "open")
    assert (one.first_step, one.last_step) == (0, 0)
    assert (one.start_ns, one.end_ns) == (WINDOW.start_ns, WINDOW.end_ns)
    assert [one.observed, one.expected] == pytest.approx([3.0, 1.0])
    assert one.slowdown == pytest.approx(2 / 3)
    assert one.severity == "critical"
    assert one.summary == "Flows through switch leaf-c take 3 times as long as elsewhere: check its ports."
    assert json.loads(one.evidence) == {"ratio_to_peers": 3.0}


def test_a_job_is_compared_with_itself() -> None:
    # Jobs with slower NICs, each behind one leaf alone: nobody there to be compared with.
    jobs = [everyone(leaves=[leaf]) for leaf in LEAVES[:3]] + [everyone(slow="leaf-d", leaves=["leaf-d"])]
    assert found(jobs) == ()


def test_small_messages_take_longer_a_byte_and_are_compared_with_small_ones() -> None:
    messages = [Flow(src, dst, at, 1, 100_000) for src, dst in ((2, 6), (6, 2)) for at in every(1000, 10)]
    data = [Flow(number, 7 - number, at) for number in (0, 1, 3) for at in every(1000, 10)]
    assert found([traffic(data + messages)]) == ()


@pytest.mark.parametrize("leaves", [LEAVES[:1], LEAVES[:2], LEAVES[:3]])
def test_with_too_few_switches_nothing_is_found(leaves: Sequence[str]) -> None:
    assert found([everyone(slow="leaf-a", leaves=leaves)]) == ()


def test_a_little_slower_is_no_finding() -> None:
    assert found([everyone(slow="leaf-c", times=1.2)]) == ()


def test_pairs_with_few_bursts_say_nothing() -> None:
    assert found([everyone(slow="leaf-c", bursts=2)]) == ()
    assert len(found([everyone(slow="leaf-c", bursts=3)])) == 1


def test_flows_of_no_length_say_nothing() -> None:
    instant = traffic([Flow(number, number + 4, at, 0) for number in range(4) for at in every(1000, 10)])
    assert found([instant]) == ()


class TestGoingOn:
    def test_a_switch_that_stays_slow_is_one_finding(self) -> None:
        (before,) = found([everyone(slow="leaf-c")])
        (one,) = found([everyone(slow="leaf-c")], [before], LATER)
        assert (one.diagnosis_id, one.start_ns, one.end_ns) == (before.diagnosis_id, WINDOW.start_ns, LATER.end_ns)

    def test_one_that_recovers_is_closed(self) -> None:
        (before,) = found([everyone(slow="leaf-c")])
        assert found([everyone()], [before], LATER) == (replace(before, status="closed"),)

    def test_one_behind_which_all_is_silent_is_closed(self) -> None:
        (before,) = found([everyone(slow="leaf-c")])
        assert found([], [before], LATER) == (replace(before, status="closed"),)

    def test_another_one_is_another_finding(self) -> None:
        (before,) = found([everyone(slow="leaf-c")])
        new, old = found([everyone(slow="leaf-a")], [before], LATER)
        assert (new.subject, new.status, old.subject, old.status) == ("leaf-a", "open", "leaf-c", "closed")
        assert new.diagnosis_id != old.diagnosis_id


def test_nothing() -> None:
    assert found([]) == ()
    assert found([traffic([])]) == ()
