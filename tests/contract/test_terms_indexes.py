"""One suite over all indexes of frequent terms: the counts of the definition, whatever comes in between."""

import os
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from checked_kernels import passes_with_checked_bounds
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from range_model import query_batch
from terms_model import Drawn, PlainTerms, listed, lists_of, terms_batch

from operators.indexes.core import standing_queries
from operators.indexes.terms.registry import TERMS_INDEXES, make_terms_index
from operators.indexes.topk import window_log
from streams.batches import OP_UPSERT, TYPE_RANGE
from streams.errors import DeclarationError, InputError
from streams.geometry import REGION_CIRCLE, REGION_NONE, REGION_RECT, Rect
from streams.state import pack_state, unpack_state

SPACES = {"euclidean": Rect(0.0, -1.0, 1.0, 3.0), "haversine": Rect(-180.0, -90.0, 180.0, 90.0)}
EXAMPLES = int(os.environ.get("TERMS_INDEX_EXAMPLES", "25"))

every_index = pytest.mark.parametrize("name", list(TERMS_INDEXES))
every_metric = pytest.mark.parametrize("metric", list(SPACES))

#: Small structures change shape early: options under which a handful of objects already fills blocks and exceeds candidates.
EAGER = {"candidates": {"candidates": 3, "sizes": (2, 4, 12, 24)}, "groups": {"steps": 2, "index": "brute"}}

#: How late an instant may be asked for, and the longest window.
LATE, LONGEST = 3, 12


class Run:
    """An index and its model, side by side."""

    def __init__(self, name, metric, seed, space=None):
        self.make = lambda: make_terms_index(name, space or SPACES[metric], metric, **EAGER.get(name, {}))
        self.metric = metric
        self.index, self.model = self.make(), PlainTerms(metric)
        self.rng = Random(seed)
        self.drawn = Drawn(self.rng, space or SPACES[metric])
        self.complete = 0

    def some(self, share=0.3):
        return [n for n in self.model.rows if self.rng.random() < share]

    def insert(self, count=None, **fixed):
        queries = [self.drawn.query(self.metric, **fixed) for _ in range(count or self.rng.randrange(1, 8))]
        self.index.insert(query_batch(queries))
        self.model.rows.update({q.number: q for q in queries})

    def take(self, count=None):
        objects = self.drawn.objects(count or self.rng.randrange(1, 12))
        self.index.take(terms_batch(objects))
        self.model.objects += objects
        self.drawn.now += self.rng.randrange(3)
        self.complete = self.drawn.now - 1

    def remove(self):
        gone = [*self.some(), 10**9]
        assert self.index.remove(np.array(gone, np.int64)) == len(gone) - 1
        for n in gone:
            self.model.rows.pop(n, None)
            self.model.asleep.discard(n)

    def set_end(self):
        pairs = [(n, self.drawn.now + self.rng.randrange(-2, 5)) for n in self.some()]
        self.index.set_end(np.array([n for n, _ in pairs], np.int64), np.array([e for _, e in pairs], np.int64))
        for n, end in pairs:
            self.model.set_end(n, end)

    def expire(self):
        ended = sorted(n for n, q in self.model.rows.items() if q.end <= self.drawn.now)
        assert sorted(self.index.expire(self.drawn.now).tolist()) == ended
        for n in ended:
            del self.model.rows[n]
            self.model.asleep.discard(n)

    def hush(self):
        some = self.some()
        self.index.hush(np.array(some, np.int64))
        self.model.asleep.update(some)

    def wake(self):
        some = list(self.model.asleep)
        self.index.wake(np.array(some, np.int64))
        self.model.asleep.clear()

    def forget(self):
        self.index.forget(self.complete - LATE - LONGEST)

    def save(self):
        state = unpack_state(pack_state(self.index.snapshot()))
        cost = self.index.cost()
        self.index = self.make()
        self.index.restore(state)
        assert self.index.cost() == cost

    def answer(self):
        """Ask in the order of time, as evaluators do, for some instants once and for others several times."""
        asked = [(self.complete - self.rng.choice([0, 0, 1, LATE]), n) for n in self.some(0.6) for _ in range(2)]
        self.ask([(n, at, self.rng.random() < 0.8) for at, n in sorted(asked)])

    def ask(self, asked):
        numbers, instants, whole = (
            (np.array(column) for column in zip(*asked, strict=True)) if asked else [np.empty(0, int)] * 3
        )
        found = lists_of(self.index.answer(numbers.astype(np.int64), instants.astype(np.int64), whole.astype(np.bool_)))
        wanted = [(n, at, listed(self.model.counts(n, at), self.model.rows[n].k, w)) for n, at, w in asked]
        assert found == wanted

    def check(self):
        numbers = np.array(sorted(self.model.rows), np.int64)
        assert self.index.numbers().tolist() == numbers.tolist()
        assert self.index.asleep().tolist() == sorted(self.model.asleep)
        back = self.index.queries(numbers)
        model = query_batch([self.model.rows[n] for n in numbers.tolist()])
        for column in ("number", "ts", "end", "match_any", "region", "shape", "k", "type", "window", "slide", "kw"):
            assert getattr(back, column).tolist() == getattr(model, column).tolist(), column


STEPS = (
    *("insert", "take", "take", "take", "answer", "answer", "answer", "answer", "forget"),
    *("remove", "set_end", "expire", "hush", "wake", "save"),
)


@every_index
@every_metric
@given(seed=st.integers(0, 2**32))
@settings(
    max_examples=EXAMPLES, deadline=None, derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)  # fmt: skip
def test_counts_are_those_of_the_definition(monkeypatch, name, metric, seed):
    """Whatever is registered, ended, saved and forgotten in between, at boundaries of windows and regions."""
    monkeypatch.setattr(standing_queries, "SMALLEST_REBUILD", 6)
    monkeypatch.setattr(standing_queries, "CHUNK", 7)
    monkeypatch.setattr(window_log, "CHUNK", 8)
    run = Run(name, metric, seed)
    for _ in range(40):
        getattr(run, run.rng.choice(STEPS))()
    run.check()
    run.answer()
    assert run.index.nbytes > 0


@every_index
def test_windows_slide_over_a_long_stream(name):
    """Hundreds of instants of the same queries, whose terms become frequent, rare and frequent again."""
    run = Run(name, "euclidean", 4)
    run.insert(25, window=9, slide=2, end=2**40, keywords=frozenset(), k=2)
    for step in range(150):
        run.drawn.words = 5 if step % 40 < 20 else 12
        run.take(6)
        run.ask([(n, run.complete, True) for n in sorted(run.model.rows)])
        run.forget()
        run.model.objects = run.model.objects[-200:]


@every_index
def test_empty_regions_and_more_terms_wanted_than_there_are(name):
    """A region without objects has an empty answer; k larger than the number of terms lists all of them."""
    run = Run(name, "euclidean", 7)
    run.insert(1, region=REGION_RECT, shape=(0.01, 0.01, 0.02, 0.02), keywords=frozenset(), end=2**40)
    run.insert(1, region=REGION_NONE, shape=(0.0,) * 4, k=1000, keywords=frozenset(), end=2**40, window=10**6)
    run.ask([(n, 0, True) for n in run.model.rows])
    run.take(30)
    empty, full = run.model.rows
    run.ask([(empty, run.complete, True), (full, run.complete, True), (full, run.complete, False)])
    assert run.model.counts(empty, run.complete) == {}
    assert len(run.model.counts(full, run.complete)) > 5


@every_index
def test_circles_across_the_date_line_and_over_the_poles(name):
    """An object on the other side of the date line, or of the pole, is as near as it is."""
    run = Run(name, "haversine", 9)
    rng = run.rng
    run.drawn.place = lambda: (
        rng.choice([-1, 1]) * (180 - rng.random() * 0.01),
        rng.choice([89.99, 0.0, 60.0]) - rng.random() * 0.02,
    )
    run.drawn.region = lambda _metric: (REGION_CIRCLE, (*run.drawn.place(), rng.choice([100.0, 1000.0, 3000.0]), 0.0))
    for _ in range(8):
        run.insert(4, end=2**40)
        run.take(20)
        run.ask([(n, run.complete, True) for n in sorted(run.model.rows)])
    assert any(run.model.counts(n, run.complete) for n in run.model.rows)


@every_index
def test_memory_returns(name):
    """What was taken for queries that have gone, and for objects that have left all windows, is given back."""
    run = Run(name, "euclidean", 1)
    run.insert(6000, window=5, slide=9, end=2**40)
    run.take(500)
    run.ask([(n, run.complete, True) for n in list(run.model.rows)[:20]])
    full = run.index.nbytes
    run.index.remove(run.index.numbers()[10:])
    assert run.index.nbytes < full / 2
    run.index.take(terms_batch([replace(run.drawn.object(), ts=10**6, op=OP_UPSERT)]))
    run.index.forget(10**6 - 20)
    assert len(run.index.window) == 1


@every_index
def test_what_cannot_be_held_is_refused(name):
    """Bad registrations and objects change nothing."""
    run = Run(name, "euclidean", 3)
    good = run.drawn.query("euclidean")
    for wrong in ({"k": 0}, {"k": 1001}, {"window": -1}, {"slide": 0}, {"type": TYPE_RANGE}, {"continuous": False}):
        with pytest.raises(InputError, match="expected a continuous terms query with k from 1 to 1000"):
            run.index.insert(query_batch([replace(good, **wrong)]))
    assert len(run.index) == 0
    objects = run.drawn.objects(3)
    with pytest.raises(InputError, match="sort them by 'seq'"):
        run.index.take(terms_batch(objects[::-1]))
    with pytest.raises(InputError, match="is at"):
        run.index.take(terms_batch([replace(objects[0], x=float("nan"))]))
    run.index.take(terms_batch(objects))
    with pytest.raises(InputError, match="sort them by 'seq'"):
        run.index.take(terms_batch(objects[:1]))
    with pytest.raises(InputError, match="query 99 is not held"):
        run.index.answer(np.array([99]), np.array([1]))


def test_names_and_options_are_checked():
    """An unknown index or option is named, with a suggestion."""
    with pytest.raises(DeclarationError, match=r"index 'brutal'.*did you mean 'brute'"):
        make_terms_index("brutal", SPACES["euclidean"])
    with pytest.raises(DeclarationError, match="option 'side' of index 'brute', expected none"):
        make_terms_index("brute", SPACES["euclidean"], side=3)
    with pytest.raises(DeclarationError, match="candidates = 0, expected at least 1"):
        make_terms_index("candidates", SPACES["euclidean"], candidates=0)
    with pytest.raises(DeclarationError, match="each of which divides the next"):
        make_terms_index("candidates", SPACES["euclidean"], sizes=(4, 6))


def test_candidates_spare_most_enumerations():
    """Where the frequent terms stay the same, regions are hardly ever enumerated anew."""
    run = Run("candidates", "euclidean", 8)
    run.index = make_terms_index("candidates", SPACES["euclidean"], sizes=(8, 64))
    run.insert(10, region=REGION_NONE, keywords=frozenset(), k=2, window=100, slide=1, end=2**40)
    run.drawn.keywords = lambda _most: frozenset([w for w in range(40) if run.rng.random() < 2 / (1 + w)])
    examined = []
    for _ in range(120):
        run.take(5)
        run.ask([(n, run.complete, True) for n in sorted(run.model.rows)])
        run.model.objects = run.model.objects[-1000:]
        examined.append(run.index.cost().candidates)
    window = len([o for o in run.model.objects if o.ts > run.complete - 100])
    assert examined[-1] - examined[-21] < 20 * 10 * window / 4


@pytest.mark.skipif("TERMS_INDEX_EXAMPLES" in os.environ, reason="is itself run in another way")
@pytest.mark.timeout(900)  # everything is compiled anew
def test_kernels_stay_inside_of_their_arrays(checked_kernels):
    """Kernels have no bounds checks; once, they run with them."""
    passes_with_checked_bounds(checked_kernels, __file__, "-k", "definition and not brute", TERMS_INDEX_EXAMPLES="4")
