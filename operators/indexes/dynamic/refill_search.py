"""The search of the keyword grids: the best objects for a query that are worse than some it has already.

Keywords go rare first. An object is met through each keyword that it shares, and counts through the first of these; what both
can have in common from there on is S, the sum of idf^2 over the keyword and those after it, so that

    cosine <= min(S / |o|, sqrt(S)) / |q|

The cells of a keyword are looked at ring by ring, from the query outwards. As soon as enough are found, the worst of them is
what others must come up to: cells that cannot, by their distance and their largest 1 / |o|, are passed over, and a keyword is
done with the first ring that cannot.
"""

from typing import Any

import numpy as np

from streams.kernel import kernel

__all__ = ["search"]

_BASE, _LEVEL, _HELD = range(3)
_SLOT = 3
_LENGTH = 0xFFFFFF
_X, _Y, _NORM = range(3)
_COUNT, _FIRST, _INLINE = 6, 7, 9
#: What float32 may lose of a place or a weight.
_EPS = 4e-6
_UP = 1.000001


@kernel
def _worse(score: float, seen: int, other: float, other_seen: int) -> bool:
    return score < other or (score == other and seen > other_seen)


@kernel
def _sift(scores: Any, seen: Any, objects: Any, count: int) -> None:
    """Let the first of a heap, whose root is the worst, sink to its place."""
    i = 0
    while True:
        child = 2 * i + 1
        if child >= count:
            return
        if child + 1 < count and _worse(scores[child + 1], seen[child + 1], scores[child], seen[child]):
            child += 1
        if not _worse(scores[child], seen[child], scores[i], seen[i]):
            return
        scores[i], scores[child] = scores[child], scores[i]
        seen[i], seen[child] = seen[child], seen[i]
        objects[i], objects[child] = objects[child], objects[i]
        i = child


@kernel
def _rise(scores: Any, seen: Any, objects: Any, i: int) -> None:
    """Let an entry of a heap rise to its place."""
    while i > 0:
        parent = (i - 1) // 2
        if not _worse(scores[i], seen[i], scores[parent], seen[parent]):
            return
        scores[i], scores[parent] = scores[parent], scores[i]
        seen[i], seen[parent] = seen[parent], seen[i]
        objects[i], objects[parent] = objects[parent], objects[i]
        i = parent


@kernel
def _score(
    o: int, through: int, alpha: float, x: float, y: float, max_distance: float, weights: Any, position: Any,
    lines: Any, parts: Any, long: Any, idf: Any,
) -> float:  # fmt: skip
    """Return the score of an object as `streams.scoring` has it, or -inf if it is met through an earlier keyword too."""
    count, norm, total = parts[o, _COUNT], lines[o, _NORM], 0.0
    for i in range(count):
        word = parts[o, _FIRST + i] if count <= _INLINE else long[parts[o, _FIRST] + i]
        place = position[word]
        if place > 0:
            if place <= through:
                return -np.inf
            total += (idf[word] / norm) * weights[place - 1]
    dx, dy = lines[o, _X] - x, lines[o, _Y] - y
    return float(alpha * (1.0 - np.sqrt(dx * dx + dy * dy) / max_distance) + (1.0 - alpha) * total)


@kernel
def search(
    first: int, floors: Any, places: Any, spots: Any, alphas: Any, norms: Any, off: Any, words: Any, limits: Any,
    limits_seen: Any, wanted: Any, lines: Any, parts: Any, long: Any, idf: Any, first_seen: Any, grids: Any, heads: Any,
    peaks: Any, records: Any, slots: Any, position: Any, max_distance: float, diagonal: float, out_off: Any, scores: Any,
    seen: Any, objects: Any, whole: Any, tally: Any,
) -> int:  # fmt: skip
    """Write the best objects of queries, in no order, from the first on; return how many queries there was room for.

    Wanted are so many that come after (limit, seen). `whole` tells of a query that these are all there are. Words are
    those of the objects, ids ascending, -1 where no object has one. Floors are guesses: what is below is not looked at, unless
    too few are found, and then again with a lower one.
    """
    order = np.empty(64, np.int32)
    order_weights = np.empty(64)
    end = out_off[first]
    for q in range(first, places.shape[0]):
        if end + wanted[q] > scores.shape[0]:
            return q
        begin, stop = off[q], off[q + 1]
        if stop - begin > order.shape[0]:
            order, order_weights = np.empty(stop - begin, np.int32), np.empty(stop - begin)
        count = 0
        for j in range(begin, stop):  # rare first
            word = words[j]
            if word < 0 or grids[word, _HELD] == 0:
                continue
            i = count
            while i > 0 and grids[order[i - 1], _HELD] > grids[word, _HELD]:
                order[i] = order[i - 1]
                i -= 1
            order[i] = word
            count += 1
        total = 0.0
        for i in range(count):
            word = order[i]
            position[word] = i + 1
            order_weights[i] = idf[word] / norms[q]
            total += idf[word] * idf[word]
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
                    first_seen, grids, heads, peaks, records, slots, position, max_distance, diagonal, tally,
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
    position: Any, max_distance: float, diagonal: float, tally: Any,
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
    wanted = scores.shape[0]
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
                least = scores[0] if found == wanted else floor
                gap = text * min(rest * peak * _UP, most) + alpha + _EPS - least
                dx = max(0.0, max(cx * width - spot_x, spot_x - (cx + 1) * width))
                dy = max(0.0, max(cy * width - spot_y, spot_y - (cy + 1) * width))
                if gap < 0.0 or (dx * dx + dy * dy) * near * near > gap * gap:
                    continue
                head = heads[cell]
                start, length = head >> 32, head & _LENGTH
                tally[0] += length
                for p in range(start, start + length):
                    least = scores[0] if found == wanted else floor
                    gap = text * min(rest * records[p, 2] * _UP, most) + alpha + _EPS - least
                    dx, dy = records[p, 0] - spot_x, records[p, 1] - spot_y
                    if gap < 0.0 or (dx * dx + dy * dy) * near * near > gap * gap:
                        continue
                    o = slots[p, _SLOT]
                    score = _score(o, through, alpha, x, y, max_distance, weights, position, lines, parts, long, idf)
                    since = first_seen[o]
                    if score < floor or score == -np.inf or not _worse(score, since, limit, limit_seen):
                        continue
                    if found < wanted:
                        scores[found], seen[found], objects[found] = score, since, o
                        _rise(scores, seen, objects, found)
                        found += 1
                    elif _worse(scores[0], seen[0], score, since):
                        scores[0], seen[0], objects[0] = score, since, o
                        _sift(scores, seen, objects, found)
    return found
