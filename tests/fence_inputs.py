"""Random fences over objects that move and change, and topologies over these."""

import random

from dynamic_inputs import dynamic_objects
from range_inputs import random_queries, write_lines
from topk_inputs import WORDS, restless_topology

from operators.indexes import INDEXES
from streams.batches import DETECTS


def fence_queries(rng, count, last):
    """Fences that come, end by themselves, are unregistered and replaced, at any time; some take the default of `detect`."""
    lines = random_queries(rng, count, last)
    for line in lines:
        if line["op"] == "register":
            line["keywords"] = rng.sample([*WORDS, "salt"], rng.choice([0, 0, 1, 2]))
            if rng.random() < 0.8:
                line["detect"] = rng.sample(DETECTS, rng.randrange(1, 4))
    return lines


def write_fence_inputs(folder, seed, objects=80, queries=30, last_ts=40):
    rng = random.Random(seed)
    return (
        write_lines(folder / "objects.jsonl", dynamic_objects(rng, objects, last_ts)),
        write_lines(folder / "queries.jsonl", fence_queries(rng, queries, last_ts)),
    )


def random_zones_topology(folder, seed):
    """Draw a restless topology of fences, with any index."""
    rng = random.Random(f"zones {seed}")
    return restless_topology(
        "fences-balanced.toml",
        *write_fence_inputs(folder, seed, objects=90, queries=40, last_ts=rng.choice([20, 60])),
        f"bolt.evaluator.index={rng.choice(list(INDEXES))}",
        f"topology.epoch.objects={rng.choice([3, 8])}",
        f"topology.epoch.feedback={rng.choice([1, 2, 3])}",
        f"topology.max_pending={rng.choice([1, 3, 8])}",
        f"bolt.evaluator.parallelism={rng.choice([2, 4])}",
    )
