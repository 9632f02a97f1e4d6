"""Shipped files are found by their path in the repository."""

import pytest

from prism_ch.assets import asset
from prism_ch.errors import PrismError


def test_a_file_and_a_folder_are_found() -> None:
    assert "schema_migrations" in asset("sql/migrations/0001_migrations.sql").read_text()
    assert asset("sql/migrations").is_dir()


def test_what_is_missing_is_named() -> None:
    with pytest.raises(PrismError, match=r"sql/nothing\.sql is missing"):
        asset("sql/nothing.sql")
