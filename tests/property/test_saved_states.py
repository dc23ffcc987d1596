"""States as bytes and back, and queries of evaluators put together and divided again."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from inputs import streams_of_operations
from plain_records import query_batch

from operators.evaluation.range_evaluator import RangeEvaluator
from operators.operator import TaskContext
from operators.redistribution import Division
from streams.batches import OP_REGISTER
from streams.errors import CodecError
from streams.geometry import Rect
from streams.state import pack_state, unpack_state
from streams.vocabulary import Encoder

values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(), st.binary()),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.tuples(inner, inner),
        st.dictionaries(st.one_of(st.text(), st.integers(-(2**63), 2**63 - 1)), inner, max_size=4),
    ),
    max_leaves=12,
)


@given(values)
def test_state_reads_back(value):
    """Plain values, tuples and integers of any size are what they were."""
    assert unpack_state(pack_state({"state": value})) == {"state": value}


def test_state_that_is_too_large_or_too_deep_is_refused(monkeypatch):
    """What could not be read again is not written."""
    deep = []
    for _ in range(2000):
        deep = [deep]
    with pytest.raises(CodecError, match="nested deep"):
        pack_state(deep)
    monkeypatch.setattr("streams.state._MAX_BYTES", 100)
    with pytest.raises(CodecError, match=r"a value of \d+ bytes, more than can be saved \(100\)"):
        pack_state({"array": np.arange(50)})


operations = streams_of_operations("euclidean", ["range"])


@st.composite
def divided_queries(draw):
    """Registrations, the evaluators that hold each before, and those that hold it afterwards: one or more."""
    queries = query_batch(draw(operations), Encoder())
    queries = queries.take(np.flatnonzero(queries.op == OP_REGISTER))

    def routes(workers):
        some = st.sets(st.integers(0, workers - 1), min_size=1)
        return [sorted(draw(some)) for _ in range(len(queries))]

    before, after = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    return queries, before, routes(before), after, routes(after)


def evaluator_states(queries, workers, routes):
    states = []
    for worker in range(workers):
        evaluator = RangeEvaluator(index="brute")
        evaluator.open(TaskContext("evaluator", worker, workers, Rect(0, 0, 1, 1)))
        mine = np.array([row for row, held in enumerate(routes) if worker in held], np.int64)
        evaluator._apply(queries.take(mine))
        states.append(unpack_state(pack_state(evaluator.snapshot())))
    return states


@given(divided_queries())
def test_queries_are_divided_as_the_routes_say(case):
    """None is lost, each is where it belongs and nowhere else, with all its columns; dividing again finds all of them."""
    queries, before, held, after, wanted = case
    live = RangeEvaluator.live_queries(evaluator_states(queries, before, held))
    assert live.number.tolist() == sorted(queries.number.tolist())
    assert live.kw.tolist() == queries.kw.tolist()
    off = np.cumsum([0, *map(len, wanted)]).astype(np.int32)
    routes = off, np.array([worker for row in wanted for worker in row], np.int32)
    division = Division("evaluator", after, after, live, routes)
    divided = RangeEvaluator.redistribute(evaluator_states(queries, before, held), division)
    for worker, state in enumerate(divided):
        expected = [row for row in range(len(queries)) if worker in wanted[row]]
        assert state["core"]["number"].tolist() == [queries.number[row] for row in expected]
        several = [queries.number[row] for row in expected if len(wanted[row]) > 1]
        assert state["meetings"]["numbers"].tolist() == several
        restored = RangeEvaluator(index="brute")
        restored.open(TaskContext("evaluator", worker, after, Rect(0, 0, 1, 1)))
        restored.restore(unpack_state(pack_state(state)))
    again = RangeEvaluator.live_queries(divided)
    assert again.number.tolist() == live.number.tolist()
    assert again.end.tolist() == live.end.tolist()


def test_query_that_several_hold_ends_when_the_first_says():
    """A copy on its way may not have heard of an unregistration that the giver has."""
    queries = query_batch(
        [{"op": "register", "id": "q", "ts": 0, "type": "range", "region": {"rect": [0, 0, 1, 1]}}], Encoder()
    )
    states = evaluator_states(queries, 2, [[0, 1]])
    states[1]["core"]["end"] = np.array([7])
    assert RangeEvaluator.live_queries(states).end.tolist() == [7]
