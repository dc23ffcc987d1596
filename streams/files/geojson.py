"""GeoJSON polygons in query files: what is a region, the reason why another is none, and longitudes that leave the map.

Where the metric is haversine, a ring that leaves the longitudes from -180 to 180 is written out once for every turn of the
earth in which it is seen, so that no index knows of the antimeridian: all that is asked is whether a point is inside of rings
in the plane.
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from streams.files.objections import shown
from streams.geometry import Metric
from streams.polygon_kernels import HOLE, OUTER
from streams.polygons import Rings

__all__ = ["MAX_VERTICES", "read_polygons"]

Ring = list[tuple[float, float]]
Polygon = list[Ring]

#: Positions of a region, at most, as it is written.
MAX_VERTICES = 100_000
#: Coordinates up to this size; products of larger ones could overflow.
MAX_COORDINATE = 1e100


class _RefusedError(Exception):
    """The reason why coordinates are no region; does not leave this module."""


def read_polygons(coordinates: Any, several: bool, metric: Metric) -> Rings | str:
    """Return the region of a GeoJSON polygon, or of several, from its coordinates; or the reason why they are none."""
    try:
        written = _polygons(coordinates, several)
        if metric == "haversine":
            written = [copy for polygon in written for copy in _seen(polygon)]
    except _RefusedError as reason:
        return str(reason)
    if not written:
        return "no part of the polygon is between the longitudes -180 and 180"
    rings = [(ring, HOLE if place else OUTER) for polygon in written for place, ring in enumerate(polygon)]
    points = np.array([point for ring, _ in rings for point in ring])
    mark = np.zeros(len(points), np.uint8)
    mark[np.cumsum([0] + [len(ring) for ring, _ in rings[:-1]])] = [kind for _, kind in rings]
    return Rings(points[:, 0].copy(), points[:, 1].copy(), mark)


def _polygons(coordinates: Any, several: bool) -> list[Polygon]:
    given = _list(coordinates, "coordinates", "polygons") if several else [coordinates]
    polygons, vertices = [], 0
    for n, polygon in enumerate(given, 1):
        of = f" of polygon {n}" if several else ""
        rings = []
        for place, ring in enumerate(_list(polygon, f"polygon {n}" if several else "the polygon", "rings"), 1):
            name = f"ring {place}{of}"
            vertices += len(ring) if isinstance(ring, list) else 0
            if vertices > MAX_VERTICES:
                raise _RefusedError(f"more than {MAX_VERTICES:,} positions; simplify the polygon")
            rings.append(_ring(ring, name))
        polygons.append(rings)
    return polygons


def _list(value: Any, name: str, of: str) -> list[Any]:
    if not isinstance(value, list) or not value:
        raise _RefusedError(f"{name} is {shown(value)}, expected a list of {of}")
    return value


def _ring(ring: Any, name: str) -> Ring:
    positions = [_position(position, name, n) for n, position in enumerate(_list(ring, name, "positions"), 1)]
    if len(positions) < 4:
        raise _RefusedError(
            f"{name} has {len(positions)} positions, expected at least 4, the last one equal to the first"
        )
    if positions[0] != positions[-1]:
        raise _RefusedError(
            f"{name} is not closed: it begins at {list(positions[0])} and ends at {list(positions[-1])}; "
            "repeat the first position at the end"
        )
    return positions


def _position(value: Any, name: str, n: int) -> tuple[float, float]:
    if not isinstance(value, list) or not 2 <= len(value) <= 3 or any(type(v) not in (int, float) for v in value):
        raise _RefusedError(f"position {n} of {name} is {shown(value)}, expected [x, y]")
    try:
        x, y = float(value[0]), float(value[1])
    except OverflowError:
        x = y = math.inf
    if not (abs(x) <= MAX_COORDINATE and abs(y) <= MAX_COORDINATE):
        raise _RefusedError(f"position {n} of {name} is {shown(value)}, expected numbers up to {MAX_COORDINATE:g}")
    return x, y


def _seen(polygon: Polygon) -> Iterator[Polygon]:
    """Yield a polygon of longitudes and latitudes for each turn of the earth in which it is seen between -180 and 180.

    Holes are cut out of every turn: a hole may be written in another one than its exterior ring.
    """
    rings = [(ring, _turns(ring, place + 1)) for place, ring in enumerate(polygon)]
    outer, turns = rings[0]
    for turn in (0, -1, 1, -2, 2):
        copy = _turned(outer, turns, turn)
        low, high = min(x for x, _ in copy), max(x for x, _ in copy)
        if (high < -180 or low > 180) if turn == 0 else (high <= -180 or low >= 180):
            continue
        holes = []
        for ring, own in rings[1:]:
            for other in (0, -1, 1, -2, 2):
                hole = _turned(ring, own, other)
                if max(x for x, _ in hole) >= low and min(x for x, _ in hole) <= high:
                    holes.append(hole)
        yield [copy, *holes]


def _turned(ring: Ring, turns: Sequence[int], turn: int) -> Ring:
    """Return a ring some turns of the earth further; a longitude that comes back to where it was written is that very one."""
    return [(x + 360.0 * (own + turn), y) for (x, y), own in zip(ring, turns, strict=True)]


def _turns(ring: Ring, place: int) -> list[int]:
    """Return in which turn of the earth each position of a ring is: an edge of more than 180 degrees goes the other way round.

    One of 360 goes around the earth as it is written: along a parallel, or past a pole that the ring is cut at.
    """
    turns = [0]
    for (x, y), (after, _) in itertools.pairwise(ring):
        if not (abs(x) <= 360 and abs(y) <= 90):
            raise _RefusedError(f"[{x!r}, {y!r}] in ring {place} is no longitude and latitude")
        gap = after - x
        turns.append(turns[-1] - (int(math.copysign(1, gap)) if 180 < abs(gap) < 360 else 0))
    if turns[-1] != 0:
        raise _RefusedError(
            f"ring {place} goes around a pole; cut it at the antimeridian, along longitude 180 to the pole and back along -180"
        )
    return turns
