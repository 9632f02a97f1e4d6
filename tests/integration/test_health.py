"""Each health check: what makes it bad, and how HTTP, the tables and `doctor` show it."""

from __future__ import annotations

import json
import os
import shutil
import threading
import time
import urllib.error
import urllib.request
from base64 import b64encode
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from prism_ch.daemon.daemon import Daemon
from prism_ch.daemon.health import HealthMonitor
from prism_ch.daemon.spool import Spool
from prism_ch.daemon.tasks import TASKS, Schedule, TaskContext, TaskPlan, TaskState
from prism_ch.errors import SettingsError, StoreError
from prism_ch.health.checks import LABELS_MAX, MEASURES, Check, check_machine, check_service, measure_database
from prism_ch.health.doctor import examine
from prism_ch.serve.http import application, listening
from prism_ch.serve.users import Users, hash_password
from prism_ch.settings import ServeSettings, Settings, UserSettings
from prism_ch.store.client import Store, connect
from prism_ch.worker import analyse
from tests.e2e.commands import prism_ch
from tests.incidents import incident, of_job, part
from tests.integration.test_ledger import arrive, work
from tests.integration.test_watermark import HOUR_AGO_NS, NOW_NS, SECOND, land

SETTINGS = Settings(serve=ServeSettings(silent_after_s=3600))


def named(checks: list[Check], name: str) -> Check:
    [found] = [check for check in checks if check.name == name]
    return found


def seen(store: Store, name: str) -> Check:
    return named(check_service(store, SETTINGS), name)


@pytest.fixture
def examined(store: Store, store_url: str) -> Callable[[str], Check]:
    def look(name: str) -> Check:
        return named(examine(lambda: Settings(url=store_url), lambda _: None, lambda: connect(store_url)), name)

    return look


def test_parts_that_are_set_aside_are_named(store: Store) -> None:
    land(store, "leaf-1", HOUR_AGO_NS)
    assert seen(store, "parts").state == "ok"
    active = "SELECT name FROM system.parts WHERE database = currentDatabase() AND table = 'flows_log' AND active"
    [(part,)] = store.rows(active)
    store.command(f"ALTER TABLE flows_log DETACH PART '{part}'")
    found = seen(store, "parts")
    assert found.state == "bad"
    assert "1 of flows_log (detached)" in found.what
    store.command(f"ALTER TABLE flows_log ATTACH PART '{part}'")
    assert seen(store, "parts").state == "ok"


def test_silent_exporters(store: Store) -> None:
    assert "no flow record has landed yet" in seen(store, "exporters").what
    land(store, "leaf-1", HOUR_AGO_NS)
    assert seen(store, "exporters") == Check("exporters", "ok", "all 1 send")
    land(store, "leaf-2", HOUR_AGO_NS, received_ago_s=5000)
    assert seen(store, "exporters").what.startswith("1 of 2 are silent, leaf-2 for 5,0")
    land(store, "leaf-3", HOUR_AGO_NS, received_ago_s=6000)
    assert seen(store, "exporters").what.startswith("2 of 3 are silent, leaf-3 for 6,0")


def test_a_cluster_that_is_wholly_silent(store: Store) -> None:
    land(store, "leaf-1", HOUR_AGO_NS, received_ago_s=5000)
    assert seen(store, "exporters").what.startswith("none of 1 has sent anything for 5,0")


def test_records_of_the_future(store: Store) -> None:
    land(store, "leaf-1", HOUR_AGO_NS)
    assert seen(store, "future records").state == "ok"
    land(store, "leaf-2", time.time_ns() + 7200 * SECOND)
    found = seen(store, "future records")
    assert found.state == "warn"
    assert found.what.startswith("1 exporters sent flows of the future, leaf-2 by 7,")


def test_rejected_records(store: Store) -> None:
    land(store, "leaf-1", HOUR_AGO_NS)
    assert seen(store, "rejected records").state == "ok"
    land(store, "leaf-1", 5)
    found = seen(store, "rejected records")
    assert (found.state, found.what) == ("warn", "1 of 2, most of them implausible_time")


def test_failed_windows_and_those_that_wait(store: Store) -> None:
    land(store, "leaf-1", HOUR_AGO_NS)
    assert seen(store, "windows") == Check("windows", "ok", "0 worked, none failed")
    arrive(store, 0)
    work(store, 0, error="odd numbers")
    found = seen(store, "windows")
    assert found.state == "bad"
    assert found.what == "the window of 2027-01-15 08:00:00 UTC failed 1 times: odd numbers"


def test_windows_that_wait(store: Store) -> None:
    assert seen(store, "windows behind").state == "ok"
    land(store, "leaf-1", HOUR_AGO_NS, minutes=70)
    land(store, "leaf-1", NOW_NS)
    found = seen(store, "windows behind")
    assert (found.state, found.what) == ("bad", "70 closed windows wait to be worked")


@pytest.mark.parametrize("replay", [True, False])
def test_no_window_waits_that_was_analysed_as_chosen(store: Store, replay: bool) -> None:
    land(store, "leaf-1", HOUR_AGO_NS, minutes=3)
    settings = SETTINGS.model_copy(update={"replay": replay})
    behind = "windows_behind"
    assert [one.value for one in measure_database(store, settings) if one.name == behind] > [0]
    analyse(store, settings)
    assert [one.value for one in measure_database(store, settings) if one.name == behind] == [0]


def test_a_schema_that_is_not_this_versions(empty_store: Store) -> None:
    [found] = check_service(empty_store, SETTINGS)
    assert (found.name, found.state) == ("database", "bad")
    assert "prism-ch migrate" in found.mend


def test_the_topology(store: Store, examined: Callable[[str], Check], tmp_path: Path) -> None:
    assert examined("topology").state == "bad"
    land(store, "leaf-1", HOUR_AGO_NS)
    columns = "endpoint,server,gpu,rail,leaf,pod,tenant"
    places = tmp_path / "topology.csv"
    for endpoints, state in ((("10.0.0.7",), "bad"), (("10.0.0.1",), "warn"), (("10.0.0.1", "10.0.0.2"), "ok")):
        places.write_text("\n".join([columns, *(f"{each},h,{gpu},0,l,p,t" for gpu, each in enumerate(endpoints))]))
        assert prism_ch("topology", places, url=f"chdb://{store.location}?database={store.database}").status == 0
        assert examined("topology").state == state
    assert "it covers all addresses seen" in examined("topology").what


def test_mistakes_in_the_topology(store: Store, examined: Callable[[str], Check], tmp_path: Path) -> None:
    places = tmp_path / "topology.csv"
    url = f"chdb://{store.location}?database={store.database}"
    lines = [f"10.{nic}.0.{server},s{server},{nic},{nic},l{nic},p,t" for server in range(1, 5) for nic in range(4)]
    for line, state in ((lines[5], "ok"), (lines[5].replace(",1,1,", ",1,9,"), "warn")):
        places.write_text("\n".join(["endpoint,server,gpu,rail,leaf,pod,tenant", *lines[:5], line, *lines[6:]]))
        assert prism_ch("topology", places, url=url).status == 0
        assert examined("places of endpoints").state == state
    assert examined("places of endpoints").what.startswith("10.1.0.2 is on rail 9, which no other server has")


def test_clocks_and_idle_timeouts_that_were_inferred(store: Store, examined: Callable[[str], Check]) -> None:
    assert examined("clocks").what == "no offset could be inferred"
    assert examined("idle timeouts").what == "none could be inferred"
    store.command(
        "CREATE OR REPLACE VIEW exporters AS SELECT exporter, offset AS clock_offset_s, idle AS idle_timeout_s FROM"
        " VALUES('exporter String, offset Nullable(Float64), idle Nullable(Float64)',"
        " ('leaf-1', 0.01, 0.005), ('leaf-2', -2.5, 1.0), ('leaf-3', NULL, NULL))"
    )
    assert examined("clocks").what == "1 of 2 exporters are off, leaf-2 by -2.500 s"
    assert examined("idle timeouts").state == "ok"
    store.command("CREATE OR REPLACE VIEW jobs AS SELECT 2.0 AS step_s_median")
    found = examined("idle timeouts")
    assert found.what == "1 of 2 exporters merge too much: leaf-2 waits 1 s of 2 s steps"
    assert found.mend == "set their idle (inactive) timeout below 0.1 s"


def test_a_configuration_that_can_not_be_read(store_url: str) -> None:
    def refuse(settings: Settings) -> None:
        raise SettingsError("schedule.toml: is no TOML")

    assert examine(lambda: Settings(url=store_url), refuse, lambda: connect(store_url)) == [
        Check(
            "configuration", "bad", "schedule.toml: is no TOML", "mend the file, the environment or the option it names"
        )
    ]


def test_a_database_that_can_not_be_reached() -> None:
    url = "clickhouse://u:hunter2@127.0.0.1:9/prism"
    found = examine(lambda: Settings(url=url), lambda _: None, lambda: connect(url))
    assert [each.state for each in found] == ["ok", "bad"]
    assert "can't be reached" in found[1].what
    assert "hunter2" not in str(found)


def test_the_spool_and_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spool = tmp_path / "spool"
    settings = Settings(url=f"chdb://{tmp_path}/data", serve=ServeSettings(spool=spool))
    assert named(check_machine(settings), "spool").state == "bad"
    Spool(spool).close()
    assert named(check_machine(settings), "spool").state == "ok"
    (spool / "failed" / "x.csv.error").write_text("odd")
    assert named(check_machine(settings), "spool").what.endswith("to their end, the last: 'x.csv': odd")
    total = 100 << 30
    for free, state in ((50 << 30, "ok"), (5 << 30, "warn"), (1 << 30, "bad")):
        usage = SimpleNamespace(total=total, free=free)
        monkeypatch.setattr(shutil, "disk_usage", lambda _, usage=usage: usage)
        assert named(check_machine(settings), "disk of the database").state == state
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert named(check_machine(settings), "spool").state == "bad"


def monitor(url: str, *states: TaskState, open_store: Callable[[], Store] | None = None) -> HealthMonitor:
    return HealthMonitor(SETTINGS, None, lambda: states, open_store or (lambda: connect(url)))


def test_tasks_that_fail_or_hang(store: Store, store_url: str) -> None:
    fine = TaskState("a", last_success_s=1.0)
    new, busy = TaskState("b"), TaskState("c", running_s=1.0)
    failing, failed = TaskState("d", failures=1, error="odd"), TaskState("e", failures=3, error="odd")
    hung = TaskState("f", running_s=99.0, is_hung=True)
    checks = monitor(store_url, fine, new, busy, failing, failed, hung).checks()
    states = {each.name: each.state for each in checks if each.name.startswith("task ")}
    assert states == {
        "task a": "ok",
        "task b": "ok",
        "task c": "ok",
        "task d": "warn",
        "task e": "bad",
        "task f": "bad",
    }


def test_a_database_that_hangs_keeps_nobody_who_asks(
    store: Store, store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts, go_on = [], threading.Event()

    def hang() -> Store:
        attempts.append(1)
        go_on.wait()
        raise StoreError("too late")

    monkeypatch.setattr("prism_ch.daemon.health._TIMEOUT_S", 0.01)
    found = monitor(store_url, open_store=hang)
    for _ in range(3):
        assert named(found.checks(), "database").what == "has not answered for 0 s"
    go_on.set()
    assert attempts == [1]


@pytest.fixture
def daemon(store_url: str, store: Store, tmp_path: Path) -> Iterator[Daemon]:
    settings = Settings(url=store_url, serve=ServeSettings(spool=tmp_path / "spool", grace_s=60))
    plan = TaskPlan(every_s=3600, hung_after_s=60)
    schedule = Schedule(misfire_grace_s=60, retry_first_s=1, retry_most_s=1, task={"note_health": plan})
    made = Daemon(settings, schedule)
    yield made
    made.stop()
    assert made.run()


def get(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_health_over_http(daemon: Daemon, store: Store) -> None:
    with listening(application(daemon.health.checks, daemon.health.measures), "127.0.0.1", 0) as port:
        status, body = get(port, "/healthz")
        assert status == 200
        assert (json.loads(body)["status"], json.loads(body)["reasons"]) == ("ok", [])
        arrive(store, 0)
        work(store, 0, error="odd numbers")
        status, body = get(port, "/healthz")
        assert status == 503
        [reason] = json.loads(body)["reasons"]
        assert reason.startswith("windows: the window of 2027-01-15 08:00:00 UTC failed")
        assert get(port, "/else")[0] == 404


def test_a_port_in_use_is_a_settings_error(daemon: Daemon) -> None:
    app = application(daemon.health.checks, daemon.health.measures)
    with (
        listening(app, "127.0.0.1", 0) as port,
        pytest.raises(SettingsError, match="can't listen there: Address already in use; give another with --listen"),
        listening(app, "127.0.0.1", port),
    ):
        pass


def test_metrics_and_tables_say_the_same(daemon: Daemon, store: Store) -> None:
    land(store, "leaf-1", HOUR_AGO_NS)
    land(store, "leaf-1", 5)
    arrive(store, 0)
    work(store, 0)
    with listening(application(daemon.health.checks, daemon.health.measures), "127.0.0.1", 0) as port:
        text = get(port, "/metrics")[1]
    shown = {
        (
            name := sample.name.removeprefix("prism_ch_"),
            *map(sample.labels.get, MEASURES[name][1].split()),
        ): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    assert shown["records_landed_total",] == 1
    assert shown["records_rejected_total", "implausible_time"] == 1
    assert shown["windows_worked",] == 1
    assert shown["exporter_lag_seconds", "leaf-1"] >= 3600
    assert shown["database_up",] == 1
    assert shown["memory_bytes",] > 1e7
    daemon.health.write(store)
    noted = {(name, label) for name, label in store.rows("SELECT measure, label FROM measures")}
    assert noted == {(name, " ".join(map(str, labels))) for name, *labels in shown}
    assert {name for name, _ in noted} <= set(MEASURES)
    assert store.scalar("SELECT countIf(name = 'windows') FROM health") == 1
    daemon.health.write(store)
    assert store.scalar("SELECT countIf(name = 'windows') FROM health") == 1


def test_made_up_names_of_exporters_are_bounded(store: Store) -> None:
    columns = "(sampler_address, mark_ns, ahead_ns, last_received_at)"
    names = "SELECT concat('made-up-', toString(number)), 1, 0, now64(3) FROM numbers({number:UInt32})"
    store.command(f"INSERT INTO exporter_marks_log {columns} {names}", {"number": LABELS_MAX + 7})
    measures = measure_database(store, SETTINGS)
    assert sum(each.name == "exporter_lag_seconds" for each in measures) == LABELS_MAX
    left_out = {each.label: each.value for each in measures if each.name == "labels_left_out"}
    assert left_out == {"exporter_lag_seconds": 7, "exporter_silent_seconds": 7}


def test_exporters_are_measured_for_those_who_may_read(daemon: Daemon, store: Store) -> None:
    land(store, "leaf-1", HOUR_AGO_NS)
    reader = UserSettings(password=hash_password("read"), role="reader")
    tenant = UserSettings(password=hash_password("own"), role="tenant", tenant="alpha")
    users = Users(ServeSettings(users={"reader": reader, "alpha": tenant}))
    app = application(daemon.health.checks, daemon.health.measures, users=users)
    shown = {}
    with listening(app, "127.0.0.1", 0) as port:
        for name in ("", "reader:read", "reader:guess", "alpha:own"):
            request = urllib.request.Request(f"http://127.0.0.1:{port}/metrics")
            if name:
                request.add_header("Authorization", f"Basic {b64encode(name.encode()).decode()}")
            with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310 - of this test
                shown[name] = answer.read().decode()
    assert [name for name, text in shown.items() if "leaf-1" in text] == ["reader:read"]
    assert 'prism_ch_labels_left_out{measure="exporter_lag_seconds"} 1.0' in shown[""]
    assert "prism_ch_windows_worked" in shown[""]


def test_rows_that_are_gone_are_seen_by_the_service(
    daemon: Daemon, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    land(store, "leaf-1", HOUR_AGO_NS)
    store.command("TRUNCATE TABLE flows_log")
    assert all(check.state != "bad" for check in daemon.health.checks())
    assert daemon.health.compare_rows(store) == 0
    assert [check.name for check in daemon.health.checks() if check.state == "bad"] == ["rows of flows"]
    store.command("TRUNCATE TABLE arrivals_log")
    monkeypatch.setattr("prism_ch.daemon.health._COMPARE_AGAIN_S", 0.0)
    daemon.health.write(store)
    assert "rows of flows" not in [check.name for check in daemon.health.checks() if check.state == "bad"]


def test_open_incidents_are_counted_and_go_back_to_zero(daemon: Daemon, store: Store) -> None:
    of_job(store, "job-a", "alpha")
    both: dict[str, Any] = {"jobs": ["job-a"], "tenants": ["alpha"], "lost_gpu_h": 1.5}
    incident(store, "i-1", "10.0.0.1", severity="critical", **both)
    # The part of a tenant is not another incident.
    part(store, "i-1", "alpha", "job-a")
    incident(store, "i-2", "10.0.0.2", severity="critical", **both)
    incident(store, "i-3", "job-a", kind="stall", status="closed", **both)
    with listening(application(daemon.health.checks, daemon.health.measures), "127.0.0.1", 0) as port:
        text = get(port, "/metrics")[1]
    assert 'prism_ch_incidents_open{kind="slow_gpu",severity="critical"} 2.0' in text
    assert 'prism_ch_incidents_open{kind="stall",severity="warning"} 0.0' in text
    assert "prism_ch_incidents_open_lost_gpu_hours 3.0" in text


def test_metrics_without_a_database_say_so(daemon: Daemon) -> None:
    def fail() -> Store:
        raise StoreError("gone")

    daemon.health._open_store = fail
    values = {measure.name: measure.value for measure in daemon.health.measures()}
    assert values["database_up"] == 0
    assert "windows_worked" not in values
    assert named(daemon.health.checks(), "database").what == "gone"


def test_a_hung_task_stops_neither_others_nor_the_service(
    store: Store, store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hung, worked, go_on = threading.Event(), threading.Semaphore(0), threading.Event()

    def hang(context: TaskContext) -> int:
        hung.set()
        go_on.wait()
        return 0

    def throw(context: TaskContext) -> int:
        raise ZeroDivisionError

    def count(context: TaskContext) -> int:
        worked.release()
        return 1

    tasks = {"hang": hang, "throw": throw, "count": count}
    plans = {name: TaskPlan(every_s=0.01, hung_after_s=0.01) for name in tasks}
    schedule = Schedule(misfire_grace_s=60, retry_first_s=0.01, retry_most_s=0.01, task=plans)
    daemon = Daemon(Settings(url=store_url, serve=ServeSettings(grace_s=0.1)), schedule, tasks)
    ended: list[bool] = []
    thread = threading.Thread(target=lambda: ended.append(daemon.run()))
    thread.start()
    hung.wait()
    for _ in range(20):
        worked.acquire()
    while not (states := {state.name: state for state in daemon.states()})["throw"].failures > 2:
        time.sleep(0.01)
    assert states["hang"].is_hung
    assert states["count"].failures == 0
    daemon.wake()
    daemon.stop()
    thread.join()
    assert ended == [False]
    go_on.set()


def test_every_task_of_the_schedule_can_be_woken(daemon: Daemon, store: Store, store_url: str) -> None:
    context = TaskContext(
        store, Settings(url=store_url), None, lambda: False, daemon.health.write, daemon.health.compare_rows
    )
    assert {name: task(context) for name, task in TASKS.items()} == dict.fromkeys(TASKS, 0)
    spool = daemon._spool
    assert spool is not None
    assert {name: task(replace(context, spool=spool)) for name, task in TASKS.items()} == dict.fromkeys(TASKS, 0)
