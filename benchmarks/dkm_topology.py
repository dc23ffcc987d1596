"""The topologies of DkM-SKS over a stream from memory: those of the files under conf/, with another spout and a plan."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.dkm_stream import SPACE, DkmSpout, DkmStream, initial_objects, subscriptions
from benchmarks.tornado_topology import CONF, over_spout
from partitioners.builders.registry import build_plan
from partitioners.costs.statistics import Statistics
from partitioners.plans.plan import Plan, save
from topology import Topology, extended_topology
from topology.amendments import without_streams

__all__ = ["ALGORITHMS", "Algorithm", "dkm_topology", "plan_of_start"]

#: Objects and subscriptions that a plan is made from.
SAMPLE = 1_000_000
#: Subscriptions of a subset of DkM-SKS, on average.
A_SUBSET = 5


@dataclass(frozen=True, slots=True)
class Algorithm:
    """One of the paper's: a partitioner, the index that its workers use, and whether load moves while it flows."""

    partitioner: str
    index: str
    balanced: bool = False
    conf: str = "dkm.toml"


#: Name -> what it is. "dkm-sks" is the paper's with its own index, "waterspout" the same assignment with our index and policy.
ALGORITHMS: Mapping[str, Algorithm] = {
    "ps2stream": Algorithm("ps2stream", "grid-inverted"),
    "kop": Algorithm("kop", "inverted"),
    "sop": Algorithm("sop", "subsets"),
    "dkm-sks": Algorithm("dkm-sks", "grid-inverted"),
    "waterspout": Algorithm("dkm-sks", "pyramid", balanced=True),
}


def plan_of_start(partitioner: str, stream: DkmStream, workers: int) -> Plan:
    """Return the plan that a partitioner makes of O_init and the subscriptions that are there from the beginning.

    DkM-SKS cuts subscriptions into as many subsets as in the paper, where gamma_1 makes one for five of them.
    """
    options: dict[str, Any] = {}
    if partitioner == "dkm-sks":
        options["subsets_a_worker"] = max(min(stream.subscriptions, SAMPLE) // (A_SUBSET * workers), 1)
    statistics = Statistics.of_batches(
        initial_objects(stream).slice(0, SAMPLE), subscriptions(stream).slice(0, SAMPLE), SPACE
    )
    return build_plan(partitioner, statistics, workers, **options)


def dkm_topology(
    algorithm: Algorithm, stream: DkmStream, plan: Plan, folder: Path, *, runtime: str = "local"
) -> Topology:
    """Declare an algorithm over a stream; the plan travels as a file in a folder."""
    path = folder / "plan"
    save(plan, path)
    tables = {
        "topology": {"name": "dkm", "plan": path, "runtime": runtime, "space": list(SPACE.as_tuple()),
                     "epoch": {"feedback": 2}},
        "bolt": {"evaluator": {"parallelism": plan.workers, "index": algorithm.index}},
    }  # fmt: skip
    without = ["topology.space", "topology.epoch", "topology.partitioner"]
    found = extended_topology(CONF / algorithm.conf, tables, without=without, check=False)
    if not algorithm.balanced:
        found = without_streams(found, ["statistics", "replies", "orders", "transfer", "bounds", "adoption"])
    return over_spout(found, DkmSpout, {"stream": asdict(stream)})
