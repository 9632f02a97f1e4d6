"""What goes to a pipe, and what to a terminal."""

import io
import sys

import pytest
from rich.text import Text

from prism_ch.cli.terminal import emit, progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_pipe_gets_plain_text(capsys: pytest.CaptureFixture[str]) -> None:
    emit(Text.assemble(("slow", "bold red"), "   \n", "x" * 99))
    assert capsys.readouterr().out == f"slow\n{'x' * 99}\n"


def test_a_terminal_gets_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    emit(Text("slow", style="red"))
    assert "\x1b[31mslow" in terminal.getvalue()


def test_a_terminal_without_the_characters_gets_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(out, encoding="latin-1"))
    emit(Text("steps ▁█"))
    assert out.getvalue() == b"steps ??\n"


def test_progress_is_quiet_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    with progress("landing") as report:
        assert report is None
    assert capsys.readouterr() == ("", "")


def test_progress_is_drawn_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm-256color")
    with progress("landing") as report:
        assert report is not None
        report(1, 3)
    assert "landing" in terminal.getvalue()
    assert "33%" in terminal.getvalue()
