"""conf/dynamic.toml over the stream of `bench dynamic`, from memory, on one and on two cores.

On the local runtime, in one thread, the processor time of each task can be told: one core takes that of all tasks, two take
half of it, but no less than the busiest task. On Ray there are one or two processes, with an evaluator and a merger each, and
what goes from one to the other goes over their sockets: what the clock says, and, where other work runs besides, the busier
process.
"""

import tempfile
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from benchmarks.dskype_stream import DskypeStream, save_words
from benchmarks.dynamic_stream import SPACE, moving_objects, standing_queries
from benchmarks.observed import observed
from benchmarks.sstd_topology import two_cores_ms
from benchmarks.tornado_topology import CONF, over_spout
from benchmarks.watched_epochs import EpochWatch
from operators import Emitter, Epoch, Inputs, Spout, TaskContext
from partitioners.builders.registry import build_plan
from partitioners.costs.statistics import Statistics
from partitioners.plans.plan import save
from streams.batches import ObjectBatch, QueryBatch, batch_fields
from topology import Topology, extended_topology
from topology import run as run_topology

__all__ = ["DynamicSpout", "DynamicStream", "OnRay", "dynamic_topology", "on_cores", "on_ray"]

#: Objects and queries that come in an epoch in the beginning.
LOADED, REGISTERED = 50_000, 25_000
#: Objects and queries that a plan is made from, and epochs that are not measured.
SAMPLE, COLD = 1_000, 3


@dataclass(frozen=True, slots=True)
class DynamicStream:
    """A workload: objects come, queries come, then updates in epochs."""

    objects: int
    queries: int
    k: int = 100
    epochs: int = 20
    updates: int = 1_000
    seed: int = 1

    @property
    def loading(self) -> int:
        """Epochs in which objects come."""
        return -(-self.objects // LOADED)

    @property
    def begin(self) -> int:
        """The first epoch of updates."""
        return self.loading + -(-self.queries // REGISTERED)


@dataclass
class DynamicSpout(Spout):
    """Emits a stream.

    Options:
        stream: what to make.
        dynamic: that its objects have states.
    """

    outputs: ClassVar = {"objects": batch_fields(ObjectBatch), "queries": batch_fields(QueryBatch)}
    timed: ClassVar = True

    stream: DynamicStream
    dynamic: bool = True

    def open(self, context: TaskContext) -> None:
        """Make objects and queries."""
        self._context = context
        self._objects = moving_objects(self.stream.objects, self.stream.seed)
        self._queries = standing_queries(self.stream.queries, self.stream.seed, k=self.stream.k)

    def next_epoch(self, epoch: Epoch, inputs: Inputs, emit: Emitter) -> bool:
        """Emit objects, queries, or updates."""
        stream, number = self.stream, epoch.number
        emit.watermark = number + 1
        if stream.loading <= number < stream.begin:
            start = (number - stream.loading) * REGISTERED
            new = self._queries.slice(start, min(start + REGISTERED, stream.queries))
            self._context.count("queries", len(new))
            emit.batch(replace(new, ts=np.full(len(new), number)), "queries")
            return True
        if number >= stream.begin + stream.epochs or epoch.final:
            return False
        if number < stream.loading:
            some = self._objects.first.slice(number * LOADED, min((number + 1) * LOADED, stream.objects))
        else:
            some = self._objects.updates(stream.updates)
        self._context.count("objects", len(some))
        emit.batch(replace(some, ts=np.full(len(some), number)), "objects")
        return True


def on_cores(stream: DynamicStream) -> tuple[float, float]:
    """Return updates/s of one evaluator on one core, and of two on two."""
    taken = []
    for cores in (1, 2):
        with tempfile.TemporaryDirectory() as folder:
            busy = observed(dynamic_topology(stream, cores, Path(folder))).busy_ms
        busy = busy[stream.begin + COLD : stream.begin + stream.epochs]
        taken.append(float((busy.sum(1) if cores == 1 else two_cores_ms(busy)).mean()))
    return 1e3 * stream.updates / taken[0], 1e3 * stream.updates / taken[1]


@dataclass(frozen=True, slots=True)
class OnRay:
    """Updates/s by the clock, and by the processor time of the busier process."""

    by_clock: float
    by_busier: float


def on_ray(stream: DynamicStream, processes: int) -> OnRay:
    """Run on Ray in so many processes, with an evaluator each."""
    watch = EpochWatch(stream.begin + COLD - 1, stream.begin + stream.epochs - 1)
    with tempfile.TemporaryDirectory() as folder:
        topology = dynamic_topology(stream, processes, Path(folder), ray={"workers": processes})
        run_topology(topology, runtime="ray", on_progress=watch)
    return OnRay(1e3 * stream.updates / watch.took_ms().mean(), 1e3 * stream.updates / watch.worked_ms().max())


def dynamic_topology(stream: DynamicStream, evaluators: int, folder: Path, **more: Any) -> Topology:
    """Declare the shipped topology over a stream; the plan, which gives queries homes by number, travels as a file."""
    path, seed = folder / f"plan-{evaluators}", stream.seed
    some = moving_objects(SAMPLE, seed).first, standing_queries(SAMPLE, seed, k=stream.k)
    save(build_plan("hash", Statistics.of_batches(*some, SPACE), evaluators), path)
    settings = {
        **more,
        "plan": path,
        "vocabulary": save_words(DskypeStream(seed=seed), folder),
        "space": list(SPACE.as_tuple()),
    }
    bolts = {"evaluator": {"parallelism": evaluators}, "merger": {"parallelism": evaluators}}
    found = extended_topology(
        CONF / "dynamic.toml", {"topology": settings, "bolt": bolts},
        without=["topology.space", "topology.epoch", "topology.partitioner"], check=False,
    )  # fmt: skip
    return over_spout(found, DynamicSpout, {"stream": asdict(stream)})
