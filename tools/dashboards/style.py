"""Writes values by a panel's settings: units, decimals, colours."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

#: Grafana's colours for series, in their order, and its named colours.
PALETTE = (
    "#73bf69", "#f2cc0c", "#8ab8ff", "#ff780a", "#f2495c", "#5794f2",
    "#b877d9", "#705da0", "#37872d", "#fade2a", "#96d98d", "#ffb357",
)  # fmt: skip
COLORS = {
    "green": "#73bf69",
    "yellow": "#fade2a",
    "orange": "#ff9830",
    "dark-orange": "#fa6400",
    "red": "#f2495c",
    "blue": "#5794f2",
    "purple": "#b877d9",
}
TEXT, FAINT, CARD, BACKGROUND = "#ccccdc", "#8e8ea0", "#181b1f", "#111217"

#: From 0 to 255, as tinycolor has it.
_BRIGHT = 180
_SCALES = (("P", 1e15), ("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3))
_SUFFIXES = {"bps": "b/s", "decbytes": "B", "cps": "/s", "short": ""}


def color(name: str) -> str:
    """Return the code of a named colour; codes stay."""
    return COLORS.get(name, name)


def defaults(panel: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings for all values of a panel."""
    found: dict[str, Any] = panel.get("fieldConfig", {}).get("defaults", {})
    return found


def settings(panel: Mapping[str, Any], column: str) -> dict[str, Any]:
    """Return the settings of a column: the panel's defaults and its own."""
    found = dict(defaults(panel))
    for override in panel.get("fieldConfig", {}).get("overrides", ()):
        if override["matcher"] == {"id": "byName", "options": column}:
            found |= {setting["id"]: setting["value"] for setting in override["properties"]}
    return found


def formatted(value: Any, unit: str = "", decimals: int | None = None) -> str:
    """Write a value in a unit."""
    if value is None:
        return "-"
    if not isinstance(value, int | float):
        return str(value)
    if unit == "percentunit":
        return f"{value:.{1 if decimals is None else decimals}%}".replace("-0%", "0%")
    if unit == "s":
        return _duration(float(value), decimals)
    if unit in _SUFFIXES:
        return (_scaled(float(value), decimals) + _SUFFIXES[unit]).rstrip()
    digits = decimals if decimals is not None else 0 if float(value).is_integer() else 2
    thousands = "," if unit == "locale" else ""
    return f"{value:{thousands}.{digits}f}{unit.removeprefix('suffix:') if unit.startswith('suffix:') else ''}"


def time_of_day(seconds: float) -> str:
    """Write a time of day, UTC."""
    return f"{datetime.fromtimestamp(seconds, UTC):%H:%M:%S}"


def day_and_time(seconds: float) -> str:
    """Write a time, UTC, as Grafana does in tables."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S}"


def threshold_color(value: Any, found: Mapping[str, Any]) -> str:
    """Return the colour of the highest threshold that a value reaches."""
    reached = TEXT
    for step in found.get("thresholds", {}).get("steps", ()):
        if step.get("value") is None or (isinstance(value, int | float) and value >= step["value"]):
            reached = color(step["color"])
    return reached


def mapped(value: Any, found: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """Return the text and the colour that a value is mapped to. None is no mapping."""
    for mapping in found.get("mappings") or ():
        if hit := mapping["options"].get(str(value)):
            return hit.get("text"), color(hit["color"]) if "color" in hit else None
    return None, None


def on(background: str) -> str:
    """Return the colour in which Grafana writes on a background. On a bright one it is black."""
    red, green, blue = (int(background[place : place + 2], 16) for place in (1, 3, 5))
    return "#202226" if (299 * red + 587 * green + 114 * blue) / 1000 > _BRIGHT else "#f7f8fa"


def _duration(seconds: float, decimals: int | None) -> str:
    for unit, length in (("h", 3600.0), ("min", 60.0), ("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if abs(seconds) >= length or unit == "µs":
            return f"{seconds / length:.{2 if decimals is None else min(decimals, 2)}f} {unit}" if seconds else "0 s"
    return ""


def _scaled(value: float, decimals: int | None) -> str:
    for prefix, size in _SCALES:
        if abs(value) >= size:
            return f"{value / size:.{1 if decimals is None else decimals}f} {prefix}"
    return (f"{value:.0f}" if value.is_integer() else f"{value:.{1 if decimals is None else decimals}f}") + " "
