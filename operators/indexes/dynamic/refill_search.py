"""The search of the keyword grids: the best objects for a query that are worse than some it has already.

Keywords go rare first. An object is met through each keyword that it shares, and counts through the first of these; what both
can have in common from there on is S, the sum of idf^2 over the keyword and those after it, so that

    cosine <= min(S / |o|, sqrt(S)) / |q|

The cells of a keyword are looked at ring by ring, from the query outwards. As soon as enough are found, the worst of them is
what others must come up to: cells that cannot, by their distance and their largest 1 / |o|, are passed over, and a keyword is
done with the first ring that cannot. Cells, then their objects, then scores go in lots, so that many misses overlap.
"""

from typing import Any

import numpy as np

from operators.indexes.dynamic.distances import apart
from operators.indexes.dynamic.worst_heap import rise, sift, worse
from streams.kernel import kernel
from streams.prefetch import prefetch

__all__ = ["likeness", "search"]

_BASE, _LEVEL, _HELD = range(3)
_SLOT = 3
_LENGTH = 0xFFFFFF
_X, _Y, _NORM = range(3)
_COUNT, _FIRST, _INLINE = 6, 7, 9
#: What float32 may lose of a place or a weight.
_EPS = 4e-6
_UP = 1.000001
#: Cells and objects of a lot.
_CELLS, _OBJECTS = 32, 64


@kernel
def _likeness(o: int, through: int, weights: Any, position: Any, lines: Any, parts: Any, long: Any, idf: Any) -> float:
    """Return the cosine of an object as `streams.scoring` has it, or -1 if it is met through an earlier keyword too."""
    count, norm, total = parts[o, _COUNT], lines[o, _NORM], 0.0
    for i in range(count):
        word = parts[o, _FIRST + i] if count <= _INLINE else long[parts[o, _FIRST] + i]
        place = position[word]
        if place > 0:
            if place <= through:
                return -1.0
            total += (idf[word] / norm) * weights[place - 1]
    return total


@kernel
def _prepare(
    begin: int, stop: int, norm: float, words: Any, grids: Any, idf: Any, order: Any, weights: Any, position: Any
) -> int:
    """Put the words of a query that objects have in order, rare first, and note their places; return how many there are."""
    count = 0
    for j in range(begin, stop):
        word = words[j]
        if word < 0 or grids[word, _HELD] == 0:
            continue
        i = count
        while i > 0 and grids[order[i - 1], _HELD] > grids[word, _HELD]:
            order[i] = order[i - 1]
            i -= 1
        order[i] = word
        count += 1
    for i in range(count):
        position[order[i]] = i + 1
        weights[i] = idf[order[i]] / norm
    return count


@kernel
def likeness(
    norms: Any, off: Any, words: Any, lines: Any, parts: Any, long: Any, idf: Any, grids: Any, position: Any, out_off: Any,
    objects: Any, out: Any,
) -> None:  # fmt: skip
    """Write the cosines of queries and the objects that were found for them."""
    for q in range(norms.shape[0]):
        begin, stop = off[q], off[q + 1]
        order, weights = np.empty(stop - begin, np.int32), np.empty(stop - begin)
        count = _prepare(begin, stop, norms[q], words, grids, idf, order, weights, position)
        for p in range(out_off[q], out_off[q + 1]):
            out[p] = _likeness(objects[p], 0, weights, position, lines, parts, long, idf)
        for i in range(count):
            position[order[i]] = 0


@kernel
def search(
    first: int, floors: Any, places: Any, spots: Any, alphas: Any, norms: Any, off: Any, words: Any, limits: Any,
    limits_seen: Any, wanted: Any, lines: Any, parts: Any, long: Any, idf: Any, first_seen: Any, grids: Any, heads: Any,
    peaks: Any, records: Any, slots: Any, position: Any, max_distance: float, diagonal: float, globe: bool, out_off: Any,
    scores: Any, seen: Any, objects: Any, whole: Any, tally: Any,
) -> int:  # fmt: skip
    """Write the best objects of queries, in no order, from the first on; return how many queries there was room for.

    Wanted are so many that come after (limit, seen). `whole` tells of a query that these are all there are. Words are
    those of the objects, ids ascending, -1 where no object has one. Floors are guesses: what is below is not looked at, unless
    too few are found, and then again with a lower one.
    """
    order = np.empty(64, np.int32)
    order_weights = np.empty(64)
    lot, waiting = np.empty(_CELLS, np.int64), np.empty(_OBJECTS, np.int32)
    end = out_off[first]
    for q in range(first, places.shape[0]):
        if end + wanted[q] > scores.shape[0]:
            return q
        begin, stop = off[q], off[q + 1]
        if stop - begin > order.shape[0]:
            order, order_weights = np.empty(stop - begin, np.int32), np.empty(stop - begin)
        count, total = _prepare(begin, stop, norms[q], words, grids, idf, order, order_weights, position), 0.0
        for i in range(count):
            total += idf[order[i]] * idf[order[i]]
        mine, mine_seen, mine_objects = (
            scores[end : end + wanted[q]], seen[end : end + wanted[q]], objects[end : end + wanted[q]],
        )  # fmt: skip
        alpha, x, y = alphas[q], places[q, 0], places[q, 1]
        floor = floors[q]
        while True:
            rest, found = total, 0
            for i in range(count):
                found = _through(
                    i, order[i], floor, rest * _UP, alpha, norms[q], x, y, spots[q, 0], spots[q, 1], limits[q],
                    limits_seen[q], order_weights, found, mine, mine_seen, mine_objects, lines, parts, long, idf,
                    first_seen, grids, heads, peaks, records, slots, position, max_distance, diagonal, globe, lot, waiting,
                    tally,
                )  # fmt: skip
                rest -= idf[order[i]] * idf[order[i]]
            if found == wanted[q] or floor == -np.inf:
                break
            floor = floor - 3.0 * (limits[q] - floor) if floor > 0.0 and limits[q] > floor else -np.inf
        for i in range(count):
            position[order[i]] = 0
        whole[q] = found < wanted[q]
        end += found
        out_off[q + 1] = end
    return int(places.shape[0])


@kernel
def _through(
    through: int, word: int, floor: float, rest: float, alpha: float, norm: float, x: float, y: float, spot_x: float,
    spot_y: float, limit: float, limit_seen: int, weights: Any, found: int, scores: Any, seen: Any, objects: Any, lines: Any,
    parts: Any, long: Any, idf: Any, first_seen: Any, grids: Any, heads: Any, peaks: Any, records: Any, slots: Any,
    position: Any, max_distance: float, diagonal: float, globe: bool, lot: Any, waiting: Any, tally: Any,
) -> int:  # fmt: skip
    """Look at the objects of one keyword; return how many are found by then."""
    base, side = grids[word, _BASE], 1 << grids[word, _LEVEL]
    width = 1.0 / side
    column, row = min(int(spot_x * side), side - 1), min(int(spot_y * side), side - 1)
    inner = min(
        min(spot_x - column * width, (column + 1) * width - spot_x),
        min(spot_y - row * width, (row + 1) * width - spot_y),
    )
    text, most, near = (1.0 - alpha) / norm, np.sqrt(rest) * _UP, alpha / diagonal
    best = text * min(rest / idf[word] * _UP, most)
    wanted, chosen = scores.shape[0], 0
    for ring in range(side):
        least = scores[0] if found == wanted else floor
        slack = alpha + _EPS - least
        if ring > 0 and near * (inner + (ring - 1) * width) > best + slack:
            break
        if best + slack < 0.0:
            break
        low_y, high_y = row - ring, row + ring
        if low_y < 0 and high_y >= side and column - ring < 0 and column + ring >= side:
            break
        for cx in range(max(column - ring - 1, 0), min(column + ring + 1, side - 1) + 1, 16):
            prefetch(peaks, base + max(low_y - 1, 0) * side + cx)
            prefetch(peaks, base + min(high_y + 1, side - 1) * side + cx)
        for cy in range(max(low_y, 0), min(high_y, side - 1) + 1):
            step = 1 if cy in (low_y, high_y) else max(2 * ring, 1)
            for cx in range(column - ring, column + ring + 1, step):
                if cx < 0 or cx >= side:
                    continue
                cell = base + cy * side + cx
                peak = peaks[cell]
                tally[0] += 1
                if peak == 0.0:
                    continue
                gap = text * min(rest * peak * _UP, most) + slack
                dx = max(0.0, max(cx * width - spot_x, spot_x - (cx + 1) * width))
                dy = max(0.0, max(cy * width - spot_y, spot_y - (cy + 1) * width))
                if gap < 0.0 or (dx * dx + dy * dy) * near * near > gap * gap:
                    continue
                prefetch(heads, cell)
                lot[chosen] = cell
                chosen += 1
                if chosen == _CELLS:
                    found = _in_cells(
                        chosen, through, floor, rest, alpha, text, most, near, x, y, spot_x, spot_y, limit, limit_seen,
                        weights, found, scores, seen, objects, lines, parts, long, idf, first_seen, heads, records, slots,
                        position, max_distance, globe, lot, waiting, tally,
                    )  # fmt: skip
                    chosen = 0
        if chosen > 0:
            found = _in_cells(
                chosen, through, floor, rest, alpha, text, most, near, x, y, spot_x, spot_y, limit, limit_seen, weights, found,
                scores, seen, objects, lines, parts, long, idf, first_seen, heads, records, slots, position, max_distance,
                globe, lot, waiting, tally,
            )  # fmt: skip
            chosen = 0
    return found


@kernel
def _in_cells(
    chosen: int, through: int, floor: float, rest: float, alpha: float, text: float, most: float, near: float, x: float,
    y: float, spot_x: float, spot_y: float, limit: float, limit_seen: int, weights: Any, found: int, scores: Any, seen: Any,
    objects: Any, lines: Any, parts: Any, long: Any, idf: Any, first_seen: Any, heads: Any, records: Any, slots: Any,
    position: Any, max_distance: float, globe: bool, lot: Any, waiting: Any, tally: Any,
) -> int:  # fmt: skip
    """Look at the objects of a lot of cells; return how many are found by then."""
    for c in range(chosen):
        lot[c] = heads[lot[c]]
        for p in range(lot[c] >> 32, (lot[c] >> 32) + (lot[c] & _LENGTH), 4):
            prefetch(records, 4 * p)
    count = 0
    for c in range(chosen):
        start, length = lot[c] >> 32, lot[c] & _LENGTH
        tally[0] += length
        least = scores[0] if found == scores.shape[0] else floor
        for p in range(start, start + length):
            gap = text * min(rest * records[p, 2] * _UP, most) + alpha + _EPS - least
            dx, dy = records[p, 0] - spot_x, records[p, 1] - spot_y
            if gap < 0.0 or (dx * dx + dy * dy) * near * near > gap * gap:
                continue
            o = slots[p, _SLOT]
            prefetch(lines, 8 * np.int64(o))
            prefetch(first_seen, o)
            waiting[count] = o
            count += 1
            if count == _OBJECTS:
                found = _scored(
                    count, through, floor, alpha, x, y, limit, limit_seen, weights, found, scores, seen, objects, lines,
                    parts, long, idf, first_seen, position, max_distance, globe, waiting,
                )  # fmt: skip
                count = 0
                least = scores[0] if found == scores.shape[0] else floor
    return int(_scored(
        count, through, floor, alpha, x, y, limit, limit_seen, weights, found, scores, seen, objects, lines, parts, long, idf,
        first_seen, position, max_distance, globe, waiting,
    ))  # fmt: skip


@kernel
def _scored(
    count: int, through: int, floor: float, alpha: float, x: float, y: float, limit: float, limit_seen: int, weights: Any,
    found: int, scores: Any, seen: Any, objects: Any, lines: Any, parts: Any, long: Any, idf: Any, first_seen: Any,
    position: Any, max_distance: float, globe: bool, waiting: Any,
) -> int:  # fmt: skip
    """Keep the best of a lot of objects; return how many are found by then."""
    for i in range(count):
        o = waiting[i]
        alike = _likeness(o, through, weights, position, lines, parts, long, idf)
        if alike < 0.0:
            continue
        far = apart(lines[o, _X], lines[o, _Y], x, y, globe)
        score, since = alpha * (1.0 - far / max_distance) + (1.0 - alpha) * alike, first_seen[o]
        if score < floor or not worse(score, since, limit, limit_seen):
            continue
        if found < scores.shape[0]:
            scores[found], seen[found], objects[found] = score, since, o
            rise(scores, seen, objects, found)
            found += 1
        elif worse(scores[0], seen[0], score, since):
            scores[0], seen[0], objects[0] = score, since, o
            sift(scores, seen, objects, found)
    return found
