"""What was last said of each query, as a number, in a flat hash: a change costs the same however many queries there are."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from streams.columns import Ints
from streams.flat_hash import place_of
from streams.kernel import lean_kernel
from streams.prefetch import prefetch

__all__ = ["Fingerprints"]

#: Entries over places of the hash: where it grows, and where it is put after growing or shrinking.
FULLEST, ROOMIEST, SPARSEST = 0.7, 0.45, 0.1
_SMALLEST = 64
#: Places that are asked for ahead of time.
_AHEAD = 12
#: No query has this number; those of injected queries are below 0.
_FREE = -(2**63)


@lean_kernel
def _exchange(numbers: Ints, prints: Ints, table: Ints, changed: NDArray[np.bool_]) -> int:
    """Enter prints, and tell which differ from those before, 0 where there was none; return how many numbers are new."""
    size, fresh = table.shape[0], 0
    for i in range(numbers.shape[0]):
        if i + _AHEAD < numbers.shape[0]:
            prefetch(table, 2 * place_of(numbers[i + _AHEAD], size))
        place = place_of(numbers[i], size)
        while table[place, 0] != _FREE and table[place, 0] != numbers[i]:
            place = place + 1 if place + 1 < size else 0
        if table[place, 0] == _FREE:
            if prints[i] == 0:
                changed[i] = False
                continue
            table[place, 0] = numbers[i]
            table[place, 1] = 0
            fresh += 1
        changed[i] = table[place, 1] != prints[i]
        table[place, 1] = prints[i]
    return fresh


@lean_kernel
def _remove(numbers: Ints, table: Ints) -> int:
    """Take numbers out; what follows in the same cluster moves back. Returns how many there were."""
    size, gone = table.shape[0], 0
    for i in range(numbers.shape[0]):
        hole = place_of(numbers[i], size)
        while table[hole, 0] != _FREE and table[hole, 0] != numbers[i]:
            hole = hole + 1 if hole + 1 < size else 0
        if table[hole, 0] == _FREE:
            continue
        gone += 1
        place = hole + 1 if hole + 1 < size else 0
        while table[place, 0] != _FREE:
            home = place_of(table[place, 0], size)
            if (place - home + size) % size >= (place - hole + size) % size:
                table[hole, 0], table[hole, 1] = table[place, 0], table[place, 1]
                hole = place
            place = place + 1 if place + 1 < size else 0
        table[hole, 0] = _FREE
    return gone


class Fingerprints:
    """The fingerprint of the last list of each query; one that has none, or an empty list, has 0."""

    def __init__(self) -> None:
        self._table: Ints = np.full((_SMALLEST, 2), _FREE, np.int64)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def exchange(self, numbers: Ints, prints: Ints) -> NDArray[np.bool_]:
        """Enter the fingerprints of distinct queries; tell of each whether it differs from the one before."""
        if self._count + len(numbers) > FULLEST * len(self._table):
            self._resize(self._count + len(numbers))
        changed = np.empty(len(numbers), np.bool_)
        self._count += _exchange(_plain(numbers), _plain(prints), self._table, changed)
        return changed

    def remove(self, numbers: Ints) -> None:
        """Forget queries."""
        self._count -= _remove(_plain(numbers), self._table)
        if len(self._table) > _SMALLEST and self._count < SPARSEST * len(self._table):
            self._resize(self._count)

    def _resize(self, entries: int) -> None:
        kept = self._table[self._table[:, 0] != _FREE]
        self._table = np.full((int(entries / ROOMIEST) + _SMALLEST, 2), _FREE, np.int64)
        _exchange(_plain(kept[:, 0]), _plain(kept[:, 1]), self._table, np.empty(len(kept), np.bool_))
        # A list that is empty now is the same as none.
        self._count = int(np.count_nonzero(self._table[:, 0] != _FREE))

    def snapshot(self) -> dict[str, Any]:
        """Return all queries, ascending, and their fingerprints."""
        kept = self._table[self._table[:, 0] != _FREE]
        kept = kept[np.argsort(kept[:, 0])]
        return {"numbers": kept[:, 0].copy(), "prints": kept[:, 1].copy()}

    def restore(self, state: dict[str, Any]) -> None:
        """Take over a snapshot."""
        self.__init__()  # type: ignore[misc]
        self.exchange(state["numbers"], state["prints"])


def _plain(column: NDArray[Any]) -> Ints:
    return np.require(column, np.int64, ["C", "A", "W"])
