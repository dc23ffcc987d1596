"""Query operations, one at a time: what is a valid one, and the reason why another is not.

This is the definition; `streams.files.query_columns` gives the same for whole columns of plain records.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from streams.batches import DETECTS, FOREVER, NO_WINDOW, OP_REGISTER, OP_UNREGISTER, QUERY_TYPES
from streams.errors import did_you_mean
from streams.files.file_blocks import DEFAULT_LIMITS
from streams.files.file_bytes import PLAIN_BYTES, ByteForm
from streams.files.geojson import read_polygons
from streams.files.json_blocks import Repeated, is_unicode
from streams.files.objections import shown
from streams.geometry import (
    REGION_CIRCLE,
    REGION_NONE,
    REGION_POLYGON,
    REGION_RECT,
    Metric,
    Rect,
    max_distance,
    region_bounds,
)
from streams.polygons import NO_RINGS, Rings
from streams.timestamps import MAX_TS, TIME_EXPECTED, read_time
from streams.tokens import tokenise

__all__ = ["MAX_K", "QueryRecord", "QueryRules", "read_query"]

#: The largest k.
MAX_K = 1000

OPERATIONS = ("register", "unregister")
MATCHES = ("all", "any")

_ALWAYS = ("op", "id", "ts")
_REGISTER = ("type", "continuous", "ttl", "keywords", "match")
_OF_TYPE = {
    "range": ("none", "region", "window", "detect"),
    "knn": ("none", "at", "k", "window"),
    "topk": ("at", "k", "alpha"),
    "terms": ("none", "region", "k", "window", "slide"),
}
_FIELDS = tuple(dict.fromkeys([*_ALWAYS, *_REGISTER, *(name for names in _OF_TYPE.values() for name in names)]))

Shape = tuple[float, float, float, float]
Place = tuple[int, Shape, Rings]

_REGION_EXPECTED = (
    '{"rect": [min x, min y, max x, max y]}, {"circle": [x, y, radius]}, {"polygon": [ring, ...]} '
    'or a GeoJSON geometry of type "Polygon" or "MultiPolygon"'
)
_GEOMETRIES = ("Polygon", "MultiPolygon")


@dataclass(frozen=True, slots=True)
class QueryRules:
    """What a record is judged by, besides itself.

    Attributes:
        space: where objects are.
        metric: how distances are measured.
        most_keywords: of one query.
        id_bytes: of one identifier.
        text: what is said of the bytes of the files.
        tokenise: objects are texts, so the keywords of queries are cut into words as these are.
    """

    space: Rect
    metric: Metric
    most_keywords: int
    id_bytes: int = DEFAULT_LIMITS.id_bytes
    text: ByteForm = PLAIN_BYTES
    tokenise: bool = False


@dataclass(frozen=True, slots=True)
class QueryRecord:
    """A valid operation; fields as in `streams.batches.QueryBatch`, keywords as they were given."""

    id: int | str
    op: int
    ts: int
    end: int
    type: int = 0
    continuous: bool = True
    match_any: bool = False
    region: int = REGION_NONE
    shape: Shape = (0.0, 0.0, 0.0, 0.0)
    k: int = 0
    alpha: float = 0.0
    window: int = NO_WINDOW
    slide: int = 0
    detect: int = 0
    keywords: tuple[str, ...] = ()
    none: tuple[str, ...] = ()
    rings: Rings = NO_RINGS


class _RefusedError(Exception):
    """The reason why a record is no operation; does not leave this module."""


def read_query(record: Mapping[str, Any], rules: QueryRules) -> QueryRecord | str:
    """Return the operation that a JSON object says, or the reason why it says none."""
    try:
        return _read(record, rules)
    except _RefusedError as reason:
        return str(reason)


def _read(record: Mapping[str, Any], rules: QueryRules) -> QueryRecord:
    if isinstance(record, Repeated):
        raise _RefusedError(f"field '{min(record.fields)}' is given more than once")
    if unknown := [field for field in record if field not in _FIELDS]:
        raise _RefusedError(f"unknown field {shown(unknown[0])}{did_you_mean(unknown[0], _FIELDS)}")
    given = {name: value for name, value in record.items() if value is not None}
    op = _choice({"op": "register", **given}, "op", OPERATIONS)
    standing = op == "register" and given.get("continuous", True) is not False and given.get("type") != "terms"
    name, ts = _id(given, rules.id_bytes), _ts({"ts": 0, **given} if standing else given)
    if op == "unregister":
        _only(given, _ALWAYS, "an unregistration")
        return QueryRecord(name, OP_UNREGISTER, ts, ts)
    kind = _choice(given, "type", QUERY_TYPES)
    _only(given, (*_ALWAYS, *_REGISTER, *_OF_TYPE[kind]), f"a {kind} query")
    return _registration(given, name, ts, kind, rules)


def _registration(given: Mapping[str, Any], name: int | str, ts: int, kind: str, rules: QueryRules) -> QueryRecord:
    continuous = _continuous(given, kind)
    ttl = _duration(given, "ttl", continuous, "a snapshot query is answered once and has no ttl")
    terms = kind == "terms"
    window = _duration(given, "window", terms or not continuous, f"a continuous {kind} query has no window")
    slide = _duration(given, "slide", continuous, "a snapshot query has no slide")
    if terms and continuous and (window is None or slide is None):
        raise _RefusedError(f"no {'window' if window is None else 'slide'}, expected one for a continuous terms query")
    region, shape, rings = _place(given, rules) if kind in ("knn", "topk") else _region(given, rules)
    keywords, none = (_keywords(given, name, rules.most_keywords) for name in ("keywords", "none"))
    match = _choice(given, "match", MATCHES) if "match" in given else "any" if kind == "topk" else "all"
    if rules.tokenise:
        keywords = _tokens(keywords, "keywords", match == "all" or kind == "topk")
        none = _tokens(none, "none", False)
    if kind == "topk" and not keywords:
        raise _RefusedError("no keywords, expected at least one for a topk query")
    if kind == "topk" and match == "all":
        raise _RefusedError('match is "all", but a topk query takes objects that share any of its keywords')
    _possible(keywords, none, match)
    return QueryRecord(
        id=name,
        op=OP_REGISTER,
        ts=ts,
        end=(FOREVER if ttl is None else ts + ttl) if continuous else ts + 1,
        type=QUERY_TYPES.index(kind),
        continuous=continuous,
        match_any=match == "any",
        region=region,
        shape=shape,
        k=_k(given) if "k" in _OF_TYPE[kind] else 0,
        alpha=_alpha(given) if kind == "topk" else 0.0,
        window=NO_WINDOW if window is None else window,
        slide=slide or 0,
        detect=_detect(given, continuous),
        keywords=keywords,
        none=none,
        rings=rings,
    )


def _only(given: Mapping[str, Any], known: tuple[str, ...], what: str) -> None:
    for name in given:
        if name not in known:
            raise _RefusedError(f"{what} has no field '{name}', expected {', '.join(known)}")


def _choice(given: Mapping[str, Any], name: str, known: tuple[str, ...]) -> str:
    value = given.get(name)
    if value is None:
        raise _RefusedError(f"no {name}, expected {' or '.join(known)}")
    if isinstance(value, str) and value in known:
        return value
    near = did_you_mean(value, known) if isinstance(value, str) else ""
    raise _RefusedError(f"{name} is {shown(value)}, expected {' or '.join(known)}{near}")


def _id(given: Mapping[str, Any], most_bytes: int) -> int | str:
    value = given.get("id")
    if value is None or value == "":
        raise _RefusedError("no id")
    if type(value) is not int and not (isinstance(value, str) and is_unicode(value)):
        raise _RefusedError(f"id is {shown(value)}, expected a string or an integer")
    if (size := len(str(value).encode())) > most_bytes:
        raise _RefusedError(f"an id of {size} bytes, longer than the limit of {most_bytes}")
    return value


def _ts(given: Mapping[str, Any]) -> int:
    value = given.get("ts")
    if value is None:
        raise _RefusedError("no ts, which only a standing range, knn or topk query may leave out")
    ts = read_time(value) if isinstance(value, str) else value if type(value) is int else None
    if ts is None or not -MAX_TS < ts < MAX_TS:
        raise _RefusedError(f"ts is {shown(value)}, expected {TIME_EXPECTED}")
    return ts


def _continuous(given: Mapping[str, Any], kind: str) -> bool:
    value = given.get("continuous", True)
    if not isinstance(value, bool):
        raise _RefusedError(f"continuous is {shown(value)}, expected true or false")
    if kind == "topk" and not value:
        raise _RefusedError("continuous is false, but a topk query is always continuous")
    return value


def _duration(given: Mapping[str, Any], name: str, allowed: bool, otherwise: str) -> int | None:
    value = given.get(name)
    if value is None:
        return None
    if not allowed:
        raise _RefusedError(otherwise)
    if type(value) is int and value >= MAX_TS:
        raise _RefusedError(f"{name} is {shown(value)}, expected less than {MAX_TS} milliseconds")
    if type(value) is not int or value <= 0:
        raise _RefusedError(f"{name} is {shown(value)}, expected a positive number of milliseconds, as an integer")
    return value


def _numbers(value: Any, name: str, expected: str, count: int) -> list[float]:
    if not isinstance(value, list) or len(value) != count or any(type(item) not in (int, float) for item in value):
        raise _RefusedError(f"{name} is {shown(value)}, expected {expected}")
    try:
        numbers = [float(item) for item in value]
    except OverflowError:
        numbers = [math.inf]
    if not all(map(math.isfinite, numbers)):
        raise _RefusedError(f"{name} is {shown(value)}, expected finite numbers")
    return numbers


def _place(given: Mapping[str, Any], rules: QueryRules) -> Place:
    if "at" not in given:
        raise _RefusedError("no at, expected [x, y]")
    x, y = _numbers(given["at"], "at", "[x, y]", 2)
    space = rules.space
    if not (space.min_x <= x <= space.max_x and space.min_y <= y <= space.max_y):
        raise _RefusedError(f"at is {shown(given['at'])}, which is outside the space {list(space.as_tuple())}")
    return REGION_NONE, (x, y, 0.0, 0.0), NO_RINGS


def _region(given: Mapping[str, Any], rules: QueryRules) -> Place:
    region = given.get("region")
    if region is None:
        raise _RefusedError(f"no region, expected {_REGION_EXPECTED}")
    shapes = {name: v for name, v in region.items() if v is not None} if isinstance(region, dict) else {}
    if isinstance(region, Repeated):
        shapes = {}
    if "type" in shapes:
        return _geometry(shapes, rules)
    if len(shapes) != 1 or not region.keys() <= {"rect", "circle", "polygon"}:
        raise _RefusedError(f"region is {shown(region)}, expected {_REGION_EXPECTED}")
    if "polygon" in shapes:
        return _polygon(shapes["polygon"], False, rules)
    if "rect" in shapes:
        a, b, c, d = _numbers(shapes["rect"], "rect", "[min x, min y, max x, max y]", 4)
        if a > c or b > d:
            raise _RefusedError(f"rect is {shown(shapes['rect'])}, which is empty: expected min <= max")
        _meets(REGION_RECT, (a, b, c, d), rules, f"rect {shown(shapes['rect'])}")
        return REGION_RECT, (a, b, c, d), NO_RINGS
    x, y, radius = _numbers(shapes["circle"], "circle", "[x, y, radius]", 3)
    if radius < 0:
        raise _RefusedError(f"circle has radius {radius!r}, expected none below 0")
    if rules.metric == "haversine" and not (-180 <= x <= 180 and -90 <= y <= 90):
        raise _RefusedError(
            f"circle is {shown(shapes['circle'])}, whose centre is no longitude and latitude: longitude comes first"
        )
    if rules.metric == "euclidean" and radius > (most := max_distance(rules.space)):
        raise _RefusedError(
            f"circle has radius {radius!r}, but the diagonal of the space is {most:.6g} in units of the coordinates, "
            'expected a smaller one; for longitudes, latitudes and metres set topology.metric = "haversine"'
        )
    _meets(REGION_CIRCLE, (x, y, radius, 0.0), rules, f"circle {shown(shapes['circle'])}")
    return REGION_CIRCLE, (x, y, radius, 0.0), NO_RINGS


def _meets(kind: int, shape: Shape, rules: QueryRules, what: str) -> None:
    """Refuse a region that lies outside of the space: nothing can ever be inside of it."""
    if _outside(kind, shape, rules):
        a, b, c, d = shape
        swapped = (b, a, d, c) if kind == REGION_RECT else (b, a, c, d)
        hint = "" if _outside(kind, swapped, rules) else "; it would not with x and y exchanged: longitude comes first"
        raise _RefusedError(f"{what} lies outside the space {list(rules.space.as_tuple())}{hint}")


def _outside(kind: int, shape: Shape, rules: QueryRules) -> bool:
    space = rules.space
    bounds = region_bounds(np.array([kind], np.uint8), np.array([shape]), space, rules.metric)
    low_x, low_y, high_x, high_y = (float(bound[0]) for bound in bounds)
    return low_x > space.max_x or high_x < space.min_x or low_y > space.max_y or high_y < space.min_y


def _geometry(given: Mapping[str, Any], rules: QueryRules) -> Place:
    if given["type"] not in _GEOMETRIES:
        hint = "; give its geometry" if given["type"] == "Feature" else ""
        raise _RefusedError(f"region has the type {shown(given['type'])}, expected {' or '.join(_GEOMETRIES)}{hint}")
    if unknown := given.keys() - {"type", "coordinates", "bbox"}:
        raise _RefusedError(f"region has a member {shown(min(unknown))}, expected type and coordinates")
    return _polygon(given.get("coordinates"), given["type"] == "MultiPolygon", rules)


def _polygon(coordinates: Any, several: bool, rules: QueryRules) -> Place:
    rings = read_polygons(coordinates, several, rules.metric)
    if isinstance(rings, str):
        raise _RefusedError(f"region: {rings}")
    low_x, low_y, high_x, high_y = box = rings.box()
    space = rules.space
    if low_x > space.max_x or high_x < space.min_x or low_y > space.max_y or high_y < space.min_y:
        raise _RefusedError(f"region lies within {list(box)}, outside the space {list(space.as_tuple())}")
    return REGION_POLYGON, box, rings


def _k(given: Mapping[str, Any]) -> int:
    value = given.get("k")
    if value is None:
        raise _RefusedError("no k, expected a positive integer")
    if type(value) is not int or not 0 < value <= MAX_K:
        raise _RefusedError(f"k is {shown(value)}, expected an integer from 1 to {MAX_K}")
    return value


def _alpha(given: Mapping[str, Any]) -> float:
    value = given.get("alpha")
    if value is None:
        raise _RefusedError("no alpha, expected a number from 0 to 1")
    if type(value) not in (int, float) or not 0 <= value <= 1:
        raise _RefusedError(f"alpha is {shown(value)}, expected a number from 0 to 1")
    return float(value)


def _detect(given: Mapping[str, Any], continuous: bool) -> int:
    value = given.get("detect")
    if value is None:
        return 0
    if not continuous:
        raise _RefusedError("a snapshot query has no detect: nothing enters or leaves at one instant")
    if not isinstance(value, list) or not value:
        raise _RefusedError(f"detect is {shown(value)}, expected an array with some of {', '.join(DETECTS)}")
    for place, word in enumerate(value):
        if word not in DETECTS:
            near = did_you_mean(word, DETECTS) if isinstance(word, str) else ""
            raise _RefusedError(f"detect[{place}] is {shown(word)}, expected {' or '.join(DETECTS)}{near}")
    return sum(1 << DETECTS.index(word) for word in set(value))


def _keywords(given: Mapping[str, Any], name: str, most: int) -> tuple[str, ...]:
    value = given.get(name, [])
    if not isinstance(value, list):
        raise _RefusedError(f"{name} is {shown(value)}, expected an array of strings")
    for place, word in enumerate(value):
        if not isinstance(word, str) or not word or not is_unicode(word):
            raise _RefusedError(f"{name}[{place}] is {shown(word)}, expected a string that is not empty")
    if len(value) > most and len({word.casefold() for word in value}) > most:
        raise _RefusedError(f"{len(value)} {name}, more than the limit of {most}".replace("none", "keywords in none"))
    return tuple(value)


def _tokens(words: tuple[str, ...], name: str, together: bool) -> tuple[str, ...]:
    """Return the words that a text must have; where any of the keywords counts, each must be one word."""
    found: dict[str, None] = {}
    for place, word in enumerate(words):
        tokens = sorted(tokenise(word))
        if not tokens:
            raise _RefusedError(
                f"{name}[{place}] is {shown(word)}, which no text has: single characters and stop words are dropped"
            )
        if len(tokens) > 1 and not together:
            raise _RefusedError(
                f"{name}[{place}] is {shown(word)}, which is {len(tokens)} words of a text, expected one each where any of "
                "them counts"
            )
        found |= dict.fromkeys(tokens)
    return tuple(found)


def _possible(keywords: tuple[str, ...], none: tuple[str, ...], match: str) -> None:
    """Refuse a query that nothing can match: what it wants is what it excludes."""
    if not none or not keywords:
        return
    wanted, unwanted = {word.casefold() for word in keywords}, {word.casefold() for word in none}
    if wanted <= unwanted if match == "any" else wanted & unwanted:
        raise _RefusedError(f"{shown(min(wanted & unwanted))} is in keywords and in none, so nothing can match")
