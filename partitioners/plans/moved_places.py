"""Where, or for which queries, a change of plan can matter, so that only these have to be looked through."""

from functools import lru_cache
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from partitioners.columns import Floats, Ints
from partitioners.plans.assignment_plan import AssignmentPlan
from partitioners.plans.grid_plan import GridPlan
from partitioners.plans.plan import Plan
from partitioners.plans.qt_adjustment import leaf_boxes
from partitioners.plans.qt_tree import QtTreePlan

__all__ = ["moved_places", "moved_subscriptions"]

Number = TypeVar("Number", np.int64, np.float64)

#: So many boxes name places at most; more are one that encloses them.
_MOST_BOXES = 64

#: So many pairs of a box that is gone and one that has come are looked at; so many boxes of leaves that are gone or have come.
_MOST_PAIRS, _MOST_LEAVES = 1 << 20, 1 << 11


def moved_places(old: Plan, new: Plan) -> Floats | None:
    """Return closed boxes (low x, low y, high x, high y): a region that touches none has the same workers under both plans.

    None: no such boxes are known. A QT-tree sends a region to the workers of the leaves that it touches, a grid plan to
    those of the cells; so where none has another worker, nothing has changed. Of a grid plan a box is a cell wider than
    what has changed, because cells are found by rounded numbers; none has an end at the edges of the space, beyond
    which the nearest cells and leaves count.
    """
    if isinstance(old, QtTreePlan) and isinstance(new, QtTreePlan):
        return _places_of_leaves(old, new) if old.space == new.space else None
    if not (isinstance(old, GridPlan) and isinstance(new, GridPlan) and old.grid == new.grid):
        return None
    if old.anchored or new.anchored or not (old.meets_once and new.meets_once):
        return None
    return _places_of(old, new)


@lru_cache(maxsize=1)
def _places_of(old: GridPlan, new: GridPlan) -> Floats:
    """Return the places of cells with another worker; remembered, as all evaluators of a process ask."""
    cells, grid = _changed_cells(old, new), old.grid
    ends, low, high = np.array([grid.columns, grid.rows]), cells[:, :2] - 1, cells[:, 2:] + 2
    origin = np.array([grid.space.min_x, grid.space.min_y])
    wide = (np.array([grid.space.max_x, grid.space.max_y]) - origin) / ends
    first, last = np.where(low > 0, origin + low * wide, -np.inf), np.where(high < ends, origin + high * wide, np.inf)
    return np.hstack([first, last])


@lru_cache(maxsize=1)
def _places_of_leaves(old: QtTreePlan, new: QtTreePlan) -> Floats:
    """Return the boxes of leaves with other workers; beyond the edges of the space its outermost leaves count.

    Leaves that are divided by text share a box, and together have several workers. A child of a textual node that is divided by
    place has boxes within that one: some have come then, and none is gone.
    """
    before, after = _workers_of_boxes(old), _workers_of_boxes(new)
    gone = [box for box, workers in before.items() if after.get(box) != workers]
    come = [box for box, workers in after.items() if before.get(box) != workers]
    changed, others = (np.array(boxes).reshape(-1, 4) for boxes in (gone, come))
    if len(gone) + len(come) > _MOST_LEAVES:
        return _few(np.vstack([changed, others]))
    differs = np.array([[before[a] != after[b] for b in come] for a in gone], np.bool_).reshape(len(gone), len(come))
    giver, taker = np.nonzero(differs)
    low = np.maximum(changed[giver, :2], others[taker, :2])
    high = np.minimum(changed[giver, 2:], others[taker, 2:])
    shared = np.hstack([low, high])[(low < high).all(1)]
    return _few(np.vstack([shared, _beyond(changed, others), _beyond(others, changed)]))


def _beyond(boxes: Floats, others: Floats) -> Floats:
    """Return the boxes of which others, together, leave something uncovered."""
    both = np.vstack([boxes, others])
    x, y = np.unique(both[:, ::2]), np.unique(both[:, 1::2])
    covered = np.zeros((len(x), len(y)), np.bool_)
    places = [
        np.column_stack([np.searchsorted(x, part[:, ::2]), np.searchsorted(y, part[:, 1::2])])
        for part in (boxes, others)
    ]
    for x0, x1, y0, y1 in places[1].tolist():
        covered[x0:x1, y0:y1] = True
    whole = [bool(covered[x0:x1, y0:y1].all()) for x0, x1, y0, y1 in places[0].tolist()]
    return boxes[~np.array(whole, np.bool_)]


def _workers_of_boxes(plan: QtTreePlan) -> dict[tuple[float, ...], frozenset[int]]:
    """Return the places that the leaves of a tree divide, each with its workers."""
    found: dict[tuple[float, ...], set[int]] = {}
    boxes = leaf_boxes(plan, (-np.inf, -np.inf, np.inf, np.inf))
    for box, worker in zip(boxes.tolist(), plan.leaf_worker.tolist(), strict=True):
        found.setdefault(tuple(box), set()).add(worker)
    return {box: frozenset(workers) for box, workers in found.items()}


def _few(boxes: NDArray[Number]) -> NDArray[Number]:
    """Return boxes, or where they are many the one that encloses them."""
    if len(boxes) <= _MOST_BOXES:
        return boxes
    return np.hstack([boxes[:, :2].min(0), boxes[:, 2:].max(0)])[None]


def _changed_cells(old: GridPlan, new: GridPlan) -> Ints:
    """Return boxes of cells with another worker, and of others where they are many: first and last column and row.

    What a box of the old plan and one of the new have in common has changed if their workers differ. Boxes that both
    plans have with the same worker need not be looked at, which leaves a few; both plans tile what they leave.
    """
    gone, come = _boxes_only_in(old, new), _boxes_only_in(new, old)
    changed = gone[:, :4]
    if len(gone) * len(come) <= _MOST_PAIRS:
        giver, taker = np.nonzero(gone[:, None, 4] != come[None, :, 4])
        low = np.maximum(gone[giver, :2], come[taker, :2])
        high = np.minimum(gone[giver, 2:4], come[taker, 2:4])
        changed = np.hstack([low, high])[(low <= high).all(1)]
    return _few(changed)


def _boxes_only_in(plan: GridPlan, other: GridPlan) -> Ints:
    """Return the boxes of a plan, each with its worker, that another does not have."""
    rows, others = (np.column_stack([p.boxes, p.part_worker]).astype(np.int64) for p in (plan, other))
    count = len(rows)
    _, kind = np.unique(np.vstack([rows, others]), axis=0, return_inverse=True)
    return rows[~np.isin(kind.reshape(-1)[:count], kind.reshape(-1)[count:])]


def moved_subscriptions(old: Plan, new: Plan) -> Ints | None:
    """Return numbers of queries such that every other one has the same worker under both plans; None: they are not known.

    An assignment says where single subscriptions are, and of those that it does not name, who holds them.
    """
    if not (isinstance(old, AssignmentPlan) and isinstance(new, AssignmentPlan)):
        return None
    return _numbers_of_changes(old, new)


@lru_cache(maxsize=1)
def _numbers_of_changes(old: AssignmentPlan, new: AssignmentPlan) -> Ints:
    """Return the numbers that a plan moves; remembered, as all evaluators of a process ask."""
    return old.moved_in(new)[0]
