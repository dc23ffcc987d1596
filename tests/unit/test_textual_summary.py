"""Textual summaries of the routers against a plain set of keywords."""

from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from range_model import PlainObject, PlainQuery, object_batch, query_batch

from operators.routing.textual_summary import EVERY_OBJECT, TextualSummary, textual_changes, textual_keywords

WORKERS = 3

queries = st.builds(
    PlainQuery,
    number=st.integers(0, 10**6),
    region=st.just(0),
    shape=st.just((0.0, 0.0, 1.0, 1.0)),
    keywords=st.frozensets(st.sampled_from([0, 1, 2, 5, 2**62, 2**62 + 1]), max_size=4),
    match_any=st.booleans(),
)
rows_of_workers = st.frozensets(st.integers(0, WORKERS - 1), min_size=0, max_size=WORKERS)
cases = st.lists(st.tuples(queries, rows_of_workers, st.booleans()), min_size=1, max_size=12)


def routes_of(rows):
    off = np.cumsum([0] + [len(row) for row in rows]).astype(np.int32)
    return off, np.array([worker for row in rows for worker in sorted(row)], np.int32)


def needed(query):
    """The keywords of which a matching object has at least one; None: any object may match."""
    if not query.keywords:
        return None
    return query.keywords if query.match_any else frozenset([max(query.keywords)])


@given(cases, st.lists(st.frozensets(st.sampled_from([0, 1, 2, 3, 5, 2**62, 2**62 + 1])), min_size=1, max_size=6))
@settings(max_examples=150)
def test_a_summary_admits_exactly_the_objects_that_have_a_keyword_of_a_living_query(given_queries, words):
    """What routers hold against objects is what the queries that are left need, whatever came and went before."""
    batch = query_batch([query for query, _, _ in given_queries])
    routes = routes_of([row for _, row, _ in given_queries])
    summary = TextualSummary(WORKERS)
    changes = textual_changes(batch, routes)
    if changes is not None:
        summary.apply([changes])
    gone = np.array([i for i, (_, _, goes) in enumerate(given_queries) if goes], np.int64)
    off, worker = routes
    left = textual_changes(batch.take(gone), routes_of([worker[off[i] : off[i + 1]].tolist() for i in gone]), -1)
    if left is not None:
        summary.apply([left])
    copy = TextualSummary(WORKERS)
    copy.restore(summary.snapshot())

    objects = object_batch([PlainObject(0.5, 0.5, keywords) for keywords in words])
    everywhere = routes_of([range(WORKERS) for _ in words])
    expected = [
        [
            w
            for w in range(WORKERS)
            if any(
                w in row and not goes and (needed(query) is None or needed(query) & keywords)
                for query, row, goes in given_queries
            )
        ]
        for keywords in words
    ]
    for kept in (summary, copy):
        found_off, found = kept.admitted(objects, everywhere)
        assert [found[a:b].tolist() for a, b in pairwise(found_off)] == expected


def test_a_summary_grows_and_forgets_what_has_ended():
    """Many keywords come and go: memory follows those that are left."""
    summary = TextualSummary(2)
    for start in range(0, 200_000, 10_000):
        batch = query_batch([PlainQuery(i, 0, (0, 0, 1, 1), frozenset([i])) for i in range(start, start + 10_000)])
        routes = routes_of([[i % 2] for i in range(10_000)])
        summary.apply([textual_changes(batch, routes)])
        assert len(summary) == 10_000
        summary.apply([textual_changes(batch, routes, -1)])
    assert len(summary) == 0
    assert len(summary.snapshot()["table"]) == 0


def test_summary_keywords_stand_for_every_object_where_a_query_has_none():
    """A query without keywords matches whatever the words of an object are."""
    row, keyword = textual_keywords(query_batch([PlainQuery(1, 0, (0, 0, 1, 1))]))
    assert row.tolist() == [0]
    assert keyword.tolist() == [EVERY_OBJECT]
