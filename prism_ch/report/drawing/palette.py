"""Holds the colours of drawings, for light and dark paper, that people with any colour vision can tell apart.

Series keep their distance, and the heat scale its order, for normal vision, protanopia, deuteranopia and tritanopia:
tests/unit/report/drawing/test_palette.py computes it. Nothing is shown by colour alone: a word stands beside each.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class Shade:
    """A colour on light paper, and on dark."""

    light: str
    dark: str


PAPER = Shade("#ffffff", "#14181d")
#: Text and what surrounds it.
SURFACES = MappingProxyType(
    {
        "paper": PAPER,
        "card": Shade("#f5f7f9", "#1c2229"),
        "line": Shade("#d3dae1", "#36404b"),
        "ink": Shade("#1a2129", "#e8edf2"),
        "faint": Shade("#55606c", "#a3afbb"),
        "link": Shade("#0b5cad", "#7cb8f2"),
    }
)
#: Phases of a step, by their names in the database.
PHASES = MappingProxyType(
    {
        "compute": Shade("#8792a0", "#6c7884"),
        "PP": Shade("#009aee", "#1c92ff"),
        "DP": Shade("#d92508", "#f78330"),
        "EP": Shade("#307c52", "#1fffc8"),
        "CP": Shade("#8a2b7f", "#b7a5b7"),
        "TP": Shade("#3a2f00", "#e2ff35"),
    }
)
SEVERITIES = MappingProxyType(
    {
        "info": Shade("#55606c", "#a3afbb"),
        "warning": Shade("#9a5b00", "#f0b94c"),
        "critical": Shade("#b0123b", "#ff8a9b"),
    }
)
#: Series of a chart that are no phases.
SERIES = MappingProxyType(
    {
        "main": Shade("#0072b2", "#56b4e9"),
        "other": Shade("#d92508", "#f78330"),
        "band": Shade("#cfdbe6", "#33414f"),
        "good": Shade("#8792a0", "#6c7884"),
    }
)
#: Shades of what was lost: those of phases, which never stand in the same drawing.
LOSSES = tuple(PHASES[name] for name in ("CP", "DP", "PP", "TP", "EP"))
#: The least excess of each class of the heat scale but the first: 0.05 is 5 % more than usual.
HEAT_FROM = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 1.0)
#: The classes of the heat scale; they get darker on light paper, lighter on dark.
HEAT = (
    Shade("#eef1f3", "#232b33"),
    Shade("#f9dfa4", "#33305a"),
    Shade("#f8ca72", "#4c3178"),
    Shade("#f6b04d", "#6c3586"),
    Shade("#ea8a2f", "#91408a"),
    Shade("#d56428", "#b65286"),
    Shade("#b1402f", "#da6d77"),
    Shade("#812640", "#f29a6b"),
    Shade("#3f1239", "#fce08a"),
)


def heat_class(excess: float) -> int:
    """Return the class of the heat scale that an excess falls into."""
    return sum(excess >= least for least in HEAT_FROM)


def names() -> Iterator[tuple[str, Shade]]:
    """Yield the colours by the names of their custom properties."""
    yield from SURFACES.items()
    for prefix, shades in (("phase", PHASES), ("severity", SEVERITIES), ("series", SERIES)):
        yield from ((f"{prefix}-{name}", shade) for name, shade in shades.items())
    yield from ((f"heat-{rank}", shade) for rank, shade in enumerate(HEAT))
    yield from ((f"loss-{rank}", shade) for rank, shade in enumerate(LOSSES))


def style() -> str:
    """Write the colours as custom properties, and classes that use them.

    They are the dark ones on a dark screen.
    """
    light = "".join(f"--{name}:{shade.light};" for name, shade in names())
    dark = "".join(f"--{name}:{shade.dark};" for name, shade in names())
    fills = "".join(f".f-{name}{{fill:var(--{name})}}" for name, _ in names())
    strokes = "".join(f".s-{name}{{fill:none;stroke:var(--{name})}}" for name, _ in names())
    keys = "".join(f".k-{name}{{background:var(--{name})}}" for name, _ in names())
    return (
        f":root{{color-scheme:light dark;{light}}}"
        f"@media screen and (prefers-color-scheme:dark){{:root{{{dark}}}}}\n{fills}{strokes}{keys}\n"
    )
