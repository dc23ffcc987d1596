"""The table of queries by hand: what rows held before they were anybody's is never read."""

import itertools

import numpy as np
from range_model import PlainQuery, query_batch

from operators.indexes.core.query_table import QueryTable
from streams.geometry import REGION_RECT, Rect

SPACE = Rect(0.0, 0.0, 1.0, 1.0)
WORDS = 9


def batch(*numbers):
    """Return queries of so many words that they take room in the pool."""
    return query_batch(
        [PlainQuery(n, REGION_RECT, (0.0, 0.0, 1.0, 1.0), frozenset(range(n, n + WORDS))) for n in numbers]
    )


def test_pool_is_packed_without_rows_that_are_being_filed():
    """New rows are memory as it was found: here each looks as if it were a query of many words."""
    table = QueryTable(SPACE, "euclidean")
    slots = table.admit(batch(*range(40)))
    table.kw[table.roster.top :] = table.kw[slots[0]]
    table.drop(table.roster.withdraw(np.arange(38)))
    fresh = []
    for n in range(100, 200):
        fresh += table.admit(batch(n)).tolist()
    assert table._pool_garbage == 0, "the pool was to be packed in this test"
    assert table._pool_top == (2 + 100) * (WORDS - 1)
    off, words = table.words_of(np.array([*slots[38:], *fresh], np.int32))
    held = [sorted(table.words.raw[words[a:b]].tolist()) for a, b in itertools.pairwise(off)]
    assert held == [list(range(n, n + WORDS)) for n in [*range(38, 40), *range(100, 200)]]
