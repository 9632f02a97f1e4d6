"""Drawings show what they are given: every picture is well-formed, in bounds, and says what it shows."""

import math
import re
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markupsafe import Markup

from prism_ch.report.drawing.bars import Part, compared, total
from prism_ch.report.drawing.cells import Gpu, gpu_map, heat_key, matrix, natural_key
from prism_ch.report.drawing.figure import WIDTH, Mark
from prism_ch.report.drawing.lines import Chart, Series, durations
from prism_ch.report.drawing.palette import HEAT
from prism_ch.report.drawing.scales import Scale, covering, decimals, tick_distance
from prism_ch.report.drawing.timeline import Phase, Row, timeline

_SECONDS = st.floats(0, 1e6, allow_nan=False)
_BOX = re.compile(r"M(-?[0-9.]+) [0-9]+h([0-9.]+)v")
_NUMBERS = re.compile(r"-?\d+(?:\.\d+)?")


def _parsed(picture: Markup) -> ET.Element:
    root = ET.fromstring(str(picture))  # noqa: S314 - this package wrote it
    assert root.tag == "svg"
    assert root.get("role") == "img"
    assert root.get("aria-label")
    return root


def _coordinates(root: ET.Element) -> list[float]:
    return [
        float(number)
        for part in root.iter()
        for name in ("d", "x", "y", "width", "height")
        for number in _NUMBERS.findall(re.sub(r"h-[0-9.]+z", "z", part.get(name, "")))
    ]


@given(st.lists(st.tuples(_SECONDS, _SECONDS), min_size=2, max_size=40))
def test_a_chart_draws_every_point_in_bounds(points: list[tuple[float, float]]) -> None:
    low, high = [min(point) for point in points], [max(point) for point in points]
    marks = [Mark(0, 1, "<1>", "f-severity-info")]
    chart = Chart("step times", range(len(points)), [Series(high, "s-series-main")], (low, high), marks)
    root = _parsed(durations(chart))
    [line] = [part for part in root.iter() if part.get("class") == "s-series-main"]
    assert line.get("d", "").count("L") == len(points) - 1
    assert all(math.isfinite(each) and -1 <= each <= WIDTH + 1 for each in _coordinates(root))


def test_a_longer_step_is_drawn_higher() -> None:
    root = _parsed(durations(Chart("s", [0, 1, 2], [Series([1.0, 2.0, 1.5], "s-series-main")])))
    [line] = [part.get("d", "") for part in root.iter() if part.get("class") == "s-series-main"]
    heights = [float(pair.split(" ")[1]) for pair in line.removeprefix("M").split("L")]
    assert heights[1] < heights[2] < heights[0]


@given(st.lists(st.floats(0, 1e9), min_size=1, max_size=12))
def test_a_total_is_divided_by_its_parts(values: list[float]) -> None:
    root = _parsed(total("hours", [Part(str(n), value, f"{value} h", "f") for n, value in enumerate(values)]))
    drawn = [part for part in root.iter() if part.tag == "rect"]
    assert len(drawn) == sum(value > 0 for value in values)
    assert sum(float(part.get("width", "0")) + 1 for part in drawn) <= WIDTH + 0.1 * len(drawn) + 1


def test_bars_stand_in_proportion_and_carry_their_values() -> None:
    root = _parsed(compared("times", [Part("before", 1.0, "1 s", "f"), Part("during", 2.0, "2 s", "g")]))
    before, during = (float(part.get("width", "0")) for part in root.iter() if part.tag == "rect")
    assert during == pytest.approx(2 * before, abs=0.2)
    assert [part.text for part in root.iter() if part.tag == "text"] == ["before", "1 s", "during", "2 s"]


@pytest.mark.parametrize("servers", [1, 8, 37, 360])
def test_every_gpu_has_a_cell_of_its_own(servers: int) -> None:
    gpus = [Gpu(f"host-{n:04}", nth, n / 100, is_named=n == 0) for n in range(servers) for nth in range(8)]
    root = _parsed(gpu_map("GPUs", gpus))
    cells = [part for part in root.iter() if part.tag == "rect"]
    assert len({(cell.get("x"), cell.get("y")) for cell in cells}) == len(gpus) == len(cells)
    assert sum("named" in cell.get("class", "") for cell in cells) == 8
    *_, width, height = map(float, root.get("viewBox", "").split())
    assert all(float(cell.get("x", "0")) + 13 <= width and float(cell.get("y", "0")) + 13 <= height for cell in cells)
    titles = {cell[0].text for cell in cells}
    assert "host-0000 GPU 7: +0.0%" in titles


def test_servers_stand_in_the_order_that_people_count_in() -> None:
    names = ["host-10", "host-9", "a1b2", "host-9a", "", "a1b10", "\u0661"]
    assert sorted(names, key=natural_key) == sorted(names, key=natural_key, reverse=True)[::-1]
    assert sorted(["b1", "a2"], key=natural_key) == ["a2", "b1"]
    ordered = [name for name in sorted(names, key=natural_key) if name.startswith(("host", "a"))]
    assert ordered == ["a1b2", "a1b10", "host-9", "host-9a", "host-10"]


def test_a_matrix_writes_each_cell() -> None:
    root = _parsed(matrix("delays", {("a", "b"): 2.0, ("c", "b"): 0.0, ("a", "d"): -0.5}))
    cells = {part[0].text: part.get("class") for part in root.iter() if part.tag == "rect"}
    assert cells == {"a to b: +200%": "f-heat-8", "c to b: +0%": "f-heat-0", "a to d: -50%": "f-heat-0"}


def test_the_key_of_the_heat_scale_is_whole() -> None:
    assert [kind for kind, _ in heat_key()] == [f"k-heat-{rank}" for rank in range(len(HEAT))]
    assert heat_key()[0][1] == "under 1%"
    assert heat_key()[-1][1] == "from 100%"


@given(st.lists(st.integers(1, 10**9), min_size=1, max_size=30), st.integers(0, 10**9), st.integers(1, 10**9))
def test_a_timeline_draws_phases_where_they_lie(lengths: list[int], since: int, lasts: int) -> None:
    starts = [sum(lengths[:n]) for n in range(len(lengths))]
    phases = [Phase(("compute", "DP")[n % 2], start, start + lengths[n]) for n, start in enumerate(starts)]
    root = _parsed(timeline("a step", [Row("host <0>", phases, is_named=True)], since, since + lasts, 0))
    boxes = {
        part.get("class"): [(float(x), float(x) + float(width)) for x, width in _BOX.findall(part.get("d", ""))]
        for part in root.iter()
        if part.get("class", "").startswith("f-phase-")
    }
    for phase in phases:
        left, right = max(phase.start_ns, since), min(phase.end_ns, since + lasts)
        if left < right:
            begin, end = (150 + (each - since) / lasts * (WIDTH - 154) for each in (left, right))
            covers = boxes[f"f-phase-{phase.kind}"]
            assert any(a - 0.2 <= begin and end <= b + 0.2 for a, b in covers)
    assert all(-1 <= each <= WIDTH + 1 for each in _coordinates(root))


def test_a_timeline_of_very_many_phases_stays_small() -> None:
    phases = [Phase(("compute", "EP")[n % 2], 1000 * n, 1000 * (n + 1)) for n in range(20_000)]
    assert len(timeline("a step", [Row("host", phases)], 0, 20_000_000, 0)) < 60_000


@given(st.floats(-1e9, 1e9), st.floats(1e-6, 1e9), st.integers(2, 12))
def test_ticks_are_few_and_inside(low: float, length: float, most: int) -> None:
    scale = covering(low, low + length, 0, 100)
    ticks = scale.ticks(most)
    slack = (scale.high - scale.low) * 1e-6
    assert len(ticks) <= most + 1
    assert all(scale.low - slack <= tick <= scale.high + slack for tick in ticks)


def test_a_scale_over_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="is none"):
        Scale(1, 1, 0, 10)
    assert covering(5, 5, 0, 10)(5) == 5


def test_ticks_are_round() -> None:
    assert tick_distance(1.0, 5) == 0.25
    assert tick_distance(900.0, 5) == 250
    assert [decimals(distance) for distance in (100.0, 1.0, 0.25, 0.0005)] == [0, 0, 2, 4]
