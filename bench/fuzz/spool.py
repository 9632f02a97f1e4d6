"""Fuzzes the spool: each mutated file, name or journal lies before a good file, which must land within 30 s."""

from __future__ import annotations

import os
import random
import tempfile
import time
from pathlib import Path

from prism_ch.daemon.spool import Spool
from prism_ch.store.client import connect
from prism_ch.store.migrate import migrate
from tests.mutations import MUTATIONS, originals
from tests.records import csv_text, record

_LANDED_WITHIN_S = 30.0


def fuzz(seed: int, for_s: float, cases_max: int) -> int:
    """Run cases for a time, in seconds; return how many.

    Raises AssertionError if a good file is late, or a failed one has no reason.
    """
    chance = random.Random(seed)  # noqa: S311 - repeatable by its seed
    with tempfile.TemporaryDirectory() as name, connect(f"chdb://{name}/data") as store:
        migrate(store)
        whole = originals(Path(name))
        spool = Spool(Path(name) / "spool")
        case, until_s = 0, time.monotonic() + for_s
        while case < cases_max and time.monotonic() < until_s:
            _drop_hostile(spool.folder, whole, chance)
            good = spool.folder / f"good{case}.csv"
            good.write_text(csv_text([record(case)]))
            began_s = time.monotonic()
            while good.exists():
                spool.land(store, lambda: False)
                if time.monotonic() - began_s > _LANDED_WITHIN_S:
                    raise AssertionError(f"seed {seed}, case {case}: the good file has not landed")
            if not (spool.folder / "done" / good.name).exists():
                raise AssertionError(f"seed {seed}, case {case}: the good file failed")
            case += 1
        for failed in (spool.folder / "failed").iterdir():
            if not failed.name.endswith(".error") and not Path(f"{failed}.error").read_text(encoding="utf-8").strip():
                raise AssertionError(f"seed {seed}: {failed.name} has no reason")
        spool.close()
    return case


def _drop_hostile(folder: Path, whole: list[tuple[str, bytes]], chance: random.Random) -> None:
    suffix, content = chance.choice(whole)
    mutated = chance.choice(list(MUTATIONS.values()))(content, chance)
    kind = chance.randrange(10)
    if kind == 0:
        (folder / ".together.json").write_bytes(chance.choice((mutated, b'["/etc/passwd"]', b'{"files": [', b"")))
        return
    name = f"bad{chance.randrange(10**9)}{suffix}".encode()
    if kind == 1:
        name = chance.randbytes(chance.randrange(1, 250)).replace(b"/", b"").replace(b"\0", b"").lstrip(b".") or name
    if kind == 2:
        name = b"n" * (255 - len(suffix)) + suffix.encode()
    (folder / os.fsdecode(name)).write_bytes(mutated)
