"""Lists of several evaluators put together, against plain sorting."""

from collections import Counter
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from operators.merging.list_kernels import MOST
from operators.merging.lists import fingerprints, summed, united
from streams.batches import TYPE_KNN, TYPE_TERMS, TYPE_TOPK, RankedBatch
from streams.columns import Ids

WORDS = ["pear", "apple", "fig", "äpfel", "kiwi", "lime"]


def ranked(lists, *, type_=TYPE_TOPK, instant=False):
    """Make lists of (number, ts, k, [(seq, value), ...]); an object's identifier is ``o<seq>``."""
    items = [item for *_, one in lists for item in one]
    count = len(lists)
    return RankedBatch(
        number=np.array([n for n, *_ in lists], np.int64), ts=np.array([ts for _, ts, *_ in lists], np.int64),
        type=np.full(count, type_, np.uint8), k=np.array([k for *_, k, _ in lists], np.int32),
        instant=np.full(count, instant), off=np.cumsum([0, *(len(one) for *_, one in lists)]).astype(np.int32),
        seq=np.array([seq for seq, _ in items], np.int64), ids=Ids.of([f"o{seq}" for seq, _ in items]),
        value=np.array([float(value) for _, value in items]),
    )  # fmt: skip


def plain(batch):
    """Return (number, ts, k, [(seq, id, value), ...]) of each list."""
    items = list(zip(batch.seq.tolist(), batch.ids.to_list(), batch.value.tolist(), strict=True))
    head = zip(batch.number.tolist(), batch.ts.tolist(), batch.k.tolist(), strict=True)
    return [(*one, items[batch.off[i] : batch.off[i + 1]]) for i, one in enumerate(head)]


@st.composite
def partial_lists(draw):
    """Draw for each of some queries the lists of its evaluators; an object has one value, whoever lists it."""
    values = {seq: draw(st.integers(0, 2)) for seq in range(8)}
    drawn = []
    for number in range(draw(st.integers(1, 3))):
        k = draw(st.integers(1, 4))
        for _ in range(draw(st.integers(1, 3))):
            objects = draw(st.lists(st.integers(0, 7), unique=True, max_size=5))
            drawn.append((number, draw(st.integers(-5, 9)), k, [(seq, values[seq]) for seq in objects]))
    return drawn


@settings(max_examples=300)
@given(partial_lists(), st.sampled_from(["knn", "newest", "first"]), st.sampled_from([MOST, 3]))
def test_united_lists_are_the_k_best_of_all(lists, kind, most):
    """Each object once, the best first, ties by `seq` as the type wants it, at most k, with the latest time.

    Short lists are united by a kernel, others by sorting all of them.
    """
    batch = ranked(lists, type_=TYPE_KNN if kind == "knn" else TYPE_TOPK)
    answers = lists[-1][0] + 1
    with mock.patch("operators.merging.lists.MOST", most):
        found = plain(united(batch.number, batch, answers, first_seen=kind == "first"))
    for number in range(answers):
        mine = [one for one in lists if one[0] == number]
        best = sorted(
            {item for *_, items in mine for item in items},
            key=lambda item: (item[1] if kind == "knn" else -item[1], -item[0] if kind == "newest" else item[0]),
        )
        expected = [(seq, f"o{seq}", float(value)) for seq, value in best[: mine[0][2]]]
        assert found[number] == (number, max(ts for _, ts, *_ in mine), mine[0][2], expected)
    assert len(found) == answers


def test_united_lists_keep_the_better_value_of_an_object():
    """Where two evaluators disagree about an object, as after a move, the one that ranks it higher counts."""
    both = ranked([(1, 0, 3, [(5, 2.0), (6, 1.5)]), (1, 0, 3, [(5, 1.0)])])
    assert plain(united(np.zeros(2, np.int64), both, 1)) == [(1, 0, 3, [(5, "o5", 2.0), (6, "o6", 1.5)])]


@settings(max_examples=200)
@given(partial_lists())
def test_summed_lists_are_counted_terms(lists):
    """Counts of a term add up; most frequent first, of equal ones the first by the alphabet, at most k."""
    lists = [(n, ts, k, [*{seq % len(WORDS): value + 1 for seq, value in items}.items()]) for n, ts, k, items in lists]
    batch = ranked(lists, type_=TYPE_TERMS)
    answers = lists[-1][0] + 1
    found = summed(batch.number, batch, answers, lambda terms: [WORDS[term] for term in terms.tolist()])
    assert (found.type == TYPE_TERMS).all()
    for number in range(answers):
        mine = [one for one in lists if one[0] == number]
        counts = Counter()
        for *_, items in mine:
            for term, count in items:
                counts[term] += count
        best = sorted(counts, key=lambda term: (-counts[term], WORDS[term]))[: mine[0][2]]
        expected = [(term, WORDS[term], float(counts[term])) for term in best]
        assert plain(found)[number] == (number, max(ts for _, ts, *_ in mine), mine[0][2], expected)


@pytest.mark.parametrize(
    "other", [[(5, 1.0), (6, 2.0)], [(6, 2.0), (5, 1.0)], [(6, 2.0), (5, 2.0)], [(5, 2.0), (6, 1.0)], [(5, 2.0)], []]
)
def test_fingerprints_tell_lists_apart(other):
    """Items, their values, their order and their number all matter; the query and the place in a batch do not."""
    base = [(5, 2.0), (6, 2.0)]
    batch = ranked([(1, 0, 3, base), (2, 9, 3, other), (3, 0, 2, base), (4, 0, 2, [])])
    prints = fingerprints(batch).tolist()
    assert prints[0] == prints[2] != prints[1]
    assert prints[3] == 0
    assert (prints[1] == 0) == (not other)
    assert fingerprints(batch.slice(2, 3)).tolist() == [prints[0]]
