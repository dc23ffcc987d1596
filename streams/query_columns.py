"""Query operations from JSON lines, a column at a time.

The columns vouch for a record or they do not: whatever is not plainly valid here is read again on its own by
`streams.query_records`, which finds the reason or finds it valid after all. So there is one definition of what is
valid, and one place where reasons are made.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from streams.batches import (
    FOREVER,
    NO_WINDOW,
    OP_REGISTER,
    OP_UNREGISTER,
    QUERY_TYPES,
    TYPE_KNN,
    TYPE_RANGE,
    TYPE_TERMS,
    TYPE_TOPK,
    QueryBatch,
)
from streams.columns import Ids, Ints
from streams.faults import Faults
from streams.file_blocks import RecordBlock
from streams.geometry import REGION_CIRCLE, REGION_NONE, REGION_RECT
from streams.json_blocks import first_types, load_line, parse_run, parse_runs
from streams.query_records import MAX_K, QueryRecord, QueryRules, read_query
from streams.timestamps import MAX_TS, read_times
from streams.vocabulary import Encoder

__all__ = ["QueryColumns", "json_queries"]

Flags = NDArray[np.bool_]
Floats = NDArray[np.float64]

_SCHEMA = {
    "op": pa.string(),
    "id": pa.string(),
    "ts": pa.int64(),
    "type": pa.string(),
    "continuous": pa.bool_(),
    "ttl": pa.int64(),
    "keywords": pa.list_(pa.string()),
    "match": pa.string(),
    "region": pa.struct([("rect", pa.list_(pa.float64())), ("circle", pa.list_(pa.float64()))]),
    "at": pa.list_(pa.float64()),
    "k": pa.int64(),
    "alpha": pa.float64(),
    "window": pa.int64(),
    "slide": pa.int64(),
}
_TYPES, _MATCHES, _OPS = (pa.array(names) for names in (QUERY_TYPES, ("all", "any"), ("register", "unregister")))
_UNSET = -1


@dataclass(frozen=True, slots=True, eq=False)
class QueryColumns:
    """Operations of a block: the valid ones, each with its row as `number` (and `target`), and what is wrong with the rest."""

    batch: QueryBatch
    faults: Faults


def json_queries(block: RecordBlock, rules: QueryRules, encoder: Encoder, line_bytes: int) -> QueryColumns:
    """Read a block of lines."""
    parts = parse_runs(
        block,
        lambda first, stop: _fast(block, first, stop, rules, encoder),
        lambda first, stop: _exact(block, np.arange(first, stop), rules, encoder, line_bytes),
        strict=True,
    )
    if len(parts) == 1:
        return parts[0]
    batch = QueryBatch.concat([part.batch for part in parts])
    return QueryColumns(batch, Faults.concat([part.faults for part in parts]))


def _exact(block: RecordBlock, rows: Ints, rules: QueryRules, encoder: Encoder, line_bytes: int) -> QueryColumns:
    """Read these rows one at a time."""
    faults = Faults(len(rows))
    good: list[tuple[int, QueryRecord]] = []
    for place, row in enumerate(rows.tolist()):
        if block.too_long[row]:
            faults.note_row(place, f"a line of {block.size[row]} bytes, longer than the limit of {line_bytes}")
            continue
        record = load_line(block.record(row))
        query = record if isinstance(record, str) else read_query(record, rules)
        if isinstance(query, str):
            faults.note_row(place, query)
        else:
            good.append((row, query))
    return QueryColumns(_batch(good, encoder), faults)


def _batch(good: list[tuple[int, QueryRecord]], encoder: Encoder) -> QueryBatch:
    queries = [query for _, query in good]
    kw_off, kw = encoder.lists(pa.array([query.keywords for query in queries], pa.list_(pa.string())))

    def column(name: str, kind: Any) -> Any:
        return np.array([getattr(query, name) for query in queries], kind)

    number = np.array([row for row, _ in good], np.int64)
    return QueryBatch(
        number=number, target=number, op=column("op", np.uint8), ts=column("ts", np.int64),
        end=column("end", np.int64), type=column("type", np.uint8), continuous=column("continuous", np.bool_),
        match_any=column("match_any", np.bool_), region=column("region", np.uint8),
        shape=column("shape", np.float64).reshape(-1, 4), k=column("k", np.int32), alpha=column("alpha", np.float64),
        window=column("window", np.int64), slide=column("slide", np.int64), kw_off=kw_off, kw=kw,
        ids=Ids.of([query.id for query in queries]),
    )  # fmt: skip


def _fast(block: RecordBlock, first: int, stop: int, rules: QueryRules, encoder: Encoder) -> QueryColumns | None:
    """Read a run of lines as columns, and the lines that these cannot vouch for on their own."""
    schema = pa.schema({**_SCHEMA, **first_types(block, first, ("id", "ts"))})
    table = parse_run(block, first, stop, schema, strict=True)
    if table is None:
        return None
    columns = _Columns(table, rules)
    vouched = columns.vouched()
    rows = np.flatnonzero(vouched)
    batch = columns.batch(rows, first, encoder)
    faults = Faults(stop - first)
    if len(rows) < stop - first:
        doubtful = np.flatnonzero(~vouched)
        rest = _exact(block, doubtful + first, rules, encoder, 0)
        for place, reason in rest.faults.reasons.items():
            faults.note_row(int(doubtful[place]), reason)
        batch = QueryBatch.concat([batch, rest.batch])
        batch = batch.take(np.argsort(batch.number, kind="stable"))
    return QueryColumns(batch, faults)


class _Columns:
    """The parsed columns of a run, as arrays; what a record does not say is NaN, `_UNSET` or false."""

    def __init__(self, table: pa.Table, rules: QueryRules) -> None:
        column = {name: table.column(name).combine_chunks() for name in _SCHEMA}
        self._rules = rules
        self._ids = column["id"]
        self._words = column["keywords"]
        self._given = {name: _flags(values.is_valid()) for name, values in column.items()}
        self._op, self._type = _places(column["op"], _OPS), _places(column["type"], _TYPES)
        self._match = _places(column["match"], _MATCHES)
        self._ts, self._ts_fine = _times(column["ts"])
        self._continuous = _flags(column["continuous"].fill_null(True))
        self._k, self._ttl, self._window, self._slide = (
            np.asarray(column[name].fill_null(0).to_numpy()) for name in ("k", "ttl", "window", "slide")
        )
        self._alpha = _floats(column["alpha"])
        region = column["region"]
        self._at, self._at_size = _lists(column["at"], 2)
        self._rect, self._rect_size = _lists(region.field("rect"), 4, region)
        self._circle, self._circle_size = _lists(region.field("circle"), 3, region)

    def vouched(self) -> Flags:
        """Tell which rows are plainly valid operations."""
        given = self._given
        fine = given["id"] & self._ts_fine & (self._op >= 0)
        if pa.types.is_string(self._ids.type):
            fine &= _flags(pc.not_equal(pc.binary_length(self._ids), 0).fill_null(False))
        bare = ~np.logical_or.reduce([given[name] for name in _SCHEMA if name not in ("op", "id", "ts")])
        register = (self._type >= 0) & self._life_fine() & self._place_fine() & self._result_fine() & self._words_fine()
        return fine & np.where(self._op == OP_UNREGISTER, bare, register)

    def _life_fine(self) -> Flags:
        given, snapshot = self._given, ~self._continuous
        terms, topk = self._type == TYPE_TERMS, self._type == TYPE_TOPK
        steady = terms & ~snapshot
        window_allowed = terms | (snapshot & ((self._type == TYPE_RANGE) | (self._type == TYPE_KNN)))
        fine: Flags = (
            _duration_fine(self._ttl, given["ttl"], ~snapshot)
            & _duration_fine(self._window, given["window"], window_allowed)
            & _duration_fine(self._slide, given["slide"], steady)
            & (~steady | (given["window"] & given["slide"]))
            & ~(topk & snapshot)
        )
        return fine

    def _place_fine(self) -> Flags:
        given, space = self._given, self._rules.space
        placed = (self._type == TYPE_KNN) | (self._type == TYPE_TOPK)
        at_fine = (self._at_size == 2) & ~given["region"] & space.contains(self._at[:, 0], self._at[:, 1])
        a, b, c, d = self._rect.T
        rect_fine = (self._rect_size == 4) & np.isfinite(self._rect).all(axis=1) & (a <= c) & (b <= d)
        circle_fine = (self._circle_size == 3) & np.isfinite(self._circle).all(axis=1) & (self._circle[:, 2] >= 0)
        if self._rules.metric == "haversine":
            circle_fine &= (np.abs(self._circle[:, 0]) <= 180) & (np.abs(self._circle[:, 1]) <= 90)
        one = np.where(self._rect_size == _UNSET, circle_fine, rect_fine & (self._circle_size == _UNSET))
        return np.asarray(np.where(placed, at_fine, one & ~given["at"]))

    def _result_fine(self) -> Flags:
        given, topk = self._given, self._type == TYPE_TOPK
        k_fine = np.where(self._type == TYPE_RANGE, ~given["k"], (self._k >= 1) & (self._k <= MAX_K))
        alpha_fine = np.where(topk, (self._alpha >= 0) & (self._alpha <= 1), ~given["alpha"])
        match_fine = ~given["match"] | ((self._match >= 0) & ~(topk & (self._match == 0)))
        return np.asarray(k_fine & alpha_fine & match_fine)

    def _words_fine(self) -> Flags:
        sizes = self._words.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
        fine = (sizes <= self._rules.most_keywords) & ((self._type != TYPE_TOPK) | (sizes > 0))
        words = self._words.flatten()
        empty = _flags(pc.equal(pc.binary_length(words), 0).fill_null(True))
        if empty.any():
            fine[pc.list_parent_indices(self._words).to_numpy()[empty]] = False
        return np.asarray(fine)

    def batch(self, rows: Ints, first: int, encoder: Encoder) -> QueryBatch:
        """Return the operations of vouched rows."""
        op, ts, continuous = self._op[rows], self._ts[rows], self._continuous[rows]
        register, given = op == OP_REGISTER, self._given
        end = np.where(given["ttl"][rows], ts + self._ttl[rows], FOREVER)
        end = np.where(register, np.where(continuous, end, ts + 1), ts)
        rect, circle = self._rect_size[rows] != _UNSET, self._circle_size[rows] != _UNSET
        shape = np.zeros((len(rows), 4))
        shape[:, :2] = np.where(given["at"][rows, None], self._at[rows], 0.0)
        shape[:, :3] = np.where(circle[:, None], self._circle[rows], shape[:, :3])
        shape = np.where(rect[:, None], self._rect[rows], shape)
        places = pa.array(rows)
        kw_off, kw = encoder.lists(self._words.take(places))
        type_ = np.where(register, self._type[rows], 0).astype(np.uint8)
        ids = self._ids.take(places)
        text = pa.types.is_string(ids.type)
        return QueryBatch(
            number=rows + first, target=rows + first, op=op.astype(np.uint8), ts=ts, end=end, type=type_,
            continuous=continuous, match_any=(self._match[rows] == 1) | (register & (type_ == TYPE_TOPK)),
            region=np.where(rect, REGION_RECT, np.where(circle, REGION_CIRCLE, REGION_NONE)).astype(np.uint8),
            shape=shape, k=self._k[rows].astype(np.int32), alpha=np.where(given["alpha"], self._alpha, 0.0)[rows],
            window=np.where(given["window"], self._window, NO_WINDOW)[rows], slide=self._slide[rows],
            kw_off=kw_off, kw=kw, ids=Ids("text", ids) if text else Ids("int", np.asarray(ids.to_numpy())),
        )  # fmt: skip


def _flags(column: Any) -> Flags:
    return np.asarray(column.to_numpy(zero_copy_only=False), np.bool_)


def _floats(column: Any) -> Floats:
    return np.asarray(column.to_numpy(zero_copy_only=False), np.float64)


def _places(column: Any, known: Any) -> NDArray[np.int32]:
    """Return the place of each value among the known ones, `_UNSET` for any other."""
    return np.asarray(pc.index_in(column, known).fill_null(_UNSET).to_numpy())


def _times(column: Any) -> tuple[Ints, Flags]:
    if pa.types.is_string(column.type):
        return read_times(column)
    ts = np.asarray(column.fill_null(0).to_numpy())
    return ts, _flags(column.is_valid()) & (ts > -MAX_TS) & (ts < MAX_TS)


def _duration_fine(value: Ints, given: Flags, allowed: Flags) -> Flags:
    return ~given | (allowed & (value > 0) & (value < MAX_TS))


def _lists(column: Any, width: int, inside: Any = None) -> tuple[Floats, Ints]:
    """Return the numbers of lists of this width (NaN in all others), and the length of each list, `_UNSET` for none."""
    valid = column.is_valid() if inside is None else pc.and_(column.is_valid(), inside.is_valid())
    sizes = np.where(_flags(valid), column.value_lengths().fill_null(0).to_numpy(zero_copy_only=False), _UNSET)
    numbers = np.full((len(column), width), np.nan)
    rows = np.flatnonzero(sizes == width)
    if len(rows):
        flat = _floats(column.filter(pa.array(sizes == width)).flatten())
        numbers[rows] = flat.reshape(-1, width)
    return numbers, sizes
