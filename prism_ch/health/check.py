"""The result of a health check, and the checks of folders and disks."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from prism_ch.errors import PrismError
from prism_ch.settings import Settings
from prism_ch.store.url import EmbeddedLocation, parse_url

State = Literal["ok", "warn", "bad"]

#: Shares of a disk that should be free: below the first somebody must act, below the second the engine soon stops.
_FREE_WARN, _FREE_BAD = 0.10, 0.02
_FREE_BAD_BYTES = 1 << 30


@dataclass(frozen=True, slots=True)
class Check:
    """The result of one check: what was found, and how to mend it.

    The state `bad` stops or spoils the results, `warn` makes them poorer; `mend` is empty for `ok`.
    """

    name: str
    state: State
    what: str
    mend: str = ""


def guarded(name: str, run: Callable[[], list[Check]], mend: str) -> list[Check]:
    """Run checks. An expected error becomes a bad one of the given name."""
    try:
        return run()
    except (PrismError, OSError) as error:
        return [Check(name, "bad", str(error), mend)]


def check_machine(settings: Settings) -> list[Check]:
    """Check the folders on this machine: of the embedded database, and the spool."""
    location, spool = parse_url(settings.url), settings.serve.spool
    checks = [] if spool is None else [_check_spool(spool)]
    if isinstance(location, EmbeddedLocation):
        checks.append(_check_disk("disk of the database", location.folder))
    if spool is not None:
        checks.append(_check_disk("disk of the spool", spool))
    return checks


def _check_spool(spool: Path) -> Check:
    name = "spool"
    if not spool.is_dir():
        return Check(name, "bad", f"{spool} is no folder", f"mkdir -p '{spool}', or mend serve.spool")
    for folder in filter(Path.is_dir, (spool, spool / "done", spool / "failed")):
        if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
            return Check(name, "bad", f"{folder} can't be read and written", f"give user {os.geteuid()} rights on it")
    failed = spool / "failed"
    errors = len(list(failed.glob("*.error")))
    if errors:
        mend = f"see {failed}/*.error; move what was mended back into {spool}, remove the rest"
        return Check(name, "warn", f"{errors} files could not be read to their end", mend)
    return Check(name, "ok", f"{spool} can be read and written, nothing has failed")


def _check_disk(name: str, folder: Path) -> Check:
    """Check the free space where a folder is, or would be."""
    existing = next(each for each in (folder.absolute(), *folder.absolute().parents) if each.exists())
    usage = shutil.disk_usage(existing)
    share = usage.free / usage.total
    what = f"{usage.free / 2**30:.1f} GiB ({share:.0%}) free at {existing}"
    if share >= _FREE_WARN and usage.free >= _FREE_BAD_BYTES:
        return Check(name, "ok", what)
    is_bad = share < _FREE_BAD or usage.free < _FREE_BAD_BYTES
    mend = "make room or a larger disk; landing stops when it is full, and goes on by itself once it is not"
    return Check(name, "bad" if is_bad else "warn", what, mend)
