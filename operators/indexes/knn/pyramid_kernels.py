"""Kernels that file, move and remove subscriptions of the radius pyramid; `pyramid_records` has the layout.

stage   int8 by slot: which tree its postings are in, or `NOWHERE`
frame   float64: low x, low y, units to the space's longer side, whether on the globe
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from operators.indexes.core.query_table import ANY
from operators.indexes.knn.blocks import class_of, room_of
from operators.indexes.knn.pyramid_nodes import ask_for, learn_reach, reach_at
from operators.indexes.knn.pyramid_records import (
    CLOSED,
    NODE_ROOM,
    NODES_TOP,
    OPEN,
    PLACE,
    UNIT_ROOM,
    UNITS_TOP,
    WHERE_TOP,
)
from operators.indexes.knn.pyramid_trees import insert, remove
from streams.geometry import EARTH_RADIUS_M
from streams.kernel import kernel, lean_kernel
from streams.prefetch import prefetch

__all__ = ["NOWHERE", "close_places", "keys_of", "learn", "open_places", "refile"]

Int = Any  # a machine integer, numpy's or Python's
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Slots = NDArray[np.int32]
Stages = NDArray[np.int8]
Pool = Any  # the tuple of arrays that a pyramid is made of

#: The stage of what is in no tree: a ball without room, which nothing can fall into, or none at all.
NOWHERE = 2

#: A reach is written anew when its square has become so much smaller.
_MUCH = np.float32(0.7)
#: How far ahead records are asked for.
_AHEAD = 16


@lean_kernel
def reach_of(radius: Any, u: Any, v: Any, frame: Floats) -> Any:
    """Return the square that a record's distance is held against, rounded up: an object at it or beyond cannot enter.

    It is rounded up by more than what boxes around the record lose.
    """
    if not radius < np.inf:
        return np.float32(np.inf)
    if frame[3] != 0.0:
        if radius >= EARTH_RADIUS_M * 3.14:
            return np.float32(np.inf)
        reach = 2.0 * math.sin(radius / (2.0 * EARTH_RADIUS_M)) * (1.0 + 1e-6) + 4e-7
    else:
        reach = radius * frame[2] * (1.0 + 1e-6) + 2e-7 * (1.0 + abs(u) + abs(v))
    return np.float32(reach * reach * (1.0 + 1e-6))


@lean_kernel
def _stage_of(radius: Any) -> Int:
    return NOWHERE if radius == 0.0 else CLOSED if radius < np.inf else OPEN


@lean_kernel
def keys_of(slots: Slots, kw: Slots, pool: Slots, traits: NDArray[np.uint8], off: Slots, keys: Slots) -> Int:
    """Write the words under which subscriptions are filed: all where any will do, else the rarest, else none, which is word 0.

    Returns how many there are; those that have no room in `keys` are counted only.
    """
    count = 0
    for i in range(slots.shape[0]):
        slot = slots[i]
        off[i] = count
        more = traits[slot] & ANY != 0
        for j in range(3):
            if (j == 0 or more) and kw[slot, j] >= 0:
                if count < keys.shape[0]:
                    keys[count] = kw[slot, j]
                count += 1
        if more and kw[slot, 2] < -1:
            head = -2 - np.int64(kw[slot, 2])
            for j in range(head + 1, head + 1 + pool[head]):
                if count < keys.shape[0]:
                    keys[count] = pool[j]
                count += 1
    off[slots.shape[0]] = count
    return count


@lean_kernel
def open_places(slots: Slots, off: Slots, stage: Stages, begin: Slots, where: Slots, free: Slots, state: Ints) -> bool:
    """Give subscriptions room to note where their records are; return whether there was enough, else nothing is done."""
    wanted = 0
    for i in range(slots.shape[0]):
        wanted += room_of(class_of(off[i + 1] - off[i]))
    if state[WHERE_TOP] + wanted > where.shape[0]:
        return False
    for i in range(slots.shape[0]):
        block_class = class_of(off[i + 1] - off[i])
        head = np.int64(free[block_class])
        if head >= 0:
            free[block_class] = where[head]
        else:
            head = state[WHERE_TOP]
            state[WHERE_TOP] += room_of(block_class)
        begin[slots[i]] = head
        stage[slots[i]] = NOWHERE
        for p in range(head, head + off[i + 1] - off[i]):
            where[p] = -1
    return True


@lean_kernel
def close_places(slots: Slots, off: Slots, begin: Slots, where: Slots, free: Slots) -> None:
    """Take that room back."""
    for i in range(slots.shape[0]):
        block_class = class_of(off[i + 1] - off[i])
        where[begin[slots[i]]] = free[block_class]
        free[block_class] = begin[slots[i]]


@kernel
def refile(
    done: Ints, gone: bool, slots: Slots, off: Slots, keys: Slots, radius: Floats, shape: Floats, kw: Slots,
    traits: NDArray[np.uint8], frame: Floats, stage: Stages, pool: Pool,
) -> bool:  # fmt: skip
    """Put subscriptions into the trees that are right for their balls, or into none where they are gone.

    Goes on from (subscription, posting) `done`; returns whether all are done, else there is to be more room.
    """
    units, _, owner, nodes, children, links, _, where, begin, _, state = pool
    place = np.zeros(3, np.float32)
    for i in range(done[0], slots.shape[0]):
        slot = np.int64(slots[i])
        old, new = np.int64(stage[slot]), NOWHERE if gone else _stage_of(radius[slot])
        u, v = (shape[slot, 0] - frame[0]) * frame[2], (shape[slot, 1] - frame[1]) * frame[2]
        place[0], place[1] = u, v
        if frame[3] != 0.0:
            lon, lat = math.radians(shape[slot, 0]), math.radians(shape[slot, 1])
            place[0], place[1] = math.cos(lat) * math.cos(lon), math.cos(lat) * math.sin(lon)
            place[2] = math.sin(lat)
        if new == OPEN:
            place.view(np.int32)[0] = kw[slot, 1] if traits[slot] & ANY == 0 and kw[slot, 1] >= 0 else 0
        reach = reach_of(radius[slot], u, v, frame)
        for j in range(off[i] + done[1], off[i + 1]):
            which = j - off[i]
            if old == new:
                if new == CLOSED:
                    learn_reach(
                        np.int64(where[begin[slot] + which]), reach, units, owner, nodes, children, links, state
                    )
                continue
            if state[UNITS_TOP] + UNIT_ROOM > owner.shape[0] or state[NODES_TOP] + NODE_ROOM > links.shape[0]:
                done[0], done[1] = i, which
                return False
            if old != NOWHERE:
                remove(slot, which, keys[j], old, pool)
            if new != NOWHERE:
                insert(slot, which, keys[j], new, place, reach, pool)
        stage[slot] = new
        done[1] = 0
    return True


@lean_kernel
def learn(
    slots: Slots, at: Slots, changed: Slots, radius: Floats, shape: Floats, frame: Floats, stage: Stages, out: Slots,
    due: Ints, pool: Pool,
) -> Int:  # fmt: skip
    """Give the records that a probe has read their new reach where it is much smaller; write who is to be filed anew.

    A reach that is a little too large costs a distance now and then, one that is written costs a look at its box. `due` has
    room for as many numbers as records were read.
    """
    units, _, owner, nodes, children, links, _, _, _, _, state = pool
    fewer = 0
    for i in range(slots.shape[0]):
        if i + 2 * _AHEAD < slots.shape[0]:
            prefetch(radius, np.int64(slots[i + 2 * _AHEAD]))
            prefetch(stage, np.int64(slots[i + 2 * _AHEAD]))
            prefetch(owner, np.int64(at[i + 2 * _AHEAD]) >> PLACE)
        if i + _AHEAD < slots.shape[0]:
            prefetch(units, reach_at(np.int64(at[i + _AHEAD]), owner, state))
        slot = np.int64(slots[i])
        if stage[slot] != CLOSED or radius[slot] == 0.0:
            continue
        place = reach_at(np.int64(at[i]), owner, state)
        if reach_of(radius[slot], 0.0, 0.0, frame) < _MUCH * units[place]:
            ask_for(np.int64(at[i]), units, owner, nodes, state)
            prefetch(shape, 2 * slot)
            due[fewer] = i
            fewer += 1
    for n in range(fewer):
        slot = np.int64(slots[due[n]])
        u, v = (shape[slot, 0] - frame[0]) * frame[2], (shape[slot, 1] - frame[1]) * frame[2]
        reach = reach_of(radius[slot], u, v, frame)
        learn_reach(np.int64(at[due[n]]), reach, units, owner, nodes, children, links, state)
    there = 0
    for i in range(changed.shape[0]):
        if i + _AHEAD < changed.shape[0]:
            prefetch(radius, np.int64(changed[i + _AHEAD]))
            prefetch(stage, np.int64(changed[i + _AHEAD]))
        if stage[changed[i]] != _stage_of(radius[changed[i]]):
            out[there] = changed[i]
            there += 1
    return there
