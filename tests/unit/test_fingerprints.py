"""What mergers remember of the last lists."""

import random

import numpy as np

from operators.merging.fingerprints import Fingerprints


def test_fingerprints_are_those_of_a_dictionary():
    """Entered, changed, emptied, removed and saved in any order; injected queries have numbers below 0."""
    rng = random.Random(4)
    said, model = Fingerprints(), {}
    for _ in range(400):
        numbers = rng.sample([-1, -2, *range(0, 5000, 7)], rng.randrange(60))
        if rng.random() < 0.35:
            said.remove(np.array(numbers, np.int64))
            for number in numbers:
                model.pop(number, None)
        else:
            prints = [rng.randrange(-1, 3) for _ in numbers]
            changed = said.exchange(np.array(numbers, np.int64), np.array(prints, np.int64))
            assert changed.tolist() == [model.get(n, 0) != p for n, p in zip(numbers, prints, strict=True)]
            model.update(zip(numbers, prints, strict=True))
        if rng.random() < 0.1:
            state = said.snapshot()
            said = Fingerprints()
            said.restore(state)
        known = dict(zip(*(column.tolist() for column in said.snapshot().values()), strict=True))
        assert {n: p for n, p in known.items() if p} == {n: p for n, p in model.items() if p}


def test_memory_returns_with_the_queries():
    """A table that was large is small again when its queries have gone."""
    said = Fingerprints()
    numbers = np.arange(100_000)
    said.exchange(numbers, numbers + 1)
    said.remove(numbers[5:])
    assert len(said) == 5
    assert said.snapshot()["numbers"].tolist() == [0, 1, 2, 3, 4]
    assert len(said._table) < 1000
