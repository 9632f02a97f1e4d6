"""The spool: a folder whose files are landed once, and then moved aside."""

from __future__ import annotations

import fcntl
import json
import logging
import os
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from prism_ch.errors import PrismError, SettingsError
from prism_ch.ingest.landing import Lander, Outcome, land_file
from prism_ch.ingest.sources import Source
from prism_ch.ingest.together import SMALL_BYTES, land_together
from prism_ch.store.client import Store

log = logging.getLogger(__name__)

DONE, FAILED = "done", "failed"
#: A file that is still being written bears one of these, or a name that starts with a dot.
UNFINISHED = (".tmp", ".part")

_LOCK, _JOURNAL = ".lock", ".together.json"
_TOGETHER_FILES, _TOGETHER_BYTES = 256, 16 << 20
_DAY_S = 86_400


class Spool:
    """A folder that this process watches, and no other one.

    Files appear in it under their final names, whole (written elsewhere on the same file system and renamed). Each is
    landed once, by its content, and moved to done/, or to failed/ with the reason beside it in a file .error.
    Killed at any moment: what has landed and was not moved is recognised as a repeat, and files that were being landed
    together are named in a journal, so that the very same statement is sent again.
    """

    def __init__(self, folder: Path) -> None:
        """Take possession of a folder; raises SettingsError where it can't be used or another process watches it."""
        self.folder = folder.absolute()
        try:
            for each in (self.folder, self.folder / DONE, self.folder / FAILED):
                each.mkdir(parents=True, exist_ok=True)
            self._lock = _lock(self.folder / _LOCK)
        except BlockingIOError:
            raise SettingsError(f"{folder}: another process watches this spool; give each one a folder") from None
        except OSError as error:
            raise SettingsError(f"{folder}: can't be used as a spool: {error.strerror}") from error

    def close(self) -> None:
        """Let another process watch the folder."""
        os.close(self._lock)

    def waiting(self) -> list[Path]:
        """List the files that are complete, oldest first."""
        found = []
        with os.scandir(self.folder) as entries:
            for entry in entries:
                if entry.name.startswith(".") or entry.name.endswith(UNFINISHED) or entry.is_dir(follow_symlinks=False):
                    continue
                try:
                    found.append((entry.stat(follow_symlinks=False).st_mtime_ns, entry.name))
                except FileNotFoundError:
                    continue
        return [self.folder / name for _, name in sorted(found)]

    def failed(self) -> int:
        """Count the files that could not be read to their end."""
        return sum(not entry.name.endswith(".error") for entry in os.scandir(self.folder / FAILED))

    def land(self, store: Store, stop: Callable[[], bool]) -> int:
        """Land what waits, small files together, until `stop`; return how many files were landed or moved aside.

        Raises StoreError where the database fails; the files then stay, and are landed another time.
        """
        landed = self._resume(store)
        for batch in _batches(self._refuse_irregular(self.waiting())):
            if stop():
                break
            landed += self._land(store, batch)
        return landed

    def clean(self, keep_days: float) -> int:
        """Remove files that were moved to done/ longer than so many days ago; return how many."""
        removed = 0
        for path in (self.folder / DONE).iterdir():
            # A rename changes the time of the last change of status, and not that of the last writing.
            if path.lstat().st_ctime < time.time() - keep_days * _DAY_S:
                path.unlink()
                removed += 1
        return removed

    def _resume(self, store: Store) -> int:
        """Land together what was being landed together when the process ended."""
        try:
            names = json.loads((self.folder / _JOURNAL).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return 0
        return self._finish(store, [self.folder / name for name in names])

    def _land(self, store: Store, batch: Sequence[Path]) -> int:
        """Land a large file, or several small ones."""
        if len(batch) == 1:
            with Lander(store) as lander:
                outcome = land_file(lander, _source(batch[0]))
            self._settle(batch[0], outcome)
            _tell([outcome])
            return 1
        journal = self.folder / f"{_JOURNAL}.tmp"
        journal.write_text(json.dumps([path.name for path in batch]), encoding="utf-8")
        journal.rename(self.folder / _JOURNAL)
        return self._finish(store, batch)

    def _finish(self, store: Store, batch: Sequence[Path]) -> int:
        """Land the files of the journal, move them aside, and only then forget the journal."""
        present = [path for path in batch if path.exists()]
        outcomes = land_together(store, [_source(path) for path in present])
        for path, outcome in zip(present, outcomes, strict=True):
            self._settle(path, outcome)
        (self.folder / _JOURNAL).unlink()
        _tell(outcomes)
        return len(present)

    def _refuse_irregular(self, paths: Sequence[Path]) -> Iterator[Path]:
        """Move aside what is no regular file: a link could lead to what its writer may not read."""
        for path in paths:
            try:
                mode = path.lstat().st_mode
            except FileNotFoundError:
                continue
            if stat.S_ISREG(mode):
                yield path
            else:
                self._settle(path, Outcome(str(path), 0, {}, error=f"{path}: is no regular file"))

    def _settle(self, path: Path, outcome: Outcome) -> None:
        """Move a file aside, the reason beside it where it could not be read to its end."""
        if not os.path.lexists(path):
            log.warning("file went away file=%r", path.name)
            return
        target = _free(self.folder / (FAILED if outcome.error else DONE) / path.name)
        try:
            if outcome.error:
                target.with_name(f"{target.name}.error").write_text(f"{outcome.error}\n", encoding="utf-8")
            path.rename(target)
        except OSError as error:
            raise PrismError(f"{path}: can't be moved to {target.parent}: {error.strerror}; mend its rights") from error
        log.log(
            logging.WARNING if outcome.error else logging.DEBUG,
            "file landed file=%r landed=%d rejected=%d repeat=%s error=%r",
            path.name,
            outcome.landed,
            outcome.records - outcome.landed,
            outcome.repeat_of is not None,
            outcome.error,
        )


def _lock(path: Path) -> int:
    """Lock a file for as long as it is open; raises BlockingIOError where another process has."""
    opened = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(opened)
        raise
    return opened


def _tell(outcomes: Sequence[Outcome]) -> None:
    """Log what became of some files."""
    new = [outcome for outcome in outcomes if outcome.repeat_of is None]
    log.info(
        "files landed files=%d landed=%d rejected=%d repeats=%d failed=%d",
        len(outcomes),
        sum(outcome.landed for outcome in new),
        sum(outcome.records - outcome.landed for outcome in new),
        len(outcomes) - len(new),
        sum(bool(outcome.error) for outcome in outcomes),
    )


def _source(path: Path) -> Source:
    """Return a file as a source of records."""
    return Source(str(path), path)


def _batches(paths: Iterator[Path]) -> Iterator[list[Path]]:
    """Divide files, in their order, into large ones and as many small ones as are landed together."""
    batch: list[Path] = []
    size = 0
    for path in paths:
        try:
            size_bytes = path.stat().st_size
        except FileNotFoundError:
            continue
        is_small = size_bytes <= SMALL_BYTES
        if batch and (not is_small or size + size_bytes > _TOGETHER_BYTES or len(batch) == _TOGETHER_FILES):
            yield batch
            batch, size = [], 0
        if is_small:
            batch.append(path)
            size += size_bytes
        else:
            yield [path]
    if batch:
        yield batch


def _free(path: Path) -> Path:
    """Return a path that is not taken: this one, or with a number behind."""
    number = 0
    found = path
    while os.path.lexists(found):
        number += 1
        found = path.with_name(f"{path.name}.{number}")
    return found
