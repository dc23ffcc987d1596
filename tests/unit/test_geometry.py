"""Places, regions and metrics."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.errors import DeclarationError
from streams.geometry import (
    EARTH_RADIUS_M,
    REGION_CIRCLE,
    REGION_NONE,
    REGION_RECT,
    Rect,
    distance,
    inside_region,
    max_distance,
    region_bounds,
)

GLOBE = Rect(-180, -90, 180, 90)


def test_rect_is_closed_and_not_nan():
    """A point on the border is inside, NaN is not."""
    x, y = np.array([0, 1, 0.5, 1.1, np.nan]), np.array([0, 1, -0.1, 0.5, 0.5])
    assert Rect(0, 0, 1, 1).contains(x, y).tolist() == [True, True, False, False, False]


@pytest.mark.parametrize("corners", [(0, 0, 0, 1), (0, 1, 1, 0), (math.nan, 0, 1, 1), (0, 0, math.inf, 1)])
def test_rect_without_room_is_refused(corners):
    """A space needs an inside, and finite corners."""
    with pytest.raises(DeclarationError, match=r"is empty; expected|is not a finite number"):
        Rect(*corners)


def test_distance_is_euclidean_or_along_the_globe():
    """3-4-5 in the plane; a quarter of the equator and half a meridian in metres."""
    assert distance(np.array([3.0]), np.array([4.0]), 0.0, 0.0).tolist() == [5.0]
    quarter = distance(np.array([90.0, 0.0]), np.array([0.0, 90.0]), 0.0, 0.0, "haversine")
    assert quarter == pytest.approx([math.pi / 2 * EARTH_RADIUS_M] * 2)
    apart = distance(np.array([180.0]), np.array([0.0]), 0.0, 0.0, "haversine")
    assert apart == pytest.approx([math.pi * EARTH_RADIUS_M])


def test_max_distance_is_the_diagonal():
    """The largest distance of a space is that of its corners."""
    assert max_distance(Rect(0, 0, 3, 4)) == 5.0


def test_regions_are_closed():
    """A point on the border of a rectangle or a circle is inside, and everything is inside of no region."""
    x, y = np.array([1.0, 2.0, 1.0]), np.array([0.0, 0.0, 1.0])
    assert inside_region(x, y, REGION_RECT, (0, 0, 1, 1)).tolist() == [True, False, True]
    assert inside_region(x, y, REGION_CIRCLE, (0, 0, 1, 0)).tolist() == [True, False, False]
    assert inside_region(x, y, REGION_CIRCLE, (1, 0, 0, 0)).tolist() == [True, False, False]
    assert inside_region(x, y, REGION_NONE, (0, 0, 0, 0)).tolist() == [True, True, True]
    far = inside_region(x, y, REGION_CIRCLE, (0, 0, 120_000, 0), "haversine")
    assert far.tolist() == [True, False, False]


longitudes, latitudes = st.floats(-180, 180), st.floats(-90, 90)


@given(longitudes, latitudes, st.floats(0, 3e7), st.lists(st.tuples(longitudes, latitudes), min_size=1, max_size=20))
def test_bounds_hold_every_point_of_a_circle_on_the_globe(x, y, radius, points):
    """A point inside of a haversine circle is inside of its bounds, also at poles and at the date line."""
    check_bounds(x, y, radius, points, "haversine", GLOBE)


@given(st.floats(-1e3, 1e3), st.floats(-1e3, 1e3), st.floats(0, 1e3), st.floats(0, 7), st.floats(0, 1))
def test_bounds_hold_every_point_of_a_circle_in_the_plane(x, y, radius, angle, share):
    """A point inside of a Euclidean circle is inside of its bounds, also on its border."""
    point = (x + share * radius * math.cos(angle), y + share * radius * math.sin(angle))
    corners = [(x - radius, y), (x + radius, y), (x, y - radius), (x, y + radius)]
    check_bounds(x, y, radius, [point, *corners], "euclidean", Rect(-1e4, -1e4, 1e4, 1e4))


def check_bounds(x, y, radius, points, metric, space):
    """Assert that points inside of a circle are inside of its bounds."""
    shape = np.array([[x, y, radius, 0.0]])
    low_x, low_y, high_x, high_y = region_bounds(np.array([REGION_CIRCLE], np.uint8), shape, space, metric)
    px, py = (np.array(values) for values in zip(*points, strict=True))
    inside = inside_region(px, py, REGION_CIRCLE, (x, y, radius, 0.0), metric)
    bounded = (px >= low_x) & (px <= high_x) & (py >= low_y) & (py <= high_y)
    assert (bounded | ~inside).all()


def test_bounds_of_rectangles_and_of_no_region():
    """A rectangle is its own bounds, and no region is bounded by the space."""
    kind = np.array([REGION_RECT, REGION_NONE], np.uint8)
    bounds = region_bounds(kind, np.array([[1.0, 2.0, 3.0, 4.0], [9.0, 9.0, 0.0, 0.0]]), Rect(0, 0, 10, 10))
    assert np.transpose(bounds).tolist() == [[1.0, 2.0, 3.0, 4.0], [0.0, 0.0, 10.0, 10.0]]


@pytest.mark.filterwarnings("error")
def test_bounds_of_a_rectangle_at_a_pole_beside_a_circle_are_silent():
    """Its numbers are no radius, whatever is reckoned with them."""
    shape = np.array([[-170.0, -90.0, -160.0, 0.0], [0.0, 0.0, 1000.0, 0.0]])
    low, *_ = region_bounds(np.array([REGION_RECT, REGION_CIRCLE], np.uint8), shape, GLOBE, "haversine")
    assert low[0] == -170.0


@pytest.mark.parametrize("side", [1.0, -1.0])
def test_bounds_of_a_circle_at_the_date_line_span_all_longitudes(side):
    """Seen from the east or from the west, what lies behind the date line is within the bounds."""
    shape = np.array([[side * 179.9, 0.0, 20_000.0, 0.0]])
    low, _, high, _ = region_bounds(np.array([REGION_CIRCLE], np.uint8), shape, GLOBE, "haversine")
    assert low[0] <= -179.95
    assert high[0] >= 179.95
