"""Which query ids are taken: the registrations that live, by id.

An id may be used again once its query has ended. Ended entries stay until they would fill half of them, then all
of them go at once, so that a registration costs constant time on average.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from streams.batches import FOREVER
from streams.errors import DeclarationError
from streams.files.objections import shown
from streams.files.read_limits import DEFAULT_LIMITS

__all__ = ["OpenQueries"]

_FIRST_PURGE = 1_024
_INT64 = range(-(2**63), 2**63)


class OpenQueries:
    """Live queries by id, each with the number of its registration and its end (exclusive)."""

    def __init__(self, limit: int = DEFAULT_LIMITS.live_queries) -> None:
        if limit < 1:
            raise DeclarationError(f"at most {limit} open queries are none at all; expected at least 1")
        self._limit = limit
        self._numbers: dict[int | str, int] = {}
        self._ends: dict[int | str, int] = {}  # of those that end at all
        self._purge_at = _FIRST_PURGE
        self._first_end = FOREVER  # nothing that is here ends before

    def __len__(self) -> int:
        return len(self._numbers)

    def register(self, name: int | str, number: int, ts: int, end: int) -> str | None:
        """Enter a query, or return the reason why it is refused."""
        known = self._numbers.get(name)
        if known is not None and (last := self._ends.get(name, FOREVER)) > ts:
            until = "for good" if last == FOREVER else f"until {last}"
            return f"id {shown(name)} is taken {until} by the query of record {known + 1}"
        if len(self._numbers) >= min(self._purge_at, self._limit) and known is None:
            self._purge(ts)
            if len(self._numbers) >= self._limit:
                return f"{self._limit} queries live already, which is the limit (topology.limits.live_queries)"
        self._numbers[name] = number
        self._ends.pop(name, None)
        if end != FOREVER:
            self._ends[name] = end
        self._first_end = min(self._first_end, end)
        return None

    def register_all(self, names: Sequence[int | str], numbers: Sequence[int], ends: Sequence[int]) -> bool:
        """Enter many queries at once if none of the ids is known; else enter none and return False."""
        if len(self._numbers) + len(names) > min(self._purge_at, self._limit):
            return False
        # One look into the table for each. Where an id was known, or comes twice, fewer are new: these are the last.
        before = len(self._numbers)
        deque(map(self._numbers.setdefault, names, numbers), maxlen=0)
        entered = len(self._numbers) - before
        if entered < len(names):
            for _ in range(entered):
                self._numbers.popitem()
            return False
        if ends.count(FOREVER) < len(names):
            self._ends.update((name, end) for name, end in zip(names, ends, strict=True) if end != FOREVER)
            self._first_end = min(self._first_end, *ends)
        return True

    def unregister(self, name: int | str, ts: int) -> int | str:
        """Strike a query out and return the number of its registration, or the reason why there is none to end."""
        number = self._numbers.get(name)
        if number is None:
            return f"id {shown(name)} is not registered"
        if (end := self._ends.get(name, FOREVER)) <= ts:
            return f"the query with id {shown(name)} has ended at {end}"
        del self._numbers[name]
        self._ends.pop(name, None)
        return number

    def _purge(self, ts: int) -> None:
        if self._first_end <= ts:
            for name in [name for name, end in self._ends.items() if end <= ts]:
                del self._numbers[name], self._ends[name]
            self._first_end = min(self._ends.values(), default=FOREVER)
        self._purge_at = max(_FIRST_PURGE, 2 * len(self._numbers))

    def make_room(self, rows: int, ts: int) -> None:
        """Forget what has ended before `ts` where that many more registrations would need it."""
        if len(self._numbers) + rows > min(self._purge_at, self._limit):
            self._purge(ts)
            self._purge_at = max(self._purge_at, len(self._numbers) + rows)

    def snapshot(self) -> dict[str, Any]:
        """Return them as data that msgpack knows."""
        entries = [(number, self._ends.get(name, FOREVER)) for name, number in self._numbers.items()]
        return {
            "ids": [name if isinstance(name, str) or name in _INT64 else [str(name)] for name in self._numbers],
            "entries": np.array(entries, "<i8").reshape(-1, 2).tobytes(),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Become what a snapshot was taken of."""
        names = [int(name[0]) if isinstance(name, list | tuple) else name for name in state["ids"]]
        entries = np.frombuffer(state["entries"], "<i8").reshape(-1, 2).tolist()
        self._numbers = {name: number for name, (number, _) in zip(names, entries, strict=True)}
        self._ends = {name: end for name, (_, end) in zip(names, entries, strict=True) if end != FOREVER}
        self._first_end = min(self._ends.values(), default=FOREVER)
        self._purge_at = max(_FIRST_PURGE, 2 * len(self._numbers))
