"""Lands the files of the spool, a folder, once each, and moves them aside."""

from __future__ import annotations

import fcntl
import json
import logging
import os
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, count
from pathlib import Path

from prism_ch.errors import PrismError, SettingsError
from prism_ch.ingest.files import batches, land_together
from prism_ch.ingest.landing import Outcome, land_file
from prism_ch.ingest.sources import Source
from prism_ch.store.client import Store

log = logging.getLogger(__name__)

DONE, FAILED = "done", "failed"
#: Ends of the names of files that are still being written; names that start with a dot are the other sign.
UNFINISHED = (".tmp", ".part")

_LOCK, _JOURNAL = ".lock", ".together.json"
_DAY_S = 86_400


class Spool:
    """A folder that only this process watches.

    Files appear in it whole, under their final names: written elsewhere on the same file system and renamed. Each is
    landed once, by its content, and moved to done/, or to failed/ with the reason in a file .error next to it.

    If the process is killed, a file that has landed and was not moved is recognised as a repeat, and files that were
    being landed together are named in a journal, so that the very same statement is sent again.
    """

    def __init__(self, folder: Path) -> None:
        """Lock a folder; raises SettingsError if it can't be used or another process watches it."""
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
        """Unlock the folder."""
        os.close(self._lock)

    def waiting(self) -> list[Path]:
        """List the complete files, oldest first."""
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

    def land(self, store: Store, stop: Callable[[], bool]) -> int:
        """Land the waiting files, small ones together, until `stop`; return how many were moved aside.

        Raises StoreError if the database fails; the files then stay, and are landed another time.
        """
        landed = self._resume(store)
        for batch in batches(map(Source.of, self._regular(self.waiting()))):
            if stop():
                break
            landed += self._land(store, [Path(source.name) for source in batch])
        return landed

    def clean(self, keep_days: float) -> int:
        """Remove files that were moved to done/ more than `keep_days` ago; return how many."""
        removed = 0
        for path in (self.folder / DONE).iterdir():
            # A rename changes st_ctime, and not st_mtime.
            if path.lstat().st_ctime < time.time() - keep_days * _DAY_S:
                path.unlink()
                removed += 1
        return removed

    def _resume(self, store: Store) -> int:
        try:
            names = json.loads((self.folder / _JOURNAL).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return 0
        return self._land_journal(store, [self.folder / name for name in names])

    def _land(self, store: Store, batch: Sequence[Path]) -> int:
        if len(batch) == 1:
            outcome = land_file(store, Source.of(batch[0]))
            self._move(batch[0], outcome)
            _log([outcome])
            return 1
        journal = self.folder / f"{_JOURNAL}.tmp"
        journal.write_text(json.dumps([path.name for path in batch]), encoding="utf-8")
        journal.rename(self.folder / _JOURNAL)
        return self._land_journal(store, batch)

    def _land_journal(self, store: Store, batch: Sequence[Path]) -> int:
        """Land the files of the journal, move them aside, and only then remove the journal."""
        present = [path for path in batch if path.exists()]
        outcomes = land_together(store, [Source.of(path) for path in present])
        for path, outcome in zip(present, outcomes, strict=True):
            self._move(path, outcome)
        (self.folder / _JOURNAL).unlink()
        _log(outcomes)
        return len(present)

    def _regular(self, paths: Sequence[Path]) -> Iterator[Path]:
        """Yield regular files. Others are moved aside: a link could lead to what its writer may not read."""
        for path in paths:
            try:
                mode = path.lstat().st_mode
            except FileNotFoundError:
                continue
            if stat.S_ISREG(mode):
                yield path
            else:
                self._move(path, Outcome(str(path), 0, {}, error=f"{path}: is no regular file"))

    def _move(self, path: Path, outcome: Outcome) -> None:
        if not os.path.lexists(path):
            log.warning("file went away file=%r", path.name)
            return
        target = _free_path(self.folder / (FAILED if outcome.error else DONE) / path.name)
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
    """Lock a file until it is closed; raises BlockingIOError if another process has locked it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _log(outcomes: Sequence[Outcome]) -> None:
    new = [outcome for outcome in outcomes if outcome.repeat_of is None]
    log.info(
        "files landed files=%d landed=%d rejected=%d repeats=%d failed=%d",
        len(outcomes),
        sum(outcome.landed for outcome in new),
        sum(outcome.records - outcome.landed for outcome in new),
        len(outcomes) - len(new),
        sum(bool(outcome.error) for outcome in outcomes),
    )


def _free_path(path: Path) -> Path:
    """Return a path that does not exist: the given one, or with a number appended."""
    paths = chain([path], (path.with_name(f"{path.name}.{number}") for number in count(1)))
    return next(each for each in paths if not os.path.lexists(each))
