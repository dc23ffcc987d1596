"""Dynamic objects: whoever finds, keeps and moves queries, by score or by distance, every line is the oracle's."""

import random

import pytest
from dynamic_inputs import dynamic_objects, dynamic_queries
from topk_inputs import RESTLESS, SQUARE

from operators.indexes.dynamic.registry import FINDERS, REFILLERS
from streams.errors import DeclarationError
from topology.testing import run_for_test

PAIRS = dict.fromkeys([*((index, "brute") for index in FINDERS), *(("pyramid", refill) for refill in REFILLERS)])


def trial(name, seed, *settings):
    """Run a topology over random input of a seed."""
    rng = random.Random(seed)
    last = rng.choice([10, 40, 200])
    settings = [
        SQUARE,
        f"topology.epoch.objects={rng.choice([3, 10, 64])}",
        f"bolt.evaluator.parallelism={rng.choice([1, 3])}",
        f"bolt.merger.parallelism={rng.choice([1, 2, 3])}",
        *settings,
    ]
    objects, queries = dynamic_objects(rng, 90, last), dynamic_queries(rng, 25, last)
    return run_for_test(name, settings=settings, objects=objects, queries=queries, seed=seed, delays=True)


@pytest.mark.parametrize(("index", "refill"), list(PAIRS), ids=["-".join(pair) for pair in PAIRS])
def test_dynamic_objects_are_exact_with_any_parts(index, refill):
    """Any finder and any refiller, with 1 to 3 evaluators."""
    for seed in range(3):
        parts = f"bolt.evaluator.index={index}", f"bolt.evaluator.refill={refill}"
        trial("conf/dynamic.toml", f"{index} {refill} {seed}", *parts).assert_exact()


def test_n_of_a_topology_is_that_of_the_grid():
    """The paper's refillers take it and stay exact; one without a grid, and a grid that is too fine, are refused."""
    trial("conf/dynamic.toml", "n", "bolt.evaluator.refill=gpcl", "bolt.evaluator.n=3").assert_exact()
    for refill, n, text in (
        ("buffers", 3, "'buffers' has no grid of cells.*gpcl, gcl, kmax"),
        ("gcl", 999, "1 to 256"),
    ):
        with pytest.raises(DeclarationError, match=text):
            trial("conf/dynamic.toml", "n", f"bolt.evaluator.refill={refill}", f"bolt.evaluator.n={n}")


def test_dynamic_objects_are_exact_while_queries_move():
    """Whoever takes a query has all states, and searches them anew; no list is lost or said twice."""
    moved = 0
    for seed in range(6):
        lag = f"topology.epoch.feedback={1 + seed % 3}"
        one = trial("conf/dynamic-balanced.toml", f"moving {seed}", *RESTLESS, lag, "bolt.evaluator.parallelism=4")
        one.assert_exact()
        moved += sum(task.get("queries_taken", 0) for task in one.summary["tasks"])
    assert moved > 9


def courier(name, ts, place=0.5, **more):
    return {"id": name, "ts": ts, "x": place, "y": 0.5, "keywords": ["tea"], **more}


def wanted(name, ts, **more):
    return {"op": "register", "id": name, "ts": ts, "type": "topk", "at": [0.5, 0.5], "k": 1, "alpha": 0.5,
            "keywords": ["tea"], **more}  # fmt: skip


def hand_made(objects, queries, *settings):
    """Run a few records, with an epoch for each unless settings say otherwise."""
    settings = [SQUARE, "topology.epoch.objects=1", *settings]
    one = run_for_test("conf/dynamic.toml", settings=settings, objects=objects, queries=queries)
    one.assert_exact()
    return [(line["query"], line["ts"], [name for name, _ in line["objects"]]) for line in one.lines()], one


def test_a_list_is_frozen_as_it_was_before_the_end():
    """Objects after the end of a query, in the same epoch, change it no more; one in mid-epoch has a list as well."""
    objects = [courier("a", 0), courier("b", 5, 0.6), courier("a", 10, 0.9), courier("b", 20, op="delete")]
    lines, _ = hand_made(objects, [wanted("short", 0, ttl=10), wanted("inside", 6, ttl=3)], "topology.epoch.objects=9")
    assert {name: listed for name, _, listed in lines} == {"short": ["a"], "inside": ["a"]}


def test_an_object_that_comes_again_unchanged_is_no_news():
    """A line never repeats the one before it, also where the object has a new place in the order."""
    objects = [
        courier("a", 0),
        courier("a", 5, op="delete"),
        courier("a", 5),
        courier("a", 6, op="delete"),
        courier("a", 7),
    ]
    lines, _ = hand_made(objects, [wanted("q", 0)], "topology.epoch.objects=3")
    assert [listed for _, _, listed in lines] == [["a"]]


def test_bad_records_are_rejected_and_stop_nothing():
    """A deletion of nobody does nothing; an update outside of the space and a query for none are rejected, with a reason."""
    objects = [courier("nobody", 0, op="delete"), courier("a", 1), courier("a", 2, 1.5), courier("b", 3, 0.9)]
    lines, one = hand_made(objects, [wanted("q", 0, k=2), wanted("none", 0, k=0)])
    assert lines[-1] == ("q", 3, ["a", "b"])
    assert one.summary["rejected"] == 2


def nearest(name, ts, **more):
    return {"op": "register", "id": name, "ts": ts, "type": "knn", "at": [0.5, 0.5], "k": 1, **more}


def test_the_nearest_of_moving_points():
    """Without keywords a list has the k nearest, whatever the objects say, with their distances."""
    rng = random.Random(4)
    places = [rng.random() for _ in range(60)]
    points = [courier(n % 20, n, place, keywords=[f"own{n}"] if n % 3 else []) for n, place in enumerate(places)]
    lines, one = hand_made(points, [nearest("q", 0, k=5)], "topology.epoch.objects=7")
    assert lines[-1][2] == sorted(range(20), key=lambda n: abs(places[40 + n] - 0.5))[:5]
    assert [value for _, value in one.lines()[-1]["objects"]] == sorted(abs(place - 0.5) for place in places[40:])[:5]


def test_the_nearest_moves_away():
    """A list follows who is nearest: one that leaves, one that stops matching, one that is excluded, one that is deleted."""
    objects = [
        courier("a", 0),
        courier("b", 0, 0.6),
        courier("a", 1, 0.9),
        courier("b", 2, 0.6, keywords=["jam"]),
        courier("a", 3, 0.9, op="delete"),
    ]
    queries = [nearest("tea", 0, keywords=["tea"]), nearest("other", 0, none=["jam"]), nearest("all", 0)]
    lines, _ = hand_made(objects, queries)
    listed = {name: [found for query, _, found in lines if query == name] for name in ("tea", "other", "all")}
    assert listed == {
        "tea": [["a"], ["b"], ["a"], []], "other": [["a"], ["b"], ["a"], []], "all": [["a"], ["b"]],
    }  # fmt: skip


@pytest.mark.parametrize("name", ["conf/dkm.toml", "conf/sstd.toml"])
def test_the_nearest_of_objects_that_stay_are_refused_where_they_move(name):
    """An evaluator that keeps the nearest of all records would list states that are over."""
    with pytest.raises(DeclarationError, match=r"the nearest records.*use a dynamic-evaluator"):
        run_for_test(
            name, settings=[SQUARE, "spout.objects.dynamic=true"], objects=[courier("a", 0)], queries=[nearest("q", 0)]
        )


def test_what_does_not_go_with_dynamic_objects_is_refused():
    """A window, objects that have no states, and plans that send objects to some tasks only."""
    for setting, text in (
        ("topology.window.objects=5", "no sliding window"),
        ("spout.objects.dynamic=false", "set dynamic = true"),
        ("topology.partitioner.kind=keyword", "use the partitioner hash"),
    ):
        with pytest.raises(DeclarationError, match=text):
            trial("conf/dynamic.toml", "refused", setting, "bolt.evaluator.parallelism=3")
