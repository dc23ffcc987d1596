"""What columns a table of objects must have, in CSV and in Parquet alike."""

import difflib
import functools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from shlex import quote
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from streams.errors import LONGEST_WORD, InputError, listed
from streams.files.object_form import PLAIN_FORM, ObjectForm

__all__ = ["TableColumns", "find_columns", "joined_texts"]


@dataclass(frozen=True, slots=True)
class TableColumns:
    """The fields to read: coordinates by the names that the table has, keywords and `op` where it has them.

    Attributes:
        x: the name of the first coordinate, ``x`` or ``lon``.
        y: the name of the second, ``y`` or ``lat``.
        sources: field -> the columns that have it, for all fields that are read.
    """

    x: str
    y: str
    sources: Mapping[str, tuple[str, ...]]

    @property
    def names(self) -> tuple[str, ...]:
        """All columns to read."""
        return tuple(source for sources in self.sources.values() for source in sources)

    @property
    def field_of(self) -> dict[str, str]:
        """The field that each column is for."""
        return {source: name for name, sources in self.sources.items() for source in sources}

    def fields(self, column: Mapping[str, Any]) -> dict[str, Any]:
        """Return columns by field; several columns of text are put together row by row."""
        return {name: joined_texts([column[source] for source in sources]) for name, sources in self.sources.items()}


def joined_texts(columns: Sequence[Any]) -> Any:
    """Return a column, or several of text as one: null where all of them are."""
    if len(columns) == 1:
        return columns[0]
    texts = pc.binary_join_element_wise(*columns, " ", null_handling="skip")
    nothing = functools.reduce(pc.and_, [column.is_null() for column in columns])
    return pc.if_else(nothing, pa.scalar(None, pa.string()), texts)


def find_columns(
    path: str, columns: Sequence[str], keywords: Sequence[str], most: int, form: ObjectForm = PLAIN_FORM
) -> TableColumns:
    """Find the columns of objects; raise `InputError` where one is missing or there twice, or there are too many.

    `keywords` are the keyword columns that the format can have; the table needs at least one.
    """
    if len(columns) > most:
        raise InputError(
            f"{path} has {len(columns):,} columns, more than the limit of {most:,}; "
            "keep those that are needed, or raise topology.limits.columns"
        )
    there = form.sources(path, columns)
    for name, sources in there.items():
        for source in sources:
            if source not in columns:
                raise _missing(path, f"'{source}', which is declared to be {name}", [source], columns)
    needed = tuple(name for name, made in (("id", form.row_ids), ("ts", form.row_times)) if not made)
    x, y = ("lon", "lat") if {"lon", "lat"} <= there.keys() and not {"x", "y"} <= there.keys() else ("x", "y")
    if not {x, y} <= there.keys() and ("lon" in there or "lat" in there):
        x, y = "lon", "lat"
    absent = [name for name in (*needed, x, y) if name not in there]
    words = [name for name in keywords if name in there]
    if absent or not words:
        what = " and no ".join([*absent, *([] if words else [" or ".join(keywords)])])
        missing = _missing(path, what, [*absent, *([] if words else keywords)], columns)
        raise missing if absent else InputError(f"{missing}; {_wordless(path, columns, there)}")
    read = [*needed, x, y, *words, *(["op"] if "op" in there else [])]
    found = TableColumns(x, y, {name: there[name] for name in read})
    counts = Counter(columns)
    if twice := [name for name in found.names if counts[name] > 1]:
        raise InputError(f"{path} has the column '{twice[0]}' {counts[twice[0]]} times; rename all but one")
    return found


def _wordless(path: str, columns: Sequence[str], there: Mapping[str, Sequence[str]]) -> str:
    """Say how a file without words is read, for queries that ask for none."""
    taken = {source for sources in there.values() for source in sources}
    free = next((column for column in columns if column and column not in taken), None)
    if free is not None:
        return f"where no query asks for words, any other column will do, as in --columns text={free}"
    if not path.endswith(".csv"):
        return "where no query asks for words, add a column text without any"
    command = f"sed '1s/^/text,/; 2,$s/^/,/' {quote(path)} > with-text.csv"
    return f"where no query asks for words, add a column without any: {command}"


def _missing(path: str, what: str, names: Sequence[str], columns: Sequence[str]) -> InputError:
    lowered = {column.lower(): column for column in columns if len(column) <= LONGEST_WORD}
    near = [found for name in names for found in difflib.get_close_matches(name, lowered, n=1, cutoff=0.5)]
    hint = f" (nearest is '{lowered[near[0]]}')" if near else ""
    there = listed(columns) or "none"
    return InputError(
        f"{path} has no column {what}{hint}; it has {there}; "
        "expected id, ts, x and y or lon and lat, keywords or text, and op where objects can be deleted; "
        'other names can be declared, as in columns = { lon = "east", text = ["title", "body"] } or '
        '--columns lon=east,text=title+body; id = "row" and ts = "row" number records that have none'
    )
