"""The words of the summary from given facts, durations as block characters, and sizes with units."""

from dataclasses import replace

import pytest

from prism_ch.model.finding import Severity
from prism_ch.report import gpu_time, size, sparkline
from prism_ch.report.incidents import Finding, Incident
from prism_ch.report.lines import WIDTH
from prism_ch.report.summary import Coverage, Facts, JobFacts, summarise

NOON_NS = 1_772_366_400_000_000_000  # 2026-03-01T12:00:00Z

JOB = JobFacts(
    job_id="job-1",
    tenant="blue",
    status="running",
    first_seen_ns=NOON_NS,
    last_seen_ns=NOON_NS + 90_000_000_000,
    endpoints=16,
    servers=4,
    dp_size=4,
    pp_size=2,
    steps=6,
    step_s_median=1.0,
    step_s_p95=2.0,
    compute_share=0.7,
    pp_share=0.1,
    dp_share=0.2,
    durations_s=(1.0, 1.0, 1.0, 2.0, 2.0, 1.0),
)
SLOW = Incident(
    incident_id="i-1",
    kind="slow_gpu",
    subject_type="endpoint",
    subject="10.0.0.1",
    may_also_be=(),
    confidence=0.95,
    severity="warning",
    is_open=False,
    start_ns=NOON_NS + 3_000_000_000,
    end_ns=NOON_NS + 7_000_000_000,
    first_step=3,
    last_step=4,
    jobs=("job-1",),
    lost_gpu_h=0.05,
    slowdown=0.5,
    summary="Steps took 2 s instead of 1 s.",
    action="Drain that server.",
)
REMARK = Finding(
    job_id="job-1",
    kind="imbalance",
    severity="info",
    is_open=True,
    first_step=0,
    last_step=5,
    start_ns=NOON_NS,
    end_ns=NOON_NS + 7_000_000_000,
    summary="Stage 1 has less to do.",
)
COVERED = Coverage(flows=1234, between_servers=1234, endpoints=16, seen_endpoints=16, seen_servers=4, windows=2)


def summary_text(
    *incidents: Incident,
    coverage: Coverage = COVERED,
    jobs: tuple[JobFacts, ...] = (JOB,),
    findings: tuple[Finding, ...] = (),
) -> str:
    return summarise(Facts(coverage, jobs, incidents, findings)).plain


def coarse(exporter: str, severity: Severity = "info") -> Incident:
    summary = f"Exporter {exporter} joins records."
    return replace(SLOW, kind="telemetry", is_open=True, severity=severity, lost_gpu_h=0, summary=summary)


def test_coarse_exporters_slow_nothing_and_come_last() -> None:
    text = summary_text(coarse("leaf-1"), coarse("leaf-2"), SLOW)
    assert "1 thing slows it" in text
    assert text.index("Steps took") < text.index("Exporter leaf-1") < text.index("Exporter leaf-2")
    assert "telemetry, " in text


def test_of_many_coarse_exporters_a_few_are_named() -> None:
    text = summary_text(*(coarse(f"leaf-{number}") for number in range(9)))
    assert "nothing slows it" in text
    assert text.count("joins records") == 3
    assert "and likewise 6 more exporters" in text


def test_a_job_that_is_not_seen_whole_is_not_called_healthy() -> None:
    text = summary_text(coarse("leaf-1", "warning"))
    assert "nothing that is seen slows it, but records are missing" in text
    assert "nothing slows it" not in text


def test_a_job_is_described_whole() -> None:
    lines = summary_text(SLOW).splitlines()
    assert lines == [
        "Records",
        "  flows         1,234 in 2 windows",
        "  endpoints     16 seen of 16 in the topology",
        "",
        "Job job-1  blue, running",
        "  size          16 endpoints on 4 servers",
        "  parallelism   data-parallel (DP) groups of 4, 2 pipeline (PP) stages, as seen between servers",
        "  seen          2026-03-01 12:00:00 to 2026-03-01 12:01:30 UTC",
        "  steps         6; median 1 s, 95th percentile 2 s",
        "  durations     ▁▁▁██▁",
        "                1 s to 2 s, in order of time",
        "  time          compute 70%, pipeline (PP) 10%, data-parallel (DP) 20%",
        "  incidents     1 thing slows it",
        "    warning     Steps took 2 s instead of 1 s.",
        "                Drain that server.",
        "                slow_gpu, steps 3 to 4, since 2026-03-01 12:00:03 UTC, until 12:00:07, cost 3",
        "                GPU-minutes, 50% of its time",
    ]


def test_a_healthy_job_says_so_also_beside_a_remark() -> None:
    assert "nothing slows it" in summary_text()
    text = summary_text(findings=(REMARK,))
    assert "nothing slows it" in text
    assert "Stage 1 has less to do." in text
    assert "imbalance, steps 0 to 5, since 2026-03-01 12:00:00 UTC, still going on" in text


def test_what_costs_little_is_no_alarm_and_not_nothing() -> None:
    text = summary_text(replace(SLOW, severity="info"))
    assert "nothing slows it much" in text
    assert "Drain that server." not in text


def test_how_sure_a_culprit_is_shows_where_it_is_not() -> None:
    assert "sure" not in summary_text(SLOW)
    text = summary_text(replace(SLOW, confidence=0.45, may_also_be=("10.0.0.2",)))
    assert "45% sure that it is 10.0.0.1; may also be 10.0.0.2\n" in text
    told = summary_text(replace(SLOW, summary="10.0.0.1 is slow.", confidence=0.45, may_also_be=("10.0.0.2",)))
    assert "                45% sure; may also be 10.0.0.2\n" in told
    many = tuple(f"10.0.0.{number}" for number in range(2, 32))
    assert "10.0.0.9 and 22 more" in " ".join(summary_text(replace(SLOW, may_also_be=many)).split())


def test_an_incident_of_two_jobs_is_listed_once() -> None:
    jobs = (JOB, replace(JOB, job_id="job-2"), replace(JOB, job_id="job-3"))
    shared = replace(SLOW, kind="slow_switch", first_step=None, last_step=None, jobs=("job-1", "job-2"))
    text = summary_text(shared, replace(SLOW, summary="Alone."), jobs=jobs)
    assert text.count("Steps took") == 1
    assert text.index("nothing slows it") < text.index("Network and telemetry\n") < text.index("Steps took")
    assert "2 things slow it; 1 is shared with other jobs, see below" in text
    assert "1 thing slows it; 1 is shared with other jobs, see below" in text
    assert "2 jobs: job-1, job-2" in text
    assert "steps 3 to 4" not in text.partition("Network and telemetry")[2]


def test_a_job_without_steps_is_not_called_healthy() -> None:
    text = summary_text(jobs=(replace(JOB, durations_s=(), steps=0),))
    assert "none could be told apart" in text
    assert "nothing slows it" not in text
    assert "▁" not in text


def test_the_most_severe_comes_first_among_incidents_and_jobs() -> None:
    other = replace(JOB, job_id="job-2")
    critical = replace(SLOW, jobs=("job-2",), severity="critical", summary="Second.")
    warning = replace(SLOW, jobs=("job-2",), summary="Third.")
    text = summary_text(warning, critical, jobs=(JOB, other))
    assert text.index("job-2") < text.index("Second.") < text.index("Third.") < text.index("job-1")


def test_an_open_incident_is_still_going_on() -> None:
    assert "still going on" in summary_text(replace(SLOW, is_open=True))


def test_an_incident_that_ends_on_another_day_names_it() -> None:
    assert "until 2026-03-02 12:00:00" in summary_text(replace(SLOW, end_ns=NOON_NS + 86_400_000_000_000))


def test_what_is_on_no_job_stands_apart_and_names_no_steps() -> None:
    text = summary_text(findings=(replace(REMARK, job_id="", summary="Switch leaf-1 has less to do."),))
    assert text.index("nothing slows it") < text.index("Network and telemetry") < text.index("Switch leaf-1")
    assert "steps 0 to 5" not in text


def test_rejected_unknown_and_failed_are_listed() -> None:
    coverage = replace(
        COVERED,
        rejected=[("bad_bytes", 3), ("bad_time", 1)],
        unknown=5,
        unknown_flows=40,
        unknown_examples=("10.0.0.7", "10.0.0.8", "10.0.0.9"),
        failed_windows=1,
        failure="disk full",
    )
    text = summary_text(coverage=coverage)
    assert "4: 3 bad_bytes, 1 bad_time" in text
    assert "5 addresses not in the topology, on 40 flows" in text
    assert "10.0.0.9, ..." in text
    assert "1 window could not be analysed: disk full" in text


def test_every_line_fits() -> None:
    long = replace(SLOW, summary="Endpoint 10.0.0.1 holds the whole job up, " * 10)
    coverage = replace(COVERED, unknown=900, unknown_examples=("fd00:0:0:1234::1234:5678",) * 3)
    durations = tuple(1 + step % 3 for step in range(500))
    text = summary_text(long, coverage=coverage, jobs=(replace(JOB, durations_s=durations),))
    assert max(map(len, text.splitlines())) <= WIDTH


@pytest.mark.parametrize(
    "coverage,reason",
    [
        (Coverage(), "No flow records have landed"),
        (Coverage(rejected=[("bad_time", 3)]), "No record could be used"),
        (Coverage(flows=9, windows=1, unknown=2, unknown_flows=9), "No topology is loaded"),
        (Coverage(flows=9, windows=1, endpoints=4, unknown=2, unknown_flows=9), "None of the addresses"),
        (Coverage(flows=9, windows=1, endpoints=4, seen_endpoints=1, seen_servers=1), "Only one endpoint"),
        (Coverage(flows=9, windows=1, endpoints=4, seen_endpoints=4, seen_servers=1), "between two servers"),
        (Coverage(flows=9, endpoints=4, seen_endpoints=4, seen_servers=2), "between two servers"),
        (replace(COVERED, windows=0), "have not been analysed"),
        (replace(COVERED, failed_windows=2, failure="x"), "failed in every window"),
        (COVERED, "idle timeout"),
    ],
)
def test_without_a_job_the_reason_is_given(coverage: Coverage, reason: str) -> None:
    text = summary_text(coverage=coverage, jobs=())
    assert "No training job was recognised" in text
    assert reason in text


@pytest.mark.parametrize(
    "seconds,written", [(0.2345, "0.234 s"), (12.345, "12.3 s"), (312.4, "312 s"), (1234.5, "1,234 s")]
)
def test_durations_have_three_digits(seconds: float, written: str) -> None:
    assert f"median {written}," in summary_text(jobs=(replace(JOB, step_s_median=seconds),))


@pytest.mark.parametrize(
    "hours,written",
    [(3.25, "3.25 GPU-hours"), (0.2, "12 GPU-minutes"), (0.0026, "9.36 GPU-seconds"), (1234, "1,234 GPU-hours")],
)
def test_gpu_time_has_the_unit_that_suits_it(hours: float, written: str) -> None:
    assert gpu_time(hours) == written


def test_no_durations_draw_nothing() -> None:
    assert sparkline([], 10) == ""


def test_equal_durations_are_flat_and_low() -> None:
    assert sparkline([0.4] * 5, 10) == "▁▁▁▁▁"
    assert sparkline([0.0] * 3, 10) == "▁▁▁"


def test_a_step_of_twice_the_time_reaches_the_top() -> None:
    assert sparkline([1.0, 2.0, 1.0], 10) == "▁█▁"


def test_jitter_of_two_percent_stays_flat() -> None:
    assert sparkline([1.0, 1.02, 1.01, 1.0], 10) == "▁▁▁▁"


def test_a_single_slow_step_survives_being_squeezed() -> None:
    durations = [1.0] * 1000
    durations[617] = 3.0
    drawn = sparkline(durations, 50)
    assert len(drawn) == 50
    assert drawn.index("█") == 617 * 50 // 1000
    assert drawn.count("▁") == 49


@pytest.mark.parametrize("count", [1, 7, 8, 9, 99])
def test_never_wider_than_asked_for(count: int) -> None:
    assert len(sparkline([1.0] * count, 8)) == min(count, 8)


@pytest.mark.parametrize(
    "size_bytes, text",
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1536, "1.5 KiB"),
        (5 * 2**40, "5.0 TiB"),
        (3 * 2**30, "3.0 GiB"),
        (2**63, "8,192.0 PiB"),
    ],
)
def test_sizes_have_a_unit(size_bytes: int, text: str) -> None:
    assert size(size_bytes) == text


def test_job_that_is_not_seen_as_a_whole_says_so() -> None:
    unseen = replace(JOB, seen_share=0.7, unseen_why="no records from all exporters for 30 s")
    for job, expected in ((unseen, True), (JOB, False)):
        told = summarise(Facts(Coverage(), (job,), (), ())).plain
        assert ("70.0% of its time can be seen; no records from all exporters for 30 s" in told) == expected
