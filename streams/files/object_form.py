"""How a source spells objects: the names of its columns, where identifiers come from, the unit and the order of its times.

A field is found under the names that were declared for it, under its own name, or under a common one in any case
(``Longitude``, ``created_at``). Nothing is guessed where two columns would do.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from streams.errors import DeclarationError, InputError, brief, did_you_mean
from streams.files.file_bytes import PLAIN_BYTES, ByteForm
from streams.timestamps import PLAIN_TIMES, TimeForm

__all__ = ["FIELDS", "PLAIN_FORM", "TIME_UNITS", "ObjectForm", "reached"]

#: The fields of an object, by the names of the contract.
FIELDS = ("id", "ts", "x", "y", "lon", "lat", "keyword_ids", "keywords", "text", "op")

#: Fields that may be put together of several columns of texts, with spaces between.
SEVERAL = ("text", "ts")

#: Other names that a field may have in a file, in lower case.
COMMON_NAMES: Mapping[str, tuple[str, ...]] = {
    "ts": ("timestamp", "time", "datetime", "created_at"),
    "lon": ("longitude", "lng", "long"),
    "lat": ("latitude",),
}

#: Units that numbers in the column of times may have.
TIME_UNITS = ("ms", "s", "us", "ns")

#: Objects may be late by less than this: a hundred years.
MAX_LATENESS_MS = 100 * 366 * 86_400_000

Sources = dict[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class ObjectForm:
    """What is said of the files of one source.

    Attributes:
        columns: field -> the column that has it; for ``text`` there may be several, which are read one after the other, for
            ``ts`` those of a date and a time of day, which are texts. In JSON it may be a path, as in ``place.lon`` and
            ``coordinates.0``.
        row_ids: identifiers are the numbers of the records, from 0 on, and no column is looked for.
        row_times: so are times.
        times: how the column of times is written.
        lateness_ms: how much older an object may be than the newest one before it.
        text: what is said of the bytes of text files.
        stamped: a record without a time is none to reject: it gets `UNSTAMPED`, for the caller to replace.
    """

    columns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    row_ids: bool = False
    row_times: bool = False
    times: TimeForm = PLAIN_TIMES
    lateness_ms: int = 0
    text: ByteForm = PLAIN_BYTES
    stamped: bool = False

    def __post_init__(self) -> None:
        for name, sources in self.columns.items():
            if name not in FIELDS:
                raise DeclarationError(
                    f"columns has '{name}'{did_you_mean(name, FIELDS)}, expected fields of objects: {', '.join(FIELDS)}"
                )
            if not sources or (len(sources) > 1 and name not in SEVERAL):
                raise DeclarationError(
                    f"columns.{name} names {len(sources)} columns; expected one (for text, some; for ts, date and time of day)"
                )
        named = [source for sources in self.columns.values() for source in sources]
        if twice := [source for source in named if named.count(source) > 1]:
            raise DeclarationError(f"columns names '{twice[0]}' more than once; a column has one meaning")
        if self.times.unit not in TIME_UNITS:
            raise DeclarationError(f"time_unit = '{self.times.unit}', expected {', '.join(TIME_UNITS)}")
        if not 0 <= self.lateness_ms < MAX_LATENESS_MS:
            raise DeclarationError(
                f"lateness_ms = {brief(self.lateness_ms)}, expected 0 to {MAX_LATENESS_MS:,} (milliseconds)"
            )

    def sources(self, path: str, there: Sequence[str]) -> Sources:
        """Return for each field that a file has the columns that have it, declared ones whether they are there or not."""
        taken = {source for sources in self.columns.values() for source in sources}
        free = [name for name in there if name not in taken]
        folded = {name.casefold() for name in free}
        found: Sources = {}
        for name in FIELDS:
            if name in self.columns:
                found[name] = tuple(self.columns[name])
            elif name in free:
                found[name] = (name,)
            elif folded.isdisjoint(_names(name)):
                continue
            elif len(common := _common(name, free)) > 1:
                which = f'say which: columns = {{ {name} = "{common[0]}" }}'
                raise InputError(f"{path}: '{common[0]}' and '{common[1]}' may both be {name}; {which}")
            elif common:
                found[name] = (common[0],)
        return found


def reached(record: Mapping[str, Any], source: str) -> Any:
    """Return what a record of JSON has under a key, or down a path such as ``place.lon`` or ``coordinates.0``; else None."""
    if source in record or "." not in source:
        return record.get(source)
    value: Any = record
    for step in source.split("."):
        if isinstance(value, Mapping):
            value = value.get(step)
        elif isinstance(value, list) and step.isdecimal() and int(step) < len(value):
            value = value[int(step)]
        else:
            return None
    return value


def _common(name: str, there: Iterable[str]) -> list[str]:
    known = _names(name)
    return [column for column in dict.fromkeys(there) if column.casefold() in known]


def _names(name: str) -> tuple[str, ...]:
    return (name, *COMMON_NAMES.get(name, ()))


#: Files that spell objects as the contract does, or nearly.
PLAIN_FORM = ObjectForm()
