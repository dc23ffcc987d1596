"""Kernels over O_init: counts in rectangles, distances of the kth nearest match, and DkM-SKS's division of subscriptions.

Every keyword has a grid of its own, over the box of its objects and as fine as they are many, so that a question costs what it
finds and not how large the space is. One more list, the last, is of all objects. Algorithm 2 asks millions of such questions,
so it is here too.

Layout: list i has the objects `list_off[i]` .. `list_off[i + 1]` and a grid of `side[i]` x `side[i]` cells over `box[i]` (min
x, min y, max x, max y). Objects are sorted by cell; cell c of list i begins at `start[first_cell[i] + c]` and ends where the
next one begins, also across lists. The formula for a coordinate's cell is monotone in float64, so an object in a cell strictly
between those of two coordinates lies strictly between the coordinates.
"""

import heapq
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partitioners.columns import Floats, Ints, Offsets
from streams.kernel import kernel

__all__ = ["counts_within", "kth_distances", "list_cells", "partitioned"]


@kernel
def _cell(value: float, low: float, high: float, cells: int) -> int:
    if not value > low or cells == 1:
        return 0
    if value >= high:  # also where all objects of a list have one coordinate
        return cells - 1
    place = (value - low) / (high - low) * cells
    return cells - 1 if place >= cells else int(place)


@kernel
def list_cells(lists: Ints, x: Floats, y: Floats, box: Floats, side: Ints) -> Ints:
    """Return the cell of each object in the grid of its list."""
    out = np.empty(len(lists), np.int64)
    for i in range(len(lists)):
        which = lists[i]
        line = _cell(y[i], box[which, 1], box[which, 3], side[which])
        out[i] = line * side[which] + _cell(x[i], box[which, 0], box[which, 2], side[which])
    return out


@kernel
def _count(
    low_x: float, low_y: float, high_x: float, high_y: float, which: int, list_off: Ints, box: Floats, side: Ints,
    first_cell: Ints, start: Ints, x: Floats, y: Floats,
) -> Any:  # fmt: skip
    """Return how many objects of one list a closed rectangle holds."""
    left, bottom, right, top = box[which]
    if low_x > right or high_x < left or low_y > top or high_y < bottom:
        return 0
    begin, end = list_off[which], list_off[which + 1]
    if low_x <= left and low_y <= bottom and high_x >= right and high_y >= top:
        return end - begin
    cells = side[which]
    found = 0
    if cells == 1:
        for i in range(begin, end):
            found += low_x <= x[i] <= high_x and low_y <= y[i] <= high_y
        return found
    x0, x1 = _cell(low_x, left, right, cells), _cell(high_x, left, right, cells)
    y0, y1 = _cell(low_y, bottom, top, cells), _cell(high_y, bottom, top, cells)
    # Cells from ix0 to ix1 need no look at x: they are strictly within, or the rectangle reaches beyond the box.
    ix0, ix1 = x0 if low_x <= left else x0 + 1, x1 if high_x >= right else x1 - 1
    iy0, iy1 = y0 if low_y <= bottom else y0 + 1, y1 if high_y >= top else y1 - 1
    for line in range(y0, y1 + 1):
        row = first_cell[which] + line * cells
        run, stop = start[row + x0], start[row + x1 + 1]
        inner, inner_stop = run, run
        if iy0 <= line <= iy1 and ix0 <= ix1:
            inner, inner_stop = start[row + ix0], start[row + ix1 + 1]
            found += inner_stop - inner
        for i in range(run, inner):
            found += low_x <= x[i] <= high_x and low_y <= y[i] <= high_y
        for i in range(inner_stop, stop):
            found += low_x <= x[i] <= high_x and low_y <= y[i] <= high_y
    return found


@kernel
def counts_within(
    rects: Floats, rect_of: Ints, lists: Ints, list_off: Ints, box: Floats, side: Ints, first_cell: Ints, start: Ints,
    x: Floats, y: Floats,
) -> Ints:  # fmt: skip
    """Return the objects of a list within a rectangle, for pairs of them; a list below 0 is empty."""
    out = np.zeros(len(rect_of), np.int64)
    for pair in range(len(rect_of)):
        if lists[pair] >= 0:
            low_x, low_y, high_x, high_y = rects[rect_of[pair]]
            out[pair] = _count(
                low_x, low_y, high_x, high_y, lists[pair], list_off, box, side, first_cell, start, x, y
            )  # fmt: skip
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
def _keep(best: Floats, best_row: NDArray[np.int32], k: int, far: float, row: int) -> None:
    """Put an object among the k best, unless it is there: one of several wanted keywords is met several times."""
    for place in range(k):
        if best_row[place] == row:
            return
    place = k - 1
    while place > 0 and best[place - 1] > far:
        best[place], best_row[place] = best[place - 1], best_row[place - 1]
        place -= 1
    best[place], best_row[place] = far, row


@kernel
def _scan(
    begin: int, end: int, at_x: float, at_y: float, k: int, wanted: Ints, row: NDArray[np.int32], x: Floats, y: Floats,
    kw_off: Offsets, kw: Ints, best: Floats, best_row: NDArray[np.int32],
) -> None:  # fmt: skip
    """Hold a run of objects against the k best; those that lack one of the wanted words do not count."""
    for i in range(begin, end):
        dx, dy = x[i] - at_x, y[i] - at_y
        far = np.sqrt(dx * dx + dy * dy)
        if far < best[k - 1] and (len(wanted) == 0 or _has_all(row[i], kw_off, kw, wanted)):
            _keep(best, best_row, k, far, row[i])


@kernel
def _search(
    which: int, at_x: float, at_y: float, k: int, wanted: Ints, list_off: Ints, box: Floats, side: Ints,
    first_cell: Ints, start: Ints, row: NDArray[np.int32], x: Floats, y: Floats, kw_off: Offsets, kw: Ints,
    best: Floats, best_row: NDArray[np.int32],
) -> None:  # fmt: skip
    """Search one list in rings of cells outwards; stop when what is left is farther than the kth best so far."""
    cells = side[which]
    if cells == 1:
        _scan(
            list_off[which], list_off[which + 1], at_x, at_y, k, wanted, row, x, y, kw_off, kw, best, best_row
        )  # fmt: skip
        return
    left, bottom, right, top = box[which]
    wide, high = (right - left) / cells, (top - bottom) / cells
    cx, cy = _cell(at_x, left, right, cells), _cell(at_y, bottom, top, cells)
    for ring in range(cells):
        # What lies outside of the rings seen is beyond one of their four sides; a shade less, against rounding in the cells.
        reach = np.inf
        if cx - ring >= 0:
            reach = min(reach, at_x - (left + (cx - ring + 1) * wide))
        if cx + ring < cells:
            reach = min(reach, left + (cx + ring) * wide - at_x)
        if cy - ring >= 0:
            reach = min(reach, at_y - (bottom + (cy - ring + 1) * high))
        if cy + ring < cells:
            reach = min(reach, bottom + (cy + ring) * high - at_y)
        slack = 1e-9 * (wide + high + abs(left) + abs(bottom) + abs(right) + abs(top))
        if ring > 0 and best[k - 1] < reach - slack:
            break
        x0, x1 = max(cx - ring, 0), min(cx + ring, cells - 1)
        for line in range(max(cy - ring, 0), min(cy + ring, cells - 1) + 1):
            first = first_cell[which] + line * cells
            if line in (cy - ring, cy + ring):
                _scan(
                    start[first + x0], start[first + x1 + 1], at_x, at_y, k, wanted, row, x, y, kw_off, kw, best,
                    best_row,
                )  # fmt: skip
                continue
            if cx - ring >= 0:
                _scan(
                    start[first + x0], start[first + x0 + 1], at_x, at_y, k, wanted, row, x, y, kw_off, kw, best,
                    best_row,
                )  # fmt: skip
            if cx + ring < cells:
                _scan(
                    start[first + x1], start[first + x1 + 1], at_x, at_y, k, wanted, row, x, y, kw_off, kw, best,
                    best_row,
                )  # fmt: skip


@kernel
def kth_distances(
    at_x: Floats, at_y: Floats, q_off: Offsets, q_kw: Ints, lists: Ints, ks: Ints, match_any: NDArray[np.bool_],
    list_off: Ints, box: Floats, side: Ints, first_cell: Ints, start: Ints, row: NDArray[np.int32], x: Floats,
    y: Floats, kw_off: Offsets, kw: Ints,
) -> Floats:  # fmt: skip
    """Return the distance of the kth nearest match of each subscription, infinite where fewer match."""
    out = np.full(len(at_x), np.inf)
    most = 1
    for q in range(len(at_x)):
        most = max(most, ks[q])
    best, best_row = np.empty(most), np.empty(most, np.int32)
    for q in range(len(at_x)):
        k = ks[q]
        best[:k] = np.inf
        best_row[:k] = -1
        first, last = q_off[q], q_off[q + 1]
        wanted = q_kw[first:first]
        if first == last:
            which = len(list_off) - 2
            _search(
                which, at_x[q], at_y[q], k, wanted, list_off, box, side, first_cell, start, row, x, y, kw_off, kw,
                best, best_row,
            )  # fmt: skip
        elif match_any[q]:
            for j in range(first, last):
                if lists[j] >= 0:
                    _search(
                        lists[j], at_x[q], at_y[q], k, wanted, list_off, box, side, first_cell, start, row, x, y,
                        kw_off, kw, best, best_row,
                    )  # fmt: skip
        else:
            # The objects of the rarest word are looked at; the other words are looked for in each of them.
            which, size = -1, np.int64(-1)
            for j in range(first, last):
                if lists[j] < 0:
                    which = -1
                    break
                length = list_off[lists[j] + 1] - list_off[lists[j]]
                if which < 0 or length < size:
                    which, size = lists[j], length
            if which >= 0:
                wanted = q_kw[first:last] if last - first > 1 else wanted
                _search(
                    which, at_x[q], at_y[q], k, wanted, list_off, box, side, first_cell, start, row, x, y, kw_off, kw,
                    best, best_row,
                )  # fmt: skip
        out[q] = best[k - 1]
    return out


@kernel
def _enclosing(ball: Floats, rows: Ints, rect: Floats) -> None:
    """Write R, the rectangle that encloses the balls of some subscriptions."""
    rect[0], rect[1], rect[2], rect[3] = np.inf, np.inf, -np.inf, -np.inf
    for row in rows:
        rect[0], rect[1] = min(rect[0], ball[row, 0]), min(rect[1], ball[row, 1])
        rect[2], rect[3] = max(rect[2], ball[row, 2]), max(rect[3], ball[row, 3])


@kernel
def _subset_count(
    rows: Ints, ball: Floats, s_off: Offsets, s_list: Ints, rect: Floats, words: Ints, each: Ints, list_off: Ints,
    box: Floats, side: Ints, first_cell: Ints, start: Ints, x: Floats, y: Floats,
) -> int:  # fmt: skip
    """Return C(S_r) * |O_init| (Equation 6), and leave C(s) * |O_init| of each row in `each`, where there is room for it.

    A keyword is counted once however many subscriptions have it.
    """
    _enclosing(ball, rows, rect)
    count = 0
    for row in rows:
        count += s_off[row + 1] - s_off[row]
    total, known, plain = 0, np.int64(-1), -1
    wants_each = len(each) >= len(rows)
    if wants_each:
        each[: len(rows)] = 0
    # Pairs of list and place among the rows, by list: one look at the rectangle for each run.
    pairs = words[:count]
    at = 0
    for place in range(len(rows)):
        row = rows[place]
        if s_off[row] == s_off[row + 1]:
            if plain < 0:
                plain = _count(
                    rect[0], rect[1], rect[2], rect[3], len(list_off) - 2, list_off, box, side, first_cell, start, x, y
                )  # fmt: skip
            total += plain
            if wants_each:
                each[place] = plain
        for i in range(s_off[row], s_off[row + 1]):
            if s_list[i] >= 0:
                pairs[at] = (s_list[i] << 32) | place
                at += 1
    pairs = np.sort(pairs[:at])
    held = 0
    for pair in pairs:
        if pair >> 32 != known:
            known = pair >> 32
            held = _count(
                rect[0], rect[1], rect[2], rect[3], known, list_off, box, side, first_cell, start, x, y
            )  # fmt: skip
        total += held
        if wants_each:
            each[pair & 0xFFFFFFFF] += held
    return total


@kernel
def _dealt(each: Ints, part: NDArray[np.int8]) -> None:
    """Deal a subset out to four parts by the greedy algorithm (HYBRID-PARTITION), the dearest subscription first."""
    load, held = np.zeros(4, np.int64), np.zeros(4, np.int64)
    for place in np.argsort(-each, kind="mergesort"):
        least = 0
        for other in range(1, 4):
            if load[other] < load[least] or (load[other] == load[least] and held[other] < held[least]):
                least = other
        part[place] = least
        load[least] += each[place]
        held[least] += 1


@kernel
def _sorted_out(rows: Ints, part: NDArray[np.int8], scratch: Ints, ends: Ints) -> None:
    """Put rows in the order of their parts, and say where each part ends."""
    at = 0
    for which in range(4):
        for place in range(len(rows)):
            if part[place] == which:
                scratch[at] = rows[place]
                at += 1
        ends[which] = at
    rows[:] = scratch[: len(rows)]


@kernel
def partitioned(
    at_x: Floats, at_y: Floats, ball: Floats, s_off: Offsets, s_list: Ints, space: Floats, subsets: int,
    hybrid_at_most: int, max_depth: int, list_off: Ints, box: Floats, side: Ints, first_cell: Ints, start: Ints,
    x: Floats, y: Floats,
) -> tuple[Ints, Ints]:  # fmt: skip
    """Divide subscriptions into at least so many subsets (Algorithm 2); return their rows, and where each subset begins.

    A subset is a range of `rows`. Costs are counts of objects, whole numbers, so that sums are exact and C_s < C_h is decided
    as written.
    """
    count = len(at_x)
    rows, scratch, part = np.arange(count), np.empty(count, np.int64), np.empty(count, np.int8)
    words = np.empty(max(s_off[-1], 1), np.int64)
    each = np.empty(max(hybrid_at_most, 1), np.int64)
    none = np.empty(0, np.int64)
    rect, ends, hybrid_ends = np.empty(4), np.zeros(5, np.int64), np.zeros(5, np.int64)
    costs, hybrid_costs = np.zeros(4, np.int64), np.zeros(4, np.int64)
    room = min(subsets, count) + 4
    begin, end, depth = np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room, np.int64)
    region = np.empty((room, 4))
    begin[0], end[0], depth[0] = 0, count, 0
    region[0] = space
    heap = [(np.int64(0), np.int64(0), np.int64(0))]  # (-cost, when it was made, slot)
    slots, number, single = 1, 0, 0
    done = np.empty(room, np.int64)
    while len(heap) > 0 and len(heap) + single < subsets:
        _, _, slot = heapq.heappop(heap)
        first, last, deep = begin[slot], end[slot], depth[slot]
        if last - first == 1:
            done[single] = slot
            single += 1
            continue
        own, kind = rows[first:last], part[: last - first]
        low_x, low_y, high_x, high_y = region[slot]
        mid_x, mid_y = low_x / 2 + high_x / 2, low_y / 2 + high_y / 2
        by_space = deep < max_depth
        if by_space:
            for place in range(len(own)):
                kind[place] = (at_x[own[place]] >= mid_x) + 2 * (at_y[own[place]] >= mid_y)
            _sorted_out(own, kind, scratch, ends)
            for which in range(4):
                before = 0 if which == 0 else ends[which - 1]
                costs[which] = 0
                if ends[which] > before:
                    costs[which] = _subset_count(
                        own[before : ends[which]], ball, s_off, s_list, rect, words, none, list_off, box, side,
                        first_cell, start, x, y,
                    )  # fmt: skip
        if not by_space or len(own) <= hybrid_at_most:
            if len(each) < len(own):
                each = np.empty(len(own), np.int64)
            quarters = own.copy()
            # Subscriptions of equal cost are dealt out in the order of their rows, however they were cut before.
            own.sort()
            _subset_count(
                own, ball, s_off, s_list, rect, words, each, list_off, box, side, first_cell, start, x, y
            )  # fmt: skip
            _dealt(each[: len(own)], kind)
            _sorted_out(own, kind, scratch, hybrid_ends)
            for which in range(4):
                before = 0 if which == 0 else hybrid_ends[which - 1]
                hybrid_costs[which] = 0
                if hybrid_ends[which] > before:
                    hybrid_costs[which] = _subset_count(
                        own[before : hybrid_ends[which]], ball, s_off, s_list, rect, words, none, list_off, box, side,
                        first_cell, start, x, y,
                    )  # fmt: skip
            if by_space and costs.sum() < hybrid_costs.sum():
                own[:] = quarters
            else:
                by_space = False
                costs[:], ends[:] = hybrid_costs, hybrid_ends
        reused = False
        for which in range(4):
            before = 0 if which == 0 else ends[which - 1]
            if ends[which] == before:
                continue
            # The first part takes the place of what was divided.
            place = slots if reused else int(slot)
            slots, reused = slots + reused, True
            begin[place], end[place], depth[place] = first + before, first + ends[which], deep + 1
            region[place] = (low_x, low_y, high_x, high_y)
            if by_space:
                region[place, 2 if which % 2 == 0 else 0] = mid_x
                region[place, 3 if which < 2 else 1] = mid_y
            number += 1
            heapq.heappush(heap, (-costs[which], np.int64(number), np.int64(place)))
    first_rows = np.empty(len(heap) + single, np.int64)
    for place in range(len(heap)):
        first_rows[place] = begin[heap[place][2]]
    for place in range(single):
        first_rows[len(heap) + place] = begin[done[place]]
    return rows, np.sort(first_rows)
