"""Fences: whoever holds them, however the input is cut, each event is reported once and none is lost."""

import random

import pytest
from dynamic_inputs import dynamic_objects
from fence_inputs import fence_queries
from topk_inputs import RESTLESS, SQUARE

from operators.indexes import INDEXES
from streams.errors import DeclarationError
from topology.testing import run_for_test

ZONE = {"rect": [0.4, 0.4, 0.6, 0.6]}


def trial(name, seed, *settings):
    """Run a topology over random input of a seed."""
    rng = random.Random(seed)
    last = rng.choice([10, 40, 200])
    settings = [SQUARE, f"topology.epoch.objects={rng.choice([3, 10, 64])}", *settings]
    objects, queries = dynamic_objects(rng, 90, last), fence_queries(rng, 40, last)
    return run_for_test(name, settings=settings, objects=objects, queries=queries, seed=seed, delays=True)


@pytest.mark.parametrize("index", list(INDEXES))
def test_fences_are_exact_with_any_index(index):
    """Any index, with 1 to 4 evaluators and several routers."""
    for tasks in (1, 4):
        parts = f"bolt.evaluator.index={index}", f"bolt.evaluator.parallelism={tasks}", "bolt.router.parallelism=2"
        trial("conf/fences.toml", f"{index} {tasks}", *parts).assert_exact()


def test_fences_are_exact_while_queries_move():
    """Whoever takes a fence knows who is inside, and reports each begin and end that has not passed."""
    moved = 0
    for seed in range(6):
        lag = f"topology.epoch.feedback={1 + seed % 3}"
        one = trial("conf/fences-balanced.toml", f"moving {seed}", *RESTLESS, lag, "bolt.evaluator.parallelism=4")
        one.assert_exact()
        moved += sum(task.get("queries_taken", 0) for task in one.summary["tasks"])
    assert moved > 9


def courier(ts, place=0.5, name="a", **more):
    return {"id": name, "ts": ts, "x": place, "y": 0.5, "keywords": ["tea"], **more}


def fence(ts=0, name="z", **more):
    return {"op": "register", "id": name, "ts": ts, "type": "range", "region": ZONE, **more}


def gone(ts, name="z"):
    return {"op": "unregister", "id": name, "ts": ts}


#: What happens, in records and query operations, and what is reported, in time order: (ts, object, event).
STORIES = {
    "in, around and out": (
        [courier(1, 0.1), courier(2), courier(3, 0.55), courier(4, 0.9)],
        [fence(detect=["enter", "exit", "inside"])],
        [(2, "a", "enter"), (3, "a", "inside"), (4, "a", "exit")],
    ),
    "by default who enters and who exits": (
        [courier(1), courier(2), courier(3, 0.9), courier(4, 0.1)],
        [fence()],
        [(1, "a", "enter"), (3, "a", "exit")],
    ),
    "only what is asked for": (
        [courier(1), courier(2), courier(3, 0.9)],
        [fence(detect=["inside"])],
        [(2, "a", "inside")],
    ),
    "other keywords are a border too": (
        [courier(1), courier(2, keywords=["cake"]), courier(3, keywords=[]), courier(4)],
        [fence(keywords=["tea"])],
        [(1, "a", "enter"), (2, "a", "exit"), (4, "a", "enter")],
    ),
    "a deletion, and one of nobody": (
        [courier(1), courier(2, op="delete"), courier(3, op="delete"), courier(4, name="b", op="delete"), courier(5)],
        [fence()],
        [(1, "a", "enter"), (2, "a", "exit"), (5, "a", "enter")],
    ),
    "who is inside already": ([courier(1), courier(9)], [fence(5)], [(5, "a", "enter")]),
    "who leaves just then": ([courier(1), courier(5, 0.9)], [fence(5)], [(5, "a", "enter"), (5, "a", "exit")]),
    "who comes just then": ([courier(5)], [fence(5)], [(5, "a", "enter")]),
    "the end by itself": ([courier(1), courier(8, 0.9)], [fence(ttl=5)], [(1, "a", "enter"), (5, "a", "exit")]),
    "the end between two moves": (
        [courier(1), courier(5, 0.9), courier(6)],
        [fence(ttl=5)],
        [(1, "a", "enter"), (5, "a", "exit")],
    ),
    "who comes at the end": ([courier(1)], [fence(ttl=1)], []),
    "the end of the input is no end": ([courier(1)], [fence(ttl=2)], [(1, "a", "enter")]),
    "unregistered": ([courier(1), courier(9)], [fence(), gone(4)], [(1, "a", "enter"), (4, "a", "exit")]),
    "unregistered after the last object": ([courier(1)], [fence(), gone(4)], [(1, "a", "enter"), (4, "a", "exit")]),
    "replaced": (
        [courier(1), courier(9, 0.9)],
        [fence(), gone(4), fence(4)],
        [(1, "a", "enter"), (4, "a", "exit"), (4, "a", "enter"), (9, "a", "exit")],
    ),
    "never alive": ([courier(1), courier(9)], [fence(4), gone(4)], []),
    "in and out at one time": (
        [courier(1), courier(1, 0.9), courier(1)],
        [fence()],
        [(1, "a", "enter"), (1, "a", "exit"), (1, "a", "enter")],
    ),
}


@pytest.mark.parametrize("story", list(STORIES))
def test_a_fence_reports_each_event_once(story):
    """Whether each record is an epoch or all of them are one, by any number of evaluators, in the order of what happened."""
    objects, queries, expected = STORIES[story]
    for epoch, tasks in ((1, 1), (1, 3), (2, 1), (9, 2)):
        settings = [SQUARE, f"topology.epoch.objects={epoch}", f"bolt.evaluator.parallelism={tasks}"]
        one = run_for_test("conf/fences.toml", settings=settings, objects=objects, queries=queries)
        one.assert_exact()
        assert [(line["ts"], line["object"], line["detect"]) for line in one.lines()] == expected


def test_what_cannot_be_detected_is_rejected_with_a_reason():
    """Words that are none, nothing at all, a snapshot; and a fence where objects have no states."""
    asked = [
        fence(detect=["enters"]), fence(detect=[]), fence(detect="enter"), fence(detect=["enter", 3]),
        fence(continuous=False, detect=["enter"]), fence(detect=["enter"]),
        {**fence(detect=["exit"]), "type": "terms", "k": 1, "window": 5, "slide": 5},
    ]  # fmt: skip
    queries = [{**line, "id": f"z{n}"} for n, line in enumerate(asked)]
    one = run_for_test("conf/fences.toml", settings=[SQUARE], objects=[courier(1)], queries=queries)
    one.assert_exact()
    assert one.summary["rejected"] == 6
    reasons = " ".join(told["reason"] for told in one.summary["reject_reasons"])
    for text in (
        "did you mean 'enter'",
        "expected an array with some of enter, exit, inside",
        "a snapshot query has no detect",
    ):
        assert text in reasons
    static = run_for_test("conf/tornado.toml", objects=[courier(1)], queries=queries[5:6], settings=[SQUARE])
    assert static.summary["rejected"] == 1
    assert "dynamic = true" in static.summary["reject_reasons"][0]["reason"]


def test_fences_are_refused_where_objects_have_no_states():
    """Objects that are not dynamic, and a plan that sends objects to some tasks only."""
    for setting, text in (
        ("spout.objects.dynamic=false", "set dynamic = true"),
        ("topology.partitioner.kind=keyword", "use the partitioner hash"),
        ("bolt.evaluator.index=kagg", "did you mean 'kag'"),
    ):
        with pytest.raises(DeclarationError, match=text):
            trial("conf/fences.toml", "refused", setting, "bolt.evaluator.parallelism=3")
