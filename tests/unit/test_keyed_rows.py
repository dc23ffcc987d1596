"""Rows by key, against a dict."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from operators.merging import keyed_rows
from operators.merging.keyed_rows import KeyedRows
from streams.batches import TupleBatch

EMPTY = TupleBatch(("v",), (np.empty(0, np.int64),))
KEYS = st.lists(st.integers(0, 40), unique=True, max_size=10)


def rows(values):
    return TupleBatch(("v",), (np.array(values, np.int64),))


def ints(values):
    return np.array(values, np.int64)


def check(held, known):
    keys, found = held.all()
    assert keys.tolist() == sorted(known)
    assert found.column("v").tolist() == [known[k] for k in sorted(known)]
    assert len(held) == len(known)
    place, found = held.get(ints([50, 3, 7, 40, 0]))
    assert sorted(zip(place.tolist(), found.column("v").tolist(), strict=True)) == [
        (i, known[k]) for i, k in enumerate([50, 3, 7, 40, 0]) if k in known
    ]
    low, high = [20, 0, 15], [30, 10, 15]
    place, keys, found = held.between(ints(low), ints(high))
    expected = [(i, k, known[k]) for i in range(3) for k in sorted(known) if low[i] <= k < high[i]]
    assert list(zip(place.tolist(), keys.tolist(), found.column("v").tolist(), strict=True)) == expected


@settings(max_examples=200)
@given(st.lists(st.tuples(st.booleans(), KEYS), max_size=14), st.integers(1, 12))
def test_keyed_rows_are_those_of_a_dict(steps, smallest):
    """Whatever is put, put again and removed, in whatever parts it is kept, each key has its newest row."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(keyed_rows, "SMALLEST_MERGE", smallest)
        held, known = KeyedRows(EMPTY), {}
        for n, (put, keys) in enumerate(steps):
            if put:
                held.put(ints(keys), rows([100 * n + k for k in keys]))
                known |= {k: 100 * n + k for k in keys}
            else:
                held.remove(ints(keys))
                known = {k: v for k, v in known.items() if k not in keys}
            check(held, known)
            again = KeyedRows(EMPTY)
            again.restore(held.snapshot())
            check(again, known)


def test_keyed_rows_give_the_memory_of_removed_ones_back(monkeypatch):
    """When much of what is held is gone it is cleared away, and so are the marks of what was never held."""
    monkeypatch.setattr(keyed_rows, "SMALLEST_MERGE", 4)
    held = KeyedRows(EMPTY)
    held.put(ints(range(20)), rows(range(20)))
    held.remove(ints(range(3, 20)))
    assert (len(held._large[0]) + len(held._recent[0]), len(held._gone)) == (3, 0)
    for n in range(50):
        held.remove(ints([1000 + n]))
    assert len(held._gone) <= 5


def test_keyed_rows_merge_what_has_grown(monkeypatch):
    """The recent part goes into the large one once it is larger than a few and than a quarter of it."""
    monkeypatch.setattr(keyed_rows, "SMALLEST_MERGE", 2)
    held = KeyedRows(EMPTY)
    held.put(ints(range(100)), rows(range(100)))
    assert (len(held._large[0]), len(held._recent[0])) == (100, 0)
    held.put(ints([5, 6, 200]), rows([1, 2, 3]))
    assert (len(held._large[0]), len(held._recent[0])) == (100, 3)
    held.put(ints(range(300, 330)), rows(range(30)))
    assert (len(held._large[0]), len(held._recent[0])) == (131, 0)
