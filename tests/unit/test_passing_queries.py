"""Snapshots between their registration and their answer."""

import numpy as np

from benchmarks.synthetic_stream import registrations
from operators.evaluation.passing_queries import PassingQueries


def queries_of(numbers):
    """Registrations with these numbers, each with its number as keyword."""
    count = len(numbers)
    shape = np.tile([0.25, 0.25, 0.5, 0.5], (count, 1))
    return registrations(np.array(numbers), shape, np.arange(count + 1, dtype=np.int32), np.array(numbers))


def test_passing_queries_are_found_in_the_order_that_is_asked_for():
    """Whatever order they came in; numbers that are not held are passed over."""
    passing = PassingQueries()
    passing.insert(queries_of([5, 2]))
    passing.insert(queries_of([9, 3]))
    assert passing.numbers().tolist() == [2, 3, 5, 9]
    found = passing.queries(np.array([9, 4, 2]))
    assert found.number.tolist() == found.kw.tolist() == [9, 2]
    assert passing.holds(np.array([1, 2, 10])).tolist() == [False, True, False]


def test_passing_queries_end_at_the_smallest_of_their_ends_and_go():
    """An end never moves up, and of several in one call the smallest stays."""
    passing = PassingQueries()
    passing.insert(queries_of([1, 2, 3]))
    assert passing.set_end(np.array([2, 2, 3, 7]), np.array([50, 40, 60, 1])) == 2
    assert passing.set_end(np.array([2]), np.array([45])) == 1
    assert passing.ended(40).tolist() == [2]
    assert passing.remove(np.array([2, 7])) == 1
    assert passing.numbers().tolist() == [1, 3]
    assert passing.remove(np.array([1, 3])) == 2
    assert passing.queries(np.array([1])).number.tolist() == passing.ended(99).tolist() == []
