"""Which points polygons have: the kernels against exact fractions, edges and corners included."""

import math
from random import Random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from polygon_model import drawn_polygons, inside_polygons, rings_of

from streams.geometry import REGION_POLYGON, inside_region
from streams.polygons import Region


def points_near(rng, polygons, count):
    """Return points anywhere, at corners, on edges as well as floats can say, and next to these."""
    points = []
    for _ in range(count):
        ring = rng.choice(rng.choice(polygons))
        n = rng.randrange(len(ring) - 1)
        (ax, ay), (bx, by) = ring[n : n + 2]
        part = rng.choice([0.0, 0.5, 0.25, 1 / 3, rng.random()])
        x, y = ax + (bx - ax) * part, ay + (by - ay) * part
        points.append(
            rng.choice([(x, y), (math.nextafter(x, 9e9), y), (x, math.nextafter(y, -9e9)), (x + by - ay, y + ax - bx)])
        )
    return points


def found_by_both(polygons, points):
    """Return what the definition and the slabs say."""
    rings = rings_of(polygons)
    x, y = np.array([p[0] for p in points]), np.array([p[1] for p in points])
    return inside_region(x, y, REGION_POLYGON, rings.box(), "euclidean", rings).tolist(), Region.of(rings).contains(
        x, y
    ).tolist()


@settings(deadline=None, max_examples=300)
@given(st.integers(0, 2**32), st.sampled_from([1.0, 1e-9, 1e6, 3e-17]), st.sampled_from([0.0, 0.3, 1e6, -179.9]))
def test_points_are_inside_exactly_where_fractions_say_so(seed, size, at):
    """Holes, several polygons, crossing edges, places whose neighbours differ in the last bit."""
    rng = Random(seed)
    polygons = drawn_polygons(rng, at, -at / 3, size, size * rng.random())
    points = points_near(rng, polygons, 25)
    expected = [inside_polygons(polygons, point) for point in points]
    assert found_by_both(polygons, points) == (expected, expected)


def test_large_polygons_are_cut_into_slabs_that_say_the_same():
    """A ring of thousands of edges, some of them as tall as all of it, with a hole; slabs list a few times the edges."""
    rng = Random(3)
    angles = [2 * math.pi * n / 3000 for n in range(3000)]
    ring = [[r * math.cos(a), r * math.sin(a)] for a in angles for r in [rng.uniform(0.9, 1.1)]]
    hole = [[0.1 * x, 0.1 * y] for x, y in ring]
    comb = [[2 + n / 1000, (n % 2) * 2.0] for n in range(1000)]
    polygons = [[[*ring, ring[0]], [*hole, hole[0]]], [[*comb, comb[0]]]]
    points = [*points_near(rng, polygons, 100), *((rng.uniform(-1, 3), rng.uniform(-1, 2)) for _ in range(100))]
    expected = [inside_polygons(polygons, point) for point in points]
    assert found_by_both(polygons, points) == (expected, expected)
    region = Region.of(rings_of(polygons))
    assert region.slabs.count > 1
    assert len(region.slabs.lists) < 6 * len(region.rings.x)


def test_the_last_bit_decides_on_which_side_of_an_edge_a_point_is():
    """Determinants that float64 rounds to zero, or to the wrong sign: the points of Kettner and others' example."""
    step = 2.0**-53
    ring = [[0.5, 0.5], [12.0, 12.0], [24.0, 24.0], [24.0, 0.5], [0.5, 0.5]]
    points = [(0.5 + i * step, 0.5 + j * step) for i in range(12) for j in range(12)]
    expected = [inside_polygons([[ring]], point) for point in points]
    assert found_by_both([[ring]], points) == (expected, expected)
    assert 0 < sum(expected) < len(points)
