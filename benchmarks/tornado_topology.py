"""Tornado's topologies over streams from memory: those of the files under conf/, with other spouts."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from operators import Spout
from partitioners.builders.registry import build_plan
from partitioners.costs.statistics import Statistics
from partitioners.plans.plan import Plan, save
from streams.batches import ObjectBatch, QueryBatch
from streams.geometry import Rect
from topology import Component, Topology, extended_topology, validate
from topology.amendments import without_streams
from topology.conversion import to_plain
from topology.references import reference_of

__all__ = ["CONF", "PLANE", "SPACE", "Setup", "over_spout", "plan_from_start", "tornado_topology"]

CONF = Path(__file__).parents[1] / "conf"
SPACE = Rect(0.0, 0.0, 1.0, 1.0)
#: The papers measure in a plane, and so do their benchmarks, also over files with longitudes and latitudes.
PLANE = "euclidean"
#: Objects and queries that a plan is made from, as where a topology makes its own from the start of its input.
SAMPLE = 50_000


@dataclass(frozen=True, slots=True)
class Setup:
    """One alternative of the paper.

    Attributes:
        routing: the partitioner: ``kd`` is Tornado's, ``uniform``, ``text`` and ``replicate`` are its baselines.
        index: of the evaluators.
        textual_summary: routers hold objects against the keywords of the queries (section 3.1).
        policy: how load is balanced while it flows; None: not at all.
    """

    routing: str = "kd"
    index: str = "kag"
    routers: int = 2
    evaluators: int = 4
    textual_summary: bool = False
    policy: str | None = None


def plan_from_start(setup: Setup, objects: ObjectBatch, queries: QueryBatch) -> Plan:
    """Return the plan of a setup, made from a sample at the start of the input."""
    statistics = Statistics.of_batches(objects.slice(0, SAMPLE), queries.slice(0, SAMPLE), SPACE)
    return build_plan(setup.routing, statistics, setup.evaluators)


def tornado_topology(
    setup: Setup, source: type[Spout], options: Mapping[str, Any], plan: Plan, folder: Path, space: Rect = SPACE
) -> Topology:
    """Declare a setup over a spout of objects and queries in a space; the plan travels as a file in a folder."""
    path = folder / "plan"
    save(plan, path)
    balanced = setup.policy is not None
    bolts: dict[str, dict[str, Any]] = {
        "router": {"parallelism": setup.routers},
        "evaluator": {"parallelism": setup.evaluators, "index": setup.index},
    }
    if setup.textual_summary or balanced:
        bolts["router"]["textual_summary"] = setup.textual_summary
    if balanced:
        bolts["balancer"] = {"policy": setup.policy}
    shipped = CONF / ("tornado.toml" if setup.textual_summary or balanced else "tornado-static.toml")
    declared = {"name": "tornado", "plan": path, "space": list(space.as_tuple()), "epoch": {"feedback": 2}}
    tables = {"topology": {**declared, "metric": PLANE}, "bolt": bolts}
    without = ["topology.epoch", "topology.partitioner"]
    unread = [
        *([] if setup.textual_summary else ["keywords"]),
        *([] if balanced else ["statistics", "replies", "transfer"]),
    ]
    found = extended_topology(shipped, tables, without=without, check=False)
    return over_spout(without_streams(found, unread), source, options)


def over_spout(topology: Topology, source: type[Spout], options: Mapping[str, Any]) -> Topology:
    """Return a topology that reads one spout instead of its files."""
    read = {c.name for c in topology.components if c.kind == "spout"}
    reference = reference_of(source)
    spout = Component("source", "spout", reference, options=to_plain(options), classes={reference: source})
    bolts = [
        replace(c, inputs=tuple(replace(i, component="source") if i.component in read else i for i in c.inputs))
        for c in topology.components
        if c.kind == "bolt"
    ]
    found = replace(topology, components=(spout, *bolts))
    validate(found)
    return found
