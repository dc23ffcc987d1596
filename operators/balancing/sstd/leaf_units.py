"""The leaves of a plan, wherever its units are places: leaves of a QT-tree, boxes of a grid."""

import numpy as np

from partitioners.columns import Csr, Floats, Ints, Offsets, Points, Regions
from partitioners.plans.grid_plan import GridPlan
from partitioners.plans.plan import Plan
from partitioners.plans.qt_tree import QtTreePlan

__all__ = ["leaf_regions", "leaves_of_bounds", "leaves_of_objects", "objection"]


def objection(plan: Plan) -> str | None:
    """Say why the units of a plan cannot be counted as leaves; None where they can."""
    if isinstance(plan, QtTreePlan):
        return None
    if isinstance(plan, GridPlan) and plan.meets_once and not plan.anchored:
        return None
    return (
        f"it moves leaves, which are places with all of their objects and queries, and the units of this plan (kind "
        f"'{plan.kind}') are something else; use the partitioner qt-tree, quadtree, text-tree, kd or uniform, or another policy"
    )


def leaves_of_objects(plan: Plan, worker: int, x: Floats, y: Floats, kw_off: Offsets, kw: Ints) -> Ints:
    """Return the leaf of each object that came to a worker; -1 for one that does not belong there.

    Routers that learn send objects to other leaves of a textual node than the plan's own keyword lists say. One that is at
    none of the worker's is counted for those that it has at the place, in turn.
    """
    if isinstance(plan, GridPlan):
        leaf = plan.a_grid.route_points(x, y).astype(np.int64)
        return np.where(plan.unit_worker[leaf] == worker, leaf, -1)
    assert isinstance(plan, QtTreePlan)
    leaf = plan.leaves_of_points(Points.of(x, y, kw_off, kw)).astype(np.int64)
    elsewhere = np.flatnonzero(plan.unit_worker[leaf] != worker)
    if not len(elsewhere):
        return leaf
    leaf[elsewhere] = -1
    at_x, at_y = x[elsewhere], y[elsewhere]
    off, there = plan.leaves_of_regions(Regions.of((at_x, at_y, at_x, at_y)))
    row = np.repeat(np.arange(len(elsewhere)), np.diff(off))
    mine = plan.unit_worker[there] == worker
    row, there = row[mine], there[mine]
    count = np.bincount(row, minlength=len(elsewhere))
    some = np.flatnonzero(count)
    first = np.cumsum(count) - count
    leaf[elsewhere[some]] = there[first[some] + some % count[some]]
    return leaf


def leaves_of_bounds(plan: Plan, bounds: Floats) -> Csr:
    """Return the leaves that bounds (n x 4) overlap."""
    edges = tuple(np.ascontiguousarray(edge) for edge in bounds.T)
    low_x, low_y, high_x, high_y = edges
    if isinstance(plan, GridPlan):
        found: Csr = plan.a_grid.route_ranges(low_x, low_y, high_x, high_y, nearest=True)
        return found
    assert isinstance(plan, QtTreePlan)
    return plan.leaves_of_regions(Regions.of((low_x, low_y, high_x, high_y)))


def leaf_regions(plan: Plan) -> Floats:
    """Return the box of each leaf."""
    if isinstance(plan, QtTreePlan):
        return plan.leaf_box
    assert isinstance(plan, GridPlan)
    grid = plan.grid
    origin, cells = np.array([grid.space.min_x, grid.space.min_y]), np.array([grid.columns, grid.rows])
    size = (np.array([grid.space.max_x, grid.space.max_y]) - origin) / cells
    return np.hstack([origin + plan.boxes[:, :2] * size, origin + (plan.boxes[:, 2:] + 1) * size])
