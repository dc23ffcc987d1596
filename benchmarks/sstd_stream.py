"""The stream of SSTD's experiments (Section 7.1), from memory.

Places and words are those of `synthetic_stream`, which stands for tweets; or places are uniform, or around the centre (7.2). A
question is at the place of an object of its own and has words of it. First come the objects that are kept, then standing
questions, a part in each of some epochs, so that those answered at slides are not all due at once; then epochs of objects with
questions that are asked at once.
"""

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from benchmarks.synthetic_stream import VOCABULARY, WORDS, registrations, synthetic_objects
from operators import Emitter, Epoch, Inputs, Spout, TaskContext
from streams.batches import (
    FOREVER,
    NO_WINDOW,
    TYPE_KNN,
    TYPE_RANGE,
    TYPE_TERMS,
    ObjectBatch,
    QueryBatch,
    TupleBatch,
    batch_fields,
)
from streams.columns import Ids
from streams.geometry import REGION_NONE, REGION_RECT

__all__ = [
    "AREAS",
    "DATA",
    "SLIDE",
    "TICK",
    "WINDOW",
    "Questions",
    "SstdSpout",
    "SstdStream",
    "asked_questions",
    "drawn_at",
    "sstd_objects",
    "standing_questions",
    "varied",
]

#: Objects that come in an epoch before anything is asked; epochs in which standing questions come, which is also their slide.
FILLED, SLIDE = 20_000, 20
#: Milliseconds of an epoch, and epochs of a window of standing questions about terms.
TICK, WINDOW = 10, 20
#: Rows that are made at a time.
BLOCK = 500_000
#: Shares of the space that a region has in the paper; the default is the third.
AREAS = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2)
#: Where objects are: like tweets, uniform, or around the centre with this deviation.
DATA, SIGMA = ("tw", "uni", "gau"), 0.01
#: Streams of the seed.
_KEPT, _LATER, _DRAWN = 0, 1, 1000

_TYPES = {"r": TYPE_RANGE, "k": TYPE_KNN, "t": TYPE_TERMS}


@dataclass(frozen=True, slots=True)
class Questions:
    """Questions of one of the paper's kinds: srq, skq, stq, crq, ckq or ctq.

    Attributes:
        count: how many.
        area: of the region, as a share of the space.
        keywords: of a question, all of which an object must have; questions about terms have none.
        hot: all regions are around the centre, as far from it as an insertion reaches (`SstdStream.insert`).
    """

    kind: str
    count: int
    area: float = AREAS[2]
    keywords: int = 1
    k: int = 10
    hot: bool = False

    @property
    def standing(self) -> bool:
        """Whether they are continuous."""
        return self.kind[0] == "c"


def varied(questions: Questions, field: str, value: Any) -> Questions:
    """Return questions with another value of a field."""
    changed = {field: value}
    return replace(questions, **changed)


def drawn_at(field: str, value: float) -> float:
    """Return where in a picture a value is: areas by their order of magnitude."""
    return math.log10(value) if field == "area" else value


@dataclass(frozen=True, slots=True)
class SstdStream:
    """A workload.

    Attributes:
        kept: objects that come before anything is asked.
        standing: what is registered then.
        asked: what is asked once, one kind after the other, `an_epoch` in each epoch.
        epochs: of objects and questions; more than questions need where it says so.
        batch: objects of an epoch.
        data: where objects are, one of `DATA`.
        insert: from the epoch `calm` on some of the objects are near the centre ("objects"), a share of `inserted`; or so many
            CRQ near the centre are registered ("queries"), a part in each of some epochs; "": neither.
    """

    kept: int = 100_000
    standing: tuple[Questions, ...] = ()
    asked: tuple[Questions, ...] = ()
    an_epoch: int = 1
    epochs: int = 0
    batch: int = 250
    data: str = "tw"
    insert: str = ""
    calm: int = 0
    inserted: float = 0.0
    seed: int = 1

    @property
    def filling(self) -> int:
        """Epochs of objects that are kept."""
        return -(-self.kept // FILLED)

    @property
    def begin(self) -> int:
        """The first epoch with everything that stands."""
        return self.filling + (SLIDE if self.standing else 0)

    @property
    def lasting(self) -> int:
        """Epochs from there on."""
        return max(self.epochs, -(-sum(one.count for one in self.asked) // self.an_epoch))

    def epochs_of(self, place: int) -> slice:
        """Return the epochs in which the questions of one place in `asked` are asked."""
        first = sum(one.count for one in self.asked[:place])
        upto = first + self.asked[place].count
        return slice(self.begin + -(-first // self.an_epoch), self.begin + upto // self.an_epoch)


def sstd_objects(data: str, count: int, seed: int, part: int) -> ObjectBatch:
    """Return objects of a part of the stream, numbered from 0 on."""
    objects = synthetic_objects(count, seed, part)
    if data == "tw":
        return objects
    random = np.random.default_rng([seed, part, 5])
    place = random.random((2, count)) if data == "uni" else random.normal(0.5, SIGMA, (2, count)).clip(0.0, 1.0)
    return replace(objects, x=place[0], y=place[1])


def _near_centre(objects: ObjectBatch) -> ObjectBatch:
    """Return objects around the centre, in a twentieth of the space's sides."""
    return replace(objects, x=0.475 + objects.x / 20, y=0.475 + objects.y / 20)


@lru_cache(maxsize=4)
def _made(stream: SstdStream, questions: Questions, first: int, part: int) -> QueryBatch:
    blocks = []
    for start in range(0, questions.count, BLOCK):
        count = min(BLOCK, questions.count - start)
        drawn = sstd_objects(stream.data, count, stream.seed, part * 100 + start // BLOCK + _DRAWN)
        blocks.append(_block(questions, _near_centre(drawn) if questions.hot else drawn, first + start, stream.seed))
    return QueryBatch.concat([QueryBatch.empty(), *blocks])


def _block(questions: Questions, objects: ObjectBatch, first: int, seed: int) -> QueryBatch:
    """Return questions numbered from `first` on, one for each object."""
    count, type_ = len(objects), _TYPES[questions.kind[1]]
    wanted = 0 if type_ == TYPE_TERMS else questions.keywords
    random = np.random.default_rng([seed, first, 9])
    chosen = np.argsort(random.random((count, WORDS)), axis=1)[:, :wanted]
    words = np.sort(np.take_along_axis(objects.kw.reshape(count, WORDS), chosen, axis=1), axis=1)
    half = 0.0 if type_ == TYPE_KNN else questions.area**0.5 / 2
    shape = np.column_stack([objects.x - half, objects.y - half, objects.x + half, objects.y + half])
    if type_ == TYPE_KNN:
        shape[:, 2:] = 0.0
    number = np.arange(first, first + count)
    made = registrations(number, shape, np.arange(count + 1, dtype=np.int32) * np.int32(wanted), words.ravel())
    return replace(
        made,
        type=np.full(count, type_, np.uint8),
        region=np.full(count, REGION_NONE if type_ == TYPE_KNN else REGION_RECT, np.uint8),
        k=np.full(count, 0 if type_ == TYPE_RANGE else questions.k, np.int32),
        continuous=np.full(count, questions.standing),
        window=np.full(count, WINDOW * TICK if questions.kind == "ctq" else NO_WINDOW, np.int64),
        slide=np.full(count, SLIDE * TICK if questions.kind == "ctq" else 0, np.int64),
    )


@lru_cache(maxsize=2)
def standing_questions(stream: SstdStream) -> QueryBatch:
    """Return what is registered before the first epoch that counts, kinds mixed."""
    parts, first = [QueryBatch.empty()], 0
    for place, one in enumerate(stream.standing):
        parts.append(_made(stream, one, first, place))
        first += one.count
    whole = QueryBatch.concat(parts)
    if len(stream.standing) < 2:
        return whole
    mixed = whole.take(np.random.default_rng([stream.seed, 4]).permutation(len(whole)))
    number = np.arange(len(whole))
    return replace(mixed, number=number, target=number, ids=Ids("int", number))


def _part(queries: QueryBatch, place: int) -> QueryBatch:
    """Return one of as many parts as a slide has epochs."""
    size = -(-len(queries) // SLIDE)
    return queries.slice(min(place * size, len(queries)), min((place + 1) * size, len(queries)))


def asked_questions(stream: SstdStream, first: int) -> QueryBatch:
    """Return what is asked at once, numbered from `first` on."""
    parts = [QueryBatch.empty()]
    for place, one in enumerate(stream.asked, len(stream.standing)):
        parts.append(_made(stream, one, first, place))
        first += one.count
    return QueryBatch.concat(parts)


@dataclass
class SstdSpout(Spout):
    """Emits a stream.

    Options:
        stream: what to make.
    """

    outputs: ClassVar = {
        "objects": batch_fields(ObjectBatch), "queries": batch_fields(QueryBatch), "words": ("id", "word")
    }  # fmt: skip
    timed: ClassVar = True

    stream: SstdStream

    def open(self, context: TaskContext) -> None:
        """Make all of it."""
        self._context = context
        stream = self.stream
        self._kept = sstd_objects(stream.data, stream.kept, stream.seed, _KEPT)
        later = sstd_objects(stream.data, stream.lasting * stream.batch, stream.seed, _LATER)
        if stream.insert == "objects":
            place = np.random.default_rng([stream.seed, 8]).random(len(later))
            there = (place < stream.inserted) & (np.arange(len(later)) >= stream.calm * stream.batch)
            near = _near_centre(later)
            later = replace(later, x=np.where(there, near.x, later.x), y=np.where(there, near.y, later.y))
        self._later = later
        self._standing = standing_questions(stream)
        inserted = Questions("crq", int(stream.inserted), hot=True)
        self._inserted = _made(stream, inserted, len(self._standing), 7) if stream.insert == "queries" else None
        first = len(self._standing) + (0 if self._inserted is None else len(self._inserted))
        self._asked = asked_questions(stream, first)

    def next_epoch(self, epoch: Epoch, inputs: Inputs, emit: Emitter) -> bool:
        """Emit objects that are kept, standing questions, or objects and questions."""
        stream, number = self.stream, epoch.number
        emit.watermark = min(number, stream.begin + stream.lasting - 1) * TICK + 1
        if number == 0:
            emit.batch(TupleBatch.of(("id", "word"), [(word, f"w{word}") for word in range(VOCABULARY)]), "words")
        if number < stream.filling:
            self._objects(self._kept.slice(number * FILLED, (number + 1) * FILLED), number * FILLED, number, emit)
            return True
        if number < stream.begin:
            self._queries(_part(self._standing, number - stream.filling), number, emit)
            return True
        at = number - stream.begin
        if at >= stream.lasting or epoch.final:
            return False
        if self._inserted is not None and at >= stream.calm:
            self._queries(_part(self._inserted, at - stream.calm), number, emit)
        self._queries(self._asked.slice(at * stream.an_epoch, (at + 1) * stream.an_epoch), number, emit)
        start = at * stream.batch
        self._objects(self._later.slice(start, start + stream.batch), stream.kept + start, number, emit)
        return True

    def _objects(self, objects: ObjectBatch, first: int, number: int, emit: Emitter) -> None:
        self._context.count("objects", len(objects))
        seq = first + np.arange(len(objects))
        emit.batch(replace(objects, seq=seq, ts=np.full(len(objects), number * TICK), ids=Ids("int", seq)), "objects")

    def _queries(self, queries: QueryBatch, number: int, emit: Emitter) -> None:
        self._context.count("queries", len(queries))
        ts = np.full(len(queries), number * TICK)
        emit.batch(replace(queries, ts=ts, end=np.where(queries.continuous, FOREVER, ts + 1)), "queries")
