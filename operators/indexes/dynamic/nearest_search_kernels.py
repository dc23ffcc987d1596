"""The search of the keyword grids for the nearest objects of a query that are farther than some it has already.

A query for any of its keywords goes through the grids of all of them, rare ones first, and an object that is met through
several counts through the first; one that wants all goes through the rarest; one without keywords through that of every
object. Cells are looked at ring by ring, from the query outwards, until a ring is farther than the worst of what is wanted.

Scores are negative distances, so that the largest is the best, as everywhere. Places of records are in the unit square and no
farther apart than `unit` says: that is a bound from below, and in the plane, up to what float32 loses, from above too.
"""

from typing import Any

import numpy as np

from operators.indexes.dynamic.distances import apart
from operators.indexes.dynamic.worst_heap import rise, sift, worse
from streams.kernel import kernel
from streams.prefetch import prefetch

__all__ = ["search_nearest"]

_BASE, _LEVEL, _HELD = range(3)
_SLOT = 3
_LENGTH = 0xFFFFFF
_X, _Y = range(2)
_COUNT, _FIRST, _INLINE = 6, 7, 9
_EVERY_OBJECT = 0
#: What float32 may lose of a distance in the unit square.
_LOST = 1e-7
#: Cells of a lot, whose records are asked for together.
_CELLS = 16


@kernel
def _prepare(begin: int, stop: int, every: bool, words: Any, grids: Any, order: Any, position: Any) -> int:
    """Put the words of a query in order, rare ones first, and note their places; return how many grids it goes through.

    Words that no object has are left out; where all are wanted, one of these leaves nothing to go through.
    """
    if stop == begin:
        order[0] = _EVERY_OBJECT
        return 1 if grids[_EVERY_OBJECT, _HELD] > 0 else 0
    count = 0
    for j in range(begin, stop):
        word = words[j]
        if word < 0 or grids[word, _HELD] == 0:
            if every:
                return 0
            continue
        i = count
        while i > 0 and grids[order[i - 1], _HELD] > grids[word, _HELD]:
            order[i] = order[i - 1]
            i -= 1
        order[i] = word
        count += 1
    for i in range(count):
        position[order[i]] = i + 1
    return min(count, 1) if every else count


@kernel
def _fits(o: int, through: int, needed: int, position: Any, parts: Any, long: Any) -> bool:
    """Tell whether an object has so many of the query's words, none that is excluded, and none that it is met by before."""
    count, shared = parts[o, _COUNT], 0
    for i in range(count):
        place = position[parts[o, _FIRST + i] if count <= _INLINE else long[parts[o, _FIRST] + i]]
        if place < 0 or 0 < place <= through:
            return False
        if place > 0:
            shared += 1
    return shared >= needed


@kernel
def search_nearest(
    first: int, places: Any, spots: Any, off: Any, words: Any, every: Any, none_off: Any, none: Any, limits: Any,
    limits_seen: Any, wanted: Any, lines: Any, parts: Any, long: Any, first_seen: Any, grids: Any, heads: Any, records: Any,
    slots: Any, position: Any, unit: float, globe: bool, out_off: Any, scores: Any, seen: Any, objects: Any, whole: Any,
    tally: Any,
) -> int:  # fmt: skip
    """Write the nearest objects of queries, in no order, from the first on; return how many queries there was room for.

    Wanted are so many that come after (limit, seen). `whole` tells of a query that these are all there are. Words, and those
    that are excluded (`none`), are those of the objects, -1 where no object has one.
    """
    order, lot = np.empty(64, np.int32), np.empty(_CELLS, np.int64)
    end = out_off[first]
    for q in range(first, places.shape[0]):
        if end + wanted[q] > scores.shape[0]:
            return q
        begin, stop = off[q], off[q + 1]
        if stop - begin > order.shape[0]:
            order = np.empty(stop - begin, np.int32)
        count = _prepare(begin, stop, every[q], words, grids, order, position)
        needed = min(stop - begin, 1) if not every[q] else stop - begin
        for j in range(none_off[q], none_off[q + 1]):
            if none[j] >= 0:
                position[none[j]] = -1
        reads = needed > 0 or none_off[q + 1] > none_off[q]
        mine, mine_seen, mine_objects = (
            scores[end : end + wanted[q]], seen[end : end + wanted[q]], objects[end : end + wanted[q]],
        )  # fmt: skip
        found = 0
        for i in range(count):
            found = _through(
                i, order[i], needed, reads, places[q, 0], places[q, 1], spots[q, 0], spots[q, 1], limits[q], limits_seen[q],
                found, mine, mine_seen, mine_objects, lines, parts, long, first_seen, grids, heads, records, slots, position,
                unit, globe, lot, tally,
            )  # fmt: skip
        for j in range(begin, stop):
            if words[j] >= 0:
                position[words[j]] = 0
        for j in range(none_off[q], none_off[q + 1]):
            if none[j] >= 0:
                position[none[j]] = 0
        whole[q] = found < wanted[q]
        end += found
        out_off[q + 1] = end
    return int(places.shape[0])


@kernel
def _through(
    through: int, word: int, needed: int, reads: bool, x: float, y: float, spot_x: float, spot_y: float, limit: float,
    limit_seen: int, found: int, scores: Any, seen: Any, objects: Any, lines: Any, parts: Any, long: Any, first_seen: Any,
    grids: Any, heads: Any, records: Any, slots: Any, position: Any, unit: float, globe: bool, lot: Any, tally: Any,
) -> int:  # fmt: skip
    """Look at the objects of one keyword; return how many are found by then."""
    base, side = grids[word, _BASE], 1 << grids[word, _LEVEL]
    width = 1.0 / side
    column, row = min(int(spot_x * side), side - 1), min(int(spot_y * side), side - 1)
    inner = min(
        min(spot_x - column * width, (column + 1) * width - spot_x),
        min(spot_y - row * width, (row + 1) * width - spot_y),
    )
    wanted, chosen = scores.shape[0], 0
    known = -1.0 if globe else -limit / unit - _LOST  # what is nearer than that, it has already
    for ring in range(side):
        if ring > 0 and found == wanted and inner + (ring - 1) * width - _LOST > -scores[0] / unit:
            break
        low_y, high_y = row - ring, row + ring
        if low_y < 0 and high_y >= side and column - ring < 0 and column + ring >= side:
            break
        for cy in range(max(low_y, 0), min(high_y, side - 1) + 1):
            step = 1 if cy in (low_y, high_y) else max(2 * ring, 1)
            for cx in range(column - ring, column + ring + 1, step):
                if cx < 0 or cx >= side:
                    continue
                cell = base + cy * side + cx
                tally[0] += 1
                if heads[cell] & _LENGTH == 0:
                    continue
                if known > 0.0:
                    dx = max(abs(cx * width - spot_x), abs((cx + 1) * width - spot_x))
                    dy = max(abs(cy * width - spot_y), abs((cy + 1) * width - spot_y))
                    if dx * dx + dy * dy < known * known:
                        continue
                for p in range(heads[cell] >> 32, (heads[cell] >> 32) + (heads[cell] & _LENGTH), 4):
                    prefetch(records, 4 * p)
                lot[chosen] = heads[cell]
                chosen += 1
                if chosen == _CELLS:
                    found = _in_cells(
                        chosen, through, needed, reads, x, y, spot_x, spot_y, limit, limit_seen, known, found, scores, seen,
                        objects, lines, parts, long, first_seen, records, slots, position, unit, globe, lot, tally,
                    )  # fmt: skip
                    chosen = 0
        found = _in_cells(
            chosen, through, needed, reads, x, y, spot_x, spot_y, limit, limit_seen, known, found, scores, seen, objects, lines,
            parts, long, first_seen, records, slots, position, unit, globe, lot, tally,
        )  # fmt: skip
        chosen = 0
    return found


@kernel
def _in_cells(
    chosen: int, through: int, needed: int, reads: bool, x: float, y: float, spot_x: float, spot_y: float, limit: float,
    limit_seen: int, known: float, found: int, scores: Any, seen: Any, objects: Any, lines: Any, parts: Any, long: Any,
    first_seen: Any, records: Any, slots: Any, position: Any, unit: float, globe: bool, lot: Any, tally: Any,
) -> int:  # fmt: skip
    """Keep the nearest of the objects of some cells; return how many are found by then."""
    wanted = scores.shape[0]
    reach = -scores[0] / unit + _LOST if found == wanted else np.inf
    for c in range(chosen):
        start, length = lot[c] >> 32, lot[c] & _LENGTH
        tally[0] += length
        for p in range(start, start + length):
            dx, dy = records[p, 0] - spot_x, records[p, 1] - spot_y
            square = dx * dx + dy * dy
            if square > reach * reach or (known > 0.0 and square < known * known):
                continue
            o = slots[p, _SLOT]
            if reads and not _fits(o, through, needed, position, parts, long):
                continue
            score, since = -apart(lines[o, _X], lines[o, _Y], x, y, globe), first_seen[o]
            if not worse(score, since, limit, limit_seen):
                continue
            if found < wanted:
                scores[found], seen[found], objects[found] = score, since, o
                rise(scores, seen, objects, found)
                found += 1
            elif worse(scores[0], seen[0], score, since):
                scores[0], seen[0], objects[0] = score, since, o
                sift(scores, seen, objects, found)
            if found == wanted:
                reach = -scores[0] / unit + _LOST
    return found
