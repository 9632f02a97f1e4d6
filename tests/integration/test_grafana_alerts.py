"""Each alert rule fires on its own cause only, on the real engine and through the gate."""

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from prism_ch.grafana.alerts import ALERTS, Alert
from prism_ch.grafana.organisations import database_user, datasource
from prism_ch.grafana.queries import UNEXPANDED, TimeRange, expand
from prism_ch.query.answer import answer
from prism_ch.query.layout import is_number
from prism_ch.settings import Settings
from prism_ch.store.client import Store
from tests.serving import PASSWORD, endpoint, users

NOW = datetime(2031, 3, 4, 12, tzinfo=UTC)
NOW_S = int(NOW.timestamp())


def alert(name: str) -> Alert:
    return next(each for each in ALERTS if each.name == name)


def ask(store: Store, name: str, tenant: str | None = None) -> list[tuple[dict[str, str], float]]:
    """Return labels and number of each row, as Grafana reads a table whose one number is to be judged."""
    rule = alert(name)
    sql = expand(rule.sql, TimeRange((NOW_S - rule.range_s) * 1000, NOW_S * 1000))
    assert not UNEXPANDED.search(sql)
    found = answer(store, sql, tenant=tenant)
    numbers = [index for index, kind in enumerate(found.types) if is_number(kind)]
    assert len(numbers) == 1, "Grafana judges one number a row"
    assert {kind for index, kind in enumerate(found.types) if index not in numbers} <= {
        "String",
        "LowCardinality(String)",
    }
    rows = []
    for row in found.rows:
        labels = {name: value for name, value in zip(found.names, row, strict=True) if value is not None}
        number = labels.pop(found.names[numbers[0]])
        assert ("kind" in labels) != bool(rule.kind)
        rows.append((labels | ({"kind": rule.kind} if rule.kind else {}), float(number)))
    assert len({tuple(sorted(labels.items())) for labels, _ in rows}) == len(rows), "labels tell alerts apart"
    return rows


def firing(store: Store, name: str, tenant: str | None = None) -> list[dict[str, str]]:
    return [labels for labels, number in ask(store, name, tenant) if number > alert(name).above]


def job(store: Store, name: str, tenant: str, durations_s: list[float], status: str = "running") -> None:
    """Write a job whose median step takes 2 s, and its latest steps, the last of which ends just now."""
    values = {"job": name, "tenant": tenant, "status": status, "now": NOW_S, "durations": durations_s}
    store.command(
        "INSERT INTO jobs_log"
        " (job_id, revision, tenant, status, first_seen, last_seen, endpoints, steps, step_s_median)"
        " SELECT {job:String}, 1, {tenant:String}, {status:String},"
        " fromUnixTimestamp({now:UInt32} - 86400), fromUnixTimestamp({now:UInt32}), 8, 100, 2",
        values,
    )
    store.command(
        "INSERT INTO steps_log (job_id, revision, tenant, step, start_time, end_time, duration_s, complete)"
        " SELECT {job:String}, 1, {tenant:String}, number, end_time - INTERVAL 2 SECOND,"
        " fromUnixTimestamp({now:UInt32} - 2 * toUInt32(length({durations:Array(Float64)}) - number - 1)) AS end_time,"
        " {durations:Array(Float64)}[number + 1], 1 FROM numbers(length({durations:Array(Float64)}))",
        values,
    )
    publish(store, name)


def finding(  # noqa: PLR0913 - the columns of a finding
    store: Store,
    kind: str,
    subject: str = "10.0.0.1",
    *,
    of: str = "job-a",
    tenant: str = "a",
    severity: str = "critical",
    status: str = "open",
    began_ago_s: int = 600,
    ended_ago_s: int = 0,
) -> None:
    store.command(
        "INSERT INTO diagnoses_log (job_id, revision, diagnosis_id, tenant, kind, subject_type, subject,"
        " start_time, end_time, status, severity) SELECT {job:String}, 1, {id:String}, {tenant:String}, {kind:String},"
        " 'endpoint', {subject:String}, fromUnixTimestamp({began:UInt32}), fromUnixTimestamp({ended:UInt32}),"
        " {status:String}, {severity:String}",
        {
            "job": of,
            "id": f"{of}-{kind}-{subject}-{began_ago_s}",
            "tenant": tenant,
            "kind": kind,
            "subject": subject,
            "began": NOW_S - began_ago_s,
            "ended": NOW_S - ended_ago_s,
            "status": status,
            "severity": severity,
        },
    )
    publish(store, of)


def publish(store: Store, name: str) -> None:
    store.command(
        "INSERT INTO revisions (job_id, revision, cuts) SELECT arrayJoin(['', {job:String}]), 1, 0", {"job": name}
    )


def measure(store: Store, name: str, value: float, label: str = "", ago_s: int = 10) -> None:
    store.command(
        "INSERT INTO measures_log (checked_at, process, measure, label, value)"
        " SELECT fromUnixTimestamp({at:UInt32}), 'host:1', {name:String}, {label:String}, {value:Float64}",
        {"at": NOW_S - ago_s, "name": name, "label": label, "value": value},
    )


def test_every_rule_answers_on_an_empty_database(store: Store) -> None:
    for rule in ALERTS:
        assert ask(store, rule.name) == [], rule.name


def test_slowed_job_fires(store: Store) -> None:
    job(store, "job-slow", "a", [2.0] * 20 + [2.3] * 5)
    job(store, "job-even", "a", [2.0, 2.04, 1.96] * 5)
    assert firing(store, "job_slowed") == [{"tenant": "a", "job": "job-slow", "kind": "slowed"}]
    (slower,) = [number for labels, number in ask(store, "job_slowed") if labels["job"] == "job-slow"]
    assert slower == pytest.approx(0.15)


def test_checkpoint_ended_job_and_new_job_do_not_fire(store: Store) -> None:
    job(store, "job-checkpoint", "a", [2.0] * 9 + [30.0])
    job(store, "job-ended", "a", [2.0] * 9 + [9.0] * 5, status="ended")
    job(store, "job-new", "a", [9.0] * 4)
    assert firing(store, "job_slowed") == []


def test_hang_fires_until_its_finding_closes(store: Store) -> None:
    job(store, "job-a", "a", [2.0] * 9, status="stalled")
    job(store, "job-b", "b", [2.0] * 9)
    finding(store, "hang", of="job-a")
    finding(store, "hang", of="job-b", tenant="b", status="closed")
    finding(store, "stall", of="job-b", tenant="b")
    assert firing(store, "hang") == [{"tenant": "a", "job": "job-a", "kind": "hang"}]
    # The closed one is returned too, so that its alert resolves at once.
    assert len(ask(store, "hang")) == 2


def test_critical_finding_fires_while_it_is_open(store: Store) -> None:
    finding(store, "slow_gpu")
    finding(store, "slow_nic", status="closed", ended_ago_s=60)
    finding(store, "slow_step", status="closed", began_ago_s=1800, ended_ago_s=1200)
    finding(store, "slow_link", severity="warning")
    finding(store, "slow_switch", of="", tenant="", subject="leaf-1", began_ago_s=90_000, ended_ago_s=88_000)
    finding(store, "hang")
    (labels,) = firing(store, "critical_finding")
    assert labels["kind"] == "slow_gpu"
    assert labels["subject"] == "10.0.0.1"
    assert (labels["tenant"], labels["job"]) == ("a", "job-a")
    # One that has just ended is returned too, for a while.
    numbers = {labels["kind"]: lasting for labels, lasting in ask(store, "critical_finding")}
    assert numbers == {"slow_gpu": 1, "slow_nic": 0}


def test_culprit_fires_over_several_jobs(store: Store) -> None:
    for number in range(4):
        began = 3600 * (number + 1)
        finding(store, "slow_gpu", of=f"job-{number % 2}", began_ago_s=began, ended_ago_s=began - 600, status="closed")
    finding(store, "slow_gpu", "10.0.0.2", began_ago_s=1200)
    finding(store, "slow_gpu", "10.0.0.3", began_ago_s=14_400, ended_ago_s=4000)
    finding(store, "imbalance", "10.0.0.4", began_ago_s=14_400, severity="info")
    # Only what lies within the day counts, of a finding that began long before it.
    finding(store, "slow_nic", "10.0.0.5", began_ago_s=200_000)
    assert firing(store, "culprit_persisting") == [
        {"tenant": "a", "job": "several", "kind": "slow_gpu", "subject": "10.0.0.1"},
        {"tenant": "a", "job": "job-a", "kind": "slow_nic", "subject": "10.0.0.5"},
    ]
    blamed = {labels["subject"]: number for labels, number in ask(store, "culprit_persisting")}
    assert blamed == {"10.0.0.1": 40, "10.0.0.2": 20, "10.0.0.3": 0, "10.0.0.5": 1440}


def test_silent_exporter_fires_until_it_counts_as_removed(store: Store) -> None:
    for exporter, silent_s in {"leaf-1": 4.0, "leaf-2": 301.0, "removed": 90_000.0}.items():
        measure(store, "exporter_silent_seconds", silent_s, exporter)
    assert firing(store, "exporter_silent") == [{"kind": "exporter_silent", "exporter": "leaf-2"}]


def test_pipeline_behind_fires_until_it_catches_up(store: Store) -> None:
    measure(store, "windows_behind", 40, ago_s=300)
    assert firing(store, "pipeline_behind") == [{"kind": "pipeline_behind"}]
    measure(store, "windows_behind", 2)
    assert firing(store, "pipeline_behind") == []
    assert len(ask(store, "pipeline_behind")) == 1


def test_missing_measures_are_no_data_which_fires(store: Store) -> None:
    measure(store, "windows_behind", 0, ago_s=700)
    assert ask(store, "pipeline_behind") == []
    assert alert("pipeline_behind").no_data == "Alerting"


def landed(store: Store, counts: dict[int, tuple[int, int]]) -> None:
    """Note totals of landed and rejected records; keys are how long ago, in seconds."""
    for ago_s, (good, bad) in counts.items():
        measure(store, "records_landed_total", good, ago_s=ago_s)
        if bad:
            measure(store, "records_rejected_total", bad, "no_time", ago_s=ago_s)


@pytest.mark.parametrize(
    "counts, is_firing",
    [
        ({80_000: (0, 0), 1000: (100_000, 100), 10: (110_000, 400)}, True),
        # For the first time ever.
        ({80_000: (0, 0), 1000: (100_000, 0), 10: (110_000, 400)}, True),
        # As many as ever.
        ({80_000: (0, 0), 30_000: (50_000, 1500), 1000: (100_000, 3000), 10: (110_000, 3300)}, False),
        # Too few, by share and by number.
        ({80_000: (0, 0), 1000: (100_000, 0), 10: (200_000, 400)}, False),
        ({80_000: (0, 0), 1000: (100_000, 0), 10: (100_100, 99)}, False),
        # The service has only just begun to note: what the database holds is not of this quarter of an hour.
        ({600: (100_000, 50_000), 10: (110_000, 50_000)}, False),
    ],
)
def test_rejected_records_fire_only_if_their_share_rises(
    store: Store, counts: dict[int, tuple[int, int]], is_firing: bool
) -> None:
    landed(store, counts)
    wanted = [{"kind": "rejects_rising", "reason": "no_time"}] if is_firing else []
    assert firing(store, "rejects_rising") == wanted


def test_tenant_sees_alerts_of_its_own_rows_only(store: Store) -> None:
    for tenant in ("a", "b"):
        job(store, f"job-{tenant}", tenant, [2.0] * 20 + [4.0] * 5)
        finding(store, "hang", of=f"job-{tenant}", tenant=tenant)
        finding(store, "slow_gpu", of=f"job-{tenant}", tenant=tenant, began_ago_s=7200)
    for rule in ALERTS:
        if rule.is_for_tenants:
            assert len(firing(store, rule.name)) >= 1, rule.name
            assert {labels["tenant"] for labels in firing(store, rule.name, "b")} == {"b"}, rule.name
            assert {labels["job"] for labels in firing(store, rule.name, "b")} == {"job-b"}, rule.name


def test_every_data_source_may_ask_its_rules_over_http(store: Store, engine_folder: Path, tmp_path: Path) -> None:
    for tenant in ("alpha", "bravo"):
        job(store, f"job-{tenant}", tenant, [2.0] * 20 + [4.0] * 5)
        finding(store, "hang", of=f"job-{tenant}", tenant=tenant)
        finding(store, "slow_gpu", of=f"job-{tenant}", tenant=tenant, began_ago_s=7200)
    (tmp_path / "passwords.toml").write_text("".join(f'{name} = "{PASSWORD}"\n' for name in users()))
    with endpoint(store, engine_folder) as served:
        settings = Settings.model_validate(
            {
                "url": f"chdb://{engine_folder}?database={store.database}",
                "serve": {"users": users(), "port": served.port},
                "grafana": {"database": {"passwords": tmp_path / "passwords.toml"}},
            }
        )
        organisations: list[tuple[str | None, str, str]] = [
            (None, "", ""),
            ("alpha", "alpha", "bravo"),
            ("bravo", "bravo", "alpha"),
        ]
        for owner, own, other in organisations:
            options = datasource(settings, database_user(settings, owner))["jsonData"]
            # As the plugin asks: with 5 seconds more than its own limit.
            limits = {"database": options["defaultDatabase"], "max_execution_time": int(options["queryTimeout"]) + 5}
            for rule in (each for each in ALERTS if owner is None or each.is_for_tenants):
                sql = expand(rule.sql, TimeRange((NOW_S - rule.range_s) * 1000, NOW_S * 1000))
                served_answer = served.ask(sql, options["username"], default_format="JSONEachRow", **limits)
                assert served_answer.status == 200, served_answer.text
                if owner is not None:
                    assert own in served_answer.text, rule.name
                    assert other not in served_answer.text, rule.name


def test_texts_have_no_dollar_and_use_labels_of_the_query() -> None:
    for rule in ALERTS:
        for text in (rule.summary, rule.description):
            assert "$" not in text
            for label in re.findall(r"\.Labels\.(\w+)", text):
                is_returned = re.search(rf"\bAS {label}\b|^ +{label},?$", rule.sql, re.MULTILINE)
                assert is_returned or (label == "kind" and rule.kind), (rule.name, label)
