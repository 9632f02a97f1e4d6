"""Lands the files of the spool, a folder, once each, and moves them aside."""

from __future__ import annotations

import fcntl
import hashlib
import logging
import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path, PurePath

from prism_ch.daemon.journal import Entry, Journal, write_new
from prism_ch.errors import InputError, PrismError, SettingsError
from prism_ch.ingest.files import batches, land_together
from prism_ch.ingest.landing import Outcome, land_file
from prism_ch.ingest.refusal import printable
from prism_ch.ingest.sources import Source
from prism_ch.store.client import Store

log = logging.getLogger(__name__)

DONE, FAILED = "done", "failed"
#: Ends of the names of files that are still being written; names that start with a dot are the other sign.
UNFINISHED = (".tmp", ".part")

_LOCK, _JOURNAL = ".lock", ".together.json"
_DAY_S = 86_400
#: A file that could not land or be moved is tried again after the first time, and given up after the second, seconds.
_RETRY_S, _GIVE_UP_S = 5.0, 60.0
#: A file at which the process ended this often is given up: nothing else ends one at the same file again and again.
_ATTEMPTS_MAX = 5
#: A longer name, in bytes, is cut, so that a number and .error fit behind it: file systems take 255.
_NAME_BYTES = 200


@dataclass(slots=True)
class _KeptBack:
    """A file that stays in the spool, and when it is tried again; times are of the steady clock.

    `together` are the names of all files that were landed with it and stay: the database may know them as a group.
    """

    reason: str
    since_s: float
    rests_until_s: float
    together: tuple[str, ...] = ()


class Spool:
    """A folder that only this process watches.

    Files appear in it whole, under their final names: written elsewhere on the same file system and renamed. Each is
    landed once, by its content, and moved to done/, or to failed/ with the reason in a file .error next to it.

    No file keeps others from landing: what is wrong with one is settled for it alone. If the process is killed, a file
    that has landed and was not moved is recognised as a repeat, and files that were being landed together are named in
    a journal, so that the very same statement is sent again.
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
        self._journal = Journal(self.folder / _JOURNAL)
        self._is_resumed = False
        self._kept_back: dict[str, _KeptBack] = {}
        #: Why files could not be moved in this round.
        self._unmoved: list[str] = []

    def close(self) -> None:
        """Unlock the folder."""
        os.close(self._lock)

    def kept_back(self) -> Mapping[str, str]:
        """Return why files are still in the spool though they were tried, by name."""
        return {printable(name): kept.reason for name, kept in list(self._kept_back.items())}

    def waiting(self) -> list[Path]:
        """List the complete files, oldest first."""
        found = []
        with os.scandir(self.folder) as entries:
            for entry in entries:
                if not _is_complete(entry.name) or entry.is_dir(follow_symlinks=False):
                    continue
                try:
                    found.append((entry.stat(follow_symlinks=False).st_mtime_ns, entry.name))
                except FileNotFoundError:
                    continue
        return [self.folder / name for _, name in sorted(found)]

    def land(self, store: Store, stop: Callable[[], bool]) -> int:
        """Land the waiting files, small ones together, until `stop`; return how many were moved aside.

        Raises StoreError if the database fails, PrismError if no file can be moved; the files then stay, and are landed
        another time.
        """
        self._unmoved.clear()
        landed = self._resume(store)
        waiting = self.waiting()
        for name in self._kept_back.keys() - {path.name for path in waiting}:
            del self._kept_back[name]
        for batch in self._batches(self._due(waiting)):
            if stop():
                break
            landed += self._land(store, batch)
        if self._unmoved and not landed:
            raise PrismError(self._unmoved[0])
        return landed

    def clean(self, keep_days: float) -> int:
        """Remove files that were moved to done/ more than `keep_days` ago; return how many."""
        removed = 0
        for path in self._aside(DONE).iterdir():
            # A rename changes st_ctime, and not st_mtime.
            if path.lstat().st_ctime < time.time() - keep_days * _DAY_S and not path.is_dir():
                path.unlink()
                removed += 1
        return removed

    def _resume(self, store: Store) -> int:
        """Land what the journal names. What is no journal is moved to failed/."""
        try:
            entry = self._journal.read()
        except InputError as error:
            self._move(self._journal.path, Outcome(_JOURNAL, 0, {}, error=str(error)), name="journal.json")
            return 0
        if entry is None:
            return 0
        paths = list(self._regular([self.folder / name for name in entry.names if _is_complete(name)]))
        # What ended another process may end this one; an outage of the database ends none.
        attempts = entry.attempts + (not self._is_resumed)
        self._is_resumed = True
        if attempts <= _ATTEMPTS_MAX:
            return self._land(store, paths, attempts)
        if len(paths) > 1:
            return sum(self._land(store, [path]) for path in paths)
        reason = f"the process ended {entry.attempts} times while it was landed; does it need too much memory?"
        for path in paths:
            self._move(path, Outcome(str(path), 0, {}, error=f"{printable(str(path))}: {reason}"))
        self._journal.remove()
        return len(paths)

    def _land(self, store: Store, batch: Sequence[Path], attempts: int = 1) -> int:
        """Land files and move them aside; return how many were moved.

        The journal is removed only then.
        """
        sources = [Source.of(path) for path in batch]
        if batch:
            self._journal.write(Entry(tuple(path.name for path in batch), attempts))
        outcomes = land_together(store, sources) if len(batch) > 1 else [land_file(store, each) for each in sources]
        now_s = time.monotonic()
        moved = [self._settle(path, outcome, now_s) for path, outcome in zip(batch, outcomes, strict=True)]
        together = tuple(path.name for path, is_moved in zip(batch, moved, strict=True) if not is_moved)
        for name in together:
            if len(together) > 1 and name in self._kept_back:
                self._kept_back[name].together = together
        self._journal.remove()
        if outcomes:
            _log(outcomes)
        return sum(moved)

    def _batches(self, paths: Iterable[Path]) -> Iterator[list[Path]]:
        """Group files by what lands together. Those that were kept back together are a group."""
        kept: dict[tuple[str, ...], list[Path]] = {}
        others = []
        for path in paths:
            together = self._kept_back[path.name].together if path.name in self._kept_back else ()
            if together:
                kept.setdefault(together, []).append(path)
            else:
                others.append(path)
        yield from kept.values()
        for batch in batches(map(Source.of, others)):
            yield [source.path for source in batch if source.path is not None]

    def _due(self, paths: Sequence[Path]) -> Iterator[Path]:
        """Yield regular files that do not rest."""
        kept_back = self._kept_back
        resting = {name for name, kept in kept_back.items() if time.monotonic() < kept.rests_until_s}
        yield from self._regular([path for path in paths if path.name not in resting])

    def _regular(self, paths: Sequence[Path]) -> Iterator[Path]:
        """Yield regular files. Others are moved aside: a link could lead to what its writer may not read."""
        for path in paths:
            try:
                mode = path.lstat().st_mode
            except OSError:
                continue
            if stat.S_ISREG(mode):
                yield path
            elif not stat.S_ISDIR(mode):
                self._move(path, Outcome(str(path), 0, {}, error=f"{printable(str(path))}: is no regular file"))

    def _settle(self, path: Path, outcome: Outcome, now_s: float) -> bool:
        """Move a file aside, unless trying again may help; return whether it was moved."""
        if outcome.may_pass and self._keep_back(path, outcome.error, now_s) < _GIVE_UP_S:
            return False
        return self._move(path, outcome)

    def _keep_back(self, path: Path, reason: str, now_s: float) -> float:
        """Let a file rest; return for how long it has been kept back, in seconds."""
        since_s = self._kept_back[path.name].since_s if path.name in self._kept_back else now_s
        self._kept_back[path.name] = _KeptBack(reason, since_s, now_s + _RETRY_S)
        log.warning("file kept back file=%r error=%r", path.name, reason)
        return now_s - since_s

    def _move(self, path: Path, outcome: Outcome, name: str | None = None) -> bool:
        """Move a file to done/ or failed/; return whether it was moved."""
        if not os.path.lexists(path):
            log.warning("file went away file=%r", path.name)
            return False
        aside = FAILED if outcome.error else DONE
        try:
            target = _free_path(self._aside(aside) / fitting_name(name or path.name))
            if outcome.error:
                write_new(target.with_name(f"{target.name}.error"), f"{outcome.error}\n")
            path.rename(target)
        except OSError as error:
            self._unmoved.append(f"{path}: can't be moved to {self.folder / aside}: {error.strerror}; mend its rights")
            self._keep_back(path, self._unmoved[-1], time.monotonic())
            return False
        self._kept_back.pop(path.name, None)
        log.log(
            logging.WARNING if outcome.error else logging.DEBUG,
            "file landed file=%r landed=%d rejected=%d repeat=%s error=%r",
            path.name,
            outcome.landed,
            outcome.records - outcome.landed,
            outcome.repeat_of is not None,
            outcome.error,
        )
        return True

    def _aside(self, name: str) -> Path:
        """Return the folder done or failed, made anew if it is gone. What else has its name is put aside."""
        folder = self.folder / name
        if os.path.lexists(folder) and not stat.S_ISDIR(folder.lstat().st_mode):
            # A link could lead to where the files' writers may not write.
            folder.rename(_free_path(self.folder / f".{name}"))
        folder.mkdir(exist_ok=True)
        return folder


def _is_complete(name: str) -> bool:
    """Return whether a name is one under which whole files wait."""
    return not name.startswith(".") and not name.endswith(UNFINISHED)


def fitting_name(name: str) -> str:
    """Return a name as valid text that leaves room for an ending.

    What can't be printed is escaped; a name that is too long is cut, and has a digest.
    """
    text = printable(name)
    if len(text.encode()) <= _NAME_BYTES:
        return text
    digest = hashlib.blake2b(os.fsencode(name), digest_size=4).hexdigest()
    ending = "".join(suffix for suffix in PurePath(text).suffixes[-2:] if len(suffix.encode()) <= 10)
    return text.encode()[: _NAME_BYTES - 40].decode("utf-8", "ignore") + f"~{digest}{ending}"


def _lock(path: Path) -> int:
    """Lock a file until it is closed; raises BlockingIOError if another process has locked it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
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
    """Find a path that does not exist, nor with .error behind it. A number is appended if needed."""
    paths = chain([path], (path.with_name(f"{path.name}.{number}") for number in count(1)))
    return next(each for each in paths if not os.path.lexists(each) and not os.path.lexists(f"{each}.error"))
