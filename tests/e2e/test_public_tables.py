"""The public tables: how the rows of one agree with those of another."""

from collections.abc import Iterator

import pytest

from prism_ch.store.client import Store, connect
from tests.e2e.analysed import Analysed, Recorded


@pytest.fixture(params=["dp4_clean", "ppdp4_overlap", "dp4_slow_rank", "slow_gpu"])
def store(request: pytest.FixtureRequest) -> Iterator[Store]:
    """The results of an analysis."""
    name: str = request.param
    analysed: Analysed
    if name == "slow_gpu":
        analysed = request.getfixturevalue("slow_gpu")
    else:
        recorded: Recorded = request.getfixturevalue("recorded")
        analysed = recorded(name)
    with connect(analysed.url) as opened:
        yield opened


def test_steps_of_an_endpoint_follow_without_a_gap(store: Store) -> None:
    apart = """
        SELECT job_id, endpoint, numbers, spans
        FROM
        (
            SELECT
                job_id,
                endpoint,
                arraySort(groupArray(step)) AS numbers,
                arraySort(groupArray((start_time, end_time))) AS spans
            FROM gpu_steps
            GROUP BY job_id, endpoint
        )
        WHERE numbers != range(length(numbers))
            OR arrayExists((span, next) -> span.2 != next.1, arrayPopBack(spans), arrayPopFront(spans))
            OR arrayExists(span -> span.1 >= span.2, spans)
    """
    assert store.rows(apart) == []


def test_phases_tile_each_step_of_an_endpoint(store: Store) -> None:
    untiled = """
        SELECT g.job_id, g.endpoint, g.step, spans
        FROM gpu_steps AS g
        LEFT JOIN
        (
            SELECT job_id, endpoint, step, arraySort(groupArray((start_time, end_time))) AS spans
            FROM timeline
            GROUP BY job_id, endpoint, step
        ) AS t USING (job_id, endpoint, step)
        WHERE empty(spans) OR spans[1].1 != g.start_time OR spans[-1].2 != g.end_time
            OR arrayExists((span, next) -> span.2 != next.1, arrayPopBack(spans), arrayPopFront(spans))
            OR arrayExists(span -> span.1 >= span.2, spans)
    """
    strays = """
        SELECT DISTINCT job_id, endpoint, step
        FROM timeline
        WHERE (job_id, endpoint, step) NOT IN (SELECT job_id, endpoint, step FROM gpu_steps)
    """
    assert store.rows(untiled) == []
    assert store.rows(strays) == []


def test_seconds_by_phase_are_the_lengths_of_the_phases(store: Store) -> None:
    different = """
        WITH (toUnixTimestamp64Nano(end_time) - toUnixTimestamp64Nano(start_time)) / 1e9 AS length_s
        SELECT job_id, endpoint, step
        FROM gpu_steps AS g
        INNER JOIN
        (
            SELECT
                job_id,
                endpoint,
                step,
                sumIf(length_s, phase = 'compute') AS computing_s,
                sumIf(length_s, phase = 'PP') AS pipelining_s,
                sumIf(length_s, phase = 'DP') AS reducing_s,
                sum(length_s) AS all_s
            FROM timeline
            GROUP BY job_id, endpoint, step
        ) AS t USING (job_id, endpoint, step)
        WHERE greatest(
            abs(compute_s - computing_s), abs(pp_s - pipelining_s), abs(dp_s - reducing_s), abs(duration_s - all_s)
        ) > 1e-8
    """
    assert store.rows(different) == []
    assert store.scalar("SELECT countIf(compute_s > 0 AND dp_s > 0) FROM gpu_steps") > 0


def test_step_lasts_to_its_last_endpoint_and_holds_the_means(store: Store) -> None:
    different = """
        SELECT job_id, step
        FROM steps AS s
        INNER JOIN
        (
            SELECT
                job_id,
                step,
                max(end_time) AS last,
                avg(compute_s) AS computing_s,
                avg(pp_s) AS pipelining_s,
                avg(dp_s) AS reducing_s,
                count() AS seen
            FROM gpu_steps
            GROUP BY job_id, step
        ) AS g USING (job_id, step)
        INNER JOIN (SELECT job_id, endpoints FROM jobs) AS j USING (job_id)
        WHERE end_time != last OR seen != endpoints
            OR greatest(abs(compute_s - computing_s), abs(pp_s - pipelining_s), abs(dp_s - reducing_s)) > 1e-9
    """
    assert store.rows(different) == []
    numbers = "SELECT job_id, uniqExact(step), max(step) + 1 FROM gpu_steps GROUP BY job_id ORDER BY job_id"
    assert store.rows(numbers) == store.rows("SELECT job_id, steps, steps FROM jobs ORDER BY job_id")


def test_steps_follow_one_another(store: Store) -> None:
    apart = """
        SELECT job_id, spans
        FROM (SELECT job_id, arraySort(groupArray((start_time, end_time))) AS spans FROM steps GROUP BY job_id)
        WHERE arrayExists((span, next) -> span.2 != next.1, arrayPopBack(spans), arrayPopFront(spans))
    """
    mistimed = """
        SELECT job_id, step
        FROM steps
        WHERE abs((toUnixTimestamp64Nano(end_time) - toUnixTimestamp64Nano(start_time)) / 1e9 - duration_s) > 1e-9
    """
    assert store.rows(apart) == []
    assert store.rows(mistimed) == []
    starts = "SELECT job_id, min(start_time) FROM {table:Identifier} GROUP BY job_id ORDER BY job_id"
    assert store.rows(starts, {"table": "steps"}) == store.rows(starts, {"table": "gpu_steps"})


def test_step_of_an_endpoint_ends_with_a_dp_flow_of_its_own(store: Store) -> None:
    elsewhere = """
        SELECT job_id, endpoint, step, end_time
        FROM gpu_steps
        WHERE (job_id, endpoint, toUnixTimestamp64Nano(end_time)) NOT IN
        (
            SELECT job_id, arrayJoin([p.src_addr, p.dst_addr])::String AS endpoint, time_flow_end_ns
            FROM flows AS f
            INNER JOIN pairs AS p ON f.src_addr = p.src_addr AND f.dst_addr = p.dst_addr
            WHERE kind = 'DP'
        )
    """
    assert store.rows(elsewhere) == []


def test_members_and_groups_name_each_other(store: Store) -> None:
    in_groups = "SELECT job_id, arrayJoin(members) AS endpoint, group_id, pp_stage FROM groups WHERE kind = 'DP'"
    members = "SELECT job_id, endpoint, dp_group, pp_stage FROM job_members"
    assert sorted(store.rows(in_groups)) == sorted(store.rows(members))
    unsorted = "SELECT members FROM groups WHERE kind != 'PP' AND members != arraySort(members)"
    assert store.rows(unsorted) == []
    out_of_order = """
        SELECT job_id, group_id, arraySort(groupArray((place, pp_stage))).2 AS stages
        FROM
        (
            SELECT job_id, group_id, endpoint, place
            FROM groups
            ARRAY JOIN members AS endpoint, arrayEnumerate(members) AS place
            WHERE kind = 'PP'
        ) AS g
        INNER JOIN (SELECT job_id, endpoint, pp_stage FROM job_members) AS m USING (job_id, endpoint)
        GROUP BY job_id, group_id
        HAVING arraySort(stages) != stages
    """
    assert store.rows(out_of_order) == []


def test_pairs_count_the_flows_between_members(store: Store) -> None:
    counted = """
        SELECT src_addr::String, dst_addr::String, count(), sum(bytes), min(time_flow_start_ns), max(time_flow_end_ns)
        FROM flows
        WHERE src_addr IN (SELECT endpoint FROM job_members) AND dst_addr IN (SELECT endpoint FROM job_members)
        GROUP BY ALL ORDER BY ALL
    """
    told = """
        SELECT
            src_addr, dst_addr, flows, bytes, toUnixTimestamp64Nano(first_seen), toUnixTimestamp64Nano(last_seen)
        FROM pairs
        ORDER BY ALL
    """
    assert store.rows(told) == store.rows(counted)


def test_the_views_on_top_answer(store: Store) -> None:
    steps, slow = store.rows("SELECT count(), countIf(findings > 0) FROM diagnosed_steps")[0]
    found_on = "SELECT DISTINCT job_id, arrayJoin(range(first_step, last_step + 1)) FROM diagnoses WHERE job_id != ''"
    assert (steps, slow) == (store.scalar("SELECT sum(steps) FROM jobs"), len(store.rows(found_on)))
    kinds = (
        "SELECT job_id, kind::String FROM diagnoses UNION DISTINCT"
        " SELECT arrayJoin(jobs), kind::String FROM incidents WHERE lost_gpu_h > 0"
    )
    assert store.rows("SELECT job_id, cause::String FROM losses ORDER BY ALL") == sorted(store.rows(kinds))
    [(lost_h, spent_h)] = store.rows("SELECT gpu_hours_lost, gpu_hours FROM tenant_summary")
    assert 0 <= lost_h < spent_h
    assert (lost_h > 0) == bool(slow)
    assert lost_h == pytest.approx(store.scalar("SELECT sum(lost_gpu_h) FROM incidents"), abs=1e-12)
