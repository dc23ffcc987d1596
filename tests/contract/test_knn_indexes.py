"""One suite over all indexes of k-nearest-neighbour subscriptions: the lists of the definition, whatever comes in between."""

import os
from random import Random

import numpy as np
import pytest
from checked_kernels import passes_with_checked_bounds
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from knn_model import Drawn, PlainKnn, knn_batch, lists_of, objects_batch

from operators.indexes.core import standing_queries
from operators.indexes.knn import object_rows
from operators.indexes.knn.registry import KNN_INDEXES, make_knn_index
from streams.batches import OP_UNREGISTER
from streams.codec import decode, encode
from streams.errors import DeclarationError, InputError
from streams.geometry import Rect
from streams.state import pack_state, unpack_state

SPACES = {"euclidean": Rect(0.0, -1.0, 1.0, 3.0), "haversine": Rect(-180.0, -90.0, 180.0, 90.0)}
REGION = Rect(-130.0, 20.0, -60.0, 55.0)
EXAMPLES = int(os.environ.get("KNN_INDEX_EXAMPLES", "40"))
PLAIN_PYTHON = os.environ.get("NUMBA_DISABLE_JIT") == "1"

every_index = pytest.mark.parametrize("name", list(KNN_INDEXES))
every_metric = pytest.mark.parametrize("metric", list(SPACES))

#: Small structures change shape early: options under which a handful of subscriptions already splits and spreads.
EAGER = {
    "pyramid": {"fan_out": 4},
    "grid-inverted": {"side": 8, "most_cells": 12},
    "sea-cnn": {"side": 5, "most_cells": 9},
    "subsets": {"subsets": 5},
}


def made(name, metric="euclidean", space=None):
    return make_knn_index(name, space or SPACES[metric], metric, **EAGER.get(name, {}))


class Run:
    """An index and its model, side by side."""

    def __init__(self, name, metric, seed, space=None):
        self.make = lambda: made(name, metric, space)
        self.index, self.model = self.make(), PlainKnn(metric)
        self.rng = Random(seed)
        self.drawn = Drawn(self.rng, space or SPACES[metric])

    def some(self, share=0.3):
        return [n for n in self.model.rows if self.rng.random() < share]

    def insert(self):
        queries = [self.drawn.query() for _ in range(self.rng.randrange(1, 12))]
        self.index.insert(knn_batch(queries))
        self.model.insert(queries)

    def take(self):
        objects = [self.drawn.object() for _ in range(self.rng.randrange(1, 15))]
        held = self.index.numbers()
        before = self.index.prints(held)
        changed = self.index.take(objects_batch(objects))
        assert changed.tolist() == self.model.take(objects)
        assert changed.tolist() == held[self.index.prints(held) != before].tolist()
        self.drawn.now += self.rng.randrange(3)

    def remove(self):
        gone = [*self.some(), 10**9]
        assert self.index.remove(np.array(gone, np.int64)) == len(gone) - 1
        self.model.remove(gone)

    def set_end(self):
        pairs = [(n, self.drawn.now + self.rng.randrange(-2, 5)) for n in self.some()]
        self.index.set_end(np.array([n for n, _ in pairs], np.int64), np.array([e for _, e in pairs], np.int64))
        self.model.set_end(pairs)

    def expire(self):
        ended = self.model.ended(self.drawn.now)
        assert sorted(self.index.expire(self.drawn.now).tolist()) == ended
        self.model.remove(ended)

    def hush(self):
        some = self.some()
        self.index.hush(np.array(some, np.int64))
        self.model.asleep.update(some)

    def wake(self):
        some = [n for n in self.model.asleep if self.rng.random() < 0.7]
        self.index.wake(np.array(some, np.int64))
        self.model.asleep.difference_update(some)

    def move(self):
        """Everything moves to another index: subscriptions first, with their bounds, then new objects, then the lists."""
        numbers = self.index.numbers()
        queries, bounds, asleep = self.index.queries(numbers), self.index.bounds(numbers), self.index.asleep()
        other = self.make()
        other.insert(queries)
        other.bind(numbers, bounds)
        other.hush(asleep)
        objects = [self.drawn.object() for _ in range(self.rng.randrange(4))]
        other.take(objects_batch(objects))
        _, [(_, results)] = decode(b"".join(encode([("adoption", self.index.results(numbers))])))
        other.adopt(results)
        other.adopt(results)  # what both know counts once
        before, after = (lists_of(index.results(numbers)) for index in (self.index, other))
        same = [before[number] == after[number] for number in numbers.tolist()]
        assert (other.prints(numbers) == self.index.prints(numbers)).tolist() == same
        self.model.take(objects)
        self.index = other

    def save(self):
        state = unpack_state(pack_state(self.index.snapshot()))
        cost, prints = self.index.cost(), self.index.prints(self.index.numbers())
        self.index = self.make()
        self.index.restore(state)
        assert self.index.cost() == cost
        assert self.index.prints(self.index.numbers()).tolist() == prints.tolist()

    def check(self):
        numbers = np.array(sorted(self.model.rows), np.int64)
        assert self.index.numbers().tolist() == numbers.tolist()
        assert len(self.index) == len(numbers)
        found, wanted = lists_of(self.index.results(numbers)), self.model.results()
        assert found == wanted
        since = max((seq for one in wanted.values() for _, seq, _ in one), default=9) - 8
        new = {n: [item for item in one if item[1] >= since] for n, one in wanted.items()}
        assert lists_of(self.index.results(numbers, since)) == new
        bounds = self.index.bounds(numbers)
        for n, bound in zip(numbers.tolist(), bounds.tolist(), strict=True):
            full = len(wanted[n]) == self.model.rows[n]["k"]
            assert not full or bound <= wanted[n][-1][0]
        back = self.index.queries(numbers)
        model = knn_batch([self.model.rows[n] for n in numbers.tolist()])
        for column in ("number", "ts", "end", "match_any", "shape", "k", "type", "kw_off", "kw"):
            assert getattr(back, column).tolist() == getattr(model, column).tolist(), column


STEPS = (
    "insert",
    "insert",
    "take",
    "take",
    "take",
    "take",
    "remove",
    "set_end",
    "expire",
    "hush",
    "wake",
    "move",
    "save",
)


@every_index
@every_metric
@given(seed=st.integers(0, 2**32))
@settings(
    max_examples=EXAMPLES, deadline=None, derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)  # fmt: skip
def test_lists_are_those_of_the_definition(monkeypatch, name, metric, seed):
    """Whatever is registered, ended, moved, saved and hushed in between."""
    monkeypatch.setattr(standing_queries, "SMALLEST_REBUILD", 6)
    monkeypatch.setattr(standing_queries, "CHUNK", 7)
    monkeypatch.setattr(object_rows, "SMALLEST_REWRITE", 5)
    run = Run(name, metric, seed)
    for _ in range(25):
        getattr(run, run.rng.choice(STEPS))()
        run.check()
    assert run.index.nbytes > 0


@every_index
def test_a_part_of_the_globe_and_places_outside_of_it(name):
    """Subscriptions may be anywhere, also where no object can be."""
    run = Run(name, "haversine", 5, REGION)
    for _ in range(6):
        run.insert()
        run.take()
    outside = {"number": 10**6, "x": 179.0, "y": -60.0, "keywords": frozenset(), "ts": 0, "end": 10**9, "k": 3,
               "match_any": False}  # fmt: skip
    run.index.insert(knn_batch([outside]))
    run.model.insert([outside])
    for _ in range(6):
        run.take()
        run.check()


@every_index
def test_across_the_date_line_and_over_the_poles(name):
    """The same question on either side of the date line has the same answers."""
    run = Run(name, "haversine", 9)
    rng = run.rng
    run.drawn.place = lambda: (
        rng.choice([-1, 1]) * (180 - rng.random() * 0.01),
        rng.choice([89.99, 0.0, 60.0]) - rng.random() * 0.02,
    )
    run.drawn.keywords = lambda: frozenset([1])
    for _ in range(8):
        run.insert()
        for _ in range(5):
            run.take()
        run.check()


@every_index
@every_metric
def test_many_at_one_place(name, metric):
    """Equal distances: the earlier object stays, and what cannot enter is not examined again and again."""
    run = Run(name, metric, 3)
    run.drawn.place = lambda: (0.5, 0.5)
    run.drawn.keywords = lambda: frozenset([1, 2])
    for _ in range(12):
        run.insert()
        run.take()
        run.check()


@every_index
def test_memory_returns(name):
    """What was taken for subscriptions that have gone is given back."""
    index = made(name)
    drawn = Drawn(Random(1), SPACES["euclidean"])
    batch = knn_batch([drawn.query() for _ in range(6000)])
    index.insert(batch)
    index.take(objects_batch([drawn.object() for _ in range(300)]))
    full = index.nbytes
    index.remove(batch.number[10:])
    assert index.nbytes < full / 4
    assert len(index) == 10


@every_index
def test_weights_tell_who_costs_work(name):
    """The subscriptions that recent objects are compared with are named, and no others."""
    index = made(name)
    drawn = Drawn(Random(2), SPACES["euclidean"])
    index.insert(knn_batch([drawn.query() for _ in range(50)]))
    index.reset_cost()
    index.take(objects_batch([drawn.object() for _ in range(40)]))
    numbers, weights = index.weights()
    assert len(numbers) > 0
    assert np.isin(numbers, index.numbers()).all()
    assert (weights > 0).all()
    index.remove(index.numbers())
    assert len(index.weights()[0]) == 0


@every_index
def test_what_cannot_be_held_is_refused(name):
    """Bad registrations and objects change nothing."""
    index = made(name)
    drawn = Drawn(Random(3), SPACES["euclidean"])
    for k in (0, -1, 1001):
        with pytest.raises(InputError, match="nearest; expected 1 to 1000"):
            index.insert(knn_batch([drawn.query() | {"k": k}]))
    good = knn_batch([drawn.query()])
    index.insert(good)
    with pytest.raises(InputError, match="already registered"):
        index.insert(good)
    ends = knn_batch([drawn.query()])
    ends.op[:] = OP_UNREGISTER
    with pytest.raises(InputError, match="unregistration"):
        index.insert(ends)
    objects = objects_batch([drawn.object() for _ in range(3)])
    with pytest.raises(InputError, match="order of the input"):
        index.take(objects.take(np.array([2, 1])))
    objects.x[1] = np.nan
    with pytest.raises(InputError, match="reject it where it is read"):
        index.take(objects)
    assert len(index) == 1


def test_names_and_options_are_checked():
    """An unknown index or option is named, with a suggestion."""
    with pytest.raises(DeclarationError, match=r"index 'brutal'.*did you mean 'brute'"):
        make_knn_index("brutal", SPACES["euclidean"])
    with pytest.raises(DeclarationError, match="option 'side' of index 'brute', expected none"):
        make_knn_index("brute", SPACES["euclidean"], side=3)


@pytest.mark.skipif(PLAIN_PYTHON or "KNN_INDEX_EXAMPLES" in os.environ, reason="is itself run in other ways")
@pytest.mark.timeout(900)  # everything is compiled anew
def test_kernels_stay_inside_of_their_arrays(checked_kernels):
    """Kernels have no bounds checks; once, they run with them."""
    passes_with_checked_bounds(checked_kernels, __file__, KNN_INDEX_EXAMPLES="4")
