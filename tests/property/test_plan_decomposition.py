"""Decompositions and allocations against plain references."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from partitioners import FineGrid, greedy, karmarkar_karp, loads
from partitioners.builders.kd_decomposition import kd_decomposition, kd_plan, uniform_boxes
from partitioners.builders.keyword_partition import keyword_partition
from partitioners.builders.spatial_partition import spatial_partition
from streams.columns import sorted_rows
from streams.geometry import Rect

tables = st.tuples(st.integers(1, 7), st.integers(1, 7)).flatmap(
    lambda shape: arrays(np.float64, shape, elements=st.integers(0, 9).map(float))
)


def _cost(table, box):
    x0, y0, x1, y1 = box
    return table[y0 : y1 + 1, x0 : x1 + 1].sum()


def _halves(box):
    x0, y0, x1, y1 = box
    for x in range(x0, x1):
        yield 0, x, (x0, y0, x, y1), (x + 1, y0, x1, y1)
    for y in range(y0, y1):
        yield 1, y, (x0, y0, x1, y), (x0, y + 1, x1, y1)


def _cells(box):
    return (box[2] - box[0] + 1) * (box[3] - box[1] + 1)


def _naive_kd(table, partitions):
    """Cut as the paper says, adding up the cells of every half of every cut."""
    rows, columns = table.shape
    queue = [(0, (0, 0, columns - 1, rows - 1))]
    single, number = [], 0
    while queue and len(queue) + len(single) < partitions:
        top = min(queue, key=lambda entry: (-_cost(table, entry[1]), entry[0]))
        queue.remove(top)
        cuts = [
            ((max(_cost(table, a), _cost(table, b)), abs(_cells(a) - _cells(b)), axis, place), a, b)
            for axis, place, a, b in _halves(top[1])
        ]
        if not cuts:
            single.append(top[1])
            continue
        _, first, second = min(cuts)
        queue += [(number + 1, first), (number + 2, second)]
        number += 2
    return sorted([box for _, box in queue] + single, key=lambda box: (box[1], box[0]))


@settings(max_examples=200, deadline=None)
@given(table=tables, partitions=st.integers(1, 12))
def test_kd_decomposition_equals_the_naive_one(table, partitions):
    """Prefix sums change the time of the decomposition and nothing else."""
    assert [tuple(box) for box in kd_decomposition(table, partitions).tolist()] == _naive_kd(table, partitions)


@settings(max_examples=100, deadline=None)
@given(table=tables, workers=st.integers(1, 60))
def test_kd_plan_covers_the_grid_with_the_cost_of_each_partition(table, workers):
    """Every cell is in one box, as many boxes as cells or workers allow, costs as Equation 2 says."""
    grid = FineGrid(Rect(0, 0, 1, 1), table.shape[1], table.shape[0])
    plan = kd_plan(grid, table, workers)
    assert len(plan.boxes) == min(workers, grid.cells)
    assert plan.cost.tolist() == [_cost(table, box) for box in plan.boxes.tolist()]
    assert np.bincount(plan.a_grid.owner, minlength=len(plan.boxes)).tolist() == [
        _cells(box) for box in plan.boxes.tolist()
    ]


@settings(max_examples=60, deadline=None)
@given(columns=st.integers(1, 20), rows=st.integers(1, 20), partitions=st.integers(1, 30))
def test_uniform_boxes_tile_the_grid(columns, rows, partitions):
    """The boxes of a uniform grid cover every cell once."""
    boxes = uniform_boxes(FineGrid(Rect(0, 0, 1, 1), columns, rows), partitions)
    seen = np.zeros((rows, columns), int)
    for x0, y0, x1, y1 in boxes.tolist():
        seen[y0 : y1 + 1, x0 : x1 + 1] += 1
    assert (seen == 1).all()
    assert len(boxes) <= partitions


def _naive_spatial(subscriptions, messages, parts):
    total = max(messages.sum(), 1)

    def cost(box):
        return _cost(subscriptions, box) * (_cost(messages, box) / total)

    def cut(box, depth, wanted):
        if wanted == 1 or _cells(box) == 1:
            return [box]
        left = wanted // 2
        axis = depth % 2
        if box[axis] == box[axis + 2]:
            axis = 1 - axis
        cuts = []
        for which, place, a, b in _halves(box):
            if which == axis:
                difference = abs(cost(a) / left - cost(b) / (wanted - left))
                uneven = abs(_cells(a) - _cells(b))
                cuts.append((difference, uneven, place, a, b))
        _, _, _, a, b = min(cuts)
        return cut(a, depth + 1, left) + cut(b, depth + 1, wanted - left)

    rows, columns = subscriptions.shape
    return cut((0, 0, columns - 1, rows - 1), 0, parts)


@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 10**6), rows=st.integers(1, 6), columns=st.integers(1, 6), parts=st.integers(1, 9))
def test_spatial_partition_equals_the_naive_one(seed, rows, columns, parts):
    """Algorithm 3 cuts where the difference of costs is least."""
    rng = np.random.default_rng(seed)
    subscriptions = rng.integers(0, 5, (rows, columns)).astype(float)
    messages = rng.integers(0, 5, (rows, columns)).astype(float)
    boxes, costs = spatial_partition(subscriptions, messages, parts)
    assert [tuple(box) for box in boxes.tolist()] == _naive_spatial(subscriptions, messages, parts)
    share = messages.sum() or 1
    assert costs == pytest.approx([_cost(subscriptions, b) * _cost(messages, b) / share for b in boxes.tolist()])


def _naive_keywords(subscriptions, messages, low, high, parts):
    def cost(a, b):
        n = sum(any(a <= w < b for w in row) for row in subscriptions)
        return n * (sum(any(a <= w < b for w in row) for row in messages) / max(len(messages), 1))

    if parts == 1 or high - low < 2:
        return [(low, cost(low, high))]
    left = parts // 2
    choices = [
        (abs(cost(low, c) / left - cost(c, high) / (parts - left)), abs(2 * (c - low) - (high - low)), c)
        for c in range(low + 1, high)
    ]
    cut = min(choices)[2]
    return _naive_keywords(subscriptions, messages, low, cut, left) + _naive_keywords(
        subscriptions, messages, cut, high, parts - left
    )


def _ragged(rows):
    row = np.repeat(np.arange(len(rows)), [len(r) for r in rows]).astype(np.int64)
    return sorted_rows(row, np.array([w for r in rows for w in r], np.int64), len(rows))


word_rows = st.lists(st.lists(st.integers(0, 7), max_size=4), max_size=8)


@settings(max_examples=200, deadline=None)
@given(subscriptions=word_rows, messages=word_rows, parts=st.integers(1, 9))
def test_keyword_partition_equals_the_naive_one(subscriptions, messages, parts):
    """Algorithm 4 cuts where the difference of costs is least, also for rows with several keywords in a range."""
    starts, costs = keyword_partition(_ragged(subscriptions), _ragged(messages), 8, parts)
    expected = _naive_keywords(subscriptions, messages, 0, 8, parts)
    assert starts.tolist() == [low for low, _ in expected]
    assert costs.tolist() == pytest.approx([cost for _, cost in expected])


def _best(costs, workers):
    """Return the smallest possible largest load, by trying everything."""
    return min(
        max(loads(costs, np.array(choice, np.int64), workers)) for choice in product(range(workers), repeat=len(costs))
    )


small_costs = st.lists(st.integers(0, 40), min_size=1, max_size=7)


@settings(max_examples=150, deadline=None)
@given(costs=small_costs, workers=st.integers(1, 3))
def test_allocations_keep_their_bounds(costs, workers):
    """Largest differencing and greedy stay within the factors that are proved for them."""
    best = _best(costs, workers)
    bound = 7 / 6 if workers == 2 else 4 / 3 - 1 / (3 * workers)
    assert loads(costs, karmarkar_karp(costs, workers), workers).max() <= bound * best + 1e-9
    assert loads(costs, greedy(costs, workers), workers).max() <= (4 / 3 - 1 / (3 * workers)) * best + 1e-9


@settings(max_examples=100, deadline=None)
@given(costs=st.lists(st.integers(0, 40), min_size=1, max_size=4))
def test_karmarkar_karp_two_way_is_optimal_for_four_parts(costs):
    """With at most four parts and two workers, largest differencing finds the optimum."""
    assert loads(costs, karmarkar_karp(costs, 2), 2).max() == _best(costs, 2)


@settings(max_examples=100, deadline=None)
@given(costs=st.lists(st.floats(0, 1e6), max_size=60), workers=st.integers(1, 9))
def test_allocations_are_complete(costs, workers):
    """Every part gets one existing worker and no cost is lost."""
    for allocate in (greedy, karmarkar_karp):
        worker = allocate(costs, workers)
        assert len(worker) == len(costs)
        assert ((worker >= 0) & (worker < workers)).all()
        assert loads(costs, worker, workers).sum() == pytest.approx(sum(costs))
