"""The driver's client of the embedded engine, which asks the engine once a process what it is.

Importing this module starts the engine: see engine.open_folder(), which does.
"""

from __future__ import annotations

from clickhouse_connect.driver._backend.orchestration import InitializationResult
from clickhouse_connect.driver._chdbclient import ChdbClient
from clickhouse_connect.driver.query import TzSource

#: What the engine of this process has told of itself: version, zone and settings, the same for all folders.
_told: list[InitializationResult] = []


class EmbeddedClient(ChdbClient):
    """A client that goes by what earlier ones were told.

    Each statement of a reader has a connection of its own, and to list 1,300 settings takes longer than most of them.
    """

    def _init_common_settings(self, tz_source: TzSource) -> None:
        if _told:
            self._apply_init_result(_told[0])
        else:
            super()._init_common_settings(tz_source)

    def _apply_init_result(self, result: InitializationResult) -> None:
        super()._apply_init_result(result)
        _told[:] = [result]
