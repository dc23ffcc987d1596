"""DSkype's experiments (Section 8.2): distribution mechanisms by throughput, communication and replication, at our scale.

All run on the local runtime, in one thread, where the processor time of each task can be told: "messages/s" is with a core for
each task, so it is that of the busiest one in each epoch, "evaluators" that of the busiest evaluator, and "on one core" all
tasks together. Communication counts tuples from routers to evaluators, replication the workers at which a subscription is
filed (and, for loose prefixes, at how many its definition is). Efficiency is by cost, candidates examined. Hotspots come in
mid-run, with the policy `dskype` and without, in larger epochs.
"""

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.dskype_stream import DskypeStream, dskype_topology, plan_of_start
from benchmarks.observed import Observed, observed
from benchmarks.pictures import checked_folder, drawn
from benchmarks.report import Goal, Options, Report
from benchmarks.skype_stream import skype_messages, skype_subscriptions

__all__ = ["run"]

Floats = NDArray[np.float64]

WORKERS = 32
#: Mechanisms, in the order of the paper; with loose prefixes or not.
MECHANISMS = {
    "hash": False,
    "location": False,
    "keyword": False,
    "prefix": True,
    "spatial-first": True,
    "keyword-first": True,
}
#: Those that the paper varies parameters for, and those that split where it is hot.
VARIED, SPLIT = ("hash", "location", "prefix"), ("location", "keyword", "prefix")
#: Epochs before a hotspot, those that a balancer is given after it has begun, those measured then, and evaluators.
CALM, SETTLING, LATE, HOT_WORKERS = 20, 20, 20, 8
#: Messages of an epoch then: a round of the balancer takes some eight epochs, whatever is in them.
HOT_MESSAGES = 1_000
#: Epochs that are not measured: subscriptions have just come.
COLD = 2
#: What pictures show.
SPEED, TUPLES = "messages/s", "tuples a message"


@dataclass(frozen=True, slots=True)
class Measured:
    """One run."""

    messages_per_s: float
    evaluators: float
    on_one_core: float
    communication: float
    replication: float
    stored: float
    efficiency: float

    @classmethod
    def of(cls, seen: Observed, stream: DskypeStream, workers: int) -> "Measured":
        epochs = slice(stream.begin + COLD, stream.begin + stream.epochs)
        busy, evaluating = seen.busy_ms[epochs], seen.evaluating_ms[epochs]
        count = stream.messages * len(busy) * 1e3
        tasks = [task for task in seen.summary["tasks"] if task["task"].startswith("evaluator[")]
        total = sum(task.get("objects_in", 0) for task in tasks)
        return cls(
            messages_per_s=count / float(busy.max(1).sum()),
            evaluators=count / float(evaluating.max(1).sum()),
            on_one_core=count / float(busy.sum()),
            communication=total / (stream.window + stream.messages * stream.epochs),
            replication=sum(task.get("filed", 0) for task in tasks) / stream.subscriptions,
            stored=sum(task.get("queries_in", 0) for task in tasks) / stream.subscriptions,
            efficiency=_efficiency(seen.cost[epochs], workers),
        )


@dataclass(slots=True)
class _Bench:
    """What was measured so far, in the forms that a report has."""

    stream: DskypeStream
    workers: int
    folder: Path
    figures: dict[str, float] = field(default_factory=dict)
    rows: list[list[str]] = field(default_factory=list)
    #: Pictures by the unit of their values.
    series: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)

    def measure(
        self, title: str, kind: str, stream: DskypeStream, workers: int, before: str = "", **options: Any
    ) -> Measured:
        """Run a mechanism, and note what came of it."""
        plan = plan_of_start(kind, stream, workers, **options)
        topology = dskype_topology(plan, stream, self.folder, prefix=MECHANISMS[kind])
        one = Measured.of(observed(topology), stream, workers)
        for name in ("messages_per_s", "evaluators", "on_one_core", "communication", "replication", "efficiency"):
            self.figures[f"{before}{kind}_{name}"] = getattr(one, name)
        self.rows.append(
            [
                title, kind, str(workers), f"{one.messages_per_s:,.0f}", f"{one.evaluators:,.0f}", f"{one.on_one_core:,.0f}",
                f"{one.communication:.2f}", f"{one.replication:.2f}", f"{one.stored:.2f}", f"{one.efficiency:.3f}",
            ]
        )  # fmt: skip
        return one

    def point(self, unit: str, title: str, name: str, x: float | str, y: float) -> None:
        """Add a point to a picture, where x is the name of a mechanism or a number."""
        line = self.series.setdefault(unit, {}).setdefault(title, {}).setdefault(name, [])
        line.append((x, y))
        if not isinstance(x, str):
            line.sort()


def run(options: Options) -> Report:
    """Measure the figures of Section 8.2; with `options.out` (a folder), draw them."""
    checked_folder(options.out)
    size = options.queries or (3_000 if options.quick else 30_000)
    stream = DskypeStream(size, window=15_000, epochs=32, seed=options.seed)
    if options.quick:
        stream = replace(stream, window=2_000, epochs=10)
    with tempfile.TemporaryDirectory() as name:
        bench = _Bench(stream, 8 if options.quick else WORKERS, Path(name))
        _warm_up(stream, bench.folder)
        found = _mechanisms(bench)
        _bolts(bench, found, (4,) if options.quick else (4, 8, 16))
        _numbers(bench, found, quick=options.quick)
        _hybrids(bench, found, (2,) if options.quick else (2, 4, 8, 16))
        _hotspots(bench, quick=options.quick)
    paths = []
    if options.out is not None:
        paths = [path for unit, series in bench.series.items() for path in drawn("dskype", unit, series, options.out)]
    return Report(
        name="dskype",
        data=f"synthetic stream, {size:,} subscriptions with 1 to 5 words, a window of {stream.window:,}, {bench.workers} "
        f"evaluators, {stream.messages} messages an epoch",
        seed=options.seed,
        figures=bench.figures,
        goals=_goals(options),
        columns=(
            "experiment", "mechanism", "tasks", "messages/s", "evaluators", "on one core", "communication", "replication",
            "stored", "efficiency",
        ),
        rows=bench.rows,
        notes=["messages/s with a core for each task; communication in tuples a message", *(f"drawn: {p}" for p in paths)],
    )  # fmt: skip


def _warm_up(stream: DskypeStream, folder: Path) -> None:
    """Compile every kernel."""
    small = replace(stream, subscriptions=500, window=500, epochs=6)
    observed(dskype_topology(plan_of_start("prefix", small, 2), small, folder, prefix=True))


def _efficiency(cost: Floats, workers: int) -> float:
    return float(cost.sum() / (workers * np.maximum(cost.max(1), 1e-9).sum()))


def _mechanisms(bench: _Bench) -> Mapping[str, Measured]:
    """Figure 21, Tables 2 and 5: all mechanisms with default parameters."""
    found = {kind: bench.measure("Figure 21", kind, bench.stream, bench.workers) for kind in MECHANISMS}
    figures = bench.figures
    figures["prefix_saves"] = 1 - found["prefix"].communication / found["hash"].communication
    figures["keyword_over_prefix_replication"] = found["keyword"].replication / found["prefix"].replication
    for kind, one in found.items():
        bench.point(SPEED, "Figure 21a: mechanisms", "all tasks", kind, one.messages_per_s)
        bench.point(SPEED, "Figure 21a: mechanisms", "evaluators", kind, one.evaluators)
        bench.point(TUPLES, "Figure 21b: mechanisms", "communication", kind, one.communication)
    subscriptions, messages = skype_subscriptions(1_000, bench.stream.seed), skype_messages(1_000, bench.stream.seed)
    words, others = (float(np.diff(batch.kw_off).mean()) for batch in (subscriptions, messages))
    bounds = {"hash": (bench.workers, 1.0), "keyword": (min(others, bench.workers), words)}
    for kind, like in (("hash", "hash"), ("location", "hash"), ("keyword", "keyword"), ("prefix", "keyword")):
        sent, held = bounds[like]
        row = ["Table 2, at most", kind, str(bench.workers), "", "", "", f"{sent:.2f}", f"{held:.2f}", "", ""]
        bench.rows.append(row)
    return found


def _bolts(bench: _Bench, found: Mapping[str, Measured], numbers: tuple[int, ...]) -> None:
    """Figure 22: the number of evaluators."""
    for kind in VARIED:
        measured = {
            bolts: bench.measure("Figure 22: evaluators", kind, bench.stream, bolts, f"{bolts}_bolts_")
            for bolts in numbers
        }
        for bolts, one in (*measured.items(), (bench.workers, found[kind])):
            bench.point(SPEED, "Figure 22a: evaluators", kind, bolts, one.evaluators)
            bench.point(TUPLES, "Figure 22d: evaluators", kind, bolts, one.communication)


def _numbers(bench: _Bench, found: Mapping[str, Measured], *, quick: bool) -> None:
    """Figures 23 and 24: k, and the number of subscriptions."""
    stream, half = bench.stream, bench.stream.subscriptions // 2
    changes: list[tuple[str, str, int]] = [("Figure 23", "k", 50)] if quick else [
        ("Figure 23", "k", 10), ("Figure 23", "k", 50), ("Figure 24", "subscriptions", half),
        ("Figure 24", "subscriptions", 4 * half),
    ]  # fmt: skip
    for kind in VARIED:
        bench.point(SPEED, "Figure 23: k", kind, stream.k, found[kind].evaluators)
        bench.point(SPEED, "Figure 24: subscriptions", kind, stream.subscriptions, found[kind].evaluators)
        for title, key, value in changes:
            varied = replace(stream, k=value) if key == "k" else replace(stream, subscriptions=value)
            one = bench.measure(f"{title}: {key} = {value:,}", kind, varied, bench.workers, f"{key}_{value}_")
            bench.point(SPEED, f"{title}: {key}", kind, value, one.evaluators)


def _hybrids(bench: _Bench, found: Mapping[str, Measured], firsts: tuple[int, ...]) -> None:
    """Figures 25 and 26: partitions of the first level, up to the plain mechanisms at both ends."""
    pictures = ((SPEED, "Figure 25: l1", "evaluators"), (TUPLES, "Figure 26: l1", "communication"))
    ends = {"spatial-first": ("prefix", "location"), "keyword-first": ("location", "prefix")}
    for kind, option in (("spatial-first", "boxes"), ("keyword-first", "ranges")):
        lines = {
            first: bench.measure(
                f"Figures 25, 26: {first} x {bench.workers // first}", kind, bench.stream, bench.workers, f"l1_{first}_",
                **{option: first},
            )
            for first in firsts
        }  # fmt: skip
        low, high = ends[kind]
        for first, one in (*lines.items(), (1, found[low]), (bench.workers, found[high])):
            for unit, title, name in pictures:
                bench.point(unit, title, kind, first, getattr(one, name))


def _hotspots(bench: _Bench, *, quick: bool) -> None:
    """A hotspot in mid-run, of places and of a word, with balancing and without (7.4 says how, not how well)."""
    calm = 4 if quick else CALM
    hot = replace(bench.stream, epochs=calm + SETTLING + (5 if quick else LATE), hot=calm, messages=HOT_MESSAGES)
    for burst, word in ((False, "condensed"), (True, "burst")):
        for kind in ("prefix",) if quick else SPLIT:
            plan = plan_of_start(kind, hot, HOT_WORKERS)
            for balanced in (False, True):
                topology = dskype_topology(
                    plan, replace(hot, burst=burst), bench.folder, prefix=MECHANISMS[kind], balanced=balanced
                )
                seen = observed(topology)
                cost = seen.cost[hot.begin : hot.begin + hot.epochs]
                name = f"{kind}_{word}_{'balanced' if balanced else 'static'}"
                bench.figures[f"{name}_efficiency"] = efficiency = _efficiency(cost[calm + SETTLING :], HOT_WORKERS)
                bench.figures[f"{name}_largest"] = largest = float(cost[calm + SETTLING :].max(1).mean())
                moved = sum(move["queries_moved"] for move in seen.summary["rebalances"])
                label = f"{kind}, {'balanced' if balanced else 'static'}"
                bench.rows.append(
                    [
                        f"hotspot, {word}", label, str(HOT_WORKERS), f"{moved:,} moved", f"largest {largest:,.0f}", "", "",
                        "", "", f"{efficiency:.3f}",
                    ]
                )  # fmt: skip
                for epoch, row in enumerate(cost):
                    bench.point(
                        "parallel efficiency",
                        f"Hotspot {word}: epochs",
                        label,
                        epoch,
                        _efficiency(row[None], HOT_WORKERS),
                    )


def _goals(options: Options) -> list[Goal]:
    if options.quick:
        return []
    hot = [
        Goal(f"{kind}_{word}_balanced_efficiency", at_least=0.85) for kind in SPLIT for word in ("condensed", "burst")
    ]
    return [Goal("prefix_saves", at_least=0.6), Goal("keyword_over_prefix_replication", at_least=1.0), *hot]
