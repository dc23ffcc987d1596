"""O_init: the objects at hand when subscriptions are divided, and what DkM-SKS asks of them.

The keyword-space postings answer three questions exactly: |O_lambda| (Section 3.1), |O_{R,lambda}| and |O_R| (Sections
3.2 and 4.1), and the radius of the ball B(s), the distance of a subscription to its kth nearest object of O_init.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from partitioners.columns import Floats, Ints, Offsets, Points, Regions, check_range, column, kernel
from partitioners.grids.fine_grid import FineGrid
from streams.errors import InputError
from streams.geometry import Rect

__all__ = ["MAX_INITIAL_OBJECTS", "InitialObjects"]

#: The paper uses a million objects; a bound on the memory of a main server.
MAX_INITIAL_OBJECTS = 4_000_000

#: Objects a cell on average: short runs to scan, few cells to visit.
_CELL_OBJECTS = 4


@dataclass(frozen=True, slots=True, eq=False)
class InitialObjects:
    """Objects by keyword and cell.

    `words` are the keywords that occur, ascending; list i (of words[i]; the last list, without a word, is of all
    objects) has the postings `list_off[i]` .. `list_off[i + 1]`, ascending by cell, with the cell, the row and the place
    of each object.
    """

    grid: FineGrid
    kw_off: Offsets
    kw: Ints
    words: Ints
    list_off: Ints
    cell: Ints
    row: Ints
    x: Floats
    y: Floats

    @classmethod
    def of(cls, space: Rect, x: Floats, y: Floats, kw_off: Offsets, kw: Ints) -> "InitialObjects":
        """Sort objects into postings."""
        p = Points.of(x, y, kw_off, kw)
        if len(p.x) > MAX_INITIAL_OBJECTS:
            raise InputError(f"O_init has {len(p.x):,} objects, at most {MAX_INITIAL_OBJECTS:,}; draw a sample")
        side = max(1, int(np.sqrt(len(p.x) / _CELL_OBJECTS)))
        grid = FineGrid(space, side, side)
        cell = grid.cells_of(p.x, p.y)
        words, place = np.unique(p.kw, return_inverse=True)
        row = np.repeat(np.arange(len(p.x)), np.diff(p.kw_off))
        rows = np.concatenate([row, np.arange(len(p.x))])
        lists = np.concatenate([place, np.full(len(p.x), len(words))])
        order = np.lexsort((cell[rows], lists))
        rows = rows[order]
        list_off = np.concatenate([[0], np.cumsum(np.bincount(lists, minlength=len(words) + 1))])
        return cls(
            grid, p.kw_off, p.kw, column(words, np.int64), column(list_off, np.int64), column(cell[rows], np.int64),
            column(rows, np.int64), column(p.x[rows], np.float64), column(p.y[rows], np.float64),
        )  # fmt: skip

    def __len__(self) -> int:
        return len(self.kw_off) - 1

    def frequencies(self, kw: Ints) -> Floats:
        """Return P(lambda) = |O_lambda| / |O_init| of each keyword (Section 3.1); 0 where there are no objects."""
        lists = self._lists(kw)
        found = np.where(lists >= 0, self.list_off[lists + 1] - self.list_off[lists], 0)
        return np.asarray(found / max(len(self), 1))

    def _lists(self, kw: Ints) -> Ints:
        place = np.searchsorted(self.words, kw)
        known = np.append(self.words, -1)[place] == kw
        return np.where(known, place, -1).astype(np.int64)

    def counts_within(self, rects: Floats, rect_of: Ints, kw: Ints | None) -> Ints:
        """Return |O_{R,lambda}| for pairs of a rectangle (a row of `rects`) and a keyword, |O_R| without keywords."""
        check_range("rect_of", rect_of, 0, len(rects))
        lists = np.full(len(rect_of), len(self.words)) if kw is None else self._lists(kw)
        found: Ints = _counts_within(
            column(rects, np.float64, 2), column(rect_of, np.int64), column(lists, np.int64),
            np.array(self.grid.scale()), self.grid.columns, self.list_off, self.cell, self.x, self.y,
        )  # fmt: skip
        return found

    def kth_distances(
        self, x: Floats, y: Floats, kw_off: Offsets, kw: Ints, k: NDArray[np.integer], match_any: NDArray[np.bool_]
    ) -> Floats:
        """Return the radius of each ball B(s): the Euclidean distance of the kth nearest matching object.

        It is infinite where fewer than k objects match: then any new match enters the result.
        """
        at = Regions.of((x, y, x, y), kw_off, kw, match_any)
        if len(k) != len(at.at_x) or (np.asarray(k) < 1).any():
            raise InputError("every subscription needs a k of at least 1")
        found: Floats = _kth_distances(
            at.min_x, at.min_y, at.kw_off, at.kw, self._lists(at.kw), column(k, np.int64), at.match_any,
            np.array(self.grid.scale()), self.grid.columns, self.list_off, self.cell, self.row, self.x, self.y,
            self.kw_off, self.kw,
        )  # fmt: skip
        return found


@kernel
def _cell(value: float, low: float, scale: float, cells: int) -> int:
    place = (value - low) * scale
    return 0 if not place >= 1.0 else (cells - 1 if place >= cells else int(place))


@kernel
def _first(cell: Ints, low: int, high: int, wanted: int) -> int:
    while low < high:
        middle = (low + high) >> 1
        if cell[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def _counts_within(
    rects: Floats,
    rect_of: Ints,
    lists: Ints,
    scale: Floats,
    side: int,
    list_off: Ints,
    cell: Ints,
    x: Floats,
    y: Floats,
) -> Ints:
    out = np.zeros(len(rect_of), np.int64)
    for pair in range(len(rect_of)):
        if lists[pair] < 0:
            continue
        low_x, low_y, high_x, high_y = rects[rect_of[pair]]
        x0, x1 = _cell(low_x, scale[0], scale[2], side), _cell(high_x, scale[0], scale[2], side)
        y0, y1 = _cell(low_y, scale[1], scale[3], side), _cell(high_y, scale[1], scale[3], side)
        start, end = list_off[lists[pair]], list_off[lists[pair] + 1]
        for line in range(y0, y1 + 1):
            start = _first(cell, start, end, line * side + x0)
            stop = _first(cell, start, end, line * side + x1 + 1)
            inner_start, inner_stop = start, start
            if y0 < line < y1 and x1 - x0 > 1:
                # Cells strictly between the border cells lie inside of the rectangle: the formula is monotone.
                inner_start = _first(cell, start, stop, line * side + x0 + 1)
                inner_stop = _first(cell, inner_start, stop, line * side + x1)
                out[pair] += inner_stop - inner_start
            for i in range(start, inner_start):
                out[pair] += low_x <= x[i] <= high_x and low_y <= y[i] <= high_y
            for i in range(inner_stop, stop):
                out[pair] += low_x <= x[i] <= high_x and low_y <= y[i] <= high_y
            start = stop
    return out


@kernel
def _has_all(row: int, kw_off: Offsets, kw: Ints, wanted: Ints) -> bool:
    place, end = kw_off[row], kw_off[row + 1]
    for word in wanted:
        while place < end and kw[place] < word:
            place += 1
        if place == end or kw[place] != word:
            return False
    return True


@kernel
def _kth_distances(
    at_x: Floats,
    at_y: Floats,
    q_off: Offsets,
    q_kw: Ints,
    lists: Ints,
    k: Ints,
    match_any: NDArray[np.bool_],
    scale: Floats,
    side: int,
    list_off: Ints,
    cell: Ints,
    row: Ints,
    x: Floats,
    y: Floats,
    kw_off: Offsets,
    kw: Ints,
) -> Floats:
    """Search rings of cells outwards; stop when the next ring is farther than the kth best so far.

    An object of several wanted keywords is met several times: the rows of the k best are kept to count it once.
    """
    out = np.full(len(at_x), np.inf)
    wide, high = 1.0 / scale[2], 1.0 / scale[3]
    for q in range(len(at_x)):
        best = np.full(k[q], np.inf)
        best_row = np.full(k[q], -1, np.int64)
        first, last = q_off[q], q_off[q + 1]
        plain = first == last
        if not plain and not match_any[q]:
            first = last - 1  # the rarest keyword has the shortest list; the others are checked in the object's row
        cx, cy = _cell(at_x[q], scale[0], scale[2], side), _cell(at_y[q], scale[1], scale[3], side)
        for ring in range(side):
            # What lies outside of the rings seen is at least this far; a shade less, against rounding in the cells.
            reach = (ring - 1) * min(wide, high) * (1.0 - 1e-9)
            if ring > 0 and reach > 0 and best[-1] <= reach:
                break
            for line in range(max(cy - ring, 0), min(cy + ring, side - 1) + 1):
                edge = line in (cy - ring, cy + ring)
                for piece in range(1 if edge else 2):
                    if edge:
                        x0, x1 = max(cx - ring, 0), min(cx + ring, side - 1)
                    else:
                        x0 = x1 = cx - ring if piece == 0 else cx + ring
                        if x0 < 0 or x0 >= side:
                            continue
                    for j in range(1 if plain else last - first):
                        which = len(list_off) - 2 if plain else lists[first + j]
                        if which < 0:
                            continue
                        start = _first(cell, list_off[which], list_off[which + 1], line * side + x0)
                        i = start
                        while i < list_off[which + 1] and cell[i] <= line * side + x1:
                            dx, dy = x[i] - at_x[q], y[i] - at_y[q]
                            far = np.sqrt(dx * dx + dy * dy)
                            if far < best[-1] and (
                                plain or match_any[q] or _has_all(row[i], kw_off, kw, q_kw[q_off[q] : last])
                            ):
                                _keep(best, best_row, far, row[i])
                            i += 1
        out[q] = best[-1]
    return out


@kernel
def _keep(best: Floats, best_row: Ints, far: float, row: int) -> None:
    for place in range(len(best)):
        if best_row[place] == row:
            return
    place = len(best) - 1
    while place > 0 and best[place - 1] > far:
        best[place], best_row[place] = best[place - 1], best_row[place - 1]
        place -= 1
    best[place], best_row[place] = far, row
