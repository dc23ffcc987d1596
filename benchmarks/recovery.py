"""What recovery costs: a million standing queries on Ray, the worker of an evaluator killed in mid-run.

Objects come as fast as they are taken; all queries are registered before. Measured against Ray's own time to replace an idle
actor of the same class in the same run, because nobody can be faster than that; and, in runs that take turns, with checkpoints
against without. Every run is checked: its results are as many as one index over all queries finds.
"""

import os
import signal
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import structlog

from benchmarks.report import Goal, Options, Report
from benchmarks.tornado_stream import Workload, matches_by_batch, objects_of, queries_of
from benchmarks.tornado_topology import Setup, plan_from_start, tornado_topology
from operators import Emitter, Epoch, Inputs, Spout, TaskContext
from partitioners.plans.plan import Plan, taken_apart
from streams.batches import ObjectBatch, QueryBatch, batch_fields
from streams.errors import RunError
from topology import Topology
from topology import run as run_topology
from topology.declaration import CheckpointSettings
from topology.run import Progress
from topology.wiring import wire

__all__ = ["run"]

BATCH, BLOCK, WORKERS = 10_000, 100_000, 4
VICTIM = "evaluator[2]"
EVERY_SECONDS = 5.0
#: Epochs of objects before the clock starts.
WARM_UP = 8
STAGES = ("replace_s", "read_s", "start_s", "answer_s")

Log = list[MutableMapping[str, Any]]


@dataclass
class CountedSpout(Spout):
    """Registers all queries, then emits so many batches of objects: what it does depends on the epoch's number alone.

    Options:
        workload: what to make.
        epochs: how many batches of objects.
    """

    outputs: ClassVar = {"objects": batch_fields(ObjectBatch), "queries": batch_fields(QueryBatch)}
    timed: ClassVar = True

    workload: Workload
    epochs: int = 100

    def open(self, context: TaskContext) -> None:
        """Make everything."""
        self._context = context
        self._queries, self._objects = queries_of(self.workload), objects_of(self.workload)

    def next_epoch(self, epoch: Epoch, inputs: Inputs, emit: Emitter) -> bool:
        """Emit a block of queries, or a batch of objects."""
        emit.watermark = 0
        number = epoch.number - registering(self.workload)
        if number < 0:
            block = self._queries.slice(epoch.number * BLOCK, (epoch.number + 1) * BLOCK)
            self._context.count("queries", len(block))
            emit.batch(block, "queries")
        elif number < self.epochs:
            start = number % (len(self._objects) // BATCH) * BATCH
            self._context.count("objects", BATCH)
            emit.batch(self._objects.slice(start, start + BATCH), "objects")
        return number < self.epochs


def registering(workload: Workload) -> int:
    """Return how many epochs the registration of all queries takes."""
    return -(-workload.queries // BLOCK)


@dataclass(frozen=True, slots=True)
class Trial:
    """What is run again and again."""

    workload: Workload
    plan: Plan
    folder: Path

    def topology(self, epochs: int, *, saving: bool) -> Topology:
        """Declare Tornado over so many batches of objects, with or without checkpoints."""
        options = {"workload": asdict(self.workload), "epochs": epochs}
        made = tornado_topology(Setup(), CountedSpout, options, self.plan, self.folder)
        directory = tempfile.mkdtemp(dir=self.folder)
        checkpoint = CheckpointSettings(directory, seconds=EVERY_SECONDS) if saving else None
        ray = replace(made.settings.ray, workers=WORKERS)
        return replace(made, settings=replace(made.settings, checkpoint=checkpoint, ray=ray))

    def run(self, topology: Topology, epochs: int, hear: Callable[[Progress], None]) -> dict[str, Any]:
        """Run to the end and see that nothing was missed or said twice."""
        summary = run_topology(topology, runtime="ray", on_progress=hear).summary
        rounds, rest = divmod(epochs, self.workload.objects // BATCH)
        by_batch = matches_by_batch(self.workload, BATCH)
        expected = rounds * int(by_batch.sum()) + int(by_batch[:rest].sum())
        if summary["results"] != expected:
            raise RunError(f"{summary['results']:,} results, but one index over all queries finds {expected:,}")
        return summary


Run = tuple[float, dict[str, Any], float]


def throughput(trial: Trial, epochs: int, *, saving: bool) -> Run:
    """Return objects/s between the end of the warm-up and the last epoch, the summary, and the bytes of a checkpoint."""
    times: list[float] = []
    topology = trial.topology(epochs, saving=saving)
    summary = trial.run(topology, epochs, lambda _progress: times.append(time.monotonic()))
    first, last = registering(trial.workload) + WARM_UP, registering(trial.workload) + epochs - 1
    rate = (last - first) * BATCH / (times[last] - times[first])
    return rate, summary, _checkpoint_bytes(topology)


def _checkpoint_bytes(topology: Topology) -> float:
    """Return the size of the largest checkpoint that is kept."""
    settings = topology.settings.checkpoint
    folders = [] if settings is None else list(Path(settings.directory).glob("0*"))
    return float(max((sum(file.stat().st_size for file in folder.iterdir()) for folder in folders), default=0))


def killed(trial: Trial, epochs: int) -> dict[str, float]:
    """Kill the worker of an evaluator in the middle of a run; return the seconds of each stage until all is as before."""
    at: dict[str, float] = {}
    topology = trial.topology(epochs, saving=True)
    with structlog.testing.capture_logs() as log:

        def hear(progress: Progress) -> None:
            now = time.monotonic()
            if "killed" not in at and progress.epochs >= registering(trial.workload) + epochs // 2:
                os.kill(_process_of(VICTIM, log), signal.SIGKILL)
                at.update(killed=time.monotonic(), epochs=progress.epochs)
            elif "killed" in at and _recovery(log):
                at.setdefault("answered", now)
                if progress.epochs > at["epochs"]:
                    at.setdefault("caught_up", now)

        trial.run(topology, epochs, hear)
        found = _recovery(log)
    if found is None or "caught_up" not in at:
        raise RunError("the run ended before the worker that was killed was replaced")
    stages = {name: float(found[name]) for name in STAGES}
    answered = at["answered"] - at["killed"]
    return {
        "detect_s": answered - sum(stages.values()),
        **stages,
        "answering_s": answered,
        "catch_up_s": at["caught_up"] - at["answered"],
    }


def _process_of(task: str, log: Log) -> int:
    started = [entry["processes"] for entry in log if entry["event"] == "workers_started"]
    return next(int(pid) for names, pid in started[-1].items() if task in names.split(", "))


def _recovery(log: Log) -> MutableMapping[str, Any] | None:
    return next((entry for entry in log if entry["event"] == "run_recovered"), None)


def ray_restart_seconds(topology: Topology, plan: Plan, times: int) -> float:
    """Return how long Ray itself takes from the end of an idle worker to the first answer of another, at best."""
    import ray

    from topology.ray_runtime.actor import WorkerActor
    from topology.ray_runtime.cluster import node
    from topology.ray_runtime.placement import place

    wiring = wire(topology, plan)
    placement, parts = place(wiring, WORKERS), ray.put(taken_apart(plan))

    def made() -> Any:
        actor: Any = ray.remote(WorkerActor).options(num_cpus=0).remote(topology, parts, placement, 1)
        ray.get(actor.__ray_call__.remote(node))
        return actor

    actor, seconds = made(), []
    for _ in range(times):
        started = time.monotonic()
        ray.kill(actor)
        actor = made()
        seconds.append(time.monotonic() - started)
    ray.kill(actor)
    return min(seconds)


@contextmanager
def _own_ray() -> Iterator[None]:
    """One Ray instance for all measurements, so that its start is in none of them."""
    from topology.ray_runtime.cluster import connect

    connect(None)
    try:
        yield
    finally:
        import ray

        ray.shutdown()


def run(options: Options) -> Report:
    """Measure everything."""
    queries = options.queries or (200_000 if options.quick else 1_000_000)
    workload = Workload(queries=queries, seed=options.seed)
    pairs, seconds = (1, 11.0) if options.quick else (4, 22.0)
    with tempfile.TemporaryDirectory() as folder:
        trial = Trial(workload, plan_from_start(Setup(), objects_of(workload), queries_of(workload)), Path(folder))
        with _own_ray(), structlog.testing.capture_logs():
            own = ray_restart_seconds(trial.topology(1, saving=False), trial.plan, 2 if options.quick else 4)
            rate, _, _ = throughput(trial, 60, saving=False)
            epochs = max(60, int(rate * seconds / BATCH))
            measured = [_pair(trial, epochs, saving_first=bool(number % 2)) for number in range(pairs)]
            stages = killed(trial, epochs)
    return _report(options, workload, own, measured, stages)


def _pair(trial: Trial, epochs: int, *, saving_first: bool) -> tuple[Run, Run]:
    """Run without checkpoints and with, one after the other; who is first changes, as the machine may tire."""
    found = {saving: throughput(trial, epochs, saving=saving) for saving in (saving_first, not saving_first)}
    return found[False], found[True]


def _report(
    options: Options, workload: Workload, own: float, measured: list[tuple[Run, Run]], stages: dict[str, float]
) -> Report:
    plain = statistics.median(without[0] for without, _ in measured)
    cost = 1 - statistics.median(saving[0] / without[0] for without, saving in measured)
    tasks = [task for _, (_, summary, _) in measured for task in summary["tasks"] if task.get("snapshots")]
    still = [task["snapshot_ms"] / task["snapshots"] for task in tasks if task["task"].startswith("evaluator")]
    figures = {
        "objects_per_s": plain,
        "checkpoint_cost_share": cost,
        "checkpoint_bytes": max(saving[2] for _, saving in measured),
        "snapshot_ms": max(still, default=0.0),
        "ray_restart_s": own,
        **stages,
        "answering_beyond_ray_s": stages["answering_s"] - own,
    }
    rows = [
        ["Ray alone: an idle worker replaced", f"{own:.2f} s"],
        ["the loss noticed", f"{stages['detect_s']:.2f} s"],
        ["the old process gone, a new one asked for", f"{stages['replace_s']:.2f} s"],
        ["the checkpoint read", f"{stages['read_s']:.2f} s"],
        ["a new process there, all states restored", f"{stages['start_s']:.2f} s"],
        ["the first epoch complete", f"{stages['answer_s']:.2f} s"],
        ["answering again, all of these", f"{stages['answering_s']:.2f} s"],
        ["caught up with where it was", f"{stages['catch_up_s']:.2f} s"],
        ["a checkpoint", f"{figures['checkpoint_bytes'] / 1e6:.1f} MB"],
        ["an evaluator stands still for it", f"{figures['snapshot_ms']:.1f} ms"],
        ["objects/s without checkpoints", f"{plain:,.0f}"],
        [f"lost to a checkpoint every {EVERY_SECONDS:g} s", f"{100 * cost:.1f}%"],
    ]
    return Report(
        name="recovery",
        data=f"synthetic, {workload.queries:,} range queries, 4 evaluators in {WORKERS} workers on Ray, {VICTIM} killed",
        seed=options.seed,
        figures=figures,
        goals=[Goal("answering_beyond_ray_s", at_most=5.0), Goal("checkpoint_cost_share", at_most=0.1)],
        columns=("what", "measured"),
        rows=rows,
        notes=[f"throughput: {len(measured)} pairs of runs that take turns, the median"],
    )
