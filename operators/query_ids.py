"""Query numbers back to the identifiers that users gave."""

from typing import Any

import numpy as np

from streams.batches import QueryBatch
from streams.columns import Ids, Ints

__all__ = ["QueryIds"]

#: A recent part of up to this many ids is kept apart, so that a few new queries do not copy a million old ones.
SMALLEST_MERGE = 65_536


class QueryIds:
    """Identifiers by query number, in two sorted parts: a large one, and a recent one that is merged in when it has grown.

    Adding n ids to m copies n, and now and then n + m; a look-up is a binary search.
    """

    def __init__(self) -> None:
        self._parts = [_Part.empty(), _Part.empty()]
        self._dead: list[Ints] = []
        self._removed = 0

    def __len__(self) -> int:
        return sum(len(part.numbers) for part in self._parts) - self._removed

    def add(self, queries: QueryBatch) -> None:
        """Remember the identifiers of registrations."""
        large, recent = self._parts
        recent = _Part.merge(recent, _Part.sorted(queries.number, queries.ids))
        if len(recent.numbers) > max(SMALLEST_MERGE, len(large.numbers) // 4):
            large, recent = _Part.merge(large, recent), _Part.empty()
        self._parts = [large, recent]

    def of(self, numbers: Ints) -> Ids:
        """Return the identifiers of these queries, which must be known."""
        large, recent = self._parts
        if not len(recent.numbers):
            return large.ids.take(np.searchsorted(large.numbers, numbers))
        place = np.searchsorted(recent.numbers, numbers)
        in_recent = recent.numbers[np.minimum(place, len(recent.numbers) - 1)] == numbers
        if in_recent.all():
            return recent.ids.take(place)
        old = large.ids.take(np.searchsorted(large.numbers, numbers[~in_recent]))
        found = Ids.concat([old, recent.ids.take(place[in_recent])])
        back = np.empty(len(numbers), np.int64)
        back[np.concatenate([np.flatnonzero(~in_recent), np.flatnonzero(in_recent)])] = np.arange(len(numbers))
        return found.take(back)

    def remove(self, numbers: Ints) -> None:
        """Forget queries that have ended: at once in effect, in memory when half of what is held is dead."""
        self._dead.append(numbers)
        self._removed += len(numbers)
        if self._removed > max(SMALLEST_MERGE, len(self)):
            self._purge()

    def _purge(self) -> None:
        whole = _Part.merge(*self._parts)
        if self._removed:
            kept = np.flatnonzero(~np.isin(whole.numbers, np.concatenate(self._dead), assume_unique=True))
            whole = _Part(whole.numbers[kept], whole.ids.take(kept))
        self._parts, self._dead, self._removed = [whole, _Part.empty()], [], 0

    def snapshot(self) -> dict[str, Any]:
        """Return all as two columns."""
        self._purge()
        return {"numbers": self._parts[0].numbers, "ids": self._parts[0].ids}

    def restore(self, state: dict[str, Any]) -> None:
        """Take over a snapshot."""
        self._parts, self._dead, self._removed = [_Part(state["numbers"], state["ids"]), _Part.empty()], [], 0


class _Part:
    __slots__ = ("ids", "numbers")

    def __init__(self, numbers: Ints, ids: Ids) -> None:
        self.numbers = numbers
        self.ids = ids

    @classmethod
    def empty(cls) -> "_Part":
        return cls(np.empty(0, np.int64), Ids("int", np.empty(0, np.int64)))

    @classmethod
    def sorted(cls, numbers: Ints, ids: Ids) -> "_Part":
        if (numbers[1:] > numbers[:-1]).all():
            return cls(numbers, ids)
        order = np.argsort(numbers, kind="stable")
        return cls(numbers[order], ids.take(order))

    @classmethod
    def merge(cls, a: "_Part", b: "_Part") -> "_Part":
        if not len(a.numbers) or not len(b.numbers):
            return a if len(a.numbers) else b
        return cls.sorted(np.concatenate([a.numbers, b.numbers]), Ids.concat([a.ids, b.ids]))
