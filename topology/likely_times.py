"""How times are likely written, by some of them: their unit or pattern, and how far out of order they are."""

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from streams.timestamps import PLAIN_TIMES, TimeForm, read_time

__all__ = ["USUAL_TIMES", "can_be_times", "is_clock", "is_days", "likely_times", "must_be_times", "other_reading"]

#: Times that need no second look: 1990 up to 2100, in milliseconds.
USUAL_TIMES = range(631_152_000_000, 4_102_444_800_000)

_UNITS = ("ms", "s", "us", "ns")

#: Ways to write a time that are neither numbers nor ISO 8601. Where several fit, the one that puts times in order is meant.
_DAYS = ("%m/%d/%Y", "%d/%m/%Y", "%Y/%m/%d", "%d.%m.%Y", "%d-%m-%Y", "%m/%d/%y", "%d %b %Y", "%d-%b-%Y", "%b %d, %Y")
_CLOCKS = ("%I:%M:%S %p", "%H:%M:%S", "%H:%M", "%I:%M %p", "")
_PATTERNS = (
    *(f"{day} {clock}".strip() for day in _DAYS for clock in _CLOCKS),
    "%a %b %d %H:%M:%S %z %Y",
    "%d/%b/%Y:%H:%M:%S %z",
    "%a, %d %b %Y %H:%M:%S %z",
)

_CLOCK = re.compile(r"[0-9]{1,2}:[0-9]{2}(:[0-9]{2}(\.[0-9]+)?)?( ?[AaPp][Mm])?")

#: How late objects may be is proposed in these steps, for the rest of a file may be somewhat worse than its head.
_STEPS_MS = (60_000, 300_000, 900_000, 3_600_000, 21_600_000, 86_400_000, 604_800_000, 2_592_000_000, 31_536_000_000)

#: What is proposed where the newest come first: whatever there is in a file is put in order then.
_DECADES_MS = 10 * _STEPS_MS[-1]


def can_be_times(values: Sequence[Any]) -> bool:
    """Return whether all values can be read as times, numbers as seconds."""
    given = [value for value in values if value not in (None, "")]
    seconds = TimeForm("s")
    return bool(given) and (
        all(_moment(value, seconds) is not None for value in given) or next(_patterns_of(given), None) is not None
    )


def must_be_times(values: Sequence[Any]) -> bool:
    """Return whether values can be nothing but times, whatever their column is called."""
    given = [value for value in values if value not in (None, "")]
    units = (TimeForm(unit) for unit in _UNITS)
    return bool(given) and (
        any(all(_is_usual(_moment(value, unit)) for value in given) for unit in units)
        or next(_patterns_of(given), None) is not None
    )


def is_clock(values: Sequence[Any]) -> bool:
    """Return whether all values are times of a day, and of no day in particular."""
    given = [value for value in values if value not in (None, "")]
    return bool(given) and all(isinstance(value, str) and _CLOCK.fullmatch(value.strip()) for value in given)


def is_days(values: Sequence[Any]) -> bool:
    """Return whether values, which are times, are of days as a whole."""
    return all(isinstance(value, str) and ":" not in value and not value.strip().isdigit() for value in values if value)


def _patterns_of(values: Iterable[Any]) -> Iterator[TimeForm]:
    """Yield the patterns that all of some texts follow."""
    texts = [value for value in values if value not in (None, "")]
    if texts and all(isinstance(text, str) for text in texts):
        for form in (TimeForm(pattern=pattern) for pattern in _PATTERNS):
            if all(read_time(text, form) is not None for text in texts):
                yield form


def _is_usual(ms: int | None) -> bool:
    return ms is not None and ms in USUAL_TIMES  # None would be looked for one by one


def _moment(value: Any, form: TimeForm) -> int | None:
    if type(value) in (int, float):
        return read_time(repr(value), form)
    return read_time(value, form) if isinstance(value, str) else None


def likely_times(given: Sequence[Any], found: TimeForm) -> tuple[TimeForm, int]:
    """Return how times are written so that they are of our days, and how late the latest of them is, in whole steps.

    Args:
        given: the times, in the order of the file.
        found: how they are written as far as is declared.
    """
    if not _begins_in_our_days(given, found):
        likely = [replace(PLAIN_TIMES, unit=unit, zone=found.zone) for unit in _UNITS]
        fitting = [one for one in likely if _begins_in_our_days(given, one)]
        fitting += [] if fitting else [replace(one, zone=found.zone) for one in _patterns_of(given)]
        found = min(fitting, key=lambda one: _disorder(_read(given, one)), default=found)
    times = _read(given, found)
    if _back(times) > len(times) // 2 and times[-1] < times[0]:
        return found, _DECADES_MS
    newest = itertools.accumulate(times, max)
    late = max((most - ts for most, ts in zip(newest, times, strict=True)), default=0)
    step = next((step for step in _STEPS_MS if step >= late), _DECADES_MS)
    return found, step if late else 0


def other_reading(given: Sequence[Any], found: TimeForm) -> tuple[str, TimeForm] | None:
    """Return a date that may be day first as well as month first, and how it is read then; None where the times show which.

    They show it by a day beyond the twelfth, or by their order.
    """
    exchanged = {"%m": "%d", "%d": "%m"}
    pattern = re.sub("%[md]", lambda part: exchanged[part[0]], found.pattern or "")
    texts = [text for text in given if isinstance(text, str) and text]
    if not texts or not re.match("%[md]/%[md]", pattern):
        return None
    other = replace(found, pattern=pattern)
    if any(read_time(text, other) is None for text in texts) or _disorder(_read(given, other)) > _disorder(
        _read(given, found)
    ):
        return None
    told = next((text for text in texts if read_time(text, other) != read_time(text, found)), None)
    return None if told is None else (told, other)


def _begins_in_our_days(given: Iterable[Any], form: TimeForm) -> bool:
    times = (_moment(value, form) for value in given)
    return _is_usual(next((ts for ts in times if ts is not None), None))


def _read(values: Iterable[Any], form: TimeForm) -> list[int]:
    return [ts for ts in (_moment(value, form) for value in values) if ts is not None]


def _disorder(times: Sequence[int]) -> int:
    """Return how often times go against their direction, be the oldest first or the newest."""
    return min(_back(times), _back(times[::-1]))


def _back(times: Sequence[int]) -> int:
    """Return how often the next of some times is an earlier one."""
    return sum(after < before for before, after in itertools.pairwise(times))
