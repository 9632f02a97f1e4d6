"""Draws each kind of panel into axes of a figure."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, to_rgb
from matplotlib.ticker import FuncFormatter, MaxNLocator

from tools.dashboards import fit, style
from tools.dashboards.fields import AMBER
from tools.dashboards.frames import Frame, is_matrix
from tools.dashboards.style import CARD, FAINT, PALETTE, TEXT
from tools.dashboards.wide import WideField, widen

#: Quiet to loud.
_LOUD = LinearSegmentedColormap.from_list("loud", [CARD, AMBER])
FloatCells = npt.NDArray[np.float64]
#: Heights of a table's row and of a further line in it, inches.
_ROW, _LINE = 0.31, 0.16


@dataclass(frozen=True, slots=True)
class Canvas:
    """Where a panel is drawn.

    `axes` are `width` by `height` inches. `span` is the time range, `marks` the spans to mark, both in seconds.
    """

    axes: Axes
    width: float
    height: float
    span: tuple[float, float]
    marks: Sequence[tuple[float, float]]


def draw(panel: Mapping[str, Any], frames: Mapping[str, Frame], canvas: Canvas) -> None:
    """Draw the results of a panel's queries.

    Parameters: `frames`, by the refId of the query.
    """
    kind = panel["type"]
    if kind == "nodeGraph":
        _graph(frames["nodes"], frames["edges"], canvas)
    elif is_matrix(panel):
        _matrix(panel, frames["A"], canvas)
    else:
        _DRAWN[kind](panel, frames["A"], canvas)


def _series(panel: Mapping[str, Any], frame: Frame) -> dict[str, tuple[list[float], list[Any]]]:
    """Return times and values of each series as Grafana makes them, by name.

    Nulls that a panel spans are left out.
    """
    spans = style.defaults(panel).get("custom", {}).get("spanNulls")
    times, *fields = widen(frame) or (WideField("time", None, ()),)
    found: dict[str, tuple[list[float], list[Any]]] = {}
    for one in fields:
        kept = [row for row, value in enumerate(one.values) if value is not None or not spans]
        if kept:
            name = " ".join(one.labels.values()) if one.labels else one.name
            found[name] = [float(times.values[row]) for row in kept], [one.values[row] for row in kept]
    return found


def _time_axis(canvas: Canvas) -> None:
    """Show the time range on the horizontal axis, and mark spans in it."""
    axes = canvas.axes
    axes.set_xlim(*canvas.span)
    axes.xaxis.set_major_locator(MaxNLocator(max(int(canvas.width), 3)))
    # Minutes would repeat themselves on a short span.
    letters = 5 if np.ptp(canvas.span) > 60 * canvas.width else 8
    axes.xaxis.set_major_formatter(FuncFormatter(lambda at, _: style.time_of_day(at)[:letters]))
    axes.tick_params(colors=FAINT, labelsize=7, length=0)
    for side in axes.spines.values():
        side.set_visible(False)
    for start, end in canvas.marks:
        axes.axvspan(start, end, color="#ff9830", alpha=0.08, linewidth=0)
        axes.axvline(start, color="#ff9830", alpha=0.5, linewidth=0.6, linestyle="--")


def _lines(panel: Mapping[str, Any], frame: Frame, canvas: Canvas) -> None:
    """Draw lines, bands, stacked areas or bars."""
    axes, series = canvas.axes, _series(panel, frame)
    custom = style.defaults(panel).get("custom", {})
    stacked = custom.get("stacking", {}).get("mode") == "normal"
    base: dict[float, float] = {}
    for place, (name, (times, values)) in enumerate(series.items()):
        found = style.settings(panel, name)
        tint = style.color(found.get("color", {}).get("fixedColor", PALETTE[place % len(PALETTE)]))
        tops = np.array([np.nan if value is None else float(value) for value in values])
        if custom.get("drawStyle") == "bars" and not stacked:
            axes.bar(times, tops, width=np.ptp(canvas.span) / 200, color=tint, label=name)
            continue
        if stacked:
            below = np.array([base.get(at, 0.0) for at in times])
            base |= dict(zip(times, below + np.nan_to_num(tops), strict=True))
            if custom.get("drawStyle") == "bars":
                axes.bar(times, tops, bottom=below, width=np.ptp(canvas.span) / 90, color=tint, label=name)
            else:
                axes.fill_between(times, below, below + tops, color=tint, alpha=0.6, linewidth=0, label=name)
            continue
        lower = found.get("custom.fillBelowTo")
        if lower in series:
            axes.fill_between(times, np.array(series[lower][1], dtype=float), tops, color=tint, alpha=0.18, linewidth=0)
        if found.get("custom.lineWidth") != 0:
            axes.plot(times, tops, color=tint, linewidth=1.1, label=name)
    for step in style.defaults(panel).get("thresholds", {}).get("steps", ())[1:]:
        axes.axhline(step["value"], color=style.color(step["color"]), linewidth=0.8, linestyle="--")
    unit = style.defaults(panel).get("unit", "")
    axes.set_ylim(style.defaults(panel).get("min"), style.defaults(panel).get("max"))
    axes.yaxis.set_major_locator(MaxNLocator(5))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: style.formatted(float(value), unit)))
    axes.grid(axis="y", color="#2c2f36", linewidth=0.5)
    _time_axis(canvas)
    _legend(axes, int(canvas.width))


def _legend(axes: Axes, columns: int) -> None:
    """Name the series below the axes, as many as two lines hold."""
    handles, names = axes.get_legend_handles_labels()
    number = max(min(len(names), 2 * columns), 0)
    if number:
        axes.legend(
            handles[:number], names[:number], loc="upper center", bbox_to_anchor=(0.5, -0.1), ncol=min(number, columns),
            fontsize=6.5, frameon=False, labelcolor=TEXT, handlelength=1, columnspacing=1,
        )  # fmt: skip


def _heat_map(panel: Mapping[str, Any], frame: Frame, canvas: Canvas) -> None:
    axes, series = canvas.axes, _series(panel, frame)
    unit, top = style.defaults(panel).get("unit", ""), panel["options"]["color"]["max"]
    names = sorted(series)
    for row, name in enumerate(names):
        times, values = series[name]
        edges = np.append(times, times[-1] + (times[-1] - times[0]) / max(len(times) - 1, 1))
        cells = np.array([np.nan if value is None else float(value) for value in values])
        axes.pcolormesh(edges, [row - 0.5, row + 0.5], cells[None, :], cmap=_LOUD, vmin=0, vmax=top)
    axes.set_yticks(range(len(names)), names)
    _time_axis(canvas)
    axes.tick_params(axis="y", labelsize=min(7, 60 * canvas.height / max(len(names), 1)))
    scale = f"0 to {style.formatted(top, unit, 0)}"
    axes.text(1, 1.01, scale, transform=axes.transAxes, ha="right", va="bottom", color=FAINT, fontsize=6.5)


def _states(panel: Mapping[str, Any], frame: Frame, canvas: Canvas) -> None:
    axes, series = canvas.axes, _series(panel, frame)
    texts = style.defaults(panel)["mappings"][0]["options"]
    names = sorted(series, reverse=True)
    last = max((times[-1] for times, _ in series.values()), default=canvas.span[1])
    first = min((times[0] for times, _ in series.values()), default=canvas.span[0])
    for row, name in enumerate(names):
        times, values = series[name]
        spans = list(zip(times, np.diff([*times, last]), strict=True))
        axes.broken_barh(
            spans, (row - 0.4, 0.8), facecolors=[style.color(texts[str(value)]["color"]) for value in values]
        )
    axes.set_yticks(range(len(names)), names)
    inner = Canvas(axes, canvas.width, canvas.height, (max(first, canvas.span[0]), last), ())
    _time_axis(inner)
    for place, option in enumerate(texts.values()):
        tint, left = style.color(option["color"]), 0.02 + place * 0.09
        axes.text(left, -0.16, "■", transform=axes.transAxes, color=tint, fontsize=7)
        axes.text(left + 0.02, -0.16, option["text"], transform=axes.transAxes, color=TEXT, fontsize=7)


def _stat(panel: Mapping[str, Any], frame: Frame, canvas: Canvas) -> None:
    axes = _blank(canvas)
    for place, name in enumerate(frame.names):
        found = style.settings(panel, name)
        value = frame.rows[0][place] if frame.rows else None
        colored = panel["options"]["colorMode"] == "value"
        tint = style.threshold_color(value, found) if colored else TEXT
        middle, share = (place + 0.5) / len(frame.names), canvas.width / len(frame.names)
        text = style.formatted(value, found.get("unit", ""), found.get("decimals"))
        size = min(22.0, 105 * share / max(len(text), 4))
        axes.text(middle, 0.38, text, ha="center", va="center", color=tint, fontsize=size, weight="bold")
        axes.text(middle, 0.86, name, ha="center", va="center", color=FAINT, fontsize=min(8.0, 110 * share / len(name)))


def _table(panel: Mapping[str, Any], frame: Frame, canvas: Canvas) -> None:
    """Write rows of texts, as many as fit, wrapped or cut as their columns are."""
    axes = _blank(canvas)
    if not frame.rows:
        _say_nothing(panel, axes)
        return
    columns = [name for name in frame.names if not style.settings(panel, name).get("custom.hidden")]
    times = set(frame.of_kind("time"))
    rows_max = max(int(canvas.height / _ROW) - 1, 1)
    texts = {
        name: [_cell(panel, name, value, name in times) for value in frame.values(name)[:rows_max]] for name in columns
    }
    wraps = {name: bool(style.settings(panel, name).get("custom.wrapText")) for name in columns}
    widths = np.array(list(fit.column_widths(panel, columns, fit.PAGES[-1]).values()))
    starts = np.concatenate([[0], np.cumsum(widths)]) / widths.sum()
    letters = [int(share * canvas.width * 16.5) for share in np.diff(starts)]
    top = 0.1 + _ROW
    for place, name in enumerate(columns):
        left, title = starts[place] + 0.003, name[: letters[place]]
        axes.text(left, 1 - 0.1 / canvas.height, title, va="center", color="#6e9fff", fontsize=7)
    for row in range(len(texts[columns[0]])):
        lines = [_fitted(texts[name][row], letters[place], wraps[name]) for place, name in enumerate(columns)]
        if top + _LINE * max(map(len, lines)) > canvas.height:
            break
        for place, name in enumerate(columns):
            value, found = frame.values(name)[row], style.settings(panel, name)
            judged = "gauge" in str(found.get("custom.cellOptions"))
            _, mapped = style.mapped(value, found)
            box = {"facecolor": mapped, "edgecolor": "none", "pad": 1.5} if mapped else None
            tint = style.on(mapped) if mapped else style.threshold_color(value, found) if judged else TEXT
            for number, text in enumerate(lines[place]):
                at = 1 - (top + number * _LINE) / canvas.height
                axes.text(starts[place] + 0.003, at, text, va="center", color=tint, fontsize=7, bbox=box)
        top += _ROW + _LINE * (max(map(len, lines)) - 1)


def _fitted(text: str, letters: int, wraps: bool) -> list[str]:  # noqa: FBT001 - a column's way
    """Break a text into lines, or cut it."""
    if wraps:
        return textwrap.wrap(text, max(letters, 4)) or [""]
    return [text if len(text) <= letters else text[: max(letters - 1, 1)] + "…"]


def _cell(panel: Mapping[str, Any], name: str, value: Any, is_time: bool) -> str:  # noqa: FBT001 - a column's kind
    found = style.settings(panel, name)
    if is_time:
        return style.day_and_time(float(value))
    text, _ = style.mapped(value, found)
    if text is None and value is None:
        text = found.get("noValue")
    return text or style.formatted(value, found.get("unit", ""), found.get("decimals")).replace("\n", " ")


def _matrix(panel: Mapping[str, Any], frame: Frame, canvas: Canvas) -> None:
    axes = canvas.axes
    row_name, column_name, _ = frame.names
    row_texts = list(dict.fromkeys(frame.values(row_name)))
    column_texts = list(dict.fromkeys(frame.values(column_name)))
    cells = np.full((len(row_texts), len(column_texts)), np.nan)
    for row, column, value in frame.rows:
        cells[row_texts.index(row), column_texts.index(column)] = np.nan if value is None else value
    override = {setting["id"]: setting["value"] for setting in panel["fieldConfig"]["overrides"][0]["properties"]}
    if not cells.size:
        _say_nothing(panel, _blank(canvas))
        return
    if "mappings" in override:
        _states_of(cells, override["mappings"][0]["options"], axes)
    else:
        _shades(cells, override, axes)
    axes.set_xticks(range(len(column_texts)), column_texts)
    axes.set_yticks(range(len(row_texts)), row_texts)
    axes.tick_params(colors=FAINT, labelsize=6.5, length=0, labeltop=True, labelbottom=False)
    if len(column_texts) > 8:
        axes.tick_params(axis="x", rotation=30)
    for side in axes.spines.values():
        side.set_visible(False)


def _say_nothing(panel: Mapping[str, Any], axes: Axes) -> None:
    """Write the text of a panel without rows."""
    nothing = style.defaults(panel).get("noValue", "No data")
    axes.text(0.5, 0.5, nothing, ha="center", va="center", color=FAINT, fontsize=9)


def _states_of(cells: FloatCells, texts: Mapping[str, Mapping[str, str]], axes: Axes) -> None:
    """Draw cells as the texts of their numbers, on their colours."""
    shades = np.zeros((*cells.shape, 3))
    for (row, column), value in np.ndenumerate(cells):
        option = texts[str(int(value))]
        shades[row, column] = to_rgb(style.color(option["color"]))
        axes.text(column, row, option["text"], ha="center", va="center", fontsize=6, color=style.on(option["color"]))
    axes.imshow(shades, aspect="auto")


def _shades(cells: FloatCells, override: Mapping[str, Any], axes: Axes) -> None:
    """Draw cells as numbers on the colours of their thresholds."""
    shades = np.ones((*cells.shape, 3)) * to_rgb(CARD)
    for (row, column), cell in np.ndenumerate(cells):
        value = float(cell)
        if not np.isnan(value):
            background = style.threshold_color(value, override)
            shades[row, column] = to_rgb(background)
            text = style.formatted(value, override["unit"], override.get("decimals"))
            axes.text(column, row, text, ha="center", va="center", fontsize=6, color=style.on(background))
    axes.imshow(shades, aspect="auto")


def _ranking(panel: Mapping[str, Any], frame: Frame, canvas: Canvas) -> None:
    axes = canvas.axes
    (text,), (number,) = frame.of_kind("text"), frame.of_kind("number")
    values = [float(value) for value in frame.values(number)]
    top = max(values, default=1.0)
    axes.barh(
        frame.values(text),
        values,
        color=style.color(style.defaults(panel)["color"]["fixedColor"]),
        height=0.6,
    )
    axes.invert_yaxis()
    for row, value in enumerate(values):
        axes.text(value, row, f" {style.formatted(value, 'none', 2)}", va="center", color=TEXT, fontsize=8)
    axes.set_xlim(0, top * 1.2)
    axes.set_xticks([])
    axes.tick_params(colors=TEXT, labelsize=8, length=0)
    for side in axes.spines.values():
        side.set_visible(False)


def _graph(nodes: Frame, edges: Frame, canvas: Canvas) -> None:
    """Draw nodes in columns by their subtitle, and lines between them."""
    axes = _blank(canvas)
    columns = list(dict.fromkeys(nodes.values("subtitle")))
    places: dict[str, tuple[float, float]] = {}
    for column, subtitle in enumerate(columns):
        members = [
            name for name, own in zip(nodes.values("id"), nodes.values("subtitle"), strict=True) if own == subtitle
        ]
        for row, name in enumerate(members):
            places[name] = ((column + 0.5) / len(columns), 1 - (row + 0.7) / (len(members) + 0.4))
    for source, target in zip(edges.values("source"), edges.values("target"), strict=True):
        (x0, y0), (x1, y1) = places[source], places[target]
        axes.plot([x0, x1], [y0, y1], color="#5794f2", alpha=0.5, linewidth=0.8, zorder=1)
    for name, tint, number in zip(nodes.values("id"), nodes.values("color"), nodes.values("mainstat"), strict=True):
        x, y = places[name]
        axes.scatter([x], [y], s=170, facecolor=CARD, edgecolor=style.color(tint), linewidth=2, zorder=2)
        axes.text(x, y, str(number), ha="center", va="center", color=TEXT, fontsize=6.5, zorder=3)
    for column, subtitle in enumerate(columns):
        axes.text((column + 0.5) / len(columns), 1.0, subtitle, ha="center", va="bottom", color=FAINT, fontsize=7)


def _blank(canvas: Canvas) -> Axes:
    canvas.axes.set_axis_off()
    canvas.axes.set_xlim(0, 1)
    canvas.axes.set_ylim(0, 1)
    return canvas.axes


_DRAWN: dict[str, Callable[[Mapping[str, Any], Frame, Canvas], None]] = {
    "timeseries": _lines,
    "heatmap": _heat_map,
    "state-timeline": _states,
    "stat": _stat,
    "table": _table,
    "bargauge": _ranking,
}
