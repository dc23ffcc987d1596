"""The stream of DkM-SKS's experiments (section 5.1), from memory: subscriptions, O_init, then objects and changes by stamp.

Places and words are those of `synthetic_stream`. A subscription is at the place of an object and wants any of up to five of its
words; k is drawn from 1 to k_max. Subscriptions are registered first; O_init comes next, so that balls are as large as the
paper's when time-stamps begin: a thousand objects, a hundred registrations and as many ends in each. O_init is one instant:
lists are sent once it has passed, not while every object of it changes most of them.
"""

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import ClassVar, cast

import numpy as np

from benchmarks.synthetic_stream import drawn_queries, drawn_subscriptions, synthetic_objects
from operators import Emitter, Epoch, Inputs, Spout, TaskContext
from operators.evaluation.handover import BOUND_FIELDS
from partitioners.costs.initial_objects import InitialObjects
from partitioners.plans.assignment_plan import AssignmentPlan
from streams.batches import OP_UNREGISTER, ObjectBatch, QueryBatch, TupleBatch, batch_fields
from streams.columns import Ids
from streams.geometry import Rect
from streams.injection import Injection, inject_objects
from streams.vocabulary import Encoder

__all__ = ["SPACE", "DkmSpout", "DkmStream", "initial_objects", "subscriptions"]

SPACE = Rect(0.0, 0.0, 1.0, 1.0)

#: Subscriptions that are registered, and objects of O_init that come, in an epoch.
REGISTERED, INITIAL = 100_000, 10_000
#: Rows that are made at a time.
BLOCK = 500_000
#: Epochs that bounds are under way.
FEEDBACK = 2
#: Bounds are a little larger than balls: an object at the edge is part of the answer.
ROOM = 1e-9
#: Streams of the seed: objects of O_init, those that subscriptions are drawn from, and those of the time-stamps.
_INITIAL, _DRAWN, _LATER = 0, 1000, 2000


@dataclass(frozen=True, slots=True)
class DkmStream:
    """A workload: the paper's default is 10M subscriptions, k_max = 10, a million objects in O_init.

    Attributes:
        hot_from: from this time-stamp on, objects are condensed towards the centre; -1: never.
        factor: what is left then of the distance to the centre.
        apart: registrations, ends and objects of a time-stamp come in an epoch each, in this order.
        bound: evaluators are sent what the balls of the first subscriptions will be at the end of O_init, so that lists are
            filled with what stays in them; else each is changed some forty times meanwhile. The lists are the same.
    """

    subscriptions: int = 100_000
    most_k: int = 10
    initial: int = 100_000
    stamps: int = 100
    objects: int = 1_000
    changes: int = 100
    hot_from: int = -1
    factor: float = 0.4
    apart: bool = False
    bound: bool = False
    seed: int = 1

    @property
    def registering(self) -> int:
        """Epochs of registrations before the first object."""
        return -(-self.subscriptions // REGISTERED)

    @property
    def begin(self) -> int:
        """The epoch of the first time-stamp."""
        return self.opening + -(-self.initial // INITIAL)

    @property
    def opening(self) -> int:
        """The epoch of the first object: bounds arrive later than they are sent."""
        return self.registering + (FEEDBACK if self.bound else 0)


@lru_cache(maxsize=2)
def _block(size: int, first: int, drawn_from: int, most_k: int, seed: int) -> QueryBatch:
    """Return subscriptions, numbered from `first` on."""
    objects = synthetic_objects(size, seed, drawn_from)
    return drawn_subscriptions(objects, size, seed, first, most_words=5, most_k=most_k)


def _made(stream: DkmStream, start: int, stop: int, first: int, count: int, drawn_from: int) -> QueryBatch:
    """Return the subscriptions from `start` up to `stop` of `count` that are numbered from `first` on."""
    parts = []
    for block in range(start // BLOCK, -(-stop // BLOCK)):
        begin = block * BLOCK
        size = min(BLOCK, count - begin)
        made = _block(size, first + begin, drawn_from + block, stream.most_k, stream.seed)
        parts.append(made.slice(max(start - begin, 0), min(stop - begin, size)))
    return QueryBatch.concat(parts)


def subscriptions(stream: DkmStream, start: int, stop: int) -> QueryBatch:
    """Return some of the subscriptions that are there from the beginning: ten million at once are more than a gigabyte."""
    return _made(stream, start, min(stop, stream.subscriptions), 0, stream.subscriptions, _DRAWN)


@lru_cache(maxsize=1)
def initial_objects(count: int, seed: int) -> ObjectBatch:
    """Return O_init."""
    return synthetic_objects(count, seed, _INITIAL)


@lru_cache(maxsize=2)
def _some_queries(count: int) -> QueryBatch:
    """Return queries for their columns, made once: drawing them takes milliseconds that no time-stamp should be charged."""
    return drawn_queries(synthetic_objects(count, 0), count, 0, 0.0, 0.0)


def _ends(numbers: np.ndarray[tuple[int], np.dtype[np.int64]], first: int, ts: int) -> QueryBatch:
    """Return unregistrations."""
    count = len(numbers)
    number = np.arange(first, first + count)
    return replace(
        _some_queries(count), number=number, target=numbers, op=np.full(count, OP_UNREGISTER, np.uint8), ts=np.full(count, ts),
        end=np.full(count, ts), kw_off=np.zeros(count + 1, np.int32), kw=np.empty(0, np.int64), ids=Ids("int", number),
    )  # fmt: skip


@dataclass
class DkmSpout(Spout):
    """Emits a stream.

    Options:
        stream: what to make.
    """

    outputs: ClassVar = {
        "objects": batch_fields(ObjectBatch), "queries": batch_fields(QueryBatch), "bounds": BOUND_FIELDS
    }  # fmt: skip
    addressed: ClassVar = frozenset({"bounds"})
    timed: ClassVar = True

    stream: DkmStream

    def open(self, context: TaskContext) -> None:
        """Make what comes by time-stamp."""
        self._context = context
        stream = self.stream
        later = synthetic_objects(stream.stamps * stream.objects, stream.seed, _LATER)
        if stream.hot_from >= 0:
            hot = np.arange(len(later)) >= stream.hot_from * stream.objects
            condense = Injection("condense", at=(0.5, 0.5), strength=stream.factor)
            condensed, _ = inject_objects(later, later.seq, np.ones(len(later), np.bool_), [condense], SPACE, Encoder())
            later = replace(later, x=np.where(hot, condensed.x, later.x), y=np.where(hot, condensed.y, later.y))
        self._later = later
        new = max(stream.stamps * stream.changes, 1)
        self._new = _made(stream, 0, new, stream.subscriptions, new, _LATER + 1)
        random = np.random.default_rng([stream.seed, 3])
        count = min(stream.stamps * stream.changes, stream.subscriptions)
        self._ended = random.permutation(stream.subscriptions)[:count].copy()  # the rest of it goes
        self._initial: InitialObjects | None = None

    def next_epoch(self, epoch: Epoch, inputs: Inputs, emit: Emitter) -> bool:
        """Emit registrations, objects of O_init, or a time-stamp."""
        stream, number = self.stream, epoch.number
        emit.watermark = number + 1
        if number < stream.registering:
            queries = subscriptions(stream, number * REGISTERED, (number + 1) * REGISTERED)
            self._emit(queries, number, emit)
            if stream.bound:
                self._emit_bounds(queries, emit)
            return True
        self._initial = None
        if number < stream.opening:
            return True
        if number < stream.begin:
            emit.watermark = stream.opening + (number == stream.begin - 1)
            start = (number - stream.opening) * INITIAL
            objects = initial_objects(stream.initial, stream.seed).slice(start, start + INITIAL)
            self._emit(objects, stream.opening, emit, start)
            if stream.bound and number == stream.begin - 1:  # what is not needed any more is no memory of the system
                initial_objects.cache_clear()
                _block.cache_clear()
            return True
        stamp, part = divmod(number - stream.begin, 3) if stream.apart else (number - stream.begin, -1)
        if stamp >= stream.stamps or epoch.final:
            return False
        changes, first = stream.changes, stamp * stream.changes
        if part in (-1, 0):
            new = self._new.slice(first, first + changes)
            numbers = stream.subscriptions + 2 * first + np.arange(len(new))
            self._emit(replace(new, number=numbers, target=numbers), number, emit)
        if part in (-1, 1):
            ended = self._ended[first : first + changes]
            emit.batch(_ends(ended, stream.subscriptions + 2 * first + changes, number), "queries")
        if part in (-1, 2):
            start = stamp * stream.objects
            self._emit(self._later.slice(start, start + stream.objects), number, emit, stream.initial + start)
        return True

    def _emit_bounds(self, queries: QueryBatch, emit: Emitter) -> None:
        """Send all evaluators the radii of balls among O_init, which the plan has an index of; NaN where there is none."""
        plan = cast(AssignmentPlan, self._context.plan)
        if self._initial is None:  # of its own: it goes when the last bounds have left, the main server's stays
            self._initial = InitialObjects.of(plan.x, plan.y, plan.kw_off, plan.kw)
        x, y = queries.shape[:, 0].copy(), queries.shape[:, 1].copy()
        radius = self._initial.kth_distances(x, y, queries.kw_off, queries.kw, queries.k, queries.match_any)
        bound = np.where(np.isinf(radius), np.nan, radius * (1.0 + ROOM) + ROOM * ROOM)
        for worker in range(plan.workers):
            emit.direct(worker, TupleBatch(BOUND_FIELDS, (queries.number, bound)), "bounds")

    def _emit(self, batch: ObjectBatch | QueryBatch, ts: int, emit: Emitter, seq: int = 0) -> None:
        now = np.full(len(batch), ts, np.int64)
        if isinstance(batch, QueryBatch):
            self._context.count("queries", len(batch))
            emit.batch(replace(batch, ts=now), "queries")
        else:
            self._context.count("objects", len(batch))
            places = seq + np.arange(len(batch))
            emit.batch(replace(batch, ts=now, seq=places, ids=Ids("int", places)), "objects")
