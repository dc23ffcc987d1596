"""Tornado's topologies over streams from memory, wired as the files under conf/ wire them over files."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from operators import Spout
from partitioners.builders.registry import build_plan
from partitioners.costs.statistics import Statistics
from partitioners.plans.plan import Plan, save
from streams.batches import ObjectBatch, QueryBatch
from streams.geometry import Rect
from topology import Topology, TopologyBuilder

__all__ = ["SPACE", "Setup", "plan_from_start", "tornado_topology"]

SPACE = Rect(0.0, 0.0, 1.0, 1.0)
#: Objects and queries that a plan is made from, as where a topology makes its own from the start of its input.
SAMPLE = 50_000


@dataclass(frozen=True, slots=True)
class Setup:
    """One alternative of the paper.

    Attributes:
        routing: the partitioner: ``kd`` is Tornado's, ``uniform``, ``text`` and ``replicate`` are its baselines.
        index: of the evaluators.
        summaries: routers hold objects against the keywords of the queries (section 3.1).
        policy: how load is balanced while it flows; None: not at all.
        statistics: what evaluators tell the balancer: ``summaries`` or ``cells``.
    """

    routing: str = "kd"
    index: str = "kag"
    routers: int = 2
    evaluators: int = 4
    summaries: bool = False
    policy: str | None = None


def plan_from_start(setup: Setup, objects: ObjectBatch, queries: QueryBatch) -> Plan:
    """Return the plan of a setup, made from a sample at the start of the input."""
    statistics = Statistics.of_batches(objects.slice(0, SAMPLE), queries.slice(0, SAMPLE), SPACE)
    return build_plan(setup.routing, statistics, setup.evaluators)


def tornado_topology(
    setup: Setup, source: type[Spout], options: Mapping[str, Any], plan: Plan, folder: Path
) -> Topology:
    """Declare a setup over a spout of objects and queries; the plan travels as a file in a folder."""
    path = folder / "plan"
    save(plan, path)
    builder = TopologyBuilder("tornado", plan=str(path), max_pending=8, epoch={"feedback": 2})
    builder.spout("source", source, **options)
    balanced, apart = setup.policy is not None, setup.summaries or setup.policy is not None
    router = builder.bolt("router", "plan-router", parallelism=setup.routers, textual_summary=setup.summaries)
    router.shuffle("source", "objects")
    queries = "query-router" if apart else "router"
    asked = builder.bolt("query-router", "plan-router") if apart else router
    asked.shuffle("source", "queries")
    ticks = {"epochs": 2} if balanced else None
    evaluator = builder.bolt(
        "evaluator", "range-evaluator", parallelism=setup.evaluators, index=setup.index, tick=ticks,
    )  # fmt: skip
    evaluator.direct(queries, "queries").direct("router", "objects")
    if setup.summaries:
        router.all("query-router", "summary").all("evaluator", "summary", feedback=True)
    if setup.policy is not None:
        evaluator.direct("evaluator", "transfer", feedback=True)
        for bolt in (router, asked, evaluator):
            bolt.all("balancer", "orders", feedback=True)
        balancer = builder.bolt("balancer", "balancer", policy=setup.policy)
        balancer.global_("evaluator", "statistics").global_("evaluator", "replies")
    builder.bolt("sink", "count").global_("evaluator", "results")
    return builder.build()
