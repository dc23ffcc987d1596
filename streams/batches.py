"""What flows: batches of objects, query operations, results and plain tuples, as columns.

All batches are immutable values; their arrays are shared, never written to. Keyword columns are ragged (CSR: offsets
and values), the keyword ids of a row ascending and distinct.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from streams.columns import Ids, Ints, Offsets
from streams.residual_columns import RESIDUALS, fill_residuals, no_floats, no_ints, no_marks, no_offsets
from streams.result_batches import (
    AnswerBatch,
    CountBatch,
    CrossingBatch,
    EventBatch,
    HitBatch,
    MatchBatch,
    PrintBatch,
    RankedBatch,
)
from streams.row_columns import RowColumns

__all__ = [
    "DETECTS",
    "DETECT_ENTER",
    "DETECT_EXIT",
    "DETECT_INSIDE",
    "FOREVER",
    "NO_WINDOW",
    "OP_DELETE",
    "OP_REGISTER",
    "OP_UNREGISTER",
    "OP_UPSERT",
    "QUERY_TYPES",
    "TYPE_KNN",
    "TYPE_RANGE",
    "TYPE_TERMS",
    "TYPE_TOPK",
    "AnswerBatch",
    "Batch",
    "CountBatch",
    "CrossingBatch",
    "EventBatch",
    "HitBatch",
    "MatchBatch",
    "ObjectBatch",
    "PrintBatch",
    "QueryBatch",
    "RankedBatch",
    "RejectBatch",
    "TupleBatch",
    "batch_fields",
    "tuple_rows",
]

Floats = NDArray[np.float64]
Bytes = NDArray[np.uint8]
Flags = NDArray[np.bool_]

#: Operations on objects and on queries.
OP_UPSERT, OP_DELETE = 0, 1
OP_REGISTER, OP_UNREGISTER = 0, 1

#: Query types, by place in `QUERY_TYPES`.
TYPE_RANGE, TYPE_KNN, TYPE_TOPK, TYPE_TERMS = 0, 1, 2, 3
QUERY_TYPES = ("range", "knn", "topk", "terms")

#: What a fence may report of an object, in words and as bits of `QueryBatch.detect`: the word at place i is bit 1 << i.
DETECTS = ("enter", "exit", "inside")
DETECT_ENTER, DETECT_EXIT, DETECT_INSIDE = 1, 2, 4

#: The end of a query that has none, and the window of one that looks at everything so far.
FOREVER = np.iinfo(np.int64).max
NO_WINDOW = -1


@dataclass(frozen=True, slots=True, eq=False)
class ObjectBatch(RowColumns):
    """Objects: `seq` is the place in the input order, `op` is `OP_UPSERT` or `OP_DELETE`."""

    RAGGED = (("kw_off", ("kw",)),)

    seq: Ints
    ts: Ints
    x: Floats
    y: Floats
    op: Bytes
    kw_off: Offsets
    kw: Ints
    ids: Ids

    @classmethod
    @cache
    def empty(cls) -> "ObjectBatch":
        """Return a batch of no objects."""
        ints, floats = np.empty(0, np.int64), np.empty(0, np.float64)
        return cls(ints, ints, floats, floats, np.empty(0, np.uint8), np.zeros(1, np.int32), ints, Ids("int", ints))


@dataclass(frozen=True, slots=True, eq=False)
class QueryBatch(RowColumns):
    """Query operations.

    `number` is the place of the operation in the query input and names the query from there on: an unregistration
    carries the number of the registration that it ends in `target` (a registration has its own number there), so
    nothing downstream looks up identifiers. `end` is exclusive: ts + ttl or `FOREVER` for a registration, the
    operation's own time for an unregistration. Regions are as `streams.geometry` says; `knn` and `topk` have their
    place in the first two numbers of `shape`. `window` is `NO_WINDOW` and `slide` 0 where the query has none. `detect` has the
    bits of what a fence reports; 0: the query is none. `none` are the keywords that objects must not have, and the columns of
    rings those of polygons, as `streams.polygon_kernels` says; both may be left out where no query of the batch has any.
    """

    RAGGED = (("kw_off", ("kw",)), *RESIDUALS)

    number: Ints
    target: Ints
    op: Bytes
    ts: Ints
    end: Ints
    type: Bytes
    continuous: Flags
    match_any: Flags
    region: Bytes
    shape: Floats
    k: NDArray[np.int32]
    alpha: Floats
    window: Ints
    slide: Ints
    detect: Bytes
    kw_off: Offsets
    kw: Ints
    ids: Ids
    none_off: Offsets = field(default_factory=no_offsets)
    none: Ints = field(default_factory=no_ints)
    ring_off: Offsets = field(default_factory=no_offsets)
    ring_x: Floats = field(default_factory=no_floats)
    ring_y: Floats = field(default_factory=no_floats)
    ring_mark: Bytes = field(default_factory=no_marks)

    def __post_init__(self) -> None:
        fill_residuals(self)

    @property
    def at_instants(self) -> Flags:
        """Which are answered at instants: a snapshot once, a continuous `terms` query at every slide."""
        return np.asarray(~self.continuous | (self.type == TYPE_TERMS), np.bool_)

    @classmethod
    @cache
    def empty(cls) -> "QueryBatch":
        """Return a batch of no operations."""
        i8, f8, u1, b1 = np.empty(0, np.int64), np.empty(0), np.empty(0, np.uint8), np.empty(0, np.bool_)
        return cls(
            number=i8, target=i8, op=u1, ts=i8, end=i8, type=u1, continuous=b1, match_any=b1, region=u1,
            shape=np.empty((0, 4)), k=np.empty(0, np.int32), alpha=f8, window=i8, slide=i8, detect=u1,
            kw_off=np.zeros(1, np.int32), kw=i8, ids=Ids("int", i8),
        )  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class RejectBatch(RowColumns):
    """Records that could not be used: where they stood and why."""

    source: Ids
    line: Ints
    reason: Ids

    @classmethod
    @cache
    def empty(cls) -> "RejectBatch":
        """Return a batch of no rejects."""
        none = pa.array([], pa.string())
        return cls(Ids("text", none), np.empty(0, np.int64), Ids("text", none))

    @classmethod
    def of(cls, source: str, lines: Sequence[int] | Ints, reasons: Sequence[str]) -> "RejectBatch":
        """Make a batch of rejects of one file."""
        if not len(lines):
            return cls.empty()
        return cls(
            Ids("text", pa.repeat(pa.scalar(source, pa.string()), len(lines))),
            np.array(lines, np.int64),
            Ids("text", pa.array(reasons, pa.string())),
        )


#: What a value of a tuple may be: all of it can be packed, on every runtime.
_SENDABLE = (int, float, str, bytes, list, tuple, dict, type(None))


@dataclass(frozen=True, slots=True, eq=False)
class TupleBatch:
    """Plain tuples of named fields, as Storm has them.

    A column is a numpy array (numbers), an `Ids` (strings) or a list of values that msgpack knows.
    """

    fields: tuple[str, ...]
    columns: tuple[Any, ...]

    @classmethod
    def of(cls, names: Sequence[str], rows: Sequence[Sequence[Any]]) -> "TupleBatch":
        """Make columns of rows of values."""
        turned = list(zip(*rows, strict=True)) if rows else [() for _ in names]
        for place, (name, values) in enumerate(zip(names, turned, strict=True)):
            kinds = {type(value) for value in values}
            if any(issubclass(kind, np.generic) for kind in kinds):
                turned[place] = tuple(value.item() if isinstance(value, np.generic) else value for value in values)
            elif strange := [kind.__name__ for kind in kinds if not issubclass(kind, _SENDABLE)]:
                raise TypeError(
                    f"field '{name}' has a value of type {min(strange)}, which cannot be sent to another process; use "
                    "numbers, strings, lists or dictionaries"
                )
        return cls(tuple(names), tuple(_column(values) for values in turned))

    def __len__(self) -> int:
        return len(self.columns[0]) if self.columns else 0

    def column(self, name: str) -> Any:
        """Return the column of a field."""
        return self.columns[self.fields.index(name)]

    def rows(self) -> list[tuple[Any, ...]]:
        """Return the tuples as Python values."""
        lists = [c.to_list() if isinstance(c, Ids) else c if isinstance(c, list) else c.tolist() for c in self.columns]
        return list(zip(*lists, strict=True))

    def take(self, rows: NDArray[np.integer]) -> "TupleBatch":
        """Return a batch of these rows, in this order."""
        return TupleBatch(self.fields, tuple(_take(column, rows) for column in self.columns))

    def slice(self, start: int, stop: int) -> "TupleBatch":
        """Return rows start to stop."""
        return TupleBatch(
            self.fields,
            tuple(c.slice(start, stop) if isinstance(c, Ids) else c[start:stop] for c in self.columns),
        )

    @classmethod
    def concat(cls, parts: Sequence["TupleBatch"]) -> "TupleBatch":
        """Put batches of the same fields one after the other; there must be at least one."""
        parts = [part for part in parts if len(part)] or list(parts[:1])
        if len(parts) == 1:
            return parts[0]
        columns = zip(*(part.columns for part in parts), strict=True)
        return cls(parts[0].fields, tuple(_joined(list(same)) for same in columns))


Batch = (
    ObjectBatch
    | QueryBatch
    | HitBatch
    | CrossingBatch
    | RankedBatch
    | PrintBatch
    | MatchBatch
    | EventBatch
    | AnswerBatch
    | CountBatch
    | RejectBatch
    | TupleBatch
)


def batch_fields(cls: type[RowColumns]) -> tuple[str, ...]:
    """Return the fields that a stream of such batches has: its columns without the offsets of ragged ones."""
    offsets = {off for off, _ in cls.RAGGED}
    return tuple(f.name for f in fields(cls) if f.name not in offsets)  # type: ignore[arg-type]


def tuple_rows(batch: Batch) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
    """Return field names and rows of Python values; a ragged column gives a list in each row."""
    if isinstance(batch, TupleBatch):
        return batch.fields, batch.rows()
    names = batch_fields(type(batch))
    offsets = {value: getattr(batch, off) for off, values in batch.RAGGED for value in values}
    columns = []
    for name in names:
        values = _values(getattr(batch, name))
        if name in offsets:
            cuts = offsets[name].tolist()
            values = [values[a:b] for a, b in itertools.pairwise(cuts)]
        columns.append(values)
    return names, list(zip(*columns, strict=True))


def _column(values: Sequence[Any]) -> Any:
    """Pick the most compact column that gives these very values back."""
    kinds = {type(value) for value in values}
    if kinds == {int} and all(-(2**63) <= v < 2**63 for v in values):
        return np.array(values, np.int64)
    if kinds == {float}:
        return np.array(values, np.float64)
    if kinds == {bool}:
        return np.array(values, np.bool_)
    if kinds == {str}:
        return Ids.of(values)
    return list(values)


def _take(column: Any, rows: NDArray[np.integer]) -> Any:
    if isinstance(column, Ids):
        return column.take(rows)
    return [column[row] for row in rows.tolist()] if isinstance(column, list) else column[rows]


def _joined(columns: list[Any]) -> Any:
    if len({(type(c), getattr(c, "dtype", None)) for c in columns}) > 1:
        return _column([value for c in columns for value in (c if isinstance(c, list) else _values(c))])
    if isinstance(columns[0], Ids):
        return Ids.concat(columns)
    return [value for c in columns for value in c] if isinstance(columns[0], list) else np.concatenate(columns)


def _values(column: Any) -> list[Any]:
    values: list[Any] = column.to_list() if isinstance(column, Ids) else column.tolist()
    return values
