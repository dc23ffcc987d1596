"""The plan of a topology: loaded from a file, or built in this process from a sample at the start of the input."""

from collections.abc import Iterator
from typing import Any

from partitioners.plans.plan import Plan
from streams.batches import ObjectBatch, QueryBatch
from streams.errors import DeclarationError
from topology.declaration import Topology
from topology.input_files import read_input, vocabulary_of
from topology.metric import with_metric
from topology.plan_request import EVALUATOR, is_automatic, needs_plan, plan_path

__all__ = ["plan_of"]


def plan_of(topology: Topology) -> Plan | None:
    """Return the plan that the routers follow, or None where no operator needs one."""
    if not needs_plan(topology):
        return None
    topology = with_metric(topology)
    import partitioners.builders.registry  # noqa: F401  # makes all classes of plans known; with their kernels, so not earlier
    from partitioners.plans.plan import load

    settings = topology.settings
    workers = topology.component(EVALUATOR).parallelism
    plan = _built(topology, workers) if is_automatic(topology) else load(plan_path(topology))
    if plan.workers != workers:
        raise DeclarationError(
            f"the plan is for {plan.workers} workers, but the topology has {workers} evaluators; build the plan again "
            f"with 'waterspout build', or set bolt.{EVALUATOR}.parallelism = {plan.workers}",
            ("topology", "plan"),
        )
    if not plan.space.covers(settings.space):
        raise DeclarationError(
            f"the plan is for the space {list(plan.space.as_tuple())}, which does not cover the topology's "
            f"{list(settings.space.as_tuple())}; build the plan again with 'waterspout build', which takes the topology's "
            "space, or set topology.space to one within the plan's",
            ("topology", "plan"),
        )
    return plan


def _built(topology: Topology, workers: int) -> Plan:
    from partitioners.builders.registry import build_plan
    from partitioners.costs.statistics import Statistics

    asked = topology.settings.partitioner
    assert asked is not None
    objects, queries = read_input(topology)
    statistics = Statistics.of_batches(
        ObjectBatch.concat([ObjectBatch.empty(), *_first(objects, asked.sample)]),
        QueryBatch.concat([QueryBatch.empty(), *_first(queries, asked.sample)]),
        topology.settings.space,
        metric=topology.settings.measure,
        side=asked.side,
        vocabulary=vocabulary_of(topology),
    )
    return build_plan(asked.kind, statistics, workers, **asked.options)


def _first(chunks: Iterator[Any], rows: int) -> list[Any]:
    """Return the first rows of a reader."""
    found, left = [], rows
    for chunk in chunks:
        found.append(chunk.batch.slice(0, left))
        left -= len(found[-1])
        if left <= 0:
            break
    return found
