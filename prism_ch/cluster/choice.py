"""The executor that the settings name, for as long as a command or a service runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from prism_ch.analysis.executor import Executor
from prism_ch.cluster.executor import DaskExecutor
from prism_ch.settings import LOCAL, AnalysisSettings


@contextmanager
def chosen_executor(settings: AnalysisSettings) -> Iterator[Executor | None]:
    """Have the executor of the settings while a block runs.

    It is None where windows are worked in this process.
    Raises ClusterError if Dask is not installed. The scheduler is connected to when the first window needs it.
    """
    if settings.executor == LOCAL:
        yield None
    else:
        with DaskExecutor(settings.executor) as executor:
            yield executor
