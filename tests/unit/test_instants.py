"""When queries are due, against a list of all instants of each."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from range_model import PlainQuery, query_batch

from operators.evaluation.instants import Instants
from streams.batches import FOREVER, TYPE_RANGE, TYPE_TERMS

SHAPE = (0.0, 0.0, 1.0, 1.0)
LAST = 40


def snapshot_query(number, ts, end=FOREVER):
    return PlainQuery(number, 0, SHAPE, ts=ts, end=end, continuous=False)


def sliding_query(number, ts, slide, end=FOREVER):
    return PlainQuery(number, 0, SHAPE, ts=ts, end=end, type=TYPE_TERMS, slide=slide)


def instants_of(q, end):
    """Return all instants of a query up to the last time of these tests."""
    if not q.continuous:
        return [q.ts] if q.ts < end else []
    return [at for at in range(q.ts + q.slide, LAST, q.slide) if at < end] if q.type == TYPE_TERMS else []


def pairs(found):
    return list(zip(found[0].tolist(), found[1].tolist(), strict=True))


def none():
    return np.empty(0, np.int64)


@st.composite
def drawn_queries(draw):
    made = []
    for number in range(draw(st.integers(1, 5))):
        ts, ttl = draw(st.integers(0, 12)), draw(st.integers(1, 20) | st.just(None))
        end = FOREVER if ttl is None else ts + ttl
        kind = draw(st.sampled_from(["once", "slides", "standing"]))
        if kind == "once":
            made.append(snapshot_query(number, ts, end))
        elif kind == "slides":
            made.append(sliding_query(number, ts, draw(st.integers(1, 5)), end))
        else:
            made.append(PlainQuery(number, 0, SHAPE, ts=ts, end=end, type=TYPE_RANGE))
    return made


events = st.one_of(
    st.tuples(st.just("pass"), st.integers(0, 5), st.frozensets(st.integers(0, 4), max_size=2)),
    st.tuples(st.just("end"), st.integers(0, 4), st.integers(0, 20)),
    st.tuples(st.just("remove"), st.integers(0, 4), st.none()),
    st.tuples(st.just("save"), st.none(), st.none()),
)


@settings(max_examples=300)
@given(drawn_queries(), st.lists(events, max_size=12))
def test_instants_are_answered_once_in_order_and_never_early(queries, happenings):
    """Each instant below a query's end comes once the watermark is beyond it and nothing withholds it, never before."""
    held = Instants()
    held.add(query_batch(queries), None)
    ends = {q.number: q.end for q in queries}
    left = {(q.number, at) for q in queries for at in instants_of(q, q.end)}
    watermark = 0
    for kind, one, other in [*happenings, ("pass", LAST, frozenset())]:
        if kind == "pass":
            watermark = min(watermark + one, LAST)
            found = pairs(held.due(watermark, np.array(sorted(other), np.int64)))
            assert [at for _, at in found] == sorted(at for _, at in found)
            expected = {(n, at) for n, at in left if at < watermark and n not in other}
            assert sorted(found) == sorted(expected)
            left -= expected
        elif kind == "end" and one in ends:
            held.set_end(np.array([one, one, 99]), np.array([other + 1, other, 0]))
            ends[one] = min(ends[one], other)
            left = {(n, at) for n, at in left if at < ends[n]}
        elif kind == "remove":
            held.remove(np.array([one]))
            left = {(n, at) for n, at in left if n != one}
            ends.pop(one, None)
        elif kind == "save":
            again = Instants()
            again.restore(held.snapshot())
            held = again
    forever = {q.number for q in queries if q.type == TYPE_TERMS and ends.get(q.number) == FOREVER}
    assert set(held.snapshot()["number"].tolist()) == forever


@settings(max_examples=200)
@given(drawn_queries(), st.integers(0, LAST))
def test_instants_of_a_query_that_comes_later_start_where_another_stopped(queries, watermark):
    """What the former evaluator answered below its watermark and what the next one answers make each instant once."""
    former, latter = Instants(), Instants()
    former.add(query_batch(queries), None)
    before = pairs(former.due(watermark, none()))
    latter.add(query_batch(queries), watermark)
    after = pairs(latter.due(LAST, none()))
    assert all(at < watermark for _, at in before)
    assert all(at >= watermark for _, at in after)
    assert sorted(before + after) == sorted((q.number, at) for q in queries for at in instants_of(q, q.end))


def test_instants_wait_until_the_watermark_is_beyond_them():
    """At the watermark itself objects of that time may still come."""
    held = Instants()
    held.add(query_batch([snapshot_query(1, 5)]), None)
    assert pairs(held.due(5, none())) == []
    assert pairs(held.due(6, none())) == [(1, 5)]
    assert (len(held), pairs(held.due(99, none()))) == (0, [])


@pytest.mark.parametrize("watermark", [None, 12])
def test_instants_that_could_not_be_answered_go_to_the_next_evaluator(watermark):
    """What was withheld beyond the watermark is overdue; the next one answers it, and all later slides."""
    former, latter = Instants(), Instants()
    queries = query_batch(
        [sliding_query(1, 0, 5, end=21), snapshot_query(2, 12), snapshot_query(3, 3), snapshot_query(4, 3)]
    )
    former.add(queries, None)
    assert pairs(former.due(12, np.array([1, 3]))) == [(4, 3)]
    found = former.overdue(np.array([1, 2, 3]), watermark)
    assert sorted(pairs(found)) == ([] if watermark is None else [(1, 5), (3, 3)])
    assert len(former) == 0
    if watermark is not None:
        latter.add(queries, watermark)
        order = np.argsort(found[0])
        latter.catch_up(queries.take(np.array([0, 2])), found[1][order])
        assert sorted(pairs(latter.due(LAST, none()))) == [(1, 5), (1, 10), (1, 15), (1, 20), (2, 12), (3, 3)]
        assert len(latter) == 0
