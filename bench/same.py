"""Whether this version finds the same as another one: run with `make same BASE=COMMIT`.

Both versions work the same recordings by the command line alone, each in a database of its own. Then every public view
is compared row by row; what depends on the time of day is left out (see bench/same_tables.py). A line a recording says
"same", or which views differ and how. Exits with 1 if any does.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bench.accuracy.sweep import Failed, Task, run
from bench.same_inputs import TOPOLOGY, Dataset, all_datasets
from bench.same_tables import LIST_VIEWS, PRINTED, differences, dump_statement, public, read_dump

_HERE = Path(__file__).parents[1]

#: The parts of a version: the package and the files that it reads.
_SHIPPED = ("prism_ch", "sql", "dashboards", "scheduler")

_PREFIX = "prism-ch-same-"


@dataclass(frozen=True, slots=True)
class Side:
    """A version: the folder of its code, its public views, the cache of its results."""

    root: Path
    views: tuple[str, ...] = ()
    cache: Path | None = None

    def command(self, home: Path, *arguments: str | Path, window_s: int = 60, status: int = 0) -> str:
        """Run a command of this version on the database in `home`; return what it printed.

        Raises RuntimeError unless it ends with `status`.
        """
        config = home / "prism.toml"
        config.write_text(f"window_s = {window_s}\n")
        ours = ("PRISM_CH_", "PYTHONDONTWRITEBYTECODE")  # compiled once, the code starts faster
        kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
        done = subprocess.run(
            [sys.executable, "-m", "prism_ch", *map(str, arguments), "--url", f"chdb://{home / 'data'}"],
            cwd=home,  # Python looks for the package there before it looks in PYTHONPATH
            env=kept | {"PYTHONPATH": str(self.root), "PRISM_CH_CONFIG": str(config)},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != status:
            raise RuntimeError(f"{arguments[0]} of {self.root} ended with {done.returncode}: {done.stderr[-600:]}")
        return done.stdout

    def query(self, home: Path, statement: str) -> pa.Table:
        """Answer a statement from the database in `home`."""
        self.command(home, "sql", statement, "--format", "parquet", "--output", home / "answer.parquet")
        return pq.read_table(home / "answer.parquet")


@dataclass(frozen=True, slots=True)
class Comparison:
    """A recording compared: what differs, how many rows there are, CPU time in seconds."""

    differences: tuple[str, ...]
    rows: int
    cpu_s: float


def main() -> int:
    """Compare what was chosen and print it; return 1 if anything differs."""
    chosen = _arguments()
    datasets = [dataset for dataset in all_datasets() if chosen.only in dataset.name]
    if not datasets:
        sys.exit(f"no recording has {chosen.only!r} in its name")
    commit = _git("rev-parse", "--verify", f"{chosen.base}^{{commit}}").decode().strip()
    with TemporaryDirectory(prefix=_PREFIX) as folder:
        base = _side(_check_out(commit, Path(folder) / "base"), chosen.cache.resolve() / commit[:16])
        head = _side(_check_out(chosen.head, Path(folder) / "head"))
        tasks = [Task(dataset.name, compare, (dataset, base, head)) for dataset in datasets]
        same = 0
        for dataset, result in zip(datasets, run(tasks, chosen.workers), strict=True):
            same += _report(dataset, result)
    print(f"{same} of {len(datasets)} the same as {commit[:12]}")
    return int(same < len(datasets))


def _arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.same", description=__doc__)
    parser.add_argument("base", metavar="BASE", help="the commit to compare with")
    parser.add_argument("--head", metavar="COMMIT", help="compare this commit (default: the working tree)")
    parser.add_argument("--only", default="", help="only recordings whose name holds this text")
    parser.add_argument("--workers", type=int, default=2, help="recordings at a time (default: 2)")
    parser.add_argument("--cache", type=Path, default=_HERE / ".same", help="keeps BASE's results (default: .same)")
    return parser.parse_args()


def compare(dataset: Dataset, base: Side, head: Side) -> Comparison:
    """Analyse a recording with both versions and compare what they find."""
    began_s = _cpu_s()
    with TemporaryDirectory(prefix=_PREFIX) as folder:
        files = Path(folder) / "files"
        pieces = dataset.write(files)
        ours, theirs = (read_dump(_dump(side, dataset, files, pieces), side.views) for side in (base, head))
        return Comparison(tuple(differences(ours, theirs)), ours.count, _cpu_s() - began_s)


def _cpu_s() -> float:
    """Return the CPU time of this process and its ended children, in seconds."""
    return sum(os.times()[:4])


def _report(dataset: Dataset, result: Comparison | Failed) -> bool:
    """Print how a recording came out; return whether both versions found the same."""
    if isinstance(result, Failed):
        print(f"FAILED   {dataset.name}: {result.reason}", flush=True)
        return False
    kind = "differs" if result.differences else "same   "
    print(f"{kind}  {dataset.name}: {result.rows:,} rows, {result.cpu_s:.0f} s of CPU time", flush=True)
    for difference in result.differences:
        print(f"           {difference}", flush=True)
    return not result.differences


def _side(root: Path, cache: Path | None = None) -> Side:
    """Describe a version with the public views of a database that it creates."""
    side = Side(root)
    with TemporaryDirectory(prefix=_PREFIX) as folder:
        side.command(Path(folder), "migrate")
        views = side.query(Path(folder), LIST_VIEWS)["name"].to_pylist()
    return Side(root, tuple(public(views)), cache)


def _check_out(commit: str | None, folder: Path) -> Path:
    """Copy the package at a commit, or of the working tree, to `folder`; return that.

    An archive leaves nothing in the repository if this process is killed; a worktree would. The working tree is copied
    so that it may be edited meanwhile.
    """
    if commit is None:
        for name in _SHIPPED:
            shutil.copytree(_HERE / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        return folder
    archive = _git("archive", "--format=tar", commit, *_SHIPPED)
    with tarfile.open(fileobj=io.BytesIO(archive)) as packed:
        packed.extractall(folder, filter="data")
    return folder


def _git(*arguments: str) -> bytes:
    """Run git in this repository; return what it printed."""
    done = subprocess.run(["git", "-C", _HERE, *arguments], capture_output=True, check=False)
    if done.returncode:
        sys.exit(done.stderr.decode().strip())
    return done.stdout


def _dump(side: Side, dataset: Dataset, files: Path, pieces: Sequence[Path]) -> pa.Table:
    """Return what a version finds in a recording, from the cache if it is there."""
    if side.cache is None:
        return _analysed(side, dataset, files, pieces)
    kept = side.cache / f"{_key(side, dataset, files)}.parquet"
    if not kept.exists():
        side.cache.mkdir(parents=True, exist_ok=True)
        part = kept.with_suffix(f".{os.getpid()}")
        pq.write_table(_analysed(side, dataset, files, pieces), part, compression="zstd")
        part.rename(kept)
    return pq.read_table(kept)


def _analysed(side: Side, dataset: Dataset, files: Path, pieces: Sequence[Path]) -> pa.Table:
    """Analyse a recording with a version; return its public views and printed lines.

    1. Analyse one piece by `run`; land and analyse several pieces one after the other.
    2. Read all views by one statement.
    3. Add the printed lines, and replace the random names of folders in all texts.
    """
    with TemporaryDirectory(prefix=_PREFIX) as folder:
        home = Path(folder)
        lines = []
        for number, command in enumerate(_commands(files / TOPOLOGY, pieces)):
            status = dataset.status if command[0] == "run" else 0
            text = side.command(home, *command, window_s=dataset.window_s, status=status)
            if command[0] != "migrate":  # it names migrations, which are the version's own
                lines += [json.dumps([number, line]) for line in text.splitlines()]
        found = side.query(home, dump_statement(side.views))
        found = pa.concat_tables([found, pa.table({"view": [PRINTED] * len(lines), "row": lines}, schema=found.schema)])
        for place, instead in ((files, "FILES"), (home, "HOME")):
            found = found.set_column(1, "row", pc.replace_substring(found["row"], str(place), instead))
        return found


def _commands(topology: Path, pieces: Sequence[Path]) -> list[tuple[str | Path, ...]]:
    """List the commands that analyse a recording."""
    if len(pieces) == 1:
        return [("run", pieces[0] / "*", "--topology", topology)]
    each: list[tuple[str | Path, ...]] = [("migrate",), ("topology", topology)]
    for piece in pieces:
        each += [("ingest", piece / "*"), ("analyse",)]
    return each


def _key(side: Side, dataset: Dataset, files: Path) -> str:
    """Return a cache key, which changes with everything that may change the result."""
    key = hashlib.sha256(repr((dump_statement(side.views), dataset.window_s, dataset.pieces)).encode())
    for file in sorted(file for file in files.rglob("*") if file.is_file()):
        key.update(repr((file.relative_to(files), file.stat().st_size)).encode())
        key.update(file.read_bytes())
    return key.hexdigest()[:32]


if __name__ == "__main__":
    sys.exit(main())
