"""The topologies of DkM-SKS over a stream from memory: those of the files under conf/, with another spout and a plan."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.dkm_stream import FEEDBACK, SPACE, DkmSpout, DkmStream, initial_objects, subscriptions
from benchmarks.tornado_topology import CONF, PLANE, over_spout
from partitioners.builders.registry import build_plan
from partitioners.costs.statistics import Statistics
from partitioners.plans.plan import Plan, save
from topology import Topology, extended_topology
from topology.amendments import without_streams
from topology.declaration import Input
from topology.summary import EVALUATOR

__all__ = ["ALGORITHMS", "SAMPLE", "Algorithm", "dkm_topology", "plan_of_start", "planned_topology"]

#: Objects and subscriptions that a plan is made from.
SAMPLE = 1_000_000


@dataclass(frozen=True, slots=True)
class Algorithm:
    """One of the paper's: a partitioner, the index that its workers use, and whether load moves while it flows.

    `a_subset` are the subscriptions of a subset of DkM-SKS, on average; gamma_1 of the paper makes it five.
    """

    partitioner: str
    index: str
    balanced: bool = False
    a_subset: int = 5
    conf: str = "dkm.toml"


#: A sink counts what one merger passes on.
_OWN_RESULTS = {"component": "merger", "stream": "results", "grouping": "fields", "fields": ["number"]}

#: Name -> what it is. "dkm-sks" is the paper's with its own index, "waterspout" the same algorithms with our index and policy,
#: and with subsets of one: then R is the box of a subscription's own ball, and costs are twice as near to the truth.
ALGORITHMS: Mapping[str, Algorithm] = {
    "ps2stream": Algorithm("ps2stream", "grid-inverted"),
    "kop": Algorithm("kop", "inverted"),
    "sop": Algorithm("sop", "subsets"),
    "dkm-sks": Algorithm("dkm-sks", "grid-inverted"),
    "waterspout": Algorithm("dkm-sks", "pyramid", balanced=True, a_subset=1),
}


def plan_of_start(algorithm: Algorithm, stream: DkmStream, workers: int) -> Plan:
    """Return the plan that an algorithm makes of O_init and the subscriptions that are there from the beginning."""
    options: dict[str, Any] = {}
    if algorithm.partitioner == "dkm-sks":
        options["subsets_a_worker"] = max(-(-min(stream.subscriptions, SAMPLE) // (algorithm.a_subset * workers)), 1)
    objects = initial_objects(stream.initial, stream.seed).slice(0, SAMPLE)
    statistics = Statistics.of_batches(objects, subscriptions(stream, 0, SAMPLE), SPACE)
    return build_plan(algorithm.partitioner, statistics, workers, **options)


def dkm_topology(algorithm: Algorithm, stream: DkmStream, plan: Plan, folder: Path) -> Topology:
    """Declare an algorithm over a stream; the plan travels as a file in a folder."""
    path = folder / "plan"
    save(plan, path)
    return planned_topology(algorithm, stream, path, plan.workers)


def planned_topology(
    algorithm: Algorithm, stream: DkmStream, plan: Path, workers: int, mergers: int = 1, **settings: Any
) -> Topology:
    """Declare an algorithm over a stream, with a plan that was saved; `settings` are of the topology."""
    tables = {
        "topology": {
            "name": "dkm",
            "plan": plan,
            "space": list(SPACE.as_tuple()),
            "metric": PLANE,
            "epoch": {"feedback": FEEDBACK},
            **settings,
        },
        "bolt": {
            "evaluator": {"parallelism": workers, "index": algorithm.index},
            "merger": {"parallelism": mergers},
            "sink": {"parallelism": mergers, "inputs": [_OWN_RESULTS]},
        },
    }
    without = ["topology.space", "topology.epoch", "topology.partitioner"]
    found = extended_topology(CONF / algorithm.conf, tables, without=without, check=False)
    if not algorithm.balanced:
        found = without_streams(found, ["statistics", "replies", "orders", "transfer", "bounds", "adoption"])
    if stream.bound:
        found = _with_bounds(found)
    return over_spout(found, DkmSpout, {"stream": asdict(stream)})


def _with_bounds(topology: Topology) -> Topology:
    """Let evaluators take bounds from the source too, which stands for the spout of queries."""
    bounds = Input("queries", "bounds", "direct", feedback=True)
    return replace(
        topology,
        components=tuple(
            replace(c, inputs=(*c.inputs, bounds)) if c.name == EVALUATOR else c for c in topology.components
        ),
    )
