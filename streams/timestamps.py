"""Event times: integer milliseconds since 1970, or ISO 8601 with or without a zone (without one it is UTC).

A source may count in another unit, write its times by another pattern, or mean another zone where it names none: its
`TimeForm` says so. A time that a clock shows twice, when it is put back, is the first of the two; one that it never shows is
read as if the clock had not been put forward.

Fractions below a millisecond are cut off towards the past. A whole column goes through Arrow where it agrees with the
definition, which is `read_time`, one value at a time.
"""

import math
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from streams.columns import Ints
from streams.errors import DeclarationError, did_you_mean

__all__ = [
    "MAX_TS",
    "PLAIN_TIMES",
    "TIME_EXPECTED",
    "TimeForm",
    "local_to_ms",
    "read_time",
    "read_times",
    "ticks_to_ms",
]

#: Times, lives and windows stay below this, so that a sum or a difference of two fits in 64 bits.
MAX_TS = 1 << 62

#: What a message says where a time cannot be read.
TIME_EXPECTED = "integer milliseconds or ISO 8601, such as 2018-01-31T01:49:59.650Z"

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MS = timedelta(milliseconds=1)
_INTEGER = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)
_DECIMAL = re.compile(r"[+-]?[0-9]{1,19}\.[0-9]{1,19}", re.ASCII)
_MS_OF = {"s": Decimal(1000), "ms": Decimal(1), "us": Decimal("0.001"), "ns": Decimal("0.000001")}
_NAIVE_EPOCH = _EPOCH.replace(tzinfo=None)
_MINUTE_MS = 60_000
_ISO_LETTERS = re.compile(r"[0-9WTtZ :.,+-]+", re.ASCII)
_ZONE = re.compile(r"[Tt ].*(Z|[+-][0-9]{2}(:?[0-9]{2})?)$", re.ASCII)
_FIRST_YEAR_US = -62_135_596_800_000_000  # Arrow goes on below year 1, datetime does not


@dataclass(frozen=True, slots=True)
class TimeForm:
    """How a source writes times.

    Attributes:
        unit: what numbers count, ``s``, ``ms``, ``us`` or ``ns``.
        pattern: how texts are written, in the letters of `datetime.strptime`; None: as numbers, or ISO 8601.
        zone: of texts that name none, as in ``America/Edmonton``.
    """

    unit: str = "ms"
    pattern: str | None = None
    zone: str = "UTC"

    def __post_init__(self) -> None:
        if self.zone != "UTC" and not _is_zone(self.zone):
            raise DeclarationError(
                f"time_zone = '{self.zone}'{did_you_mean(self.zone, available_timezones())}, expected the name of a zone, such "
                "as America/Edmonton"
            )
        if self.pattern is not None and not _is_pattern(self.pattern):
            raise DeclarationError(
                f"time_format = '{self.pattern}', expected how times are written, in the letters of Python's strptime: "
                "%m/%d/%Y %I:%M:%S %p for 12/31/2026 11:59:00 PM"
            )
        if self.pattern is not None and self.unit != "ms":
            raise DeclarationError(
                "time_format says how times are written, and time_unit what numbers count; give one of both"
            )


def _is_zone(name: str) -> bool:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return True


def _is_pattern(pattern: str) -> bool:
    moment = datetime(2001, 2, 3, 4, 5, 6, tzinfo=UTC)
    try:
        datetime.strptime(moment.strftime(pattern), pattern)
    except ValueError:
        return False
    return "%" in pattern


PLAIN_TIMES = TimeForm()


def read_time(text: str, form: TimeForm = PLAIN_TIMES) -> int | None:
    """Return the milliseconds that a text says, or None where it says none."""
    text = text.strip()
    if form.pattern is not None:
        try:
            return _ms_of(datetime.strptime(text, form.pattern), form.zone)
        except ValueError:
            return None
    unit = form.unit
    if _INTEGER.fullmatch(text) or (unit == "s" and _DECIMAL.fullmatch(text)):
        ms = math.floor(Decimal(text) * _MS_OF[unit])
        return ms if -MAX_TS < ms < MAX_TS else None
    if not _ISO_LETTERS.fullmatch(text):
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return _ms_of(moment, form.zone)


def _ms_of(moment: datetime, zone: str) -> int:
    if moment.tzinfo is not None:
        return (moment - _EPOCH) // _MS
    ms = (moment - _NAIVE_EPOCH) // _MS
    return ms if zone == "UTC" else ms - _ahead_ms(ms // _MINUTE_MS, zone)


def _ahead_ms(minute: int, zone: str) -> int:
    """Return how far a zone is ahead of UTC in a minute of its own; clocks are put forward and back at whole minutes."""
    try:
        ahead = ZoneInfo(zone).utcoffset(_NAIVE_EPOCH + timedelta(minutes=minute))
    except OverflowError:
        return 0
    return 0 if ahead is None else ahead // _MS


def local_to_ms(ms: Ints, zone: str) -> Ints:
    """Return the milliseconds of times that are written as a zone's clocks show them."""
    if zone == "UTC" or not len(ms):
        return ms
    minutes, place = np.unique(ms // _MINUTE_MS, return_inverse=True)
    ahead = np.array([_ahead_ms(int(minute), zone) for minute in minutes], np.int64)
    return np.asarray(ms - ahead[place])


def read_times(texts: pa.StringArray, form: TimeForm = PLAIN_TIMES) -> tuple[Ints, NDArray[np.bool_]]:
    """Return the milliseconds of each text and which could be read, as `read_time` does; a null text is 0 and could not."""
    first = next((text for text in texts if text.is_valid), None)
    found = None if first is None or form.pattern is not None else _like(first.as_py(), texts, form)
    if found is not None:
        readable = (found > -MAX_TS) & (found < MAX_TS) & texts.is_valid().to_numpy(zero_copy_only=False)
        return np.where(readable, found, 0), readable
    once = cache(lambda text: read_time(text, form))  # texts of days and minutes are there many times
    values = [None if text is None else once(text) for text in texts.to_pylist()]
    readable = np.array([value is not None for value in values], np.bool_)
    return np.array([value or 0 for value in values], np.int64), readable


def _like(first: str, texts: pa.StringArray, form: TimeForm) -> Ints | None:
    """Read all texts as what the first one is, a number or a moment with or without zone; None where not all are that.

    One guess, because a cast that fails costs Arrow more than the whole column is worth.
    """
    if _INTEGER.fullmatch(first):
        numbers = _integers(texts)
        return None if numbers is None else ticks_to_ms(numbers, form.unit)
    zoned = _ZONE.search(first) is not None
    try:
        filled = texts.fill_null("1970-01-01T00Z" if zoned else "1970-01-01") if texts.null_count else texts
        us = filled.cast(pa.timestamp("us", "UTC" if zoned else None)).cast(pa.int64()).to_numpy()
    except pa.ArrowInvalid:
        return None
    if not (us >= _FIRST_YEAR_US).all():
        return None
    ms = ticks_to_ms(us, "us")
    return ms if zoned else local_to_ms(ms, form.zone)


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
