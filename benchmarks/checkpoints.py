"""What checkpoints of large states cost on Ray: how much is written, how much passes through the driver, how long it takes.

Two evaluators hold segments of old objects, which never change, and counters, which do. Each segment is a part of the state
(`streams.state.Part`): the first checkpoint writes all of them, later ones what is new. The baseline, in the same run, has the
same segments as plain arrays, so that each checkpoint writes everything. Every run is checked: what was saved and read
again adds up to what was held.
"""

import tempfile
import time
from collections.abc import Callable, MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import structlog

from benchmarks.report import Goal, Options, Report
from operators import Bolt, Emitter, Epoch, Inputs, Spout, TaskContext
from streams.batches import TupleBatch
from streams.errors import RunError
from streams.state import Part
from topology import Topology, TopologyBuilder
from topology import run as run_topology

__all__ = ["run"]

TASKS, SEGMENT_BYTES = 2, 8 << 20
QUICK_MB, FULL_MB = 128, 4_096
EPOCHS, EVERY = 60, 20
#: A small segment is added in each of so many epochs.
NEW_EVERY, NEW_BYTES, COUNTERS = 10, 1 << 20, 10_000

Log = list[MutableMapping[str, Any]]


@dataclass
class Ticks(Spout):
    """Emits a number an epoch."""

    outputs: ClassVar[dict[str, tuple[str, ...]]] = {"default": ("number",)}

    epochs: int

    def open(self, context: TaskContext) -> None:
        """Begin with the first."""
        self._next = 0

    def next_epoch(self, epoch: Epoch, inputs: Inputs, emit: Emitter) -> bool:
        """Emit the next number."""
        if self._next < self.epochs:
            emit.batch(TupleBatch.of(("number",), [(self._next,)]))
            self._next += 1
        return self._next < self.epochs

    def snapshot(self) -> dict[str, Any]:
        """Return the next number."""
        return {"next": self._next}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on with it."""
        self._next = state["next"]


@dataclass
class Segments(Bolt):
    """Holds segments, and adds a small one now and then; at the end it emits what all of them add up to.

    Options:
        segments: how many at the start.
        parts: they are parts of the state, written once.
    """

    outputs: ClassVar[dict[str, tuple[str, ...]]] = {"default": ("task", "total")}

    segments: int
    parts: bool = True

    def open(self, context: TaskContext) -> None:
        """Make the first segments."""
        self._task = context.index
        self._counters = np.zeros(COUNTERS, np.int64)
        self._held = [self._segment(number, SEGMENT_BYTES) for number in range(self.segments)]

    def _segment(self, number: int, size: int) -> tuple[str, Any]:
        values = np.random.default_rng([self._task, number]).integers(0, 1 << 62, size // 8)
        return f"segment-{self._task}-{number}", values

    def execute_epoch(self, epoch: Epoch, inputs: Inputs, emit: Emitter) -> None:
        """Change a little."""
        self._counters += 1
        if (epoch.number + 1) % NEW_EVERY == 0:
            self._held.append(self._segment(len(self._held), NEW_BYTES))

    def finish(self, emit: Emitter) -> None:
        """Emit the sum of all values, and of the counters."""
        total = sum(int(values.sum() % (1 << 62)) for _, values in self._held) + int(self._counters.sum())
        emit.batch(TupleBatch.of(("task", "total"), [(self._task, total % (1 << 62))]))

    def snapshot(self) -> dict[str, Any]:
        """Return all segments and the counters."""
        held = [Part.of(key, values) if self.parts else [key, values] for key, values in self._held]
        return {"segments": held, "counters": self._counters}

    def restore(self, state: dict[str, Any]) -> None:
        """Take them over."""
        self._counters = state["counters"].copy()
        self._held = [(p.key, p.value) if isinstance(p, Part) else (p[0], p[1]) for p in state["segments"]]


@dataclass(frozen=True, slots=True)
class Measured:
    """One kind of state: checkpoints in their order, and what it takes to go on from the last."""

    checkpoints: Log
    resume_s: float


def topology_of(folder: Path, megabytes: int, *, parts: bool) -> Topology:
    """Declare a spout, the evaluators and a sink, with checkpoints in a folder."""
    checkpoint = {"directory": str(folder), "epochs": EVERY, "keep": 1}
    builder = TopologyBuilder("segments", checkpoint=checkpoint, ray={"workers": TASKS}, max_pending=2)
    builder.spout("ticks", Ticks, epochs=EPOCHS)
    segments = max(1, (megabytes << 20) // SEGMENT_BYTES // TASKS)
    builder.bolt("evaluator", Segments, parallelism=TASKS, segments=segments, parts=parts).all("ticks")
    builder.bolt("sink", "collect").global_("evaluator")
    return builder.build()


def measure(folder: Path, megabytes: int, *, parts: bool) -> Measured:
    """Run to the end with checkpoints, then go on from the last one; both must add up to the same."""
    topology = topology_of(folder, megabytes, parts=parts)
    with structlog.testing.capture_logs() as logs:
        whole = _totals(run_topology(topology, runtime="ray").collected)
        at: list[float] = []
        began = time.monotonic()
        again = run_topology(topology, runtime="ray", resume=folder, on_progress=_once(at)).collected
    if _totals(again) != whole or len(whole) != TASKS:
        raise RunError(f"what was read again adds up to {_totals(again)}, what was held to {whole}")
    written = [log for log in logs if log["event"] == "checkpoint_written"]
    return Measured(written, at[0] - began)


def _once(at: list[float]) -> Callable[[Any], None]:
    return lambda _progress: at.append(time.monotonic()) if not at else None


def _totals(collected: Any) -> dict[int, int]:
    return {row[0]: row[1] for batch in collected for row in batch.rows()}


def run(options: Options) -> Report:
    """Measure both kinds of state."""
    from topology.ray_runtime.cluster import connect

    megabytes = options.megabytes or (QUICK_MB if options.quick else FULL_MB)
    connect(None)
    try:
        found = {}
        for parts in (True, False):
            with tempfile.TemporaryDirectory() as folder:
                found[parts] = measure(Path(folder), megabytes, parts=parts)
    finally:
        import ray

        ray.shutdown()
    return _report(options, megabytes, found[True], found[False])


def _report(options: Options, megabytes: int, parts: Measured, plain: Measured) -> Report:
    (first, second), (plain_first, plain_second) = parts.checkpoints[:2], plain.checkpoints[:2]
    figures = {
        "state_bytes": float(first["bytes"]),
        "first_written_bytes": float(first["written"]),
        "second_written_bytes": float(second["written"]),
        "second_written_share": second["written"] / first["written"],
        "through_driver_bytes": float(sum(log["handed"] for log in parts.checkpoints)),
        "first_s": float(first["seconds"]),
        "second_s": float(second["seconds"]),
        "resume_s": parts.resume_s,
        "plain_second_written_bytes": float(plain_second["written"]),
        "plain_second_s": float(plain_second["seconds"]),
        "plain_resume_s": plain.resume_s,
    }
    rows = [
        ["first checkpoint, written", _mb(first["written"]), _mb(plain_first["written"])],
        ["second checkpoint, written", _mb(second["written"]), _mb(plain_second["written"])],
        [
            "through the driver, all checkpoints",
            *(_mb(sum(c["handed"] for c in m.checkpoints)) for m in (parts, plain)),
        ],
        ["first checkpoint, mark to manifest", f"{first['seconds']:.2f} s", f"{plain_first['seconds']:.2f} s"],
        ["second checkpoint, mark to manifest", f"{second['seconds']:.2f} s", f"{plain_second['seconds']:.2f} s"],
        ["resumed, first epoch complete", f"{parts.resume_s:.2f} s", f"{plain.resume_s:.2f} s"],
    ]
    return Report(
        name="checkpoints",
        data=f"synthetic, {megabytes:,} MB of segments in {TASKS} evaluators on Ray",
        seed=options.seed,
        figures=figures,
        goals=[Goal("through_driver_bytes", at_most=0), Goal("second_written_share", at_most=0.05)],
        columns=("what", "segments as parts", "as plain arrays"),
        rows=rows,
        notes=["the first checkpoint is that of the start: its seconds include those in which Ray starts the workers"],
    )


def _mb(size: float) -> str:
    return f"{size / 1e6:,.1f} MB"
