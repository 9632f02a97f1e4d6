"""The wide frame that Grafana makes of a series' rows, and whether a panel can draw it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from prism_ch.grafana.queries import Query, TimeRange
from tools.dashboards import style
from tools.dashboards.frames import Frame

#: Colour schemes that Grafana turns round already, so that low values are green or blue.
_TURNED = frozenset({"RdYlGn", "RdYlBu", "Spectral"})
#: Share of the asked range that states must fill; of less a reader sees slivers.
_FILLED = 0.05


@dataclass(frozen=True, slots=True)
class WideField:
    """One field of a wide frame: `labels` of a series, None for the times; None among `values` where it has no row."""

    name: str
    labels: Mapping[str, str] | None
    values: tuple[Any, ...]


def widen(frame: Frame) -> tuple[WideField, ...]:
    """Return the wide frame of long rows. It has times, then a field for each label and number, by label.

    As grafana-clickhouse-datasource does it: a field has null wherever only another label has a row. No rows, no
    fields.
    """
    if not frame.rows:
        return ()
    (time,) = frame.of_kind("time")
    texts, numbers = frame.of_kind("text"), frame.of_kind("number")
    times = tuple(dict.fromkeys(frame.values(time)))
    row_at = {at: row for row, at in enumerate(times)}
    labels = list(zip(*(frame.values(text) for text in texts), strict=True)) or [()] * len(frame.rows)
    found: dict[tuple[tuple[str, ...], str], list[Any]] = {}
    for number in numbers:
        for at, label, value in zip(frame.values(time), labels, frame.values(number), strict=True):
            found.setdefault((label, number), [None] * len(times))[row_at[at]] = value
    ordered = sorted(found, key=lambda key: (key[0], numbers.index(key[1])))
    series = (
        WideField(name, dict(zip(texts, label, strict=True)) or None, tuple(found[label, name]))
        for label, name in ordered
    )
    return (WideField(time, None, times), *series)


def problems(query: Query, frame: Frame, time_range: TimeRange) -> Iterator[str]:
    """Yield the reasons why a panel would mislead with the wide frame of a result."""
    if query.target.get("format") != 0 or not frame.rows or len(frame.of_kind("time")) != 1:
        return
    first, *series = widen(frame)
    times = [float(at) for at in first.values]
    custom = style.defaults(query.element).get("custom", {})
    if query.kind == "heatmap":
        yield from _heat_map(query.element["options"]["color"], times)
    if query.kind == "state-timeline":
        filled = (times[-1] - times[0]) * 1000 / (time_range.to_ms - time_range.from_ms)
        if filled < _FILLED:
            yield f"its states fill {filled:.1%} of the range"
    if query.kind in {"state-timeline", "timeseries"} and custom.get("drawStyle") != "bars":
        if not custom.get("spanNulls") and any(one.labels and _has_gap(one.values) for one in series):
            yield "has series with nulls between their points, which it does not span"
        if custom.get("showPoints") == "never" and any(_is_single(one.values) for one in series):
            yield "has a series of a single point, which it does not show"


def _heat_map(color: Mapping[str, Any], times: list[float]) -> Iterator[str]:
    gaps = {round(later - earlier, 3) for earlier, later in pairwise(times)}
    if len(gaps) > 1:
        yield f"its cells are as wide as its first gap, and it has {len(gaps)} kinds of gap"
    if color.get("scheme") in _TURNED and color.get("reverse"):
        yield "its colours run from loud to quiet"


def _has_gap(values: tuple[Any, ...]) -> bool:
    """Return whether a null stands between two values."""
    known = [place for place, value in enumerate(values) if value is not None]
    return bool(known) and known[-1] - known[0] + 1 > len(known)


def _is_single(values: tuple[Any, ...]) -> bool:
    return sum(value is not None for value in values) == 1
