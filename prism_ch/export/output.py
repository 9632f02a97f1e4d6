"""Writes a file in pieces, packed where its name ends in .gz; one that exists is replaced when the new one is whole."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from prism_ch.errors import InputError

#: Packs a trace to less than a fourth; the default of zlib takes four times as long for a fifth less.
_LEVEL = 2
#: Tells zlib to write the header of gzip, with the largest window.
_GZIP = 16 + zlib.MAX_WBITS


def packer() -> zlib._Compress:
    """Make what packs a trace as gzip does."""
    return zlib.compressobj(_LEVEL, wbits=_GZIP)


class Output:
    """Takes a file's bytes; a thread packs and writes them meanwhile. `size` counts what it wrote."""

    def __init__(self, file: IO[bytes], thread: ThreadPoolExecutor, *, packed: bool) -> None:
        self.size = 0
        self._file = file
        self._thread = thread
        self._packer = packer() if packed else None
        self._last: Future[None] | None = None

    def write(self, piece: bytes) -> None:
        """Write a piece once the one before it is written, so that few are held."""
        self.finish()
        self._last = self._thread.submit(self._write, piece, ends=False)

    def close(self) -> None:
        """Write the end of the file."""
        self.finish()
        self._write(b"", ends=True)

    def finish(self) -> None:
        """Wait for the last piece. Raises OSError if it can't be written."""
        if self._last is not None:
            self._last.result()

    def _write(self, piece: bytes, *, ends: bool) -> None:
        if self._packer is not None:
            piece = self._packer.compress(piece) + (self._packer.flush() if ends else b"")
        self._file.write(piece)
        self.size += len(piece)


@contextmanager
def replaced(path: Path) -> Iterator[Output]:
    """Open a file to be written while a block runs.

    It takes its name when the block ends without an error; until then a file of that name is left alone. What is no
    regular file, as a pipe, is written directly. Raises InputError if the file can't be written.
    """
    direct = path.exists() and not path.is_file()
    part = path if direct else path.with_name(f"{path.name}.part")
    try:
        with part.open("wb") as file, ThreadPoolExecutor(1, "write trace") as thread:
            output = Output(file, thread, packed=path.suffix == ".gz")
            yield output
            output.close()
        if not direct:
            part.replace(path)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise InputError(f"{path}: can't be written: {error.strerror}") from error
    finally:
        if not direct:
            part.unlink(missing_ok=True)
