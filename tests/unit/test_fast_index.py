"""FAST's adaptive keyword index: what is frequent descends and is told apart by further keywords."""

from random import Random

import numpy as np
from range_model import PlainObject, PlainQuery, object_batch, pairs_of, query_batch

from operators.indexes import make_range_index
from operators.indexes.range.fast_kernels import DESCENDED, TRIE
from operators.indexes.range.list_kernels import LENGTH, MARKS, NODES_TOP
from streams.geometry import REGION_RECT, Rect

SPACE = Rect(0.0, 0.0, 1.0, 1.0)


def squares(numbers, keywords, side=0.01, seed=1):
    random = Random(seed)
    return [
        PlainQuery(
            n, REGION_RECT, (x := random.random(), y := random.random(), x + side, y + side), frozenset(keywords)
        )
        for n in numbers
    ]


def nodes_of(index):
    lists = index._structure._lists
    return lists.nodes[: lists.state[NODES_TOP]]


def test_infrequent_keywords_stay_in_one_list_at_the_top():
    """A keyword of few queries has one list, whatever their places."""
    index = make_range_index("fast", SPACE, frequent=8)
    index.insert(query_batch(squares(range(8), [1])))
    assert nodes_of(index)[:, LENGTH].tolist() == [8]


def test_frequent_keywords_descend_to_the_level_of_their_size():
    """When the list is full its queries move to the cells of their size, each stored once, and objects examine few."""
    index = make_range_index("fast", SPACE, frequent=8)
    index.insert(query_batch(squares(range(1000), [1])))
    nodes = nodes_of(index)
    assert nodes[0, MARKS] & DESCENDED
    assert nodes[0, LENGTH] == 0
    assert nodes[:, LENGTH].sum() == 1000
    index.match(object_batch([PlainObject(0.5, 0.5, frozenset([1]))]))
    assert index.cost().candidates < 50


def test_lists_that_stay_long_become_tries():
    """Queries of one place and one rare keyword are told apart by their next keywords."""
    index = make_range_index("fast", SPACE, frequent=4)
    common = [PlainQuery(n, REGION_RECT, (0.1, 0.1, 0.2, 0.2), frozenset([n % 50 + 10])) for n in range(500)]
    rare = [PlainQuery(1000 + n, REGION_RECT, (0.5, 0.5, 0.51, 0.51), frozenset([1, n % 50 + 10])) for n in range(100)]
    index.insert(query_batch(common))
    index.insert(query_batch(rare))
    assert (nodes_of(index)[:, MARKS] & TRIE).any()
    index.reset_cost()
    found = pairs_of(index.match(object_batch([PlainObject(0.505, 0.505, frozenset([1, 13]))])))
    assert found == [(0, 1003), (0, 1053)]
    assert index.cost().candidates < 50


def test_frequencies_are_followed_when_lists_are_written_anew():
    """A keyword that was rare when a query came and is common now does not carry the query after the next clean-up."""
    index = make_range_index("fast", SPACE, frequent=4)
    index.insert(query_batch([*squares(range(50), [2]), *squares(range(50, 60), [1, 2])]))
    index.insert(query_batch(squares(range(1000, 3500), [1])))
    index.insert(query_batch(squares(range(5000, 7500), [3])))
    table = index._table
    before = table.words.raw[table.kw[table.roster.find(np.arange(50, 60)), 0]]
    assert before.tolist() == [1] * 10
    index.remove(np.arange(5000, 7500))
    after = table.words.raw[table.kw[table.roster.find(np.arange(50, 60)), 0]]
    assert after.tolist() == [2] * 10
