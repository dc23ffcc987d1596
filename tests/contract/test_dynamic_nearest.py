"""The nearest among moving objects: the lists of the definition, to the last bit, alone and next to the best by score."""

import os

import numpy as np
import pytest
from dynamic_run import STEPS, Run
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from knn_model import knn_batch
from topk_model import topk_batch, vocabulary

from operators.indexes.core import standing_queries
from operators.indexes.dynamic.dynamic_kinds import DynamicKinds
from operators.indexes.dynamic.dynamic_lists import dynamic_knn
from operators.indexes.dynamic.registry import NEAREST_FINDERS, NEAREST_REFILLERS
from streams.batches import FOREVER, OP_DELETE, OP_UPSERT, QueryBatch
from streams.errors import InputError
from streams.geometry import Rect

SPACES = {"euclidean": Rect(0.0, -1.0, 1.0, 3.0), "haversine": Rect(-180.0, -90.0, 180.0, 90.0)}
EXAMPLES = int(os.environ.get("DYNAMIC_EXAMPLES", "12"))
#: A buffer that a handful of objects already fills.
EAGER = {"buffers": {"least_slack": 3}}

PAIRS = [(index, refill) for index in NEAREST_FINDERS for refill in NEAREST_REFILLERS]
every_pair = pytest.mark.parametrize(("index", "refill"), PAIRS)
every_metric = pytest.mark.parametrize("metric", SPACES)
quickly = settings(
    max_examples=EXAMPLES, deadline=None, derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)  # fmt: skip


def nearest(rng, query):
    """Make a `knn` query of one by score: none of its keywords, some to exclude, any or all."""
    words = query["keywords"] if rng.random() < 0.6 else frozenset()
    words = frozenset(list(words)[:3]) if rng.random() < 0.7 else words
    none = frozenset(rng.sample(range(4), rng.randrange(1, 3))) if rng.random() < 0.3 else frozenset()
    return query | {"keywords": words - none, "none": none, "match_any": rng.random() < 0.5}


class NearestRun(Run):
    """Lists of `knn` queries."""

    def __init__(self, index, refill, metric="euclidean", seed=0, space=None, names=12):
        space, words = space or SPACES[metric], vocabulary()
        super().__init__(
            lambda: dynamic_knn(index, refill, space, metric, words, EAGER.get(refill)), space, metric, words, seed, names,
            knn_batch, -1.0,
        )  # fmt: skip

    def query(self):
        return nearest(self.rng, super().query())


class MixedRun(Run):
    """Lists of both kinds over one table of objects."""

    def __init__(self, index, refill, metric, seed=0, names=12):
        space, words = SPACES[metric], vocabulary()
        make = lambda: DynamicKinds(index, refill, space, metric, words)  # noqa: E731
        super().__init__(make, space, metric, words, seed, names)
        self.batch = mixed_batch

    def query(self):
        drawn = super().query()
        return nearest(self.rng, drawn) if self.rng.random() < 0.5 else drawn

    def take_in(self, queries):
        self.index.insert(queries)

    def take_out(self, numbers):
        self.index.remove(numbers)

    def snapshot(self):
        return self.index.snapshot()

    def restore(self, state):
        self.index.restore(state)


def mixed_batch(queries):
    return QueryBatch.concat([(knn_batch if "match_any" in q else topk_batch)([q]) for q in queries])


def few_rows(monkeypatch):
    """Let tables be rebuilt, and queries come in several lots, with a handful of them."""
    monkeypatch.setattr(standing_queries, "SMALLEST_REBUILD", 6)
    monkeypatch.setattr(standing_queries, "CHUNK", 7)


@every_pair
@every_metric
@given(seed=st.integers(0, 2**32))
@quickly
def test_nearest_are_those_of_the_definition(monkeypatch, index, refill, metric, seed):
    """Whatever moves, changes, vanishes and comes again, with queries that come and go in between."""
    few_rows(monkeypatch)
    run = NearestRun(index, refill, metric, seed, names=12 if seed % 2 else 60)
    for _ in range(25):
        getattr(run, run.rng.choice(STEPS))()
    run.update()
    assert run.index.refiller.nbytes > 0
    assert run.index.queries.nbytes > 0


@every_metric
@given(seed=st.integers(0, 2**32))
@quickly
def test_both_kinds_share_the_states(monkeypatch, metric, seed):
    """Queries by score and by distance side by side, each with its own lists, saved and restored together."""
    few_rows(monkeypatch)
    run = MixedRun("pyramid", "buffers", metric, seed, names=12 if seed % 2 else 60)
    for _ in range(25):
        getattr(run, run.rng.choice(STEPS))()
    run.update()
    numbers = np.array(sorted(run.model.rows), np.int64)
    assert run.index.numbers().tolist() == numbers.tolist()
    queries = run.index.queries(numbers[::-1])
    assert queries.number.tolist() == numbers[::-1].tolist()
    assert run.index.wanted(numbers).tolist() == [run.model.rows[n]["k"] for n in numbers.tolist()]
    assert run.index.holds(np.array([-7], np.int64)).tolist() == [False]


def test_parts_that_are_made_for_scores_leave_the_nearest_to_the_default():
    """With the paper's finder and refiller next to it."""
    run = MixedRun("aqf", "gpcl", "euclidean", seed=3)
    run.insert(12)
    for _ in range(12):
        run.update(10)


@every_pair
@every_metric
def test_equal_distances_go_to_the_object_first_seen(index, refill, metric):
    """Many objects in one place, more than buffers have room for, which come, go and come again."""
    run = NearestRun(index, refill, metric, seed=5, names=60)
    run.drawn.place = lambda: (0.5, 0.5)
    run.insert(12)
    for count in (60, 20, 1, 20, 1, 20, 40):
        run.update(count)


@every_pair
def test_a_crowd_leaps_from_corner_to_corner(index, refill):
    """Balls without room become ones that have the whole space in them, and back."""
    run = NearestRun(index, refill, seed=6, names=50, space=Rect(0.0, 0.0, 1000.0, 10.0))
    rng = run.rng
    run.query = lambda: run.drawn.query() | {"keywords": frozenset(), "none": frozenset(), "match_any": True}
    run.insert(60)  # more than a block of the pyramid has, so that there are boxes around their balls
    corner = [0.0, 0.0]
    run.drawn.place = lambda: (corner[0] + rng.random(), corner[1] + rng.random())
    for turn in range(10):
        corner[:] = (0.0, 0.0) if turn % 2 else (999.0, 9.0)
        run.enter([moved(run, name) for name in run.drawn.names])
        run.update(10)


def moved(run, name, op=OP_UPSERT, **change):
    run.drawn.seq += 1
    x, y = run.drawn.place()
    return {"op": op, "id": name, "seq": run.drawn.seq, "ts": run.drawn.now, "x": x, "y": y,
            "keywords": run.drawn.keywords(0)} | change  # fmt: skip


@every_pair
def test_objects_without_keywords_count_where_none_are_wanted(index, refill):
    """For a query without keywords, and for one that only excludes some; what is excluded does not."""
    run = NearestRun(index, refill)
    words = ({"keywords": frozenset()}, {"keywords": frozenset(), "none": frozenset([1])}, {"keywords": frozenset([1])})
    plain = run.drawn.query() | {"x": 0.0, "y": 0.0, "k": 2, "end": FOREVER, "match_any": True, "none": frozenset()}
    queries = [plain | {"number": number} | these for number, these in enumerate(words)]
    run.add(queries)
    names = {"a": frozenset(), "b": frozenset([1]), "c": frozenset([2])}
    places = {"a": 0.1, "b": 0.2, "c": 0.3}
    run.enter([moved(run, name, x=places[name], y=0.0, keywords=words) for name, words in names.items()])
    assert [[name for name, _ in run.said[n]] for n in range(3)] == [["a", "b"], ["a", "c"], ["b"]]
    run.enter([moved(run, "a", OP_DELETE), moved(run, "c", x=0.9, y=0.0, keywords=frozenset([1]))])
    assert [[name for name, _ in run.said[n]] for n in range(3)] == [["b", "c"], [], ["b", "c"]]


def test_nothing_is_kept_of_objects_before_somebody_asks():
    """A kind without queries costs nothing but states; the first query finds all of these."""
    run = MixedRun("pyramid", "buffers", "euclidean", names=50)
    run.update(60)
    idle = run.index.knn.refiller.nbytes
    run.insert(12)
    run.update(1)
    assert run.index.knn.refiller.nbytes > 2 * idle


@pytest.mark.parametrize("k", [0, 10**6])
def test_a_wrong_k_is_refused(k):
    """With the number of the query and what is expected."""
    run = NearestRun("pyramid", "buffers")
    with pytest.raises(InputError, match=rf"wants the {k} nearest; expected 1 to 1000"):
        run.take_in(knn_batch([run.query() | {"k": k}]))
