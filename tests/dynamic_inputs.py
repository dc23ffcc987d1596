"""Random objects that move and change, queries for the k best or nearest of them, and topologies over these."""

import random

from range_inputs import write_lines
from topk_inputs import WORDS, restless_topology, topk_queries

from operators.indexes.dynamic.registry import FINDERS, REFILLERS


def dynamic_objects(rng, count, last, names=14):
    """Records of a few objects on a coarse grid: steps and leaps, other words or none, deletions, also of nobody."""
    lines, states = [], {}
    for ts in sorted(rng.randrange(last) for _ in range(count)):
        name = rng.choice([n if n % 2 else f"o{n}" for n in range(names)])
        if rng.random() < 0.15:
            lines.append({"id": name, "ts": ts, "op": "delete"})
            continue
        x, y, words = states.get(name, (rng.randrange(5) / 4, rng.randrange(5) / 4, ["tea"]))
        if rng.random() < 0.6:
            x, y = rng.randrange(5) / 4, rng.randrange(5) / 4
        if rng.random() < 0.5:
            words = rng.sample([*WORDS, "salt"], rng.randrange(4))
        states[name] = x, y, words
        lines.append({"id": name, "ts": ts, "x": x, "y": y, "keywords": words})
    return lines


def dynamic_queries(rng, count, last):
    """Queries for the k best by score, and for the k nearest: of any or all of some words, without some, or of all objects."""
    lines = topk_queries(rng, count, last)
    for line in lines:
        if line["op"] == "register" and rng.random() < 0.4:
            del line["alpha"]
            line |= {
                "type": "knn",
                "match": rng.choice(["any", "all"]),
                "keywords": rng.sample(WORDS, rng.randrange(3)),
            }
            if rng.random() < 0.3:
                line["none"] = rng.sample(["salt", *(word for word in WORDS if word not in line["keywords"])], 1)
    return lines


def write_dynamic_inputs(folder, seed, objects=80, queries=25, last_ts=40):
    rng = random.Random(seed)
    return (
        write_lines(folder / "objects.jsonl", dynamic_objects(rng, objects, last_ts)),
        write_lines(folder / "queries.jsonl", dynamic_queries(rng, queries, last_ts)),
    )


def random_couriers_topology(folder, seed):
    """Draw a restless topology of dynamic objects, with any finder and refiller."""
    rng = random.Random(f"couriers {seed}")
    inputs = write_dynamic_inputs(folder, seed, objects=90, last_ts=rng.choice([20, 60]))
    return restless_topology(
        "dynamic-balanced.toml",
        *inputs,
        f"bolt.evaluator.index={rng.choice(['pyramid', rng.choice(list(FINDERS))])}",
        f"bolt.evaluator.refill={rng.choice(list(REFILLERS))}",
        f"topology.epoch.objects={rng.choice([3, 8])}",
        f"topology.epoch.feedback={rng.choice([1, 2, 3])}",
        f"topology.max_pending={rng.choice([1, 3, 8])}",
        f"bolt.evaluator.parallelism={rng.choice([2, 4])}",
    )
