"""Where things are: the space, regions, and the two metrics.

Every predicate is defined once, here, in float64 and in a fixed order of operations, so that an index which repeats the
formula gives the same bit as the oracle. Regions are closed: a point on the border is inside.
"""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from streams.errors import DeclarationError
from streams.polygon_kernels import inside_rings
from streams.polygons import Rings

__all__ = [
    "EARTH_RADIUS_M",
    "METRICS",
    "REGION_CIRCLE",
    "REGION_NONE",
    "REGION_POLYGON",
    "REGION_RECT",
    "Metric",
    "Rect",
    "boxed",
    "distance",
    "inside_region",
    "max_distance",
    "region_bounds",
]

Metric = Literal["euclidean", "haversine"]
METRICS: tuple[Metric, ...] = ("euclidean", "haversine")

#: Mean earth radius of IUGG, in metres.
EARTH_RADIUS_M = 6_371_008.8

#: Kinds of region in a query column; the shape is in four numbers (rectangle: min x, min y, max x, max y;
#: circle: centre x, centre y, radius, unused; polygon: the rectangle around it, as its rings are in columns of their own;
#: none, with a place: x, y, unused, unused).
REGION_NONE, REGION_RECT, REGION_CIRCLE, REGION_POLYGON = 0, 1, 2, 3

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Rect:
    """A closed rectangle; also the space of a topology."""

    min_x: float
    min_y: float
    max_x: float
    max_y: float

    def __post_init__(self) -> None:
        if not all(map(math.isfinite, self.as_tuple())):
            raise DeclarationError(f"rectangle {list(self.as_tuple())} has a coordinate that is not a finite number")
        if self.min_x >= self.max_x or self.min_y >= self.max_y:
            raise DeclarationError(
                f"rectangle {list(self.as_tuple())} is empty; expected [min x, min y, max x, max y] with min < max"
            )

    def as_tuple(self) -> tuple[float, float, float, float]:
        """Return (min x, min y, max x, max y)."""
        return (self.min_x, self.min_y, self.max_x, self.max_y)

    def covers(self, other: "Rect") -> bool:
        """Tell whether another rectangle is inside."""
        low = self.min_x <= other.min_x and self.min_y <= other.min_y
        return low and self.max_x >= other.max_x and self.max_y >= other.max_y

    def contains(self, x: Floats, y: Floats) -> NDArray[np.bool_]:
        """Tell for each point whether it is inside; NaN is not."""
        return np.asarray((x >= self.min_x) & (x <= self.max_x) & (y >= self.min_y) & (y <= self.max_y))


def distance(x: Floats, y: Floats, at_x: float | Floats, at_y: float | Floats, metric: Metric = "euclidean") -> Floats:
    """Return the distances of points from a place: Euclidean in units of the space, haversine in metres."""
    if metric == "euclidean":
        dx, dy = x - at_x, y - at_y
        return np.asarray(np.sqrt(dx * dx + dy * dy))
    lat, at_lat = np.radians(y), np.radians(at_y)
    half_dlat = np.sin((lat - at_lat) * 0.5)
    half_dlon = np.sin(np.radians(x - at_x) * 0.5)
    h = half_dlat * half_dlat + np.cos(lat) * np.cos(at_lat) * (half_dlon * half_dlon)
    return np.asarray(2.0 * EARTH_RADIUS_M * np.arcsin(np.sqrt(np.minimum(h, 1.0))))


def boxed(kind: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Tell which regions have a rectangle as their shape: rectangles, and polygons, which it is around."""
    return np.asarray((kind == REGION_RECT) | (kind == REGION_POLYGON))


def inside_region(
    x: Floats,
    y: Floats,
    kind: int,
    shape: tuple[float, float, float, float],
    metric: Metric = "euclidean",
    rings: Rings | None = None,
) -> NDArray[np.bool_]:
    """Tell for each point whether it is inside a region; everything is inside of no region.

    A Euclidean circle compares squares, ``dx * dx + dy * dy <= r * r``, as every kernel does. A polygon has straight edges in
    the coordinates, whatever the metric, and needs its rings.
    """
    a, b, c, d = shape
    if kind == REGION_POLYGON:
        assert rings is not None
        inside = np.empty(len(x), np.bool_)
        inside_rings(x, y, rings.x, rings.y, rings.mark, inside)
        return inside
    if kind == REGION_RECT:
        return np.asarray((x >= a) & (x <= c) & (y >= b) & (y <= d))
    if kind == REGION_CIRCLE:
        if metric == "haversine":
            return np.asarray(distance(x, y, a, b, metric) <= c)
        dx, dy = x - a, y - b
        return np.asarray(dx * dx + dy * dy <= c * c)
    return np.ones(len(x), dtype=np.bool_)


def region_bounds(
    kind: NDArray[np.uint8], shape: Floats, space: Rect, metric: Metric = "euclidean"
) -> tuple[Floats, Floats, Floats, Floats]:
    """Return a rectangle for each region that contains all of its points in the space (it may be larger).

    `shape` has a row of four numbers a region. A circle's box is widened by one part in 10^12, because the rounded
    ``c - r`` may lie inside of the circle; a haversine circle that touches a pole or the date line spans all
    longitudes.
    """
    if boxed(kind).all():
        return shape[:, 0], shape[:, 1], shape[:, 2], shape[:, 3]
    circle = kind == REGION_CIRCLE
    none = kind == REGION_NONE
    a, b, r = shape[:, 0], shape[:, 1], shape[:, 2]
    if metric == "haversine":
        half_y = np.degrees(r / EARTH_RADIUS_M) * (1 + 1e-12) + 1e-9
        angle = np.minimum(r / EARTH_RADIUS_M * (1 + 1e-12), math.pi)
        ratio = np.sin(np.minimum(angle, math.pi / 2)) / np.maximum(np.cos(np.radians(b)), 1e-300)
        pole = (np.abs(b) + half_y >= 90.0) | (ratio >= 1.0)
        half_x = np.where(pole, 360.0, np.degrees(np.arcsin(np.clip(ratio, 0.0, 1.0))) * (1 + 1e-12) + 1e-9)
        half_x = np.where((a - half_x < -180.0) | (a + half_x > 180.0), 360.0, half_x)
    else:
        half_x = half_y = r * (1 + 1e-12) + (np.abs(a) + np.abs(b)) * 1e-12

    def pick(low: int, value: Floats, edge: float) -> Floats:
        return np.where(none, edge, np.where(circle, value, shape[:, low]))

    return (
        pick(0, a - half_x, space.min_x),
        pick(1, b - half_y, space.min_y),
        pick(2, a + half_x, space.max_x),
        pick(3, b + half_y, space.max_y),
    )


def max_distance(space: Rect, metric: Metric = "euclidean") -> float:
    """Return the diagonal of the space, the `maxdist` of scores."""
    corner = distance(np.array([space.max_x]), np.array([space.max_y]), space.min_x, space.min_y, metric)
    return float(corner[0])
