"""Database URLs of both forms; a password never shows."""

from pathlib import Path

import pytest

from prism_ch.errors import SettingsError
from prism_ch.store.url import EmbeddedLocation, ServerLocation, parse_url


@pytest.mark.parametrize(
    "url, folder, database",
    [
        ("chdb:///var/lib/prism", Path("/var/lib/prism"), "prism"),
        ("chdb://./prism-data", Path.cwd() / "prism-data", "prism"),
        ("chdb://data/deep", Path.cwd() / "data" / "deep", "prism"),
        ("chdb:///a%20b?database=test_1", Path("/a b"), "test_1"),
    ],
)
def test_embedded(url: str, folder: Path, database: str) -> None:
    assert parse_url(url) == EmbeddedLocation(folder, database)


@pytest.mark.parametrize(
    "url, location",
    [
        ("clickhouse://h", ServerLocation("h", 8123, False, "default", "", "prism")),
        ("clickhouses://u:p@h/flows", ServerLocation("h", 8443, True, "u", "p", "flows")),
        ("clickhouse://u:p%40ss%2F@h:9000/", ServerLocation("h", 9000, False, "u", "p@ss/", "prism")),
        ("clickhouse://u@[::1]:8123/x?database=y", ServerLocation("::1", 8123, False, "u", "", "y")),
        ("clickhouse://h/x?cluster=gpu-net", ServerLocation("h", 8123, False, "default", "", "x", "gpu-net")),
    ],
)
def test_server(url: str, location: ServerLocation) -> None:
    assert parse_url(url) == location


def test_a_location_shows_no_password() -> None:
    location = parse_url("clickhouse://u:hunter2@h/prism")
    assert str(location) == "u@h:8123"
    assert "hunter2" not in repr(location)


@pytest.mark.parametrize(
    "url, complaint",
    [
        ("prism-data", "must be chdb:///folder"),
        ("postgres://u:hunter2@h", "must be chdb:///folder"),
        ("chdb://", "names no folder"),
        ("chdb:///", "names no folder"),
        ("clickhouse://", "names no host"),
        ("clickhouse://u:hun/ter2@h:8123", "percent-encoded"),
        ("clickhouse://u:hunter2@h:99999", "percent-encoded"),
        ("clickhouse://u:hunter2@[h", "percent-encoded"),
        ("clickhouse://u:hunter2@h/a-b", "letters, digits and _ only"),
        ("clickhouse://u:hunter2@h/a?secure=1", "an option other than"),
        ("clickhouse://u:123?ter2@h/x", "an option other than"),
        ("chdb:///x?database=a.b", "letters, digits and _ only"),
        ("chdb:///x?cluster=a", "an option other than ?database=name"),
        ("clickhouse://u:hunter2@h/a?cluster=it's", "cluster's name"),
    ],
)
def test_mistakes_are_explained_without_repeating_the_url(url: str, complaint: str) -> None:
    with pytest.raises(SettingsError) as raised:
        parse_url(url)
    assert complaint in str(raised.value)
    assert "ter2" not in str(raised.value)
