"""Workloads on which range indexes break: the questions that people ask, beside those that an index was made for.

Each is queries, objects, the space and the metric, drawn from the same rows: a synthetic city, or the rows of a file.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from benchmarks.synthetic_stream import drawn_queries, registrations
from streams.batches import OP_UPSERT, ObjectBatch, QueryBatch
from streams.columns import Ids
from streams.geometry import EARTH_RADIUS_M, REGION_CIRCLE, REGION_NONE, Metric, Rect

__all__ = ["WORKLOADS", "Source", "Workload", "centred"]

Floats = NDArray[np.float64]

#: The side of a usual query as a share of the space, and the sides of mixed ones.
SIDE, MIXED_SIDES = 0.005, (0.0005, 0.005, 0.05, 0.4)
#: The world, and the side in degrees of the square in which a city lies.
WORLD, CITY = Rect(-180.0, -90.0, 180.0, 90.0), 0.5
#: Tags of the vocabulary that is small, tags of an object, and the side of regions that space does not tell apart.
TAGS, TAGS_OF_OBJECT, HALF = 200, 8, 0.7
#: Words of a long text, and of a query with many.
LONG_TEXT, MANY_WORDS = 37, 40


@dataclass(frozen=True, slots=True)
class Source:
    """Rows that objects and queries are drawn from, their box, and how many of both are wanted."""

    rows: ObjectBatch
    space: Rect
    queries: int
    objects: int
    seed: int

    def random(self, stream: int) -> np.random.Generator:
        """Return numbers of their own for one purpose."""
        return np.random.default_rng([self.seed, stream])

    def side(self, share: float) -> tuple[float, float]:
        """Return a share of the space's width and height."""
        return share * (self.space.max_x - self.space.min_x), share * (self.space.max_y - self.space.min_y)

    def some(self) -> ObjectBatch:
        """Return objects of the rows."""
        return self.rows.take(np.sort(self.random(1).permutation(len(self.rows))[: self.objects]))

    def drawn(self, share: float, count: int | None = None, most_words: int = 3) -> QueryBatch:
        """Return rectangles with keywords drawn from the rows."""
        return drawn_queries(self.rows, count or self.queries, self.seed, *self.side(share), most_words=most_words)


@dataclass(frozen=True, slots=True)
class Workload:
    """What an index is asked."""

    queries: QueryBatch
    objects: ObjectBatch
    space: Rect
    metric: Metric = "euclidean"


def centred(queries: QueryBatch) -> QueryBatch:
    """Return queries that have a place, the centre of their region, in its stead."""
    shape = np.zeros((len(queries), 4))
    centre = (queries.shape[:, :2] + queries.shape[:, 2:]) / 2
    shape[:, :2] = np.where((queries.region == REGION_CIRCLE)[:, None], queries.shape[:, :2], centre)
    return replace(queries, region=np.full(len(queries), REGION_NONE, np.uint8), shape=shape)


def _usual(source: Source) -> Workload:
    return Workload(source.drawn(SIDE), source.some(), source.space)


def _mixed_sides(source: Source) -> Workload:
    queries = source.drawn(SIDE)
    factor = np.array(MIXED_SIDES)[source.random(2).integers(0, len(MIXED_SIDES), len(queries))] / SIDE
    return Workload(replace(queries, shape=_scaled(queries.shape, factor)), source.some(), source.space)


def _scaled(shape: Floats, factor: Floats) -> Floats:
    """Return rectangles around the same centres."""
    centre, half = (shape[:, :2] + shape[:, 2:]) / 2, (shape[:, 2:] - shape[:, :2]) / 2 * factor[:, None]
    return np.column_stack([centre - half, centre + half])


def _city(source: Source) -> Workload:
    """Return the usual queries of a city that lies in a square of half a degree, with the city as space."""
    queries, objects, space = source.drawn(SIDE), source.some(), source.space
    low, scale = np.array([space.min_x, space.min_y]), CITY / np.array([*source.side(1.0)])
    moved = (queries.shape.reshape(-1, 2, 2) - low) * scale + [10.0, 40.0]
    x, y = (objects.x - low[0]) * scale[0] + 10.0, (objects.y - low[1]) * scale[1] + 40.0
    box = Rect(10.0, 40.0, 10.0 + CITY, 40.0 + CITY)
    return Workload(replace(queries, shape=moved.reshape(-1, 4)), replace(objects, x=x, y=y), box)


def _city_in_a_world(source: Source) -> Workload:
    return replace(_city(source), space=WORLD)


def _few_words(source: Source, weights: Floats) -> Workload:
    """Return questions of four or five tags out of two hundred, in regions of half the space."""
    random = source.random(3)
    keys = random.exponential(size=(len(source.rows), TAGS)) / weights
    tags = np.argpartition(keys, TAGS_OF_OBJECT, axis=1)[:, :TAGS_OF_OBJECT]
    off = np.arange(0, TAGS_OF_OBJECT * len(source.rows) + 1, TAGS_OF_OBJECT, dtype=np.int32)
    rows = replace(source.rows, kw_off=off, kw=np.sort(tags, axis=1).ravel().astype(np.int64))
    chosen, wanted = random.integers(0, len(rows), source.queries), random.integers(4, 6, source.queries)
    picked = np.argsort(random.random((source.queries, TAGS_OF_OBJECT)), axis=1)
    words = np.take_along_axis(tags[chosen], picked, axis=1)
    taken = np.arange(TAGS_OF_OBJECT)[None, :] < wanted[:, None]
    kw_off = np.concatenate([[0], np.cumsum(wanted)]).astype(np.int32)
    wide, high = source.side(HALF)
    x, y = rows.x[chosen], rows.y[chosen]
    shape = np.column_stack([x - wide / 2, y - high / 2, x + wide / 2, y + high / 2])
    queries = registrations(np.arange(source.queries), shape, kw_off, words[taken].astype(np.int64))
    return Workload(queries, replace(source, rows=rows).some(), source.space)


def _few_words_alike(source: Source) -> Workload:
    return _few_words(source, np.ones(TAGS))


def _few_words_zipf(source: Source) -> Workload:
    return _few_words(source, 1.0 / np.arange(1, TAGS + 1))


def _any(source: Source) -> Workload:
    usual = _usual(source)
    return replace(usual, queries=replace(usual.queries, match_any=np.ones(source.queries, np.bool_)))


def _circles(source: Source) -> Workload:
    usual = _usual(source)
    return replace(usual, queries=_rounded(usual.queries, source.side(SIDE)[0] / 2))


def _rounded(queries: QueryBatch, radius: float) -> QueryBatch:
    shape = np.zeros((len(queries), 4))
    shape[:, :2], shape[:, 2] = (queries.shape[:, :2] + queries.shape[:, 2:]) / 2, radius
    return replace(queries, region=np.full(len(queries), REGION_CIRCLE, np.uint8), shape=shape)


def _haversine(source: Source) -> Workload:
    """Return circles in metres as large as the Euclidean ones, on a map where the rows lie in thirty degrees or as they are."""
    space, scale = source.space, 1.0
    low = np.array([space.min_x, space.min_y])
    if space.max_x - space.min_x <= 1.0:  # the synthetic city has no degrees
        scale = 30.0
    moved = replace(
        source, space=Rect(*((np.array(space.as_tuple()) - np.tile(low, 2)) * scale + np.tile(_corner(space, scale), 2))),
        rows=replace(
            source.rows, x=(source.rows.x - low[0]) * scale + _corner(space, scale)[0],
            y=(source.rows.y - low[1]) * scale + _corner(space, scale)[1],
        ),
    )  # fmt: skip
    usual = _usual(moved)
    radius = np.radians(moved.side(SIDE)[1] / 2) * EARTH_RADIUS_M
    return replace(usual, queries=_rounded(usual.queries, float(radius)), metric="haversine")


def _corner(space: Rect, scale: float) -> Floats:
    return np.array([space.min_x, space.min_y]) if scale == 1.0 else np.array([-100.0, 25.0])


def _no_keywords(source: Source) -> Workload:
    queries = source.drawn(SIDE)
    none = np.zeros(source.queries + 1, np.int32)
    return Workload(replace(queries, kw_off=none, kw=np.empty(0, np.int64)), source.some(), source.space)


def _one_keyword(source: Source) -> Workload:
    """Return questions that all ask for the most frequent keyword."""
    values, counts = np.unique(source.rows.kw, return_counts=True)
    off = np.arange(source.queries + 1, dtype=np.int32)
    kw = np.full(source.queries, values[counts.argmax()])
    return Workload(replace(source.drawn(SIDE), kw_off=off, kw=kw), source.some(), source.space)


def _large_regions(source: Source) -> Workload:
    return Workload(source.drawn(MIXED_SIDES[-1]), source.some(), source.space)


def _long_texts(source: Source) -> Workload:
    """Return objects with the words of several rows."""
    random, rows = source.random(4), source.rows
    lengths = np.diff(rows.kw_off)
    parts = int(np.ceil(LONG_TEXT / max(lengths.mean(), 1.0)))
    picked = random.integers(0, len(rows), (source.objects, parts))
    words = [np.unique(np.concatenate([rows.kw[rows.kw_off[r] : rows.kw_off[r + 1]] for r in row])) for row in picked]
    off = np.concatenate([[0], np.cumsum([len(one) for one in words])]).astype(np.int32)
    objects = source.some()
    seq = np.arange(len(objects))
    kw = np.concatenate(words)[: off[len(objects)]]
    texts = ObjectBatch(
        seq=seq, ts=seq, x=objects.x, y=objects.y, op=np.full(len(seq), OP_UPSERT, np.uint8),
        kw_off=off[: len(objects) + 1], kw=kw, ids=Ids("int", seq),
    )  # fmt: skip
    return Workload(source.drawn(SIDE), texts, source.space)


def _identical(source: Source) -> Workload:
    """Return one question asked by two in five, the rest as usual: everybody follows the same stadium."""
    queries = source.drawn(SIDE)
    same = np.arange(source.queries) % 5 < 2
    word = queries.kw[queries.kw_off[0]]
    lengths = np.where(same, 1, np.diff(queries.kw_off))
    off = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    kept = np.repeat(~same, np.diff(queries.kw_off))
    kw = np.full(off[-1], word)
    kw[np.repeat(~same, lengths)] = queries.kw[kept]
    shape = np.where(same[:, None], queries.shape[0], queries.shape)
    return Workload(replace(queries, shape=shape, kw_off=off, kw=kw), source.some(), source.space)


def _many_words(source: Source) -> Workload:
    """Return a tenth as many queries, each with any of forty keywords of the vocabulary."""
    random, count = source.random(5), source.queries // 10
    queries = source.drawn(SIDE, count)
    rows = np.sort(random.choice(source.rows.kw, (count, 2 * MANY_WORDS)), axis=1)
    fresh = np.ones(rows.shape, np.bool_)
    fresh[:, 1:] = rows[:, 1:] != rows[:, :-1]
    kept = fresh & (fresh.cumsum(axis=1) <= MANY_WORDS)
    off = np.concatenate([[0], np.cumsum(kept.sum(axis=1))]).astype(np.int32)
    any_one = np.ones(count, np.bool_)
    return Workload(replace(queries, kw_off=off, kw=rows[kept], match_any=any_one), source.some(), source.space)


def _everywhere(source: Source) -> Workload:
    """Return questions without a region: keywords alone decide."""
    queries = source.drawn(SIDE, most_words=3)
    nowhere = np.full(source.queries, REGION_NONE, np.uint8)
    return Workload(replace(queries, region=nowhere, shape=np.zeros((source.queries, 4))), source.some(), source.space)


WORKLOADS: dict[str, Callable[[Source], Workload]] = {
    "usual": _usual,
    "mixed sides": _mixed_sides,
    "city": _city,
    "city in a world": _city_in_a_world,
    "few words": _few_words_alike,
    "few words, zipf": _few_words_zipf,
    "any": _any,
    "circles": _circles,
    "haversine circles": _haversine,
    "no keywords": _no_keywords,
    "one keyword": _one_keyword,
    "no region": _everywhere,
    "large regions": _large_regions,
    "long texts": _long_texts,
    "identical": _identical,
    "40 words, any": _many_words,
}
