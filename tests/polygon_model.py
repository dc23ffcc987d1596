"""Polygons as plain Python with exact fractions: what the kernels are compared with, and polygons to compare them on."""

from fractions import Fraction
from itertools import pairwise

import numpy as np

from streams.files.geojson import read_polygons
from streams.polygons import NO_RINGS


def of_ring(ring, point):
    """Tell whether a point is on a ring ("on"), or inside of it by the even-odd rule."""
    px, py = map(Fraction, point)
    odd = False
    for start, end in pairwise(ring):
        (ax, ay), (bx, by) = [tuple(map(Fraction, position)) for position in (start, end)]
        between = min(ax, bx) <= px <= max(ax, bx) and min(ay, by) <= py <= max(ay, by)
        if between and (bx - ax) * (py - ay) == (by - ay) * (px - ax):
            return "on"
        if (ay > py) != (by > py):
            odd ^= ax + (py - ay) * (bx - ax) / (by - ay) > px
    return odd


def inside_polygons(polygons, point):
    """Tell whether a point is inside of any polygon: in its closed exterior ring, and inside of no hole."""
    return any(
        of_ring(rings[0], point) and not any(of_ring(hole, point) is True for hole in rings[1:]) for rings in polygons
    )


def drawn_polygons(rng, x, y, wide, high):
    """Draw one polygon or several near a place, with holes and edges that cross, some of them on a coarse grid."""
    x, y, wide, high = float(x), float(y), float(wide), float(high)

    def position():
        if rng.random() < 0.5:
            return [x + wide * rng.randrange(-4, 5) / 4, y + high * rng.randrange(-4, 5) / 4]
        return [x + wide * rng.uniform(-1, 1), y + high * rng.uniform(-1, 1)]

    def ring():
        positions = [position() for _ in range(rng.choice([3, 4, 5, 12]))]
        return [*positions, positions[0]]

    return [[ring() for _ in range(rng.choice([1, 1, 2, 3]))] for _ in range(rng.choice([1, 1, 2]))]


def as_tuples(polygons):
    """Return polygons as a value that hashes."""
    return tuple(tuple(tuple(map(tuple, ring)) for ring in rings) for rings in polygons)


def rings_of(polygons):
    """Return the rings of polygons, as the reader makes them."""
    if not polygons:
        return NO_RINGS
    lists = [[[list(position) for position in ring] for ring in rings] for rings in polygons]
    found = read_polygons(lists, True, "euclidean")
    assert not isinstance(found, str), found
    return found


def ring_columns(each):
    """Return the ragged columns of the rings of queries."""
    rings = [rings_of(polygons) for polygons in each]
    return {
        "ring_off": np.cumsum([0] + [len(one.x) for one in rings]).astype(np.int32),
        "ring_x": np.concatenate([np.empty(0), *(one.x for one in rings)]),
        "ring_y": np.concatenate([np.empty(0), *(one.y for one in rings)]),
        "ring_mark": np.concatenate([np.empty(0, np.uint8), *(one.mark for one in rings)]),
    }
