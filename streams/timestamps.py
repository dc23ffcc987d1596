"""Event times: integer milliseconds since 1970, or ISO 8601 with or without a zone (without one it is UTC).

Fractions below a millisecond are cut off towards the past. A whole column goes through Arrow where it agrees with the
definition, which is `read_time`, one value at a time.
"""

import math
import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from streams.columns import Ints

__all__ = ["MAX_TS", "TIME_EXPECTED", "read_time", "read_times", "ticks_to_ms"]

#: Times, lives and windows stay below this, so that a sum or a difference of two fits in 64 bits.
MAX_TS = 1 << 62

#: What a message says where a time cannot be read.
TIME_EXPECTED = "integer milliseconds or ISO 8601, such as 2018-01-31T01:49:59.650Z"

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MS = timedelta(milliseconds=1)
_INTEGER = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)
_DECIMAL = re.compile(r"[+-]?[0-9]{1,19}\.[0-9]{1,19}", re.ASCII)
_MS_OF = {"s": Decimal(1000), "ms": Decimal(1), "us": Decimal("0.001")}
_ISO_LETTERS = re.compile(r"[0-9WTtZ :.,+-]+", re.ASCII)
_ZONE = re.compile(r"[Tt ].*(Z|[+-][0-9]{2}(:?[0-9]{2})?)$", re.ASCII)
_FIRST_YEAR_US = -62_135_596_800_000_000  # Arrow goes on below year 1, datetime does not


def read_time(text: str, unit: str = "ms") -> int | None:
    """Return the milliseconds that a text says, or None where it says none; numbers are of a unit, ``s``, ``ms`` or ``us``."""
    text = text.strip()
    if _INTEGER.fullmatch(text) or (unit == "s" and _DECIMAL.fullmatch(text)):
        ms = math.floor(Decimal(text) * _MS_OF[unit])
        return ms if -MAX_TS < ms < MAX_TS else None
    if not _ISO_LETTERS.fullmatch(text):
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - _EPOCH) // _MS


def read_times(texts: pa.StringArray, unit: str = "ms") -> tuple[Ints, NDArray[np.bool_]]:
    """Return the milliseconds of each text and which could be read, as `read_time` does; a null text is 0 and could not."""
    first = next((text for text in texts if text.is_valid), None)
    found = None if first is None else _like(first.as_py(), texts, unit)
    if found is not None:
        readable = (found > -MAX_TS) & (found < MAX_TS) & texts.is_valid().to_numpy(zero_copy_only=False)
        return np.where(readable, found, 0), readable
    values = [None if text is None else read_time(text, unit) for text in texts.to_pylist()]
    readable = np.array([value is not None for value in values], np.bool_)
    return np.array([value or 0 for value in values], np.int64), readable


def _like(first: str, texts: pa.StringArray, unit: str) -> Ints | None:
    """Read all texts as what the first one is, a number or a moment with or without zone; None where not all are that.

    One guess, because a cast that fails costs Arrow more than the whole column is worth.
    """
    if _INTEGER.fullmatch(first):
        numbers = _integers(texts)
        return None if numbers is None else ticks_to_ms(numbers, unit)
    zoned = _ZONE.search(first) is not None
    try:
        filled = texts.fill_null("1970-01-01T00Z" if zoned else "1970-01-01") if texts.null_count else texts
        us = filled.cast(pa.timestamp("us", "UTC" if zoned else None)).cast(pa.int64()).to_numpy()
    except pa.ArrowInvalid:
        return None
    return ticks_to_ms(us, "us") if (us >= _FIRST_YEAR_US).all() else None


def _integers(texts: pa.StringArray) -> Ints | None:
    """Return the numbers if all texts are plain integers; Arrow alone would also take hexadecimal ones."""
    try:
        numbers = texts.cast(pa.int64())
    except pa.ArrowInvalid:
        return None
    plain = pc.all(pc.equal(numbers.cast(pa.string()), texts), min_count=0).as_py()
    return np.asarray(numbers.fill_null(0).to_numpy()) if plain else None


def ticks_to_ms(ticks: Ints, unit: str) -> Ints:
    """Return milliseconds for ticks of seconds, ``us`` or ``ns``; what does not fit becomes at least `MAX_TS` in size."""
    if unit == "s":
        most = MAX_TS // 1_000 + 1
        return np.asarray(np.clip(ticks, -most, most) * 1_000)
    return np.asarray(ticks // {"ms": 1, "us": 1_000, "ns": 1_000_000}[unit])
