"""Random continuous terms queries as files, and a topology that answers nothing else."""

import random

from range_inputs import write_lines
from sstd_inputs import sstd_objects, sstd_queries

from topology import TopologyBuilder

#: Plans under which terms can be counted by several evaluators.
COUNTING = ("kd", "uniform", "qt-tree", "text-tree", "kdt-tree", "replicate", "hash")

#: As long as the longest window of `sstd_queries`.
KEEP_MS = 12


def terms_topology(objects, queries, *, partitioner="kd", evaluators=3, routers=2, mergers=1, index="candidates",
                   keep_ms=KEEP_MS, policy="random", balancer=None, piece=3_000, feedback=1, epoch=None,
                   **settings):  # fmt: skip
    """Declare routers that follow a plan, evaluators that count terms, a balancer, mergers."""
    builder = TopologyBuilder(
        "terms", space=[0, 0, 1, 1], epoch={**(epoch or {"objects": 5, "queries": 4}), "feedback": feedback},
        partitioner={"kind": partitioner, "side": 8}, **settings,
    )  # fmt: skip
    builder.spout("objects", "object-file", path=objects)
    builder.spout("queries", "query-file", path=queries)
    router = builder.bolt("router", "plan-router", parallelism=routers).all("balancer", "orders", feedback=True)
    router.shuffle("objects", "objects").shuffle("queries", "queries")
    evaluator = builder.bolt(
        "evaluator", "terms-evaluator", parallelism=evaluators, index=index, keep_ms=keep_ms, tick={"epochs": 1},
        transfer_queries=piece,
    )  # fmt: skip
    evaluator.direct("router", "queries").direct("router", "objects").all("balancer", "orders", feedback=True)
    for stream in ("transfer", "bounds", "adoption"):
        evaluator.direct("evaluator", stream, feedback=True)
    watcher = builder.bolt("balancer", "balancer", policy=policy, settings=balancer or {})
    watcher.global_("evaluator", "statistics").global_("evaluator", "replies")
    merger = builder.bolt("merger", "terms-merger", parallelism=mergers).fields("evaluator", ["number"], "counts")
    merger.all("objects", "words")
    builder.bolt("sink", "collect").global_("merger", "results")
    return builder.build()


def write_terms_inputs(folder, rng, objects=70, queries=40, last=40):
    """Write objects, and those of many questions that are continuous terms queries."""
    lines = [
        q for q in sstd_queries(rng, 6 * queries, last, forever=False) if q.get("slide") or q["op"] == "unregister"
    ]
    asked = {q["id"] for q in lines if q["op"] == "register"}
    return (
        write_lines(folder / "objects.jsonl", sstd_objects(rng, objects, last)),
        write_lines(folder / "queries.jsonl", [q for q in lines if q["id"] in asked]),
    )


def random_terms_topology(folder, seed, **fixed):
    """Draw plan, sizes, lags and input; plans change all the time."""
    rng = random.Random(f"terms {seed}")
    inputs = write_terms_inputs(folder, rng, last=rng.choice([20, 60]))
    drawn = {
        "partitioner": rng.choice(COUNTING),
        "evaluators": rng.randrange(1, 5),
        "routers": rng.randrange(1, 4),
        "mergers": rng.randrange(1, 3),
        "index": rng.choice(["candidates", "candidates", "groups", "brute"]),
        "keep_ms": rng.choice([0, KEEP_MS]),
        "balancer": {"seed": seed % 1000, "units": rng.choice([0.2, 1.0])},
        "piece": rng.choice([1, 4, 3_000]),
        "feedback": rng.randrange(1, 4),
        "epoch": {"objects": rng.choice([3, 8]), "queries": rng.choice([3, 50])},
        "max_pending": rng.choice([1, 3, 8]),
    }
    return terms_topology(*inputs, **{**drawn, **fixed})
