"""The examples in the text of the DkM-SKS paper; places are such that all it says of them holds, as figures have no numbers."""

import numpy as np
import pytest

from operators.indexes.knn.registry import KNN_INDEXES, make_knn_index
from partitioners.costs.allocation import greedy, greedy_in_order
from streams.batches import FOREVER, OP_REGISTER, OP_UPSERT, TYPE_KNN, ObjectBatch, QueryBatch
from streams.columns import Ids
from streams.geometry import REGION_NONE, Rect

SPACE = Rect(0.0, 0.0, 10.0, 10.0)
JAPANESE, NOODLE, ITALIAN, CAFE = range(4)


def _ragged(words):
    return np.cumsum([0, *map(len, words)]).astype(np.int32), np.array([w for one in words for w in one], np.int64)


def objects_of(*rows, first=1):
    """Return objects: (x, y, words), numbered from `first` on, one a time-stamp."""
    off, kw = _ragged([sorted(words) for *_, words in rows])
    number = np.arange(first, first + len(rows))
    x, y = (np.array([row[axis] for row in rows], np.float64) for axis in (0, 1))
    return ObjectBatch(number, number, x, y, np.full(len(rows), OP_UPSERT, np.uint8), off, kw, Ids("int", number))


def subscriptions_of(*rows):
    """Return subscriptions to any of some words: (x, y, words, k), numbered from 1 on."""
    off, kw = _ragged([sorted(words) for _, _, words, _ in rows])
    count, number = len(rows), np.arange(1, len(rows) + 1)
    shape = np.array([(x, y, 0.0, 0.0) for x, y, _, _ in rows])
    return QueryBatch(
        number=number, target=number, op=np.full(count, OP_REGISTER, np.uint8), ts=np.zeros(count, np.int64),
        end=np.full(count, FOREVER), type=np.full(count, TYPE_KNN, np.uint8), continuous=np.ones(count, np.bool_),
        match_any=np.ones(count, np.bool_), region=np.full(count, REGION_NONE, np.uint8), shape=shape,
        k=np.array([k for *_, k in rows], np.int32), alpha=np.zeros(count), window=np.full(count, -1),
        slide=np.zeros(count, np.int64), detect=np.zeros(count, np.uint8), kw_off=off, kw=kw, ids=Ids("int", number),
    )  # fmt: skip


def lists_of(index):
    """Return the objects of each list, nearest first."""
    found = index.results(index.numbers())
    return [found.seq[a:b].tolist() for a, b in zip(found.off[:-1], found.off[1:], strict=True)]


@pytest.mark.parametrize("name", KNN_INDEXES)
def test_example_1_a_new_object_is_nearest_to_one_of_three_subscriptions(name):
    """s1 wants Japanese or noodles and has o2, s2 has o3, s3 has o2; o4 is Japanese, and nearer to s3 alone."""
    index = make_knn_index(name, SPACE, "euclidean")
    wanted = [JAPANESE, NOODLE]
    index.insert(subscriptions_of((2, 8, wanted, 1), (8, 8, [CAFE, ITALIAN], 1), (5, 2, wanted, 1)))
    index.take(objects_of((2.5, 8.5, [CAFE]), (3, 7, [NOODLE]), (7, 7, [ITALIAN])))
    assert lists_of(index) == [[2], [3], [2]]
    assert index.take(objects_of((6, 2, [JAPANESE]), first=4)).tolist() == [3]
    assert lists_of(index) == [[2], [3], [4]]


@pytest.mark.parametrize("name", KNN_INDEXES)
def test_example_2_of_the_objects_that_share_a_word_the_two_nearest_are_the_answer(name):
    """s1 wants a, b or c: o1, o4, o6 and o7 have one of them, and of these o1 and o4 are the nearest."""
    a, b, c, d, e = range(5)
    index = make_knn_index(name, SPACE, "euclidean")
    index.insert(subscriptions_of((2, 8, [a, b, c], 2)))
    words = [[a, d], [d], [e], [b], [d, e], [c, e], [a, b], [e], [d]]
    places = [(1.5, 8), (2, 8), (2.2, 8), (3, 7), (4, 4), (6, 3), (7, 8), (2, 7.9), (1.9, 8)]
    index.take(objects_of(*((x, y, w) for (x, y), w in zip(places, words, strict=True))))
    assert lists_of(index) == [[1, 4]]
    assert index.cost().candidates >= 2


def test_example_4_subsets_are_assigned_by_their_costs():
    """Costs of 0.36, 0.11, 0.2 and 0.28: the first two subsets go to one worker, the others to the other."""
    assert greedy([0.36, 0.11, 0.2, 0.28], 2).tolist() == [0, 0, 1, 1]


def test_algorithm_3_takes_subsets_one_after_the_other():
    """The dearest subset is shared out first, though a subscription of a later one is dearer than the last of it."""
    costs = np.array([0.4, 0.3, 0.1, 0.35, 0.05])  # S1 has the first three, S2 the others
    worker, load = greedy_in_order(costs, np.zeros(2))
    assert worker.tolist() == [0, 1, 1, 0, 1]
    assert load.tolist() == pytest.approx([0.75, 0.45])
