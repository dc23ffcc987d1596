"""Where, or for which queries, a change of plan can matter, so that only these have to be looked through."""

from functools import lru_cache

import numpy as np

from partitioners.columns import Floats, Ints
from partitioners.plans.assignment_plan import AssignmentPlan
from partitioners.plans.grid_plan import GridPlan
from partitioners.plans.plan import Plan

__all__ = ["moved_places", "moved_subscriptions"]

#: So many boxes name places at most; more are one that encloses them.
_MOST_BOXES = 64

#: So many pairs of a box that is gone and one that has come are looked at.
_MOST_PAIRS = 1 << 20


def moved_places(old: Plan, new: Plan) -> Floats | None:
    """Return closed boxes (low x, low y, high x, high y): a region that touches none has the same workers under both plans.

    None: no such boxes are known. A grid plan sends a region to the workers of the cells that it touches; so where no cell has
    another worker, nothing has changed. A box is a cell wider than what has changed, because cells are found by
    rounded numbers, and has no end at the edges of the space, beyond which the nearest cells count.
    """
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
    if len(changed) > _MOST_BOXES:
        changed = np.hstack([changed[:, :2].min(0), changed[:, 2:].max(0)])[None]
    return changed


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
