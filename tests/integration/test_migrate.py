"""Migrations: repeatable, resumable, checksummed, and never applied over a newer version's work."""

from dataclasses import replace

import pytest

from prism_ch import __version__
from prism_ch.errors import StoreError
from prism_ch.store import migrate as module
from prism_ch.store.client import Store, connect
from prism_ch.store.migrate import Migration, migrate, migrations, require_schema
from tests.sweeps import swept


def tables(store: Store) -> list[tuple[str, str]]:
    return store.rows(
        "SELECT name, create_table_query FROM system.tables WHERE database = {name:String} ORDER BY name",
        {"name": store.database},
    )


def test_versions_are_numbered_once_and_without_the_same_name() -> None:
    versions = [migration.version for migration in migrations()]
    assert versions == sorted(set(versions))
    assert versions[0] == 1
    assert len({migration.name[5:] for migration in migrations()}) == len(versions)


def test_applying_twice_is_a_no_op(empty_store: Store) -> None:
    assert migrate(empty_store) == [migration.name for migration in migrations()]
    before = tables(empty_store), empty_store.rows("SELECT * FROM schema_migrations ORDER BY version")
    assert migrate(empty_store) == []
    assert before == (tables(empty_store), empty_store.rows("SELECT * FROM schema_migrations ORDER BY version"))
    assert {row[4] for row in before[1]} == {__version__}
    require_schema(empty_store)


@pytest.mark.slow
def test_killed_after_any_statement_and_run_again_it_completes(store: Store, store_url: str) -> None:
    wanted = [(name, text.replace(store.database, "")) for name, text in tables(store)]
    statements = [text for migration in migrations() for text in migration.statements]
    with connect(store_url.replace(store.database, f"{store.database}_again")) as again:
        again.command("CREATE DATABASE {name:Identifier}", {"name": again.database}, use_database=False)
        for text in statements:
            again.command(text)
            again.command(text)
        assert migrate(again) == [migration.name for migration in migrations()]
        assert [(name, text.replace(again.database, "")) for name, text in tables(again)] == wanted
        again.command("DROP DATABASE {name:Identifier}", {"name": again.database}, use_database=False)


@pytest.mark.parametrize("applied", [20, *swept(5)])
def test_tables_of_which_nothing_is_recorded_are_migrated(empty_store: Store, applied: int) -> None:
    empty_store.command("CREATE DATABASE {name:Identifier}", {"name": empty_store.database}, use_database=False)
    for migration in migrations()[:applied]:
        for text in migration.statements:
            empty_store.command(text)
    migrate(empty_store)
    found = tables(empty_store)
    empty_store.command("DROP DATABASE {name:Identifier}", {"name": empty_store.database}, use_database=False)
    migrate(empty_store)
    assert found == tables(empty_store)


def test_no_migration_names_a_database() -> None:
    for migration in migrations():
        for text in migration.statements:
            assert "prism." not in text


def test_a_database_of_a_newer_version_is_refused_untouched(store: Store) -> None:
    store.command("DROP TABLE windows")
    store.command(
        "INSERT INTO schema_migrations (version, name, checksum, tool_version)"
        " VALUES (9999, '9999_later', 'x', '7.0.0')"
    )
    before = tables(store)
    for refuse in (migrate, require_schema):
        with pytest.raises(
            StoreError, match=r"made by prism-ch 7\.0\.0 \(it has 9999_later\), which is newer"
        ) as raised:
            refuse(store)
        assert str(store) in str(raised.value)
    assert tables(store) == before


def test_database_from_before_first_release_is_refused(store: Store) -> None:
    store.command("TRUNCATE TABLE schema_migrations")
    store.command(
        "INSERT INTO schema_migrations (version, name, checksum, tool_version)"
        " VALUES (1, '0001_schema_migrations', 'x', '0.1.0'), (78, '0078_gpu_time_of_a_span', 'x', '0.1.0')"
    )
    before = tables(store)
    for refuse in (migrate, require_schema):
        with pytest.raises(
            StoreError, match=r"made by a version before the first release .* make it anew.*nothing was changed$"
        ) as raised:
            refuse(store)
        assert str(store) in str(raised.value)
        assert "\n" not in str(raised.value)
    assert tables(store) == before


def test_an_edited_migration_is_refused(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    edited = (replace(migrations()[0], checksum="other"), *migrations()[1:])
    monkeypatch.setattr(module, "migrations", lambda: edited)
    with pytest.raises(StoreError, match=r"0001_migrations\.sql is not what prism-ch .* applied"):
        migrate(store)


def test_only_what_is_missing_is_applied(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    later = Migration(9999, "9999_later", "x", "CREATE TABLE IF NOT EXISTS later (n UInt8) ENGINE = Null;")
    monkeypatch.setattr(module, "migrations", lambda: (*migrations(), later))
    with pytest.raises(StoreError, match=r"1 migrations missing, first 9999_later\); run `prism-ch migrate`"):
        require_schema(store)
    assert migrate(store) == ["9999_later"]
    require_schema(store)
    assert store.scalar("EXISTS TABLE later") == 1


def test_a_migration_that_fails_is_not_recorded(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    later = Migration(9999, "9999_later", "x", "SELECT 1; SELECT nothing;")
    monkeypatch.setattr(module, "migrations", lambda: (*migrations(), later))
    with pytest.raises(StoreError, match="UNKNOWN_IDENTIFIER"):
        migrate(store)
    assert store.scalar("SELECT max(version) FROM schema_migrations") < 9999


def test_line_ends_and_trailing_blanks_are_no_change() -> None:
    assert module._read(1, "0001_a.sql", "SELECT 1;\nSELECT 2;\n").checksum == (
        module._read(1, "0001_a.sql", "SELECT 1;  \r\nSELECT 2;").checksum
    )
