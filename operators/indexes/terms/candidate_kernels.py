"""Counting the terms of a region and a range of rows, and keeping candidates; layout and safety.

*Objects.* Row r (relative to a base that is a multiple of the largest block) has the words
``words[word_off[r]:word_off[r + 1]]``. Level l divides the rows into blocks of ``geometry[l, SIZE]``; within each,
objects stand in the order of the cells of a grid of ``geometry[l, SIDE]`` squared: ``points[l, p]`` is (x, y, row),
with ``starts`` of cell c of block b at ``geometry[l, AT] + b * (SIDE * SIDE + 1) + c``, relative to the block. Up to
``geometry[l, SEALED]`` rows are sorted on level l; on level 0 all are. A range of rows is divided into the largest
blocks that fit, and looked at with a test of rows at its two ends only.

*Candidates* of slot q are ``cand[at[q]:at[q] + held[q]]`` (word, count), at most ``room[q]``; held < 0: none. No other
term has a count above ``bound[q]`` over the rows ``since[q]`` to ``upto[q]``. When the range moves on, what enters and
leaves is counted: candidates stay exact, and no other term can have gained more than the largest gain among terms that
are no candidates; while the bound is 0 every term is a candidate, and new ones become candidates as long as there is
room. If the kth count of the candidates is above the bound, the k largest of all terms, with all that are tied, are
among them. If it is not, the region is enumerated anew.
"""

import math
from typing import Any

import numpy as np

from operators.indexes.core.query_table import ANY, KIND
from operators.indexes.core.residuals import admitted
from streams.geometry import REGION_CIRCLE, REGION_POLYGON, REGION_RECT
from streams.kernel import kernel
from streams.prefetch import prefetch

__all__ = ["AT", "SEALED", "SIDE", "SIZE", "count_terms", "sort_block"]

#: Columns of `geometry`.
SIZE, SIDE, AT, SEALED = 0, 1, 2, 3

#: How far ahead words are asked for.
_AHEAD = 8

#: Two sides of a comparison that are nearer than this may be in the other order by the last bits of another library's sine.
_UNSURE = 1e-11

_RADIANS = math.pi / 180.0


@kernel
def _cell(value: Any, low: Any, per_unit: Any, side: Any) -> Any:
    place = (value - low) * per_unit
    return 0 if not place >= 1.0 else (side - 1 if place >= side else int(place))


@kernel
def sort_block(
    level: Any, first: Any, stop: Any, source: Any, geometry: Any, scale: Any, points: Any, starts: Any, spare: Any
) -> None:
    """Sort rows of one block by cell, from the places where another level (or the same) has them."""
    side = geometry[level, SIDE]
    low_x, low_y, per_x, per_y = scale[0], scale[1], scale[2] * side, scale[3] * side
    at = geometry[level, AT] + first // geometry[level, SIZE] * (side * side + 1)
    cells = side * side
    for c in range(cells + 1):
        starts[at + c] = 0
    for p in range(first, stop):
        i = p - first
        for part in range(3):
            spare[i, part] = points[source, p, part]
        starts[at + _cell(spare[i, 1], low_y, per_y, side) * side + _cell(spare[i, 0], low_x, per_x, side)] += 1
    total = 0
    for c in range(cells + 1):
        count = starts[at + c]
        starts[at + c] = total
        total += count
    for i in range(stop - first):
        c = at + _cell(spare[i, 1], low_y, per_y, side) * side + _cell(spare[i, 0], low_x, per_x, side)
        p = first + starts[c]
        starts[c] += 1
        for part in range(3):
            points[level, p, part] = spare[i, part]
    for c in range(cells, 0, -1):  # each start has moved on to that of the next cell
        starts[at + c] = starts[at + c - 1]
    starts[at] = 0


@kernel
def _side_of_circle(x: Any, y: Any, a: Any, b: Any, half: Any) -> Any:
    """Tell whether a place on the earth is inside of a circle: 1, 0, or 2 where the last bits decide.

    `half` is the square of the sine of half the radius as an angle.
    """
    at_lat = b * _RADIANS
    lat = y * _RADIANS
    by_lat = math.sin((lat - at_lat) * 0.5)
    by_lon = math.sin((x - a) * _RADIANS * 0.5)
    h = by_lat * by_lat + math.cos(lat) * math.cos(at_lat) * (by_lon * by_lon)
    slack = _UNSURE * (half + h)
    if h < half - slack:
        return 1
    return 2 if h <= half + slack else 0


@kernel
def _wanted(slot: Any, r: Any, traits: Any, kw: Any, pool: Any, term_of: Any, word_off: Any, words: Any) -> bool:
    """Tell whether an object has the keywords of a query that has some: one of them, or all."""
    more = kw[slot, 2] < -1
    head = np.int64(-2 - kw[slot, 2]) if more else 0
    either = bool(traits[slot] & ANY != 0)
    for nth in range(2 + pool[head] if more else 3):
        word = kw[slot, nth] if nth < 2 or not more else pool[head + nth - 1]
        if word <= 0:
            break
        term, there = term_of[word], False
        for p in range(word_off[r], word_off[r + 1]):
            if words[p] == term:
                there = True
                break
        if either == there:
            return either
    return not either


@kernel
def _free_of(none: Any, begin: Any, end: Any, r: Any, word_off: Any, words: Any) -> bool:
    """Tell whether an object has none of some terms."""
    for n in range(begin, end):
        for p in range(word_off[r], word_off[r + 1]):
            if words[p] == none[n]:
                return False
    return True


@kernel
def _divide(a: Any, b: Any, geometry: Any, blocks: Any) -> Any:
    """List the largest blocks that make up the rows from a on, as many as there is room for; return how many, and the next row.

    A block is its level, its first row, and whether all of its rows are meant.
    """
    count, p, top = 0, a, geometry.shape[0] - 1
    while p < b and count < blocks.shape[0]:
        level = 0
        for upper in range(top, 0, -1):
            size = geometry[upper, SIZE]
            if p % size == 0 and p + size <= b and p + size <= geometry[upper, SEALED]:
                level = upper
                break
        size = geometry[level, SIZE]
        first = p // size * size
        blocks[count, 0], blocks[count, 1] = level, first
        blocks[count, 2] = first >= a and (first + size <= b or b >= geometry[0, SEALED])
        count += 1
        p = first + size
    return count, p


@kernel
def _cells(slot: Any, level: Any, first: Any, box: Any, geometry: Any, scale: Any) -> Any:
    """Return where the starts of a block are, and the cells of a query's box in it: columns from and to, lines from and to."""
    side = geometry[level, SIDE]
    per_x, per_y = scale[2] * side, scale[3] * side
    head = geometry[level, AT] + first // geometry[level, SIZE] * (side * side + 1)
    left, right = _cell(box[slot, 0], scale[0], per_x, side), _cell(box[slot, 2], scale[0], per_x, side)
    return (
        head,
        side,
        left,
        right,
        _cell(box[slot, 1], scale[1], per_y, side),
        _cell(box[slot, 3], scale[1], per_y, side),
    )


@kernel
def _foresee(slot: Any, count: Any, blocks: Any, box: Any, geometry: Any, scale: Any, points: Any, starts: Any) -> None:
    """Ask for the starts of the cells of all blocks, then for their first objects: each would be waited for alone."""
    for n in range(count):
        head, side, left, _, low, high = _cells(slot, blocks[n, 0], blocks[n, 1], box, geometry, scale)
        for line in range(low, min(high, low + 3) + 1):
            prefetch(starts, head + line * side + left)
    row_size, level_size = np.int64(3), np.int64(3) * points.shape[1]
    for n in range(count):
        level, first = blocks[n, 0], blocks[n, 1]
        head, side, left, _, low, high = _cells(slot, level, first, box, geometry, scale)
        for line in range(low, min(high, low + 3) + 1):
            at = level * level_size + (first + starts[head + line * side + left]) * row_size
            prefetch(points, at)
            prefetch(points, at + 8)


@kernel
def _collect(
    slot: Any, a: Any, b: Any, on_earth: Any, box: Any, half: Any, shape: Any, traits: Any, kw: Any, pool: Any,
    term_of: Any, geometry: Any, scale: Any, points: Any, starts: Any, word_off: Any, words: Any, blocks: Any, found: Any,
    at: Any, tally: Any, residuals: Any, entry: Any, none: Any, none_begin: Any, none_end: Any,
) -> Any:  # fmt: skip
    """Write the rows from a to b that a query counts to `found`, from a place on; return the next place.

    -1: the last bits of a sine decide, which only `streams.geometry` may say.
    """
    kind = traits[slot] & KIND
    s0, s1, s2, s3 = shape[slot, 0], shape[slot, 1], shape[slot, 2], shape[slot, 3]
    begin, p = at, a
    while p < b:
        count, after = _divide(p, b, geometry, blocks)
        _foresee(slot, count, blocks, box, geometry, scale, points, starts)
        for n in range(count):
            level, first, inner = blocks[n, 0], blocks[n, 1], blocks[n, 2] != 0
            head, side, left, right, low, high = _cells(slot, level, first, box, geometry, scale)
            for line in range(low, high + 1):
                z, end = first + starts[head + line * side + left], first + starts[head + line * side + right + 1]
                tally[0] += end - z
                while z < end:
                    ox, oy, r = points[level, z, 0], points[level, z, 1], int(points[level, z, 2])
                    z += 1
                    if kind in (REGION_RECT, REGION_POLYGON):
                        inside = (ox >= s0) & (ox <= s2) & (oy >= s1) & (oy <= s3)
                    elif kind != REGION_CIRCLE:
                        inside = True
                    elif on_earth:
                        where = _side_of_circle(ox, oy, s0, s1, half[slot])
                        if where == 2 and (inner or (r >= a and r < b)):
                            return -1
                        inside = where == 1
                    else:
                        inside = (ox - s0) * (ox - s0) + (oy - s1) * (oy - s1) <= s2 * s2
                    if inside and (inner or (r >= a and r < b)):
                        # Objects have terms here, no keywords: what they must not have is looked at below.
                        if kind == REGION_POLYGON and not admitted(ox, oy, none, 0, 0, entry, *residuals):
                            continue
                        found[at] = r
                        at += 1
        p = after
    if kw[slot, 0] > 0:
        kept = begin
        for i in range(begin, at):
            if _wanted(slot, found[i], traits, kw, pool, term_of, word_off, words):
                found[kept] = found[i]
                kept += 1
        at = kept
    if none_end > none_begin:
        kept = begin
        for i in range(begin, at):
            if _free_of(none, none_begin, none_end, found[i], word_off, words):
                found[kept] = found[i]
                kept += 1
        at = kept
    tally[1] += at - begin
    return at


@kernel
def _add(found: Any, begin: Any, end: Any, word_off: Any, words: Any, acc: Any, touched: Any) -> Any:
    """Count the terms of objects; return how many different ones there are, which are listed in `touched`."""
    count = 0
    one = np.int32(1)
    for i in range(begin, end):
        if i + _AHEAD < end:
            ahead = word_off[found[i + _AHEAD]]
            prefetch(words, ahead)
            prefetch(words, ahead + 16)
        r = found[i]
        for p in range(word_off[r], word_off[r + 1]):
            w = words[p]
            before = acc[w]
            touched[count] = w  # always written, counted only if it is new: no branch
            count += before == 0
            acc[w] = before + one
    return count


@kernel
def _kth(touched: Any, terms: Any, acc: Any, hist: Any, k: Any) -> Any:
    """Return the kth largest count, 0 where there are fewer terms; `hist` is left with how many terms have each count.

    The largest count is returned too: so far `hist` is in use.
    """
    most = 0
    for j in range(terms):
        count = acc[touched[j]]
        hist[count] += 1
        most = max(most, count)
    seen, count = 0, most
    while count > 0:
        seen += hist[count]
        if seen >= k:
            return count, most
        count -= 1
    return 0, most


@kernel
def _enumerate(
    slot: Any, k: Any, whole: Any, terms: Any, acc: Any, touched: Any, hist: Any, cand: Any, at: Any, room: Any, held: Any,
    bound: Any, out_term: Any, out_count: Any, top: Any,
) -> Any:  # fmt: skip
    """Write an answer from the counts of a whole region, and keep candidates; the counts are reset. Return the next place."""
    kth, most = _kth(touched, terms, acc, hist, k)
    limit, more = most, 0  # so many terms have counts above the limit
    while limit > 0 and more + hist[limit] <= room[slot]:
        more += hist[limit]
        limit -= 1
    for count in range(most + 1):
        hist[count] = 0
    keep = whole and (limit == 0 or kth > limit + 1)
    place = at[slot]
    for j in range(terms):
        w = touched[j]
        count = acc[w]
        acc[w] = 0
        if count >= kth or not whole:
            out_term[top], out_count[top] = w, count
            top += 1
        if keep and count > limit:
            cand[place, 0], cand[place, 1] = w, count
            place += 1
    held[slot], bound[slot] = place - at[slot] if keep else -1, limit
    return top


@kernel
def _packed(cand: Any, first: Any, last: Any) -> Any:
    """Drop candidates that do not occur any more; return where they end."""
    kept = first
    for place in range(first, last):
        if cand[place, 1] > 0:
            cand[kept, 0], cand[kept, 1] = cand[place, 0], cand[place, 1]
            kept += 1
    return kept


@kernel
def _advance(
    slot: Any, k: Any, entered: Any, begin: Any, end: Any, found: Any, word_off: Any, words: Any, acc: Any, touched: Any,
    hist: Any, cand: Any, at: Any, room: Any, held: Any, bound: Any, out_term: Any, out_count: Any, top: Any,
) -> Any:  # fmt: skip
    """Let candidates take note of what entered (`entered` terms, counted) and left (rows of `found`); write the answer.

    Return the next place, or -1 where the bound has reached the kth count: then candidates are worth nothing any more.
    """
    for i in range(begin, end):
        if i + _AHEAD < end:
            ahead = word_off[found[i + _AHEAD]]
            prefetch(words, ahead)
            prefetch(words, ahead + 16)
        for p in range(word_off[found[i]], word_off[found[i] + 1]):
            acc[words[p]] -= 1
    first, last = at[slot], at[slot] + held[slot]
    for place in range(first, last):
        w = cand[place, 0]
        cand[place, 1] += acc[w]
        acc[w] = 0
    if bound[slot] == 0:  # nothing else occurs, so what is new can be counted as well, as far as there is room
        last = _packed(cand, first, last)
    gained = 0
    for j in range(entered):
        w = touched[j]
        if bound[slot] == 0 and acc[w] > 0 and last < first + room[slot]:
            cand[last, 0], cand[last, 1] = w, acc[w]
            last += 1
        else:
            gained = max(gained, acc[w])
        acc[w] = 0
    for i in range(begin, end):
        for p in range(word_off[found[i]], word_off[found[i] + 1]):
            acc[words[p]] = 0
    bound[slot] += gained
    held[slot] = last - first
    most = 0
    for place in range(first, last):
        hist[cand[place, 1]] += 1
        most = max(most, cand[place, 1])
    seen, kth = 0, most
    while kth > 0 and seen + hist[kth] < k:
        seen += hist[kth]
        kth -= 1
    for place in range(first, last):
        hist[cand[place, 1]] = 0
    if kth <= bound[slot] and bound[slot] > 0:
        return -1
    for place in range(first, last):
        if cand[place, 1] >= max(kth, 1):
            out_term[top], out_count[top] = cand[place, 0], cand[place, 1]
            top += 1
    return top


@kernel
def count_terms(
    start: Any, order: Any, slots: Any, begin: Any, end: Any, k: Any, whole: Any, base: Any, on_earth: Any, box: Any,
    half: Any, shape: Any, traits: Any, kw: Any, pool: Any, term_of: Any, geometry: Any, scale: Any, points: Any,
    starts: Any, word_off: Any, words: Any, cand: Any, at: Any, room: Any, held: Any, bound: Any, since: Any, upto: Any,
    blocks: Any, found: Any, acc: Any, touched: Any, hist: Any, out_off: Any, out_term: Any, out_count: Any, tally: Any,
    unsure: Any, entries: Any, residuals: Any, none_off: Any, none: Any,
) -> Any:  # fmt: skip
    """Answer ``order[start:]``; return how many of `order` are answered, and the room for items that the next one needs.

    `begin`, `end`: the range of rows of each answer, and `since`, `upto` that of candidates; rows before `base` are not
    known any more. `tally`: objects looked at, counted, and regions enumerated. ``unsure[i]``: the answer is empty,
    because the last bits of a sine decide. `entries` and `residuals` are the columns of `Residuals`, but keywords that must
    not occur are terms here: ``none[none_off[i]:none_off[i + 1]]``.
    """
    top = out_off[start]
    for n in range(start, order.shape[0]):
        i = order[n]
        slot = np.int64(slots[i])
        entry = entries[slot] if entries.shape[0] > 0 else 0
        if top + room[slot] > out_term.shape[0]:
            return n, top + room[slot]
        a, b, after = begin[i] - base, end[i] - base, -1
        left, right = since[slot] - base, upto[slot] - base
        known = whole[i] and held[slot] >= 0 and left >= 0 and a >= left and b >= right and a < right
        while after < 0:
            # What entered and what left, or all of it.
            entering, leaving = 0, 0
            for part in range(2 if known else 1):
                lower, upper = (left, a) if part == 1 else (right if known else a, b)
                leaving = _collect(
                    slot, lower, upper, on_earth, box, half, shape, traits, kw, pool, term_of, geometry, scale, points,
                    starts, word_off, words, blocks, found, leaving, tally, residuals, entry, none, none_off[i],
                    none_off[i + 1],
                )  # fmt: skip
                entering = entering if part == 1 else leaving
                if leaving < 0:
                    break
            unsure[i] = leaving < 0
            terms = _add(found, 0, entering if leaving >= 0 else 0, word_off, words, acc, touched)
            if unsure[i]:
                held[slot], after = -1, top
            elif known:
                after = _advance(
                    slot, k[i], terms, entering, leaving, found, word_off, words, acc, touched, hist, cand, at, room, held,
                    bound, out_term, out_count, top,
                )  # fmt: skip
                known = False
            elif top + terms > out_term.shape[0]:
                for j in range(terms):
                    acc[touched[j]] = 0
                held[slot] = -1
                return n, top + terms
            else:
                tally[2] += 1
                after = _enumerate(
                    slot,
                    k[i],
                    whole[i],
                    terms,
                    acc,
                    touched,
                    hist,
                    cand,
                    at,
                    room,
                    held,
                    bound,
                    out_term,
                    out_count,
                    top,
                )
        since[slot], upto[slot], top = a + base, b + base, after
        out_off[n + 1] = top
    return order.shape[0], 0
