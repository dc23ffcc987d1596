"""Storm's groupings: which task of a bolt gets which tuple.

A grouping divides a whole batch at a time. Each sending task has its own instance for each edge; what it remembers (whose
turn it is, how much each task was sent) is part of the task's state, so that a replay divides the same way.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from streams.batches import Batch, TupleBatch
from streams.hashing import hash_columns, places_by_hash

__all__ = ["GROUPINGS", "CustomGrouping", "Grouping", "GroupingContext", "make_grouping"]

Places = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class GroupingContext:
    """What a grouping may know: the sending task, the number of receiving tasks, which share the sender's worker.

    Attributes:
        by_remainder: the one field is the number of a query, by whose remainder the plan divides queries among evaluators.
    """

    source: int
    targets: int
    local_targets: tuple[int, ...]
    fields: tuple[str, ...]
    seed: int
    by_remainder: bool = False


class CustomGrouping(Protocol):
    """A user's own grouping: two methods, and a constructor without arguments."""

    def prepare(self, context: GroupingContext) -> None:
        """Learn once, before the first batch, how many tasks there are."""

    def choose(self, batch: Batch) -> Sequence[int] | Places:
        """Return the receiving task of each row."""


class Grouping:
    """Divides batches; the base class keeps no memory and sends everything to task 0."""

    def __init__(self, context: GroupingContext) -> None:
        self.context = context

    def divide(self, batch: Batch) -> list[Batch | None]:
        """Return a batch, or None, for each receiving task."""
        return [batch] + [None] * (self.context.targets - 1)

    def snapshot(self) -> Any:
        """Return what the grouping remembers."""
        return None

    def restore(self, state: Any) -> None:
        """Take over what it remembered."""


class AllGrouping(Grouping):
    """Every task gets every tuple."""

    def divide(self, batch: Batch) -> list[Batch | None]:
        """Return the batch for each task."""
        return [batch] * self.context.targets


class ShuffleGrouping(Grouping):
    """Every task gets an equal part: contiguous runs of rows, without copying; the remainder goes round."""

    def __init__(self, context: GroupingContext) -> None:
        super().__init__(context)
        self.among = tuple(range(context.targets))
        self.turn = (context.seed + context.source) % max(context.targets, 1)

    def divide(self, batch: Batch) -> list[Batch | None]:
        """Cut the batch into runs whose lengths differ by one at most."""
        n, parts = len(batch), len(self.among)
        divided: list[Batch | None] = [None] * self.context.targets
        start = 0
        for i in range(parts):
            stop = start + n // parts + (i < n % parts)
            if stop > start:
                divided[self.among[(self.turn + i) % parts]] = batch.slice(start, stop)
            start = stop
        self.turn = (self.turn + n) % parts
        return divided

    def snapshot(self) -> Any:
        """Return whose turn it is."""
        return self.turn

    def restore(self, state: Any) -> None:
        """Go on with the one whose turn it was."""
        self.turn = int(state) % len(self.among)


class LocalOrShuffleGrouping(ShuffleGrouping):
    """As shuffle, but among the tasks in the sender's own worker process where there are any."""

    def __init__(self, context: GroupingContext) -> None:
        super().__init__(context)
        if context.local_targets:
            self.among = context.local_targets
            self.turn %= len(self.among)


class _PlacedGrouping(Grouping):
    """A grouping that decides row by row."""

    def places(self, batch: Batch) -> Places:
        raise NotImplementedError

    def divide(self, batch: Batch) -> list[Batch | None]:
        """Give each task its rows, in their order."""
        if not len(batch):
            return [None] * self.context.targets
        return split_by_place(batch, self.places(batch), self.context.targets)


class FieldsGrouping(_PlacedGrouping):
    """Rows with equal values of the fields go to the same task, whoever sends them."""

    def divide(self, batch: Batch) -> list[Batch | None]:
        """Give each task its rows; one task gets all of them, whatever is in them."""
        return [batch] if self.context.targets == 1 else super().divide(batch)

    def places(self, batch: Batch) -> Places:
        """Hash the fields; the lists of queries that one evaluator has by number stay together, and so in its worker."""
        columns = [column_of(batch, name) for name in self.context.fields]
        return places_by_hash(columns, self.context.targets, by_remainder=self.context.by_remainder)


class PartialKeyGrouping(_PlacedGrouping):
    """Two tasks for each value of the fields; of the two, the one that this sender has sent less goes next."""

    def __init__(self, context: GroupingContext) -> None:
        super().__init__(context)
        self.sent = np.zeros(context.targets, np.int64)

    def places(self, batch: Batch) -> Places:
        """Take the power of two choices."""
        from topology.partial_key import choose_of_two  # numba is loaded only where it is needed

        hashed = hash_columns([column_of(batch, name) for name in self.context.fields])
        targets = np.uint64(self.context.targets)
        other = (hashed >> np.uint64(32)) * np.uint64(0x9E3779B1)
        first, second = (hashed % targets).astype(np.int64), (other % targets).astype(np.int64)
        return choose_of_two(first, second, self.sent)

    def snapshot(self) -> Any:
        """Return how much each task was sent."""
        return self.sent.copy()

    def restore(self, state: Any) -> None:
        """Go on with the counts."""
        self.sent = np.array(state, np.int64)


class _CustomGrouping(_PlacedGrouping):
    """Asks a user's class, and checks what it says."""

    def __init__(self, context: GroupingContext, chooser: CustomGrouping) -> None:
        super().__init__(context)
        self.chooser = chooser
        chooser.prepare(context)

    def places(self, batch: Batch) -> Places:
        """Return the user's choice."""
        places = np.asarray(self.chooser.choose(batch), np.int64)
        targets = self.context.targets
        if places.shape != (len(batch),) or (len(places) and (places.min() < 0 or places.max() >= targets)):
            raise ValueError(
                f"{type(self.chooser).__name__}.choose must return one task of 0..{targets - 1} for each of "
                f"{len(batch)} rows; it returned {places.tolist()[:5]}..."
            )
        return places

    def snapshot(self) -> Any:
        """Return the chooser's own state, where it has any."""
        return self.chooser.snapshot() if hasattr(self.chooser, "snapshot") else None

    def restore(self, state: Any) -> None:
        """Give the chooser its state back."""
        if hasattr(self.chooser, "restore"):
            self.chooser.restore(state)


#: Name -> class. A direct grouping has none: the emitter names the task. 'none' means that the user does not care.
GROUPINGS: Mapping[str, type[Grouping] | None] = {
    "shuffle": ShuffleGrouping,
    "fields": FieldsGrouping,
    "partial-key": PartialKeyGrouping,
    "all": AllGrouping,
    "global": Grouping,
    "direct": None,
    "local-or-shuffle": LocalOrShuffleGrouping,
    "none": ShuffleGrouping,
    "custom": _CustomGrouping,
}


def make_grouping(name: str, context: GroupingContext, chooser: CustomGrouping | None = None) -> Grouping | None:
    """Return the grouping of an edge; None for direct."""
    if chooser is not None:
        return _CustomGrouping(context, chooser)
    cls = GROUPINGS[name]
    return cls(context) if cls is not None else None


def column_of(batch: Batch, name: str) -> Any:
    """Return the column of a field of any batch."""
    return batch.column(name) if isinstance(batch, TupleBatch) else getattr(batch, name)


def split_by_place(batch: Batch, places: Places, targets: int) -> list[Batch | None]:
    """Divide a batch by the task of each row, keeping the order of the rows."""
    counts = np.bincount(places, minlength=targets)
    if counts.max(initial=0) == len(places):
        return [batch if count else None for count in counts]
    # Of 16 bits, numpy sorts by radix.
    ordered = batch.take(np.argsort(places.astype(np.uint16) if targets <= 1 << 16 else places, kind="stable"))
    ends = np.cumsum(counts)
    return [
        ordered.slice(int(end - count), int(end)) if count else None for end, count in zip(ends, counts, strict=True)
    ]
