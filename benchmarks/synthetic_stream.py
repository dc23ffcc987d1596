"""A seeded stream like a city's: words by Zipf's law, places around hot spots, queries drawn from objects."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from streams.batches import FOREVER, NO_WINDOW, OP_REGISTER, OP_UPSERT, TYPE_KNN, TYPE_RANGE, ObjectBatch, QueryBatch
from streams.columns import Ids
from streams.geometry import REGION_NONE, REGION_RECT

__all__ = [
    "SIDE",
    "VOCABULARY",
    "drawn_queries",
    "drawn_subscriptions",
    "registrations",
    "synthetic_objects",
    "synthetic_queries",
]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

#: Words of the vocabulary, words of an object, hot spots, the share of objects outside of them, the side of a query.
VOCABULARY, WORDS, HOT_SPOTS, ELSEWHERE, SIDE = 100_000, 8, 50, 0.1, 0.005
#: Rows made at a time: bounds the scratch arrays.
BLOCK = 500_000


def _distinct_words(random: np.random.Generator, count: int, cumulative: Floats, words: int) -> Ints:
    """Return rows of distinct words drawn by Zipf's law, ascending; rows with a word drawn twice are drawn again."""
    rows = np.empty((count, words), np.int64)
    todo = np.arange(count)
    while len(todo):
        rows[todo] = np.sort(np.searchsorted(cumulative, random.random((len(todo), words))), axis=1)
        todo = todo[(rows[todo, 1:] == rows[todo, :-1]).any(1)]
    return rows


def _places(random: np.random.Generator, count: int, seed: int) -> tuple[Floats, Floats]:
    spots = np.random.default_rng(seed)
    centre, spread = spots.random((HOT_SPOTS, 2)), spots.uniform(0.005, 0.04, HOT_SPOTS)
    spot = random.choice(HOT_SPOTS, count, p=spots.dirichlet(np.ones(HOT_SPOTS)))
    place = centre[spot] + random.normal(size=(count, 2)) * spread[spot][:, None]
    uniform = (random.random(count) < ELSEWHERE) | (place < 0).any(1) | (place > 1).any(1)
    place[uniform] = random.random((int(uniform.sum()), 2))
    return place[:, 0].copy(), place[:, 1].copy()


def synthetic_objects(count: int, seed: int, stream: int = 0, words: int = WORDS) -> ObjectBatch:
    """Return objects in the unit square, one a millisecond; streams of one seed share their hot spots."""
    random = np.random.default_rng([seed, stream])
    weights = 1.0 / np.arange(1, VOCABULARY + 1)
    cumulative = np.cumsum(weights / weights.sum())
    cumulative[-1] = 1.0
    x, y = _places(random, count, seed)
    kw = _distinct_words(random, count, cumulative, words)
    seq = np.arange(count)
    return ObjectBatch(
        seq=seq, ts=seq, x=x, y=y, op=np.full(count, OP_UPSERT, np.uint8),
        kw_off=np.arange(0, words * count + 1, words, dtype=np.int32), kw=kw.ravel(), ids=Ids("int", seq),
    )  # fmt: skip


def synthetic_queries(count: int, seed: int) -> QueryBatch:
    """Return registrations: squares around the places of objects of a stream of their own, 1 to 3 of its words each."""
    parts = []
    for start in range(0, count, BLOCK):
        size = min(BLOCK, count - start)
        parts.append(drawn_queries(synthetic_objects(size, seed, 1 + start // BLOCK), size, seed, SIDE, SIDE, start))
    return QueryBatch.concat(parts)


def drawn_queries(
    objects: ObjectBatch, count: int, seed: int, wide: float, high: float, first: int = 0, *, most_words: int = 3
) -> QueryBatch:
    """Return registrations drawn from objects with keywords: a rectangle around the place, 1 to some of the keywords."""
    random = np.random.default_rng([seed, first, count])
    lengths = np.diff(objects.kw_off)
    usable = np.flatnonzero(lengths)
    row = usable if len(usable) == count else usable[random.integers(0, len(usable), count)]
    wanted = np.minimum(random.integers(1, most_words + 1, count), lengths[row])
    word_off = np.zeros(count + 1, np.int64)
    np.cumsum(lengths[row], out=word_off[1:])
    owner = np.repeat(np.arange(count), lengths[row])
    source = np.arange(word_off[-1]) - word_off[owner] + objects.kw_off[row][owner]
    shuffled = np.lexsort((random.random(len(owner)), owner))
    rank = np.empty(len(owner), np.int64)
    rank[shuffled] = np.arange(len(owner)) - word_off[owner]
    chosen = rank < wanted[owner]
    kw_off = np.zeros(count + 1, np.int32)
    np.cumsum(wanted, out=kw_off[1:])
    x, y = objects.x[row], objects.y[row]
    shape = np.column_stack([x - wide / 2, y - high / 2, x + wide / 2, y + high / 2])
    return registrations(np.arange(first, first + count), shape, kw_off, objects.kw[source[chosen]])


def drawn_subscriptions(
    objects: ObjectBatch, count: int, seed: int, first: int = 0, *, most_words: int = 3, most_k: int = 10
) -> QueryBatch:
    """Return subscriptions to the nearest objects: the place of an object, any of 1 to some of its keywords, k from 1 on."""
    drawn = drawn_queries(objects, count, seed, 0.0, 0.0, first, most_words=most_words)
    shape = np.zeros((count, 4))
    shape[:, :2] = drawn.shape[:, :2]
    k = np.random.default_rng([seed, first, 7]).integers(1, most_k + 1, count)
    return replace(
        drawn, region=np.full(count, REGION_NONE, np.uint8), shape=shape, type=np.full(count, TYPE_KNN, np.uint8),
        k=k.astype(np.int32), match_any=np.ones(count, np.bool_),
    )  # fmt: skip


def registrations(number: Ints, shape: Floats, kw_off: NDArray[np.int32], kw: Ints) -> QueryBatch:
    """Return registrations of rectangles that last for ever."""
    count = len(number)
    return QueryBatch(
        number=number, target=number, op=np.full(count, OP_REGISTER, np.uint8), ts=np.zeros(count, np.int64),
        end=np.full(count, FOREVER), type=np.full(count, TYPE_RANGE, np.uint8), continuous=np.ones(count, np.bool_),
        match_any=np.zeros(count, np.bool_), region=np.full(count, REGION_RECT, np.uint8), shape=shape,
        k=np.zeros(count, np.int32), alpha=np.zeros(count), window=np.full(count, NO_WINDOW, np.int64),
        slide=np.zeros(count, np.int64), detect=np.zeros(count, np.uint8), kw_off=kw_off, kw=kw, ids=Ids("int", number),
    )  # fmt: skip
