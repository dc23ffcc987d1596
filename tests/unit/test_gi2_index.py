"""GI2's grid: a query is in every cell it overlaps, or in the lists of everywhere."""

import numpy as np
from range_model import PlainObject, PlainQuery, object_batch, pairs_of, query_batch

from operators.indexes import make_range_index
from operators.indexes.range.list_kernels import EVERYWHERE, LENGTH, NODES_TOP
from streams.geometry import REGION_RECT, Rect

SPACE = Rect(0.0, 0.0, 1.0, 1.0)


def postings(index):
    lists = index._structure._lists
    return int(lists.nodes[: lists.state[NODES_TOP], LENGTH].sum())


def test_query_is_filed_in_every_cell_it_overlaps():
    """Two columns by three rows of cells make six postings."""
    index = make_range_index("gi2", SPACE, side=10)
    index.insert(query_batch([PlainQuery(1, REGION_RECT, (0.15, 0.15, 0.25, 0.35), frozenset([1, 2]))]))
    assert postings(index) == 6


def test_space_filling_query_is_filed_once():
    """A query with more cells than allowed is in the lists that every object reads."""
    index = make_range_index("gi2", SPACE, side=10, most_cells=50)
    index.insert(query_batch([PlainQuery(1, REGION_RECT, (0.0, 0.0, 1.0, 1.0), frozenset([1]))]))
    assert postings(index) == 1
    assert index._structure._lists.state[EVERYWHERE] == 1
    assert pairs_of(index.match(object_batch([PlainObject(1.0, 1.0, frozenset([1]))]))) == [(0, 1)]


def test_lists_are_written_anew_when_a_quarter_is_dead():
    """Dead postings are skipped at first and swept out later."""
    index = make_range_index("gi2", SPACE, side=10)
    index.insert(
        query_batch([PlainQuery(n, REGION_RECT, (0.51, 0.51, 0.52, 0.52), frozenset([1])) for n in range(8000)])
    )
    index.remove(np.arange(1000))
    assert postings(index) == 8000
    index.remove(np.arange(1000, 2900))
    assert postings(index) == 5100
    assert len(index.match(object_batch([PlainObject(0.515, 0.515, frozenset([1]))]))) == 5100
