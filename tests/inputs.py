"""Random inputs in the form of plain records, for the oracle and its naive reference alike."""

import numpy as np
from hypothesis import strategies as st
from naive import Naive, NaiveOnEarth
from plain_records import object_batch, query_batch

from streams.batches import DETECTS
from streams.geometry import Rect, distance, max_distance
from streams.oracle import Oracle
from streams.vocabulary import Encoder, Vocabulary
from streams.window import Window

WORDS = ["ape", "bee", "cat", "dog", "eel", "fox"]
SPACES = {"euclidean": Rect(0, 0, 1, 1), "haversine": Rect(-180, -90, 180, 90)}
STATISTICS = Vocabulary.of({"ape": 90, "bee": 40, "cat": 7, "dog": 7}, documents=100)
LAST = 14

words = st.lists(st.sampled_from(WORDS), max_size=4, unique=True)
some_words = st.lists(st.sampled_from(WORDS), min_size=1, max_size=4, unique=True)
times = st.integers(0, LAST)
fractions = st.sampled_from([0.0, 0.1, 0.25, 0.3, 0.5, 0.7, 0.75, 1.0])
windows = st.one_of(
    st.none(),
    st.builds(dict, objects=st.integers(1, 8)),
    st.builds(dict, ms=st.integers(1, 8)),
)
vocabularies = st.sampled_from([Vocabulary(), STATISTICS])
object_names = st.sampled_from(["o1", "o2", 3, "3", "o5", "o6"])


def places(metric):
    """Coordinates on a coarse grid, so that ties and borders are common."""
    space = SPACES[metric]
    return st.tuples(
        fractions.map(lambda f: space.min_x + f * (space.max_x - space.min_x)),
        fractions.map(lambda f: space.min_y + f * (space.max_y - space.min_y)),
    )


@st.composite
def streams_of_objects(draw, metric, dynamic=False):
    """Objects in time order; identifiers come again."""
    found = []
    for ts in sorted(draw(st.lists(times, max_size=25))):
        x, y = draw(places(metric))
        record = {"id": draw(object_names), "ts": ts, "x": x, "y": y, "keywords": draw(words)}
        if dynamic and draw(st.integers(0, 3)) == 0:
            record["op"] = "delete"
        found.append(record)
    return found


@st.composite
def polygons(draw, metric):
    """A GeoJSON geometry on the grid of the objects, or between its lines."""
    rings = st.lists(places(metric).map(list), min_size=3, max_size=6).map(lambda ring: [*ring, ring[0]])
    polygon = st.lists(rings, min_size=1, max_size=2)
    if draw(st.booleans()):
        return {"type": "Polygon", "coordinates": draw(polygon)}
    return {"type": "MultiPolygon", "coordinates": draw(st.lists(polygon, min_size=1, max_size=2))}


@st.composite
def regions(draw, metric):
    """Rectangles, circles, polygons with holes and crossing edges, or no region at all."""
    (a, b), (c, d) = draw(places(metric)), draw(places(metric))
    kind = draw(st.sampled_from(["rect", "circle", "polygon", "none"]))
    if kind == "polygon":
        return draw(polygons(metric))
    if kind == "rect":
        return {"rect": [min(a, c), min(b, d), max(a, c), max(b, d)]}
    unit = 1.0 if metric == "euclidean" else 2e7
    return {"circle": [a, b, draw(fractions) * unit]} if kind == "circle" else {}


@st.composite
def registrations(draw, name, ts, metric, types):
    """One registration of any type."""
    kind = draw(st.sampled_from(types))
    query = {"op": "register", "id": name, "ts": ts, "type": kind.removesuffix(" snapshot")}
    if kind == "fence":
        kind = query["type"] = "range"
        query["detect"] = draw(st.lists(st.sampled_from(DETECTS), min_size=1, unique=True))
    if kind.endswith("snapshot"):
        query["continuous"] = False
    if kind != "range":
        query["k"] = draw(st.integers(1, 4))
    if kind.startswith(("knn", "topk")):
        query["at"] = list(draw(places(metric)))
    else:
        query["region"] = draw(regions(metric))
    query["keywords"] = draw(some_words if kind == "topk" else words)
    query["match"] = draw(st.sampled_from(["all", "any"]))
    if kind != "topk" and draw(st.booleans()):
        query["none"] = draw(words)
    if kind == "topk":
        query["alpha"] = draw(fractions)
    if kind == "terms":
        query |= {"window": draw(st.integers(1, 8)), "slide": draw(st.integers(1, 5))}
    elif kind.endswith("snapshot") and draw(st.booleans()):
        query["window"] = draw(st.integers(1, 8))
    if draw(st.booleans()):
        query["ttl"] = draw(st.integers(1, 9))
    return query


@st.composite
def streams_of_operations(draw, metric, types):
    """Registrations and unregistrations in time order; an identifier is used again only when it is free."""
    found, live = [], {}
    for ts in sorted(draw(st.lists(times, max_size=8))):
        live = {name: end for name, end in live.items() if end > ts}
        if live and draw(st.integers(0, 2)) == 0:
            name = draw(st.sampled_from(sorted(live)))
            found.append({"op": "unregister", "id": name, "ts": ts})
            del live[name]
            continue
        free = [name for name in ("q1", "q2", "q3", "q4") if name not in live]
        if free:
            name = draw(st.sampled_from(free))
            query = draw(registrations(name, ts, metric, types))
            found.append(query)
            live[name] = ts + query.get("ttl", 1000)
    return found


def both(objects, operations, metric, vocabulary, window=None, dynamic=False):
    """Return the oracle and the naive reference of one input."""
    encoder = Encoder(vocabulary)
    ids = dict(zip(WORDS, encoder.words(WORDS).tolist(), strict=True))
    idf = {word: float(vocabulary.idf(np.array([ids[word]]))[0]) for word in WORDS}
    oracle = Oracle(
        object_batch(objects, encoder),
        query_batch(operations, encoder),
        space=SPACES[metric],
        metric=metric,
        vocabulary=vocabulary,
        words={number: word for word, number in ids.items()},
        window=Window(**window) if window else None,
        dynamic=dynamic,
    )
    naive = (Naive if metric == "euclidean" else NaiveOnEarth)(
        objects,
        operations,
        distance=lambda o, at: float(distance(np.array([o["x"]]), np.array([o["y"]]), *at, metric)[0]),
        idf=idf.get,
        keyword_id=ids.get,
        max_distance=max_distance(SPACES[metric], metric),
        window=window,
        dynamic=dynamic,
    )
    return oracle, naive
