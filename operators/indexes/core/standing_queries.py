"""Standing queries by number: what indexes of all kinds have in common, whatever they do with objects.

A kind of index says what happens to rows that come (`_file`) and go (`_unfile`), and starts empty in `_clear`.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from operators.indexes.core.expiry import Expiry
from operators.indexes.core.query_table import QueryTable
from operators.indexes.core.rare_columns import RARE_COLUMNS, saved_rare, whole_rare
from operators.indexes.core.refusals import check_registrations
from streams.batches import OP_REGISTER, QueryBatch
from streams.columns import Ids, distinct
from streams.errors import InputError
from streams.geometry import Metric, Rect
from streams.residual_columns import RESIDUALS

__all__ = ["SAVED_COLUMNS", "Slots", "StandingQueries", "finite_places", "plain", "registrations", "saved_columns"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Slots = NDArray[np.int32]

#: Queries are taken in by so many at a time, which bounds every scratch array.
CHUNK = 8192
#: The table is rebuilt when fewer than one row in so many is in use, and it has at least so many rows.
SPARSE, SMALLEST_REBUILD = 4, 4096


class StandingQueries:
    """A table of queries, and when they end."""

    #: Numbers of a query's shape that are kept.
    _shape = 4

    def __init__(self, space: Rect, metric: Metric) -> None:
        self._space, self._metric = space, metric
        self._clear()

    def _clear(self) -> None:
        """Start empty; a derived class makes its own parts after this."""
        self._table = QueryTable(self._space, self._metric, self._shape)
        self._expiry = Expiry()

    def _file(self, queries: QueryBatch, slots: Slots) -> None:
        """Take in queries whose rows are filled."""
        raise NotImplementedError

    def _unfile(self, slots: Slots) -> Slots:
        """Remove queries before their rows die; return the slots that nothing refers to any more."""
        raise NotImplementedError

    def _rebuild(self) -> None:
        """Start afresh with the queries that are left, so that memory returns."""
        left, asleep = self._table.batch(np.sort(self._table.roster.held())), self.asleep()
        self._clear()
        self._admit_all(left)
        self.hush(asleep)

    def __len__(self) -> int:
        return len(self._table)

    def __contains__(self, number: int) -> bool:
        return bool(self._table.roster.find(np.array([number], np.int64))[0] >= 0)

    def holds(self, numbers: Ints) -> NDArray[np.bool_]:
        """Tell of each number whether it is held."""
        return self._table.roster.holds(plain(numbers, np.int64))

    def numbers(self) -> Ints:
        """Return the numbers of all queries held, in ascending order."""
        return np.sort(self._table.roster.numbers_of(self._table.roster.held()))

    def insert(self, queries: QueryBatch) -> None:
        """Add registrations."""
        if not len(queries):
            return
        queries = plain_queries(queries)
        self._check(queries)
        self._admit_all(queries)

    def _check(self, queries: QueryBatch) -> None:
        """Raise `InputError` for the first row that cannot be held."""
        check_registrations(queries, self._table.roster)

    def _admit_all(self, queries: QueryBatch) -> None:
        if 0 < len(queries) <= CHUNK:
            self._admit(queries)
            return
        for start in range(0, len(queries), CHUNK):
            self._admit(plain_queries(queries.slice(start, start + CHUNK)))

    def _admit(self, queries: QueryBatch) -> None:
        self._file(queries, self._table.admit(queries))
        self._expiry.note(queries.number, queries.end)

    def remove(self, numbers: Ints) -> int:
        """Drop queries at once."""
        slots = self._table.roster.withdraw(plain(numbers, np.int64))
        self._drop(slots)
        return len(slots)

    def _drop(self, slots: Slots) -> None:
        """Remove queries that the roster has withdrawn."""
        if not len(slots):
            return
        reusable = self._unfile(slots)
        self._table.drop(slots)
        self._table.recycle(reusable)
        if self._table.roster.top > SPARSE * len(self._table) + SMALLEST_REBUILD:
            self._rebuild()

    def hush(self, numbers: Ints) -> int:
        """Let queries match nothing until they are woken up."""
        slots = self._found(numbers)
        self._table.hush(slots)
        return len(slots)

    def wake(self, numbers: Ints) -> int:
        """Let queries match again."""
        slots = self._found(numbers)
        self._table.wake(slots)
        return len(slots)

    def _found(self, numbers: Ints) -> Slots:
        """Return the slots of those of these queries that are held, each once."""
        slots = self._table.roster.find(plain(numbers, np.int64))
        return distinct(slots[slots >= 0])

    def slots(self, numbers: Ints) -> Slots:
        """Return the slots of queries that are held: small numbers, which are used again after `remove`."""
        slots = self._table.roster.find(plain(numbers, np.int64))
        if len(slots) and slots.min() < 0:
            raise InputError(f"query {numbers[int(slots.argmin())]} is not held; ask `holds` first")
        return slots

    def numbers_of(self, slots: Slots) -> Ints:
        """Return the numbers of slots."""
        return self._table.roster.numbers_of(slots)

    def k_of(self, slots: Slots) -> Slots:
        """Return how many results the queries of slots want."""
        return self._table.k_of(slots)

    def detects(self, numbers: Ints) -> NDArray[np.uint8]:
        """Return the bits of what queries that are held detect; numbers may be named several times."""
        return self._table.detects_of(self.slots(numbers))

    def ends_of(self, slots: Slots) -> Ints:
        """Return the ends of the queries of slots."""
        return self._table.roster.ends_of(slots)

    def starts_of(self, slots: Slots) -> Ints:
        """Return the times from which on the queries of slots live."""
        return self._table.roster.starts_of(slots)

    def asleep(self) -> Ints:
        """Return the numbers of the queries that are asleep, in ascending order."""
        return np.sort(self._table.roster.numbers_of(self._table.asleep()))

    def set_end(self, numbers: Ints, ends: Ints) -> int:
        """Lower the ends of queries."""
        roster = self._table.roster
        numbers, ends = plain(numbers, np.int64), plain(ends, np.int64)
        slots = roster.find(numbers)
        held = np.flatnonzero(slots >= 0)
        # The largest end first, so that of several ends for one query the smallest stays.
        held = held[np.argsort(-ends[held], kind="stable")]
        slots, ends = slots[held], ends[held]
        lower = ends < roster.ends_of(slots)
        roster.set_ends(slots[lower], ends[lower])
        self._expiry.note(numbers[held][lower], ends[lower])
        return len(distinct(slots))

    def ended(self, now: int) -> Ints:
        """Return the numbers of the queries with end <= now, which the caller is to remove."""
        roster = self._table.roster
        if not roster.may_end(now):
            return np.empty(0, np.int64)
        slots = roster.find(self._expiry.ended(now, roster))
        slots = distinct(slots[slots >= 0])
        return roster.numbers_of(slots[roster.ends_of(slots) <= now])

    def expire(self, now: int) -> Ints:
        """Drop every query with end <= now."""
        numbers = self.ended(now)
        self._drop(self._table.roster.withdraw(numbers))
        return numbers

    def queries(self, numbers: Ints) -> QueryBatch:
        """Return those of these queries that are held, in this order."""
        slots = self._table.roster.find(plain(numbers, np.int64))
        return self._table.batch(slots[slots >= 0])

    def touching(self, boxes: Floats) -> Ints:
        """Return the numbers of the queries that touch any of some closed boxes, in ascending order."""
        held = self._table.roster.held()
        slots = [held[:0]]
        for start in range(0, len(held), CHUNK):
            part = held[start : start + CHUNK]
            slots.append(part[_touching(self._table.bounds(part), boxes)])
        return np.sort(self._table.roster.numbers_of(np.concatenate(slots)))


_PLAIN_COLUMNS = ("number", "ts", "end", "match_any", "region", "shape", "kw_off", "kw")

_RAGGED_COLUMNS = tuple(name for off, names in RESIDUALS for name in (off, *names))

#: The columns of queries that a snapshot has; a rare one is empty where all values are the usual one.
SAVED_COLUMNS = (*_PLAIN_COLUMNS, *RARE_COLUMNS, *_RAGGED_COLUMNS)


def saved_columns(queries: QueryBatch) -> dict[str, NDArray[Any]]:
    """Return queries as a snapshot has them; their identifiers stay with the owner of the index."""
    ragged: dict[str, NDArray[Any]] = {}
    for off, names in RESIDUALS:
        ragged[off] = getattr(queries, off) if getattr(queries, off)[-1] else getattr(queries, off)[:0]
        ragged |= {name: getattr(queries, name) for name in names}
    return {name: getattr(queries, name) for name in _PLAIN_COLUMNS} | saved_rare(queries) | ragged


def registrations(columns: Mapping[str, NDArray[Any]]) -> QueryBatch:
    """Return the queries of a snapshot, of which it may have been given more; their ids are their numbers."""
    numbers = columns["number"]
    plain_ones = {name: columns[name] for name in (*_PLAIN_COLUMNS, *_RAGGED_COLUMNS)}
    return QueryBatch(
        **plain_ones, **whole_rare(columns, len(numbers)), target=numbers,
        op=np.full(len(numbers), OP_REGISTER, np.uint8), ids=Ids("int", numbers),
    )  # fmt: skip


def finite_places(x: Floats, y: Floats) -> None:
    """Raise `InputError` for the first place that is not finite, if there is one; a sum that is finite has none."""
    if np.isfinite(float(x.sum()) + float(y.sum())):
        return
    wrong = np.flatnonzero(~(np.isfinite(x) & np.isfinite(y)))
    if len(wrong):
        row = int(wrong[0])
        raise InputError(f"object {row} of the batch is at ({x[row]}, {y[row]}); reject it where it is read")


def plain(array: NDArray[Any], dtype: type[np.generic]) -> NDArray[Any]:
    """Return an array of the one type that the kernels are compiled for: contiguous and writable.

    Arrays that look into a message are neither always, and numba would compile every kernel anew for them.
    """
    if array.dtype == dtype and array.flags.carray:
        return array
    return np.require(array, dtype, ["C", "A", "W"])


def plain_queries(queries: QueryBatch) -> QueryBatch:
    """Return queries whose columns are plain."""
    for name, dtype in _KERNEL_DTYPES.items():
        column = getattr(queries, name)
        if column.dtype != dtype or not column.flags.carray:
            columns: dict[str, Any] = {name: plain(getattr(queries, name), one) for name, one in _KERNEL_TYPES.items()}
            return replace(queries, **columns)
    return queries


_KERNEL_TYPES: dict[str, type[np.generic]] = {
    "number": np.int64, "op": np.uint8, "ts": np.int64, "end": np.int64, "match_any": np.bool_, "region": np.uint8,
    "shape": np.float64, "kw_off": np.int32, "kw": np.int64, "none_off": np.int32, "none": np.int64, "ring_off": np.int32,
    "ring_x": np.float64, "ring_y": np.float64, "ring_mark": np.uint8,
}  # fmt: skip

#: The same, as what is compared fast.
_KERNEL_DTYPES = {name: np.dtype(one) for name, one in _KERNEL_TYPES.items()}


def _touching(bounds: Floats, boxes: Floats) -> NDArray[np.bool_]:
    """Tell of each of some bounds, which are not none, whether they touch any box; boxes far from all are not looked at."""
    low_x, low_y, high_x, high_y = (np.ascontiguousarray(edge) for edge in bounds.T)
    near = (boxes[:, 0] <= high_x.max()) & (boxes[:, 2] >= low_x.min())
    near &= (boxes[:, 1] <= high_y.max()) & (boxes[:, 3] >= low_y.min())
    found = np.zeros(len(bounds), np.bool_)
    for first_x, first_y, last_x, last_y in boxes[near].tolist():
        found |= (low_x <= last_x) & (high_x >= first_x) & (low_y <= last_y) & (high_y >= first_y)
    return found
