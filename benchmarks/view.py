"""What the live view costs, and what it shows: processor time of lens, observer, chronicle and routes, and frames in a browser.

A run is as fast as the machine allows, on the local runtime: one thread that is always busy. Somebody watches it, as with
``waterspout run --watch``: a browser where there is one, else a WebSocket client, in a process of its own. What lens and
observer take of the run's thread is measured call by call, what the server takes is the processor time of its thread; runs with
nobody watching take turns with it. Two plans are watched: eight partitions that a policy of Tornado moves, and a thousand of
which some move all the time.
"""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from benchmarks.report import Goal, Options, Report
from benchmarks.tornado_stream import MemorySpout, Workload, objects_of, queries_of
from benchmarks.tornado_topology import SPACE, Setup, plan_from_start, tornado_topology
from benchmarks.view_reader import browser
from operators.operator import Emitter, Inputs
from partitioners.builders.kd_decomposition import uniform_plan
from partitioners.grids.fine_grid import FineGrid
from partitioners.plans.grid_plan import GridPlan
from service.view.beside import FRAMES, Beside
from service.view.observer import Observer
from topology import Topology
from topology import run as run_topology
from topology.lens import EPOCHS_PER_S, Event, Lens
from topology.messages import Report as TaskReport

__all__ = ["run"]

#: Objects of an epoch, evaluators, and the partitions of the large plan, which they share.
BATCH, EVALUATORS, PARTITIONS = 10_000, 8, 1_000
#: Cells a side of the grid that the large plan is cut from.
CELLS = 128
#: The rate that costs are told for, in objects a second.
AT_RATE = 1e6
#: Epochs of objects before anything is measured, and between two rounds of the balancer.
WARM_UP, ROUND = 8, 20
#: How much longer than it is measured for a run may take.
PATIENCE = 20.0
#: So often runs with and without somebody who watches take turns.
ROUNDS = 3


@dataclass(slots=True)
class Costs:
    """Processor time so far, in seconds: of the run's thread, of lens and observer within it, and of the server's thread.

    Attributes:
        showing: of lenses, in epochs of which places are shown; `passing`: in others.
        shown: epochs of which places were shown.
    """

    run: float = 0.0
    showing: float = 0.0
    passing: float = 0.0
    observer: float = 0.0
    server: float = 0.0
    epochs: int = 0
    shown: int = 0
    frames: int = 0

    def since(self, before: "Costs") -> "Costs":
        """Return what has come since."""
        return Costs(*(getattr(self, name) - getattr(before, name) for name in Costs.__slots__))


@dataclass(slots=True)
class Meter:
    """Adds up what is measured within the run's thread."""

    costs: Costs = field(default_factory=Costs)

    @contextmanager
    def adding(self, name: str) -> Iterator[None]:
        """Add the processor time of a block."""
        began = time.thread_time()
        try:
            yield
        finally:
            setattr(self.costs, name, getattr(self.costs, name) + time.thread_time() - began)


class TimedObserver(Observer):
    """An observer that knows what it takes of the run's thread, and what there was when the run had warmed up."""

    def __init__(self, meter: Meter, registering: int) -> None:
        super().__init__(time.perf_counter)
        self._meter, self._first = meter, registering + WARM_UP
        self.warm: Costs | None = None
        self.beside: Beside | None = None

    def report(self, report: TaskReport) -> None:
        """Take a report."""
        with self._meter.adding("observer"):
            super().report(report)

    def ack(self, epoch: int, pending: int) -> None:
        """Take the end of an epoch."""
        with self._meter.adding("observer"):
            super().ack(epoch, pending)
        self._meter.costs.epochs += 1
        if self.warm is None and epoch >= self._first:
            self.warm = self.now()

    def frames(self) -> list[bytes]:
        """Make frames; this is in the server's thread."""
        found = super().frames()
        self._meter.costs.frames += bool(found)
        return found

    def now(self) -> Costs:
        """Return all costs so far; asked in the run's thread."""
        assert self.beside is not None
        return replace(self._meter.costs, run=time.thread_time(), server=self.beside.processor_time())


@contextmanager
def timed_lens(meter: Meter) -> Iterator[None]:
    """Measure what lenses do within a block."""
    look = Lens.look

    def timed(self: Lens, epoch: int, inputs: Inputs, emit: Emitter) -> Iterator[Event]:
        shown = self._shown(epoch)
        meter.costs.shown += shown and self._leads
        with meter.adding("showing" if shown else "passing"):
            events = list(look(self, epoch, inputs, emit))
        return iter(events)

    with patch.object(Lens, "look", timed):
        yield


# --- runs -----------------------------------------------------------------------------------------------------------


def topology_of(name: str, workload: Workload, seconds: float, folder: Path) -> Topology:
    """Declare what is watched: a few partitions that move as Tornado says, or many that move by lot."""
    few = Setup(routers=1, evaluators=EVALUATORS, policy="tornado")
    setup = few if name == "few" else replace(few, policy="random")
    plan = plan_from_start(setup, objects_of(workload), queries_of(workload)) if name == "few" else large_plan()
    options = {"workload": asdict(workload), "batch": BATCH, "seconds": seconds, "warm_up": WARM_UP}
    found = tornado_topology(setup, MemorySpout, options, plan, folder)
    tick = {"epochs": ROUND}
    components = tuple(
        replace(c, tick=replace(c.tick, **tick)) if c.name == "evaluator" and c.tick is not None else c
        for c in found.components
    )
    return replace(found, components=components)


def large_plan() -> GridPlan:
    """Return a thousand boxes, spread over the evaluators."""
    grid = FineGrid(SPACE, CELLS, CELLS)
    boxes = uniform_plan(grid, PARTITIONS).boxes
    return GridPlan.of_boxes(grid, boxes, np.arange(len(boxes)) % EVALUATORS, EVALUATORS)


def unwatched(name: str, workload: Workload, seconds: float) -> float:
    """Return objects a second of processor time with nobody watching."""
    with tempfile.TemporaryDirectory() as folder:
        summary = run_topology(topology_of(name, workload, seconds, Path(folder)), runtime="local").summary
    spout = next(task for task in summary["tasks"] if task["task"] == "source[0]")
    return float(spout["measured_objects"] / spout["measured_cpu_s"])


def watched(name: str, workload: Workload, seconds: float, reader: str) -> tuple[Costs, Mapping[str, float]]:
    """Return what a run and its view cost while somebody watched, and what that one saw."""
    meter = Meter()
    observer = TimedObserver(meter, -(-workload.queries // 100_000))
    observer.beside = beside = Beside(observer=observer)
    beside.start()
    command = [sys.executable, "-m", "benchmarks.view_reader", beside.address, f"{seconds}", reader]
    try:
        with (
            tempfile.TemporaryDirectory() as folder,
            timed_lens(meter),
            subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child,
        ):
            try:
                topology = topology_of(name, workload, PATIENCE * seconds, Path(folder))
                run_topology(topology, runtime="local", watcher=observer, should_stop=lambda: child.poll() is not None)
                costs = observer.now()
                seen, _ = child.communicate(timeout=PATIENCE * seconds)
            finally:
                child.kill()
    finally:
        beside.stop()
    assert observer.warm is not None, "the run has warmed up"
    return costs.since(observer.warm), json.loads(seen)


def figures_of(name: str, costs: Costs, seen: Mapping[str, float], alone: float) -> dict[str, float]:
    """Return what was measured of a plan; shares are of one core, at a million objects a second.

    Places are shown of a bounded number of epochs a second. On a machine that is slower than that rate more of its epochs are
    shown than would be, so the two sorts are counted apart.
    """
    epochs_per_s = AT_RATE / BATCH
    passing = (epochs_per_s - EPOCHS_PER_S) * costs.passing / max(costs.epochs - costs.shown, 1)
    lens = EPOCHS_PER_S * costs.showing / max(costs.shown, 1) + passing
    observer = epochs_per_s * costs.observer / costs.epochs
    server = FRAMES * costs.server / max(costs.frames, 1)
    found = {
        "objects_per_s": BATCH * costs.epochs / costs.run,
        "alone_objects_per_s": alone,
        "lens_share": lens,
        "observer_share": observer,
        "server_share": server,
        "view_share": lens + observer + server,
        "kb_per_frame": seen["kb_per_frame"],
        "frames_per_s": seen["frames_per_s"],
    }
    if "page_share" in seen:
        found |= {key: seen[key] for key in ("page_share", "page_pictures_per_s")}
    return {f"{name}_{key}": value for key, value in found.items()}


def measure(name: str, workload: Workload, seconds: float, rounds: int, reader: str) -> dict[str, float]:
    """Measure a plan with and without somebody who watches, in turns; return the median of each figure."""
    found = [
        figures_of(name, *watched(name, workload, seconds, reader), unwatched(name, workload, seconds))
        for _ in range(rounds)
    ]
    return {key: float(np.median([one[key] for one in found])) for key in found[0]}


# --- what is told ---------------------------------------------------------------------------------------------------

ROWS = {
    "objects_per_s": ("objects/s of processor time, watched", "{:,.0f}"),
    "alone_objects_per_s": ("the same, with nobody watching", "{:,.0f}"),
    "lens_share": ("lens, of a core at 1M objects/s", "{:.2%}"),
    "observer_share": ("observer, the same", "{:.2%}"),
    "server_share": (f"frames, chronicle and routes at {FRAMES} frames/s, of a core", "{:.2%}"),
    "view_share": ("the view in all, of a core", "{:.2%}"),
    "kb_per_frame": ("a frame, KB", "{:.1f}"),
    "frames_per_s": ("frames/s that arrive", "{:.1f}"),
    "page_share": ("the page and its drawing, of a core", "{:.0%}"),
    "page_pictures_per_s": ("pictures/s that it draws", "{:.1f}"),
}
PLANS = {"few": f"{EVALUATORS} partitions", "many": f"{PARTITIONS:,} partitions"}


def run(options: Options) -> Report:
    """Watch a run with few partitions, and one with many."""
    workload = Workload(queries=options.queries or (20_000 if options.quick else 100_000), seed=options.seed)
    seconds, rounds = (5.0, 1) if options.quick else (10.0, ROUNDS)
    chromium, why = browser()
    reader = chromium or "websocket"
    figures: dict[str, float] = {}
    for name in PLANS:
        figures |= measure(name, workload, seconds, rounds, reader)
    goals = [
        Goal(f"{name}_{figure}", **bound)
        for name in PLANS
        for figure, bound in (("view_share", {"at_most": 0.05}), ("frames_per_s", {"at_least": 9.5}))
    ]
    return Report(
        name="view",
        data=f"synthetic stream drawn to one corner, {workload.queries:,} queries, {EVALUATORS} evaluators, {BATCH:,} objects "
        "an epoch",
        seed=options.seed,
        figures=figures,
        goals=goals,
        columns=("what", *PLANS.values()),
        rows=list(_rows(figures)),
        notes=[
            f"{rounds} rounds of {seconds:g} s; shares are told for a million objects a second, whatever the machine gave",
            f"frames were read by {'Chromium' if chromium else f'a WebSocket client: the page was not measured, {why}'}",
        ],
    )


def _rows(figures: Mapping[str, float]) -> Iterator[list[Any]]:
    for key, (text, form) in ROWS.items():
        if f"few_{key}" in figures:
            yield [text, *(form.format(figures[f"{name}_{key}"]) for name in PLANS)]
