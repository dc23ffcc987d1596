"""The queries that live, as their users put them: what ``GET /queries/{id}`` shows, and what a subscription is held against."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

__all__ = ["Registration", "Registrations"]

Id = int | str

_FIRST_PURGE = 1_024


@dataclass(frozen=True, slots=True)
class Registration:
    """A query that lives.

    Attributes:
        number: names it in results.
        end: exclusive; `FOREVER` where it has none.
        type: range, knn, topk or terms.
        body: the line of a query file that it is.
    """

    number: int
    end: int
    type: str
    body: bytes


class Registrations:
    """Live queries by id, and the ids of their numbers; those that have ended go now and then, all at once.

    Attributes:
        listed: the numbers of those whose results are lists.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._by_id: dict[Id, Registration] = {}
        self._ids: dict[int, Id] = {}
        self.listed: set[int] = set()
        self._purge_at = _FIRST_PURGE

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[Id]:
        return iter(list(self._by_id))

    def get(self, name: Id) -> Registration | None:
        """Return a query, which may have ended by its time to live."""
        return self._by_id.get(name)

    def id_of(self, number: int) -> Id | None:
        """Return the id of a query's number."""
        return self._ids.get(number)

    def add(self, name: Id, number: int, end: int, kind: str, body: bytes) -> None:
        """Enter a query in place of any other of its id."""
        self.remove(name)
        self._by_id[name] = Registration(number, end, kind, body)
        self._ids[number] = name
        if kind != "range":
            self.listed.add(number)

    def remove(self, name: Id) -> None:
        """Strike a query out."""
        if (known := self._by_id.pop(name, None)) is not None:
            del self._ids[known.number]
            self.listed.discard(known.number)

    def purge(self, floor: int) -> None:
        """Strike out those that ended before a time, where that is worth it."""
        if len(self._by_id) < self._purge_at:
            return
        for name in [name for name, known in self._by_id.items() if known.end <= floor]:
            self.remove(name)
        self._purge_at = max(_FIRST_PURGE, 2 * len(self._by_id))

    def snapshot(self) -> list[list[Any]]:
        """Return them as plain values."""
        return [
            [str(name) if (big := _is_big(name)) else name, big, known.number, known.end, known.type, known.body]
            for name, known in self._by_id.items()
        ]

    def restore(self, state: list[list[Any]]) -> None:
        """Take over a snapshot."""
        self._by_id, self._ids = {}, {}
        self.listed.clear()
        for name, big, number, end, kind, body in state:
            self.add(int(name) if big else name, number, end, kind, body)
        self._purge_at = max(_FIRST_PURGE, 2 * len(self._by_id))


def _is_big(name: Id) -> bool:
    """Tell whether an id is an integer that msgpack does not know."""
    return isinstance(name, int) and not -(2**63) <= name < 2**63
