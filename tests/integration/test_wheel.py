"""The wheel is whole: installed where there is no checkout, it finds its SQL and works."""

import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def run(*command: str | Path, cwd: Path) -> str:
    done = subprocess.run([str(part) for part in command], cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def clean_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of a new environment that holds the wheel, and sees this one's libraries but not the checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    run(*pip, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", folder, ROOT, cwd=folder)
    [wheel] = folder.glob("prism_ch-*.whl")
    environment = folder / "venv"
    venv.create(environment, symlinks=True)
    packages = sysconfig.get_path("purelib", vars={"base": str(environment)})
    run(*pip, "install", "--no-deps", "--no-index", "--target", packages, wheel, cwd=folder)
    # The path files in this environment's own folder, one of which leads to the checkout, are not followed from here.
    libraries = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    Path(packages, "libraries.pth").write_text("\n".join(sorted(libraries)), encoding="utf-8")
    return environment / "bin" / "python"


def test_the_wheel_migrates_a_database(clean_python: Path, tmp_path: Path) -> None:
    code = "import sys; from prism_ch.cli import main; sys.exit(main(['migrate', '--url', sys.argv[1]]))"
    shown = run(clean_python, "-I", "-c", code, f"chdb://{tmp_path}/data", cwd=tmp_path)
    migrations = sorted(path.stem for path in (ROOT / "sql" / "migrations").glob("*.sql"))
    assert shown.splitlines() == [f"applied {name}" for name in migrations]


def test_the_wheel_holds_what_the_checkout_holds(clean_python: Path, tmp_path: Path) -> None:
    code = "from prism_ch.assets import asset; print(asset('sql'), asset('dashboards'), asset('scheduler'), sep='\\n')"
    folders = [Path(line) for line in run(clean_python, "-I", "-c", code, cwd=tmp_path).splitlines()]
    for folder in folders:
        assert not folder.is_relative_to(ROOT)
        assert files(folder) == files(ROOT / folder.name)


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


@pytest.mark.sweep
def test_the_wheel_writes_a_report(clean_python: Path, tmp_path: Path) -> None:
    code = "import sys; from prism_ch.cli import main; sys.exit(main([*sys.argv[2:], '--url', sys.argv[1]]))"
    url, written = f"chdb://{tmp_path}/data", tmp_path / "report.html"
    run(clean_python, "-I", "-c", code, url, "migrate", cwd=tmp_path)
    run(clean_python, "-I", "-c", code, url, "report", "-o", written, cwd=tmp_path)
    assert "No training job was recognised" in written.read_text(encoding="utf-8")
