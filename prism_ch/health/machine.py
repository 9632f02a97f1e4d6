"""What the machine gives: room on disk, rights on folders, memory."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from prism_ch.health.light import Light
from prism_ch.settings import Settings
from prism_ch.store.url import EmbeddedLocation, parse_url

#: Parts of a disk that should be free: below the first it is time to act, below the second the engine soon stops.
_FREE_WARN, _FREE_BAD = 0.10, 0.02
_FREE_BAD_BYTES = 1 << 30


def memory_bytes() -> int:
    """Return the memory of this process that is in use, in bytes."""
    resident_pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return resident_pages * os.sysconf("SC_PAGE_SIZE")


def machine_lights(settings: Settings) -> list[Light]:
    """Look at the folders that this machine holds: of the embedded database, and the spool."""
    location = parse_url(settings.url)
    folders = {"database": location.folder} if isinstance(location, EmbeddedLocation) else {}
    spool = settings.serve.spool
    lights = [_spool_light(spool)] if spool is not None else []
    return lights + [_disk_light(name, folder) for name, folder in (folders | _named("spool", spool)).items()]


def _named(name: str, folder: Path | None) -> dict[str, Path]:
    """Return a folder under its name, where there is one."""
    return {} if folder is None else {name: folder}


def _spool_light(spool: Path) -> Light:
    """Look whether files can be taken from the spool and moved aside."""
    name = "spool"
    for folder in (spool, spool / "done", spool / "failed"):
        if folder == spool and not folder.is_dir():
            return Light(name, "bad", f"{folder} is no folder", f"mkdir -p '{folder}', or mend serve.spool")
        if folder.is_dir() and not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
            return Light(name, "bad", f"{folder} can't be read and written", f"give user {os.geteuid()} rights on it")
    failed = spool / "failed"
    errors = len(list(failed.glob("*.error"))) if failed.is_dir() else 0
    if errors:
        return Light(
            name,
            "warn",
            f"{errors} files could not be read to their end",
            f"see {failed}/*.error; move what was mended back into {spool}, remove the rest",
        )
    return Light(name, "ok", f"{spool} can be read and written, nothing has failed")


def _disk_light(name: str, folder: Path) -> Light:
    """Look how much room is left where a folder is, or would be."""
    name = f"disk of the {name}"
    there = next(each for each in (folder.absolute(), *folder.absolute().parents) if each.exists())
    usage = shutil.disk_usage(there)
    share = usage.free / usage.total
    what = f"{usage.free / 2**30:.1f} GiB ({share:.0%}) free at {there}"
    mend = "make room or a larger disk; landing stops when it is full, and goes on by itself once it is not"
    if share < _FREE_BAD or usage.free < _FREE_BAD_BYTES:
        return Light(name, "bad", what, mend)
    return Light(name, "warn", what, mend) if share < _FREE_WARN else Light(name, "ok", what)
