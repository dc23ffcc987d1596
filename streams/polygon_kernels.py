"""Whether points are inside of polygons, exactly: one predicate for the oracle and for every index.

Layout of a region: its vertices in `x`, `y`, ring after ring, each closed (the first vertex again at its end), and in `mark`
what begins at a vertex: `OUTER` the exterior ring of a polygon, `HOLE` a hole of the last one, 0 neither. So an edge leads from
vertex i - 1 to i wherever ``mark[i]`` is 0, and nothing here leaves the arrays, whatever they hold.

A ring has the points with an odd number of edges to their right, and those on its edges. A polygon has the points of its
exterior ring that no hole has, but for the edges of holes, which belong to it; a region has the points of its polygons. On
which side of an edge a point lies is decided as if with real numbers (Shewchuk, "Adaptive Precision Floating-Point Arithmetic
and Fast Robust Geometric Predicates", 1997): in float64 where the error bound allows it, in expansions otherwise.
"""

import math
from typing import Any

import numpy as np

from streams.kernel import kernel

__all__ = ["HOLE", "OUTER", "covers", "inside_rings", "inside_slabs", "slab_entries", "slab_of", "write_slabs"]

#: What begins at a vertex.
OUTER, HOLE = 1, 2

#: (3 + 16 u) u with u = 2^-53: the determinant is right in sign where it exceeds this times the sum of its two products.
_BOUND = 3.3306690738754716e-16
_SPLITTER = 134217729.0  # 2^27 + 1
#: Below this the bound does not hold, because products are rounded to multiples of the smallest float.
_TINY = 1e-280
#: Numbers are scaled to this power of two: their products are far from both ends of what floats can say.
_AIM = 450

#: What an edge is to a point: nothing, one that a ray to the right crosses, one that it lies on.
_APART, _CROSSED, _ON = 0, 1, 2

#: Entries of a slab's list that are no edges.
_OUTER_BEGINS, _HOLE_BEGINS = -1, -2


@kernel
def _add_product(a: Any, b: Any, expansion: Any, size: Any) -> Any:
    """Add a * b to an expansion without error; return its new size. Both halves of a product are exact (Dekker, Veltkamp)."""
    product = a * b
    c = _SPLITTER * a
    a_high = c - (c - a)
    a_low = a - a_high
    c = _SPLITTER * b
    b_high = c - (c - b)
    b_low = b - b_high
    tail = a_low * b_low - (((product - a_high * b_high) - a_low * b_high) - a_high * b_low)
    for part in (tail, product):
        carried = part
        for i in range(size):
            total = carried + expansion[i]
            virtual = total - carried
            expansion[i] = (carried - (total - virtual)) + (expansion[i] - virtual)
            carried = total
        expansion[size] = carried
        size += 1
    return size


@kernel
def _exact_side(ax: Any, ay: Any, bx: Any, by: Any, px: Any, py: Any) -> Any:
    # A power of two changes no sign, and keeps products away from where they would be rounded to nothing.
    largest = max(abs(ax), abs(ay), abs(bx), abs(by), abs(px), abs(py))
    scale = _AIM - math.frexp(largest)[1]
    ax, ay, bx, by = math.ldexp(ax, scale), math.ldexp(ay, scale), math.ldexp(bx, scale), math.ldexp(by, scale)
    px, py = math.ldexp(px, scale), math.ldexp(py, scale)
    expansion = np.zeros(12)
    size = _add_product(ax, by, expansion, 0)
    size = _add_product(-ax, py, expansion, size)
    size = _add_product(-px, by, expansion, size)
    size = _add_product(-ay, bx, expansion, size)
    size = _add_product(ay, px, expansion, size)
    size = _add_product(py, bx, expansion, size)
    for i in range(size - 1, -1, -1):  # the largest part that is not zero has the sign of the sum
        if expansion[i] != 0.0:
            return 1 if expansion[i] > 0.0 else -1
    return 0


@kernel
def _side(ax: Any, ay: Any, bx: Any, by: Any, px: Any, py: Any) -> Any:
    """Return 1 where p is to the left of the way from a to b, -1 to the right, 0 on the line."""
    left, right = (ax - px) * (by - py), (ay - py) * (bx - px)
    det, total = left - right, abs(left) + abs(right)
    if abs(det) > _BOUND * total and total > _TINY:
        return 1 if det > 0.0 else -1
    return _exact_side(ax, ay, bx, by, px, py)


@kernel
def _edge(ax: Any, ay: Any, bx: Any, by: Any, px: Any, py: Any) -> Any:
    """Tell what an edge is to a point."""
    if (py < ay and py < by) or (py > ay and py > by) or (px > ax and px > bx):
        return _APART
    if ay == by:
        return _APART if px < ax and px < bx else _ON
    crosses = (ay > py) != (by > py)
    if px < ax and px < bx:
        return _CROSSED if crosses else _APART
    side = _side(ax, ay, bx, by, px, py)
    if side == 0:
        return _ON
    return _CROSSED if crosses and (side > 0) == (by > ay) else _APART


@kernel
def inside_rings(px: Any, py: Any, x: Any, y: Any, mark: Any, out: Any) -> None:
    """Tell of each point whether it is inside of one region, edge by edge: the definition."""
    for p in range(px.shape[0]):
        found, outer, hole = False, False, False
        ring, odd, on = 0, False, False
        for i in range(x.shape[0] + 1):
            begins = mark[i] if i < x.shape[0] else OUTER
            if begins != 0:
                if ring == OUTER:
                    outer = odd or on
                elif odd and not on:
                    hole = True
                if begins == OUTER:
                    found = found or (outer and not hole)
                    outer, hole = False, False
                ring, odd, on = int(begins), False, False
            elif i > 0:
                what = _edge(x[i - 1], y[i - 1], x[i], y[i], px[p], py[p])
                odd, on = odd != (what == _CROSSED), on or what == _ON
        out[p] = found


@kernel
def slab_of(y: Any, low: Any, per_unit: Any, slabs: Any) -> Any:
    """Return the slab that a y is in: it never falls as y rises, so an edge is listed wherever it meets a point's y."""
    place = (y - low) * per_unit
    return 0 if not place >= 1.0 else (slabs - 1 if place >= slabs else int(place))


@kernel
def slab_entries(y: Any, mark: Any, low: Any, per_unit: Any, slabs: Any) -> Any:
    """Return how many edges all slabs list together."""
    count = 0
    for i in range(1, y.shape[0]):
        if mark[i] == 0:
            one, other = slab_of(y[i - 1], low, per_unit, slabs), slab_of(y[i], low, per_unit, slabs)
            count += abs(one - other) + 1
    return count


@kernel
def write_slabs(y: Any, mark: Any, low: Any, per_unit: Any, slabs: Any, off: Any, out: Any) -> Any:
    """List the edges of each slab, by the vertex they lead to, in order, behind what begins; return the entries.

    ``out[off[s]:off[s + 1]]`` is the list of slab s; with an empty `out` it is only measured. A hole stands behind its own
    exterior ring also where that has no edge in a slab: it is none of another polygon's.
    """
    polygon, ring, begins = -1, -1, 0
    seen_polygon, seen_ring = np.full(slabs, -1, np.int64), np.full(slabs, -1, np.int64)
    top = np.zeros(slabs + 1, np.int64)
    if out.shape[0] > 0:
        for s in range(slabs):
            top[s] = off[s]
    for i in range(y.shape[0]):
        if mark[i] != 0:
            begins, ring = mark[i], ring + 1
            polygon += begins == OUTER
            continue
        if i == 0:
            continue
        one, other = slab_of(y[i - 1], low, per_unit, slabs), slab_of(y[i], low, per_unit, slabs)
        for s in range(min(one, other), max(one, other) + 1):
            for entry in (_OUTER_BEGINS, _HOLE_BEGINS, i):
                if entry == _OUTER_BEGINS and seen_polygon[s] == polygon:
                    continue
                if entry == _HOLE_BEGINS and (begins != HOLE or seen_ring[s] == ring):
                    continue
                if out.shape[0] > 0:
                    out[top[s]] = entry
                top[s] += 1
            seen_polygon[s], seen_ring[s] = polygon, ring
    if out.shape[0] == 0:
        off[0] = 0
        for s in range(slabs):
            off[s + 1] = off[s] + top[s]
    return off[slabs]


@kernel
def covers(px: Any, py: Any, x: Any, y: Any, edges: Any, first: Any, last: Any) -> bool:
    """Tell whether a point is inside of one region, from the list of its slab: ``edges[first:last]``."""
    outer, hole = False, False
    ring, odd, on = OUTER, False, False
    for e in range(first, last + 1):
        entry = edges[e] if e < last else _OUTER_BEGINS
        if entry >= 0:
            what = _edge(x[entry - 1], y[entry - 1], x[entry], y[entry], px, py)
            odd, on = odd != (what == _CROSSED), on or what == _ON
            continue
        if ring == OUTER:
            outer = odd or on
        elif odd and not on:
            hole = True
        if entry == _OUTER_BEGINS:
            if outer and not hole:
                return True
            outer, hole = False, False
        ring, odd, on = OUTER if entry == _OUTER_BEGINS else HOLE, False, False
    return False


@kernel
def inside_slabs(px: Any, py: Any, x: Any, y: Any, low: Any, per_unit: Any, slabs: Any, lists: Any, out: Any) -> None:
    """Tell of each point whether it is inside of one region; `lists` are offsets of slabs and, behind them, their lists."""
    for p in range(px.shape[0]):
        slab = slab_of(py[p], low, per_unit, slabs)
        out[p] = covers(px[p], py[p], x, y, lists, slabs + 1 + lists[slab], slabs + 1 + lists[slab + 1])
