"""A run over time, in a bounded number of entries: objects, costs of the evaluators, latency, the busiest task.

Entries are cut by epoch, not by clock, so that objects and costs of an entry are the same on every runtime.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

__all__ = ["Timeline"]


@dataclass(slots=True)
class _Entry:
    """What some epochs in a row add up to."""

    epochs: int = 0
    seconds: float = 0.0
    objects: int = 0
    costs: list[float] = field(default_factory=list)
    peak: float = 0.0
    latency_ms: float = 0.0
    busiest_ms: float = 0.0

    def joined(self, other: "_Entry") -> "_Entry":
        """Return this entry and the one behind it as one."""
        return _Entry(
            self.epochs + other.epochs,
            max(self.seconds, other.seconds),
            self.objects + other.objects,
            _sums(self.costs, other.costs),
            self.peak + other.peak,
            max(self.latency_ms, other.latency_ms),
            max(self.busiest_ms, other.busiest_ms),
        )


_FIELDS = tuple(one.name for one in fields(_Entry))


def _values(entry: _Entry) -> list[Any]:
    """Return the fields of an entry; its costs are never changed but replaced, so they need no copy."""
    return [getattr(entry, name) for name in _FIELDS]


def _sums(one: Sequence[float], other: Sequence[float]) -> list[float]:
    if len(one) != len(other):
        return list(one or other)
    return [a + b for a, b in zip(one, other, strict=True)]


class Timeline:
    """Takes what is known of each epoch, in any order. When entries are too many, each two neighbours become one."""

    MOST = 512

    def __init__(self) -> None:
        self._entries: list[_Entry] = []
        self._every = 1

    def _entry(self, epoch: int) -> _Entry:
        while epoch // self._every >= self.MOST:
            pairs = [*self._entries, *([_Entry()] * (len(self._entries) % 2))]
            self._entries = [a.joined(b) for a, b in zip(pairs[::2], pairs[1::2], strict=True)]
            self._every *= 2
        place = epoch // self._every
        while len(self._entries) <= place:
            self._entries.append(_Entry())
        return self._entries[place]

    def report(self, epoch: int, objects: int, busy_ms: float) -> None:
        """Take what one task says of an epoch: how many objects it brought in, and how long it worked."""
        entry = self._entry(epoch)
        entry.objects += objects
        entry.busiest_ms = max(entry.busiest_ms, busy_ms)

    def weigh(self, epoch: int, costs: Sequence[float]) -> None:
        """Take the costs of all evaluators in an epoch."""
        entry = self._entry(epoch)
        entry.costs = _sums(entry.costs, costs)
        entry.peak += max(costs)

    def ack(self, epoch: int, seconds: float, latency_ms: float) -> None:
        """Take the time at which an epoch was complete, and how long it had been under way."""
        entry = self._entry(epoch)
        entry.epochs += 1
        entry.seconds = max(entry.seconds, seconds)
        entry.latency_ms = max(entry.latency_ms, latency_ms)

    def snapshot(self) -> dict[str, Any]:
        """Return the entries as plain values."""
        return {"every": self._every, "entries": [_values(entry) for entry in self._entries]}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on with the entries of a snapshot."""
        self._every, self._entries = state["every"], [_Entry(*values) for values in state["entries"]]

    def as_list(self) -> list[dict[str, Any]]:
        """Return the entries in order, behind one for the start.

        Each has the epochs that it covers (`epochs` of them, from `epoch` on), the `seconds` at which they were
        complete and the `objects` so far; and of its own epochs the `costs` of each evaluator, `peak` (the largest cost of
        an epoch, added up: their parallel efficiency is sum(costs) / (evaluators x peak)), `latency_ms` (the longest) and
        `busiest_ms` (the longest time that a task worked on one of them).
        """
        listed = [_plain(0, 0, _Entry())]
        objects = 0
        for place, entry in enumerate(self._entries):
            objects += entry.objects
            if entry.epochs:
                listed.append(_plain(place * self._every, objects, entry))
        return listed


def _plain(epoch: int, objects: int, entry: _Entry) -> dict[str, Any]:
    return {
        "epoch": epoch,
        "epochs": entry.epochs,
        "seconds": round(entry.seconds, 4),
        "objects": objects,
        "costs": [int(cost) for cost in entry.costs],
        "peak": int(entry.peak),
        "latency_ms": round(entry.latency_ms, 3),
        "busiest_ms": round(entry.busiest_ms, 3),
    }
