"""Allocation of parts to workers."""

from itertools import permutations

import numpy as np
import pytest

from partitioners import greedy, greedy_in_order, imbalance, karmarkar_karp, loads, matching
from streams.errors import DeclarationError


@pytest.mark.parametrize(
    ("costs", "workers", "expected"),
    [
        ([4, 5, 6, 7, 8], 2, [14, 16]),
        ([8, 8, 8, 8], 4, [8, 8, 8, 8]),
        ([3, 3, 2, 2, 2], 2, [5, 7]),
        ([1, 2, 3, 4, 5, 6], 3, [7, 7, 7]),
        ([9, 5, 4, 3, 3, 3], 3, [8, 9, 10]),
        ([10], 3, [0, 0, 10]),
    ],
)
def test_karmarkar_karp_known_cases(costs, workers, expected):
    """Largest differencing gives the loads that the method gives by hand."""
    assert sorted(loads(costs, karmarkar_karp(costs, workers), workers).tolist()) == expected


def test_greedy_known_case_and_its_order():
    """The dearest part goes to the least loaded worker, ties to the lowest number."""
    assert greedy([2, 3, 7, 2], 2).tolist() == [1, 1, 0, 1]
    worker, load = greedy_in_order([1, 5, 1, 1], [0, 0.5])
    assert worker.tolist() == [0, 1, 0, 0]
    assert load.tolist() == [3, 5.5]


@pytest.mark.parametrize("allocate", [greedy, karmarkar_karp])
def test_allocation_spreads_parts_of_no_cost(allocate):
    """Parts without cost are shared out evenly too."""
    worker = allocate(np.zeros(12), 4)
    assert np.bincount(worker).tolist() == [3, 3, 3, 3]
    assert allocate([], 3).tolist() == []


@pytest.mark.parametrize("allocate", [greedy, karmarkar_karp])
@pytest.mark.parametrize(("costs", "workers"), [([1, -1], 2), ([1, np.nan], 2), ([1], 0), ([[1, 2]], 2)])
def test_allocation_refuses_impossible_costs(allocate, costs, workers):
    """Negative, unordered and two-dimensional costs, and no workers, are errors."""
    with pytest.raises(DeclarationError, match=r"expected at least 1|finite"):
        allocate(costs, workers)


def test_matching_saves_as_much_as_any_permutation():
    """The Hungarian method keeps as many queries in place as the best of all assignments."""
    rng = np.random.default_rng(2)
    for size in range(1, 6):
        saved = rng.integers(0, 9, (size, size))
        worker = matching(saved)
        best = max(sum(saved[i, p] for i, p in enumerate(order)) for order in permutations(range(size)))
        assert sorted(worker.tolist()) == list(range(size))
        assert saved[np.arange(size), worker].sum() == best


def test_matching_refuses_a_table_that_is_not_square():
    """Subsets and workers must be as many."""
    with pytest.raises(DeclarationError, match="square"):
        matching(np.zeros((2, 3)))


def test_imbalance_is_one_for_equal_and_for_no_loads():
    """The largest over the mean load."""
    assert imbalance(np.array([2.0, 2.0])) == 1.0
    assert imbalance(np.array([3.0, 1.0])) == 1.5
    assert imbalance(np.zeros(3)) == 1.0


def test_loads_within_the_slack_count_as_equal():
    """Who has the fewest parts is taken among workers whose load is near the least; without slack the least load decides."""
    load, held = [100.0, 100.4, 103.0], [9, 5, 0]
    assert greedy_in_order([0.1] * 4, load, held)[0].tolist() == [0, 0, 0, 0]
    worker, after = greedy_in_order([0.1] * 6, load, held, 0.01)
    assert worker.tolist() == [1, 1, 1, 1, 0, 1]
    assert np.allclose(after, [100.1, 100.9, 103.0])
    assert greedy_in_order([0.1] * 3, load, held, 0.05)[0].tolist() == [2, 2, 2]
