"""Plans whose units can be cut in two and put together again (DSkype, Section 7.4).

A unit is what one worker has of places and keywords: a box of cells, a range of keywords, or a range of keywords within a
box. It is cut at a column or a row of the fine grid, or at a keyword; what is at the cut or above becomes a unit of its own.

Keywords that no range names are spread by a hash, whose number of parts must not change, or all of them would move. So
parts are counted twice: *base* parts are what ranges and the hash know and stay as they were built; each is divided into
one or more parts by first keywords, ascending.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from partitioners.columns import Ints, Regions, Workers
from partitioners.grids.fine_grid import FineGrid
from partitioners.plans.plan import Plan
from streams.columns import csr_take
from streams.errors import InputError

__all__ = [
    "COLUMN", "FIRST_WORD", "KEYWORD", "LAST_WORD", "NO_WORD", "ROW", "Cut", "Divided", "Divisible", "Filed", "KeywordCuts",
    "Room", "box_room", "check_cut", "cut_box", "filed_words", "united_box",
]  # fmt: skip

#: What a unit can be cut along.
COLUMN, ROW, KEYWORD = 0, 1, 2

#: The first keyword of a part that nothing is cut off from below, and the last of one that is open above.
FIRST_WORD, LAST_WORD = int(np.iinfo(np.int64).min), int(np.iinfo(np.int64).max)

#: Stands for the keyword of a query that has none and is kept in every part.
NO_WORD = -1

#: Where a unit can be cut: an axis, the first and the last place, and how many units come into being, as those beside it
#: are cut as well.
Room = tuple[int, int, int, int]

P_co = TypeVar("P_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Cut:
    """Cut a unit: what is at a column, a row or a keyword, or above, becomes a unit of its own."""

    unit: int
    axis: int
    at: int


@dataclass(frozen=True, slots=True, eq=False)
class Divided(Generic[P_co]):
    """A plan after a cut.

    Attributes:
        plan: the next version; the workers are those of before.
        unit: the new unit, above the cut.
        origin: for each unit of the new plan, the one that it was, or was a part of.
    """

    plan: P_co
    unit: int
    origin: Ints


@dataclass(frozen=True, slots=True, eq=False)
class Filed:
    """Which units bring queries to workers, as rows of query, unit and keyword, ascending in this order.

    A query that is in several units, or in one by several keywords, has several rows.
    """

    row: Ints
    unit: Ints
    word: Ints

    @classmethod
    def of(cls, row: Ints, unit: Ints, word: Ints) -> "Filed":
        """Put rows into their order."""
        order = np.lexsort((word, unit, row))
        return cls(row[order], unit[order].astype(np.int64), word[order])


class Divisible(Plan, Protocol):
    """A plan whose units can be cut and merged; nothing changes for queries of other units."""

    @property
    def grid(self) -> FineGrid:
        """The fine grid, at whose lines units are cut."""
        ...

    def with_units(self, units: ArrayLike, workers: ArrayLike) -> "Divisible":
        """Return the next version of the plan, in which these units have these workers."""
        ...

    def filed(self, regions: Regions) -> Filed:
        """Return which units bring each query to workers."""
        ...

    def room(self, unit: int) -> Sequence[Room]:
        """Return where a unit can be cut."""
        ...

    def divided(self, cut: Cut) -> Divided["Divisible"]:
        """Cut a unit; where the other axis is divided first, so are the units beside it, which keep their workers."""
        ...

    def mergeable(self) -> list[tuple[int, int]]:
        """Return pairs of units that can be one again: neighbours of one worker."""
        ...

    def merged(self, one: int, other: int) -> "Divisible":
        """Return the next version, in which such a pair is one unit."""
        ...


def check_cut(cut: Cut, units: int, room: Sequence[Room]) -> None:
    """Raise unless a unit can be cut so."""
    allowed = {axis: (first, last) for axis, first, last, _ in room}
    first, last = allowed.get(cut.axis, (1, 0))
    if not first <= cut.at <= last:
        along = ("column", "row", "keyword")
        named = along[cut.axis] if cut.axis in (COLUMN, ROW, KEYWORD) else f"axis {cut.axis}"
        found = ", ".join(f"{along[axis]}s {first} to {last}" for axis, first, last, _ in room) or "nowhere"
        raise InputError(f"unit {cut.unit} of {units} cannot be cut at {named} {cut.at}; it can at: {found}")


def cut_box(box: NDArray[np.int32], axis: int, at: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return what of a box (first column, first row, last column, last row) is below a cut, and what is above."""
    low, high = box.copy(), box.copy()
    low[axis + 2], high[axis] = at - 1, at
    return low, high


def box_room(box: NDArray[np.int32], adds: int) -> list[Room]:
    """Return where a box can be cut by place."""
    x0, y0, x1, y1 = box.tolist()
    return [room for room in ((COLUMN, x0 + 1, x1, adds), (ROW, y0 + 1, y1, adds)) if room[1] <= room[2]]


def united_box(one: NDArray[np.int32], other: NDArray[np.int32]) -> NDArray[np.int32] | None:
    """Return the box that two neighbours are together; None where they are none, or no box."""
    for axis in (COLUMN, ROW):
        across = [1 - axis, 3 - axis]
        touching = one[axis + 2] + 1 == other[axis] or other[axis + 2] + 1 == one[axis]
        if touching and (one[across] == other[across]).all():
            return np.concatenate([np.minimum(one[:2], other[:2]), np.maximum(one[2:], other[2:])])
    return None


@dataclass(frozen=True, slots=True, eq=False)
class KeywordCuts:
    """How base parts are divided into parts.

    Attributes:
        base: the base part of each part, ascending in each group (a box, or all there is) from 0, without a gap.
        start: the first keyword of each part; `FIRST_WORD` for the first of a base part.
    """

    base: Workers
    start: Ints

    @classmethod
    def none(cls, parts_of_groups: NDArray[np.integer]) -> "KeywordCuts":
        """Return that of groups with so many parts each, none of which is divided."""
        off = np.concatenate([[0], np.cumsum(parts_of_groups)])
        base = np.arange(off[-1]) - np.repeat(off[:-1], parts_of_groups)
        return cls(base.astype(np.int32), np.full(off[-1], FIRST_WORD, np.int64))

    def check(self, off: NDArray[np.integer]) -> None:
        """Raise unless each group (`off`: its parts) has base parts from 0 on, each divided in ascending order."""
        if len(self.base) != off[-1] or len(self.start) != off[-1]:
            raise InputError("a plan needs a base part and a first keyword for each of its parts")
        begins = np.zeros(len(self.base), np.bool_)
        begins[off[:-1][np.diff(off) > 0]] = True
        step = np.diff(self.base, prepend=-1)
        whole = begins | (step == 1)
        if (self.base[begins] != 0).any() or not (whole | (step == 0)).all():
            raise InputError("the parts of a plan are not in the order of their base parts")
        ascends = np.append(True, self.start[1:] > self.start[:-1])
        if (self.start[whole] != FIRST_WORD).any() or not (whole | ascends).all():
            raise InputError("the first keywords of the parts of a plan do not ascend")

    def firsts(self, off: NDArray[np.integer]) -> tuple[Workers, Workers]:
        """Return the base parts of each group, and the parts of each base part, both as offsets."""
        first = np.flatnonzero(self.start == FIRST_WORD)
        return np.searchsorted(first, off).astype(np.int32), np.append(first, len(self.base)).astype(np.int32)

    def room(self, part: int, last_of_group: int, adds: int) -> list[Room]:
        """Return where a part can be cut by keyword, if it can."""
        low = max(int(self.start[part]), 0) + 1
        divided = part < last_of_group and self.base[part + 1] == self.base[part]
        high = int(self.start[part + 1]) - 1 if divided else LAST_WORD
        return [(KEYWORD, low, high, adds)] if low <= high else []

    def follows(self, part: int) -> bool:
        """Tell whether a part and the next one are of one base part."""
        return part + 1 < len(self.base) and self.start[part + 1] != FIRST_WORD


def filed_words(regions: Regions, pair: Ints) -> tuple[Ints, Ints, Ints]:
    """Return the keywords under which queries are filed: places in `pair` (rows of regions), and keywords; and places without.

    A query that wants all of its keywords is filed under the rarest one, which is its last.
    """
    row = np.repeat(np.arange(len(regions)), np.diff(regions.kw_off))
    kept = regions.match_any[row] | (np.arange(len(regions.kw)) == regions.kw_off[1:][row] - 1)
    off = np.append(0, np.cumsum(kept))[regions.kw_off].astype(np.int32)
    each, word = csr_take(off, regions.kw[kept], pair)
    lengths = np.diff(each)
    return np.repeat(np.arange(len(pair)), lengths), np.asarray(word, np.int64), np.flatnonzero(lengths == 0)
