"""Identifiers of queries by number, against a plain dict."""

import copy

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import operators.sinks.query_ids
from operators.sinks.query_ids import QueryIds, _Part
from streams.columns import Ids

FEW = st.lists(st.integers(0, 12), unique=True, max_size=8)
NUMBERS = st.lists(st.integers(-(2**40), 2**40) | st.integers(-20, 300), unique=True, max_size=40)


def batch(numbers):
    column = np.array(numbers, np.int64)
    return column, Ids("int", column)


@settings(max_examples=200)
@given(NUMBERS, NUMBERS)
def test_places_are_those_of_a_binary_search(numbers, wanted):
    """Dense or sparse, known or not, a number has the place that a search among all finds."""
    part = _Part(np.array(sorted(numbers), np.int64), Ids("int", np.array(sorted(numbers), np.int64)))
    asked = np.array(wanted + numbers, np.int64)
    assert part.places(asked).tolist() == np.searchsorted(part.numbers, asked).tolist()


@settings(max_examples=100)
@given(st.lists(st.tuples(NUMBERS | FEW, st.randoms(use_true_random=False)), max_size=6), st.integers(1, 30))
def test_query_ids_are_those_of_a_dict(rounds, smallest):
    """Whatever is added, removed and added again, in whatever parts it is kept, each query keeps its identifier."""
    before, operators.sinks.query_ids.SMALLEST_MERGE = operators.sinks.query_ids.SMALLEST_MERGE, smallest
    try:
        held, known = QueryIds(), {}
        for numbers, random in rounds:
            fresh = [n for n in numbers if n not in known]
            held.add(*batch(fresh))
            known |= {n: n for n in fresh}
            gone = [n for n in sorted(known) if random.random() < 0.2]
            held.remove(np.array(gone, np.int64))
            for n in gone:
                del known[n]
            asked = random.sample(sorted(known), len(known))
            assert len(held) == len(known)
            assert held.of(np.array(asked, np.int64)).to_list() == asked
            again = QueryIds()
            again.restore(
                copy.deepcopy(held).snapshot()
            )  # a snapshot clears up, which must not be what keeps this right
            assert again.of(np.array(asked, np.int64)).to_list() == asked
    finally:
        operators.sinks.query_ids.SMALLEST_MERGE = before


def test_query_that_comes_back_before_anything_is_cleared_up_has_its_identifier():
    """Removed and added again, as a query that moves there and back: the old removal does not touch it."""
    held = QueryIds()
    held.add(*batch([1, 2, 3]))
    for number in (3, 1, 2):
        held.remove(np.array([number]))
        held.add(*batch([number]))
        assert len(held) == 3
        assert held.of(np.array([3, 1, 2])).to_list() == [3, 1, 2]
    assert held.snapshot()["numbers"].tolist() == [1, 2, 3]


def test_removed_queries_give_their_memory_back(monkeypatch):
    """When most of what is held is dead it goes, without a snapshot."""
    monkeypatch.setattr(operators.sinks.query_ids, "SMALLEST_MERGE", 10)
    held = QueryIds()
    held.add(*batch(list(range(100))))
    held.remove(np.arange(80))
    assert sum(len(part.numbers) for part in held._parts) == len(held) == 20
