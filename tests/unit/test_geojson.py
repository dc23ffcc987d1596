"""Polygons as users write them: what is read, what is refused with which reason, and longitudes that leave the map."""

import json

import numpy as np
import pytest

from streams.batches import FOREVER
from streams.files.geojson import MAX_VERTICES, read_polygons
from streams.files.query_records import QueryRules, read_query
from streams.geometry import REGION_POLYGON, Rect
from streams.polygons import Region

EARTH = Rect(-180.0, -90.0, 180.0, 90.0)
SQUARE = [[0, 0], [1, 0], [1, 1], [0, 1], [0, 0]]
RULES = {metric: QueryRules(EARTH, metric, 10) for metric in ("euclidean", "haversine")}


def query(region, metric="euclidean", **more):
    """Read a query with a region."""
    record = {"op": "register", "id": "q", "ts": 0, "type": "range", "region": region, **more}
    return read_query(json.loads(json.dumps(record)), RULES[metric])


def has(region, places, metric="haversine"):
    """Tell which places a region has."""
    read = query(region, metric)
    assert not isinstance(read, str), read
    x, y = (np.array([place[axis] for place in places], np.float64) for axis in (0, 1))
    return Region.of(read.rings).contains(x, y).tolist()


def test_a_polygon_is_read_as_geojson_and_as_rings():
    """A geometry of type Polygon, a MultiPolygon of one, and the short form say the same; heights and boxes do not count."""
    high = [[x, y, 99.5] for x, y in SQUARE]
    for region in (
        {"type": "Polygon", "coordinates": [SQUARE]},
        {"type": "Polygon", "coordinates": [high], "bbox": [0, 0, 1, 1]},
        {"type": "MultiPolygon", "coordinates": [[SQUARE]]},
        {"polygon": [SQUARE]},
    ):
        read = query(region)
        assert (read.region, read.shape, read.end) == (REGION_POLYGON, (0.0, 0.0, 1.0, 1.0), FOREVER)
        assert read.rings.x.tolist() == [0, 1, 1, 0, 0]
        assert read.rings.mark.tolist() == [1, 0, 0, 0, 0]


def test_edges_belong_to_a_polygon_and_so_do_those_of_its_holes():
    """Inside, on edges and corners, in the hole, on its edge, in the part inside of the hole."""
    hole, island = [[0.25, 0.25], [0.75, 0.25], [0.75, 0.75], [0.25, 0.75], [0.25, 0.25]], [
        [0.4, 0.4], [0.6, 0.4], [0.5, 0.6], [0.4, 0.4],
    ]  # fmt: skip
    region = {"type": "MultiPolygon", "coordinates": [[SQUARE, hole], [island]]}
    places = [(0.1, 0.1), (0, 0.5), (1, 1), (0.3, 0.3), (0.25, 0.5), (0.75, 0.75), (0.5, 0.5), (1.01, 0.5)]
    assert has(region, places) == [True, True, True, False, True, True, True, False]


def test_a_ring_that_crosses_itself_goes_by_the_even_odd_rule():
    """The middle of a star is outside, its points are inside, and so is where two polygons overlap."""
    star = [[0, 3], [2, -3], [-3, 1], [3, 1], [-2, -3], [0, 3]]
    assert has({"polygon": [star]}, [(0, 0), (0, 2), (2.5, 0.9)]) == [False, True, True]
    assert has({"type": "MultiPolygon", "coordinates": [[SQUARE], [SQUARE]]}, [(0.5, 0.5)]) == [True]


FIJI = [[177, -19], [-178, -19], [-178, -16], [177, -16], [177, -19]]


@pytest.mark.parametrize(
    "ring",
    [FIJI, [[x % 360, y] for x, y in FIJI], [[x - 360 if x > 0 else x, y] for x, y in FIJI], FIJI[::-1]],
    ids=["short way", "beyond 180", "beyond -180", "clockwise"],
)
def test_a_ring_across_the_antimeridian_has_both_sides_of_it(ring):
    """Written with a jump, or with longitudes beyond 180: the same places, and nothing on the other side of the earth."""
    places = [
        (178, -18),
        (180, -18),
        (-180, -18),
        (-179, -18),
        (177, -17),
        (-178, -17),
        (176.9, -18),
        (-177.9, -18),
        (0, -18),
    ]
    assert has({"polygon": [ring]}, places) == [True] * 6 + [False] * 3
    hole = [[-179.5, -18], [-179, -18], [-179, -17], [-179.5, -17], [-179.5, -18]]
    places = [(-179.2, -17.5), (-179.5, -17.5), (179.5, -17.5)]
    assert has({"polygon": [ring, hole]}, places) == [False, True, True]


def test_longitudes_are_as_written_where_the_metric_is_euclidean_and_around_the_whole_earth():
    """In the plane an edge is straight however long; on the globe one of 360 degrees goes along its parallel."""
    assert has({"polygon": [FIJI]}, [(0, -18), (178, -18)], "euclidean") == [True, False]
    band = [[-180, -10], [180, -10], [180, 10], [-180, 10], [-180, -10]]
    assert has({"polygon": [band]}, [(0, 0), (180, 10), (-180, 0), (0, 11)]) == [True, True, True, False]
    antarctica = [[-180, -90], [180, -90], [180, -70], [0, -65], [-180, -70], [-180, -90]]
    assert has({"polygon": [antarctica]}, [(0, -80), (170, -89), (0, -60)]) == [True, True, False]


@pytest.mark.parametrize(
    ("region", "reason"),
    [
        ({"polygon": [SQUARE[:-1]]}, "ring 1 is not closed: it begins at [0.0, 0.0] and ends at [0.0, 1.0]"),
        ({"polygon": [[[0, 0], [1, 1], [0, 0]]]}, "ring 1 has 3 positions, expected at least 4"),
        ({"polygon": []}, "the polygon is [], expected a list of rings"),
        ({"polygon": [SQUARE, []]}, "ring 2 is [], expected a list of positions"),
        ({"polygon": None}, "expected {\"rect\""),
        ({"polygon": SQUARE}, "position 1 of ring 1 is 0, expected [x, y]"),
        ({"polygon": [[[0, "1"], *SQUARE]]}, "position 1 of ring 1 is [0, \"1\"], expected [x, y]"),
        ({"polygon": [[[0, 1e101], *SQUARE]]}, "expected numbers up to 1e+100"),
        ({"polygon": [[[0, 10**400], *SQUARE]]}, "expected numbers up to 1e+100"),
        ({"polygon": [[[0, True], *SQUARE]]}, "expected [x, y]"),
        ({"polygon": [SQUARE], "rect": [0, 0, 1, 1]}, "expected {\"rect\""),
        ({"type": "MultiPolygon", "coordinates": [SQUARE]}, "ring 1 of polygon 1"),
        ({"type": "MultiPolygon", "coordinates": []}, "coordinates is [], expected a list of polygons"),
        ({"type": "Polygon"}, "the polygon is null, expected a list of rings"),
        ({"type": "Point", "coordinates": [0, 0]}, "region has the type \"Point\", expected Polygon or MultiPolygon"),
        ({"type": "Polygon", "coordinates": [SQUARE], "crs": 1}, "region has a member \"crs\""),
        ({"polygon": [[[x + 500, y] for x, y in SQUARE]]}, "outside the space [-180.0, -90.0, 180.0, 90.0]"),
        ({"polygon": [[SQUARE[0]] * (MAX_VERTICES + 1)]}, "more than 100,000 positions"),
    ],
)  # fmt: skip
def test_what_is_no_polygon_is_refused_with_a_reason(region, reason):
    """Open rings, too few positions, no numbers, other geometries, too many vertices, places outside of the space."""
    found = query(region)
    assert isinstance(found, str), found
    assert reason in found


@pytest.mark.parametrize(
    ("ring", "reason"),
    [
        ([[0, 80], [120, 80], [-120, 80], [0, 80]], "ring 1 goes around a pole; cut it at the antimeridian"),
        ([[0, 80], [120, 91], [-120, 80], [0, 80]], "[120.0, 91.0] in ring 1 is no longitude and latitude"),
        ([[500, 0], [501, 0], [501, 1], [500, 0]], "is no longitude and latitude"),
    ],
)
def test_what_is_no_place_on_earth_is_refused_with_a_reason(ring, reason):
    """A ring around a pole has two sides and says nothing of which is meant."""
    found = query({"polygon": [ring]}, "haversine")
    assert isinstance(found, str), found
    assert reason in found


def test_nan_and_infinity_are_no_coordinates():
    """JSON of Python has them."""
    for number in (float("nan"), float("inf")):
        assert isinstance(read_polygons([[[0.0, number], *SQUARE]], False, "euclidean"), str)


def test_keywords_that_must_not_occur_are_read_and_refused():
    """An array of strings for all types but topk, and never what the query wants."""
    region = {"rect": [0, 0, 1, 1]}
    assert query(region, keywords=["fire"], none=["Drill", "test"]).none == ("Drill", "test")
    assert query(region, keywords=["fire", "smoke"], match="any", none=["smoke"]).keywords == ("fire", "smoke")
    for more, reason in (
        ({"none": "drill"}, 'none is "drill", expected an array of strings'),
        ({"none": ["a", 1]}, "none[1] is 1, expected a string"),
        ({"none": [f"w{n}" for n in range(11)]}, "more than the limit of 10"),
        ({"keywords": ["fire", "smoke"], "none": ["FIRE"]}, '"fire" is in keywords and in none, so nothing can match'),
        ({"keywords": ["fire"], "match": "any", "none": ["fire", "x"]}, '"fire" is in keywords and in none'),
    ):
        found = query(region, **more)
        assert isinstance(found, str), found
        assert reason in found
    topk = {"op": "register", "id": 1, "ts": 0, "type": "topk", "at": [0, 0], "k": 1, "alpha": 1, "keywords": ["a"]}
    assert "a topk query has no field 'none'" in read_query(topk | {"none": ["b"]}, RULES["euclidean"])
