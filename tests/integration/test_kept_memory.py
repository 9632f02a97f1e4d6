"""What a worker keeps for the next window is what the database would tell it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from prism_ch.ingest.files import land_files
from prism_ch.ingest.topology_file import load_topology
from prism_ch.model.flow import FlowBatch
from prism_ch.model.memory import WindowMemory
from prism_ch.model.params import Params
from prism_ch.model.topology import Topology
from prism_ch.model.window import Window
from prism_ch.settings import Settings
from prism_ch.simulate import Scenario, generate, textbook, write
from prism_ch.simulate.families import CONDITIONS, FAMILIES
from prism_ch.store import kept_memory
from prism_ch.store.client import Store
from prism_ch.store.flow_source import StoredFlows
from prism_ch.store.kept_memory import Before, KeptMemory
from prism_ch.store.ledger import Claim
from prism_ch.store.read import read_memory
from prism_ch.store.topology import latest_load
from prism_ch.worker import analyse
from tests.contract import RESULTS, snapshot
from tests.sweeps import swept

PARAMS = Params()
SETTINGS = Settings(window_s=20)
KNOWN = Before(WindowMemory())


def assert_same(found: object, wanted: object, where: str) -> None:
    """Compare everything that two memories hold."""
    if isinstance(wanted, np.ndarray):
        np.testing.assert_array_equal(found, wanted, err_msg=where)
    elif is_dataclass(wanted):
        assert type(found) is type(wanted), where
        for field in fields(wanted):
            assert_same(getattr(found, field.name), getattr(wanted, field.name), f"{where}.{field.name}")
    elif isinstance(wanted, Mapping):
        assert isinstance(found, Mapping)
        assert sorted(found) == sorted(wanted), where
        for key in wanted:
            assert_same(found[key], wanted[key], f"{where}[{key}]")
    elif isinstance(wanted, list | tuple):
        assert isinstance(found, list | tuple), where
        assert len(found) == len(wanted), where
        for place, (one, other) in enumerate(zip(found, wanted, strict=True)):
            assert_same(one, other, f"{where}[{place}]")
    else:
        np.testing.assert_equal(found, wanted, err_msg=where)  # NaN equals NaN


class Compared(KeptMemory):
    """Compares what is kept with what the database tells."""

    def __init__(self, store: Store) -> None:
        super().__init__()
        self.store = store
        self.compared = 0

    def before(self, claim: Claim, topology: Topology) -> Before | None:
        kept = super().before(claim, topology)
        if kept is not None:
            assert_same(kept.memory, read_memory(self.store, topology, claim.window, PARAMS), "memory")
            source = StoredFlows(self.store, topology)
            parts = [part for part in map(source.read, kept.flows.spans) if len(part)]
            assert_same(kept.flows.flows, FlowBatch.concat(parts), "flows")
            self.compared += 1
        return kept


def land(store: Store, scenario: Scenario, folder: Path) -> None:
    made = generate(replace(scenario, phases=False))
    write(replace(made, truth={}), folder)
    load_topology(store, str(folder / "topology.csv"))
    land_files(store, [str(folder / "flows" / "*.parquet")])


SCENARIOS = {
    "restarts": replace(FAMILIES["restarts"](4), observation=CONDITIONS["bad-exporter-200ms"]),
    "slow GPU": textbook(32, 2, 2, 4, step_s=0.5, duration_s=60, jobs=2, slow_gpu=(5, 2.0, 20, 70)),
    "checkpoints": FAMILIES["checkpoints"](62001),  # its first pause is an alarm until it comes again
}


@pytest.mark.parametrize("name", ["restarts", *swept("slow GPU", "checkpoints")])
def test_kept_memory_is_what_the_database_tells(
    store: Store, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    land(store, SCENARIOS[name], tmp_path)
    kept = Compared(store)
    report = analyse(store, SETTINGS, kept=kept)
    assert kept.compared >= len(report.windows) - 2
    assert sum(window.steps for window in report.windows) > 0
    found = snapshot(store, *RESULTS)
    monkeypatch.setattr(kept_memory, "_KEPT_FLOWS", 0)
    analyse(store, SETTINGS, force=True)
    assert snapshot(store, *RESULTS) == found


def claim(start_s: int, revision: int, inputs: int = 0) -> Claim:
    return Claim(Window(start_s * 10**9, (start_s + 10) * 10**9), revision, 1, 0, 0, 0, inputs)


def topology(*endpoints: str) -> Topology:
    rows = np.zeros(len(endpoints), dtype=np.int32)
    names = ("one",)
    return Topology(endpoints, rows, rows.astype(np.uint8), rows, rows, rows, rows, names, names, names, names)


@pytest.mark.parametrize(
    "then, where",
    [
        (claim(30, 5), topology("a")),  # a window was left out
        (claim(20, 6), topology("a")),  # somebody else has published
        (claim(20, 5, inputs=1), topology("a")),
        (claim(20, 5), topology("a", "b")),  # rows of the topology are others
    ],
    ids=["gap", "other worker", "parameters", "topology"],
)
def test_database_is_read_where_anything_else_has_happened(then: Claim, where: Topology) -> None:
    kept = KeptMemory()
    kept.keep(claim(10, 4), topology("a"), KNOWN, PARAMS)
    assert kept.before(then, where) is None
    assert kept.before(claim(20, 5), topology("a")) is None  # and from then on


def test_memory_is_given_once_and_not_over_the_hour() -> None:
    kept = KeptMemory()
    kept.keep(claim(10, 4), topology("a"), KNOWN, PARAMS)
    assert kept.before(claim(20, 5), topology("a")) is not None
    assert kept.before(claim(20, 5), topology("a")) is None
    kept.keep(claim(3590, 6), topology("a"), KNOWN, PARAMS)
    assert kept.before(claim(3600, 7), topology("a")) is None


def test_topology_is_read_once_where_it_holds_for_good(store: Store, tmp_path: Path) -> None:
    file, kept = tmp_path / "topology.csv", KeptMemory()

    def loaded(header: str, *lines: str) -> tuple[Topology, Topology]:
        file.write_text("\n".join([f"endpoint,server,gpu,rail,leaf,pod,tenant{header}", *lines]) + "\n")
        load_topology(store, str(file))
        first, second = (kept.topology(store, latest_load(store), at_ns) for at_ns in (10**18, 2 * 10**18))
        return first, second

    first, second = loaded("", "10.0.0.1,one,0,0,leaf,pod,a")
    assert second is first
    assert kept.topology(store, None, 10**18) is not first
    first, second = loaded("", "10.0.0.1,one,0,0,leaf,pod,a", "10.0.0.2,two,0,0,leaf,pod,a")
    assert first.endpoints == ("10.0.0.1", "10.0.0.2")
    assert second is first
    first, second = loaded(
        ",valid_from", "10.0.0.1,one,0,0,leaf,pod,a,", "10.0.0.2,two,0,0,leaf,pod,a,2030-01-01T00:00:00Z"
    )
    assert (len(first), len(second)) == (1, 2)
