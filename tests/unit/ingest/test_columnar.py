"""Which columns land as they are, and which as text."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from prism_ch.errors import InputError
from prism_ch.ingest.columnar import landing_rows, read_arrow
from tests.records import COLUMNS, record, table

PATHS = pa.list_(pa.string())


def landed(values: list[Any], kind: pa.DataType, name: str) -> tuple[str, list[Any]]:
    rows = table([record(number) for number in range(len(values))])
    column = pa.chunked_array([pa.array(values, kind)])
    rows = rows.set_column(rows.column_names.index(name), name, column) if name in COLUMNS else rows
    target, found = landing_rows(rows if name in COLUMNS else rows.append_column(name, column), "flows.parquet")
    return target, found[name if name in found.column_names else "proto_name"].to_pylist()


@pytest.mark.parametrize(
    "name,kind,values",
    [
        ("bytes", pa.int64(), [0, 5]),
        ("bytes", pa.uint64(), [2**64 - 1]),
        ("bytes", pa.int8(), [127]),
        ("time_flow_end_ns", pa.uint64(), [5]),
        ("src_port", pa.int64(), [65535]),
        ("proto", pa.int32(), [255]),
        ("proto", pa.string(), ["UDP", "17"]),
        ("proto", pa.dictionary(pa.int8(), pa.string()), ["UDP", "UDP"]),
        ("src_addr", pa.large_string(), ["10.0.0.1", ""]),
        ("src_addr", pa.dictionary(pa.int32(), pa.large_string()), ["10.0.0.1"]),
        ("path", PATHS, [["a"], []]),
    ],
)
def test_what_fits_lands_as_it_is(name: str, kind: pa.DataType, values: list[Any]) -> None:
    assert landed(values, kind, name) == ("flow_landing", values)


@pytest.mark.parametrize(
    "name,kind,values,fitted",
    [
        ("src_port", pa.int64(), [None, 1], [0, 1]),
        ("sampling_rate", pa.uint32(), [None], [0]),
        ("dst_addr", pa.string(), [None, "::1"], ["", "::1"]),
        ("dst_addr", pa.dictionary(pa.int8(), pa.string()), [None, "::1"], ["", "::1"]),
        ("path", PATHS, [None, ["a", None], None, ["b"]], [[], ["a", ""], [], ["b"]]),
        ("path", pa.large_list(pa.large_string()), [["a"], None], [["a"], []]),
    ],
)
def test_unknown_values_that_have_a_meaning_land_too(
    name: str, kind: pa.DataType, values: list[Any], fitted: list[Any]
) -> None:
    assert landed(values, kind, name) == ("flow_landing", fitted)


@pytest.mark.parametrize(
    "name,kind,values,text",
    [
        ("bytes", pa.int64(), [-1, 5], ["-1", "5"]),
        ("bytes", pa.int64(), [None, 5], ["", "5"]),
        ("bytes", pa.string(), ["5", None], ["5", ""]),
        ("bytes", pa.float64(), [5.0, 5.5, None, 2.0**60], ["5", "5.5", "", "1152921504606846976"]),
        ("bytes", pa.bool_(), [True], ["true"]),
        ("time_flow_start_ns", pa.uint64(), [2**63], ["9223372036854775808"]),
        ("src_port", pa.int32(), [65536], ["65536"]),
        ("proto", pa.int16(), [256], ["256"]),
        ("proto", pa.string(), ["", "UDP"], ["", "UDP"]),
        ("proto", pa.string(), [None, "UDP"], ["", "UDP"]),
        ("src_addr", pa.binary(), [b"::1"], ["::1"]),
        ("src_addr", pa.int32(), [17], ["17"]),
        ("path", pa.string(), ["a|b", None], ["a|b", ""]),
        ("path", pa.list_(pa.int32()), [[1, 2], None], ["1|2", ""]),
    ],
)
def test_what_does_not_fit_lands_as_text(name: str, kind: pa.DataType, values: list[Any], text: list[Any]) -> None:
    assert landed(values, kind, name) == ("flow_fields", text)


def test_a_column_that_can_not_be_text_is_refused() -> None:
    with pytest.raises(InputError, match=r"^flows\.parquet: column bytes is struct<a: int64>, which is neither"):
        landed([{"a": 1}], pa.struct({"a": pa.int64()}), "bytes")


@pytest.mark.parametrize("opened", [pa.ipc.new_file, pa.ipc.new_stream])
def test_arrow_that_points_behind_its_end_is_refused(opened: Any, tmp_path: Path) -> None:
    rows = table([record(number) for number in range(20)])
    rows = rows.append_column("path", pa.array([["a", "bc"]] * 20, PATHS))
    names = rows["sampler_address"].dictionary_encode()
    rows = rows.set_column(rows.column_names.index("sampler_address"), "sampler_address", names)
    with opened(str(tmp_path / "whole"), rows.schema) as writer:
        writer.write_table(rows)
    whole = (tmp_path / "whole").read_bytes()
    refused = read = 0
    for place in range(len(whole) - 8):
        damaged = bytearray(whole)
        damaged[place] ^= 0x40
        (tmp_path / "damaged").write_bytes(damaged)
        try:
            found = [chunk for chunk, _ in read_arrow(tmp_path / "damaged", "damaged")]
        except InputError:
            refused += 1
            continue
        read += 1
        for chunk in found:
            for name in chunk.column_names:
                column = chunk[name].cast(pa.binary()) if pa.types.is_string(chunk[name].type) else chunk[name]
                column.validate(full=not pa.types.is_dictionary(column.type))
    assert refused > 500
    assert read > 500
