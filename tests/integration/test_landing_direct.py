"""A Parquet file that the embedded engine reads by itself lands as it would otherwise, and exactly once."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from prism_ch.errors import InputError, StoreError
from prism_ch.ingest import columnar, sources
from prism_ch.ingest.columnar import engine_can_read
from prism_ch.ingest.files import land_files
from prism_ch.ingest.landing import LANDING_SETTINGS
from prism_ch.store.client import Store
from prism_ch.store.statements import statement
from tests.records import COLUMNS, record, records, table, write_parquet

#: What is changed in a file, and whether the engine may still read it.
CHANGES: list[tuple[dict[str, Any], dict[str, pa.DataType], bool]] = [
    ({}, {}, True),
    ({"proto": "UDP"}, {"proto": pa.string()}, True),
    ({}, {"src_port": pa.int64(), "bytes": pa.int32(), "proto": pa.int16()}, True),
    ({"src_addr": "no address"}, {}, True),
    ({"bytes": 0}, {}, True),
    ({"proto": ""}, {"proto": pa.string()}, False),
    ({"src_port": 65536}, {"src_port": pa.int32()}, False),
    ({"dst_port": -1}, {"dst_port": pa.int32()}, False),
    ({"proto": 256}, {"proto": pa.int32()}, False),
    ({"bytes": -1}, {"bytes": pa.int64()}, False),
    ({"bytes": 1.5}, {"bytes": pa.float64()}, False),
    ({"bytes": "7"}, {"bytes": pa.string()}, False),
    ({"packets": None}, {}, False),
    ({"src_addr": None}, {}, False),
    ({"src_addr": b"10.0.0.1"}, {"src_addr": pa.binary()}, False),
]


def state(store: Store) -> list[list[tuple[Any, ...]]]:
    """Return all that landing leaves behind, but for when."""
    return [
        store.rows(f"SELECT {', '.join(COLUMNS)} FROM flows ORDER BY ALL"),  # noqa: S608
        store.rows("SELECT * EXCEPT last_received_at FROM flow_pair_1m ORDER BY ALL"),
        store.rows("SELECT * EXCEPT last_received_at FROM switch_1m ORDER BY ALL"),
        store.rows("SELECT second, records, fingerprint FROM arrivals ORDER BY ALL"),
        store.rows("SELECT source, position, reason, record FROM flows_rejected ORDER BY ALL"),
        store.rows("SELECT reason, sum(records) FROM landing_counts_log GROUP BY reason ORDER BY ALL"),
    ]


def empty(store: Store) -> None:
    for name in ("flows", "flow_pair_1m", "switch_1m", "arrivals", "flows_rejected", "landing_counts", "landings"):
        store.command("TRUNCATE TABLE {name:Identifier}", {"name": f"{name}_log"})


@pytest.mark.parametrize("change,types,expected", CHANGES)
def test_only_files_whose_values_fit(
    tmp_path: Path, change: dict[str, Any], types: dict[str, pa.DataType], *, expected: bool
) -> None:
    rows = [record(0) if "proto" not in types else record(0, proto=change.get("proto", 17)), record(1, **change)]
    if types.get("src_addr") == pa.binary() or types.get("bytes") == pa.string():
        rows = [record(number, **change) for number in range(2)]
    assert engine_can_read(write_parquet(tmp_path / "flows.parquet", rows, **types)) is expected


def test_other_columns_are_not_for_the_engine(tmp_path: Path) -> None:
    rows = table(records(3))
    for number, odd in enumerate(
        [
            rows.append_column("path", pa.array(["a|b"] * 3)),
            rows.append_column("path", pa.array([[1, 2]] * 3)),
            rows.append_column("path", pa.array([["a"], [], ["b"] * 192])),
            rows.rename_columns([name.upper() for name in rows.column_names]),
            rows.drop_columns(["proto"]),
            rows.slice(0, 0),
        ]
    ):
        pa.parquet.write_table(odd, tmp_path / f"{number}.parquet")
        assert not engine_can_read(tmp_path / f"{number}.parquet")
    (tmp_path / "damaged.parquet").write_bytes(b"PAR1 and no more")
    assert not engine_can_read(tmp_path / "damaged.parquet")
    pa.parquet.write_table(rows, tmp_path / "silent.parquet", write_statistics=False)
    assert not engine_can_read(tmp_path / "silent.parquet")
    pa.parquet.write_table(
        rows.append_column("more", pa.array([1.5] * 3)).drop_columns(["src_port"]), tmp_path / "more.parquet"
    )
    assert engine_can_read(tmp_path / "more.parquet")


def test_it_lands_what_would_land_otherwise(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    odd = [
        record(101, src_addr="?"),
        record(102, bytes=0),
        record(103, src_addr="::ffff:10.0.0.9"),
        record(104, sampling_rate=0),
    ]
    pa.parquet.write_table(table(records(100) + odd), tmp_path / "flows.parquet", row_group_size=30)
    reported: list[tuple[int, int]] = []
    land_files(store, [str(tmp_path)])
    otherwise = state(store)
    empty(store)
    monkeypatch.setattr(sources, "_ENGINE_BYTES_MIN", 0)
    report = land_files(store, [str(tmp_path)], progress=lambda done, total: reported.append((done, total)))
    assert (report.landed, report.rejected) == (102, {"bad_src_addr": 1, "zero_bytes": 1})
    assert state(store) == otherwise
    assert reported[-1] == ((tmp_path / "flows.parquet").stat().st_size,) * 2
    land_files(store, [str(tmp_path)])
    assert state(store) == otherwise


@pytest.mark.parametrize(
    "name, rejected", [(b"e", {}), (None, {}), (b"\xff", {"bad_path": 1})], ids=["text", "unknown", "no text"]
)
def test_ways_land_as_they_would_otherwise(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: bytes | None, rejected: dict[str, int]
) -> None:
    names = pa.array([b"a", b"b", b"a", b"c", name, b"d" * 300]).view(pa.string())
    ways = pa.ListArray.from_arrays(pa.array([0, 2, 2, None, 3, 4, 5, 6], pa.int32()), names)
    pa.parquet.write_table(table(records(len(ways))).append_column("path", ways), tmp_path / "flows.parquet")
    assert engine_can_read(tmp_path / "flows.parquet")
    landed = []
    for least in (10**9, 0):
        monkeypatch.setattr(sources, "_ENGINE_BYTES_MIN", least)
        empty(store)
        store.command("TRUNCATE TABLE flow_way_1m_log")
        assert land_files(store, [str(tmp_path)]).rejected == rejected
        landed.append(store.rows("SELECT way, src_addr, flows FROM flow_way_1m ORDER BY ALL"))
        landed.append(store.rows("SELECT path, src_addr FROM flows ORDER BY time_flow_start_ns"))
    assert landed[:2] == landed[2:]
    assert [way for way, _ in landed[1]][:4] == [["a", "b"], [], ["a"], []]


@pytest.mark.parametrize(
    "cut", [1, pytest.param(35, marks=pytest.mark.slow), 61, pytest.param(99, marks=pytest.mark.slow)]
)
def test_cut_short_and_repeated_it_is_complete(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cut: int
) -> None:
    path = tmp_path / "flows.parquet"
    pa.parquet.write_table(table(records(100)), path, row_group_size=10)
    monkeypatch.setitem(columnar._ENGINE_SETTINGS, "min_insert_block_size_rows", 20)
    monkeypatch.setitem(columnar._ENGINE_SETTINGS, "input_format_parquet_max_block_size", 7)
    land = statement("land_parquet")
    monkeypatch.setattr(columnar, "statement", lambda _: f"{land} WHERE NOT throwIf(_row_number = {cut})")
    with pytest.raises(StoreError):
        columnar.land_by_engine(store, path, "this", "flows.parquet", LANDING_SETTINGS)
    assert store.scalar("SELECT count() FROM flows") < 100
    monkeypatch.setattr(columnar, "statement", lambda _: land)
    for _ in range(2):
        columnar.land_by_engine(store, path, "this", "flows.parquet", LANDING_SETTINGS)
        assert store.scalar("SELECT count() FROM flows") == 100
        for name, counted in (("flow_pair_1m", "flows"), ("switch_1m", "flows"), ("arrivals", "records")):
            assert store.scalar(f"SELECT sum({counted}) FROM {name}") == 100  # noqa: S608
        assert store.scalar("SELECT sum(records) FROM landing_counts_log") == 100


def test_a_damaged_file_is_named(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "_ENGINE_BYTES_MIN", 0)
    path = write_parquet(tmp_path / "flows.parquet", records(5000))
    content = bytearray(path.read_bytes())
    content[40:2000] = bytes(1960)
    path.write_bytes(content)
    assert engine_can_read(path)
    with pytest.raises(InputError, match=r"flows.parquet: can't be read as Parquet: "):
        land_files(store, [str(path)])
