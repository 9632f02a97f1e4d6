"""Each alert rule fires on its own cause only, on the real engine and through the gate."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from prism_ch.grafana.alerts import ALERTS, Alert, alerts_of, rule_groups
from prism_ch.grafana.annotations import INCIDENT_PAGES
from prism_ch.grafana.organisations import dashboards_of, database_user, datasource
from prism_ch.grafana.queries import UNEXPANDED, TimeRange, expand
from prism_ch.query.answer import answer
from prism_ch.query.layout import is_number
from prism_ch.settings import Settings
from prism_ch.store.client import Store
from tests.grafana.evaluation import Instance
from tests.grafana.evaluation import instances as evaluate
from tests.grafana.templates import EXTERNAL_URL, Row
from tests.grafana.templates import expand as fill_in
from tests.incidents import HIDDEN, incident, part
from tests.serving import PASSWORD, endpoint, users

NOW = datetime(2031, 3, 4, 12, tzinfo=UTC)
NOW_S = int(NOW.timestamp())
ROOT = Path(__file__).parents[2]
RUNBOOK_PAGE = ROOT / "docs" / "howto" / "alerts.md"


def alert(name: str) -> Alert:
    return next(each for each in ALERTS if each.name == name)


def ask(store: Store, name: str, tenant: str | None = None) -> list[Row]:
    """Return labels and number of each row, as Grafana reads a table whose one number is to be judged."""
    return numbers(store, name, "A", tenant)


def numbers(store: Store, name: str, query: str, tenant: str | None = None) -> list[Row]:
    """Return labels and number of each row of one of a rule's queries."""
    rule = alert(name)
    sql = expand(rule.queries[query], TimeRange((NOW_S - rule.range_s) * 1000, NOW_S * 1000))
    assert not UNEXPANDED.search(sql)
    found = answer(store, sql, tenant=tenant)
    places = [index for index, kind in enumerate(found.types) if is_number(kind)]
    assert len(places) == 1, "Grafana takes one number a row"
    assert {kind for index, kind in enumerate(found.types) if index not in places} <= {
        "String",
        "LowCardinality(String)",
    }
    rows: list[Row] = []
    for row in found.rows:
        labels = {name: value for name, value in zip(found.names, row, strict=True) if value is not None}
        number = labels.pop(found.names[places[0]])
        assert ("kind" in labels) != bool(rule.kind)
        assert ("severity" in labels) != bool(rule.severity)
        rows.append((labels | ({"kind": rule.kind} if rule.kind else {}), float(number)))
    assert len({tuple(sorted(labels.items())) for labels, _ in rows}) == len(rows), "labels tell alerts apart"
    return rows


def firing(store: Store, name: str, tenant: str | None = None) -> list[Mapping[str, str]]:
    return [labels for labels, number in ask(store, name, tenant) if number > alert(name).above]


def wrong(  # noqa: PLR0913 - the columns of an incident
    store: Store,
    incident_id: str,
    subject: str = "10.0.0.1",
    *,
    of: tuple[str, ...] = ("job-a",),
    tenants: tuple[str, ...] = ("a",),
    kind: str = "slow_gpu",
    subject_type: str = "endpoint",
    severity: str = "critical",
    status: str = "open",
    began_ago_s: int = 600,
    ended_ago_s: int = 0,
    **more: Any,
) -> None:
    """Write an incident and its tenants' parts."""
    about: dict[str, Any] = {"kind": kind, "subject_type": subject_type, "severity": severity, "status": status}
    about |= {"start_s": NOW_S - began_ago_s, "end_s": NOW_S - ended_ago_s, **more}
    incident(store, incident_id, subject, jobs=list(of), tenants=list(tenants), **about)
    for tenant, name in zip(tenants, of, strict=True):
        part(store, incident_id, tenant, name, **about)
    publish(store, "", more.get("revision", 1))


def member(store: Store, endpoint: str, server: str) -> None:
    store.command(
        "INSERT INTO job_members_log (job_id, revision, endpoint, server, gpu, last_seen)"
        " SELECT 'job-a', 1, {endpoint:String}, {server:String}, 3, now()",
        {"endpoint": endpoint, "server": server},
    )
    publish(store, "job-a")


def publish(store: Store, name: str, revision: int = 1) -> None:
    store.command(
        "INSERT INTO revisions (job_id, revision, cuts) SELECT arrayJoin(['', {job:String}]), {revision:UInt64}, 0",
        {"job": name, "revision": revision},
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


def test_incident_fires_once_for_all_its_jobs(store: Store) -> None:
    both: dict[str, Any] = {"of": ("job-a", "job-b"), "tenants": ("a", "b")}
    wrong(store, "i-1", "spine-7", kind="slow_switch", subject_type="switch", severity="warning", **both)
    assert firing(store, "incident") == [
        {
            "incident": "i-1",
            "kind": "slow_switch",
            "subject": "spine-7",
            "place": "spine-7",
            "severity": "warning",
            "confidence": "high",
            "tenant": "several",
            "job": "several",
        }
    ]


def test_incident_fires_while_it_is_open_and_costs(store: Store) -> None:
    wrong(store, "i-hang", kind="hang", subject_type="job", subject="job-a")
    wrong(store, "i-over", status="closed", ended_ago_s=60)
    wrong(store, "i-long-over", status="closed", began_ago_s=1800, ended_ago_s=1200)
    wrong(store, "i-cheap", severity="info")
    wrong(store, "i-lost", began_ago_s=90_000, ended_ago_s=88_000)
    wrong(store, "i-nobodys", "leaf-1", kind="telemetry", subject_type="exporter", of=(), tenants=())
    found = {labels["incident"]: labels for labels in firing(store, "incident")}
    assert found.keys() == {"i-hang", "i-nobodys"}
    assert (found["i-hang"]["tenant"], found["i-hang"]["job"]) == ("a", "job-a")
    # One that has just ended is returned too, for a while, so that its alert resolves at once.
    assert {labels["incident"]: lasting for labels, lasting in ask(store, "incident")} == {
        "i-hang": 1,
        "i-nobodys": 1,
        "i-over": 0,
    }


def test_no_rule_asks_findings(store: Store) -> None:
    """One incident is one alert: a rule on its findings would say the same again."""
    assert [rule.name for rule in ALERTS if "diagnoses" in rule.sql] == []


def test_culprit_of_several_incidents_fires(store: Store) -> None:
    for number in range(4):
        began = 3600 * (number + 1)
        over: dict[str, Any] = {"began_ago_s": began, "ended_ago_s": began - 600}
        wrong(store, f"i-again-{number}", of=(f"job-{number % 2}",), status="closed", **over)
    member(store, "10.0.0.1", "s1")
    # A single one, which has its own alert.
    wrong(store, "i-single", "10.0.0.5", began_ago_s=7200)
    for number in range(2):
        wrong(store, f"i-old-{number}", "10.0.0.3", began_ago_s=14_400 + number, ended_ago_s=4000)
        wrong(store, f"i-cheap-{number}", "10.0.0.4", began_ago_s=14_400 + number, severity="info")
        # Only what lies within the day counts, of one that began long before it.
        wrong(store, f"i-nic-{number}", "10.0.0.6", kind="slow_nic", began_ago_s=200_000 - number)
    assert firing(store, "culprit_persisting") == [
        {"tenant": "a", "job": "several", "kind": "slow_gpu", "subject": "10.0.0.1", "place": "s1 GPU 3"},
        {"tenant": "a", "job": "job-a", "kind": "slow_nic", "subject": "10.0.0.6", "place": "10.0.0.6"},
    ]
    blamed = {labels["subject"]: number for labels, number in ask(store, "culprit_persisting")}
    assert blamed == {"10.0.0.1": 40, "10.0.0.5": 0, "10.0.0.3": 0, "10.0.0.6": 2880}


def test_silent_exporter_fires_until_it_counts_as_removed(store: Store) -> None:
    for exporter, silent_s in {"leaf-1": 4.0, "leaf-2": 301.0, "removed": 90_000.0}.items():
        measure(store, "exporter_silent_seconds", silent_s, exporter)
    assert firing(store, "exporter_silent") == [{"kind": "exporter_silent", "exporter": "leaf-2"}]


def test_silent_exporter_of_an_open_incident_does_not_fire_again(store: Store) -> None:
    for exporter, silent_s in {"leaf-0": 4, "leaf-1": 400, "leaf-2": 400, "leaf-3": 400, "leaf-4": 400}.items():
        measure(store, "exporter_silent_seconds", silent_s, exporter)
    wrong(store, "i-1", "leaf-1", kind="telemetry", subject_type="exporter")
    wrong(store, "i-2", "leaf-2", kind="telemetry", subject_type="exporter", status="closed")
    wrong(store, "i-3", "leaf-3", kind="telemetry", subject_type="exporter", severity="info")
    assert [labels["exporter"] for labels in firing(store, "exporter_silent")] == ["leaf-2 and 2 more"]


def test_silence_of_all_exporters_is_one_alert_or_an_incident(store: Store) -> None:
    for number in range(3):
        measure(store, "exporter_silent_seconds", 400 + number, f"leaf-{number}")
    assert ask(store, "exporter_silent") == [({"kind": "exporter_silent", "exporter": "all"}, 402)]
    wrong(store, "i-1", "job-a", kind="telemetry", subject_type="job")
    assert firing(store, "exporter_silent") == []


def test_stopped_collector_is_one_alert_from_the_first_second(store: Store) -> None:
    """Its exporters are heard last within a minute of one another, and cross the bound one by one."""
    for passed_s in range(0, 180, 20):
        store.command("TRUNCATE TABLE measures_log")
        for number in range(8):
            measure(store, "exporter_silent_seconds", 240 + 8 * number + passed_s, f"leaf-{number}")
        for number in range(8, 16):
            measure(store, "exporter_silent_seconds", 3 * number, f"leaf-{number}")
        # Of another collector, which stopped long ago.
        measure(store, "exporter_silent_seconds", 5000 + passed_s, "leaf-old")
        found = [labels["exporter"] for labels in firing(store, "exporter_silent")]
        assert found == ["leaf-0 and 7 more", "leaf-old"][0 if 296 + passed_s > 300 else 1 :]


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
    for number in range(2):
        shared: dict[str, Any] = {"kind": "slow_switch", "subject_type": "switch", "began_ago_s": 7200 + number}
        wrong(store, f"i-{number}", "spine-7", of=("job-a", "job-b"), tenants=("a", "b"), **shared)
    for rule in ALERTS:
        if rule.is_for_tenants:
            assert len(firing(store, rule.name)) >= 1, rule.name
            assert {labels["tenant"] for labels in firing(store, rule.name, "b")} == {"b"}, rule.name
            assert {labels["job"] for labels in firing(store, rule.name, "b")} == {"job-b"}, rule.name
            for name in ("subject", "place"):
                assert {labels[name] for labels in firing(store, rule.name, "b")} == {HIDDEN}, rule.name


def test_link_opens_the_incident_with_its_length_on_both_sides(store: Store) -> None:
    wrong(store, "i-1", "a b&c", began_ago_s=600, ended_ago_s=0)
    (opened,) = links(store, "incident")
    start_ms, end_ms = (NOW_S - 600) * 1000, NOW_S * 1000
    assert opened.organisation == "7"
    assert opened.dashboard == INCIDENT_PAGES[0].dashboard
    assert (opened.from_ms, opened.to_ms) == (start_ms - 600_000, end_ms + 600_000)
    assert opened.variables == dict.fromkeys(INCIDENT_PAGES[0].variables, "i-1")


@pytest.mark.parametrize("rule", ALERTS, ids=lambda rule: rule.name)
def test_link_of_each_rule_opens_page_range_and_organisation(store: Store, rule: Alert) -> None:
    fire_all(store)
    opened = links(store, rule.name)
    assert opened
    for each in opened:
        assert each.organisation == "7"
        assert each.dashboard in {page.dashboard for page in rule.pages}
        assert each.variables.keys() == next(
            page.variables.keys() for page in rule.pages if page.dashboard == each.dashboard
        )
        assert not {"", "[no value]"} & {*each.variables.values()}
        assert each.from_ms < each.to_ms
        assert (NOW_S - 2 * 86_400) * 1000 <= each.from_ms <= NOW_S * 1000


@pytest.mark.parametrize("rule", ALERTS, ids=lambda rule: rule.name)
@pytest.mark.parametrize("tenant", [None, "a"])
def test_runbook_of_each_rule_opens_the_panel_of_its_text(rule: Alert, tenant: str | None) -> None:
    boards = dashboards_of(tenant)
    groups = rule_groups(boards, 7, is_tenants=tenant is not None)
    made = [each for group in groups for each in group["rules"] if each["uid"] == rule.uid]
    assert len(made) == (tenant is None or rule.is_for_tenants)
    for each in made:
        # Without rows too: the service that is gone has none.
        parts = urlsplit(fill_in(each["annotations"]["runbook_url"], {}, {}))
        assert f"{parts.scheme}://{parts.netloc}{parts.path}" == f"{EXTERNAL_URL}d/prism-runbook"
        query = parse_qs(parts.query, strict_parsing=True)
        assert query.keys() == {"orgId", "viewPanel"}
        assert query["orgId"] == ["7"]
        panels = boards["prism-runbook"]["panels"]
        (panel,) = [panel for panel in panels if [str(panel["id"])] == query["viewPanel"]]
        assert (panel["type"], panel["title"], panel["options"]["mode"]) == ("text", rule.title, "markdown")
        shown = panel["options"]["content"]
        assert "$" not in shown, "Grafana would take it for a variable"
        named = re.compile(r'"([^"]*)" \((docs/[^)]*)\)')
        assert all((ROOT / path).is_file() for _, path in named.findall(shown))
        written = RUNBOOK_PAGE.read_text(encoding="utf-8").partition(f"\n## {rule.title}\n")[2].partition("\n## ")[0]
        assert named.sub(r"\1", shown) == re.sub(r"\[(.*?)\]\(.*?\)", r"\1", written).strip() != ""


def test_link_of_a_culprit_opens_its_server_or_its_last_incident(store: Store) -> None:
    for number in range(2):
        began = 7200 - 600 * number
        over: dict[str, Any] = {"began_ago_s": began, "ended_ago_s": began - 300, "status": "closed"}
        wrong(store, f"i-{number}", "10.0.0.1", began_ago_s=7200 + number)
        wrong(store, f"i-switch-{number}", "spine-7", kind="slow_switch", subject_type="switch", **over)
        wrong(store, f"i-again-{number}", "spine-7", kind="slow_switch", subject_type="switch", began_ago_s=1800)
    member(store, "10.0.0.1", "server 1")
    server, switch = sorted(links(store, "culprit_persisting"), key=lambda each: each.dashboard)
    assert (server.dashboard, server.variables) == ("prism-host", {"host": "server 1"})
    assert (server.from_ms, server.to_ms) == ((NOW_S - 86_400) * 1000, NOW_S * 1000)
    assert (switch.dashboard, switch.variables) == ("prism-incident", {"incident": "i-again-1"})
    assert (switch.from_ms, switch.to_ms) == ((NOW_S - 3600) * 1000, (NOW_S + 1800) * 1000)


def test_link_of_a_tenants_culprit_opens_its_last_incident(store: Store) -> None:
    for number in range(2):
        wrong(store, f"i-{number}", "10.0.0.1", began_ago_s=7200 - 1800 * number)
    member(store, "10.0.0.1", "server 1")
    (opened,) = links(store, "culprit_persisting", "a")
    assert (opened.dashboard, opened.variables) == ("prism-incident", {"incident": "i-1"})
    assert (opened.from_ms, opened.to_ms) == ((NOW_S - 10_800) * 1000, (NOW_S + 5400) * 1000)


@pytest.mark.parametrize("rule", ALERTS, ids=lambda rule: rule.name)
def test_texts_of_each_rule_whole_with_rows_and_without(store: Store, rule: Alert) -> None:
    fire_all(store)
    for each in instances(store, rule.name):
        assert {"summary", "description", "dashboard_url", "runbook_url"} == each.annotations.keys()
        for name in ("summary", "description"):
            assert each.annotations[name]
            assert "[no value]" not in each.annotations[name]
    (without,) = evaluate(made(rule.name), {})
    assert without.state == "Normal (NoData)"


def test_notification_of_an_incident_has_its_sentence(store: Store) -> None:
    wrong(store, "i-1", "10.0.0.1", summary="GPU 3 of server-1 makes 7 others wait: 12 % of their time.")
    wrong(store, "i-2", "leaf-1", kind="telemetry", subject_type="exporter", of=(), tenants=())
    wrong(store, "i-3", "leaf-2", of=("job-a", "job-b"), tenants=("a", "b"))
    member(store, "10.0.0.1", "server-1")
    found, of_nobody, of_two = instances(store, "incident")
    assert found.annotations["summary"] == "GPU 3 of server-1 makes 7 others wait: 12 % of their time."
    assert found.annotations["description"] == (
        "Look there. It has cost 1 GPU-hours so far of job job-a. The confidence in who is to blame is high: its page"
        " says what it rests on."
    )
    assert " GPU-hours so far. The" in of_nobody.annotations["description"]
    assert " GPU-hours so far of several jobs. The" in of_two.annotations["description"]


def test_sentence_that_changes_makes_no_other_alert(store: Store) -> None:
    wrong(store, "i-1", "10.0.0.1", summary="It costs 12 % of their time.")
    (before,) = instances(store, "incident")
    wrong(store, "i-1", "10.0.0.1", summary="It costs 31 % of their time.", revision=2)
    (after,) = instances(store, "incident")
    assert (before.state, after.state) == ("Alerting", "Alerting")
    assert before.labels == after.labels
    assert after.annotations["summary"] == "It costs 31 % of their time."


def test_summary_without_texts_names_place_and_kind(store: Store) -> None:
    """Grafana asks one query after the other: in between, an incident may get worse."""
    wrong(store, "i-1", "10.0.0.1")
    (found,) = evaluate(made("incident"), {"A": ask(store, "incident"), "texts": []})
    assert found.annotations["summary"] == "10.0.0.1 is to blame (slow_gpu)"
    assert found.annotations["dashboard_url"].endswith("/prism-incident?orgId=7")


@pytest.mark.parametrize("tenant", [None, "b"])
def test_each_alert_of_a_rule_has_one_row_of_texts(store: Store, tenant: str | None) -> None:
    fire_all(store)
    for rule in alerts_of(is_tenants=tenant is not None):
        alerts, texts = (numbers(store, rule.name, query, tenant) for query in ("A", "texts"))
        assert alerts
        names = {*rule.texts, "from_ms", "to_ms"}
        without = [({k: v for k, v in labels.items() if k not in names}, number) for labels, number in texts]
        assert without == alerts


@dataclass(frozen=True)
class Link:
    """What the address in a notification opens."""

    organisation: str
    dashboard: str
    from_ms: int
    to_ms: int
    variables: dict[str, str]


def links(store: Store, name: str, tenant: str | None = None) -> list[Link]:
    """Return what the links of a rule's firing alerts open."""
    opened = []
    for each in instances(store, name, tenant):
        if each.state != "Alerting":
            continue
        parts = urlsplit(each.annotations["dashboard_url"])
        assert f"{parts.scheme}://{parts.netloc}{parts.path}".startswith(f"{EXTERNAL_URL}d/")
        query = {key: value for key, (value,) in parse_qs(parts.query, strict_parsing=True).items()}
        variables = {key.removeprefix("var-"): value for key, value in query.items() if key.startswith("var-")}
        times = int(query["from"]), int(query["to"])
        opened.append(Link(query["orgId"], parts.path.rpartition("/")[2], *times, variables))
    return opened


def instances(store: Store, name: str, tenant: str | None = None) -> list[Instance]:
    """Return a rule's alerts as Grafana makes them of what its queries answer."""
    return evaluate(made(name, tenant), {query: numbers(store, name, query, tenant) for query in alert(name).queries})


def made(name: str, tenant: str | None = None) -> dict[str, Any]:
    """Return a rule of an organisation as it is provisioned."""
    groups = rule_groups(dashboards_of(tenant), 7, is_tenants=tenant is not None)
    return next(rule for group in groups for rule in group["rules"] if rule["uid"] == alert(name).uid)


def fire_all(store: Store) -> None:
    """Write what makes every rule fire."""
    for number in range(2):
        shared: dict[str, Any] = {"kind": "slow_switch", "subject_type": "switch", "began_ago_s": 7200 + number}
        wrong(store, f"i-{number}", "spine-7", of=("job-a", "job-b"), tenants=("a", "b"), **shared)
    measure(store, "exporter_silent_seconds", 400, "leaf-1")
    measure(store, "windows_behind", 40)
    landed(store, {80_000: (0, 0), 1000: (100_000, 100), 10: (110_000, 400)})


def test_every_data_source_may_ask_its_rules_over_http(store: Store, engine_folder: Path, tmp_path: Path) -> None:
    for number in range(2):
        shared: dict[str, Any] = {"kind": "slow_switch", "subject_type": "switch", "began_ago_s": 7200 + number}
        wrong(store, f"i-{number}", "spine-7", of=("job-alpha", "job-bravo"), tenants=("alpha", "bravo"), **shared)
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
                sql = expand(rule.queries["A"], TimeRange((NOW_S - rule.range_s) * 1000, NOW_S * 1000))
                served_answer = served.ask(sql, options["username"], default_format="JSONEachRow", **limits)
                assert served_answer.status == 200, served_answer.text
                if owner is not None:
                    assert own in served_answer.text, rule.name
                    assert other not in served_answer.text, rule.name


def test_texts_have_no_dollar_and_use_labels_of_the_query() -> None:
    for rule in ALERTS:
        for text in (rule.summary, rule.otherwise, rule.description):
            assert "$" not in text
            for label in re.findall(r"\.Labels\.(\w+)", text):
                is_returned = re.search(rf"\bAS {label}\b|^ +{label},?$", rule.sql, re.MULTILINE)
                assert is_returned or (label == "kind" and rule.kind), (rule.name, label)
