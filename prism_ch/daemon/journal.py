"""Notes which files of the spool are being landed, so that a killed process goes on with the very same ones.

Whoever may write to the spool may write the journal. So it orders nothing: it names plain files of the spool, which
would be landed anyway, and only says which of them land together.
"""

from __future__ import annotations

import json
import os
import secrets
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from prism_ch.errors import InputError, PrismError

#: More, in bytes, is no journal: it names some 256 files, each character of a name in up to 6 bytes.
_BYTES_MAX = 1 << 20
_NAMES_MAX = 1024


@dataclass(frozen=True, slots=True)
class Entry:
    """The names of files that are landed together, and how many processes have begun to."""

    names: tuple[str, ...]
    attempts: int = 1


class Journal:
    """The journal of one spool: a file that is there while files are being landed."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> Entry | None:
        """Read what was being landed, None if nothing was. Raises InputError if the file is no journal."""
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise InputError(f"{self.path}: is no journal: {error.strerror}") from error
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise InputError(f"{self.path}: is no journal: it is no regular file")
            return self._parse(file.read(_BYTES_MAX + 1))

    def write(self, entry: Entry) -> None:
        """Replace the journal. Raises PrismError if the folder can't be written."""
        text = json.dumps({"files": entry.names, "attempts": entry.attempts})
        new = self.path.with_name(f"{self.path.name}.{secrets.token_hex(4)}.tmp")
        try:
            write_new(new, text)
            new.rename(self.path)
        except OSError as error:
            raise PrismError(f"{self.path}: can't be written: {error.strerror}; mend its rights") from error

    def remove(self) -> None:
        """Remove the journal: all of its files are moved aside."""
        self.path.unlink(missing_ok=True)

    def _parse(self, data: bytes) -> Entry:
        try:
            found = json.loads(data) if len(data) <= _BYTES_MAX else None
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict) or found.keys() != {"files", "attempts"}:
            raise InputError(f"{self.path}: is no journal: expected are files and attempts")
        names, attempts = found["files"], found["attempts"]
        if type(attempts) is not int or not 0 < attempts < 1000:
            raise InputError(f"{self.path}: is no journal: attempts is no small number")
        if not isinstance(names, list) or not 0 < len(names) <= _NAMES_MAX or not all(map(_is_plain, names)):
            raise InputError(f"{self.path}: is no journal: files are not the names of files in this folder")
        return Entry(tuple(dict.fromkeys(names)), attempts)


def write_new(path: Path, text: str) -> None:
    """Write a file in the place of what is there. A link is not followed."""
    with suppress(FileNotFoundError):
        path.unlink()
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666), "wb") as file:
        file.write(text.encode("utf-8", "backslashreplace"))


def _is_plain(name: object) -> bool:
    """Check that a name is that of a file which the spool would land anyway."""
    if not isinstance(name, str) or not name or name.startswith(".") or "/" in name or "\0" in name:
        return False
    try:
        return len(os.fsencode(name)) <= os.pathconf("/", "PC_NAME_MAX")
    except UnicodeEncodeError:
        return False
