"""A stream from memory for whole topologies: all queries first, then objects as fast as they are taken.

The stream is that of `synthetic_stream` with the skew of real places: of a day's flights 79% lie in one quarter of the box
that holds them all, of forty years of storms 73%. So a share of the stream, places and regions alike, is drawn to half its
size into the north-east quarter of the square: as many queries match an object there as elsewhere.
"""

import time
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from benchmarks.synthetic_stream import SIDE, VOCABULARY, WORDS, registrations, synthetic_objects
from benchmarks.tornado_topology import SPACE
from operators import Emitter, Epoch, Inputs, Spout, TaskContext
from operators.indexes import make_range_index
from streams.batches import ObjectBatch, QueryBatch, batch_fields

__all__ = ["CORNER_SHARE", "MemorySpout", "Workload", "batches_of", "matches_by_batch", "objects_of", "queries_of"]

#: The share of places that is drawn into one quarter; with a quarter of the rest, 79% lie there.
CORNER_SHARE = 0.72
#: Queries that are made, and registered, at a time.
BLOCK = 100_000
#: A stream of its own for objects that queries are drawn from.
QUERY_STREAM = 1_000


@dataclass(frozen=True, slots=True)
class Workload:
    """What is registered and what flows.

    Attributes:
        queries: how many.
        objects: how many different ones; they come over and over.
        side: of a query, as a share of the space's.
        keywords: of a query; 0: 1 to 3.
        percentile: keywords of queries are the least frequent so many percent of all words (Tornado's textually
            selective queries); 0: none that an object has; 100: as frequent as in objects.
        seed: of everything.
    """

    queries: int = 1_000_000
    objects: int = 200_000
    side: float = SIDE
    keywords: int = 0
    percentile: int = 100
    seed: int = 1


def _skewed(count: int, seed: int, stream: int) -> tuple[ObjectBatch, NDArray[np.float64]]:
    """Return objects of which a share is drawn into the north-east quarter, and to which size each was drawn."""
    objects = synthetic_objects(count, seed, stream)
    drawn = np.random.default_rng([seed, stream, 7]).random(count) < CORNER_SHARE
    x, y = (np.where(drawn, 0.5 + place / 2, place) for place in (objects.x, objects.y))
    placed = ObjectBatch(objects.seq, objects.ts, x, y, objects.op, objects.kw_off, objects.kw, objects.ids)
    return placed, np.where(drawn, 0.5, 1.0)


@lru_cache(maxsize=1)
def objects_of(workload: Workload) -> ObjectBatch:
    """Return the objects of a workload."""
    return _skewed(workload.objects, workload.seed, 0)[0]


@lru_cache(maxsize=1)
def queries_of(workload: Workload) -> QueryBatch:
    """Return the queries of a workload: squares around places of a stream of their own, worded like its objects."""
    made = []
    for start in range(0, workload.queries, BLOCK):
        count, stream = min(BLOCK, workload.queries - start), QUERY_STREAM + start // BLOCK
        made.append(_block(workload, *_skewed(count, workload.seed, stream), start))
    return QueryBatch.concat(made)


def _block(workload: Workload, objects: ObjectBatch, size: NDArray[np.float64], first: int) -> QueryBatch:
    count = len(objects)
    random = np.random.default_rng([workload.seed, first, 11])
    wanted = random.integers(1, 4, count) if workload.keywords == 0 else np.full(count, workload.keywords)
    words = (
        objects.kw.reshape(count, WORDS) if workload.percentile == 100 else _rare(random, count, workload.percentile)
    )
    place = np.argsort(random.random((count, WORDS)), axis=1)
    kept = np.where(
        np.arange(WORDS) < wanted[:, None], np.take_along_axis(words, place, axis=1), np.iinfo(np.int64).max
    )
    kept.sort(axis=1)
    kw_off = np.zeros(count + 1, np.int32)
    np.cumsum(wanted, out=kw_off[1:])
    half = size * workload.side / 2
    shape = np.column_stack([objects.x - half, objects.y - half, objects.x + half, objects.y + half])
    chosen = kept[np.arange(WORDS) < wanted[:, None]]
    return registrations(np.arange(first, first + count), shape, kw_off, chosen)


def _rare(random: np.random.Generator, count: int, percentile: int) -> NDArray[np.int64]:
    """Return rows of distinct words among the least frequent; of the percentile 0, words that no object has."""
    among = VOCABULARY * percentile // 100 or VOCABULARY
    first = VOCABULARY - among if percentile else VOCABULARY
    apart = among // WORDS  # word i of a row comes from the i-th part of the words, so that no two are the same
    return first + np.arange(WORDS) * apart + random.integers(0, apart, (count, WORDS))


@lru_cache(maxsize=4)
def matches_by_batch(workload: Workload, batch: int) -> NDArray[np.int64]:
    """Return how many matches each batch of so many objects has, found by one index that holds all queries."""
    index = make_range_index("kag", SPACE)
    index.insert(queries_of(workload))
    objects = objects_of(workload)
    return np.array([len(index.match(part)) for part in batches_of(objects, batch)], np.int64)


def batches_of(objects: ObjectBatch, size: int) -> list[ObjectBatch]:
    """Return objects in batches of this size; what does not fill one is left out."""
    return [objects.slice(start, start + size) for start in range(0, len(objects) - size + 1, size)]


@dataclass
class MemorySpout(Spout):
    """Registers all queries, then emits objects; counts what was complete within `seconds`, at least an epoch, once warm.

    Options:
        workload: what to make.
        batch: objects of an epoch.
        seconds: how long to measure.
        warm_up: how many epochs of objects come before.
    """

    outputs: ClassVar = {"objects": batch_fields(ObjectBatch), "queries": batch_fields(QueryBatch)}
    timed: ClassVar = True

    workload: Workload
    batch: int = 10_000
    seconds: float = 3.0
    warm_up: int = 8

    def open(self, context: TaskContext) -> None:
        """Make everything."""
        self._context = context
        self._queries, objects = self.made()
        self._batches = batches_of(objects, self.batch)
        self._registering = -(-len(self._queries) // BLOCK)
        self._first: tuple[int, float, float] | None = None
        self._last = (0, 0.0, 0.0)
        self._ended = False

    def made(self) -> tuple[QueryBatch, ObjectBatch]:
        """Return queries and objects."""
        return queries_of(self.workload), objects_of(self.workload)

    def registering(self, block: QueryBatch, emit: Emitter) -> None:
        """Send queries."""
        self._context.count("queries", len(block))
        emit.batch(block, "queries")

    def next_epoch(self, epoch: Epoch, inputs: Inputs, emit: Emitter) -> bool:
        """Emit a block of queries, or a batch of objects."""
        emit.watermark = 0
        number = epoch.number - self._registering
        if number < 0:
            self.registering(self._queries.slice(epoch.number * BLOCK, (epoch.number + 1) * BLOCK), emit)
            return True
        if self._ended or self._is_over(epoch):
            return False
        self._context.count("objects", self.batch)
        emit.batch(self._batches[number % len(self._batches)], "objects")
        return True

    def _is_over(self, epoch: Epoch) -> bool:
        """Tell whether the time is up, and then say what was complete in it."""
        if self._first is None:
            return False
        early = self._last is self._first or time.monotonic() - self._first[1] < self.seconds
        if early and not epoch.final:
            return False
        self._context.count("measured_objects", (self._last[0] - self._first[0]) * self.batch)
        self._context.count("measured_s", self._last[1] - self._first[1])
        self._context.count("measured_cpu_s", self._last[2] - self._first[2])
        self._ended = True
        return True

    def ack(self, epoch: int) -> None:
        """Note when epochs are complete."""
        self._last = (epoch, time.monotonic(), time.process_time())
        if self._first is None and epoch >= self._registering + self.warm_up:
            self._first = self._last
