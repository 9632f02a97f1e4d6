"""Up to when the flows have arrived."""

from __future__ import annotations

from dataclasses import dataclass

from prism_ch.settings import Settings
from prism_ch.store.client import Store
from prism_ch.store.statements import statement


@dataclass(frozen=True, slots=True)
class Watermark:
    """What ended before `at_ns`, nanoseconds since the epoch, is here; of the `exporters`, `silent` send no more."""

    at_ns: int
    exporters: int
    silent: int


def read_watermark(store: Store, *, silent_after_s: int, hold_s: int) -> Watermark:
    """Read how far the exporters have come; sql/queries/watermark.sql says how their clocks and silence count.

    Parameters: `silent_after_s`, after so long without a record an exporter no longer counts; `hold_s`, how far behind
    the others it may hold them back.
    """
    [row] = store.rows(statement("watermark"), {"silent_after_s": silent_after_s, "hold_s": hold_s})
    return Watermark(*row)


#: So long after the last flow windows without any are still worked: three steps of five minutes, and some. What stands
#: still for longer has ended.
_SILENCE_S = 1200


def silent_until_ns(store: Store, settings: Settings) -> int:
    """Return up to when windows are closed though they hold no flow, 0 where the cluster is not silent."""
    serve = settings.serve
    span = {"silent_after_s": serve.silent_after_s, "prompt_s": serve.hold_s}
    last_ns: int = store.scalar(statement("silence"), span)
    return min(closed_until_ns(store, settings), last_ns + _SILENCE_S * 10**9) if last_ns else 0


def closed_until_ns(store: Store, settings: Settings) -> int:
    """Return up to when windows are closed: their flows have arrived, and late ones were waited for."""
    serve = settings.serve
    watermark = read_watermark(store, silent_after_s=serve.silent_after_s, hold_s=serve.hold_s)
    return watermark.at_ns - settings.lateness_s * 10**9
