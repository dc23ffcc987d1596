"""One suite over all finders and refillers: the lists of the definition, to the last bit, whatever moves and changes."""

import os
from pathlib import Path

import numpy as np
import pytest
from checked_kernels import passes_with_checked_bounds
from dynamic_run import STEPS, Run
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from topk_model import topk_batch, vocabulary

from operators.indexes.core import standing_queries
from operators.indexes.dynamic import threshold_buffers
from operators.indexes.dynamic.dynamic_lists import dynamic_topk
from operators.indexes.dynamic.registry import FINDERS, PLANE_ONLY, REFILLERS
from streams.batches import FOREVER, OP_DELETE, OP_UPSERT
from streams.errors import DeclarationError
from streams.geometry import Rect

SPACES = {"euclidean": Rect(0.0, -1.0, 1.0, 3.0), "haversine": Rect(-180.0, -90.0, 180.0, 90.0)}
EXAMPLES = int(os.environ.get("DYNAMIC_EXAMPLES", "12"))

#: Options under which a handful of queries and objects already fills, trims and splits.
EAGER = {
    "aqf": {"n": 7, "groups": 3}, "igpt": {"most": 4, "groups": 3}, "ciq": {"depth": 2}, "gpcl": {"n": 9}, "gcl": {"n": 9},
    "buffers": {"least_slack": 3},
}  # fmt: skip

#: Every finder with one refiller, and every refiller with the finder that it is meant for.
PAIRS = [*((index, "brute") for index in FINDERS), *(("pyramid", refill) for refill in REFILLERS)]
SETTINGS = [
    (index, refill, metric)
    for index, refill in dict.fromkeys(PAIRS)
    for metric in SPACES
    if metric == "euclidean" or not {index, refill} & PLANE_ONLY
]
every_setting = pytest.mark.parametrize(("index", "refill", "metric"), SETTINGS)
every_pair = pytest.mark.parametrize(("index", "refill"), list(dict.fromkeys(PAIRS)))
quickly = settings(
    max_examples=EXAMPLES, deadline=None, derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)  # fmt: skip


class TopkRun(Run):
    """Lists of `topk` queries."""

    def __init__(self, index, refill, metric="euclidean", seed=0, documents=1000, space=None, names=12):
        space, words = space or SPACES[metric], vocabulary(documents)
        options = EAGER.get(index), EAGER.get(refill)
        super().__init__(
            lambda: dynamic_topk(index, refill, space, metric, words, *options), space, metric, words, seed, names
        )


@every_setting
@given(seed=st.integers(0, 2**32))
@quickly
def test_lists_are_those_of_the_definition(monkeypatch, index, refill, metric, seed):
    """Whatever moves, changes, vanishes and comes again, with queries that come and go in between."""
    monkeypatch.setattr(standing_queries, "SMALLEST_REBUILD", 6)
    monkeypatch.setattr(standing_queries, "CHUNK", 7)
    run = TopkRun(index, refill, metric, seed, documents=1000 if seed % 3 else 0, names=12 if seed % 2 else 60)
    for _ in range(25):
        getattr(run, run.rng.choice(STEPS))()
    run.update()
    assert run.index.refiller.nbytes > 0


@every_pair
def test_equal_scores_go_to_the_object_first_seen(index, refill):
    """Many objects in one place with the same words, which come, go and come again."""
    run = TopkRun(index, refill, seed=5, names=40)
    run.drawn.place = lambda: (0.5, 0.5)
    run.drawn.keywords = lambda _least: frozenset([1, 2])
    run.insert(20)
    for _ in range(30):
        run.update()


@every_pair
def test_objects_leap_and_change_everything(index, refill):
    """A crowd in one corner that leaps to another, loses all keywords, and gets others."""
    run = TopkRun(index, refill, seed=6, names=80, space=Rect(0.0, 0.0, 1000.0, 10.0))
    rng = run.rng
    run.drawn.place = lambda: rng.choice([(rng.random(), rng.random()), (1000 - rng.random(), 10 - rng.random())])
    run.drawn.keywords = lambda _least: frozenset(rng.sample(range(6), rng.randrange(1, 4)))
    run.insert(30)
    for turn in range(12):
        run.update(60)
        if turn % 4 == 3:
            empty = frozenset() if turn % 8 == 3 else frozenset([turn])
            run.enter([record(run, name, keywords=empty) for name in run.drawn.names])


def record(run, name, op=OP_UPSERT, **change):
    run.drawn.seq += 1
    x, y = run.drawn.place()
    return {"op": op, "id": name, "seq": run.drawn.seq, "ts": run.drawn.now, "x": x, "y": y,
            "keywords": frozenset([1])} | change  # fmt: skip


@every_pair
def test_only_the_last_state_of_a_batch_counts(index, refill):
    """Of several records of one object; after a deletion it has a new place in the order."""
    run = TopkRun(index, refill)
    run.drawn.place = lambda: (0.5, 0.5)
    query = run.drawn.query() | {"keywords": frozenset([1]), "end": FOREVER, "k": 2, "alpha": 1.0}
    run.add([query])
    run.enter([record(run, "a"), record(run, "b"), record(run, "a", x=0.6), record(run, "a", x=0.5)])
    run.enter([record(run, "a", OP_DELETE), record(run, "nobody", OP_DELETE), record(run, "a", keywords=frozenset())])
    run.enter([record(run, "a", OP_DELETE), record(run, "a"), record(run, "c")])
    assert [name for name, _ in run.said[query["number"]]] == ["b", "a"]
    run.enter([record(run, name, OP_DELETE) for name in ("a", "b", "c")])
    assert run.said[query["number"]] == []
    assert len(run.index.objects) == 0


@pytest.mark.parametrize("index", FINDERS)
def test_every_finder_goes_with_every_refiller(index):
    """A crowd whose best leave all the time, for queries that have few or many of them, with every weight of distance."""
    for refill in REFILLERS:
        run = TopkRun(index, refill, seed=7, names=60)
        run.drawn.keywords = lambda _least, rng=run.rng: frozenset(rng.sample(range(8), rng.randrange(1, 4)))
        run.insert(12)
        for _ in range(10):
            run.update(15)


@every_pair
def test_many_keywords(index, refill):
    """States with more words than a line has, whose memory is used again."""
    run = TopkRun(index, refill, seed=2)
    rng = run.rng
    run.drawn.keywords = lambda _least: frozenset(rng.sample(range(60), rng.randrange(1, 40)))
    run.insert(8)
    for _ in range(25):
        run.update(12)
    assert len(run.index.objects.long) < 3000


@pytest.mark.parametrize("metric", SPACES)
def test_buffers_hold_crowds_that_score_the_same(metric, monkeypatch):
    """More than buffers have room for, in one place, on the globe too; few of many queries change at a time."""
    monkeypatch.setattr(threshold_buffers, "MANY", 0)
    run = TopkRun("pyramid", "buffers", metric, seed=9, names=150)
    run.drawn.place = lambda: (0.5, 0.5)
    run.drawn.keywords = lambda _least: frozenset([1, 2])
    run.insert(6)
    for count in (150, 40, 1, 40, 1, 40):
        run.update(count)


@pytest.mark.parametrize("refill", ["gpcl", "gcl", "kmax"])
def test_lists_that_are_given_go_on_like_those_that_were_searched_for(refill):
    """Full ones, and ones that have all there is."""
    run = TopkRun("aqf", refill, seed=11, names=40)
    for _ in range(6):
        run.update(20)
    queries = [run.drawn.query() | {"end": FOREVER, "k": k} for k in (1, 3, 8, 100)]
    run.index.queries.insert(topk_batch(queries), np.inf)
    run.model.insert(queries)
    numbers = np.array([q["number"] for q in queries], np.int64)
    run.index.open(numbers)
    slots, refiller = run.index.queries.slots(numbers), run.index.refiller
    place = {name: slot for slot, name in enumerate(run.index.objects.ids(run.index.objects.held()).to_list())}
    held = run.index.objects.held()
    lists = []
    for q, room in zip(queries, refiller.rooms(slots).tolist(), strict=True):
        run.model.rows[q["number"]]["k"] = room
        lists.append(run.model.best(q["number"]))
        run.model.rows[q["number"]]["k"] = q["k"]
    off = np.cumsum([0, *map(len, lists)])
    objects = np.array([held[place[name]] for one in lists for name, _ in one], np.int32)
    refiller.adopt(slots, off, objects, np.array([score for one in lists for _, score in one]))
    run.compare(run.index.fill())
    for _ in range(15):
        run.update(10)


@pytest.mark.skipif("NUMBA_BOUNDSCHECK" in os.environ, reason="is itself run in this way")
@pytest.mark.timeout(900)  # everything is compiled anew
def test_kernels_stay_inside_of_their_arrays(checked_kernels):
    """Kernels have no bounds checks; once, they run with them."""
    nearest = Path(__file__).with_name("test_dynamic_nearest.py")
    some = "pyramid-buffers and (definition or leaps or keywords) or crowds"
    passes_with_checked_bounds(checked_kernels, __file__, nearest, "-k", some, DYNAMIC_EXAMPLES="3")


def test_names_are_checked():
    """What there is not is refused, with what there is."""
    with pytest.raises(DeclarationError, match=r"refill 'bruet' .did you mean 'brute'"):
        dynamic_topk("brute", "bruet", SPACES["euclidean"], "euclidean", vocabulary())
    with pytest.raises(DeclarationError, match="expected one of: pyramid"):
        dynamic_topk("nothing", "brute", SPACES["euclidean"], "euclidean", vocabulary())
