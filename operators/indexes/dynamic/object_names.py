"""Who objects are: their identifiers by slot, and slots by identifier.

Lists name most objects in every epoch, so identifiers are there as a column: integers as int64, kept up to date, and where
there are others, an Arrow column of all of them that is made anew after objects have come or gone.
"""

from collections.abc import Iterable
from itertools import repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from operators.indexes.core.growth import grown
from operators.indexes.dynamic.dynamic_index import Slots
from streams.columns import Ids, Ints

__all__ = ["ObjectNames"]

_INT64 = range(-(2**63), 2**63)


def _is_number(name: int | str) -> bool:
    return type(name) is int and name in _INT64


class ObjectNames:
    """Slots, small numbers that are used again, and the identifiers of the objects that have them.

    Attributes:
        top: slots that were ever used.
    """

    def __init__(self) -> None:
        self.top = 0
        self._slot_of: dict[int | str, int] = {}
        self._names: NDArray[Any] = np.empty(0, object)
        self._numbers: Ints = np.empty(0, np.int64)
        self._others = 0
        self._free: list[int] = []
        self._column: Ids | None = None

    def __len__(self) -> int:
        return len(self._slot_of)

    def held(self) -> Slots:
        """Return the slots of all objects, ascending."""
        return np.sort(np.fromiter(self._slot_of.values(), np.int32, len(self)))

    def slots_of(self, ids: Ids) -> Slots:
        """Return the slots of objects, -1 for those that are not there."""
        return np.fromiter(map(self._slot_of.get, ids.to_list(), repeat(-1)), np.int32, len(ids))

    def slot_of(self, name: int | str) -> int | None:
        """Return the slot of an object, None where it is not there."""
        return self._slot_of.get(name)

    def reserve(self, name: int | str) -> int:
        """Return a slot for an object that has none."""
        if self._free:
            slot = self._free.pop()
        else:
            slot, self.top = self.top, self.top + 1
            if self.top > len(self._names):
                self._names, self._numbers = (grown(one, 2 * self.top + 64) for one in (self._names, self._numbers))
        self._slot_of[name], self._names[slot] = slot, name
        if _is_number(name):
            self._numbers[slot] = name
        else:
            self._others += 1
        self._column = None
        return slot

    def release(self, slots: Iterable[int]) -> None:
        """Forget objects."""
        for slot in slots:
            name = self._names[slot]
            del self._slot_of[name]
            self._others -= not _is_number(name)
            self._names[slot] = None
            self._free.append(slot)
            self._column = None

    def ids(self, slots: Slots) -> Ids:
        """Return the identifiers of objects."""
        if not self._others:
            return Ids("int", self._numbers[slots])
        if self._column is None and len(slots) < self.top:
            return Ids.of(self._names[slots].tolist())
        if self._column is None:
            names, somebody = self._names[: self.top].tolist(), next(iter(self._slot_of))
            self._column = Ids.of(somebody if name is None else name for name in names)
        return self._column.take(slots)
