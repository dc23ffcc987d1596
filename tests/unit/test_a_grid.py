"""A-Grid by example: the paper's figure, pinwheels, borders, rebalancing, and what is refused."""

from dataclasses import replace

import numpy as np
import pytest

from partitioners import FineGrid
from partitioners.builders.kd_decomposition import uniform_plan
from partitioners.columns import Points, Regions
from partitioners.grids import range_routing
from partitioners.grids.a_grid import AGrid
from partitioners.grids.adjacency import Adjacency, Neighbour, Side, corner_strip
from partitioners.grids.plain_grid import PlainGrid
from partitioners.grids.r_tree import RTree
from partitioners.grids.tiling import MAX_PARTITIONS
from partitioners.plans.grid_plan import GridPlan
from streams.errors import DeclarationError, InputError
from streams.geometry import Rect

GRID = FineGrid(Rect(0, 0, 3, 3), 3, 3)
#: Four arms around a centre, turning one way.
PINWHEEL = [(0, 0, 1, 0), (2, 0, 2, 1), (1, 2, 2, 2), (0, 1, 0, 2), (1, 1, 1, 1)]
ROUTERS = [AGrid.of_boxes, PlainGrid.of_boxes, RTree.of_boxes]
each_router = pytest.mark.parametrize("make", ROUTERS, ids=["a-grid", "plain grid", "r-tree"])


def _route(router, *bounds):
    return router.route_ranges(*(np.array([edge], float) for edge in bounds))[1].tolist()


def _pinwheel():
    return AGrid.of_boxes(GRID, PINWHEEL)


@each_router
@pytest.mark.parametrize(
    ("bounds", "expected"),
    [
        ((0.5, 0.5, 2.5, 2.5), [0, 1, 2, 3, 4]),
        ((1.2, 1.2, 1.8, 1.8), [4]),
        ((1.2, 0.5, 2.5, 1.5), [0, 1, 4]),
        ((0.5, 1.5, 1.5, 2.5), [2, 3, 4]),
        ((1.0, 1.0, 1.0, 1.0), [4]),
        ((1.5, 1.5, 2.0, 2.0), [1, 2, 4]),
        ((3.0, 3.0, 3.0, 3.0), [2]),
        ((3.0, 0.0, 9.0, 0.0), [1]),
        ((-5.0, -5.0, 0.0, 0.0), [0]),
        ((-np.inf, -np.inf, np.inf, np.inf), [0, 1, 2, 3, 4]),
        ((3.1, 0.0, 4.0, 1.0), []),
        ((0.0, -2.0, 1.0, -0.1), []),
        ((2.0, 2.0, 1.0, 1.0), []),
    ],
)
def test_range_router_on_a_pinwheel(make, bounds, expected):
    """Ranges on a tiling that no straight cut divides: inside, on borders, at and beyond the edges, upside down."""
    assert _route(make(GRID, PINWHEEL), *bounds) == expected


def test_a_grid_routes_the_range_of_figure_2():
    """In a layout like the paper's Figure 2(b), a range over six partitions finds all six and not the seventh."""
    grid = FineGrid(Rect(0, 0, 8, 8), 8, 8)
    a, b, c, d = (0, 2, 3, 5), (4, 0, 7, 3), (4, 4, 4, 7), (5, 4, 7, 5)
    e, f, g = (5, 6, 7, 7), (0, 6, 3, 7), (0, 0, 3, 1)
    a_grid = AGrid.of_boxes(grid, [a, b, c, d, e, f, g])
    assert _route(a_grid, 2.5, 2.5, 6.5, 6.5) == [0, 1, 2, 3, 4, 5]


@each_router
def test_range_router_takes_no_rows(make):
    """Empty batches have empty answers."""
    router, none = make(GRID, PINWHEEL), np.empty(0)
    off, found = router.route_ranges(none, none, none, none)
    assert (off.tolist(), found.tolist(), router.route_points(none, none).tolist()) == ([0], [], [])


@each_router
def test_range_router_sends_points_outside_to_the_nearest_cell(make):
    """Points beyond the edges belong to the border cell, points on a border to the cell that begins there."""
    x, y = np.array([-1.0, 9.0, 1.0, 2.0, 3.0]), np.array([-1.0, 0.5, 1.0, 2.0, 3.0])
    assert make(GRID, PINWHEEL).route_points(x, y).tolist() == [0, 1, 4, 2, 2]


@each_router
@pytest.mark.parametrize("columns", [130, 1000])
def test_range_router_keeps_rows_ascending_however_far_apart_the_numbers_are(make, columns):
    """Long rows come in order, whether their numbers are near one another or thousands apart."""
    grid = FineGrid(Rect(0, 0, columns, 60), columns, 60)
    cells = np.arange(columns * 60)
    boxes = np.stack([cells % columns, cells // columns] * 2, axis=1)
    expected = [row * columns + column for row in range(20, 25) for column in (7, 8, 9)]
    assert _route(make(grid, boxes), 7.5, 20.5, 9.5, 24.5) == expected


@each_router
def test_range_router_refuses_columns_of_different_lengths(make):
    """Kernels do not check their columns, so the router does."""
    router, one, two = make(GRID, PINWHEEL), np.zeros(1), np.zeros(2)
    with pytest.raises(InputError, match="'y' of points has 2 rows, expected 1"):
        router.route_points(one, two)
    with pytest.raises(InputError, match="'max_x' of ranges has 2 rows, expected 1"):
        router.route_ranges(one, one, two, one)


@each_router
def test_range_router_bounds_its_answer(make, monkeypatch):
    """A batch whose answer would exceed the limit is refused as a whole; one that reaches it is not."""
    router, zero, three = make(GRID, PINWHEEL), np.zeros(4), np.full(4, 3.0)
    monkeypatch.setattr(range_routing, "MAX_ROUTED", 20)
    assert len(router.route_ranges(zero, zero, three, three)[1]) == 20
    monkeypatch.setattr(range_routing, "MAX_ROUTED", 19)
    with pytest.raises(InputError, match="route fewer ranges at a time"):
        router.route_ranges(zero, zero, three, three)


@each_router
@pytest.mark.parametrize(
    ("boxes", "says"),
    [
        ([], "expected 1 to 65,535 rows"),
        ([(0, 0, 2)], "shape"),
        ([(0, 0, 2, 2.0)], "whole numbers"),
        ([(0, 0, 3, 2)], "expected 0..2"),
        ([(0, 0, 2, 0), (0, 2, 2, 1)], "partition 1 is the box .* ends before it begins"),
        ([(0, 0, 2, 1)], "column 0, row 2 belongs to 0 partitions"),
        ([(0, 0, 2, 1), (1, 1, 2, 2), (0, 2, 0, 2)], "column 1, row 1 belongs to 2 partitions"),
        ([(0, 0, 2, 2), (1, 1, 1, 1)], "column 1, row 1 belongs to 2 partitions"),
    ],
)
def test_range_router_refuses_what_is_no_tiling(make, boxes, says):
    """Boxes that do not cover the space exactly once are refused with the first cell that shows it."""
    with pytest.raises(InputError, match=says):
        make(GRID, boxes)


def test_range_router_refuses_more_partitions_than_a_cell_can_name():
    """The number of partitions is limited."""
    cells = np.arange(MAX_PARTITIONS + 1)
    boxes = np.stack([cells % 256, cells // 256] * 2, axis=1)
    with pytest.raises(InputError, match="65,535"):
        PlainGrid.of_boxes(FineGrid(Rect(0, 0, 1, 1), 256, 256), boxes)


def test_grid_plan_takes_over_the_cells_of_the_plan_before():
    """A move of units shares the structure, a shift of a border repaints it, and another grid begins afresh."""
    grid = FineGrid(Rect(0, 0, 2, 1), 40, 30)
    plan = uniform_plan(grid, 4)
    assert plan.with_units([0], [3]).a_grid is plan.a_grid
    boxes = plan.boxes.copy()
    low, high = boxes[0], next(box for box in boxes if box[0] == boxes[0, 2] + 1 and box[1] == boxes[0, 1])
    low[2], high[0] = low[2] - 1, high[0] - 1
    shifted = plan.with_boxes(boxes, plan.part_worker)
    assert shifted.a_grid.boxes.tolist() == boxes.tolist()
    assert (shifted.version, shifted.cost.tolist()) == (2, [0.0] * 4)
    assert np.count_nonzero(shifted.a_grid.owner != plan.a_grid.owner) == high[3] - high[1] + 1
    assert plan.a_grid.boxes.tolist() == plan.boxes.tolist() != boxes.tolist()
    finer = replace(plan, columns=80, boxes=plan.boxes * [2, 1, 2, 1] + [0, 0, 1, 0], near=plan)
    assert finer.a_grid.grid.columns == 80


@pytest.mark.parametrize("workers", [[0, 1, 2, 3], [0, 1, 3, 2], [0, 2, 4, 5], [1, 2, 3, 4]])
def test_grid_plan_names_workers_whatever_their_numbers(workers):
    """Where box i is not worker i's, points and ranges get the workers all the same."""
    grid = FineGrid(Rect(0, 0, 4, 4), 4, 4)
    boxes = np.array([[0, 0, 1, 1], [2, 0, 3, 1], [0, 2, 1, 3], [2, 2, 3, 3]])
    plan = GridPlan.of_boxes(grid, boxes, np.array(workers), 6)
    low, high = np.array([0.5, 2.5, 0.5, 2.5]), np.array([0.5, 0.5, 2.5, 2.5])
    assert plan.route_points(Points.of(low, high))[1].tolist() == workers
    whole = Regions.of(([0.0], [0.0], [4.0], [4.0]))
    assert plan.route_regions(whole)[1].tolist() == sorted(workers)
    assert plan.route_regions(Regions.of((low, high, low, high)))[1].tolist() == workers


def test_a_grid_shares_its_cells_where_no_border_moves():
    """Where nothing changes nothing is copied; a change of borders copies the cells and leaves the old ones alone."""
    a_grid = _pinwheel()
    assert a_grid.with_boxes(PINWHEEL) is a_grid
    shifted = a_grid.with_boxes([(0, 0, 0, 0), (1, 0, 2, 1), (1, 2, 2, 2), (0, 1, 0, 2)])
    assert shifted.owner.tolist() == [0, 1, 1, 3, 1, 1, 3, 2, 2]
    assert a_grid.owner.tolist() == [0, 0, 1, 3, 4, 1, 3, 2, 2]
    split = shifted.with_boxes([(0, 0, 0, 0), (1, 0, 2, 0), (1, 2, 2, 2), (0, 1, 0, 2), (1, 1, 2, 1)])
    assert split.owner.tolist() == [0, 1, 1, 3, 4, 4, 3, 2, 2]


@pytest.mark.parametrize(
    ("boxes", "says"),
    [
        (PINWHEEL[:4], "column 1, row 1 belongs to 0 partitions"),
        ([*PINWHEEL[:4], (1, 1, 2, 1)], "column 2, row 1 belongs to 2 partitions"),
        ([(0, 0, 0, 0), *PINWHEEL[1:4], (1, 1, 2, 1)], "column 1, row 0 belongs to 0 partitions"),
    ],
)
def test_a_grid_with_boxes_refuses_gaps_and_overlaps(boxes, says):
    """Gaps, overlaps, and an overlap that is as large as a gap are noticed when only some boxes change."""
    with pytest.raises(InputError, match=says):
        _pinwheel().with_boxes(boxes)


def test_a_grid_owns_its_boxes():
    """Later changes to the array that it was made of do not reach it."""
    boxes = np.array(PINWHEEL, np.int32)
    a_grid = AGrid.of_boxes(GRID, boxes)
    boxes[:] = 0
    assert a_grid.boxes.tolist() == [list(box) for box in PINWHEEL]


def test_a_grid_refuses_a_grid_whose_columns_its_map_cannot_hold():
    """The partition map has two bytes for a column, and says so before it would cut one off."""
    for columns, rows in ((65_536, 1), (1, 65_536)):
        with pytest.raises(DeclarationError, match="at most 65,535 columns and rows"):
            AGrid.of_boxes(FineGrid(Rect(0, 0, 1, 1), columns, rows), [(0, 0, columns - 1, rows - 1)])
    widest = FineGrid(Rect(0, 0, 65_535, 1), 65_535, 1)
    a_grid = AGrid.of_boxes(widest, [(0, 0, 65_533, 0), (65_534, 0, 65_534, 0)])
    assert _route(a_grid, 65_533.5, 0.0, 65_534.0, 1.0) == [0, 1]


def test_neighbours_tell_whole_sides_corners_and_parts():
    """A partition with one neighbour of each kind: mergeable, at a corner, in the middle of a side, and larger."""
    grid = FineGrid(Rect(0, 0, 6, 6), 6, 6)
    centre, left, right_low, right_high = (2, 1, 3, 4), (0, 1, 1, 4), (4, 1, 5, 2), (4, 3, 5, 4)
    below, above = (0, 0, 5, 0), (0, 5, 5, 5)
    a_grid = AGrid.of_boxes(grid, [centre, left, right_low, right_high, below, above])
    near = a_grid.neighbours(0)
    assert near == (
        Neighbour(1, Side.LEFT, Adjacency.WHOLE),
        Neighbour(2, Side.RIGHT, Adjacency.CORNER),
        Neighbour(3, Side.RIGHT, Adjacency.CORNER),
        Neighbour(4, Side.BELOW, Adjacency.PART),
        Neighbour(5, Side.ABOVE, Adjacency.PART),
    )
    assert [n.mergeable for n in near] == [True, False, False, False, False]
    assert corner_strip(centre, right_low, Side.RIGHT) == ((2, 1, 3, 2), (2, 3, 3, 4), (2, 1, 5, 2))
    assert corner_strip(centre, right_high, Side.RIGHT) == ((2, 3, 3, 4), (2, 1, 3, 2), (2, 3, 5, 4))


def test_neighbours_refuse_what_does_not_exist():
    """A partition that is not there, and a corner shift between boxes that form no corner, are errors."""
    with pytest.raises(InputError, match="no partition 5; expected 0 to 4"):
        _pinwheel().neighbours(5)
    with pytest.raises(InputError, match="no corner neighbour"):
        corner_strip((0, 0, 1, 1), (2, 0, 3, 1), Side.RIGHT)


def test_r_tree_refuses_nodes_without_branches():
    """A fan-out below two would never come to a root."""
    with pytest.raises(DeclarationError, match="expected at least 2"):
        RTree.of_boxes(GRID, PINWHEEL, fanout=1)
