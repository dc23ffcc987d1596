"""Merges of kept objects: as much of them at a time as objects are worth, and memory before it is needed."""

import numpy as np

from operators.indexes.objects import segment_parts
from operators.indexes.objects.kept_index import KeptIndex
from operators.indexes.objects.object_log import ObjectLog
from streams.geometry import Rect


class Structure:
    """Has work that waits, in large steps."""

    def __init__(self, steps):
        self.log, self.left = ObjectLog(64), steps

    def step(self):
        self.left -= self.left > 0
        return 1_000 if self.left else 0


def test_few_objects_bring_steps_now_and_then():
    """What a step does beyond what it was asked for counts the next time; what nobody needs to do is not owed."""
    structure = Structure(21)
    index = KeptIndex(structure, Rect(0, 0, 1, 1))
    for _ in range(100):
        index.tend(100)
    assert structure.left == 11
    assert index.tend(100_000) is False
    structure.left = 21
    index.tend(100)
    assert structure.left == 20


def test_memory_is_touched_a_large_page_at_a_time(monkeypatch):
    """All of it, and no more than a step of work at once."""
    monkeypatch.setattr(segment_parts, "TOUCHED", 8192)
    array = np.ones((5_000, 4), np.int32)
    steps = [1 for _ in segment_parts._touched(array)]
    assert len(steps) == 10
    assert (array.reshape(-1).view(np.uint8)[::4096] == 0).all()
