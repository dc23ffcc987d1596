"""Tornado's operations on small plans, as its figures have them, and what is refused."""

import numpy as np
import pytest
from rebalancing_model import OPERATIONS, SPACE, Field, one_partition

from operators.balancing.policy import View
from operators.balancing.random_policy import RandomSettings
from operators.balancing.registry import POLICIES, policy_of
from operators.balancing.statistics import STATISTICS
from operators.balancing.tornado import (
    BandSums,
    BorderShift,
    CellStatistics,
    CornerShiftOperation,
    Split,
    SplitMerge,
    SplitOff,
    apply,
    candidates,
    decide,
    load_of_partition,
    moves,
    shift_position,
)
from operators.balancing.tornado.estimates import FieldEstimate
from operators.balancing.tornado.partition_loads import best_split, load_of_sums
from operators.balancing.tornado.partitions import Partitions
from operators.balancing.tornado.random_moves import decide_at_random
from operators.balancing.tornado.settings import TornadoSettings
from partitioners import FineGrid, GridPlan
from partitioners.grids.adjacency import Side
from partitioners.plans.grid_plan import keyword_ranges
from streams.errors import DeclarationError, InputError

NO_QUERIES = np.empty((0, 4), np.int64)


def _plan(boxes, columns, rows, workers=None, order=None):
    workers = workers or len(boxes)
    order = np.arange(len(boxes)) if order is None else np.array(order)
    return GridPlan.of_boxes(FineGrid(SPACE, columns, rows), np.array(boxes), order, workers)


def _boxes(plan):
    return dict(Partitions.of(plan).boxes)


@pytest.fixture
def figure_4():
    """X above Y and Z, which lie side by side."""
    return _plan([(0, 2, 3, 3), (0, 0, 1, 1), (2, 0, 3, 1)], 4, 4)


def test_figure_5_is_split_between_rows_2_and_3():
    """The example of Section 4.3: between rows there is a cut with no difference, between columns there is none."""
    cost = np.zeros((4, 4), np.int64)
    for column, row, queries in ((2, 3, 1), (4, 2, 2), (4, 4, 1)):
        cost[row - 1, column - 1] = queries
    field = Field(cost, NO_QUERIES)
    sums = BandSums.of_load(field.load((0, 0, 3, 3)), (0, 0, 3, 3))
    assert sums.costs[0].tolist() == [0, 0, 1, 1, 4]
    assert sums.costs[1].tolist() == [0, 0, 2, 3, 4]
    assert best_split(sums) == Split(1, 1, 2, 2, 0, 0)


def test_split_takes_the_position_before_half_where_it_is_better():
    """The first position at or beyond half, where the paper stops, leaves 6 : 0, the one before it 2 : 4."""
    sums = BandSums.of_load(Field(np.array([[2, 4, 0]]), NO_QUERIES).load((0, 0, 2, 0)), (0, 0, 2, 0))
    assert best_split(sums) == Split(0, 0, 2, 4, 0, 0)


def test_split_cuts_few_queries_among_equal_ones():
    """Two cuts divide the cost equally; the one that no query overlaps is taken."""
    field = Field(np.array([[1, 0], [0, 1]]), np.array([[0, 0, 1, 0], [0, 1, 1, 1]]))
    sums = BandSums.of_load(field.load((0, 0, 1, 1)), (0, 0, 1, 1))
    assert best_split(sums) == Split(1, 0, 1, 1, 1, 1)


def test_figure_4_splits_one_and_merges_two(figure_4):
    """X is cut, Y takes over all of Z, and Z gets half of X with the number of its old partition."""
    split = Split(0, 1, 5, 5, 1, 2)
    new = apply(figure_4, [SplitMerge(0, split, True, 2, 1, 2)])
    assert _boxes(new) == {0: (2, 2, 3, 3), 1: (0, 0, 3, 1), 2: (0, 2, 1, 3)}
    assert new.part_worker.tolist() == [0, 1, 2]
    assert new.version == 2
    assert moves(figure_4, new) == [(0, 2, (0, 2, 1, 3)), (2, 1, (2, 0, 3, 1))]


def test_figure_4_uses_an_idle_worker_as_the_auxiliary():
    """With a worker to spare, it gets half of X, and Z is the one to spare afterwards."""
    plan = _plan([(0, 2, 3, 3), (0, 0, 1, 1), (2, 0, 3, 1)], 4, 4, workers=4)
    new = apply(plan, [SplitMerge(0, Split(0, 1, 5, 5, 1, 2), False, 3, 1, 2)])
    assert _boxes(new) == {0: (0, 2, 1, 3), 1: (0, 0, 3, 1), 3: (2, 2, 3, 3)}
    assert Partitions.of(new).idle == (2,)


def test_figure_4_is_what_the_paper_decides(figure_4):
    """X is dear, Y and Z are cheap: they merge, C_r and C_t as in Equations 4 and 5."""
    cost = np.array([[1, 1, 0, 1], [0, 0, 0, 0], [5, 0, 0, 4], [4, 0, 0, 6]])
    queries = np.array([[0, 2, 0, 2], [3, 3, 3, 3], [2, 3, 3, 3], [0, 0, 1, 1], [1, 0, 1, 0], [2, 0, 2, 0]])
    found = OPERATIONS["tornado-paper"](Field(cost, queries).loads(figure_4), figure_4, TornadoSettings(beta=0.5))
    split = Split(0, 0, 9, 10, 1, 2)
    assert found == (SplitMerge(0, split, True, 2, 1, 2, 19.0 - 10.0, 0.5 * (1 + 1)),)


def test_figure_3_shifts_a_border_both_ways():
    """A vertical border moves to the left and to the right, a horizontal one down and up."""
    beside, stacked = _plan([(0, 0, 1, 3), (2, 0, 3, 3)], 4, 4), _plan([(0, 0, 3, 1), (0, 2, 3, 3)], 4, 4)
    right = BorderShift((0,), (1,), Side.RIGHT, 0)
    assert _boxes(apply(beside, [right])) == {0: (0, 0, 0, 3), 1: (1, 0, 3, 3)}
    assert _boxes(apply(beside, [BorderShift((1,), (0,), Side.LEFT, 2)])) == {0: (0, 0, 2, 3), 1: (3, 0, 3, 3)}
    assert _boxes(apply(stacked, [BorderShift((0,), (1,), Side.ABOVE, 0)])) == {0: (0, 0, 3, 0), 1: (0, 1, 3, 3)}
    below = BorderShift((1,), (0,), Side.BELOW, 2)
    assert _boxes(apply(stacked, [below])) == {0: (0, 0, 3, 2), 1: (0, 3, 3, 3)}
    assert (right.kind, below.kind) == ("vertical-shift", "horizontal-shift")


def test_figure_3_shifts_a_corner():
    """The strip beside the smaller neighbour goes to it."""
    plan = _plan([(0, 0, 1, 3), (2, 0, 3, 0), (2, 1, 3, 3)], 4, 4)
    new = apply(plan, [CornerShiftOperation(0, 1, Side.RIGHT)])
    assert _boxes(new) == {0: (0, 1, 1, 3), 1: (0, 0, 3, 0), 2: (2, 1, 3, 3)}


def test_border_of_several_moves_as_a_whole():
    """One gives to two on the other side; nothing else changes."""
    plan = _plan([(0, 0, 1, 3), (2, 0, 3, 0), (2, 1, 3, 3)], 4, 4)
    new = apply(plan, [BorderShift((0,), (1, 2), Side.RIGHT, 0)])
    assert _boxes(new) == {0: (0, 0, 0, 3), 1: (1, 0, 3, 0), 2: (1, 1, 3, 3)}


def test_idle_workers_are_given_work_without_a_merge():
    """A partition is split for a worker that has none; the others stay as they are."""
    field = Field(np.array([[4, 1, 1, 4]]), NO_QUERIES)
    plan = one_partition(4, 1, 2)
    (operation,) = decide(field.loads(plan), plan, TornadoSettings(crowding=1.0))
    assert operation == SplitOff(0, Split(0, 1, 5, 5, 0, 0), False, 1, 5.0, 0.0)
    assert _boxes(apply(plan, [operation])) == {0: (0, 0, 1, 0), 1: (2, 0, 3, 0)}


def test_halves_that_are_parted_cost_less_where_cost_crowds():
    """With crowding 2 half of the weight is a quarter of the cost, counted or estimated; parts unite as they part."""
    field, plan = Field(np.array([[4, 4, 4, 4]]), NO_QUERIES), one_partition(4, 1, 2)
    loads = field.loads(plan)
    (operation,) = decide(loads, plan, TornadoSettings(crowding=2.0))
    assert operation == SplitOff(0, Split(0, 1, 4, 4, 0, 0), False, 1, 12.0, 0.0)
    estimate = FieldEstimate({0: loads[0]}, {0: (0, 0, 3, 0)}, 2.0)
    assert [estimate.cost((0, 0, last, 0)) for last in range(4)] == [1.0, 4.0, 9.0, 16.0]
    assert estimate.joint(4.0, 9.0) == 25.0


def test_shift_without_a_position_waits_for_the_giver():
    """It is an error to apply it before, it is left out when the giver found none, and applied when it did."""
    plan = _plan([(0, 0, 1, 0), (2, 0, 3, 0)], 4, 1)
    shift = BorderShift((0,), (1,), Side.RIGHT, None)
    with pytest.raises(InputError, match="no position yet; ask worker 0"):
        apply(plan, [shift])
    assert _boxes(apply(plan, [shift], {0: None})) == _boxes(plan)
    assert _boxes(apply(plan, [shift], {0: 0})) == {0: (0, 0, 0, 0), 1: (1, 0, 3, 0)}


def test_shift_position_is_none_where_nothing_helps():
    """A single column cannot be cut, and a dear single cell is better left where it is."""
    narrow = Field(np.array([[8, 0]]), NO_QUERIES)
    assert shift_position(narrow.load((0, 0, 0, 0)), (0, 0, 0, 0), Side.RIGHT, 0) is None
    dear = Field(np.array([[0, 8, 0]]), NO_QUERIES)
    assert shift_position(dear.load((0, 0, 1, 0)), (0, 0, 1, 0), Side.RIGHT, 0) is None


def test_decisions_wait_for_enough_to_judge_by():
    """Below the threshold, below the minimal cost, or where moving costs more than it gives, nothing is done."""
    field = Field(np.array([[4, 2, 0, 2]]), np.array([[0, 0, 3, 0]] * 4))
    plan = _plan([(0, 0, 1, 0), (2, 0, 3, 0)], 4, 1)
    loads = field.loads(plan)
    for name in ("tornado", "tornado-paper"):
        act = OPERATIONS[name]
        assert act(loads, plan, TornadoSettings(beta=0.0)) != ()
        assert act(loads, plan, TornadoSettings(beta=0.0, threshold=1.6)) == ()
        assert act(loads, plan, TornadoSettings(beta=0.0, minimal_cost=9)) == ()
        assert act(loads, plan, TornadoSettings(beta=10.0)) == ()
    assert decide(loads, plan, TornadoSettings(beta=0.0, gain=0.6)) == ()


def test_nothing_counted_is_nothing_to_do():
    """Without any cost no policy but the random one changes anything."""
    field, plan = Field(np.zeros((2, 4), np.int64), NO_QUERIES), _plan([(0, 0, 1, 1), (2, 0, 3, 1)], 4, 2)
    cells = [CellStatistics.of_load(field.load(box), plan, worker) for worker, box in _boxes(plan).items()]
    eager = TornadoSettings(beta=0.0, threshold=1.0, minimal_cost=0, gain=0.0)
    for name, statistics in (("tornado", field.loads(plan)), ("tornado-paper", field.loads(plan))):
        assert OPERATIONS[name](statistics, plan, eager) == ()
    assert OPERATIONS["tornado-centralised"](cells, plan, eager) == ()
    assert policy_of("none").decide(View(plan, [], None)) == (None, None)
    assert decide_at_random(plan, 0) != ()


def test_statistics_of_another_plan_are_refused():
    """A missing worker, a worker twice, another version: each is named."""
    field, plan = Field(np.array([[4, 0, 0, 1]]), NO_QUERIES), _plan([(0, 0, 1, 0), (2, 0, 3, 0)], 4, 1)
    first, second = field.loads(plan)
    with pytest.raises(InputError, match=r"expected one of each worker with a partition: \[0, 1\]"):
        candidates([first], plan, 1.0)
    with pytest.raises(InputError, match="worker 0 twice"):
        decide([first, first, second], plan, TornadoSettings())
    later = apply(plan, [BorderShift((0,), (1,), Side.RIGHT, 0)])
    with pytest.raises(InputError, match="counted under plan 1, but plan 2 is in force"):
        decide([first, second], later, TornadoSettings())
    cells = CellStatistics.of_load(field.load((0, 0, 1, 0)), plan, 0)
    with pytest.raises(InputError, match="under plan 1, but has"):
        cells.load(later, 4)


def test_work_outside_the_box_is_refused():
    """Aggregates that were not counted afresh under the plan are no statistics of it."""
    field, plan = Field(np.array([[4, 0, 0, 1]]), NO_QUERIES), _plan([(0, 0, 1, 0), (2, 0, 3, 0)], 4, 1)
    old = field.load((0, 0, 3, 0))
    with pytest.raises(InputError, match="1 of a cost of 5 was counted outside columns 0 to 1; count afresh"):
        load_of_partition(old, plan, 0)
    with pytest.raises(InputError, match="1 of a cost of 5 was counted outside the box"):
        CellStatistics.of_load(old, plan, 0)
    with pytest.raises(InputError, match="load of 3 columns"):
        load_of_partition(Field(np.array([[4, 0, 0]]), NO_QUERIES).load((0, 0, 1, 0)), plan, 1)


def test_impossible_operations_are_refused():
    """Workers without a partition, cuts outside, takers that are busy, strips that are none, merges that are no box."""
    plan = _plan([(0, 0, 1, 3), (2, 0, 3, 0), (2, 1, 3, 3)], 4, 4, workers=4)
    cut = Split(1, 1, 0, 0, 0, 0)
    for operation, message in (
        (SplitOff(3, cut, True, 3), "names worker 3, which has no partition"),
        (SplitOff(0, cut, True, 1), "worker 1, which is not idle"),
        (SplitOff(0, cut, True, 4), "worker 4 of a plan for 4"),
        (SplitOff(0, Split(1, 3, 0, 0, 0, 0), True, 3), r"cuts the box \[0, 0, 1, 3\] at 3"),
        (SplitMerge(1, Split(0, 2, 0, 0, 0, 0), True, 3, 0, 2), "cover"),
        (BorderShift((0,), (1, 2), Side.RIGHT, -1), "leaves nothing to worker 0"),
        (BorderShift((0,), (1,), Side.RIGHT, 0), "cover"),
        (CornerShiftOperation(1, 0, Side.LEFT), "no corner neighbour"),
    ):
        with pytest.raises(InputError, match=message):
            apply(plan, [operation])
    with pytest.raises(InputError, match="rebalancing keeps the fine grid"):
        moves(plan, one_partition(4, 3, 4))


def test_plans_whose_borders_cannot_move_are_refused():
    """Plans that divide keywords, send objects everywhere or give a worker two boxes say what to do."""
    grid, boxes = FineGrid(SPACE, 2, 1), np.array([[0, 0, 0, 0], [1, 0, 1, 0]])
    part = (*keyword_ranges(np.array([1]), np.array([0])), np.array([0, 1], np.int32))
    for plan, message in (
        (GridPlan.of_boxes(grid, boxes, np.array([0, 1]), 2, anchored=True), "sends objects everywhere"),
        (GridPlan.of_parts(grid, boxes, [part, part], 2), "divides keywords"),
        (GridPlan.of_boxes(grid, boxes, np.array([1, 1]), 2), "worker 1 has 2 partitions"),
    ):
        with pytest.raises(DeclarationError, match=message):
            Partitions.of(plan)
    with pytest.raises(InputError, match=r"worker 1 has no partition; those that have: \[0\]"):
        Partitions.of(one_partition(2, 1, 2)).box(1)


def test_settings_out_of_range_are_refused():
    """Each setting has a range, and the error names the setting."""
    for name, value in (
        ("beta", -1.0),
        ("beta", float("nan")),
        ("operations", -1),
        ("threshold", 0.5),
        ("minimal_cost", -1),
        ("gain", 2.0),
        ("knots", 10**6),
    ):
        with pytest.raises(DeclarationError, match=name):
            TornadoSettings(**{name: value})
    for name, value in (("seed", -1), ("operations", -1), ("units", 1.5)):
        with pytest.raises(DeclarationError, match=name):
            RandomSettings(**{name: value})
    plan = one_partition(2, 1, 1)
    sums = BandSums.of_load(Field(np.ones((1, 2), np.int64), NO_QUERIES).load((0, 0, 1, 0)), (0, 0, 1, 0))
    with pytest.raises(DeclarationError, match="knots"):
        load_of_sums(sums, plan, 0, -1)


def test_policies_are_found_by_name():
    """Each is registered under its own name; a typo is answered with the nearest."""
    assert all(policy_of(name).name == name for name in POLICIES)
    assert {"tornado", "tornado-paper", "tornado-centralised", "random", "none"} <= set(POLICIES)
    assert all(policy.statistics in STATISTICS for policy in POLICIES.values())
    with pytest.raises(
        DeclarationError, match=r"unknown rebalancing policy 'tornado-centralized' \(did you mean 'torn"
    ):
        policy_of("tornado-centralized")


def test_shift_position_is_the_nearest_of_equal_ones():
    """Empty columns stay with the giver, whichever side they are given to."""
    right, left = Field(np.array([[4, 0, 0, 2]]), NO_QUERIES), Field(np.array([[2, 0, 0, 4]]), NO_QUERIES)
    assert shift_position(right.load((0, 0, 3, 0)), (0, 0, 3, 0), Side.RIGHT, 0) == 2
    assert shift_position(left.load((0, 0, 3, 0)), (0, 0, 3, 0), Side.LEFT, 0) == 0


def test_decisions_are_not_taken_on_estimates_alone():
    """A column of the dear partition looks as if it were shared evenly by two takers, but one would get all of it."""
    cost = np.array([[0, 10, 11, 0], [10, 0, 11, 0]])
    plan = _plan([(0, 0, 1, 1), (2, 0, 3, 0), (2, 1, 3, 1)], 4, 2)
    assert decide(Field(cost, NO_QUERIES).loads(plan), plan, TornadoSettings()) == ()
    cost[:, 2] = 9
    assert decide(Field(cost, NO_QUERIES).loads(plan), plan, TornadoSettings()) != ()
