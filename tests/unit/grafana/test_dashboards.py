import json
import re
from pathlib import Path

import pytest

from prism_ch.assets import asset
from prism_ch.errors import PrismError
from prism_ch.grafana.dashboards import dashboards
from prism_ch.grafana.dashboards.__main__ import write
from prism_ch.grafana.dashboards.query import about, sql
from prism_ch.grafana.wanted import shipped_dashboards

NAMES = {"fleet", "tenant", "job", "finding", "network", "pipeline"}


def test_what_is_shipped_is_what_the_code_makes() -> None:
    made = dashboards()
    assert made.keys() == {f"prism-{name}" for name in NAMES}
    for uid, text in made.items():
        assert (uid, asset(f"dashboards/{uid}.json").read_text(encoding="utf-8") == text) == (uid, True)


def test_writing_brings_a_folder_up_to_date(tmp_path: Path) -> None:
    (tmp_path / "prism-gone.json").write_text("{}")
    (tmp_path / "prism-job.json").write_text("{}")
    (tmp_path / "mine.json").write_text("{}")
    write(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"mine.json", *(f"prism-{name}.json" for name in NAMES)}
    assert json.loads((tmp_path / "prism-job.json").read_text())["uid"] == "prism-job"


def test_tenants_get_only_what_is_about_them() -> None:
    tags = {uid: set(dashboard["tags"]) for uid, dashboard in shipped_dashboards().items()}
    assert {uid for uid, of in tags.items() if "tenants" in of} == {"prism-tenant", "prism-job", "prism-finding"}


def test_every_query_file_is_used_and_says_what_it_answers() -> None:
    shipped = json.dumps(list(shipped_dashboards().values()))
    for folder in asset("sql/dashboards").iterdir():
        for entry in folder.iterdir():
            name = f"{folder.name}/{entry.name.removesuffix('.sql')}"
            parts = re.split(r"\$__whose\w*", "\n".join(entry.read_text(encoding="utf-8").splitlines()))
            parts[0] = re.sub(r"(?m)\A(--.*\n)+", "", parts[0])
            used = all(json.dumps(part)[1:-1] in shipped for part in parts)
            assert (name, about(name).endswith("."), used) == (name, True, True)


def test_queries_that_dashboards_share_are_about_what_the_dashboard_is_about() -> None:
    assert "AND tenant = ${tenant:sqlstring}\n" in sql("tenant/jobs")
    assert "AND $__conditionalAll(tenant IN (${tenant:sqlstring}), $tenant)\n" in sql("fleet/jobs")
    assert "AND $__conditionalAll(tenant IN ('', ${tenant:sqlstring}), $tenant)\n" in sql("fleet/findings")
    with pytest.raises(PrismError, match=r"sql/dashboards/shared/lost_by_cause\.sql is missing"):
        sql("fleet/lost_by_cause")
