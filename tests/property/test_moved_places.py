"""Where a change of plan can matter: every query whose workers change touches the box, in the plan and in an index."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.synthetic_stream import registrations
from operators.indexes import make_range_index
from partitioners import FineGrid
from partitioners.builders.kd_decomposition import kd_decomposition
from partitioners.columns import Regions
from partitioners.plans import moved_places as module
from partitioners.plans.assignment_plan import AssignmentPlan
from partitioners.plans.grid_plan import GridPlan
from partitioners.plans.moved_places import moved_places, moved_subscriptions
from streams.columns import distinct
from streams.geometry import Rect

SPACE = Rect(-3.0, 1.0, 7.0, 4.0)
GRID = FineGrid(SPACE, 30, 20)


def _plan(seed, workers=6, **options):
    costs = np.random.default_rng(seed).random((20, 30))
    return GridPlan.of_boxes(GRID, kd_decomposition(costs, workers), np.arange(workers), workers, **options)


def _regions(seed, count=300):
    """Return rectangles and points, many of them on the borders of cells, some outside of the space."""
    rng = np.random.default_rng(seed)
    x = SPACE.min_x + rng.integers(-4, 35, count) / 3.0 + rng.choice([0.0, 1e-16, -1e-16, 0.1], count)
    y = SPACE.min_y + rng.integers(-4, 25, count) * 0.15 + rng.choice([0.0, 1e-16, -1e-16, 0.1], count)
    return np.column_stack([x, y, x + rng.choice([0.0, 1 / 3, 1.0], count), y + rng.choice([0.0, 0.15, 1.0], count)])


@given(
    seed=st.integers(0, 10_000),
    other=st.integers(0, 10_000),
    swap=st.booleans(),
    limits=st.sampled_from([{}, {}, {"_MOST_BOXES": 1}, {"_MOST_PAIRS": 3}, {"_MOST_BOXES": 1, "_MOST_PAIRS": 3}]),
)
def test_moved_places_hold_every_query_whose_workers_change(seed, other, swap, limits):
    """Whatever the plans: what touches no box has the same workers; an index finds what touches any.

    Boxes that are many, or come of many pairs, become one.
    """
    old = _plan(seed)
    new = old.with_units([1, 4], [4, 1]) if swap else _plan(other)
    shape = _regions(seed + other)
    with pytest.MonkeyPatch.context() as patch:
        for name, most in limits.items():
            patch.setattr(module, name, most)
        module._places_of.cache_clear()
        boxes = moved_places(old, new)
    assert not limits or len(boxes) <= 1 + 6 * (limits.get("_MOST_BOXES") != 1)
    regions = Regions.of(tuple(shape.T))
    routes = [plan.route_regions(regions) for plan in (old, new)]
    rows = [[worker[a:b].tolist() for a, b in itertools.pairwise(off)] for off, worker in routes]
    changed = {row for row, (a, b) in enumerate(zip(*rows, strict=True)) if a != b}
    queries = registrations(np.arange(len(shape)), shape, np.zeros(len(shape) + 1, np.int32), np.empty(0, np.int64))
    index = make_range_index("kag", SPACE)
    index.insert(queries)
    touching = index.touching(boxes)
    assert changed <= set(touching.tolist())
    inside = np.zeros(len(shape), np.bool_)
    for box in boxes:
        inside |= (shape[:, :2] <= box[2:]).all(1) & (shape[:, 2:] >= box[:2]).all(1)
    assert touching.tolist() == np.flatnonzero(inside).tolist()


@given(
    known=st.lists(st.integers(-20, 20), unique=True, max_size=20),
    moving=st.lists(st.integers(-25, 25), unique=True, max_size=12),
    seed=st.integers(0, 100),
)
def test_moved_subscriptions_are_all_whose_worker_changes(known, moving, seed):
    """Whoever holds them: every query that an assignment does not name as moved has the same worker under both plans."""
    rng = np.random.default_rng(seed)
    numbers = np.array(sorted(known), np.int64)
    none = np.empty(0)
    old = AssignmentPlan(
        SPACE, 4, "keyword", numbers, rng.integers(0, 4, len(numbers)), np.zeros(4), np.empty((0, 4)), none, none,
        np.zeros(1, np.int32), np.empty(0, np.int64),
    )  # fmt: skip
    new = old.with_moved(np.array(moving, np.int64), rng.integers(0, 4, len(moving)))
    asked = np.arange(-30, 30)
    at_rest = _regions(seed, len(asked))
    home = rng.integers(0, 4, len(asked))
    place = np.searchsorted(numbers, asked)
    for row, number in enumerate(asked):  # who holds a query that the plan knows is who the plan says
        if number in known:
            home[row] = old.assigned[place[row]]
    regions = Regions.of(tuple(at_rest.T), number=asked, home=home)
    workers = [plan.route_regions(regions)[1] for plan in (old, new)]
    assert set(asked[workers[0] != workers[1]]) <= set(moved_subscriptions(old, new).tolist()) <= set(moving)
    assert moved_subscriptions(_plan(1), _plan(2)) is None


def test_moved_places_leave_out_what_is_far_from_a_border_that_moved():
    """A shift of one border concerns the cells that change hands, and one more on either side."""
    boxes = np.array([[c, 0, c + 4, 19] for c in range(0, 30, 5)])
    old = GridPlan.of_boxes(GRID, boxes, np.arange(6), 6)
    moved = boxes.copy()
    moved[2, 2], moved[3, 0] = 13, 14
    ((low_x, low_y, high_x, high_y),) = moved_places(old, old.with_boxes(moved, np.arange(6)))
    assert (low_x, high_x) == pytest.approx((SPACE.min_x + 13 / 3, SPACE.min_x + 16 / 3))
    assert (low_y, high_y) == (-np.inf, np.inf)


def test_moved_places_are_unknown_where_places_do_not_decide():
    """Plans that keep queries at their place, or are of another grid, say nothing about where."""
    plan, other = _plan(1), _plan(2)
    assert moved_places(plan, other) is not None
    assert moved_places(plan, plan).shape == (0, 4)
    assert moved_places(_plan(1, anchored=True), _plan(2, anchored=True)) is None
    finer = FineGrid(SPACE, 60, 20)
    assert moved_places(plan, GridPlan.of_boxes(finer, np.array([[0, 0, 59, 19]]), np.array([0]), 6)) is None


@given(st.lists(st.integers(-5, 5)))
def test_distinct_values_are_those_of_a_set(values):
    """Each once, ascending."""
    assert distinct(np.array(values, np.int64)).tolist() == sorted(set(values))
