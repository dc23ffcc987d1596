"""What every range index can do, and the values that it takes and gives.

A range index holds standing queries (a region, keywords, a lifetime) and tells for each object of a batch which of them
it matches. All implementations give the same pairs; they differ in what they examine on the way, and say how much that was.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from partitioners.columns import Floats
from streams.batches import ObjectBatch, QueryBatch
from streams.errors import DeclarationError

__all__ = ["Arrays", "CellRange", "Cost", "Load", "Matches", "RangeIndex"]

Ints = NDArray[np.int64]
Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True, slots=True, eq=False)
class Matches:
    """The pairs of one batch, as ragged rows.

    Attributes:
        off: object i of the batch matches ``number[off[i]:off[i + 1]]``.
        number: numbers of queries (`QueryBatch.number`), in no particular order within an object.
    """

    off: Ints
    number: Ints

    def __len__(self) -> int:
        return len(self.number)

    @property
    def object(self) -> Ints:
        """The place in the batch of the object of each pair."""
        return np.repeat(np.arange(len(self.off) - 1), np.diff(self.off))


@dataclass(frozen=True, slots=True)
class Cost:
    """Work done since the start or the last `reset`: pruning power is matches over candidates."""

    objects: int = 0
    candidates: int = 0
    matches: int = 0


@dataclass(frozen=True, slots=True)
class CellRange:
    """A rectangle of cells of the fine grid, all four ends included."""

    min_column: int
    min_row: int
    max_column: int
    max_row: int

    def __post_init__(self) -> None:
        if not (0 <= self.min_column <= self.max_column and 0 <= self.min_row <= self.max_row):
            raise DeclarationError(
                f"cells [{self.min_column}, {self.min_row}, {self.max_column}, {self.max_row}] are not a rectangle; "
                "expected [min column, min row, max column, max row] with 0 <= min <= max"
            )


@dataclass(frozen=True, slots=True, eq=False)
class Load:
    """What Tornado's rebalancer looks at (section 4.3): aggregates over the rows and columns of the fine grid.

    Attributes:
        cost_rows: candidates examined for the objects in each row.
        cost_columns: the same for each column.
        cost: candidates examined in all.
        query_row_starts: queries by the first row that they overlap.
        query_row_ends: queries by the last row that they overlap.
        query_column_starts: the same for columns.
        query_column_ends: the same for columns.
        queries: queries in all.
        cells: where the index counts by cell: costs, queries by their first cell and by their last, each rows x columns.
    """

    cost_rows: Ints
    cost_columns: Ints
    cost: int
    query_row_starts: Ints
    query_row_ends: Ints
    query_column_starts: Ints
    query_column_ends: Ints
    queries: int
    cells: Ints | None = None

    @property
    def query_rows(self) -> Ints:
        """Queries that overlap each row."""
        return _overlapping(self.query_row_starts, self.query_row_ends)

    @property
    def query_columns(self) -> Ints:
        """Queries that overlap each column."""
        return _overlapping(self.query_column_starts, self.query_column_ends)


def _overlapping(starts: Ints, ends: Ints) -> Ints:
    """Return for each row how many begin in it or before, less those that end before it."""
    return np.asarray(np.cumsum(starts) - np.cumsum(ends) + ends)


class RangeIndex(Protocol):
    """Standing range-keyword queries, known by their number.

    Within one epoch an evaluator inserts the registrations, lowers the ends of what was unregistered (`set_end`),
    matches the objects and then drops what has ended (`expire`): a pair counts only if ``q.ts <= o.ts < q.end``, so the
    order of operations within the epoch is kept by the times alone.
    """

    def __len__(self) -> int:
        """Return the number of queries held, expired ones included until `expire` drops them."""

    def __contains__(self, number: int) -> bool:
        """Tell whether a query is held."""

    def holds(self, numbers: Ints) -> NDArray[np.bool_]:
        """Tell of each number whether it is held."""

    def numbers(self) -> Ints:
        """Return the numbers of all queries held, in ascending order."""

    def insert(self, queries: QueryBatch) -> None:
        """Add registrations; a number that is already held is an `InputError` and nothing is added."""

    def remove(self, numbers: Ints) -> int:
        """Drop queries at once and return how many of them were held."""

    def set_end(self, numbers: Ints, ends: Ints) -> int:
        """Lower the (exclusive) ends of queries and return how many were held; an end never moves up."""

    def ended(self, now: int) -> Ints:
        """Return the numbers of the queries with end <= now; they are named once, and the caller is to `remove` them."""

    def expire(self, now: int) -> Ints:
        """Drop every query with end <= now and return their numbers."""

    def hush(self, numbers: Ints) -> int:
        """Let queries match nothing until they are woken up, and return how many were held; all else goes on for them."""

    def wake(self, numbers: Ints) -> int:
        """Let queries match again and return how many were held."""

    def detects(self, numbers: Ints) -> NDArray[np.uint8]:
        """Return the bits of what queries that are held detect (`streams.batches.DETECTS`)."""

    def asleep(self) -> Ints:
        """Return the numbers of the queries that are asleep, in ascending order."""

    def match(self, objects: ObjectBatch) -> Matches:
        """Return the queries that each object matches."""

    def cost(self) -> Cost:
        """Return the counters of work done."""

    def load(self) -> Load:
        """Return the aggregates over the fine grid."""

    def reset_cost(self) -> None:
        """Start counting work afresh; the aggregates of queries stay."""

    def overlapping(self, cells: CellRange) -> Ints:
        """Return the numbers of the queries that overlap these cells, in ascending order."""

    def touching(self, boxes: Floats) -> Ints:
        """Return the numbers of the queries that touch any of some closed boxes, in ascending order.

        A box is low x, low y, high x, high y.
        """

    def queries(self, numbers: Ints) -> QueryBatch:
        """Return those of these queries that are held, in this order, as they were registered, ready for another index.

        Identifiers stay with the owner of the index: `ids` of the batch are the numbers. Another index holds them awake.
        """

    def extract(self, cells: CellRange, *, remove: bool = False) -> QueryBatch:
        """Return the queries that overlap these cells, as `queries` does, and drop them here if so asked."""

    def snapshot(self) -> Arrays:
        """Return the whole state as arrays."""

    def restore(self, arrays: Arrays) -> None:
        """Become the index that made this snapshot: same answers, same counters."""

    @property
    def nbytes(self) -> int:
        """Bytes in use."""
