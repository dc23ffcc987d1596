"""DSkype's experiments (Section 8.2): distribution mechanisms by throughput, communication and replication, at our scale.

All run on the local runtime, in one thread, where the processor time of each task can be told: "messages/s" is with a core for
each task, so it is that of the busiest one in each epoch; "on one core" is all of them together. Communication counts tuples
from routers to evaluators, replication the workers at which a subscription is filed (and, for loose prefixes, at how many its
definition is). Efficiency is by cost, candidates examined. Hotspots come in mid-run, with the policy `dskype` and without.
"""

import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.dskype_stream import DskypeStream, dskype_topology, plan_of_start
from benchmarks.observed import Observed, observed
from benchmarks.report import Goal, Options, Report

__all__ = ["run"]

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
#: Epochs that a balancer is given after a hotspot has begun.
SETTLING = 20
HOT_WORKERS = 8


@dataclass(frozen=True, slots=True)
class Measured:
    """One run."""

    messages_per_s: float
    on_one_core: float
    communication: float
    replication: float
    stored: float
    efficiency: float

    @classmethod
    def of(cls, seen: Observed, stream: DskypeStream, workers: int) -> "Measured":
        epochs = slice(stream.begin + 2, stream.begin + stream.epochs)
        busy, cost = seen.busy_ms[epochs], seen.cost[epochs]
        count = stream.messages * len(busy)
        tasks = [task for task in seen.summary["tasks"] if task["task"].startswith("evaluator[")]
        total = sum(task.get("objects_in", 0) for task in tasks)
        return cls(
            messages_per_s=count / busy.max(1).sum() * 1e3,
            on_one_core=count / busy.sum() * 1e3,
            communication=total / (stream.messages * (stream.filling + stream.epochs)),
            replication=sum(task.get("filed", 0) for task in tasks) / stream.subscriptions,
            stored=sum(task.get("queries_in", 0) for task in tasks) / stream.subscriptions,
            efficiency=float(cost.sum() / (workers * cost.max(1).sum())),
        )


def run(options: Options) -> Report:
    """Measure the figures of Section 8.2."""
    size = options.queries or (4_000 if options.quick else 50_000)
    stream = DskypeStream(size, window=20_000, epochs=60, seed=options.seed)
    if options.quick:
        stream = replace(stream, window=2_000, epochs=20)
    workers = 8 if options.quick else WORKERS
    figures: dict[str, float] = {}
    rows: list[list[str]] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _one("hash", replace(stream, subscriptions=500, window=500, epochs=6), 2, folder)  # compiles every kernel
        found = {kind: _noted("Figure 21", kind, stream, workers, folder, figures, rows) for kind in MECHANISMS}
        figures["prefix_saves"] = 1 - found["prefix"].communication / found["hash"].communication
        figures["keyword_over_prefix_replication"] = found["keyword"].replication / found["prefix"].replication
        for bolts in (4,) if options.quick else (4, 8, 16):
            for kind in ("hash", "location", "prefix"):
                _noted("Figure 22: bolts", kind, stream, bolts, folder, figures, rows, f"{bolts}_bolts_")
        for k in () if options.quick else (10, 50):
            for kind in ("hash", "location", "prefix"):
                _noted(f"Figure 23: k = {k}", kind, replace(stream, k=k), workers, folder, figures, rows, f"k_{k}_")
        for share in () if options.quick else (2,):
            for kind in ("hash", "location", "prefix"):
                fewer = replace(stream, subscriptions=stream.subscriptions // share)
                _noted("Figure 24: subscriptions", kind, fewer, workers, folder, figures, rows, f"half_{kind}_")
        for first in () if options.quick else (2, 8, 16):
            for kind, option in (("spatial-first", "boxes"), ("keyword-first", "ranges")):
                _noted(f"Figures 25, 26: {first} x {workers // first}", kind, stream, workers, folder, figures, rows,
                       f"l1_{first}_", {option: first})  # fmt: skip
        _hotspots(stream, folder, figures, rows)
    return Report(
        name="dskype",
        data=f"synthetic stream, {size:,} subscriptions with 1 to 5 words, a window of {stream.window:,}, {workers} evaluators",
        seed=options.seed,
        figures=figures,
        goals=_goals(options),
        columns=(
            "experiment", "mechanism", "evaluators", "messages/s", "on one core", "communication", "replication", "stored",
            "efficiency",
        ),
        rows=rows,
        notes=("messages/s with a core for each task; communication in tuples a message",),
    )  # fmt: skip


def _one(kind: str, stream: DskypeStream, workers: int, folder: Path, **options: Any) -> Measured:
    plan = plan_of_start(kind, stream, workers, **options)
    return Measured.of(observed(dskype_topology(plan, stream, folder, prefix=MECHANISMS[kind])), stream, workers)


def _noted(
    title: str, kind: str, stream: DskypeStream, workers: int, folder: Path, figures: dict[str, float],
    rows: list[list[str]], before: str = "", options: dict[str, Any] | None = None,
) -> Measured:  # fmt: skip
    one = _one(kind, stream, workers, folder, **(options or {}))
    for name in ("messages_per_s", "communication", "replication", "efficiency"):
        figures[f"{before}{kind}_{name}"] = getattr(one, name)
    rows.append(
        [
            title, kind, str(workers), f"{one.messages_per_s:,.0f}", f"{one.on_one_core:,.0f}", f"{one.communication:.2f}",
            f"{one.replication:.2f}", f"{one.stored:.2f}", f"{one.efficiency:.3f}",
        ]
    )  # fmt: skip
    return one


def _hotspots(stream: DskypeStream, folder: Path, figures: dict[str, float], rows: list[list[str]]) -> None:
    """A hotspot in mid-run, of places and of a word, with balancing and without (7.4 says how, not how well)."""
    calm = 20
    hot = replace(stream, epochs=calm + SETTLING + 20, hot=calm)
    for burst, word in ((False, "condensed"), (True, "burst")):
        for kind in ("location", "keyword", "prefix"):
            plan = plan_of_start(kind, hot, HOT_WORKERS)
            for balanced in (False, True):
                topology = dskype_topology(
                    plan, replace(hot, burst=burst), folder, prefix=MECHANISMS[kind], balanced=balanced
                )
                seen = observed(topology)
                late = seen.cost[hot.begin + calm + SETTLING : hot.begin + hot.epochs]
                efficiency = float(late.sum() / (HOT_WORKERS * np.maximum(late.max(1), 1e-9).sum()))
                name = f"{kind}_{word}_{'balanced' if balanced else 'static'}_efficiency"
                figures[name] = efficiency
                moved = sum(move["queries_moved"] for move in seen.summary["rebalances"])
                label = f"{kind}, {'balanced' if balanced else 'static'}"
                rows.append(
                    [
                        f"hotspot, {word}",
                        label,
                        str(HOT_WORKERS),
                        "",
                        "",
                        f"{moved:,} moved",
                        "",
                        "",
                        f"{efficiency:.3f}",
                    ]
                )


def _goals(options: Options) -> list[Goal]:
    if options.quick:
        return []
    hot = [
        Goal(f"{kind}_{word}_balanced_efficiency", at_least=0.85)
        for kind in ("location", "keyword", "prefix")
        for word in ("condensed", "burst")
    ]
    return [Goal("prefix_saves", at_least=0.6), Goal("keyword_over_prefix_replication", at_least=1.0), *hot]
