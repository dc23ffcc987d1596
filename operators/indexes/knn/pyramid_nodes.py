"""Nodes of the radius pyramid, the boxes and the regions of their children, for kernels; the layout is in `pyramid_records`."""

import math
from typing import Any

import numpy as np

from operators.indexes.knn.lanes import LANES, greatest, greatest_edge, least, least_edge
from operators.indexes.knn.pyramid_records import (
    CHILDREN,
    COUNT,
    COUNTS,
    DIMENSIONS,
    FREE_NODE,
    HEIGHT,
    NODES_TOP,
    PLACE,
    PLACES,
    UNIT,
    UP,
)
from streams.kernel import lean_kernel
from streams.prefetch import prefetch

Int = Any  # a machine integer, numpy's or Python's
Pool = Any  # the tuple of arrays that a pyramid is made of


@lean_kernel
def base_of(node: Int, state: Any) -> Int:
    """Return where a node begins."""
    return node * LANES * (4 * state[DIMENSIONS] + 1)


@lean_kernel
def regions_of(node: Int, state: Any) -> Int:
    """Return where the regions of a node's children begin."""
    return base_of(node, state) + LANES * (2 * state[DIMENSIONS] + 1)


@lean_kernel
def child_at(node: Int, place: Int, children: Any, state: Any) -> Int:
    """Return a child, as nodes have it."""
    return np.int64(children[base_of(node, state) + 2 * state[DIMENSIONS] * LANES + place])


@lean_kernel
def measure(node: Int, place: Int, units: Any, nodes: Any, children: Any, links: Any, state: Any) -> bool:
    """Make a child's box enclose what the child has, closely; return whether that has changed it."""
    dimensions, at, child = state[DIMENSIONS], base_of(node, state) + place, child_at(node, place, children, state)
    changed = False
    for axis in range(dimensions):
        if links[node, HEIGHT] == 1:
            first, count = (child >> COUNT) * UNIT * (dimensions + 2), child & COUNTS
            low = least_edge(units, first + axis * LANES, first + dimensions * LANES, count)
            high = greatest_edge(units, first + axis * LANES, first + dimensions * LANES, count)
        else:
            first, count = base_of(child, state) + 2 * axis * LANES, np.int64(links[child, CHILDREN])
            low, high = least(nodes, first, count), greatest(nodes, first + LANES, count)
        changed |= nodes[at] != low or nodes[at + LANES] != high
        nodes[at], nodes[at + LANES] = low, high
        at += 2 * LANES
    return changed


@lean_kernel
def mend(node: Int, place: Int, units: Any, nodes: Any, children: Any, links: Any, state: Any) -> None:
    """Make the box of a child enclose it closely, and so those of all that hold it."""
    while measure(node, place, units, nodes, children, links, state) and links[node, UP] >= 0:
        up = np.int64(links[node, UP])
        node, place = up >> PLACE, up & PLACES


@lean_kernel
def reach_at(at: Int, owner: Any, state: Any) -> Int:
    """Return where the reach of the record is that `where` says is at some place."""
    own, dimensions = np.int64(owner[at >> PLACE]), state[DIMENSIONS]
    return (at >> PLACE) * UNIT * (dimensions + 2) + dimensions * (LANES if own >= 0 else -own) + (at & PLACES)


@lean_kernel
def ask_for(at: Int, units: Any, owner: Any, nodes: Any, state: Any) -> None:
    """Ask for the block of a record and for its box, both of which `learn_reach` reads."""
    own, dimensions = np.int64(owner[at >> PLACE]), state[DIMENSIONS]
    if own >= 0:
        for row in range(dimensions):
            prefetch(units, (at >> PLACE) * UNIT * (dimensions + 2) + row * LANES)
        for row in range(2 * dimensions):
            prefetch(nodes, base_of(own >> PLACE, state) + row * LANES)


@lean_kernel
def learn_reach(at: Int, reach: Any, units: Any, owner: Any, nodes: Any, children: Any, links: Any, state: Any) -> None:
    """Give a record a smaller reach; boxes that end where its ball did become smaller with it."""
    own, dimensions, far = np.int64(owner[at >> PLACE]), state[DIMENSIONS], reach_at(at, owner, state)
    old = np.float32(math.sqrt(units[far]))
    units[far] = reach
    if own < 0:
        return
    node, place = own >> PLACE, own & PLACES
    box = base_of(node, state) + place
    for axis in range(dimensions):
        middle = units[far + (axis - dimensions) * LANES]
        if middle - old <= nodes[box] or middle + old >= nodes[box + LANES]:
            mend(node, place, units, nodes, children, links, state)
            return
        box += 2 * LANES


@lean_kernel
def take_node(height: Int, pool: Pool) -> Int:
    """Return a node without children, for which there is room."""
    links, state = pool[5], pool[10]
    node = state[FREE_NODE]
    if node >= 0:
        state[FREE_NODE] = links[node, UP]
    else:
        node = state[NODES_TOP]
        state[NODES_TOP] += 1
    links[node, UP], links[node, CHILDREN], links[node, HEIGHT] = -1, 0, height
    _clear(node, 0, pool)
    return np.int64(node)


@lean_kernel
def give_node(node: Int, pool: Pool) -> None:
    """Take a node back."""
    links, state = pool[5], pool[10]
    links[node, UP] = state[FREE_NODE]
    state[FREE_NODE] = node


@lean_kernel
def _clear(node: Int, first: Int, pool: Pool) -> None:
    """Let no point be in the boxes of places that have no child."""
    nodes, state = pool[3], pool[10]
    base = base_of(node, state)
    for place in range(first, LANES):
        nodes[base + place] = np.inf


@lean_kernel
def adopt(node: Int, place: Int, child: Int, owner: Any, children: Any, links: Any, state: Any) -> None:
    """Put a child into a place."""
    children[base_of(node, state) + 2 * state[DIMENSIONS] * LANES + place] = child
    if links[node, HEIGHT] == 1:
        owner[child >> COUNT] = (node << PLACE) | place
    else:
        links[child, UP] = (node << PLACE) | place


@lean_kernel
def append(node: Int, child: Int, region: Any, pool: Pool) -> None:
    """Add a child to a node that has room, with its region and its box."""
    units, _, owner, nodes, children, links, _, _, _, _, state = pool
    place = np.int64(links[node, CHILDREN])
    links[node, CHILDREN] += 1
    adopt(node, place, child, owner, children, links, state)
    at = regions_of(node, state) + place
    for row in range(2 * state[DIMENSIONS]):
        nodes[at + row * LANES] = region[row]
    measure(node, place, units, nodes, children, links, state)


@lean_kernel
def region_of(node: Int, place: Int, region: Any, pool: Pool) -> None:
    """Write the region of a child: bounds by coordinate, the lower one first."""
    nodes, state = pool[3], pool[10]
    at = regions_of(node, state) + place
    for row in range(2 * state[DIMENSIONS]):
        region[row] = nodes[at + row * LANES]


@lean_kernel
def region_over(node: Int, region: Any, pool: Pool) -> None:
    """Write what encloses the regions of a node's children."""
    nodes, links, state = pool[3], pool[5], pool[10]
    at, count = regions_of(node, state), np.int64(links[node, CHILDREN])
    for axis in range(state[DIMENSIONS]):
        region[2 * axis] = least(nodes, at + 2 * axis * LANES, count)
        region[2 * axis + 1] = greatest(nodes, at + (2 * axis + 1) * LANES, count)


@lean_kernel
def remove_child(node: Int, place: Int, pool: Pool) -> None:
    """Take a child out of a node; the last one takes its place."""
    _, _, owner, nodes, children, links, _, _, _, _, state = pool
    last = np.int64(links[node, CHILDREN]) - 1
    links[node, CHILDREN] = last
    if place != last:
        base = base_of(node, state)
        for row in range(4 * state[DIMENSIONS] + 1):
            nodes[base + row * LANES + place] = nodes[base + row * LANES + last]
        adopt(node, place, child_at(node, last, children, state), owner, children, links, state)
    _clear(node, last, pool)


@lean_kernel
def nearest(node: Int, point: Any, but: Int, most: Int, pool: Pool) -> Int:
    """Return the child whose box has its middle nearest to a point, of those with at most so much in them; -1 for none."""
    nodes, children, links, state = pool[3], pool[4], pool[5], pool[10]
    base, dimensions = base_of(node, state), state[DIMENSIONS]
    best, closest = np.int64(-1), np.float32(np.inf)
    for place in range(links[node, CHILDREN]):
        far = np.float32(0.0)
        for axis in range(dimensions):
            at = base + 2 * axis * LANES + place
            off = nodes[at] + nodes[at + LANES] - np.float32(2.0) * point[axis]
            far += off * off
        if not far >= closest and place != but:  # boxes without end have no middle, and are as near as any
            child = child_at(node, place, children, state)
            inside = child & COUNTS if links[node, HEIGHT] == 1 else np.int64(links[child, CHILDREN])
            if inside <= most:
                best, closest = np.int64(place), far
    return best
