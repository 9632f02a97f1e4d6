"""Pruning: what is dead goes, and nobody can tell; broken off it is completed, and twice is as good as once."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from prism_ch.analysis.incidents.words import part_of
from prism_ch.model.exporter import ExporterStates
from prism_ch.model.incident import Incident, JobCost
from prism_ch.query.answer import answer_bytes
from prism_ch.store.client import Store
from prism_ch.store.ledger import claim_window
from prism_ch.store.read import read_cluster_findings, read_incidents, read_jobs
from prism_ch.store.retention import apply_retention, prune
from tests.contract import RESULTS, Snapshot, snapshot
from tests.integration.test_results import (
    ALL,
    ENDPOINTS,
    T0,
    S,
    diagnosis,
    random_history,
    revision,
    window,
)
from tests.revisions import write_revisions
from tests.sweeps import swept

STORED = tuple(
    f"{name}_log"
    for name in ("jobs", "job_members", "pairs", "groups", "steps", "step_blocks", "gpu_steps", "timeline")
)
#: What is known before a window, of jobs and of the cluster, as text.
States = list[str]


@pytest.fixture
def store(retained: Store) -> Store:
    """A database on which all tests here apply retention."""
    return retained


def finish(store: Store, until: int, days_ago: int = 40) -> None:
    """Make windows up to a number final: their flows landed so long ago that they may be gone."""
    apply_retention(store)
    store.command("TRUNCATE TABLE retention_log")
    store.command(
        "INSERT INTO retention_log (class, kept_days, changed_at) VALUES ('raw', 30, now64(3) - INTERVAL 1000 DAY)"
    )
    store.command(
        "INSERT INTO arrivals_log (second, records, first_written_at)"
        " SELECT {s:UInt32}, 1, now() - toIntervalDay({d:UInt32})",
        {"s": window(until).end_ns // S - 1, "d": days_ago},
    )


def exporters(offset_s: float) -> ExporterStates:
    one = np.array([offset_s])
    return replace(
        ExporterStates.unknown(("leaf-1",)),
        clock_offset_s=one,
        clock_uncertainty_s=0.001 + 0 * one,
        clock_matches=np.array([9], dtype=np.int64),
    )


def parts(place: str, noted_ns: int, lost_s: float) -> list[Incident]:
    """Return an incident at a place, whole and as the tenant red sees it."""
    costs = (JobCost("a", "red", 2, lost_s, 60.0), JobCost("b", "blue", 2, lost_s, 60.0))
    until = noted_ns, noted_ns, noted_ns + 30 * S
    whole = Incident(place, "slow_switch", "switch", place, (), 0.5, *until, "open", "warning", "slow", "look", costs)
    return [whole, part_of(whole, "red", frozenset())]


def publish(store: Store, seed: int, workings: int = 16) -> int:
    """Publish random revisions of three jobs, of windows that go on or back; return the last window."""
    rng = np.random.default_rng(seed)
    history = random_history(rng, ["a", "b", "c"], workings)
    for number, (at, jobs) in enumerate(history, start=1):
        made = []
        for job_id, item in jobs.items():
            of_job = revision(job_id, item.from_step, list(item.steps.values()), findings=tuple(item.findings.values()))
            made.append(replace(of_job, from_time_ns=item.from_time_ns))
        gone = [job_id for job_id in "abc" if job_id not in jobs and rng.random() < 0.2]
        cluster = [diagnosis(0, window(at).start_ns, diagnosis_id=f"leaf{at % 3}")] if rng.random() < 0.5 else []
        places = [f"leaf-{at % 3}"] if rng.random() < 0.5 else []
        wrong = [each for place in places for each in parts(place, window(at).start_ns, rng.random())]
        write_revisions(store, ENDPOINTS, window(at), number, made, gone, cluster, exporters(number / 1000), wrong)
    return max(at for at, _ in history)


def known_before(store: Store, number: int) -> States:
    """Return what a working of a window would go on from."""
    states = read_jobs(store, ENDPOINTS, window(number).start_ns, ALL)
    start_ns = window(number).start_ns
    return [
        *map(repr, states),
        repr(read_cluster_findings(store, start_ns)),
        repr(read_incidents(store, start_ns, start_ns - 60 * S)),
    ]


def told(store: Store) -> Snapshot:
    clocks = "SELECT exporter, clock_offset_s FROM exporters ORDER BY ALL"
    own = answer_bytes(store, "SELECT * FROM incidents ORDER BY incident_id", "json", tenant="red")
    return snapshot(store, *RESULTS) | {"own": [own.decode()]} | {"clocks": [repr(row) for row in store.rows(clocks)]}


def rows(store: Store, *tables: str) -> list[int]:
    return [store.scalar("SELECT count() FROM {t:Identifier}", {"t": table}) for table in tables]


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, *swept(0)])
def test_nobody_can_tell_that_it_was_pruned(store: Store, seed: int) -> None:
    last = publish(store, seed)
    final = last // 2
    finish(store, final)
    store.command("INSERT INTO switch_1m_log (minute, sampler_address, flows) VALUES (now(), 'leaf-1', 1)")
    before = told(store), [known_before(store, number) for number in range(final + 1, last + 3)]
    stored, incidents = rows(store, *STORED, "revisions"), rows(store, "incidents_log")
    assert prune(store) > 0
    assert (told(store), [known_before(store, number) for number in range(final + 1, last + 3)]) == before
    assert rows(store, "incidents_log") < incidents
    assert sum(rows(store, *STORED, "revisions")) < sum(stored)
    assert prune(store) == 0


def test_states_from_the_last_final_window_on_are_kept(store: Store) -> None:
    for number in range(10):
        write_revisions(store, ENDPOINTS, window(number), number + 1, [revision("one", number, [1.0])])
    finish(store, 5)
    prune(store)
    kept = "SELECT DISTINCT revision FROM {t:Identifier} WHERE job_id = 'one' ORDER BY revision"
    for table in ("jobs_log", "job_members_log", "pairs_log", "groups_log", "revisions"):
        assert store.rows(kept, {"t": table}) == [(number,) for number in range(6, 11)], table
    assert store.rows("SELECT step FROM steps ORDER BY step") == [(number,) for number in range(10)]


def test_replaced_steps_go_with_all_that_is_in_them(store: Store) -> None:
    for number, values in enumerate(([1.0, 2.0, 3.0], [9.0], [4.0])):
        write_revisions(store, ENDPOINTS, window(number), number + 1, [revision("one", min(number, 1), values)])
    finish(store, 2)
    prune(store)
    assert rows(store, "steps_log", "gpu_steps_log", "timeline_log") == [2, 4, 4]
    assert store.rows("SELECT step, compute_s FROM steps ORDER BY step") == [(0, 1.0), (1, 4.0)]


def test_while_nothing_is_final_nothing_goes(store: Store) -> None:
    publish(store, 1)
    finish(store, 5, days_ago=29)
    assert prune(store) == 0


def test_what_has_just_become_final_is_left_for_a_day(store: Store) -> None:
    publish(store, 1)
    finish(store, 5, days_ago=30)
    assert prune(store) == 0


def test_rows_that_were_never_published_go_after_a_day(store: Store) -> None:
    apply_retention(store)
    for number in range(3):
        claim_window(store, window(number))
    store.command("INSERT INTO revision_claims (revision, claimed_at) VALUES (7, now64(3) - INTERVAL 25 HOUR)")
    store.command("INSERT INTO revision_claims (revision, claimed_at) VALUES (8, now64(3) - INTERVAL 23 HOUR)")
    write_revisions(store, ENDPOINTS, window(0), 1, [revision("one", 0, [1.0], findings=(diagnosis(1, T0),))])
    for table in (*STORED, "diagnoses_log", "exporters_log", "incidents_log"):
        for number in (7, 8):
            store.command("INSERT INTO {t:Identifier} (revision) SELECT {n:UInt64}", {"t": table, "n": number})
    before = told(store)
    assert prune(store) == len(STORED) + 3
    for table in (*STORED, "diagnoses_log", "exporters_log", "incidents_log"):
        left = store.rows("SELECT DISTINCT revision FROM {t:Identifier} WHERE revision > 1", {"t": table})
        assert left == [(8,)], table
    assert told(store) == before
    assert prune(store) == 0


@pytest.mark.sweep
@pytest.mark.parametrize("after", [1, 6])
def test_stopped_anywhere_it_is_completed_the_next_time(store: Store, after: int) -> None:
    publish(store, 3)
    finish(store, 6)
    before = told(store)
    asked = iter(range(100))
    stop: Callable[[], bool] = lambda: next(asked) >= len(STORED) + 2 + after  # noqa: E731 - a counter is all it is
    prune(store, stop)
    assert told(store) == before
    prune(store)
    assert told(store) == before
    assert prune(store) == 0
