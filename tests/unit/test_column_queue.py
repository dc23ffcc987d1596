"""Columns whose rows come and go, and that grow while they do."""

from random import Random

import numpy as np
import pytest

from operators.indexes.core import growth
from operators.indexes.core.growth import ColumnQueue


@pytest.mark.parametrize("moved", [0, 1, 12])
def test_rows_are_those_that_came_last(monkeypatch, moved):
    """Whatever comes and leaves between two moves, also where hardly anything has moved when room runs out."""
    monkeypatch.setattr(growth, "MOVED", moved)
    monkeypatch.setattr(growth, "MOVED_AT_LEAST", 1 + moved)
    for seed in range(30):
        rng, rows, came = Random(seed), [], 0
        queue = ColumnQueue(np.empty(0, np.int64), np.empty(0, np.int64))
        for _ in range(120):
            count = rng.choice([0, 1, 1, 2, 5, 40])
            new = list(range(came, came + count))
            came += count
            queue.append(np.array(new, np.int64), np.array(new, np.int64) * 10)
            rows += new
            gone = rng.choice([0, 0, rng.randint(0, len(rows)), len(rows) // 2])
            queue.drop(gone)
            rows = rows[gone:]
            assert queue.column(0).tolist() == rows
            assert queue.column(1).tolist() == [10 * row for row in rows]
            assert len(queue) == len(rows)


def test_growing_moves_a_few_rows_at_a_time():
    """No call moves more than a bounded multiple of what comes, once there is room to begin with."""
    queue = ColumnQueue(np.empty(0, np.int64))
    queue.append(np.arange(100_000))
    most, move = 0, queue._move

    def counted(rows):
        nonlocal most
        before = queue._moved
        move(rows)
        most = max(most, queue._moved - before)

    queue._move = counted
    for _ in range(20_000):
        queue.append(np.arange(50))
    assert len(queue) == 1_100_000
    assert 0 < most <= max(growth.MOVED * 50, growth.MOVED_AT_LEAST)
