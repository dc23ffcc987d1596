"""Which query ids are taken: the registrations that live, by id.

An id may be used again once its query has ended. Ended entries stay until they would fill half of them, then all
of them go at once, so that a registration costs constant time on average.
"""

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
        self._entries: dict[int | str, tuple[int, int]] = {}
        self._purge_at = _FIRST_PURGE
        self._first_end = FOREVER  # nothing that is here ends before

    def __len__(self) -> int:
        return len(self._entries)

    def register(self, name: int | str, number: int, ts: int, end: int) -> str | None:
        """Enter a query, or return the reason why it is refused."""
        entry = self._entries.get(name)
        if entry is not None and entry[1] > ts:
            until = "for good" if entry[1] == FOREVER else f"until {entry[1]}"
            return f"id {shown(name)} is taken {until} by the query of record {entry[0] + 1}"
        if len(self._entries) >= min(self._purge_at, self._limit) and entry is None:
            self._purge(ts)
            if len(self._entries) >= self._limit:
                return f"{self._limit} queries live already, which is the limit (topology.limits.live_queries)"
        self._entries[name] = (number, end)
        self._first_end = min(self._first_end, end)
        return None

    def register_all(self, names: Sequence[int | str], numbers: Sequence[int], ends: Sequence[int]) -> bool:
        """Enter many queries at once if none of the ids is known; else enter none and return False."""
        entries = dict(zip(names, zip(numbers, ends, strict=True), strict=True))
        if (
            len(entries) < len(names)
            or len(self._entries) + len(names) > min(self._purge_at, self._limit)
            or not self._entries.keys().isdisjoint(entries)
        ):
            return False
        self._entries.update(entries)
        self._first_end = min(self._first_end, *ends, FOREVER)
        return True

    def unregister(self, name: int | str, ts: int) -> int | str:
        """Strike a query out and return the number of its registration, or the reason why there is none to end."""
        entry = self._entries.get(name)
        if entry is None:
            return f"id {shown(name)} is not registered"
        if entry[1] <= ts:
            return f"the query with id {shown(name)} has ended at {entry[1]}"
        del self._entries[name]
        return entry[0]

    def _purge(self, ts: int) -> None:
        if self._first_end <= ts:
            self._entries = {name: entry for name, entry in self._entries.items() if entry[1] > ts}
            self._first_end = min((end for _, end in self._entries.values()), default=FOREVER)
        self._purge_at = max(_FIRST_PURGE, 2 * len(self._entries))

    def make_room(self, rows: int, ts: int) -> None:
        """Forget what has ended before `ts` where that many more registrations would need it."""
        if len(self._entries) + rows > min(self._purge_at, self._limit):
            self._purge(ts)
            self._purge_at = max(self._purge_at, len(self._entries) + rows)

    def snapshot(self) -> dict[str, Any]:
        """Return them as data that msgpack knows."""
        return {
            "ids": [name if isinstance(name, str) or name in _INT64 else [str(name)] for name in self._entries],
            "entries": np.array(list(self._entries.values()), "<i8").reshape(-1, 2).tobytes(),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Become what a snapshot was taken of."""
        names = [int(name[0]) if isinstance(name, list | tuple) else name for name in state["ids"]]
        entries = np.frombuffer(state["entries"], "<i8").reshape(-1, 2).tolist()
        self._entries = {name: (number, end) for name, (number, end) in zip(names, entries, strict=True)}
        self._first_end = min((end for _, end in entries), default=FOREVER)
        self._purge_at = max(_FIRST_PURGE, 2 * len(self._entries))
