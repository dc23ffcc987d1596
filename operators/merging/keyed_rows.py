"""Rows of a batch by key, in two sorted parts: a large one, and a recent one that is merged in when it has grown.

Replacing n rows among m copies n, and now and then n + m; a look-up is a binary search in both parts.
"""

from typing import Any, Generic, TypeVar

import numpy as np

from streams.columns import Ints

__all__ = ["KeyedRows"]

#: A recent part of up to this many rows is kept apart, so that a few new ones do not copy a million old ones.
SMALLEST_MERGE = 16_384

B = TypeVar("B", bound=Any)


class KeyedRows(Generic[B]):
    """The newest row of each key."""

    def __init__(self, empty: B) -> None:
        self._empty = empty
        none = np.empty(0, np.int64)
        self._large: tuple[Ints, B] = (none, empty)
        self._recent: tuple[Ints, B] = (none, empty)
        self._gone: Ints = none

    def __len__(self) -> int:
        keys, _ = self.all()
        return len(keys)

    def put(self, keys: Ints, rows: B) -> None:
        """Enter rows, each in place of the one that its key had; keys are distinct."""
        if not len(keys):
            return
        self._gone = np.setdiff1d(self._gone, keys)
        self._recent = _merged(self._recent, (keys, rows))
        if len(self._recent[0]) > max(SMALLEST_MERGE, len(self._large[0]) // 4):
            self._large = _merged(self._large, self._recent)
            self._recent = (np.empty(0, np.int64), self._empty)
            self._purge()

    def remove(self, keys: Ints) -> None:
        """Forget keys."""
        if len(keys):
            self._gone = np.union1d(self._gone, keys)
            if len(self._gone) > max(SMALLEST_MERGE, len(self._large[0]) // 4):
                self._large = _merged(self._large, self._recent)
                self._recent = (np.empty(0, np.int64), self._empty)
                self._purge()

    def _purge(self) -> None:
        keys, rows = self._large
        kept = np.flatnonzero(~np.isin(keys, self._gone, assume_unique=True))
        self._large, self._gone = (keys[kept], rows.take(kept)), np.empty(0, np.int64)

    def between(self, low: Ints, high: Ints) -> tuple[Ints, Ints, B]:
        """Return, for each of some ranges [low, high) that do not overlap: its place, then keys and rows, by range and key."""
        if not len(self._large[0]) + len(self._recent[0]):
            none = np.empty(0, np.int64)
            return none, none, self._empty
        found: list[tuple[Ints, Ints, B]] = []
        for keys, rows in (self._large, self._recent):
            first, last = np.searchsorted(keys, low), np.searchsorted(keys, high)
            count = last - first
            at = np.repeat(first - (np.cumsum(count) - count), count) + np.arange(int(count.sum()))
            found.append((np.repeat(np.arange(len(low)), count), keys[at], rows.take(at)))
        (place, keys, rows), (new_place, new_keys, new_rows) = found
        old = np.flatnonzero(~np.isin(keys, new_keys))
        place, keys = np.concatenate([place[old], new_place]), np.concatenate([keys[old], new_keys])
        rows = type(rows).concat([rows.take(old), new_rows])
        kept = np.flatnonzero(~np.isin(keys, self._gone))
        order = kept[np.lexsort((keys[kept], place[kept]))]
        return place[order], keys[order], rows.take(order)

    def get(self, keys: Ints) -> tuple[Ints, B]:
        """Return the places in `keys` that have a row, and their rows."""
        place, _, rows = self.between(keys, keys + 1)
        return place, rows

    def all(self) -> tuple[Ints, B]:
        """Return all keys, ascending, and their rows."""
        keys, rows = _merged(self._large, self._recent)
        kept = np.flatnonzero(~np.isin(keys, self._gone))
        return keys[kept], rows.take(kept)

    def snapshot(self) -> dict[str, Any]:
        """Return all keys and rows."""
        keys, rows = self.all()
        return {"keys": keys, "rows": rows}

    def restore(self, state: dict[str, Any]) -> None:
        """Take over a snapshot."""
        none = np.empty(0, np.int64)
        self._large, self._recent, self._gone = (state["keys"], state["rows"]), (none, self._empty), none


def _merged(old: tuple[Ints, B], new: tuple[Ints, B]) -> tuple[Ints, B]:
    """Put two parts together; where both have a key, the new row stays."""
    kept = np.flatnonzero(~np.isin(old[0], new[0], assume_unique=True))
    keys = np.concatenate([old[0][kept], new[0]])
    order = np.argsort(keys, kind="stable")
    return keys[order], type(new[1]).concat([old[1].take(kept), new[1]]).take(order)
