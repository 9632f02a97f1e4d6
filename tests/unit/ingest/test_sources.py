"""Formats are detected by what is requested, by first bytes, by name and by the first character, in this order."""

import io
from pathlib import Path

import pytest

from prism_ch.errors import InputError
from prism_ch.ingest.sources import Format, Opened, Source, detect_format, find_sources


@pytest.mark.parametrize(
    "name,head,requested,expected",
    [
        ("flows.csv", b"PAR1", "auto", Format.PARQUET),
        ("flows.csv", b"ARROW1\0\0", "auto", Format.ARROW),
        ("flows", b"\xff\xff\xff\xff", "auto", Format.ARROW),
        ("flows.parquet", b"text", "auto", Format.PARQUET),
        ("FLOWS.JSON.GZ", b"text", "auto", Format.JSONL),
        ("flows.v2.ndjson.zst", b"text", "auto", Format.JSONL),
        ("flows.csv", b"{", "auto", Format.CSV),
        ("flows", b'\xef\xbb\xbf \n{"a": 1}', "auto", Format.JSONL),
        ("flows.log", b"a,b", "auto", Format.CSV),
        ("flows", b"", "auto", Format.CSV),
        ("flows.csv", b"PAR1", "csv", Format.CSV),
        ("flows.csv", b"a,b", "parquet", Format.PARQUET),
    ],
)
def test_formats(name: str, head: bytes, requested: str, expected: Format) -> None:
    opened = Opened(Source(name, Path(name)), head, io.BytesIO(), is_compressed=False, file=io.BytesIO())
    assert detect_format(opened, requested) is expected


def test_a_dash_is_standard_input() -> None:
    assert find_sources(["-"]) == [Source("stdin", None)]


def test_a_name_with_the_characters_of_a_glob_means_itself_first(tmp_path: Path) -> None:
    for name in ("[ab].csv", "a.csv", "b.csv"):
        (tmp_path / name).touch()
    assert [Path(source.name).name for source in find_sources([str(tmp_path / "[ab].csv")])] == ["[ab].csv"]
    (tmp_path / "[ab].csv").unlink()
    found = find_sources([str(tmp_path / "[ab].csv")])
    assert [Path(source.name).name for source in found] == ["a.csv", "b.csv"]


def test_a_folder_means_the_flow_files_below_it(tmp_path: Path) -> None:
    (tmp_path / "deep" / "er.csv").mkdir(parents=True)
    for name in ("z.parquet", "deep/a.csv.gz", "deep/er.csv/b.arrow", "notes.md", "deep/c.gz"):
        (tmp_path / name).touch()
    found = [str(Path(source.name).relative_to(tmp_path)) for source in find_sources([str(tmp_path)])]
    assert found == ["deep/a.csv.gz", "deep/er.csv/b.arrow", "z.parquet"]


@pytest.mark.parametrize("name,words", [("none", "no such file"), ("n*", "no file matches"), (".", "is a folder")])
def test_what_means_nothing_is_an_error(tmp_path: Path, name: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        find_sources([str(tmp_path / name)])
