"""What commands import: a library that a command does not need is time that its user waits for."""

import subprocess
import sys
from pathlib import Path

import pytest

#: Each takes 20 ms or more to import.
HEAVY = ("chdb", "clickhouse_connect", "importlib.metadata", "numpy", "pyarrow", "pydantic", "rich", "scipy", "sqlglot")
#: What reading needs none of: the analysis, the pages, the schedule, tables in colour.
NOT_FOR_SQL = ("apscheduler", "jinja2", "niquests", "pyarrow.parquet", "rich", "scipy")
OWN_NOT_FOR_SQL = tuple(f"prism_ch.{part}" for part in ("analysis", "daemon", "grafana", "ingest", "serve", "worker"))
SHOW = "import sys; from prism_ch.cli import main; status = main(sys.argv[1:]); print(*sorted(sys.modules), status)"


def imported(*arguments: str) -> list[str]:
    """Run a command in a process of its own; return the modules that it imported."""
    done = subprocess.run([sys.executable, "-c", SHOW, *arguments], capture_output=True, text=True, check=True)
    *modules, status = done.stdout.splitlines()[-1].split()
    assert status == "0"
    return modules


@pytest.mark.parametrize("arguments", [("--help",), ("sql", "--help"), ("analyse", "--help")])
def test_help_imports_no_engine_and_no_arrays(arguments: tuple[str, ...]) -> None:
    modules = imported(*arguments)
    assert "click" in modules
    assert [name for name in HEAVY if name in modules] == []


def test_sql_imports_no_analysis_and_no_pages(tmp_path: Path) -> None:
    url = f"chdb://{tmp_path}/data"
    imported("migrate", "--url", url)
    modules = imported("sql", "SELECT count() FROM jobs", "--url", url)
    assert "chdb" in modules
    assert [name for name in (*NOT_FOR_SQL, *OWN_NOT_FOR_SQL) if name in modules] == []


def test_the_analysis_imports_no_statistics_of_scipy() -> None:
    """They take half a second, more than any other import."""
    code = "import sys; import prism_ch.worker; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    modules = done.stdout.split()
    assert "scipy.special" in modules
    assert [name for name in ("scipy.ndimage", "scipy.stats") if name in modules] == []


def test_no_command_loads_pandas(tmp_path: Path) -> None:
    """A new database is told how long it keeps rows, in arrays of pyarrow, which looks for pandas."""
    command = [sys.executable, "-X", "importtime", "-m", "prism_ch", "migrate", "--url", f"chdb://{tmp_path}/data"]
    loaded = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    assert "pyarrow.lib" in loaded
    assert "pandas._libs" not in loaded
