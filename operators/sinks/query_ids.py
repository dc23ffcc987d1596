"""Query numbers back to the identifiers that users gave."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from streams.columns import Ids, Ints
from streams.files.named_hits import IdTable
from streams.kernel import kernel

__all__ = ["QueryIds"]

#: A recent part of up to this many ids is kept apart, so that a few new queries do not copy a million old ones.
SMALLEST_MERGE = 65_536


class QueryIds:
    """Identifiers by query number, in two sorted parts: a large one, and a recent one that is merged in when it has grown.

    Adding n ids to m copies n, and now and then n + m. A look-up is a binary search among those that share the leading
    bits of a number: one or two, where numbers are dense.
    """

    def __init__(self) -> None:
        self._parts = [_Part.empty(), _Part.empty()]
        self._dead: list[Ints] = []
        self._last_dead = 0
        self._removed = 0

    def __len__(self) -> int:
        return sum(len(part.numbers) for part in self._parts) - self._removed

    def add(self, numbers: Ints, ids: Ids) -> None:
        """Remember the identifiers of queries, none of which is held; one that was removed may come back."""
        if self._dead and len(numbers) and int(numbers.min()) <= self._last_dead:
            self._purge()
        large, recent = self._parts
        recent = _Part.merge(recent, _Part.sorted(numbers, ids))
        if len(recent.numbers) > max(SMALLEST_MERGE, len(large.numbers) // 4):
            large, recent = _Part.merge(large, recent), _Part.empty()
        self._parts = [large, recent]

    def holds(self, numbers: Ints) -> NDArray[np.bool_]:
        """Tell of each number whether it is held."""
        return self.places(numbers) >= 0

    @property
    def tables(self) -> tuple[IdTable, IdTable]:
        """The identifiers of both parts, by the places that `places` returns."""
        large, recent = self._parts
        return large.table, recent.table

    def places(self, numbers: Ints) -> Ints:
        """Return where the identifier of each query stands in `tables`, the second counted on from the first; -1 is unknown."""
        if self._dead and len(numbers) and int(numbers.min()) <= self._last_dead:
            self._purge()
        large, recent = self._parts
        places = large.exact(numbers)
        if len(recent.numbers) and len(numbers) and int(numbers.max()) >= recent.numbers[0]:
            also = recent.exact(numbers)
            places = np.where(also >= 0, also + len(large.numbers), places)
        return places

    def of(self, numbers: Ints) -> Ids:
        """Return the identifiers of these queries, which must be known."""
        places = self.places(numbers)
        large, recent = self._parts
        in_recent = places >= len(large.numbers)
        if not in_recent.any():
            return large.ids.take(places)
        if in_recent.all():
            return recent.ids.take(places - len(large.numbers))
        found = Ids.concat(
            [large.ids.take(places[~in_recent]), recent.ids.take(places[in_recent] - len(large.numbers))]
        )
        back = np.empty(len(numbers), np.int64)
        back[np.concatenate([np.flatnonzero(~in_recent), np.flatnonzero(in_recent)])] = np.arange(len(numbers))
        return found.take(back)

    def remove(self, numbers: Ints) -> None:
        """Forget queries that have ended: at once in effect, in memory when half of what is held is dead."""
        if not len(numbers):
            return
        self._last_dead = max(self._last_dead, int(numbers.max())) if self._dead else int(numbers.max())
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
    """Ascending numbers, their ids, and where the numbers of each group (those with the same leading bits) begin."""

    __slots__ = ("_groups", "_shift", "numbers", "table")

    def __init__(self, numbers: Ints, ids: Ids) -> None:
        self.numbers = numbers
        self.table = IdTable(ids)
        self._groups: Ints | None = None
        self._shift = 0

    @property
    def ids(self) -> Ids:
        return self.table.ids

    def exact(self, wanted: Ints) -> Ints:
        """Return where each number is, or -1; numbers without a gap need no search."""
        count = len(self.numbers)
        if count and int(self.numbers[-1]) - int(self.numbers[0]) == count - 1:
            return _counted(int(self.numbers[0]), count, wanted)
        places = self.places(wanted)
        if not count:
            return np.full(len(wanted), -1, np.int64)
        return np.where(self.numbers.take(np.minimum(places, count - 1)) == wanted, places, -1)

    def places(self, wanted: Ints) -> Ints:
        """Return where each number is, or would be."""
        if self._groups is None:
            span = int(self.numbers[-1]) - int(self.numbers[0]) if len(self.numbers) else 0
            self._shift = max(span // max(len(self.numbers), 1), 0).bit_length()
            self._groups = _group_starts(self.numbers, self._shift, (span >> self._shift) + 1)
        return _places(self.numbers, self._groups, self._shift, wanted)

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


@kernel
def _group_starts(numbers: Ints, shift: int, groups: int) -> Ints:
    """Return the first place of each group, and the end; a group is the distance from the least number, shifted."""
    starts = np.zeros(groups + 1, np.int64)
    for i in range(len(numbers)):
        starts[((numbers[i] - numbers[0]) >> shift) + 1] += 1
    for group in range(groups):
        starts[group + 1] += starts[group]
    return starts


@kernel
def _counted(first: int, count: int, wanted: Ints) -> Ints:
    out = np.empty(len(wanted), np.int64)
    for i in range(len(wanted)):
        out[i] = wanted[i] - first if first <= wanted[i] < first + count else -1
    return out


@kernel
def _places(numbers: Ints, starts: Ints, shift: int, wanted: Ints) -> Ints:
    out = np.empty(len(wanted), np.int64)
    count = len(numbers)
    for i in range(len(wanted)):
        number = wanted[i]
        if count == 0 or number <= numbers[0]:
            out[i] = 0
            continue
        if number > numbers[count - 1]:
            out[i] = count
            continue
        group = (number - numbers[0]) >> shift
        low, high = starts[group], starts[group + 1]
        while low < high:
            middle = (low + high) >> 1
            if numbers[middle] < number:
                low = middle + 1
            else:
                high = middle
        out[i] = low
    return out
