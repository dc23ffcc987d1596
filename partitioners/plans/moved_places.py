"""Where a change of plan can matter, so that only the queries there have to be looked through."""

from functools import lru_cache

import numpy as np

from partitioners.plans.grid_plan import GridPlan
from partitioners.plans.plan import Plan

__all__ = ["Box", "moved_places"]

#: Low x, low y, high x, high y.
Box = tuple[float, float, float, float]


def moved_places(old: Plan, new: Plan) -> Box | None:
    """Return a closed box such that every region that does not touch it has the same workers under both plans.

    None: no such box is known. A grid plan sends a region to the workers of the cells that it touches; so where no cell has
    another worker, nothing has changed. The box is a cell wider than what has changed, because cells are
    found by rounded numbers, and has no end at the edges of the space, beyond which the nearest cells count.
    """
    if not (isinstance(old, GridPlan) and isinstance(new, GridPlan) and old.grid == new.grid):
        return None
    if old.anchored or new.anchored or not (old.meets_once and new.meets_once):
        return None
    return _box_of_changes(old, new)


@lru_cache(maxsize=1)
def _box_of_changes(old: GridPlan, new: GridPlan) -> Box | None:
    """Return the box around cells with another worker; remembered, as all evaluators of a process ask."""
    workers = (plan.part_worker.take(plan.a_grid.owner) for plan in (old, new))
    changed = np.not_equal(*workers).reshape(old.rows, old.columns)
    columns, rows = np.flatnonzero(changed.any(0)), np.flatnonzero(changed.any(1))
    if not len(rows):
        return None
    first_column, first_row, last_column, last_row = columns[0] - 1, rows[0] - 1, columns[-1] + 2, rows[-1] + 2
    grid = old.grid
    wide = (grid.space.max_x - grid.space.min_x) / grid.columns
    high = (grid.space.max_y - grid.space.min_y) / grid.rows
    return (
        grid.space.min_x + first_column * wide if first_column > 0 else -np.inf,
        grid.space.min_y + first_row * high if first_row > 0 else -np.inf,
        grid.space.min_x + last_column * wide if last_column < grid.columns else np.inf,
        grid.space.min_y + last_row * high if last_row < grid.rows else np.inf,
    )
