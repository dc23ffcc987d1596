"""Hash tables of terms, one after the other in a pool: objects enter and leave them, two of them make an answer.

Table t has ``room[t]`` entries from ``at[t]`` on in `key` (keyword ids, -1: free) and `value` (counts); ``used[t]`` are
taken, also by terms whose count is 0 again, which go when the table moves. A table that is three quarters full moves to
the end of the pool.
"""

from typing import Any

import numpy as np

from streams.flat_hash import place_of
from streams.kernel import kernel

__all__ = ["DONE", "NEEDS_ENTERING", "NEEDS_ITEMS", "NEEDS_LEAVING", "NEEDS_POOL", "move_tables", "slide"]

#: Why `slide` returns: all asked for is answered; more objects are needed; more room is needed.
DONE, NEEDS_ENTERING, NEEDS_LEAVING, NEEDS_ITEMS, NEEDS_POOL = 0, 1, 2, 3, 4

#: Entries of a new table.
SMALLEST = 8


@kernel
def _seek(term: Any, first: Any, room: Any, key: Any) -> Any:
    """Return where a term stands in a table, or the free entry where it would."""
    place = place_of(term, room)
    while key[first + place] != term and key[first + place] >= 0:
        place = place + 1 if place + 1 < room else 0
    return first + place


@kernel
def _move(t: Any, more: Any, key: Any, value: Any, at: Any, room: Any, used: Any, top: Any) -> Any:
    """Move a table to the end of the pool, with room for so many more terms; return the new end, -1 where it does not fit."""
    alive = 0
    for p in range(at[t], at[t] + room[t]):
        alive += key[p] >= 0 and value[p] > 0
    size = np.int64(SMALLEST)
    while 3 * size < 4 * (alive + more) + alive:
        size *= 2
    if top + size > key.shape[0]:
        return -1
    for p in range(top, top + size):
        key[p] = -1
    for p in range(at[t], at[t] + room[t]):
        if key[p] >= 0 and value[p] > 0:
            place = _seek(key[p], top, size, key)
            key[place], value[place] = key[p], value[p]
    at[t], room[t], used[t] = top, size, alive
    return top + size


@kernel
def move_tables(tables: Any, old_key: Any, old_value: Any, key: Any, value: Any, at: Any, room: Any) -> Any:
    """Copy tables into another pool, one after the other; return the end."""
    top = 0
    for i in range(tables.shape[0]):
        t = tables[i]
        for p in range(room[t]):
            key[top + p], value[top + p] = old_key[at[t] + p], old_value[at[t] + p]
        at[t] = top
        top += room[t]
    return top


@kernel
def _pass(
    sign: Any, row: Any, pair: Any, upto: Any, first: Any, x: Any, y: Any, kw_off: Any, kw: Any, off: Any, tables: Any,
    spared: Any, key: Any, value: Any, at: Any, room: Any, used: Any, top: Any,
) -> Any:  # fmt: skip
    """Let objects enter (sign 1) or leave their tables, from a pair of a row on; return row, pair and the end of the pool.

    The objects are those of the rows from `first` on. A table spares those inside of a box: its group's table counts
    them. Where the pool is full, the row is below `upto`.
    """
    while row < upto:
        i = row - first
        pair = max(pair, off[i])
        while pair < off[i + 1]:
            t = tables[pair]
            if not (x[i] >= spared[t, 0] and x[i] <= spared[t, 2] and y[i] >= spared[t, 1] and y[i] <= spared[t, 3]):
                words = kw_off[i + 1] - kw_off[i]
                if sign > 0 and 4 * (used[t] + words) > 3 * room[t]:
                    end = _move(t, words, key, value, at, room, used, top)
                    if end < 0:
                        return row, pair, top
                    top = end
                for p in range(kw_off[i], kw_off[i + 1]):
                    place = _seek(kw[p], at[t], room[t], key)
                    if key[place] < 0:
                        key[place], value[place] = kw[p], 0
                        used[t] += 1
                    value[place] += sign
            pair += 1
        row += 1
    return row, pair, top


@kernel
def _listed(
    own: Any, common: Any, k: Any, whole: Any, key: Any, value: Any, at: Any, room: Any, hist: Any, out_term: Any,
    out_count: Any, begin: Any,
) -> Any:  # fmt: skip
    """Write the sum of two tables (common < 0: of one) behind others; return the next place."""
    top, most = begin, np.int64(0)
    for which in range(2 if common >= 0 else 1):
        table, other = (own, common) if which == 0 else (common, own)
        for p in range(at[table], at[table] + room[table]):
            if key[p] < 0 or value[p] <= 0:
                continue
            count: Any = np.int64(value[p])
            if common >= 0 and room[other] > 0:
                place = _seek(key[p], at[other], room[other], key)
                if key[place] >= 0 and value[place] > 0:
                    if which == 1:
                        continue
                    count += value[place]
            out_term[top], out_count[top] = key[p], count
            top += 1
            most = max(most, count)
    if not whole or top - begin <= k:
        return top
    for p in range(begin, top):
        hist[out_count[p]] += 1
    seen, kth = 0, most
    while seen + hist[kth] < k:
        seen += hist[kth]
        kth -= 1
    kept = begin
    for p in range(begin, top):
        hist[out_count[p]] = 0
        if out_count[p] >= kth:
            out_term[kept], out_count[kept] = out_term[p], out_count[p]
            kept += 1
    return kept


@kernel
def slide(
    state: Any, own: Any, common: Any, begin: Any, end: Any, k: Any, whole: Any, in_first: Any, in_x: Any, in_y: Any,
    in_kw_off: Any, in_kw: Any, in_off: Any, in_tables: Any, out_first: Any, out_x: Any, out_y: Any, out_kw_off: Any,
    out_kw: Any, out_off: Any, out_tables: Any, spared: Any, key: Any, value: Any, at: Any, room: Any, used: Any,
    hist: Any, item_off: Any, item_term: Any, item_count: Any,
) -> Any:  # fmt: skip
    """Answer one after the other: objects enter and leave as far as its window reaches, then two tables are added up.

    `state`: next row to enter, next pair of it, next row to leave, next pair of it, end of the pool, answers that are
    given. Answers are in the order of time. Objects that enter are rows from `in_first` on, those that leave from
    `out_first` on.
    """
    for i in range(state[5], own.shape[0]):
        for sign in (1, -1):
            which = 0 if sign == 1 else 2
            wanted = end[i] if sign == 1 else begin[i]
            known = (in_first + in_x.shape[0]) if sign == 1 else (out_first + out_x.shape[0])
            upto = min(wanted, known)
            if state[which] < upto:
                if sign == 1:
                    row, pair, state[4] = _pass(
                        1, state[0], state[1], upto, in_first, in_x, in_y, in_kw_off, in_kw, in_off, in_tables, spared,
                        key, value, at, room, used, state[4],
                    )  # fmt: skip
                else:
                    row, pair, state[4] = _pass(
                        -1, state[2], state[3], upto, out_first, out_x, out_y, out_kw_off, out_kw, out_off, out_tables,
                        spared, key, value, at, room, used, state[4],
                    )  # fmt: skip
                state[which], state[which + 1] = row, pair
                if row < upto:
                    return NEEDS_POOL
            if state[which] < wanted:
                state[which + 1] = 0
                return NEEDS_ENTERING if sign == 1 else NEEDS_LEAVING
        most = room[own[i]] + (room[common[i]] if common[i] >= 0 else 0)
        if item_off[i] + most > item_term.shape[0]:
            return NEEDS_ITEMS
        item_off[i + 1] = _listed(
            own[i], common[i], k[i], whole[i], key, value, at, room, hist, item_term, item_count, item_off[i]
        )
        state[5] = i + 1
    return DONE
