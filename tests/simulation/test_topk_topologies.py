"""Skype and DSkype: whatever finds, keeps, searches and distributes, every line is the oracle's."""

import random
from itertools import product

import pytest
from topk_inputs import MECHANISMS, RESTLESS, SQUARE, topk_objects, topk_queries

from operators.indexes.topk.buffer_rules import BUFFER_RULES
from operators.indexes.topk.disseminations import DISSEMINATIONS
from operators.indexes.topk.message_indexes import MESSAGE_INDEXES
from streams.errors import DeclarationError
from topology.testing import run_for_test


def trial(name, seed, settings):
    """Run a topology over random input of a seed."""
    rng = random.Random(seed)
    last = rng.choice([10, 40, 200])
    window = rng.choice(["objects=1", "objects=3", "objects=12", "objects=500", "ms=1", "ms=4", f"ms={last}"])
    settings = [
        SQUARE,
        f"topology.window.{window}",
        f"topology.epoch.objects={rng.choice([3, 10, 64])}",
        f"bolt.evaluator.parallelism={rng.choice([1, 3])}",
        *settings,
    ]
    return run_for_test(
        name,
        settings=settings,
        objects=topk_objects(rng, 60, last),
        queries=topk_queries(rng, 25, last),
        seed=seed,
        delays=True,
    )


def combinations(*parts):
    """Return the defaults with any one part replaced, and every pair of any two parts in some combination."""
    names = [list(part) for part in parts]
    first = [one[0] for one in names]
    replaced = [(*first[:i], name, *first[i + 1 :]) for i, one in enumerate(names) for name in one]
    crossed = [(a, b, names[2][(i + j) % len(names[2])]) for (i, a), (j, b) in product(*map(enumerate, names[:2]))]
    return list(dict.fromkeys([*replaced, *crossed]))


SKYPE = combinations(DISSEMINATIONS, BUFFER_RULES, MESSAGE_INDEXES)


@pytest.mark.parametrize(("index", "buffers", "messages"), SKYPE, ids=["-".join(names) for names in SKYPE])
def test_skype_is_exact_with_any_parts(index, buffers, messages):
    """Any dissemination with any rule for buffers, any of both with any index of messages."""
    parts = {"index": index, "buffers": buffers, "messages": messages}
    settings = [f"bolt.evaluator.{key}={value}" for key, value in parts.items()]
    for seed in range(2):
        trial("conf/skype.toml", f"{parts} {seed}", settings).assert_exact()


@pytest.mark.parametrize("kind", MECHANISMS)
def test_dskype_is_exact_with_any_distribution(kind):
    """Any mechanism, while plans change all the time."""
    settings = [f"topology.partitioner.kind={kind}", "bolt.evaluator.parallelism=4", *RESTLESS]
    for seed in range(4):
        lag = f"topology.epoch.feedback={1 + seed % 3}"
        index = f"bolt.messages.index={'ir-tree' if seed > 1 else 'keyword-grids'}"
        trial("conf/dskype.toml", f"{kind} {seed}", [*settings, lag, index]).assert_exact()


def test_skype_is_exact_while_subscriptions_move():
    """Whoever takes a subscription has the window, and searches it anew; no list is lost or said twice."""
    moved = 0
    for seed in range(6):
        lag = f"topology.epoch.feedback={1 + seed % 3}"
        one = trial("conf/skype-balanced.toml", f"moving {seed}", [*RESTLESS, lag, "bolt.evaluator.parallelism=4"])
        one.assert_exact()
        moved += sum(task.get("queries_taken", 0) for task in one.summary["tasks"])
    assert moved > 9


def hand_made(name, objects, queries, *settings):
    """Run a topology over a few records, with an epoch for each message and a window of 10 ms."""
    settings = [SQUARE, "topology.window.ms=10", "topology.epoch.objects=1", *settings]
    one = run_for_test(name, settings=settings, objects=objects, queries=queries)
    one.assert_exact()
    return [(line["query"], line["ts"], [name for name, _ in line["objects"]]) for line in one.lines()]


def message(name, ts, place=0.5):
    return {"id": name, "ts": ts, "x": place, "y": 0.5, "keywords": ["tea"]}


def feed(name, ts, **more):
    return {"op": "register", "id": name, "ts": ts, "type": "topk", "at": [0.5, 0.5], "k": 1, "alpha": 0.5,
            "keywords": ["tea"], **more}  # fmt: skip


def test_last_list_is_that_of_the_last_moment_between_records():
    """The only message leaves the window between two records, and the subscription ends before the second."""
    messages = [message("a", 0), message("without", 5) | {"keywords": []}, message("b", 100)]
    lines = hand_made("conf/skype.toml", messages, [feed("short", 0, ttl=50)])
    assert lines == [("short", 4, ["a"]), ("short", 49, [])]


def test_message_stores_know_from_queries_too_which_time_is_complete():
    """A search is answered when the next record is a query operation, long before the next message."""
    others = [message(f"without {ts}", ts) | {"keywords": []} for ts in (5, 6, 30)]
    come = [feed("first", 5), feed("second", 9)]
    lines = hand_made("conf/dskype.toml", [message("a", 0), *others], come, "topology.epoch.feedback=1")
    assert ("first", 8, ["a"]) in lines, lines


def test_messages_of_a_time_that_spans_epochs_are_not_lost_while_the_window_is_searched():
    """One that comes when the old threshold is in force still, and is of no complete time yet when the search is answered."""
    known = [message("a", 0), message("b", 0, place=1.0)]
    times = [1, 2, 3, *[20] * 6, 21, 22]  # all that is known leaves the window before 20
    others = [message(f"without {n}", ts) | {"keywords": []} for n, ts in enumerate(times)]
    for place in range(len(others)):
        far = message("far", times[place], place=0.8)
        come = [*known, *others[:place], far, *others[place:]]
        settings = "bolt.aggregator.buffers=skyband", "bolt.messages.parallelism=1"
        lines = hand_made("conf/dskype.toml", come, [feed("first", 0)], *settings)
        assert any(listed == ["far"] for *_, listed in lines) == (times[place] > 10), (place, lines)


def test_skype_does_not_move_where_a_task_may_see_no_objects():
    """A task whose places have all moved away would have no window; it is refused before anything starts."""
    with pytest.raises(DeclarationError, match="a task whose places have all moved away is sent no objects"):
        trial("conf/skype-balanced.toml", "refused", ["topology.partitioner.kind=location"])


def test_dskype_asks_for_thresholds_after_a_move():
    """Evaluators that get a subscription from another do not start with nothing, and do not pass everything for ever."""
    one = trial("conf/dskype.toml", "asked", ["bolt.evaluator.parallelism=4", *RESTLESS])
    one.assert_exact()
    one.assert_rebalanced()
