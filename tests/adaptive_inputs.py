"""Topologies whose load moves between evaluators, drawn from a seed."""

import random

from range_inputs import CONF, write_inputs

from topology import extended_topology, validate
from topology.amendments import without_streams

INDEXES = ("kag", "fast", "gi2", "brute")

#: The partitioners of all kinds of plan.
PARTITIONERS = (
    "kd", "uniform", "text", "replicate", "hash", "location", "keyword", "prefix", "spatial-first", "keyword-first",
    "qt-tree", "quadtree", "text-tree", "kdt-tree", "ps2stream", "kop",
    "sop", "dkm-sks",
)  # fmt: skip


def adaptive_topology(objects, queries, *, evaluators=4, routers=2, query_routers=1, summary=True, index="kag",
                      policy="random", feedback=1, tick=1, chunk=5_000, partitioner=None, balancer=None,
                      epoch=None, inject=(), router=None, **settings):  # fmt: skip
    """Vary the shipped Tornado: routers of queries and of objects, evaluators, a balancer."""
    tables = {
        "topology": {
            "name": "adaptive", "metric": "euclidean",
            "epoch": {**(epoch or {"objects": 7, "queries": 6}), "feedback": feedback},
            "partitioner": {"side": 16, **(partitioner or {})}, **settings,
        },
        "spout": {"objects": {"path": objects}, "queries": {"path": queries}},
        "bolt": {
            "query-router": {"parallelism": query_routers},
            "router": {"parallelism": routers, "textual_summary": summary, **(router or {})},
            "evaluator": {
                "parallelism": evaluators, "index": index, "tick": {"epochs": tick},
                "transfer_queries": chunk,
            },
            "balancer": {"policy": policy, "settings": balancer or {}},
            "sink": {"operator": "collect"},
        },
        "inject": list(inject),
    }  # fmt: skip
    topology = extended_topology(CONF / "tornado.toml", tables, without=["topology.space"], check=False)
    topology = topology if summary else without_streams(topology, ["keywords"])
    validate(topology)
    return topology


def restless(policy, seed, *, beta=0.0, units=0.2):
    """Return settings with which a policy changes the plan as often as it can."""
    return {"seed": seed, "units": units} if policy == "random" else {"threshold": 1.0, "beta": beta}


def random_injections(rng):
    """Draw none to two hotspots."""
    at = [rng.randrange(9) / 8, rng.randrange(9) / 8]
    region = [0.25, 0.25, 0.75, 0.5]
    kinds = [
        {"kind": "condense", "at": at, "strength": rng.choice([0.1, 0.4, 0.7])},
        {"kind": "objects", "region": region, "strength": 1.0},
        {"kind": "keyword", "keyword": "cat", "strength": 0.5},
    ]
    start = rng.randrange(20)
    return [{**one, "start": start, "duration": rng.choice([4, 12])} for one in rng.sample(kinds, rng.randrange(3))]


def random_adaptive_topology(folder, seed, **fixed):
    """Draw a whole topology: sizes, plan, policy, lags, hotspots, input."""
    rng = random.Random(seed)
    sizes = {"objects": rng.randrange(20, 90), "queries": rng.randrange(10, 70), "last_ts": rng.choice([12, 40])}
    inputs = write_inputs(folder, seed, **sizes)
    policy = fixed.get("policy", rng.choice(["random", "random", "random", "tornado", "tornado-paper"]))
    kinds = PARTITIONERS if policy == "random" and rng.random() < 0.6 else ("kd", "uniform")
    kind = rng.choice(kinds)
    drawn = {
        "evaluators": rng.randrange(2, 7),
        "routers": rng.randrange(1, 5),
        "query_routers": rng.randrange(1, 4),
        "summary": rng.random() < 0.7,
        "index": rng.choice(INDEXES),
        "policy": policy,
        "feedback": rng.randrange(1, 4),
        "tick": rng.randrange(1, 4),
        "chunk": rng.choice([1, 2, 5, 5_000]),
        "partitioner": {
            "kind": kind,
            "side": rng.choice([2, 4, 16]),
            "options": {"spare": rng.randrange(2)} if kind in ("kd", "uniform") else {},
        },
        "balancer": restless(policy, seed, beta=rng.choice([0.0, 0.1]), units=rng.choice([0.0, 0.2, 1.0])),
        "epoch": {"objects": rng.choice([2, 4, 10]), "queries": rng.choice([2, 5, 100])},
        "max_pending": rng.choice([1, 3, 8]),
        "inject": random_injections(rng),
    }
    return adaptive_topology(*inputs, **{**drawn, **fixed})
