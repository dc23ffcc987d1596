"""Skype and DSkype: whatever finds, keeps, searches and distributes, every line is the oracle's."""

import random
from itertools import product

import pytest

from operators.indexes.topk.buffer_rules import BUFFER_RULES
from operators.indexes.topk.disseminations import DISSEMINATIONS
from operators.indexes.topk.message_indexes import MESSAGE_INDEXES
from topology.testing import run_for_test

WORDS = ["tea", "rice", "soup", "cake", "wine"]
SQUARE = "topology.space=[0.0, 0.0, 1.0, 1.0]"


def objects(rng, count, last):
    """Messages on a coarse grid, several of a time, some without a word that anybody wants."""
    return [
        {"id": f"o{n}", "ts": ts, "x": rng.randrange(5) / 4, "y": rng.randrange(5) / 4,
         "keywords": rng.sample([*WORDS, "salt"], rng.randrange(4))}
        for n, ts in enumerate(sorted(rng.randrange(last) for _ in range(count)))
    ]  # fmt: skip


def queries(rng, count, last):
    """Subscriptions that come, end by themselves and are unregistered, at any time."""
    lines = []
    for n in range(count):
        ts = rng.choice([0, rng.randrange(last)])
        line = {"op": "register", "id": f"q{n}", "ts": ts, "type": "topk", "at": [rng.random(), rng.randrange(5) / 4],
                "k": rng.choice([1, 2, 3, 7]), "alpha": rng.choice([0.0, 1e-9, 0.3, 0.5, 1.0]),
                "keywords": rng.sample(WORDS, rng.randrange(1, 4))}  # fmt: skip
        if rng.random() < 0.3:
            line["ttl"] = rng.randrange(1, last)
        elif rng.random() < 0.3:
            lines.append({"op": "unregister", "id": f"q{n}", "ts": rng.randrange(ts + 1, last + 2)})
        lines.append(line)
    return sorted(lines, key=lambda line: (line["ts"], line["op"]))


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
        name, settings=settings, objects=objects(rng, 60, last), queries=queries(rng, 25, last), seed=seed, delays=True
    )


SKYPE = list(product(DISSEMINATIONS, BUFFER_RULES, MESSAGE_INDEXES))


@pytest.mark.parametrize(("index", "buffers", "messages"), SKYPE, ids=["-".join(names) for names in SKYPE])
def test_skype_is_exact_with_any_parts(index, buffers, messages):
    """Any dissemination, with any rule for buffers and any index of messages."""
    parts = {"index": index, "buffers": buffers, "messages": messages}
    settings = [f"bolt.evaluator.{key}={value}" for key, value in parts.items()]
    for seed in range(2):
        trial("conf/skype.toml", f"{parts} {seed}", settings).assert_exact()


@pytest.mark.parametrize("kind", ["hash", "location", "keyword", "prefix", "spatial-first", "keyword-first"])
def test_dskype_is_exact_with_any_distribution(kind):
    """Any mechanism, while plans change all the time."""
    settings = [
        f"topology.partitioner.kind={kind}",
        "bolt.evaluator.tick.epochs=1",
        "bolt.evaluator.transfer_queries=4",
        "bolt.evaluator.parallelism=4",
        "bolt.balancer.policy=random",
    ]
    for seed in range(4):
        lag = f"topology.epoch.feedback={1 + seed % 3}"
        trial("conf/dskype.toml", f"{kind} {seed}", [*settings, lag]).assert_exact()


def test_dskype_asks_for_thresholds_after_a_move():
    """Evaluators that get a subscription from another do not start with nothing, and do not pass everything for ever."""
    one = trial(
        "conf/dskype.toml",
        "asked",
        ["bolt.balancer.policy=random", "bolt.evaluator.tick.epochs=1", "bolt.evaluator.parallelism=4"],
    )
    one.assert_exact()
    one.assert_rebalanced()
