"""Sends a job's timeline as a trace for Perfetto, while it is made."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import nullcontext

from prism_ch.export.output import packer
from prism_ch.export.perfetto import export_trace
from prism_ch.export.reader import STREAM_FORMAT, Source
from prism_ch.serve.exchange import ClientGoneError, Exchange
from prism_ch.serve.page_ask import PageAsk
from prism_ch.serve.views import find_job, whole_number
from prism_ch.store.client import Store

#: What a file's name has of the job's; other letters mean something to a header or a folder.
_UNSAFE, _NAME_LETTERS = re.compile(r"[^A-Za-z0-9_.-]+"), 60


async def answer_trace(
    ask: PageAsk,
    records: Callable[[], Store] | None,
    exchange: Exchange,
    threads: ThreadPoolExecutor,
    given: Mapping[str, str],
    headers: Mapping[str, str],
) -> None:
    """Send the trace of a job that an address names. It has `job`, and `first` and `last` for some steps.

    A thread makes it, no faster than the client takes it; no more than two chunks of steps are held.

    Parameters: `records`, opens a connection for flow records, None for who may not read them.
    Raises NotThereError, UsageError, RequestError, EngineError before the first byte; after it the file gets no end.
    """
    loop, packs = asyncio.get_running_loop(), packer()
    first, last = (whole_number(given, name) if given.get(name) else None for name in ("first", "last"))
    job_id = given.get("job", "")
    name = f"{_UNSAFE.sub('-', job_id)[:_NAME_LETTERS] or 'job'}.pftrace.gz"

    async def send(piece: bytes) -> None:
        if not exchange.status:
            more = {"Content-Disposition": f'attachment; filename="{name}"'}
            await exchange.start(200, {**headers, **more}, compress=False)
        await exchange.send(piece)

    def write(piece: bytes) -> None:
        packed = packs.compress(piece)
        if packed:
            try:
                asyncio.run_coroutine_threadsafe(send(packed), loop).result()
            except CancelledError:
                raise ClientGoneError from None

    def make() -> None:
        job = find_job(ask, job_id)
        with nullcontext() if records is None else records() as store:
            source = Source(lambda query, parameters: ask.answer(query, parameters, STREAM_FORMAT), store)
            export_trace(source, job.job_id, write, first_step=first, last_step=last)

    await loop.run_in_executor(threads, make)
    await send(packs.flush())
    await exchange.end()
