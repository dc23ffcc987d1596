"""How postings come into the trees of the radius pyramid and leave them, for kernels; the layout is in `pyramid_records`."""

from typing import Any

import numpy as np

from operators.indexes.knn.lanes import LANES, boxes_around, greatest, least, lowest
from operators.indexes.knn.pyramid_nodes import (
    adopt,
    append,
    base_of,
    child_at,
    give_node,
    mend,
    nearest,
    region_of,
    region_over,
    regions_of,
    remove_child,
    take_node,
)
from operators.indexes.knn.pyramid_records import (
    CHILDREN,
    CLOSED,
    COUNT,
    COUNTS,
    DIMENSIONS,
    HEIGHT,
    MOST,
    PLACE,
    PLACES,
    UNIT,
    UP,
    give_block,
    move_record,
    resize_block,
    take_block,
    write_record,
)
from streams.kernel import kernel, lean_kernel

__all__ = ["insert", "remove"]

Int = Any  # a machine integer, numpy's or Python's
Pool = Any  # the tuple of arrays that a pyramid is made of


# --- coming -----------------------------------------------------------------------------------------------------------


@lean_kernel
def _place_for(node: Int, point: Any, pool: Pool) -> Int:
    """Return the child whose region a point is in; where there is none any more, the nearest one takes it in."""
    nodes, links, state = pool[3], pool[5], pool[10]
    regions, dimensions = regions_of(node, state), state[DIMENSIONS]
    mask = boxes_around(nodes, regions, dimensions, point[0], point[1], point[2])
    mask &= (np.int64(1) << np.int64(links[node, CHILDREN])) - 1
    if mask != 0:
        return lowest(mask)
    place = nearest(node, point, -1, LANES, pool)
    for axis in range(dimensions):
        at = regions + 2 * axis * LANES + place
        nodes[at], nodes[at + LANES] = min(nodes[at], point[axis]), max(nodes[at + LANES], point[axis])
    return place


@lean_kernel
def _upper_half(values: Any, count: Int) -> Int:
    """Return, as a mask, which half of some numbers are the larger ones."""
    mask = np.int64(0)
    for _ in range(count // 2):
        best = np.int64(-1)
        for i in range(count):
            if (mask >> i) & 1 == 0 and (best < 0 or values[i] > values[best]):
                best = np.int64(i)
        mask |= np.int64(1) << best
    return mask


@lean_kernel
def _divide_block(
    node: Int, at: Int, slot: Int, which: Int, place: Any, reach: Any, tree: Int, region: Any, pool: Pool
) -> Int:
    """Divide a full block of a node and file one more record; return the new block, as nodes have it, and write its region.

    Balls without an end are all read together, so there the new one begins a block, and the others stay full.
    """
    units, slots, owner, nodes, children, links, _, where, begin, _, state = pool
    unit, count, dimensions = child_at(node, at, children, state) >> COUNT, state[MOST], state[DIMENSIONS]
    other = take_block(LANES, pool)
    region_of(node, at, region, pool)
    left, moved, above = count, np.int64(0), True
    if tree == CLOSED:
        first = unit * UNIT * (dimensions + 2)
        axis, widest = np.int64(0), np.float32(-1.0)
        for d in range(dimensions):
            wide = greatest(units, first + d * LANES, count) - least(units, first + d * LANES, count)
            if wide > widest:
                axis, widest = np.int64(d), wide
        row = first + axis * LANES
        mask = _upper_half(units[row : row + LANES], count)
        plane = np.float32(np.inf)
        for lane in range(count):
            if (mask >> lane) & 1 == 1:
                plane = min(plane, units[row + lane])
        for lane in range(count - 1, -1, -1):
            if (mask >> lane) & 1 == 1:
                move_record(unit, LANES, lane, other, LANES, moved, units, slots, where, begin, state)
                moved += 1
                left -= 1
                if lane != left:
                    move_record(unit, LANES, left, unit, LANES, lane, units, slots, where, begin, state)
        above = place[axis] >= plane
        nodes[regions_of(node, state) + (2 * axis + 1) * LANES + at] = plane
        region[2 * axis] = plane
    if above:
        write_record(slot, which, place, reach, other, LANES, moved, units, slots, where, begin, state)
        moved += 1
    else:
        write_record(slot, which, place, reach, unit, LANES, left, units, slots, where, begin, state)
        left += 1
    adopt(node, at, (unit << COUNT) | left, owner, children, links, state)
    mend(node, at, units, nodes, children, links, state)
    return (other << COUNT) | moved


@lean_kernel
def _best_cut(node: Int, region: Any, pool: Pool) -> Int:
    """Return, as a mask, which children of a node, and in the next bit one more, are above the best plane between regions.

    Regions come of one cut after the other, so there is a plane that cuts none of them, as long as none were joined.
    """
    nodes, links, state = pool[3], pool[5], pool[10]
    count, first = np.int64(links[node, CHILDREN]), regions_of(node, state)
    best, worst = np.int64(0), np.int64(1 << 30)
    for axis in range(state[DIMENSIONS]):
        at = first + 2 * axis * LANES
        for c in range(count + 1):
            plane = nodes[at + c] if c < count else region[2 * axis]
            above, cut, mask = np.int64(0), np.int64(0), np.int64(0)
            for i in range(count + 1):
                low = nodes[at + i] if i < count else region[2 * axis]
                high = nodes[at + LANES + i] if i < count else region[2 * axis + 1]
                if low >= plane:
                    above += 1
                    mask |= np.int64(1) << i
                elif high > plane:
                    cut += 1
            cost = abs(2 * above - count - 1) + 4 * cut
            if 0 < above <= count and cost < worst:
                best, worst = mask, cost
    return best if best != 0 else (np.int64(1) << (count // 2)) - 1


@kernel
def _divide_node(node: Int, child: Int, tree: Int, region: Any, pool: Pool) -> Int:
    """Divide a full node and add one more child with its region; return the new one of the two, and write its region."""
    children, links, state = pool[4], pool[5], pool[10]
    count = np.int64(links[node, CHILDREN])
    other = take_node(links[node, HEIGHT], pool)
    its = np.empty(6, np.float32)
    mask = np.int64(1) << count
    if tree == CLOSED:
        mask = _best_cut(node, region, pool)
        for place in range(count - 1, -1, -1):
            if (mask >> place) & 1 == 1:
                region_of(node, place, its, pool)
                append(other, child_at(node, place, children, state), its, pool)
                remove_child(node, place, pool)
    append(other if (mask >> count) & 1 == 1 else node, child, region, pool)
    region_over(other, region, pool)
    return other


@lean_kernel
def _new_root(word: Int, tree: Int, height: Int, child: Int, region: Any, pool: Pool) -> Int:
    words = pool[6]
    root = take_node(height, pool)
    append(root, child, region, pool)
    words[word, tree] = -2 - root
    return root


@kernel
def insert(slot: Int, which: Int, word: Int, tree: Int, place: Any, reach: Any, pool: Pool) -> None:
    """File a posting in a tree of a word; there must be room for `UNIT_ROOM` units and `NODE_ROOM` nodes."""
    units, slots, owner, nodes, children, links, words, where, begin, _, state = pool
    ref = np.int64(words[word, tree])
    if ref >= -1 and (ref & COUNTS) != state[MOST]:
        _insert_alone(slot, which, word, tree, place, reach, pool)
        return
    region = np.empty(6, np.float32)
    if ref >= 0:
        unit, room = ref >> COUNT, -np.int64(owner[ref >> COUNT])
        if room != LANES:
            unit = resize_block(unit, state[MOST], room, LANES, pool)
        for row in range(6):
            region[row] = np.inf if row & 1 == 1 else -np.inf
        node = _new_root(word, tree, 1, (unit << COUNT) | state[MOST], region, pool)
    else:
        node = -2 - ref
    while True:
        at = _place_for(node, place, pool) if tree == CLOSED else np.int64(links[node, CHILDREN]) - 1
        if links[node, HEIGHT] == 1:
            break
        node = child_at(node, at, children, state)
    child = child_at(node, at, children, state)
    if child & COUNTS < state[MOST]:
        write_record(
            slot, which, place, reach, child >> COUNT, LANES, child & COUNTS, units, slots, where, begin, state
        )
        adopt(node, at, child + 1, owner, children, links, state)
        mend(node, at, units, nodes, children, links, state)
        return
    extra = _divide_block(node, at, slot, which, place, reach, tree, region, pool)
    while links[node, CHILDREN] == state[MOST]:
        extra = _divide_node(node, extra, tree, region, pool)
        up = np.int64(links[node, UP])
        its = np.empty(6, np.float32)
        region_over(node, its, pool)
        if up < 0:
            node, at = _new_root(word, tree, links[node, HEIGHT] + 1, node, its, pool), np.int64(0)
        else:
            node, at = up >> PLACE, up & PLACES
            for row in range(2 * state[DIMENSIONS]):
                nodes[regions_of(node, state) + row * LANES + at] = its[row]
            mend(node, at, units, nodes, children, links, state)
    append(node, extra, region, pool)
    if links[node, UP] >= 0:
        mend(links[node, UP] >> PLACE, links[node, UP] & PLACES, units, nodes, children, links, state)


@lean_kernel
def _insert_alone(slot: Int, which: Int, word: Int, tree: Int, place: Any, reach: Any, pool: Pool) -> None:
    """File a posting in the one block of a word, or as the first of it."""
    units, slots, owner, _, _, _, words, where, begin, _, state = pool
    ref = np.int64(words[word, tree])
    if ref < 0:
        unit, count, room = take_block(UNIT, pool), np.int64(0), np.int64(UNIT)
    else:
        unit, count = ref >> COUNT, ref & COUNTS
        room = -np.int64(owner[unit])
        if count == room:
            unit, room = resize_block(unit, count, room, 2 * room, pool), 2 * room
    owner[unit] = -room
    write_record(slot, which, place, reach, unit, room, count, units, slots, where, begin, state)
    words[word, tree] = (unit << COUNT) | (count + 1)


# --- going ------------------------------------------------------------------------------------------------------------


@lean_kernel
def remove(slot: Int, which: Int, word: Int, tree: Int, pool: Pool) -> None:
    """Take a posting out of a tree of a word."""
    units, slots, owner, nodes, children, links, words, where, begin, _, state = pool
    at = np.int64(where[begin[slot] + which])
    where[begin[slot] + which] = -1
    unit, lane, own = at >> PLACE, at & PLACES, np.int64(owner[at >> PLACE])
    if own < 0:
        count, room = (np.int64(words[word, tree]) & COUNTS) - 1, -own
        if lane != count:
            move_record(unit, room, count, unit, room, lane, units, slots, where, begin, state)
        words[word, tree] = (unit << COUNT) | count
        if count == 0:
            give_block(unit, room, pool)
            words[word, tree] = -1
        elif room > UNIT and UNIT * count <= room:
            smaller = resize_block(unit, count, room, room // 2, pool)
            owner[smaller] = -(room // 2)
            words[word, tree] = (smaller << COUNT) | count
        return
    node, place = own >> PLACE, own & PLACES
    count = (child_at(node, place, children, state) & COUNTS) - 1
    if lane != count:
        move_record(unit, LANES, count, unit, LANES, lane, units, slots, where, begin, state)
    adopt(node, place, (unit << COUNT) | count, owner, children, links, state)
    if count > 0:
        mend(node, place, units, nodes, children, links, state)
    if UNIT * count <= state[MOST]:
        _shed(word, tree, node, place, pool)


@kernel
def _shed(word: Int, tree: Int, node: Int, place: Int, pool: Pool) -> None:
    """Join a child that has little left with another of its node, where one has room, and so upwards; lower a tree's root."""
    units, _, _, nodes, children, links, _, _, _, _, state = pool
    middle = np.empty(3, np.float32)
    while True:
        child, height = child_at(node, place, children, state), links[node, HEIGHT]
        inside = child & COUNTS if height == 1 else np.int64(links[child, CHILDREN])
        if inside > 0:
            for axis in range(state[DIMENSIONS]):
                at = base_of(node, state) + 2 * axis * LANES + place
                middle[axis] = np.float32(0.5) * (nodes[at] + nodes[at + LANES])
            other = nearest(node, middle, place, 3 * state[MOST] // 4 - inside, pool)
            if other < 0:
                break
            _join(node, place, other, pool)
        if height == 1:
            give_block(child >> COUNT, LANES, pool)
        else:
            give_node(child, pool)
        remove_child(node, place, pool)
        up = np.int64(links[node, UP])
        if up < 0:
            break
        if links[node, CHILDREN] > 0:
            mend(up >> PLACE, up & PLACES, units, nodes, children, links, state)
        if UNIT * links[node, CHILDREN] > state[MOST]:
            break
        node, place = up >> PLACE, up & PLACES
    _lower(word, tree, pool)


@kernel
def _join(node: Int, place: Int, other: Int, pool: Pool) -> None:
    """Move all that a child has to another one of the same node."""
    units, slots, owner, nodes, children, links, _, where, begin, _, state = pool
    child, taker = child_at(node, place, children, state), child_at(node, other, children, state)
    region, theirs = np.empty(6, np.float32), np.empty(6, np.float32)
    if links[node, HEIGHT] == 1:
        for lane in range(child & COUNTS):
            move_record(
                child >> COUNT, LANES, lane, taker >> COUNT, LANES, taker & COUNTS, units, slots, where, begin, state
            )
            taker += 1
        adopt(node, other, taker, owner, children, links, state)
    else:
        for at in range(links[child, CHILDREN]):
            region_of(child, at, region, pool)
            append(taker, child_at(child, at, children, state), region, pool)
    region_of(node, place, region, pool)
    region_of(node, other, theirs, pool)
    for axis in range(state[DIMENSIONS]):
        at = regions_of(node, state) + 2 * axis * LANES + other
        nodes[at] = min(region[2 * axis], theirs[2 * axis])
        nodes[at + LANES] = max(region[2 * axis + 1], theirs[2 * axis + 1])
    mend(node, other, units, nodes, children, links, state)


@lean_kernel
def _lower(word: Int, tree: Int, pool: Pool) -> None:
    """Take the root from a tree while it has one child only."""
    _, _, owner, _, children, links, words, _, _, _, state = pool
    while words[word, tree] < -1:
        root = -2 - np.int64(words[word, tree])
        if links[root, CHILDREN] > 1:
            return
        child = child_at(root, 0, children, state)
        if links[root, CHILDREN] == 0:
            words[word, tree] = -1
        elif links[root, HEIGHT] == 1:
            words[word, tree] = child
            owner[child >> COUNT] = -LANES
        else:
            words[word, tree] = -2 - child
            links[child, UP] = -1
        give_node(root, pool)
