"""Incidents in the database: what is written is read back, and each reader sees his part."""

from dataclasses import replace

from prism_ch.analysis.incidents.words import HIDDEN, part_of
from prism_ch.model.incident import Incident, JobCost
from prism_ch.query.answer import answer, answer_bytes
from prism_ch.store.client import Store
from prism_ch.store.read import read_incidents
from tests.integration.test_results import ENDPOINTS, T0, S, revision, window
from tests.revisions import write_revisions

COSTS = (JobCost("one", "red", 2, 30.0, 60.0, 40.0, T0 + 60 * S), JobCost("two", "blue", 4, 15.0, 60.0))
SPINE = Incident(
    incident_id="i-1",
    kind="slow_switch",
    subject_type="switch",
    subject="spine-7",
    may_also_be=("spine-8", "10.0.0.1", "10.9.9.9"),
    confidence=0.45,
    noted_ns=T0,
    start_ns=T0 + 7 * S,
    end_ns=T0 + 60 * S,
    status="open",
    severity="critical",
    summary="Flows through spine-7 or spine-8 are slow.",
    action="Look at spine-7.",
    costs=COSTS,
)
PARTS = (SPINE, part_of(SPINE, "red", frozenset({"10.0.0.1"})), part_of(SPINE, "blue", frozenset()))


def write(store: Store, number: int, *incidents: Incident, at: int = 0) -> None:
    write_revisions(store, ENDPOINTS, window(at), number, [revision("one", at, [1.0])], incidents=incidents)


def test_an_incident_is_read_back_whole(store: Store) -> None:
    write(store, 1, *PARTS)
    assert read_incidents(store, window(1).start_ns, T0) == (SPINE,)
    assert read_incidents(store, window(0).start_ns, T0) == ()


def test_each_reader_sees_one_row_of_an_incident(store: Store) -> None:
    write(store, 1, *PARTS)
    asked = "SELECT subject, may_also_be, jobs, tenants, gpus, round(lost_gpu_h * 3600) FROM incidents"
    seen = [answer(store, asked, tenant=tenant).rows for tenant in (None, "red", "blue", "green")]
    assert seen == [
        (("spine-7", "['spine-8','10.0.0.1','10.9.9.9']", "['one','two']", "['blue','red']", "6", "120"),),
        ((HIDDEN, "['10.0.0.1']", "['one']", "['red']", "2", "60"),),
        ((HIDDEN, "[]", "['two']", "['blue']", "4", "60"),),
        (),
    ]


def test_a_tenants_row_holds_no_name_of_others(store: Store) -> None:
    write(store, 1, *PARTS)
    text = answer_bytes(store, "SELECT * FROM incidents", "json", tenant="red").decode()
    assert "the network between your servers" in text
    assert not [name for name in ("spine", '"two"', "blue", "10.9.9.9") if name in text]


def test_what_ended_is_closed_for_every_reader(store: Store) -> None:
    write(store, 1, *PARTS)
    write(store, 2, *(replace(one, status="closed") for one in PARTS), at=1)
    for tenant in (None, "red", "blue"):
        assert answer(store, "SELECT status FROM incidents", tenant=tenant).rows == (("closed",),)


def test_what_turned_out_to_be_nothing_is_gone_for_every_reader(store: Store) -> None:
    write(store, 1, *PARTS)
    write(store, 2, *(replace(one, is_withdrawn=True) for one in PARTS), at=1)
    for tenant in (None, "red", "blue"):
        assert answer(store, "SELECT status FROM incidents", tenant=tenant).rows == ()


def test_a_window_worked_again_replaces_its_incidents(store: Store) -> None:
    write(store, 1, *PARTS)
    write(store, 2, replace(SPINE, incident_id="i-2", subject="leaf-1"))
    assert answer(store, "SELECT subject FROM incidents").rows == (("leaf-1",),)
    assert answer(store, "SELECT subject FROM incidents", tenant="red").rows == ()
