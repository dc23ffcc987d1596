"""The lists under the papers' indexes of nearest neighbours: who leaves them, when slots come back, where probes stop."""

from random import Random

import numpy as np
import pytest
from knn_model import Drawn, knn_batch, lists_of, objects_batch

from operators.indexes.core.structure import Probe
from operators.indexes.knn import ball_lists
from operators.indexes.knn.ball_list_kernels import BASE, LENGTH, NODES_TOP
from operators.indexes.knn.registry import make_knn_index
from streams.batches import FOREVER
from streams.geometry import Rect

SPACE = Rect(0.0, 0.0, 1.0, 1.0)
LONG = [
    ("inverted", {}),
    ("grid-inverted", {"side": 3, "most_cells": 6}),
    ("sea-cnn", {"side": 3, "most_cells": 6}),
    ("subsets", {"subsets": 4}),
]


def subscription(number, x=0.5, y=0.5, keywords=(1,), k=1, match_any=True):
    return {"number": number, "x": x, "y": y, "keywords": frozenset(keywords), "ts": 0, "end": FOREVER, "k": k,
            "match_any": match_any}  # fmt: skip


def filled(count, name="inverted", **options):
    index = make_knn_index(name, SPACE, **options)
    index.insert(knn_batch([subscription(n) for n in range(count)]))
    return index


def test_long_list_is_cleaned_when_a_quarter_has_left():
    """Until then those who left are found no more, and their slots wait."""
    index = filled(1000)
    lists = index._structure._lists
    index.remove(np.arange(250))
    assert lists.entries == 1000
    assert index._table.roster._free_count == 0
    assert len(index.weights()[0]) == 0
    index.take(objects_batch([{"seq": 1, "ts": 0, "x": 0.1, "y": 0.1, "keywords": frozenset([1]), "op": 0, "id": 1}]))
    assert len(index.weights()[0]) == 750
    index.remove(np.array([250]))
    assert lists.entries == 749
    assert index._table.roster._free_count == 251


def test_short_list_is_left_at_once():
    """Slots of short lists can be used again without delay."""
    index = filled(16)
    index.remove(np.array([3, 7]))
    assert index._structure._lists.entries == 14
    assert index._table.roster._free_count == 2


def test_lists_that_have_become_empty_give_their_memory_back():
    """As many keywords as subscriptions come and go; what is left takes what it needs."""
    index = make_knn_index("inverted", SPACE)
    index.insert(knn_batch([subscription(n, keywords=[n, n + 1]) for n in range(20_000)]))
    structure = index._structure
    before = structure.nbytes
    index.remove(np.arange(15_000))
    assert structure is index._structure
    assert structure._lists.entries == 10_000
    assert structure.nbytes - 36 * 20_000 < (before - 36 * 20_000) / 2
    changed = index.take(
        objects_batch([{"seq": 1, "ts": 0, "x": 0.1, "y": 0.1, "keywords": frozenset([17_000]), "op": 0, "id": 1}])
    )
    assert changed.tolist() == [16_999, 17_000]


def standing(lists):
    """Return the slots that stand in any list, in ascending order."""
    nodes = lists._nodes[: lists._state[NODES_TOP]].astype(int)
    return sorted(slot for node in nodes for slot in lists._arena[node[BASE] : node[BASE] + node[LENGTH]].tolist())


def test_lists_that_were_written_anew_go_on_growing():
    """Blocks that were free before are not given out again."""
    index = make_knn_index("inverted", SPACE)
    index.insert(knn_batch([subscription(n, keywords=[n // 4]) for n in range(40_000)]))
    lists = index._structure._lists
    index.remove(np.arange(30_000))
    assert lists is index._structure._lists
    assert lists._state[NODES_TOP] == 2500
    index.insert(knn_batch([subscription(40_000 + n, keywords=[9900 + n // 10]) for n in range(2000)]))
    assert standing(lists) == sorted(index._table.roster.held().tolist())
    for seq in range(200):
        batch = [{"seq": seq, "ts": 0, "x": 0.1, "y": 0.1, "keywords": frozenset([9900 + seq]), "op": 0, "id": seq}]
        first, more = 39_600 + 4 * seq, 40_000 + 10 * seq
        held = [*range(first, min(first + 4, 40_000)), *range(more, more + 10)]
        assert index.take(objects_batch(batch)).tolist() == held


@pytest.mark.parametrize("everything", [False, True])
def test_probe_stops_when_it_has_collected_enough(monkeypatch, everything):
    """After an object, not within one; what was found before room ran out stays."""
    monkeypatch.setattr(ball_lists, "PAIRS", 12_000)
    index = filled(5000)
    words = index._table.words.known(np.array([0, 1], np.int32), np.array([1], np.int64))[1]
    objects = Probe(np.full(7, 0.5), np.full(7, 0.5), np.arange(8), np.repeat(words, 7))
    rows, found = [0], []
    while rows[-1] < 7:
        near = index._structure.probe(objects, rows[-1], everything=everything)
        assert near.first == rows[-1]
        assert near.off.tolist() == [5000 * n for n in range(near.next - near.first + 1)]
        assert near.examined == len(near.slots)
        found.extend(near.slots.reshape(-1, 5000).tolist())
        rows.append(near.next)
    assert rows == [0, 3, 6, 7]
    assert found == [list(range(5000))] * 7


@pytest.mark.parametrize("metric", ["euclidean", "haversine"])
@pytest.mark.parametrize(("name", "options"), LONG)
def test_long_lists_stay_right_under_churn(name, options, metric):
    """Hundreds at a few places and words come and go, so that long lists are cleaned and slots used again."""
    space = SPACE if metric == "euclidean" else Rect(-180.0, -90.0, 180.0, 90.0)
    index, truth = (make_knn_index(n, space, metric, **o) for n, o in ((name, options), ("brute", {})))
    rng = Random(4)
    drawn = Drawn(rng, space)
    drawn.keywords = lambda: frozenset(rng.sample(range(4), rng.randrange(3)))
    for _ in range(12):
        queries = knn_batch([drawn.query() | {"k": rng.choice([1, 2, 4])} for _ in range(150)])
        objects = objects_batch([drawn.object() for _ in range(60)])
        gone = np.array([n for n in index.numbers().tolist() if rng.random() < 0.3], np.int64)
        for one in (index, truth):
            one.insert(queries)
            one.remove(gone)
            one.take(objects)
        numbers = truth.numbers()
        assert lists_of(index.results(numbers)) == lists_of(truth.results(numbers))
    assert index.cost().matches == truth.cost().matches
    assert index._table.roster.top < 1800
