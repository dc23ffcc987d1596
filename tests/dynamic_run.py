"""An index of dynamic objects and its model, side by side, step by step."""

from random import Random

import numpy as np
from dynamic_model import DrawnChanges, PlainBest, objects_batch
from topk_model import topk_batch

from streams.batches import FOREVER
from streams.state import pack_state, unpack_state

STEPS = ("insert",) * 2 + ("update",) * 8 + ("remove", "save")


class Run:
    """Lists of one kind of query, `topk` unless told otherwise, and everything recomputed at every step.

    Args:
        make: makes the index.
        batch: makes a batch of queries.
        sign: what its scores are multiplied with to be values.
    """

    def __init__(self, make, space, metric, words, seed=0, names=12, batch=topk_batch, sign=1.0):
        self.make, self.batch, self.sign = make, batch, sign
        self.index, self.model = make(), PlainBest(space, metric, words)
        self.rng = Random(seed)
        self.drawn = DrawnChanges(self.rng, space, names)
        self.said = {}

    def query(self):
        return self.drawn.query()

    def insert(self, count=None):
        queries = [
            self.query() | {"end": FOREVER, "k": self.rng.choice([1, 2, 3, 5, 30])}
            for _ in range(count or self.rng.randrange(1, 6))
        ]
        self.add(queries)

    def add(self, queries):
        self.take_in(self.batch(queries))
        self.model.insert(queries)
        self.index.open(np.array([q["number"] for q in queries], np.int64))
        if self.rng.random() < 0.7:
            self.compare(self.index.fill())

    def take_in(self, queries):
        self.index.queries.insert(queries, np.inf)

    def take_out(self, numbers):
        self.index.queries.remove(numbers)

    def remove(self):
        gone = np.array([n for n in self.model.rows if self.rng.random() < 0.3], np.int64)
        self.index.close(gone)
        self.take_out(gone)
        self.model.remove(gone.tolist())

    def update(self, count=None):
        count = count or self.rng.choice([1, 1, 2, 5, 20])
        self.enter([self.drawn.record(self.model.objects.states) for _ in range(count)])

    def enter(self, records):
        self.model.objects.apply(records)
        self.compare(self.index.update(objects_batch(records)))

    def compare(self, changed):
        """Check all lists; what is not said to have changed has not."""
        numbers = np.array(sorted(self.model.rows), np.int64)
        off, objects, score = self.index.lists(numbers)
        names, values = self.index.objects.ids(objects).to_list(), (self.sign * score).tolist()
        for row, number in enumerate(numbers.tolist()):
            found = list(zip(names[off[row] : off[row + 1]], values[off[row] : off[row + 1]], strict=True))
            assert found == self.model.best(number)
            assert number in changed or found == self.said.get(number, [])
            self.said[number] = found

    def snapshot(self):
        return {"objects": self.index.objects.snapshot(), "queries": self.index.snapshot()}

    def restore(self, state):
        self.index.objects.restore(state["objects"])
        self.index.restore(state["queries"])

    def save(self):
        state = unpack_state(pack_state(self.snapshot()))
        self.index = self.make()
        self.restore(state)
        assert self.index.objects.snapshot()["objects"].seq.tolist() == state["objects"]["objects"].seq.tolist()
        self.index.open(np.array(sorted(self.model.rows), np.int64))
        self.compare(self.index.fill())
