"""Addresses of schedulers are read as Dask reads them; a missing extra is one clear line."""

from __future__ import annotations

from importlib import util

import pytest

from prism_ch import __version__
from prism_ch.cluster import address
from prism_ch.cluster.choice import chosen_executor
from prism_ch.cluster.executor import refuse_other_version
from prism_ch.errors import ClusterError
from prism_ch.settings import AnalysisSettings


@pytest.mark.parametrize(
    "text, read",
    [
        ("dask://scheduler:8786", "scheduler:8786"),  # the scheme is for Dask's configuration to choose
        ("10.0.0.5:8786", "10.0.0.5:8786"),
        ("dask://[2001:db8::1]:8786", "[2001:db8::1]:8786"),
        ("tcp://127.0.0.1:8786", "tcp://127.0.0.1:8786"),
        ("tls://scheduler.example:8786/", "tls://scheduler.example:8786"),
    ],
)
def test_address_is_read_as_dask_does(text: str, read: str) -> None:
    assert address.scheduler_address(text) == read


@pytest.mark.parametrize(
    "text", ["", "scheduler", "dask://scheduler", "http://a:1", "dask://a:99999", "dask://u:p@a:1"]
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ClusterError, match="write dask://HOST:PORT"):
        address.scheduler_address(text)


def test_missing_extra_is_named_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(address, "find_spec", lambda name: None if name == "distributed" else util.find_spec(name))
    with (
        pytest.raises(ClusterError, match=r"pip install 'prism-ch\[cluster\]'"),
        chosen_executor(AnalysisSettings(executor="dask://127.0.0.1:8786")),
    ):
        pass
    with chosen_executor(AnalysisSettings()) as local:  # which needs none
        assert local is None


def test_scheduler_of_another_version_is_refused() -> None:
    refuse_other_version("dask://a:1", __version__)
    with pytest.raises(ClusterError, match=r"dask://a:1: the scheduler runs prism-ch 9\.9, and this is "):
        refuse_other_version("dask://a:1", "9.9")
    with pytest.raises(ClusterError, match="the scheduler lacks prism-ch"):
        refuse_other_version("dask://a:1", "")
