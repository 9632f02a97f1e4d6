"""Records that were landed and analysed as a user would, and where the results are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.commands import Done, prism_ch

#: The recorded training runs, a folder each.
RECORDED = Path(__file__).parents[1] / "data" / "real_training"

#: The timings of a production run.
PRODUCTION = RECORDED.parent / "production_timings"

#: Names a database that does not exist yet.
NewUrl = Callable[[], str]


@dataclass(frozen=True, slots=True)
class Analysed:
    """What `prism-ch run` made of records: their folder, with topology and truth, the database, what was printed."""

    folder: Path
    url: str
    told: Done


#: Gives the analysis of the recorded run of that name.
Recorded = Callable[[str], Analysed]

#: Gives the analysis of the production run's timings, in windows of so many seconds.
Production = Callable[[int], Analysed]


def run(folder: Path, flows: str, url: str, window_s: int | None = None) -> Analysed:
    """Do all that `prism-ch run` does."""
    told = prism_ch("run", folder / flows, "--topology", folder / "topology.csv", url=url, window_s=window_s)
    assert (told.status, told.err) == (0, "")
    return Analysed(folder, url, told)


def simulate(folder: Path, url: str, *options: str) -> Analysed:
    """Simulate 64 GPUs (TP 4, PP 4, DP 4) for some 45 steps, and analyse them."""
    made = prism_ch("simulate", folder, "--tp", "4", "--pp", "4", "--dp", "4", "--steps", "45", *options)
    assert (made.status, made.err) == (0, "")
    assert f"to {folder}" in made.out
    return run(folder, "flows/*.parquet", url)
