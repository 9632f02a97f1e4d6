"""The notebook beside the examples runs from its first cell to its last, and finds what was made up."""

import json
import warnings
from pathlib import Path
from typing import Any

import pytest

from bench import example_data
from prism_ch.assets import asset
from prism_ch.store.client import Store


def cells() -> list[dict[str, Any]]:
    notebook = json.loads(asset("sql/examples/notebook.ipynb").read_text(encoding="utf-8"))
    assert notebook["nbformat"] == 4
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def test_its_cells_run_in_order(store: Store, store_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    example_data.fill(store, 8, 500)
    monkeypatch.setenv("PRISM_CH_URL", store_url)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of pandas, which the notebook's reader has as well
        for cell in cells():
            exec(compile("".join(cell["source"]), "notebook.ipynb", "exec"), names)  # noqa: S102 - our own file
    assert sorted(names["jobs"]["job_id"]) == ["job-one", "job-two"]
    assert set(names["incidents"]["kind"]) == {"slow_gpu", "stall"}
    assert names["worst"] == names["losses"]["job_id"][0]
    assert len(names["by_gpu"]) == 8


def test_it_is_kept_without_outputs() -> None:
    assert all(not cell["outputs"] and cell["execution_count"] is None for cell in cells())
