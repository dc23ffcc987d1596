"""Random messages and subscriptions to the k best as files, and Skype and DSkype over them."""

import random

from range_inputs import CONF, write_lines

from topology import load_topology
from topology.amendments import with_source

WORDS = ["tea", "rice", "soup", "cake", "wine"]
SQUARE = "topology.space=[0.0, 0.0, 1.0, 1.0]"
#: All mechanisms of DSkype.
MECHANISMS = ("hash", "location", "keyword", "prefix", "spatial-first", "keyword-first")


def topk_objects(rng, count, last):
    """Messages on a coarse grid, several of a time, some without a word that anybody wants."""
    return [
        {"id": f"o{n}", "ts": ts, "x": rng.randrange(5) / 4, "y": rng.randrange(5) / 4,
         "keywords": rng.sample([*WORDS, "salt"], rng.randrange(4))}
        for n, ts in enumerate(sorted(rng.randrange(last) for _ in range(count)))
    ]  # fmt: skip


def topk_queries(rng, count, last):
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


def write_topk_inputs(folder, seed, objects=60, queries=25, last_ts=40):
    rng = random.Random(seed)
    return (
        write_lines(folder / "objects.jsonl", topk_objects(rng, objects, last_ts)),
        write_lines(folder / "queries.jsonl", topk_queries(rng, queries, last_ts)),
    )


#: Subscriptions move all the time, a few in an epoch.
RESTLESS = (
    "bolt.balancer.policy=random",
    "bolt.balancer.settings.seed=3",
    "bolt.evaluator.tick.epochs=1",
    "bolt.evaluator.transfer_queries=4",
)


def restless_topology(name, objects, queries, *settings):
    """Vary a shipped topology of topk queries: its subscriptions move all the time."""
    topology = load_topology(CONF / name, [SQUARE, *RESTLESS, *settings], check=False)
    return with_source(with_source(topology, "leads", objects), "follows", queries)


def random_feeds_topology(folder, seed):
    """Draw a restless Skype or DSkype with a short window: buffers run dry all the time."""
    rng = random.Random(f"feeds {seed}")
    inputs = write_topk_inputs(folder, seed, objects=70, queries=25, last_ts=rng.choice([20, 60]))
    whole = rng.random() < 0.25  # of the window, in every task
    buffers = f"buffers={rng.choice(['rank', 'kmax', 'cskyband', 'skyband'])}"
    own = [f"bolt.evaluator.{buffers}"] if whole else [
        f"bolt.messages.parallelism={rng.choice([1, 3])}",
        f"bolt.aggregator.parallelism={rng.choice([1, 3])}",
        f"bolt.aggregator.{buffers}",
    ]  # fmt: skip
    return restless_topology(
        "skype-balanced.toml" if whole else "dskype.toml",
        *inputs,
        f"topology.window.{rng.choice(['objects=3', 'objects=8', 'objects=20', 'ms=2', 'ms=10'])}",
        f"topology.partitioner.kind={'hash' if whole else rng.choice(MECHANISMS)}",
        f"topology.epoch.objects={rng.choice([3, 8])}",
        f"topology.epoch.feedback={rng.choice([1, 2, 3])}",
        f"topology.max_pending={rng.choice([1, 3, 8])}",
        f"bolt.evaluator.parallelism={rng.choice([2, 4])}",
        *own,
    )
