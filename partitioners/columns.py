"""The columns that plans are made of and that their kernels are called with.

A numba kernel is compiled once for each combination of argument types, and "read-only" and "contiguous" are part of a
type. Everything that enters a kernel passes through here, so there is one combination and one compilation.
"""

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streams.errors import InputError

__all__ = [
    "Csr",
    "Floats",
    "Ints",
    "Offsets",
    "Points",
    "Regions",
    "Workers",
    "all_to",
    "check_csr",
    "check_range",
    "column",
    "own_columns",
]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Offsets = NDArray[np.int32]
Workers = NDArray[np.int32]

#: Ragged rows of ascending, distinct worker numbers: offsets and values.
Csr = tuple[Offsets, Workers]


def all_to(worker: int, rows: int) -> Csr:
    """Return routes that lead every row to one worker."""
    return np.arange(rows + 1, dtype=np.int32), np.full(rows, worker, np.int32)


def column(values: ArrayLike, dtype: type[np.generic], ndim: int = 1) -> NDArray[Any]:
    """Return values as a contiguous, aligned, read-only array of this type; the caller's array stays as it is."""
    array = np.require(np.asarray(values, dtype), requirements=["C", "A"]).view()
    if array.ndim != ndim:
        raise InputError(f"a column has {array.ndim} dimensions, expected {ndim}")
    array.flags.writeable = False
    return array


def own_columns(plan: object, **columns: tuple[type[np.generic], int]) -> None:
    """Make the named fields of a frozen plan read-only columns of (type, dimensions); the plan owns copies."""
    for name, (dtype, ndim) in columns.items():
        given = np.asarray(getattr(plan, name))
        whole = np.issubdtype(given.dtype, np.integer) or given.dtype == np.bool_
        if not np.issubdtype(dtype, np.floating) and given.size and not whole:
            raise InputError(f"'{name}' of a plan holds {given.dtype}, expected {np.dtype(dtype)}")
        kept = given.dtype == dtype and not given.flags.writeable
        if kept and given.ndim == ndim and given.flags.c_contiguous and given.flags.aligned:
            continue  # the very array of the plan before: what was worked out of it still holds
        owned = given if kept else np.array(given, dtype)
        object.__setattr__(plan, name, column(owned, dtype, ndim))


def check_range(name: str, values: NDArray[Any], low: float, high: float) -> None:
    """Raise unless low <= value < high for all values: kernels index with them and have no bounds checks."""
    if values.size and (values.min() < low or values.max() >= high):
        raise InputError(f"'{name}' has {values.min()}..{values.max()}, expected {low}..{high - 1}")


def check_csr(name: str, off: NDArray[Any], values: int, rows: int | None = None) -> None:
    """Raise unless these are offsets of ragged rows over so many values."""
    if len(off) == 0 or off[0] != 0 or off[-1] != values or (np.diff(off) < 0).any():
        raise InputError(f"'{name}' are not offsets of ragged rows over {values} values")
    if rows is not None and len(off) != rows + 1:
        raise InputError(f"'{name}' has {len(off) - 1} rows, expected {rows}")


@dataclass(frozen=True, slots=True, eq=False)
class Points:
    """The columns of objects that routing looks at, checked and ready for a kernel.

    Plans that do not read words are handed points without any.
    """

    x: Floats
    y: Floats
    kw_off: Offsets
    kw: Ints

    @classmethod
    def of(cls, x: ArrayLike, y: ArrayLike, kw_off: ArrayLike | None = None, kw: ArrayLike | None = None) -> "Points":
        """Check columns and make them ready."""
        at_x, at_y = column(x, np.float64), column(y, np.float64)
        points = cls(at_x, at_y, *_words(len(at_x), kw_off, kw))
        _check_rows(len(points), points.kw_off, points.kw, y=points.y)
        return points

    def __len__(self) -> int:
        return len(self.x)


@dataclass(frozen=True, slots=True, eq=False)
class Regions:
    """The columns of queries that routing looks at, checked and ready for a kernel.

    The bounds contain every place where an object can match. Without numbers, queries are numbered by row; without a
    place, a query is at the middle of its bounds. Plans that do not read words are handed regions without any. `home` is the
    worker that holds the query now, -1 where that is not known: a plan that leaves to somebody else where a query goes
    says so by it.
    """

    min_x: Floats
    min_y: Floats
    max_x: Floats
    max_y: Floats
    kw_off: Offsets
    kw: Ints
    match_any: NDArray[np.bool_]
    number: Ints
    at_x: Floats
    at_y: Floats
    home: Workers

    @classmethod
    def of(
        cls,
        bounds: tuple[ArrayLike, ArrayLike, ArrayLike, ArrayLike],
        kw_off: ArrayLike | None = None,
        kw: ArrayLike | None = None,
        match_any: ArrayLike | None = None,
        number: ArrayLike | None = None,
        at: tuple[ArrayLike | None, ArrayLike | None] = (None, None),
        home: ArrayLike | None = None,
    ) -> "Regions":
        """Check columns and make them ready."""
        low_x, low_y, high_x, high_y = (column(edge, np.float64) for edge in bounds)
        at_x, at_y = at
        regions = cls(
            low_x,
            low_y,
            high_x,
            high_y,
            *_words(len(low_x), kw_off, kw),
            column(np.zeros(len(low_x), np.bool_) if match_any is None else match_any, np.bool_),
            column(np.arange(len(low_x)) if number is None else number, np.int64),
            column(low_x / 2 + high_x / 2 if at_x is None else at_x, np.float64),
            column(low_y / 2 + high_y / 2 if at_y is None else at_y, np.float64),
            column(np.broadcast_to(np.int32(-1), len(low_x)) if home is None else home, np.int32),
        )
        others = {f.name: getattr(regions, f.name) for f in fields(cls) if f.name not in ("kw_off", "kw")}
        _check_rows(len(low_x), regions.kw_off, regions.kw, **others)
        return regions

    def __len__(self) -> int:
        return len(self.number)

    @property
    def bounds(self) -> tuple[Floats, Floats, Floats, Floats]:
        """The columns of the bounds: low x, low y, high x, high y."""
        return self.min_x, self.min_y, self.max_x, self.max_y


def _words(rows: int, kw_off: ArrayLike | None, kw: ArrayLike | None) -> tuple[Offsets, Ints]:
    """Return ragged rows of keywords, empty ones where there are none."""
    off = np.zeros(rows + 1, np.int32) if kw_off is None else kw_off
    return column(off, np.int32), column(np.empty(0, np.int64) if kw is None else kw, np.int64)


def _check_rows(rows: int, kw_off: Offsets, kw: Ints, **columns: NDArray[Any]) -> None:
    check_csr("kw_off", kw_off, len(kw), rows)
    for name, values in columns.items():
        if len(values) != rows:
            raise InputError(f"column '{name}' has {len(values)} rows, expected {rows}")
