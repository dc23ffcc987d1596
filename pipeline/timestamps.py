"""Event times of many spellings to integer milliseconds, a column at a time."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

__all__ = ["parse_timestamps"]

_INTEGER = r"^[+-]?[0-9]{1,18}$"
_DAY_AND_TIME = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}([T ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?)?"
_PLAIN = _DAY_AND_TIME + "$"
_ZONED = _DAY_AND_TIME + r"(Z|[+-][0-9]{2}(:?[0-9]{2})?)$"
_INTEGER_TEXT = re.compile(_INTEGER)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]


def parse_timestamps(column: Any) -> tuple[Ints, Flags]:
    """Return milliseconds and which values could be read; null and empty cannot.

    A value is an integer (milliseconds) or ISO 8601; a time without a zone is UTC, and fractions are cut to
    milliseconds. Arrow reads a column in which all values have one spelling at once; a mixed one is read by value, by
    the same rules.
    """
    if pa.types.is_integer(column.type):
        return _filled(column.cast(pa.int64()))
    if pa.types.is_timestamp(column.type):
        return _milliseconds(column)
    try:
        texts = column.cast(pa.string())
    except pa.ArrowInvalid:
        return _one_by_one(column)
    filled = texts.drop_null().filter(pc.greater(pc.binary_length(texts.drop_null()), 0))
    for pattern, kind in ((_INTEGER, pa.int64()), (_PLAIN, pa.timestamp("us")), (_ZONED, pa.timestamp("us", "UTC"))):
        if pc.all(pc.match_substring_regex(filled, pattern), min_count=0).as_py():
            texts = pc.if_else(pc.equal(texts, ""), pa.scalar(None, pa.string()), texts)
            try:
                return parse_timestamps(texts.cast(kind))
            except pa.ArrowInvalid:  # a day that no month has, a year beyond the range
                break
    return _one_by_one(column)


def _filled(column: Any) -> tuple[Ints, Flags]:
    readable = np.asarray(pc.is_valid(column).to_numpy(zero_copy_only=False), np.bool_)
    return np.asarray(pc.fill_null(column, 0).to_numpy(zero_copy_only=False), np.int64), readable


def _milliseconds(column: Any) -> tuple[Ints, Flags]:
    """Return timestamps of any unit as milliseconds, rounded down: also before 1970."""
    per_ms = {"s": None, "ms": 1, "us": 1_000, "ns": 1_000_000}[column.type.unit]
    ticks, readable = _filled(column.cast(pa.int64()))
    return (ticks * 1_000 if per_ms is None else np.floor_divide(ticks, per_ms)), readable


def _one_by_one(column: Any) -> tuple[Ints, Flags]:
    parsed = [_parse(value) for value in column.to_pylist()]
    readable = np.array([value is not None for value in parsed], np.bool_)
    return np.array([value or 0 for value in parsed], np.int64), readable


def _parse(value: bytes | str | None) -> int | None:
    try:
        text = value.decode("utf-8") if isinstance(value, bytes) else (value or "")
        if _INTEGER_TEXT.match(text):
            return int(text)
        if not re.match(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", text):
            return None
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    return ((time if time.tzinfo else time.replace(tzinfo=UTC)) - _EPOCH) // timedelta(milliseconds=1)
