"""SSTD's topologies over a stream from memory (those of conf/, with another spout and a plan), and what a run of them takes."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.observed import Observed, observed
from benchmarks.sstd_stream import (
    TICK,
    WINDOW,
    SstdSpout,
    SstdStream,
    asked_questions,
    sstd_objects,
    standing_questions,
)
from benchmarks.tornado_topology import CONF, PLANE, SPACE, over_spout
from partitioners.builders.registry import build_plan
from partitioners.costs.statistics import Statistics
from partitioners.plans.plan import Plan, save
from streams.batches import QueryBatch
from topology import Topology, extended_topology
from topology.amendments import without_streams

__all__ = ["INDEXES", "GlobalIndex", "latency_ms", "observe", "plan_of_start", "sstd_topology", "two_cores_ms"]

Floats = NDArray[np.float64]

#: Objects and questions that a plan is made from.
SAMPLE = 20_000


@dataclass(frozen=True, slots=True)
class GlobalIndex:
    """One of the paper's: the partitioner that makes it, the file under conf/ that declares it, and how many leaves it has."""

    partitioner: str
    conf: str
    leaves: int | None = None


#: Name -> what it is (Section 7.1).
INDEXES: Mapping[str, GlobalIndex] = {
    "qt-tree": GlobalIndex("qt-tree", "sstd.toml"),
    "quadtree": GlobalIndex("quadtree", "sstd-quadtree.toml"),
    "ps2stream": GlobalIndex("kdt-tree", "sstd-ps2stream.toml"),
    "a-grid": GlobalIndex("kd", "sstd-a-grid.toml"),
    "text": GlobalIndex("text-tree", "sstd-text.toml"),
}


def plan_of_start(index: GlobalIndex, stream: SstdStream, workers: int) -> Plan:
    """Return the plan that a partitioner makes of the first objects, and of questions as they will come."""
    questions = QueryBatch.concat([standing_questions(stream), asked_questions(stream, 0)])
    some = questions.take(np.random.default_rng([stream.seed, 6]).permutation(len(questions))[:SAMPLE])
    objects = sstd_objects(stream.data, SAMPLE, stream.seed, 0)
    options = {} if index.leaves is None else {"leaves": index.leaves}
    return build_plan(index.partitioner, Statistics.of_batches(objects, some, SPACE), workers, **options)


def sstd_topology(
    index: GlobalIndex,
    stream: SstdStream,
    plan: Plan,
    folder: Path,
    policy: Mapping[str, Any] | None = None,
    **more: Any,
) -> Topology:
    """Declare SSTD over a stream, with this plan; without `policy`, which is a table of the balancer, nothing moves.

    `more` are settings of the topology.
    """
    path = folder / "plan"
    save(plan, path)
    tables: dict[str, Any] = {
        "topology": {
            "name": "sstd",
            "plan": path,
            "space": list(SPACE.as_tuple()),
            "metric": PLANE,
            "epoch": {"feedback": 2},
            **more,
        },
        "bolt": {"evaluator": {"parallelism": plan.workers, "keep_ms": 0 if stream.asked else WINDOW * TICK}},
    }
    if policy is not None:
        tables["bolt"]["balancer"] = policy
    without = ["topology.space", "topology.epoch", "topology.partitioner"]
    found = extended_topology(CONF / index.conf, tables, without=without, check=False)
    if policy is None:
        found = without_streams(found, ["statistics", "replies", "orders", "transfer", "bounds", "adoption"])
    return over_spout(found, SstdSpout, {"stream": asdict(stream)})


def observe(
    index: GlobalIndex, stream: SstdStream, workers: int, folder: Path, policy: Mapping[str, Any] | None = None
) -> Observed:
    """Run SSTD over a stream with the plan that a global index makes of its start."""
    return observed(sstd_topology(index, stream, plan_of_start(index, stream, workers), folder, policy))


def latency_ms(seen: Observed) -> Floats:
    """Return what passes in each epoch with a core for each task: of every component its busiest task."""
    names = [task["task"].partition("[")[0] for task in seen.summary["tasks"]]
    flow = np.array([name for name in names if name != "balancer"])
    taken: Floats = sum(
        (seen.busy_ms[:, flow == name].max(1) for name in sorted(set(flow))), np.zeros(len(seen.busy_ms))
    )
    return taken


def two_cores_ms(busy: Floats) -> Floats:
    """Return what passes in each epoch on two cores: half of all work, but no less than the busiest task takes."""
    taken: Floats = np.maximum(busy.sum(1) / 2, busy.max(1))
    return taken
