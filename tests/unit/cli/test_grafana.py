"""The commands about Grafana explain themselves."""

import click
import pytest

from prism_ch.cli import main
from prism_ch.cli.grafana import grafana
from prism_ch.settings import ENVIRONMENT

NAMES = sorted(grafana.commands)


@pytest.mark.parametrize("name", NAMES)
def test_each_has_help_with_an_example(capsys: pytest.CaptureFixture[str], name: str) -> None:
    assert main(["grafana", name, "--help"]) == 0
    assert f"prism-ch grafana {name}" in capsys.readouterr().out.partition("Example")[2]


@pytest.mark.parametrize("name", NAMES)
def test_every_option_says_what_it_is_for(name: str) -> None:
    options = [parameter for parameter in grafana.commands[name].params if isinstance(parameter, click.Option)]
    assert {"url", "debug"} <= {option.name for option in options}
    assert [option.name for option in options if not option.help] == []


def test_help_names_all_grafana_variables_of_the_environment(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["grafana", "--help"]) == 0
    shown = capsys.readouterr().out
    assert [name for name in ENVIRONMENT if name.startswith("PRISM_CH_GRAFANA") and name not in shown] == []


def test_who_is_meant_can_be_said_in_one_way_only(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["grafana", "diff", "--operators", "--tenant", "a"]) == 2
    assert "exclude one another" in capsys.readouterr().err
