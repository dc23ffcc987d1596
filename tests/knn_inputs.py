"""Random objects and subscriptions to the k nearest as files, and DkM-SKS over them."""

import random

from range_inputs import CONF, random_objects, random_queries, write_lines

from topology import extended_topology


def knn_queries(rng, count, last_ts):
    """Registrations, unregistrations and ids used again, for places on and between those of objects."""
    lines = random_queries(rng, count, last_ts)
    for line in lines:
        if line["op"] == "register":
            del line["region"]
            place = [rng.randrange(0, 17) / 16 for _ in range(2)]
            line |= {"type": "knn", "at": place, "k": rng.choice([1, 2, 5, 40])}
    return lines


def write_knn_inputs(folder, seed, objects=60, queries=40, last_ts=25):
    rng = random.Random(seed)
    return (
        write_lines(folder / "objects.jsonl", random_objects(rng, objects, last_ts)),
        write_lines(folder / "queries.jsonl", knn_queries(rng, queries, last_ts)),
    )


def dkm_topology(
    objects, queries, *, evaluators=3, mergers=2, tick=2, piece=5, seed=3, epoch=None, conf="dkm.toml", sink="collect",
    **settings,
):  # fmt: skip
    """Vary a shipped DkM-SKS: subscriptions move all the time, with their lists."""
    tables = {
        "topology": {
            "epoch": epoch or {"objects": 10, "queries": 100},
            "space": [0.0, 0.0, 1.0, 1.0],
            "metric": "euclidean",
            **settings,
        },
        "spout": {"objects": {"path": objects}, "queries": {"path": queries}},
        "bolt": {
            "evaluator": {"parallelism": evaluators, "tick": {"epochs": tick}, "transfer_queries": piece},
            "balancer": {"policy": "random", "settings": {"seed": seed}},
            "merger": {"parallelism": mergers},
            "sink": {"operator": sink},
        },
    }
    return extended_topology(CONF / conf, tables, without=["topology.epoch"])
