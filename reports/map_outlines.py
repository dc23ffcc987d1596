"""Coastlines and borders of states behind what is drawn; shipped, so that no picture needs a network."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streams.geometry import Rect

__all__ = ["WORLD", "Outlines", "draw_map", "looks_geographic", "outlines"]

WORLD = Rect(-180.0, -90.0, 180.0, 90.0)

#: A space of longitudes and latitudes is at least so wide, unless somebody says that it is one: a plane in kilometres would
#: otherwise lie in the Gulf of Guinea.
_WIDE_DEGREES = 30.0

_FILE = Path(__file__).parent / "outlines" / "outlines.npz"

SEA, LAND, COAST = "#eef3f7", "#f7f5f0", "#9aa5ad"

Lines = list[NDArray[np.float64]]


@dataclass(frozen=True, slots=True, eq=False)
class Outlines:
    """Lines of points (longitude, latitude): closed ones around land, open ones between states."""

    land: Lines
    states: Lines


@cache
def outlines() -> Outlines:
    """Return what is shipped."""
    with np.load(_FILE) as packed:
        parts = float(packed["parts"])

        def lines(name: str) -> Lines:
            pieces = np.split(packed[f"{name}_steps"], packed[f"{name}_off"][1:-1])
            return [np.cumsum(steps, axis=0, dtype=np.int64) / parts for steps in pieces]

        return Outlines(lines("land"), lines("states"))


def looks_geographic(space: Rect) -> bool:
    """Tell whether a space is one of longitudes and latitudes, as far as its numbers say."""
    return WORLD.covers(space) and max(space.max_x - space.min_x, space.max_y - space.min_y) >= _WIDE_DEGREES


def draw_map(axes: Any, space: Rect) -> None:
    """Draw land and borders behind everything else, and name the axes."""
    from matplotlib.collections import LineCollection, PolyCollection

    found = outlines()
    axes.set_facecolor(SEA)
    axes.add_collection(PolyCollection(found.land, facecolors=LAND, edgecolors=COAST, linewidths=0.6, zorder=0))
    axes.add_collection(LineCollection(found.states, colors=COAST, linewidths=0.35, alpha=0.8, zorder=0.5))
    axes.set_xlim(space.min_x, space.max_x)
    axes.set_ylim(space.min_y, space.max_y)
    axes.xaxis.set_major_formatter(lambda value, _place: _degrees(value, "E", "W"))
    axes.yaxis.set_major_formatter(lambda value, _place: _degrees(value, "N", "S"))
    axes.set_xlabel("longitude")
    axes.set_ylabel("latitude")


def _degrees(value: float, above: str, below: str) -> str:
    return f"{abs(value):g}°{above if value > 0 else below if value < 0 else ''}"
