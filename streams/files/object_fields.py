"""The fields of objects, a column at a time: from Arrow columns, from the texts of CSV, from values of JSON lines.

A `Field` keeps apart what is missing, what is there but no value, and the values; what to make of it is decided in
`streams.files.object_columns`, for all formats alike.
"""

import contextlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from streams.batches import OP_DELETE, OP_UPSERT
from streams.columns import Ids
from streams.files.json_text import json_strings
from streams.timestamps import MAX_TS, PLAIN_TIMES, TimeForm, read_time, read_times, ticks_to_ms

__all__ = [
    "OPERATIONS",
    "UNSTAMPED",
    "Field",
    "id_field",
    "id_values",
    "number_field",
    "number_texts",
    "number_values",
    "operation_field",
    "pick",
    "row_field",
    "row_times",
    "stamped_field",
    "time_field",
    "time_values",
    "written_ids",
]

Flags = NDArray[np.bool_]

#: What `op` may say.
OPERATIONS = {"upsert": OP_UPSERT, "delete": OP_DELETE}

#: The time of a record that has none and is to get one.
UNSTAMPED = -MAX_TS

_INT64 = range(-(2**63), 2**63)
_NUMBER = re.compile(
    r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[+-]?(?:nan|inf|infinity)", re.I | re.ASCII
)
_WRITTEN_INTEGER = "^(0|-?[1-9][0-9]*)$"


@dataclass(frozen=True, slots=True, eq=False)
class Field:
    """One column: its values, the rows that have none, the rows where it is no value, and what was found there."""

    values: Any
    missing: Flags
    bad: Flags
    found: Callable[[int], Any]


def _flags(column: Any) -> Flags:
    return np.asarray(column.to_numpy(zero_copy_only=False), np.bool_)


def _none(rows: int) -> Flags:
    return np.zeros(rows, np.bool_)


def pick(first: Field, second: Field, use_first: Flags) -> Field:
    """Take each row from one of two columns."""
    return Field(
        np.where(use_first, first.values, second.values),
        np.where(use_first, first.missing, second.missing),
        np.where(use_first, first.bad, second.bad),
        lambda row: (first if use_first[row] else second).found(row),
    )


def stamped_field(field: Field) -> Field:
    """Give rows without a time one that no row can have itself, so that they are known again."""
    values = np.where(field.missing, UNSTAMPED, field.values)
    return Field(values, _none(len(values)), field.bad, field.found)


def row_field(rows: int) -> Field:
    """Return identifiers that are still to be given: every row has one."""
    return Field(Ids("int", np.zeros(rows, np.int64)), _none(rows), _none(rows), lambda row: row)


def row_times(rows: int) -> Field:
    """Return times that are still to be given: every row has one."""
    return Field(np.zeros(rows, np.int64), _none(rows), _none(rows), lambda row: row)


def id_field(column: Any) -> Field:
    """Read identifiers from an Arrow column of integers or strings; an empty string is none."""
    rows = len(column)
    if pa.types.is_string(column.type):
        missing = _flags(pc.equal(pc.binary_length(column), 0).fill_null(True))
        filled = column.fill_null("") if column.null_count else column
        return Field(Ids("text", filled), missing, _none(rows), lambda row: column[row].as_py())
    missing = _flags(column.is_null())
    filled = column.fill_null(0) if column.null_count else column
    if pa.types.is_uint64(column.type):
        return Field(Ids.of(filled.to_pylist()), missing, _none(rows), lambda row: column[row].as_py())
    ids = Ids("int", np.asarray(filled.cast(pa.int64()).to_numpy()))
    return Field(ids, missing, _none(rows), lambda row: column[row].as_py())


def written_ids(texts: Any) -> Field:
    """Read identifiers from texts: one that is written as an integer is that integer, "007" is a string."""
    missing = _flags(pc.equal(pc.binary_length(texts), 0))
    integer = pc.match_substring_regex(texts, _WRITTEN_INTEGER)
    among = pc.or_(integer, pa.array(missing))
    if pc.all(among, min_count=0).as_py():
        try:
            numbers = pc.if_else(integer, texts, "0").cast(pa.int64())
        except pa.ArrowInvalid:  # beyond 64 bits: kept as its JSON text, which is what is written
            return Field(Ids("json", pc.if_else(integer, texts, "0")), missing, _none(len(texts)), _nothing)
        return Field(Ids("int", np.asarray(numbers.to_numpy())), missing, _none(len(texts)), _nothing)
    if not pc.any(integer, min_count=0).as_py():
        return Field(Ids("text", texts), missing, _none(len(texts)), _nothing)
    return Field(Ids("json", pc.if_else(integer, texts, json_strings(texts))), missing, _none(len(texts)), _nothing)


def _nothing(_: int) -> None:
    return None


def id_values(values: Sequence[Any], is_text: Callable[[str], bool]) -> Field:
    """Read identifiers from JSON values."""
    kinds = set(map(type, values))
    if kinds == {int} and min(values) in _INT64 and max(values) in _INT64:
        return Field(Ids("int", np.array(values, np.int64)), _none(len(values)), _none(len(values)), _nothing)
    if kinds == {str} and all(values) and all(map(str.isascii, values)):
        return Field(Ids("text", pa.array(values, pa.string())), _none(len(values)), _none(len(values)), _nothing)
    missing = np.array([v is None or v == "" for v in values], np.bool_)
    good = [type(v) is int or (isinstance(v, str) and is_text(v)) for v in values]
    filler: int | str = "" if any(isinstance(v, str) for v in values) else 0
    ids = Ids.of([v if fine else filler for v, fine in zip(values, good, strict=True)])
    return Field(ids, missing, ~np.array(good, np.bool_) & ~missing, values.__getitem__)


def time_field(column: Any, form: TimeForm = PLAIN_TIMES) -> Field:
    """Read event times from an Arrow column of integers, or of strings."""
    missing = _flags(column.is_null())
    if pa.types.is_string(column.type) or form.pattern is not None:
        ts, readable = read_times(column.cast(pa.string()), form)
    else:
        ts = ticks_to_ms(np.asarray((column.fill_null(0) if column.null_count else column).to_numpy()), form.unit)
        readable = (ts > -MAX_TS) & (ts < MAX_TS)
    return Field(np.asarray(ts, np.int64), missing, ~readable & ~missing, lambda row: column[row].as_py())


def time_values(values: Sequence[Any], form: TimeForm = PLAIN_TIMES) -> Field:
    """Read event times from JSON values; seconds may have a fraction."""
    kinds = set(map(type, values))
    if kinds == {type(None)}:
        return Field(np.zeros(len(values), np.int64), ~_none(len(values)), _none(len(values)), _nothing)
    if kinds == {int} and min(values) in _INT64 and max(values) in _INT64 and form.pattern is None:
        ts = ticks_to_ms(np.array(values, np.int64), form.unit)
        return Field(ts, _none(len(ts)), (ts <= -MAX_TS) | (ts >= MAX_TS), values.__getitem__)
    numbers = (int, float) if form.unit == "s" else (int,)
    read = [
        read_time(repr(value), form) if type(value) in numbers
        else read_time(value, form) if isinstance(value, str) else None
        for value in values
    ]  # fmt: skip
    missing = np.array([value is None for value in values], np.bool_)
    bad = np.array([ts is None for ts in read], np.bool_) & ~missing
    return Field(np.array([ts or 0 for ts in read], np.int64), missing, bad, values.__getitem__)


def number_field(column: Any) -> Field:
    """Read numbers from an Arrow column of them; a missing one is NaN."""
    missing = _flags(column.is_null())
    numbers = np.asarray(column.cast(pa.float64()).to_numpy(zero_copy_only=False), np.float64)
    return Field(numbers, missing, _none(len(column)), lambda row: column[row].as_py())


def number_texts(texts: Any) -> Field:
    """Read numbers from texts, without the liberties of Python (no underscores, no digits beyond ASCII)."""
    missing = _flags(pc.equal(pc.binary_length(texts), 0))
    try:
        numbers = pc.if_else(pa.array(missing), "nan", texts).cast(pa.float64()).to_numpy()
        bad = _none(len(texts))
    except pa.ArrowInvalid:
        stripped = [text.strip() for text in texts.to_pylist()]
        fine = [_NUMBER.fullmatch(text) is not None for text in stripped]
        numbers = np.array([float(t) if good else np.nan for t, good in zip(stripped, fine, strict=True)])
        bad = ~np.array(fine, np.bool_) & ~missing
    return Field(np.asarray(numbers, np.float64), missing, bad, lambda row: texts[row].as_py())


def number_values(values: Sequence[Any]) -> Field:
    """Read numbers from JSON values."""
    kinds = set(map(type, values))
    if kinds == {type(None)}:
        return Field(np.full(len(values), np.nan), ~_none(len(values)), _none(len(values)), _nothing)
    if kinds <= {int, float}:
        with contextlib.suppress(OverflowError):  # an integer of hundreds of digits
            return Field(np.array(values, np.float64), _none(len(values)), _none(len(values)), _nothing)
    missing = np.array([value is None for value in values], np.bool_)
    fine = [type(value) in (int, float) for value in values]
    numbers = np.array([_float(v) if good else np.nan for v, good in zip(values, fine, strict=True)], np.float64)
    return Field(numbers, missing, ~np.array(fine, np.bool_) & ~missing, values.__getitem__)


def _float(value: float) -> float:
    try:
        return float(value)
    except OverflowError:
        return np.inf if value > 0 else -np.inf


def operation_field(texts: Any, rows: int) -> Field:
    """Read operations from an Arrow column of strings (None: the file has none); nothing said means upsert."""
    if texts is None or texts.null_count == rows:
        return Field(np.full(rows, OP_UPSERT, np.uint8), _none(rows), _none(rows), _nothing)
    delete = _flags(pc.equal(texts, "delete").fill_null(False))
    known = _flags(pc.is_in(texts, pa.array([*OPERATIONS, None], pa.string())))
    op = np.where(delete, OP_DELETE, OP_UPSERT).astype(np.uint8)
    return Field(op, _none(rows), ~known, lambda row: texts[row].as_py())
