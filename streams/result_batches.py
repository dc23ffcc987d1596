"""What evaluators, mergers and sinks have found, as columns; `streams.batches` has the batches of input, and all names."""

from collections.abc import Sized
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from streams.columns import Ids, Ints, Offsets
from streams.row_columns import RowColumns

__all__ = [
    "AnswerBatch",
    "CountBatch",
    "CrossingBatch",
    "EventBatch",
    "HitBatch",
    "MatchBatch",
    "PrintBatch",
    "RankedBatch",
    "counted",
]

Floats = NDArray[np.float64]
Bytes = NDArray[np.uint8]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class HitBatch(RowColumns):
    """Matches of continuous range queries on their way to a sink: one row an object, with the numbers of its queries.

    An object's identifier and time travel once, however many queries it matches, and identifiers of queries not at all: a
    sink that writes them looks them up.
    """

    RAGGED = (("off", ("number",)),)

    seq: Ints
    ts: Ints
    ids: Ids
    off: Offsets
    number: Ints

    @property
    def results(self) -> int:
        """How many matches there are."""
        return len(self.number)

    @classmethod
    @cache
    def empty(cls) -> "HitBatch":
        """Return a batch of no matches."""
        ints = np.empty(0, np.int64)
        return cls(ints, ints, Ids("int", ints), np.zeros(1, np.int32), ints)


@dataclass(frozen=True, slots=True, eq=False)
class CrossingBatch(RowColumns):
    """What fences report, on its way to a sink: one row an event, `detect` is a place in `DETECTS`.

    `seq` is the place of the record that caused it. Where a query begins or ends at `ts`, before all records of that time, it
    is `BEGINS` or `ENDS`: sorted by (ts, seq), what an identifier reports makes sense from line to line.
    """

    ENDS, BEGINS = -2, -1

    number: Ints
    seq: Ints
    ts: Ints
    ids: Ids
    detect: Bytes

    @classmethod
    @cache
    def empty(cls) -> "CrossingBatch":
        """Return a batch of no events."""
        ints = np.empty(0, np.int64)
        return cls(ints, ints, ints, Ids("int", ints), np.empty(0, np.uint8))


@dataclass(frozen=True, slots=True, eq=False)
class RankedBatch(RowColumns):
    """Lists by query number: partial answers, whole ones before they are named, results that move, results that are saved.

    `type` and `k` are the query's; `instant` tells an answer that is given once, as of `ts`, from the state of a standing
    query. Items are objects, by `seq` and identifier, or terms, by keyword id; `value` is the distance, the score or the count.
    Of the nearest, where several evaluators have parts, a list may be only what is new since the last.
    An empty list of a standing query says that its sender has nothing for it. One with k = 0 says that the query has ended, one
    with k < 0 that the list of evaluator -1 - k is part of its sender's now. At an instant k < 0 says that there is no answer.
    """

    RAGGED = (("off", ("seq", "ids", "value")),)

    number: Ints
    ts: Ints
    type: Bytes
    k: NDArray[np.int32]
    instant: Flags
    off: Offsets
    seq: Ints
    ids: Ids
    value: Floats

    @property
    def results(self) -> int:
        """How many lists there are."""
        return len(self.number)

    @property
    def row(self) -> Ints:
        """The row of each item."""
        return np.repeat(np.arange(len(self.number)), np.diff(self.off))

    @classmethod
    @cache
    def empty(cls) -> "RankedBatch":
        """Return a batch of no lists."""
        ints = np.empty(0, np.int64)
        return cls(
            number=ints, ts=ints, type=np.empty(0, np.uint8), k=np.empty(0, np.int32), instant=np.empty(0, np.bool_),
            off=np.zeros(1, np.int32), seq=ints, ids=Ids("int", ints), value=np.empty(0),
        )  # fmt: skip

    @classmethod
    def without_items(
        cls,
        number: Ints,
        k: NDArray[np.integer] | int,
        ts: Ints | int = 0,
        kind: Bytes | int = 0,
        *,
        instant: bool = False,
    ) -> "RankedBatch":
        """Return lists of nothing, one for each number; what is a single value is the same for all, `kind` is their type."""
        count, none = len(number), cls.empty()
        columns = np.full(count, ts, np.int64), np.full(count, kind, np.uint8), np.full(count, k, np.int32)
        rest = np.full(count, instant), np.zeros(count + 1, np.int32)
        return cls(number, *columns, *rest, none.seq, none.ids, none.value)


@dataclass(frozen=True, slots=True, eq=False)
class PrintBatch(RowColumns):
    """Lists of standing queries by number, each as its fingerprint: all that travels where nobody reads what is in them.

    It tells a list from the states that it had before; an empty list has 0.
    """

    number: Ints
    print: Ints

    @classmethod
    @cache
    def empty(cls) -> "PrintBatch":
        """Return a batch of no lists."""
        ints = np.empty(0, np.int64)
        return cls(ints, ints)


@dataclass(frozen=True, slots=True, eq=False)
class MatchBatch(RowColumns):
    """Results of continuous range queries as users see them: one row a match, `ts` is the object's."""

    query: Ids
    ts: Ints
    object: Ids

    @classmethod
    @cache
    def empty(cls) -> "MatchBatch":
        """Return a batch of no matches."""
        ints = np.empty(0, np.int64)
        return cls(Ids("int", ints), ints, Ids("int", ints))


@dataclass(frozen=True, slots=True, eq=False)
class EventBatch(RowColumns):
    """Results of fences as users see them: one row an event, `detect` is a place in `DETECTS`."""

    query: Ids
    ts: Ints
    object: Ids
    detect: Bytes

    @classmethod
    @cache
    def empty(cls) -> "EventBatch":
        """Return a batch of no events."""
        ints = np.empty(0, np.int64)
        return cls(Ids("int", ints), ints, Ids("int", ints), np.empty(0, np.uint8))


@dataclass(frozen=True, slots=True, eq=False)
class AnswerBatch(RowColumns):
    """Results that are lists, as users see them: one row an answer.

    `type` is the query's type. Items are object ids (range, knn, topk) or terms; `value` is the distance, the score or
    the count of each (0 for range).
    """

    RAGGED = (("off", ("item", "value")),)

    query: Ids
    ts: Ints
    type: Bytes
    off: Offsets
    item: Ids
    value: Floats

    @classmethod
    @cache
    def empty(cls) -> "AnswerBatch":
        """Return a batch of no answers."""
        ints = np.empty(0, np.int64)
        none = Ids("int", ints)
        return cls(none, ints, np.empty(0, np.uint8), np.zeros(1, np.int32), none, np.empty(0))


@dataclass(frozen=True, slots=True, eq=False)
class CountBatch(RowColumns):
    """How many results each row of a batch has: all that travels to a sink that only counts."""

    count: NDArray[np.int32]

    @property
    def results(self) -> int:
        """How many there are."""
        return int(self.count.sum())

    @classmethod
    @cache
    def empty(cls) -> "CountBatch":
        """Return a batch of no rows."""
        return cls(np.empty(0, np.int32))


def counted(batch: Sized) -> CountBatch:
    """Return what a batch of any kind is to whoever counts its results."""
    per_row = np.diff(batch.off) if isinstance(batch, HitBatch) else np.ones(len(batch), np.int32)
    return CountBatch(per_row.astype(np.int32))
