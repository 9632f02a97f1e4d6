"""Colours are told apart by people with any colour vision, and stand out from the paper."""

from itertools import combinations, pairwise

import numpy as np
import numpy.typing as npt
import pytest

from prism_ch.report.drawing import palette
from prism_ch.report.drawing.palette import Shade

Vector = npt.NDArray[np.float64]

# Machado, Oliveira, Fernandes: A physiologically-based model for simulation of color vision deficiency (2009);
# severity 1.
_VISIONS = {
    "normal": np.eye(3),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "tritanopia": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]
    ),
}
_TO_LMS = np.array([[0.4122214708, 0.5363325363, 0.0514459929], [0.2119034982, 0.6806995451, 0.1073969566],
                    [0.0883024619, 0.2817188376, 0.6299787005]])  # fmt: skip
_TO_OKLAB = np.array([[0.2104542553, 0.7936177850, -0.0040720468], [1.9779984951, -2.4285922050, 0.4505937099],
                      [0.0259040371, 0.7827717662, -0.8086757660]])  # fmt: skip
#: Least distances in OKLab: of two series, which are told apart side by side, and in lightness of two heat classes.
_APART, _LIGHTER = 0.08, 0.025


def _linear(code: str) -> Vector:
    parts = np.array([int(code[place : place + 2], 16) / 255 for place in (1, 3, 5)])
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def _oklab(code: str, vision: str) -> Vector:
    seen = np.clip(_VISIONS[vision] @ _linear(code), 0, 1)
    lab: Vector = _TO_OKLAB @ np.cbrt(_TO_LMS @ seen)
    return lab


def _contrast(one: str, other: str) -> float:
    light, dark = sorted((float(_linear(code) @ [0.2126, 0.7152, 0.0722]) for code in (one, other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def _sides(shade: Shade) -> tuple[str, str]:
    return shade.light, shade.dark


@pytest.mark.parametrize("vision", _VISIONS)
@pytest.mark.parametrize("side", [0, 1])
def test_phases_are_told_apart(vision: str, side: int) -> None:
    for (one, a), (other, b) in combinations(palette.PHASES.items(), 2):
        distance = np.linalg.norm(_oklab(_sides(a)[side], vision) - _oklab(_sides(b)[side], vision))
        assert distance >= _APART, (one, other, float(distance))


@pytest.mark.parametrize("vision", _VISIONS)
@pytest.mark.parametrize("side", [0, 1])
def test_causes_are_told_apart(vision: str, side: int) -> None:
    for a, b in combinations(palette.LOSSES, 2):
        distance = np.linalg.norm(_oklab(_sides(a)[side], vision) - _oklab(_sides(b)[side], vision))
        assert distance >= _APART, (a, b, float(distance))


@pytest.mark.parametrize("vision", _VISIONS)
@pytest.mark.parametrize("side", [0, 1])
def test_heat_keeps_its_order(vision: str, side: int) -> None:
    lightness = [float(_oklab(_sides(shade)[side], vision)[0]) for shade in palette.HEAT]
    towards = [(a - b) * (1, -1)[side] for a, b in pairwise(lightness)]
    assert min(towards) >= _LIGHTER, towards


@pytest.mark.parametrize("side", [0, 1])
def test_texts_and_marks_stand_out_from_the_paper(side: int) -> None:
    grounds = [_sides(palette.SURFACES[name])[side] for name in ("paper", "card")]
    for ground in grounds:
        for name in ("ink", "faint", "link"):
            assert _contrast(_sides(palette.SURFACES[name])[side], ground) >= 4.5, name
        for name, shade in palette.SEVERITIES.items():
            assert _contrast(_sides(shade)[side], ground) >= 4.5, name
    for name, shade in [*palette.PHASES.items(), ("main", palette.SERIES["main"]), ("other", palette.SERIES["other"])]:
        assert _contrast(_sides(shade)[side], grounds[0]) >= (2.9 if name == "compute" else 3), name


def test_an_excess_falls_into_the_class_it_reaches() -> None:
    assert [palette.heat_class(excess) for excess in (-0.5, 0.0, 0.01, 0.049, 0.05, 0.99, 1.0, 40.0)] == [
        0, 0, 1, 2, 3, 7, 8, 8,
    ]  # fmt: skip


def test_every_colour_has_its_classes() -> None:
    style = palette.style()
    for name, shade in palette.names():
        for rule in (f"--{name}:{shade.light};", f"--{name}:{shade.dark};", f".f-{name}{{fill:var(--{name})}}"):
            assert rule in style
