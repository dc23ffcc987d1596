"""How fast tuples flow: spout -> 2 routers -> 4 null evaluators -> sink, columnar objects with 8 keywords.

Measured on the local runtime, on Ray, and, as the baseline in the same run, with the same batches sent by plain Ray actor
calls. Also: what an idle topology costs.
"""

import os
import time
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from benchmarks.report import Goal, Options, Report
from operators import Bolt, Emitter, Epoch, Inputs, Spout, TaskContext
from streams.batches import ObjectBatch, batch_fields
from streams.codec import decode, encode
from streams.columns import Ids
from topology import Topology, TopologyBuilder
from topology import run as run_topology

ROUTERS, EVALUATORS, KEYWORDS, WINDOW, GRID = 2, 4, 8, 8, 64
TASKS = 1 + ROUTERS + EVALUATORS + 1
OBJECT_FIELDS = batch_fields(ObjectBatch)


def synthetic_objects(seed: int, n: int) -> ObjectBatch:
    """Make uniform objects with eight keywords each."""
    rng = np.random.default_rng(seed)
    ids = np.arange(n, dtype=np.int64) + seed * n
    keywords = np.sort(rng.integers(0, 100_000, (n, KEYWORDS)), axis=1).reshape(-1)
    offsets = (np.arange(n + 1) * KEYWORDS).astype(np.int32)
    return ObjectBatch(
        ids, ids, rng.random(n), rng.random(n), np.zeros(n, np.uint8), offsets, keywords, Ids("int", ids)
    )


@dataclass
class SyntheticSpout(Spout):
    """Emits the same eight batches over and over; after `warm_up` epochs it counts them, after `seconds` it ends."""

    outputs: ClassVar = {"objects": OBJECT_FIELDS}

    objects: int = 10_000
    seconds: float = 3.0
    idle: bool = False
    seed: int = 1

    def open(self, context: TaskContext) -> None:
        """Make the batches."""
        self._context = context
        self._batches = [synthetic_objects(self.seed + i, self.objects) for i in range(8)]
        self._started = time.monotonic()

    def next_epoch(self, epoch: Epoch, inputs: Inputs, emit: Emitter) -> bool:
        """Emit one batch."""
        if epoch.number == 0:
            self._started = time.monotonic()
        if not self.idle:
            self._context.count("objects", self.objects)
            emit.batch(self._batches[epoch.number % 8], "objects")
        return time.monotonic() - self._started < self.seconds


def split_by_cell(objects: ObjectBatch) -> list[ObjectBatch]:
    """Divide objects among the evaluators by a hash of their grid cell."""
    cell = (objects.x * GRID).astype(np.int64) * GRID + (objects.y * GRID).astype(np.int64)
    owner = (cell * 2654435761 % 1000003) % EVALUATORS
    ordered = objects.take(np.argsort(owner, kind="stable"))
    ends = np.cumsum(np.bincount(owner, minlength=EVALUATORS))
    return [ordered.slice(int(start), int(end)) for start, end in zip([0, *ends[:-1]], ends, strict=True)]


class CellRouter(Bolt):
    """Sends each object to the evaluator of its cell."""

    outputs: ClassVar = {"objects": OBJECT_FIELDS}

    def execute_epoch(self, epoch: Epoch, inputs: Inputs, emit: Emitter) -> None:
        """Divide the batches."""
        for batch in inputs.batches("objects"):
            for task, part in enumerate(split_by_cell(batch)):
                emit.direct(task, part, "objects")


class NullEvaluator(Bolt):
    """Touches every object and keyword, and reports one count an epoch."""

    outputs: ClassVar = {"default": ("seen",)}

    def execute_epoch(self, epoch: Epoch, inputs: Inputs, emit: Emitter) -> None:
        """Look at the columns once."""
        emit(sum(look_at(batch) for batch in inputs.batches("objects")))


def look_at(batch: ObjectBatch) -> int:
    """Read every column that a real evaluator would read."""
    np.bincount(batch.kw & 63, minlength=64)
    float((batch.x * batch.y).sum())
    return len(batch)


class SumSink(Bolt):
    """Adds up what the evaluators saw, so that a lost object shows."""

    def open(self, context: TaskContext) -> None:
        """Remember the counters."""
        self._context = context

    def execute_epoch(self, epoch: Epoch, inputs: Inputs, emit: Emitter) -> None:
        """Add the counts of an epoch."""
        for batch in inputs.batches("default"):
            self._context.count("results", float(batch.column("seen").sum()))


def transport_topology(objects: int, seconds: float, *, idle: bool = False, seed: int = 1) -> Topology:
    """Declare the topology that is measured."""
    builder = TopologyBuilder("transport", epoch={"objects": objects}, max_pending=WINDOW)
    builder.spout("source", SyntheticSpout, objects=objects, seconds=seconds, idle=idle, seed=seed)
    builder.bolt("router", CellRouter, parallelism=ROUTERS).shuffle("source", "objects")
    builder.bolt("evaluator", NullEvaluator, parallelism=EVALUATORS).direct("router", "objects")
    builder.bolt("sink", SumSink).global_("evaluator")
    return builder.build()


def measure(runtime: str, objects: int, seconds: float, seed: int) -> dict[str, float]:
    """Run the topology and return throughput and latency; every object must have arrived."""
    summary = run_topology(transport_topology(objects, seconds, seed=seed), runtime=runtime).summary
    if summary["results"] != summary["objects"]:
        raise AssertionError(f"{summary['objects']} objects went in, {summary['results']} came out")
    return {
        "objects_per_s": summary["objects"] / seconds,
        **{f"latency_{k}": v for k, v in summary["latency_ms"].items()},
    }


# --- the baseline: the same messages by plain actor calls ----------------------------------------------------------


class _PlainRouter:
    def __init__(self, evaluators: list[Any]) -> None:
        self.evaluators = evaluators

    def route(self, body: bytes) -> list[int]:
        import ray

        _, [(_, batch)] = decode(body)
        parts = split_by_cell(batch)  # type: ignore[arg-type]
        calls = [
            evaluator.look.remote(b"".join(encode([("objects", part)])))
            for evaluator, part in zip(self.evaluators, parts, strict=True)
        ]
        seen: list[int] = ray.get(calls)
        return seen


class _PlainEvaluator:
    def look(self, body: bytes) -> int:
        _, [(_, batch)] = decode(body)
        return look_at(batch)  # type: ignore[arg-type]


def measure_plain_calls(objects: int, seconds: float, seed: int) -> float:
    """Return objects/s with plain actor calls, the same window of epochs under way."""
    import ray

    options = {"num_cpus": 0.05}
    evaluators: list[Any] = [ray.remote(_PlainEvaluator).options(**options).remote() for _ in range(EVALUATORS)]
    routers: list[Any] = [
        ray.remote(_PlainRouter).options(**options, max_concurrency=4).remote(evaluators) for _ in range(ROUTERS)
    ]
    halves = [
        [
            b"".join(encode([("objects", batch.slice(i * objects // ROUTERS, (i + 1) * objects // ROUTERS))]))
            for i in range(ROUTERS)
        ]
        for batch in (synthetic_objects(seed + i, objects) for i in range(8))
    ]
    ray.get([router.route.remote(body) for router, body in zip(routers, halves[0], strict=True)])
    pending: list[list[Any]] = []
    epochs, started = 0, time.monotonic()
    while time.monotonic() - started < seconds:
        while len(pending) < WINDOW:
            bodies = halves[(epochs + len(pending)) % 8]
            pending.append([router.route.remote(body) for router, body in zip(routers, bodies, strict=True)])
        ray.get(pending.pop(0))
        epochs += 1
    elapsed = time.monotonic() - started
    for actor in [*routers, *evaluators]:
        ray.kill(actor)
    return epochs * objects / elapsed


# --- an idle topology ------------------------------------------------------------------------------------------------


def _cpu_seconds(pids: list[int]) -> float:
    total = 0.0
    for pid in pids:
        try:
            with open(f"/proc/{pid}/stat") as file:
                fields = file.read().rsplit(")", 1)[1].split()
            total += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        except OSError:
            continue
    return total


def worker_pids() -> list[int]:
    """Return the processes below this one that run one of our workers."""
    found = []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{entry}/cmdline", "rb") as file:
                ours = b"ray::WorkerActor" in file.read()
            if ours and _descends(int(entry), os.getpid()):
                found.append(int(entry))
        except OSError:  # it has ended meanwhile
            continue
    return found


def _descends(pid: int, ancestor: int) -> bool:
    while pid > 1 and pid != ancestor:
        with open(f"/proc/{pid}/stat") as file:
            pid = int(file.read().rsplit(")", 1)[1].split()[1])
    return pid == ancestor


def measure_idle(seconds: float) -> float:
    """Return the cores that an idle topology on Ray uses: driver and all workers."""
    marks: list[tuple[float, float]] = []

    def mark(_progress: Any) -> None:
        now = time.monotonic()
        if not marks or now - marks[-1][0] > seconds / 4:
            marks.append((now, _cpu_seconds([os.getpid(), *worker_pids()])))

    run_topology(transport_topology(1_000, seconds, idle=True), runtime="ray", on_progress=mark)
    (t0, c0), (t1, c1) = marks[1], marks[-1]
    return (c1 - c0) / (t1 - t0)


def run(options: Options) -> Report:
    """Measure everything."""
    from topology.ray_runtime.cluster import cpu_count

    seconds = 2.0 if options.quick else 6.0
    figures: dict[str, float] = {}
    rows = []

    def record(name: str, objects: int, measured: dict[str, float], baseline: float | None) -> None:
        key = f"{name}_{objects}"
        figures[f"{key}_objects_per_s"] = measured["objects_per_s"]
        ratio = measured["objects_per_s"] / baseline if baseline else None
        if ratio:
            figures[f"{key}_vs_plain_calls"] = ratio
        latency = f"{measured['latency_p50']:.1f} / {measured['latency_p99']:.1f}" if "latency_p50" in measured else ""
        rows.append(
            [name, f"{objects:,}", f"{measured['objects_per_s']:,.0f}", f"{ratio:.1f} x" if ratio else "", latency]
        )

    sizes = (1_000, 10_000)
    for objects in sizes:
        record("local", objects, measure("local", objects, seconds, options.seed), None)
    with _OwnRay():
        for objects in sizes:
            plain = measure_plain_calls(objects, seconds, options.seed)
            record("plain_calls", objects, {"objects_per_s": plain}, None)
            record("ray", objects, measure("ray", objects, seconds, options.seed), plain)
        figures["idle_cores"] = measure_idle(4.0 if options.quick else 10.0)
        workers = min(cpu_count(), TASKS)
    goals = [
        Goal("local_10000_objects_per_s", at_least=3e6),
        Goal("ray_10000_objects_per_s", at_least=3e6),
        Goal("ray_1000_objects_per_s", at_least=5e5),
        Goal("ray_10000_vs_plain_calls", at_least=4),
        Goal("ray_1000_vs_plain_calls", at_least=4),
        Goal("idle_cores", at_most=0.1),
    ]
    return Report(
        name="transport",
        data=f"synthetic, {KEYWORDS} keywords an object, {ROUTERS} routers, {EVALUATORS} evaluators, {WINDOW} epochs pending",
        seed=options.seed,
        figures=figures,
        goals=goals,
        columns=("runtime", "objects an epoch", "objects/s", "vs plain calls", "latency p50 / p99 ms"),
        rows=rows,
        notes=[
            f"Ray: {TASKS} tasks in {workers} worker processes and the driver",
            f"idle topology on Ray: {figures['idle_cores']:.3f} cores (driver and workers)",
        ],
    )


class _OwnRay:
    """One Ray instance for all measurements, so that its start is in none of them."""

    def __enter__(self) -> None:
        from topology.ray_runtime.cluster import connect

        connect(None)

    def __exit__(self, *_: object) -> None:
        import ray

        ray.shutdown()
