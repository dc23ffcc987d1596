"""Which rows have the same identifier; and of dynamic objects, how long each state lasts."""

from dataclasses import dataclass

import numpy as np

from streams.batches import OP_DELETE, ObjectBatch
from streams.columns import Ids, Ints

__all__ = ["Codes", "Lifelines"]


@dataclass(frozen=True, slots=True, eq=False)
class Codes:
    """A column of identifiers as small integers: `codes` has one a row, `names` the identifier of each code."""

    codes: Ints
    names: list[int | str]

    @classmethod
    def of(cls, ids: Ids) -> "Codes":
        """Number the identifiers of a column; 7 and "7" are different ones."""
        codes, distinct = ids.codes()
        return cls(codes, distinct.to_list())


@dataclass(frozen=True, slots=True, eq=False)
class Lifelines:
    """For each record of a stream of dynamic objects, how long its state holds and since when the object is there.

    Attributes:
        leaves: the row of the next record of the same object, which ends this state; the number of rows if none does.
        first_seen: the row at which the object appeared, for the first time or for the first time after a deletion.
    """

    leaves: Ints
    first_seen: Ints

    @classmethod
    def of(cls, objects: ObjectBatch) -> "Lifelines":
        """Follow every object through its records."""
        n = len(objects)
        codes = Codes.of(objects.ids).codes
        order = np.argsort(codes, kind="stable")
        same = codes[order[1:]] == codes[order[:-1]]
        leaves = np.full(n, n, np.int64)
        leaves[order[:-1][same]] = order[1:][same]
        appears = np.ones(n, np.bool_)
        appears[1:] = ~same | (objects.op[order[:-1]] == OP_DELETE)
        since = np.maximum.accumulate(np.where(appears, np.arange(n), 0))
        first_seen = np.empty(n, np.int64)
        first_seen[order] = order[since]
        return cls(leaves, first_seen)
