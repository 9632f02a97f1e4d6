"""The looks of values in panels: units, colours of severities and states, links to other dashboards."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.models import dashboard as model

#: From quiet to loud, alike in dark and light. Nothing is told by green against red.
GREY, BLUE, AMBER, RED = "#6b6f77", "#2f6fd0", "#9a6700", "#c9283c"
SECONDS, SHARE, COUNT, BITS, BYTES, RECORDS, PLAIN = "s", "percentunit", "short", "bps", "decbytes", "cps", "none"
#: With commas between thousands.
LARGE = "locale"

SEVERITIES = {"critical": RED, "warning": AMBER, "info": BLUE}
STATES = {
    "running": BLUE,
    "stalled": RED,
    "ended": GREY,
    "open": AMBER,
    "closed": GREY,
    "failed": RED,
    "worked": BLUE,
}
LIGHTS = {"ok": BLUE, "warn": AMBER, "bad": RED}
TRUSTED = {"yes": BLUE, "in part": AMBER, "no": RED}
#: Kinds of incidents and findings in words.
KINDS = {
    "slow_step": "slow steps",
    "slow_group": "slow group",
    "slow_switch": "slow switch",
    "slow_gpu": "slow GPU",
    "slow_nic": "slow NIC",
    "slow_link": "slow link",
    "congestion": "congestion",
    "stall": "stall",
    "hang": "hang",
    "restart": "restart",
    "imbalance": "imbalance",
    "telemetry": "telemetry",
}
#: Hues of Okabe and Ito (2002), lighter or darker, so that letters can be read on them.
PHASES = {
    0: ("-", "#3c3f46"),
    1: ("C", "#00805f"),
    2: ("PP", "#9fd0f5"),
    3: ("DP", "#f0b840"),
    4: ("EP", "#a8438c"),
    5: ("CP", "#f7f3c4"),
    6: ("TP", "#1e4f9e"),
}
#: The grey of no incident is as quiet as the panel.
SEVERITY_NUMBERS = {0: ("none", "#8080801a"), 1: ("info", BLUE), 2: ("warning", AMBER), 3: ("critical", RED)}

#: Properties of one column of a table.
Property = model.DynamicConfigValue
#: Properties of columns, by name.
Columns = dict[str, list[Property]]


def thresholds(*steps: tuple[float | None, str]) -> build.ThresholdsConfig:
    """Return thresholds: lowest value and colour of each; the first value is None."""
    built = [model.Threshold(value=value, color=color) for value, color in steps]
    return build.ThresholdsConfig().mode(model.ThresholdsMode.ABSOLUTE).steps(built)


def unit(name: str, decimals: int | None = None) -> list[Property]:
    """Show a column in a unit."""
    found = [Property(id_val="unit", value=name)]
    return found if decimals is None else [*found, Property(id_val="decimals", value=decimals)]


def width(pixels: int) -> list[Property]:
    """Give a column a width."""
    return [Property(id_val="custom.width", value=pixels)]


def least(pixels: int) -> list[Property]:
    """Give a column a least width; it takes what room there is."""
    return [Property(id_val="custom.minWidth", value=pixels)]


def colored(texts: dict[str, str]) -> list[Property]:
    """Colour the cells of a column by their texts. Grafana writes on them in black or white."""
    shown = {text: (text, tint) for text, tint in texts.items()}
    return [*_mapped(shown), Property(id_val="custom.cellOptions", value={"type": "color-background", "mode": "basic"})]


def kinds() -> list[Property]:
    """Write a column's kinds of incidents in words."""
    options = {kind: {"text": text, "index": place} for place, (kind, text) in enumerate(KINDS.items())}
    return [Property(id_val="mappings", value=[{"type": "value", "options": options}])]


def unknown(text: str) -> list[Property]:
    """Write in a column what a missing number means."""
    return [Property(id_val="noValue", value=text)]


def _mapped(texts: Mapping[int, tuple[str, str]] | Mapping[str, tuple[str, str]]) -> list[Property]:
    """Show values as texts in colours, in their order."""
    options = {
        str(value): {"text": text, "color": tint, "index": place}
        for place, (value, (text, tint)) in enumerate(texts.items())
    }
    return [Property(id_val="mappings", value=[{"type": "value", "options": options}])]


def heat(*steps: tuple[float | None, str]) -> list[Property]:
    """Colour a column's cells by thresholds. Between colours that are mixed, letters can't be read."""
    return [
        *steps_of(*steps),
        Property(id_val="color", value={"mode": "thresholds"}),
        Property(id_val="custom.cellOptions", value={"type": "color-background", "mode": "basic"}),
    ]


def states(texts: dict[int, tuple[str, str]]) -> list[Property]:
    """Show a column's numbers as texts on colours."""
    cells = Property(id_val="custom.cellOptions", value={"type": "color-background", "mode": "basic"})
    return [*_mapped(texts), cells, *width(42)]


def wrapped(pixels: int) -> list[Property]:
    """Wrap a column's texts, and give it the room that is left.

    Grafana before 11.6 knows `cellOptions.wrapText`, later ones `custom.wrapText`.
    """
    return [
        Property(id_val="custom.cellOptions", value={"type": "auto", "wrapText": True}),
        Property(id_val="custom.wrapText", value=True),
        *least(pixels),
    ]


def wrapped_in(pixels: int) -> list[Property]:
    """Wrap a column's texts in a width of its own."""
    *wraps, _ = wrapped(pixels)
    return [*wraps, *width(pixels)]


def steps_of(*steps: tuple[float | None, str]) -> list[Property]:
    """Give a column thresholds of its own."""
    built = [{"value": value, "color": color} for value, color in steps]
    return [Property(id_val="thresholds", value={"mode": "absolute", "steps": built})]


def gauge(low: float, high: float, *steps: tuple[float | None, str]) -> list[Property]:
    """Show a column as bars, coloured by thresholds, beside numbers that are not."""
    return [
        Property(id_val="min", value=low),
        Property(id_val="max", value=high),
        *steps_of(*steps),
        Property(id_val="custom.cellOptions", value={"type": "gauge", "mode": "basic", "valueDisplayMode": "text"}),
    ]


def hidden() -> list[Property]:
    """Keep a column out of sight; links may still use it."""
    return [Property(id_val="custom.hidden", value=True)]


def link(title: str, dashboard: str, variable: str, column: str | None = None) -> list[Property]:
    """Link a column's cells to a dashboard.

    Parameters: `variable` of that dashboard, set to the cell's value or to that of another `column`.
    """
    value = "__value.raw" if column is None else f'__data.fields["{column}"]'
    return [Property(id_val="links", value=[{"title": title, "url": url(dashboard, variable, value)}])]


def url(dashboard: str, variable: str, value: str) -> str:
    """Return the address of a dashboard with one variable set, at the same time range."""
    chosen = f"var-{variable}=${{{value}:percentencode}}&var-datasource=${{datasource}}"
    return f"/d/prism-{dashboard}?{chosen}&${{__url_time_range}}"


def numbers(texts: dict[int, tuple[str, str]]) -> list[Any]:
    """Return value mappings of numbers to texts and colours."""
    options = {
        str(number): model.ValueMappingResult(text=text, color=color, index=number)
        for number, (text, color) in texts.items()
    }
    return [model.ValueMap(options=options)]


def color(name: str) -> list[Property]:
    """Give a line a colour of its own."""
    return [Property(id_val="color", value={"mode": "fixed", "fixedColor": name})]


def band(low: str) -> list[Property]:
    """Fill the space down to another line, and draw no line."""
    return [
        Property(id_val="custom.fillBelowTo", value=low),
        Property(id_val="custom.fillOpacity", value=15),
        *invisible(),
    ]


def invisible() -> list[Property]:
    """Draw no line."""
    return [Property(id_val="custom.lineWidth", value=0), *color(GREY)]
