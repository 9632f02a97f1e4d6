"""Checks a dashboard's colours: contrast in dark and light, and whether the colour-blind tell them apart."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from prism_ch.grafana.organisations import panels_of
from tools.dashboards import style

#: A panel's background in Grafana's dark and light themes.
BACKGROUNDS = ("#181b1f", "#ffffff")
#: Least contrast of lines, bars and large numbers with the background, and of small letters with their cell: WCAG 2.2,
#: criteria 1.4.11 and 1.4.3.
CONTRAST_MIN, LETTERS_CONTRAST_MIN = 3.0, 4.5
#: Least distance of two colours of one panel, CIE 1976 L*a*b*: five times what is just noticed of large areas.
DISTANCE_MIN = 15.0
#: What the colour-blind see, of linear red, green and blue: Machado, Oliveira and Fernandes (2009), severity 1.
VISIONS = {
    "trichromats": np.eye(3),
    "protanopes": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopes": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]]
    ),
}
_CODE = re.compile(r"#[0-9a-f]{6}$")
# CIE XYZ of linear sRGB, and of its white.
_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
_WHITE = np.array([0.95047, 1.0, 1.08883])

Floats = npt.NDArray[np.float64]


def contrast(one: str, other: str) -> float:
    """Return the contrast of two colours, 1 to 21, as WCAG 2.2 defines it."""
    dark, light = sorted(float(_linear(code) @ _XYZ[1]) for code in (one, other))
    return (light + 0.05) / (dark + 0.05)


def distance(one: str, other: str, vision: str = "trichromats") -> float:
    """Return how far two colours are apart for a vision, in CIE 1976 L*a*b*."""
    seen = (np.clip(VISIONS[vision] @ _linear(code), 0, 1) for code in (one, other))
    first, second = (_lab(color) for color in seen)
    return float(np.linalg.norm(first - second))


def problems(dashboard: Mapping[str, Any]) -> Iterator[str]:
    """Yield the palettes that somebody can't distinguish or read, once each."""
    found = {
        f"{problem} in {panel['title']!r}"
        for panel in panels_of(dashboard)
        for palette, is_behind_letters in palettes(panel)
        for problem in _problems(palette, is_behind_letters)
    }
    yield from sorted(found)


def palettes(panel: Mapping[str, Any]) -> Iterator[tuple[Sequence[str], bool]]:
    """Yield the colours that a panel shows beside each other. The flag is whether letters stand on them.

    A colour that shines through, of eight digits, stands for nothing and is left out.
    """
    config = panel.get("fieldConfig", {})
    overrides = [{each["id"]: each["value"] for each in one["properties"]} for one in config.get("overrides", ())]
    for found in (config.get("defaults", {}), *overrides):
        is_behind = found.get("custom.cellOptions", {}).get("type") == "color-background"
        for mapping in found.get("mappings") or ():
            named = [option["color"] for option in mapping["options"].values() if "color" in option]
            yield [code for code in dict.fromkeys(named) if len(code) != len("#rrggbbaa")], is_behind
        if steps := found.get("thresholds", {}).get("steps"):
            yield list(dict.fromkeys(step["color"] for step in steps)), is_behind
        if (mode := str(found.get("color", {}).get("mode", ""))).startswith("continuous"):
            yield [mode], True
    drawn = [found["color"]["fixedColor"] for found in overrides if found.get("color", {}).get("mode") == "fixed"]
    if drawn:
        yield list(dict.fromkeys(drawn)), False
    if fill := panel.get("options", {}).get("color", {}).get("fill"):
        yield [fill], False


def _problems(palette: Sequence[str], is_behind_letters: bool) -> Iterator[str]:  # noqa: FBT001 - of a palette
    named = [code for code in palette if not _CODE.match(code)]
    if named:
        yield f"{named[0]} is another colour in each theme"
        return
    for code in palette:
        letters = contrast(code, style.on(code))
        if is_behind_letters and letters < LETTERS_CONTRAST_MIN:
            yield f"letters on {code} have a contrast of {letters:.1f}"
        for background in () if is_behind_letters else BACKGROUNDS:
            if (found := contrast(code, background)) < CONTRAST_MIN:
                yield f"{code} on {background} has a contrast of {found:.1f}"
    for vision in VISIONS:
        for one, other in combinations(palette, 2):
            if (apart := distance(one, other, vision)) < DISTANCE_MIN:
                yield f"{one} and {other} are {apart:.0f} apart for {vision}"


def _linear(code: str) -> Floats:
    """Return the linear red, green and blue of a colour's code, 0 to 1."""
    values = np.array([int(code[place : place + 2], 16) / 255 for place in (1, 3, 5)])
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def _lab(linear: Floats) -> Floats:
    """Return the CIE 1976 L*a*b* of linear red, green and blue."""
    xyz = _XYZ @ linear / _WHITE
    x, y, z = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])
