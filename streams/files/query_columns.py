"""Query operations from JSON lines, a column at a time.

The columns vouch for a record or they do not: whatever is not plainly valid here is read again on its own by
`streams.files.query_records`, which finds the reason or finds it valid after all. So there is one definition of what is
valid, and one place where reasons are made.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from streams.batches import (
    DETECTS,
    FOREVER,
    NO_WINDOW,
    OP_REGISTER,
    OP_UNREGISTER,
    TYPE_KNN,
    TYPE_RANGE,
    TYPE_TERMS,
    TYPE_TOPK,
    QueryBatch,
)
from streams.columns import Ids, Ints
from streams.files.file_blocks import RecordBlock
from streams.files.json_blocks import load_line
from streams.files.objections import Objections
from streams.files.query_lines import FIELDS, UNSET, QueryLines
from streams.files.query_records import MAX_K, QueryRecord, QueryRules, read_query
from streams.geometry import REGION_CIRCLE, REGION_NONE, REGION_RECT, max_distance
from streams.timestamps import MAX_TS
from streams.tokens import is_token
from streams.vocabulary import Encoder

__all__ = ["QueryColumns", "json_queries"]

#: So few operations, as one request brings them, are read on their own at once: columns cost more than they would save.
FEW_LINES = 2

Flags = NDArray[np.bool_]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class QueryColumns:
    """Operations of a block: the valid ones, each with its row as `number` (and `target`), and what is wrong with the rest."""

    batch: QueryBatch
    objections: Objections


def json_queries(block: RecordBlock, rules: QueryRules, encoder: Encoder, line_bytes: int) -> QueryColumns:
    """Read a block of lines: in columns, and those that the columns cannot vouch for on their own."""
    if len(block) <= FEW_LINES:
        return _exact(block, np.arange(len(block)), rules, encoder, line_bytes)
    columns = _Columns(QueryLines(block), rules)
    vouched = columns.vouched()
    batch = columns.batch(np.flatnonzero(vouched), encoder)
    if vouched.all():
        return QueryColumns(batch, Objections(len(block)))
    rest = _exact(block, np.flatnonzero(~vouched), rules, encoder, line_bytes)
    batch = QueryBatch.concat([batch, rest.batch])
    return QueryColumns(batch.take(np.argsort(batch.number, kind="stable")), rest.objections)


def _exact(block: RecordBlock, rows: Ints, rules: QueryRules, encoder: Encoder, line_bytes: int) -> QueryColumns:
    """Read these rows one at a time."""
    objections = Objections(len(block))
    good: list[tuple[int, QueryRecord]] = []
    for row in rows.tolist():
        if block.too_long[row]:
            objections.note_row(row, f"a line of {block.size[row]} bytes, longer than the limit of {line_bytes}")
            continue
        record = load_line(block.record(row), rules.text)
        query = record if isinstance(record, str) else read_query(record, rules)
        if isinstance(query, str):
            objections.note_row(row, query)
        else:
            good.append((row, query))
    return QueryColumns(_batch(good, encoder), objections)


def _batch(good: list[tuple[int, QueryRecord]], encoder: Encoder) -> QueryBatch:
    queries = [query for _, query in good]
    kw_off, kw = encoder.lists(pa.array([query.keywords for query in queries], pa.list_(pa.string())))
    none_off, none = encoder.lists(pa.array([query.none for query in queries], pa.list_(pa.string())))
    rings = [query.rings for query in queries]

    def column(name: str, kind: Any) -> Any:
        return np.array([getattr(query, name) for query in queries], kind)

    number = np.array([row for row, _ in good], np.int64)
    return QueryBatch(
        number=number, target=number, op=column("op", np.uint8), ts=column("ts", np.int64),
        end=column("end", np.int64), type=column("type", np.uint8), continuous=column("continuous", np.bool_),
        match_any=column("match_any", np.bool_), region=column("region", np.uint8),
        shape=column("shape", np.float64).reshape(-1, 4), k=column("k", np.int32), alpha=column("alpha", np.float64),
        window=column("window", np.int64), slide=column("slide", np.int64), detect=column("detect", np.uint8),
        kw_off=kw_off, kw=kw,
        ids=Ids.of([query.id for query in queries]), none_off=none_off, none=none,
        ring_off=np.cumsum([0] + [len(one.x) for one in rings]).astype(np.int32),
        ring_x=np.concatenate([np.empty(0), *(one.x for one in rings)]),
        ring_y=np.concatenate([np.empty(0), *(one.y for one in rings)]),
        ring_mark=np.concatenate([np.empty(0, np.uint8), *(one.mark for one in rings)]),
    )  # fmt: skip


class _Columns:
    """The fields of a block as arrays; what a line does not say is NaN, `UNSET`, 0 or the default."""

    def __init__(self, lines: QueryLines, rules: QueryRules) -> None:
        self._rules = rules
        self._lines = lines
        self._given = {name: lines.given(name) for name in FIELDS}
        self._op, self._type, self._match = (lines.choices(name) for name in ("op", "type", "match"))
        self._ts, self._ts_fine = lines.times()
        self._continuous = lines.flags("continuous", True)
        self._fits = lines.plain
        self._k, self._ttl, self._window, self._slide = (
            self._integers(name) for name in ("k", "ttl", "window", "slide")
        )
        self._alpha = lines.floats("alpha")
        self._words = lines.texts("keywords")
        self._detect, self._detect_fine = self._detects()
        self._at, self._at_size = lines.numbers("at", 2), lines.sizes("at")
        self._rect, self._rect_size = lines.numbers("rect", 4), lines.sizes("rect")
        self._circle, self._circle_size = lines.numbers("circle", 3), lines.sizes("circle")

    def __len__(self) -> int:
        return len(self._lines)

    def _integers(self, name: str) -> Ints:
        values, fits = self._lines.integers(name)
        self._fits = self._fits & fits
        return values

    def _detects(self) -> tuple[Ints, Flags]:
        """Return the bits of what each line wants detected, and where all of its words are known."""
        if not self._given["detect"].any():
            return np.zeros(len(self), np.int64), np.ones(len(self), np.bool_)
        listed = self._lines.texts("detect")
        row = pc.list_parent_indices(listed).to_numpy(zero_copy_only=False)
        place = pc.index_in(listed.values, pa.array(DETECTS)).fill_null(len(DETECTS)).to_numpy(zero_copy_only=False)
        bits = np.zeros(len(self), np.int64)
        np.bitwise_or.at(bits, row, 1 << place.astype(np.int64))
        return bits, np.asarray(~self._given["detect"] | ((bits > 0) & (bits < 1 << len(DETECTS))))

    def vouched(self) -> Flags:
        """Tell which rows are plainly valid operations."""
        given = self._given
        fine = self._fits & self._lines.named(self._rules.id_bytes) & self._ts_fine & (self._op >= 0)
        bare = ~np.logical_or.reduce([given[name] for name in FIELDS if name not in ("op", "id", "ts")])
        fences = ~given["detect"] | ((self._type == TYPE_RANGE) & self._continuous & self._detect_fine)
        register = (self._type >= 0) & self._life_fine() & self._place_fine() & self._result_fine() & self._words_fine()
        register &= fences
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
        else:
            circle_fine &= self._circle[:, 2] <= max_distance(space)
        rect_fine &= (a <= space.max_x) & (c >= space.min_x) & (b <= space.max_y) & (d >= space.min_y)
        # One whose centre is outside may still reach the space: it is looked at on its own.
        circle_fine &= space.contains(self._circle[:, 0], self._circle[:, 1])
        one = np.where(self._rect_size == UNSET, circle_fine, rect_fine & (self._circle_size == UNSET))
        return np.asarray(np.where(placed, at_fine, one & ~given["at"]))

    def _result_fine(self) -> Flags:
        given, topk = self._given, self._type == TYPE_TOPK
        k_fine = np.where(self._type == TYPE_RANGE, ~given["k"], (self._k >= 1) & (self._k <= MAX_K))
        alpha_fine = np.where(topk, (self._alpha >= 0) & (self._alpha <= 1), ~given["alpha"])
        match_fine = ~given["match"] | ((self._match >= 0) & ~(topk & (self._match == 0)))
        return np.asarray(k_fine & alpha_fine & match_fine)

    def _words_fine(self) -> Flags:
        sizes = self._lines.sizes("keywords")
        fine = (sizes <= self._rules.most_keywords) & ((self._type != TYPE_TOPK) | (sizes > 0))
        empty = pc.equal(pc.binary_length(self._words.values), 0).to_numpy(zero_copy_only=False)
        if empty.any():
            fine[pc.list_parent_indices(self._words).to_numpy()[empty]] = False
        if self._rules.tokenise and len(self._words.values):
            words = self._words.values.dictionary_encode()
            whole = np.fromiter(map(is_token, words.dictionary.to_pylist()), np.bool_, len(words.dictionary))
            if not whole.all():
                other = ~whole[words.indices.to_numpy(zero_copy_only=False)]
                fine[pc.list_parent_indices(self._words).to_numpy()[other]] = False
        return np.asarray(fine)

    def batch(self, rows: Ints, encoder: Encoder) -> QueryBatch:
        """Return the operations of vouched rows."""
        op, ts, continuous = self._op[rows], self._ts[rows], self._continuous[rows]
        register, given = op == OP_REGISTER, self._given
        end = np.where(given["ttl"][rows], ts + self._ttl[rows], FOREVER)
        end = np.where(register, np.where(continuous, end, ts + 1), ts)
        rect, circle = self._rect_size[rows] != UNSET, self._circle_size[rows] != UNSET
        shape = np.zeros((len(rows), 4))
        shape[:, :2] = np.where(given["at"][rows, None], self._at[rows], 0.0)
        shape[:, :3] = np.where(circle[:, None], self._circle[rows], shape[:, :3])
        shape = np.where(rect[:, None], self._rect[rows], shape)
        kw_off, kw = encoder.lists(self._words if len(rows) == len(self._words) else self._words.take(pa.array(rows)))
        type_ = np.where(register, self._type[rows], 0).astype(np.uint8)
        return QueryBatch(
            number=rows, target=rows, op=op.astype(np.uint8), ts=ts, end=end, type=type_, continuous=continuous,
            match_any=(self._match[rows] == 1) | (register & (type_ == TYPE_TOPK)),
            region=np.where(rect, REGION_RECT, np.where(circle, REGION_CIRCLE, REGION_NONE)).astype(np.uint8),
            shape=shape, k=self._k[rows].astype(np.int32), alpha=np.where(given["alpha"], self._alpha, 0.0)[rows],
            window=np.where(given["window"], self._window, NO_WINDOW)[rows], slide=self._slide[rows],
            detect=self._detect[rows].astype(np.uint8), kw_off=kw_off, kw=kw, ids=self._lines.ids(rows),
        )  # fmt: skip


def _duration_fine(value: Ints, given: Flags, allowed: Flags) -> Flags:
    return ~given | (allowed & (value > 0) & (value < MAX_TS))
