"""Queries that live for no time at all, that are replaced, and that wait while time stands still."""

import random

import pytest
from sstd_inputs import sstd_objects, sstd_queries
from topk_inputs import RESTLESS, SQUARE

from topology.testing import run_for_test

SMALL = SQUARE, "topology.epoch.objects=2", "topology.epoch.feedback=2"

BEST = {"type": "topk", "keywords": ["tea"], "alpha": 0.5, "k": 2, "at": [0.5, 0.5]}
NEAREST = {"type": "knn", "k": 2, "at": [0.5, 0.5]}
WINDOW = "topology.window.objects=9"

KINDS = "qt-tree", "quadtree", "kd"

#: What each topology is asked, and its own settings.
STANDING = {
    "conf/dkm.toml": (NEAREST, "bolt.merger.parallelism=2"),
    "conf/skype.toml": (BEST, WINDOW),
    "conf/dskype.toml": (BEST, WINDOW),
    "conf/dskype-hash.toml": (BEST, WINDOW),
    "conf/dynamic.toml": (BEST, "bolt.merger.parallelism=2"),
    "conf/dynamic-nearest.toml": (NEAREST, "bolt.merger.parallelism=2"),
    "conf/sstd.toml": (NEAREST, "bolt.merger.parallelism=2"),
}


def objects_at(*times):
    places = random.Random(5)
    return [
        {"id": f"o{n}", "ts": ts, "x": places.random(), "y": 0.5, "keywords": ["tea"]} for n, ts in enumerate(times)
    ]


@pytest.mark.parametrize("name", [*STANDING, "snapshot", "snapshot in two phases"])
def test_a_query_that_ends_as_it_begins_has_no_result(name):
    """It lives at no instant, also where lists are searched for elsewhere and questions are asked twice."""
    two_phase = "true" if "two" in name else "false"
    question = NEAREST | {"continuous": False, "window": 5}
    asked, setting = STANDING.get(name, (question, f"bolt.router.two_phase={two_phase}"))
    queries = [
        {"op": op, "id": "q", "ts": 3} | (asked if op == "register" else {}) for op in ("register", "unregister")
    ]
    one = run_for_test(
        name if name in STANDING else "conf/sstd.toml",
        settings=[*SMALL, setting],
        objects=objects_at(1, 1, 2, 3, 3, 3, 4, 5, 6, 7, 8, 9),
        queries=queries,
    )
    one.assert_exact()
    assert one.summary["rejected"] == 0
    assert one.lines() == []


@pytest.mark.parametrize("name", STANDING)
def test_lines_of_a_query_that_is_replaced_come_before_those_of_the_next(name):
    """Whoever keeps the two, and though both are said in one epoch: the last line of an identifier is of its last query."""
    asked, setting = STANDING[name]
    operations = []
    for n in range(12):
        one = {"id": f"q{n}", **asked}
        operations += [
            {"op": "register", "ts": 1, **one},
            {"op": "unregister", "id": f"q{n}", "ts": 4},
            {"op": "register", "ts": 4, **one, "at": [0.0, 0.5]},
        ]
    trial = run_for_test(
        name,
        settings=[*SMALL, setting, "topology.epoch.objects=50", "bolt.evaluator.parallelism=3"],
        objects=objects_at(*range(12)),
        queries=sorted(operations, key=lambda one: one["ts"]),
    )
    trial.assert_exact()
    for n in range(12):
        times = [line["ts"] for line in trial.lines() if line["query"] == f"q{n}"]
        assert times == sorted(times)
        assert times[0] < 4 <= times[-1]


def test_a_question_of_two_phases_is_answered_while_time_stands_still():
    """Its second phase begins when its time has passed, and the next may be far away."""
    question = {"op": "register", "id": "q", "ts": -1, "continuous": False, **NEAREST}
    one = run_for_test(
        "conf/sstd.toml",
        settings=[*SMALL, "bolt.router.two_phase=true", "topology.epoch.objects=1"],
        objects=objects_at(*[0] * 90),
        queries=[question],
    )
    one.assert_exact()


def test_snapshots_whose_time_spans_epochs_are_asked_where_the_objects_go():
    """A plan that is replaced before the time of a question has passed sends later objects of that time elsewhere."""
    moved = 0
    for seed in range(6):
        rng = random.Random(f"spans {seed}")
        objects = [one | {"ts": 7 * (one["ts"] // 15)} for one in sstd_objects(rng, 60, 30)]
        queries = sstd_queries(rng, 40, 12, forever=True)
        own = "bolt.evaluator.keep_ms=0", "bolt.router.learn=false", f"topology.partitioner.kind={KINDS[seed % 3]}"
        one = run_for_test(
            "conf/sstd.toml",
            settings=[*SMALL, *RESTLESS, *own, "topology.epoch.feedback=1", "topology.max_pending=1",
                      "topology.epoch.objects=1", "bolt.evaluator.parallelism=3"],
            objects=objects,
            queries=queries,
            seed=seed,
        )  # fmt: skip
        one.assert_exact()
        moved += len(one.summary["rebalances"])
    assert moved > 9


@pytest.mark.parametrize("name", ["conf/dynamic-balanced.toml", "conf/skype-balanced.toml"])
def test_lists_wait_for_their_results_as_long_as_time_stands_still(name):
    """Identifiers are known however many epochs later a list is said whose query has ended."""
    window = [WINDOW] if "skype" in name else []
    queries = [{"op": "register", "id": f"q{n}", "ts": 0, "ttl": 2, **BEST} for n in range(9)]
    run_for_test(
        name,
        settings=[*SMALL, *RESTLESS, *window, "topology.epoch.objects=1"],
        objects=objects_at(*[0] * 9, *[1] * 9, *[2] * 90, 3),
        queries=queries,
    ).assert_exact()
