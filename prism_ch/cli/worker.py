"""The command worker: one of the processes that the analysis is spread over."""

from __future__ import annotations

import logging
import os

import click

from prism_ch.cli.session import LOG_FORMAT, shared_options

#: What libraries of numerics take for themselves; the workers of a machine share its cores already.
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


@click.command(short_help="Work jobs for a scheduler, beside other machines.")
@click.argument("scheduler", metavar="SCHEDULER")
@click.option("--threads", type=click.IntRange(1, 1024), default=1, show_default=True, help="Jobs worked side by side.")
@click.option(
    "--memory-limit",
    default="auto",
    show_default=True,
    metavar="SIZE",
    help="Near this much memory, such as 4GiB, data move to disk; auto is this machine's, by threads of its cores.",
)
@shared_options
def worker(scheduler: str, threads: int, memory_limit: str) -> None:
    """Join a Dask scheduler, and work the jobs that it hands out, until stopped.

    The analysis, in `prism-ch serve`, `analyse` or `run`, spreads jobs over all workers of the scheduler that the
    setting `executor` names. Start one worker for each core: threads of one process hardly share the work. SCHEDULER is
    dask://HOST:PORT or HOST:PORT; it must run the same version of prism-ch.

    SIGTERM ends it once calls under way are finished and what it holds has been handed on, after 20 seconds at most.
    Whatever ends it, the others do what it had left. A scheduler that goes away is waited for.

    Needs Dask: pip install 'prism-ch[cluster]'.

    \b
    Examples:
      dask scheduler --host 10.0.0.5
      prism-ch worker dask://10.0.0.5:8786 --memory-limit 8GiB
    """
    for name in _THREADS:
        os.environ.setdefault(name, "1")
    from prism_ch.cluster.joining import work_for

    logging.basicConfig(level=logging.INFO, format=LOG_FORMAT)
    work_for(scheduler, threads=threads, memory_limit=memory_limit)
