"""What the outside sees: exit statuses, and errors of one line."""

import subprocess
import sys

import click
import pytest

from prism_ch import __version__
from prism_ch.cli import main
from prism_ch.cli.root import cli
from prism_ch.errors import InputError, PrismError, SettingsError, StoreError, UsageError


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> list[BaseException]:
    """Make `migrate` raise the exception that the test puts into this list."""
    raised: list[BaseException] = []

    def fail(**_: object) -> None:
        raise raised[0]

    monkeypatch.setattr(cli.commands["migrate"], "callback", fail)
    return raised


@pytest.mark.parametrize(
    "error,status,line",
    [
        (PrismError("out of luck"), 1, "prism-ch: out of luck\n"),
        (StoreError("disk\n  full"), 1, "prism-ch: disk full\n"),
        (InputError("x.csv: is a folder"), 1, "prism-ch: x.csv: is a folder\n"),
        (UsageError("no such thing"), 2, "prism-ch: no such thing\n"),
        (SettingsError("bad URL"), 2, "prism-ch: bad URL\n"),
        (KeyboardInterrupt(), 130, "prism-ch: interrupted; run the same command again to go on\n"),
        (
            ValueError("odd\nthing"),
            1,
            "prism-ch: unexpected ValueError: odd thing; run again with --debug to see where\n",
        ),
    ],
)
def test_an_error_is_one_line_and_a_status(
    failing: list[BaseException], capsys: pytest.CaptureFixture[str], error: BaseException, status: int, line: str
) -> None:
    failing.append(error)
    assert main(["migrate"]) == status
    assert capsys.readouterr() == ("", line)


@pytest.mark.parametrize("arguments", [["--debug", "migrate"], ["migrate", "--debug"]])
def test_debug_shows_the_traceback_above_the_line(
    failing: list[BaseException], capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    failing.append(ValueError("odd"))
    assert main(arguments) == 1
    shown = capsys.readouterr().err
    assert "Traceback" in shown
    assert shown.endswith("prism-ch: unexpected ValueError: odd; run again with --debug to see where\n")


@pytest.mark.parametrize(
    "arguments,words",
    [
        (["fly"], "No such command 'fly'"),
        (["migrate", "--fast"], "No such option"),
        (["ingest"], "Missing argument 'FILE...'"),
        (["ingest", "x", "--format", "xml"], "'xml' is not one of"),
        (["run", "x"], "Missing option '--topology'"),
        (["analyse", "--from", "yesterday"], "'yesterday' is no time"),
        (["analyse", "--from", "2026-03-02", "--to", "2026-03-01"], "--from must be before --to"),
        (["sql"], "Missing argument"),
        (["sql", "SELECT 1", "--url", "mysql://x"], "the database URL must be"),
    ],
)
def test_wrong_usage_is_one_line_and_status_2(
    capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    assert main(arguments) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("prism-ch: ")
    assert words in shown.err
    assert shown.err.count("\n") == 1


def test_without_a_command_help_is_shown_as_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "Commands:" in capsys.readouterr().err


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert __version__ in capsys.readouterr().out


@pytest.mark.parametrize("name", sorted(cli.commands))
def test_every_command_has_help_example_and_shared_options(capsys: pytest.CaptureFixture[str], name: str) -> None:
    assert main([name, "--help"]) == 0
    shown = capsys.readouterr().out
    assert f"prism-ch {name}" in shown.partition("Example")[2]
    assert "--url" in shown
    assert "--debug" in shown


@pytest.mark.parametrize("name", sorted(cli.commands))
def test_every_option_says_what_it_is_for(name: str) -> None:
    options = [parameter for parameter in cli.commands[name].params if isinstance(parameter, click.Option)]
    assert options
    assert [option.name for option in options if not option.help] == []


def test_help_does_not_wait_for_the_engine() -> None:
    code = "import sys; from prism_ch.cli import main; main(['--help']); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "prism_ch.cli.root" in loaded
    assert {"chdb", "numpy", "scipy", "pyarrow", "clickhouse_connect", "dask", "distributed"}.isdisjoint(loaded)
