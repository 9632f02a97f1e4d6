"""Arguments win over the environment, that over the file, that over the defaults; mistakes are named."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from prism_ch.errors import SettingsError
from prism_ch.settings import DEFAULT_URL, Settings, load_settings


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PRISM_CH_URL", raising=False)
    monkeypatch.delenv("PRISM_CH_CONFIG", raising=False)


def test_defaults() -> None:
    assert load_settings() == Settings(url=DEFAULT_URL, window_s=60, lateness_s=10)


def test_each_source_wins_over_the_one_below(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    config = tmp_path / "prism.toml"
    config.write_text('url = "chdb:///from-file"\nwindow_s = 30\n')
    monkeypatch.setenv("PRISM_CH_CONFIG", str(config))
    assert load_settings() == Settings(url="chdb:///from-file", window_s=30)
    monkeypatch.setenv("PRISM_CH_URL", "chdb:///from-environment")
    assert load_settings().url == "chdb:///from-environment"
    assert load_settings("chdb:///from-argument").url == "chdb:///from-argument"


def test_executor_is_local_or_a_scheduler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert load_settings().analysis.executor == "local"
    config = tmp_path / "prism.toml"
    config.write_text('[analysis]\nexecutor = "dask://[2001:db8::1]:8786"\n')
    assert load_settings(config=config).analysis.executor == "dask://[2001:db8::1]:8786"
    monkeypatch.setenv("PRISM_CH_EXECUTOR", "dask://scheduler:8786")
    assert load_settings(config=config).analysis.executor == "dask://scheduler:8786"


def test_settings_are_frozen_and_do_not_print_the_url() -> None:
    settings = Settings(url="clickhouse://u:hunter2@h/prism")
    assert "hunter2" not in repr(settings)
    with pytest.raises(ValidationError):
        settings.window_s = 5


@pytest.mark.parametrize(
    "text, complaint",
    [
        ("windows_s = 30", "windows_s: Extra inputs are not permitted"),
        ("window_s = 0", "window_s: Input should be greater than or equal to 1"),
        ("url = 'clickhouse://u:hunter2@h'\nlateness_s = 'x'", "lateness_s: Input should be a valid integer"),
        ("window_s =", "is no TOML"),
        ("[analysis]\nexecutor = 'dask://scheduler'", "analysis.executor: Value error, is local, or dask://HOST:PORT"),
        ("[analysis]\nexecutor = 'tcp://scheduler:8786'", "is local, or dask://HOST:PORT"),
        ("[analysis]\nexecutor = 'dask://scheduler:87860'", "is local, or dask://HOST:PORT"),
    ],
)
def test_a_wrong_file_is_named_with_what_is_wrong(tmp_path: Path, text: str, complaint: str) -> None:
    config = tmp_path / "prism.toml"
    config.write_text(text)
    with pytest.raises(SettingsError) as raised:
        load_settings(config=config)
    assert str(config) in str(raised.value)
    assert complaint in str(raised.value)
    assert "hunter2" not in str(raised.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"none\.toml: can't be read: No such file"):
        load_settings(config=tmp_path / "none.toml")


def test_environment_sets_grafana_and_errors_repeat_no_secret(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    config = tmp_path / "prism.toml"
    config.write_text('[grafana]\nurl = "http://file"\nuser = "from-file"\norganisation = "ops"\n')
    monkeypatch.setenv("PRISM_CH_CONFIG", str(config))
    monkeypatch.setenv("PRISM_CH_GRAFANA_URL", "https://host/grafana")
    monkeypatch.setenv("PRISM_CH_GRAFANA_PASSWORD", "hunter2")
    monkeypatch.setenv("PRISM_CH_GRAFANA_PASSWORDS", "/etc/passwords.toml")
    settings = load_settings()
    grafana = settings.grafana
    assert (grafana.url, grafana.user, grafana.organisation) == ("https://host/grafana", "from-file", "ops")
    assert grafana.database.passwords == Path("/etc/passwords.toml")
    assert grafana.password is not None
    assert grafana.password.get_secret_value() == "hunter2"
    assert "hunter2" not in repr(settings)


@pytest.mark.parametrize("url", ["ftp://host", "http://user:hunter2@host", "host:3000", "http://h?x", "http://h\nx"])
def test_a_url_of_grafana_is_checked_and_not_repeated(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv("PRISM_CH_GRAFANA_URL", url)
    with pytest.raises(SettingsError, match=r"grafana\.url") as raised:
        load_settings()
    assert url not in str(raised.value)


def test_grafana_must_be_a_table(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    config = tmp_path / "prism.toml"
    config.write_text('grafana = "http://host"\n')
    monkeypatch.setenv("PRISM_CH_CONFIG", str(config))
    monkeypatch.setenv("PRISM_CH_GRAFANA_USER", "me")
    with pytest.raises(SettingsError, match="grafana: Input should be"):
        load_settings()
