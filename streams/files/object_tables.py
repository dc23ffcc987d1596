"""What columns a table of objects must have, in CSV and in Parquet alike."""

import difflib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from streams.errors import LONGEST_WORD, InputError, listed

__all__ = ["TableColumns", "find_columns"]


@dataclass(frozen=True, slots=True)
class TableColumns:
    """The columns to read: coordinates by the names that the table has, keyword columns and `op` where it has them.

    Attributes:
        x: the name of the first coordinate, ``x`` or ``lon``.
        y: the name of the second, ``y`` or ``lat``.
        keywords: the keyword columns, most prepared first.
        op: whether there is a column of operations.
    """

    x: str
    y: str
    keywords: tuple[str, ...]
    op: bool

    @property
    def names(self) -> tuple[str, ...]:
        """All columns to read."""
        return ("id", "ts", self.x, self.y, *self.keywords, *(("op",) if self.op else ()))


def find_columns(path: str, columns: Sequence[str], keywords: Sequence[str], most: int) -> TableColumns:
    """Find the columns of objects; raise `InputError` where one is missing or there twice, or there are too many.

    `keywords` are the keyword columns that the format can have; the table needs at least one.
    """
    if len(columns) > most:
        raise InputError(
            f"{path} has {len(columns):,} columns, more than the limit of {most:,}; "
            "keep those that are needed, or raise topology.limits.columns"
        )
    for name in ("id", "ts"):
        if name not in columns:
            raise _missing(path, name, [name], columns)
    x, y = ("lon", "lat") if {"lon", "lat"} <= set(columns) and not {"x", "y"} <= set(columns) else ("x", "y")
    if not {x, y} <= set(columns):
        if "lon" in columns or "lat" in columns:
            x, y = "lon", "lat"
        absent = [name for name in (x, y) if name not in columns]
        raise _missing(path, " and no ".join(absent), absent, columns)
    found = TableColumns(x, y, tuple(name for name in keywords if name in columns), "op" in columns)
    if not found.keywords:
        raise _missing(path, " or ".join(keywords), keywords, columns)
    counts = Counter(columns)
    if twice := [name for name in found.names if counts[name] > 1]:
        raise InputError(f"{path} has the column '{twice[0]}' {counts[twice[0]]} times; rename all but one")
    return found


def _missing(path: str, what: str, names: Sequence[str], columns: Sequence[str]) -> InputError:
    lowered = {column.lower(): column for column in columns if len(column) <= LONGEST_WORD}
    near = [found for name in names for found in difflib.get_close_matches(name, lowered, n=1, cutoff=0.5)]
    hint = f" (nearest is '{lowered[near[0]]}')" if near else ""
    there = listed(columns) or "none"
    return InputError(
        f"{path} has no column {what}{hint}; it has {there}; "
        "expected id, ts, x and y or lon and lat, keywords or text, and op where objects can be deleted"
    )
