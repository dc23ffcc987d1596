"""The seam between an evaluator and the objects that it keeps for snapshot queries (SSTD, Sections 3 and 6.2).

*Objects* come in the order of the input. An index keeps their `seq`, place and keywords; times and identifiers are with the
caller, in a log, where the window of a query becomes a range of `seq` by binary search. What is older than wanted is dropped
by `seq` too, so retention by time and by count are the same to an index. `kept` returns objects as they came, for whoever
stores them before they are dropped: nobody else has to keep places and keywords.

*Questions* come as columns, many a call, and are of three kinds, answered to the last bit as `streams.oracle` defines them:

- `srq`: the objects inside the region that match the keywords.
- `skq`: the k nearest of those that match the keywords, by (distance, seq), no farther away than `reach`. In the two phases of
  Section 6.2 the first worker is asked with an infinite reach, the others with the distance of its kth object. A merger unites
  lists of k and keeps k.
- `stq`: how many objects that are inside and match have each term. Several workers hold parts of a region, and a term that is
  on nobody's list of k may be the most frequent of all. So a merger of several needs **all** counts (k = 0), and adds them up;
  that is what the paper's workers send. With k > 0 an index returns the terms whose counts reach the kth largest, *all* of
  those with equal counts, since terms are ids here and the alphabet is with the merger; and in `rest` a count that no other
  term exceeds, below all that are listed. One worker alone is done with that. Lists of several, with their `rest`, settle
  the answer where the kth sum is above what any other term may add up to; otherwise all counts are needed.

*Work behind the scenes* (merging of segments) is done in bounded steps by `add` and `tend`, on the caller's thread and as a
function of the calls alone. Answers do not depend on how far it has come.
"""

from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from streams.batches import OP_UPSERT, ObjectBatch, QueryBatch
from streams.columns import Ints, Offsets
from streams.errors import InputError
from streams.residual_columns import RESIDUALS, fill_residuals, no_floats, no_ints, no_marks, no_offsets
from streams.row_columns import RowColumns

__all__ = ["Counts", "Found", "Kept", "Nearest", "ObjectIndex", "Requests", "kept_of"]

Floats = NDArray[np.float64]
Bytes = NDArray[np.uint8]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Kept(RowColumns):
    """What an index keeps of objects, by ascending `seq`."""

    RAGGED = (("kw_off", ("kw",)),)

    seq: Ints
    x: Floats
    y: Floats
    kw_off: Offsets
    kw: Ints

    @classmethod
    def empty(cls) -> "Kept":
        """Return no objects."""
        return cls(np.empty(0, np.int64), np.empty(0), np.empty(0), np.zeros(1, np.int32), np.empty(0, np.int64))


def kept_of(objects: ObjectBatch, last: int) -> Kept:
    """Return what is kept of objects, or raise `InputError` where they cannot follow one with the `seq` of `last`.

    A deletion is no object.
    """
    if (objects.op != OP_UPSERT).any():
        objects = objects.take(np.flatnonzero(objects.op == OP_UPSERT))
    if len(objects) and (objects.seq[0] <= last or (np.diff(objects.seq) <= 0).any()):
        raise InputError("objects out of the order of the input; sort them by 'seq', and add none twice")
    wrong = ~(np.isfinite(objects.x) & np.isfinite(objects.y))
    if wrong.any():
        row = int(np.argmax(wrong))
        raise InputError(
            f"object {row} of the batch is at ({objects.x[row]}, {objects.y[row]}); reject it where it is read"
        )
    return Kept(objects.seq, objects.x, objects.y, objects.kw_off, objects.kw)


@dataclass(frozen=True, slots=True, eq=False)
class Requests(RowColumns):
    """Questions, a row each: the columns of `QueryBatch` that say where and what, and which objects count.

    Attributes:
        region, shape: as `streams.geometry` says; `skq` has no region, and its place in the first two numbers of `shape`.
        match_any: whether one of the keywords is enough; no keywords match everything.
        kw_off, kw: keyword ids, ascending and distinct in each row.
        first, stop: objects with ``first <= seq < stop`` count.
        k: objects that `skq` wants, terms that `stq` wants (0: all); `srq` does not look at it.
        reach: how far away the objects of `skq` may be, this distance included.
        none_off, none: keywords that objects must not have.
        ring_off, ring_x, ring_y, ring_mark: polygons, as in `QueryBatch`.
    """

    RAGGED = (("kw_off", ("kw",)), *RESIDUALS)

    region: Bytes
    shape: Floats
    match_any: Flags
    first: Ints
    stop: Ints
    k: NDArray[np.int32]
    reach: Floats
    kw_off: Offsets
    kw: Ints
    none_off: Offsets = field(default_factory=no_offsets)
    none: Ints = field(default_factory=no_ints)
    ring_off: Offsets = field(default_factory=no_offsets)
    ring_x: Floats = field(default_factory=no_floats)
    ring_y: Floats = field(default_factory=no_floats)
    ring_mark: Bytes = field(default_factory=no_marks)

    def __post_init__(self) -> None:
        fill_residuals(self)

    @property
    def excludes(self) -> Flags:
        """Which requests have keywords that objects must not have."""
        return np.asarray(np.diff(self.none_off) > 0)

    @classmethod
    def of(cls, queries: QueryBatch, first: Ints, stop: Ints, reach: Floats | None = None) -> "Requests":
        """Ask what queries ask, of ranges of objects."""
        far = np.full(len(queries), np.inf) if reach is None else reach
        q = queries
        residual = (q.none_off, q.none, q.ring_off, q.ring_x, q.ring_y, q.ring_mark)
        return cls(q.region, q.shape, q.match_any, first, stop, q.k, far, q.kw_off, q.kw, *residual)


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """The objects of each request as ragged rows, in any order; `examined` counts what was looked at one by one."""

    off: Ints
    seq: Ints
    examined: int


@dataclass(frozen=True, slots=True, eq=False)
class Nearest:
    """The nearest objects of each request as ragged rows, by (distance, seq)."""

    off: Ints
    seq: Ints
    distance: Floats
    examined: int


@dataclass(frozen=True, slots=True, eq=False)
class Counts:
    """Terms (keyword ids) of each request with their counts as ragged rows, by count, largest first, then by id.

    No term that is not listed has a count above `rest`, which is below all counts that are; 0 where all are listed.
    """

    off: Ints
    term: Ints
    count: Ints
    rest: Ints
    examined: int


class ObjectIndex(Protocol):
    """Objects by place, keywords and order, asked many questions a call."""

    def add(self, objects: ObjectBatch) -> None:
        """Take in objects, all of them newer than those held; their `seq` ascend and may have gaps.

        Deletions among them are passed over. Raises `InputError` where the order is another, or a place is no place.
        """

    def drop(self, first: int) -> None:
        """Forget objects with ``seq < first``; their memory is given back, if not at once then as more objects come."""

    def srq(self, requests: Requests) -> Found:
        """Return what is in regions."""

    def skq(self, requests: Requests) -> Nearest:
        """Return what is nearest to places."""

    def stq(self, requests: Requests) -> Counts:
        """Return how often terms occur in regions."""

    def kept(self, first: int, stop: int) -> Kept:
        """Return the objects with ``first <= seq < stop``, as they came."""

    def tend(self, most: int) -> bool:
        """Do work that waits, about `most` postings of it, and tell whether some is left; for times without objects."""

    def __len__(self) -> int: ...

    @property
    def nbytes(self) -> int:
        """Bytes in use."""

    def snapshot(self) -> dict[str, Any]:
        """Return the state; what never changes again is in parts, which checkpoints write once."""

    def restore(self, state: dict[str, Any]) -> None:
        """Take over the snapshot of an index, of this kind or another, into an empty one."""
