"""The import contracts of pyproject.toml hold."""

from pathlib import Path

from importlinter.cli import EXIT_STATUS_SUCCESS, lint_imports

ROOT = Path(__file__).parents[2]


def test_imports_point_downwards() -> None:
    configuration = str(ROOT / "pyproject.toml")
    assert lint_imports(config_filename=configuration, no_cache=True, no_logo=True) == EXIT_STATUS_SUCCESS
