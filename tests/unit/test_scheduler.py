"""The systemd unit gives the service what it needs and no more, and agrees with the schedule's README."""

import configparser
import re
from pathlib import Path

import pytest

from prism_ch.cli.root import cli
from prism_ch.daemon.tasks import load_schedule

SCHEDULER = Path(__file__).parents[2] / "scheduler"


@pytest.fixture(scope="module")
def unit() -> configparser.RawConfigParser:
    parser = configparser.RawConfigParser(strict=False, comment_prefixes=("#",))
    parser.optionxform = str  # type: ignore[assignment,method-assign] # names are as they are written
    parser.read(SCHEDULER / "prism-ch.service", encoding="utf-8")
    return parser


@pytest.mark.parametrize(
    "option, value",
    [
        ("DynamicUser", "yes"),
        ("ProtectSystem", "strict"),
        ("ProtectHome", "yes"),
        ("PrivateTmp", "yes"),
        ("PrivateDevices", "yes"),
        ("NoNewPrivileges", "yes"),
        ("CapabilityBoundingSet", ""),
        ("RestrictAddressFamilies", "AF_INET AF_INET6 AF_UNIX"),
        ("SystemCallFilter", "~@privileged"),  # the last of two; the first allows @system-service
        ("UMask", "0077"),
    ],
)
def test_the_unit_is_hardened(unit: configparser.RawConfigParser, option: str, value: str) -> None:
    assert unit["Service"][option] == value


def test_the_unit_starts_commands_that_there_are(unit: configparser.RawConfigParser) -> None:
    for option in ("ExecStartPre", "ExecStart"):
        program, command, *options = unit["Service"][option].split()
        assert Path(program).name == "prism-ch"
        known = {name for parameter in cli.commands[command].params for name in parameter.opts}
        assert {each for each in options if each.startswith("-")} <= known


def test_the_service_is_given_longer_to_stop_than_it_takes(unit: configparser.RawConfigParser) -> None:
    assert int(unit["Service"]["TimeoutStopSec"]) > 10


def test_all_it_writes_is_in_its_own_folders(unit: configparser.RawConfigParser) -> None:
    service = unit["Service"]
    assert service["StateDirectory"] == "prism-ch"
    for text in (service["ExecStart"], service["Environment"], service["WorkingDirectory"]):
        assert "%S/prism-ch" in text


def test_every_task_of_the_schedule_is_in_its_readme() -> None:
    documented = re.findall(r"^\| `(\w+)` \|", (SCHEDULER / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(documented) == sorted(load_schedule().task)
