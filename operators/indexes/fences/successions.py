"""Records of dynamic objects as successions: which follow each other in a batch, and until when each state holds."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from streams.batches import FOREVER, ObjectBatch
from streams.columns import Ints

__all__ = ["Successions"]


@dataclass(frozen=True, slots=True, eq=False)
class Successions:
    """What the records of a batch, in the order of the input, are to each other.

    Attributes:
        place: how many records of the same object come before it in the batch.
        until: the time of the next record of the same object, `FOREVER` if there is none.
    """

    place: Ints
    until: Ints

    @classmethod
    def of(cls, objects: ObjectBatch) -> "Successions":
        """Follow the objects of a batch."""
        count = len(objects)
        codes, _ = objects.ids.codes()
        order = np.argsort(codes, kind="stable")
        first = np.ones(count, np.bool_)
        first[1:] = codes[order[1:]] != codes[order[:-1]]
        place, until = np.empty(count, np.int64), np.full(count, FOREVER)
        begins = np.maximum.accumulate(np.where(first, np.arange(count), 0))
        place[order] = np.arange(count) - begins
        until[order[:-1][~first[1:]]] = objects.ts[order[1:][~first[1:]]]
        return cls(place, until)

    @property
    def first(self) -> NDArray[np.bool_]:
        """Which records are the first of their object."""
        return np.asarray(self.place == 0, np.bool_)

    def rounds(self) -> Iterator[Ints]:
        """Yield rows so that no object is in one round twice, and each in the order of the input."""
        order = np.argsort(self.place, kind="stable")
        yield from np.split(order, np.flatnonzero(np.diff(self.place[order])) + 1)
