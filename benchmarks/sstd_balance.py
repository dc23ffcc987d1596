"""SSTD's workload adjustment (Section 7.6, Figures 14 and 15): what PM, FM and FG do after a load imbalance.

Standing queries are registered and objects are kept, then load comes to a region in the middle: some or all of the objects, or
many new queries. Each plan of action has the same stream and the same first plan. Measured are the queries that move, the
epochs from the insertion to the last change of the plan, and, in the epochs after it had its time: the latency of snapshot
queries (as in ``sstd-snapshot``), objects/s with a core for each task, and the parallel efficiency by candidates examined: by
epoch, where chance decides as well who got the few dear ones of a thousand objects; over as many epochs as may be under
way, because a task that is behind in one of them catches up in the next; and by epoch if all evaluators had the same work in
all epochs together, which is what chance leaves to be reached.
"""

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.observed import observed
from benchmarks.pictures import checked_folder, drawn
from benchmarks.report import Goal, Options, Report
from benchmarks.sstd_stream import Questions, SstdStream
from benchmarks.sstd_topology import INDEXES, latency_ms, plan_of_start, sstd_topology
from operators.balancing.registry import POLICIES
from partitioners.plans.plan import Plan

__all__ = ["run"]

Floats = NDArray[np.float64]

WORKERS = 8
#: Epochs before the insertion, those in which load may be balanced after it, and those that are measured.
CALM, SETTLING, MEASURED = 12, 60, 40
#: What is done: the name, and which methods the policy `sstd` may use, in the paper's order; none: nothing moves.
PLANS: Mapping[str, str] = {
    "none": "", "pm": "pm", "fm": "fm", "pm+fm": "pm,fm", "fg": "fg", "pm+fm+fg": "pm,fm,fg",
}  # fmt: skip
#: How much is inserted: shares of the objects, or of as many queries as there are already; and what is measured.
EXTENTS = (0.3, 0.6, 1.0)
FIELDS = ("moved", "epochs", "latency", "objects_per_s", "efficiency", "under_way", "at_best")
#: Epochs that may be under way, as in conf/sstd.toml.
PENDING = 8
#: How much of FG's efficiency all methods together must reach, and how even load must be.
AS_GOOD, EVEN = 0.97, 0.85


@dataclass(frozen=True, slots=True)
class Adjusted:
    """What came of one plan of action."""

    moved: int
    epochs: int
    latency: float
    objects_per_s: float
    efficiency: float
    under_way: float
    at_best: float


def run(options: Options) -> Report:
    """Measure both insertions; with `options.out` (a folder), draw them."""
    checked_folder(options.out)
    count = options.queries or (2_000 if options.quick else 40_000)
    stream, workers = _stream(count, options), 4 if options.quick else WORKERS
    figures: dict[str, float] = {}
    rows: list[list[str]] = []
    series: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        plan = plan_of_start(INDEXES["qt-tree"], stream, workers)
        _measure("none", replace(stream, kept=1_000), plan, folder)  # compiles every kernel
        for figure, insert in (("Figure 14", "objects"), ("Figure 15", "queries")):
            found: dict[str, Adjusted] = {}
            for strength in EXTENTS[-1:] if options.quick else EXTENTS:
                hot = replace(stream, insert=insert, inserted=strength * (count if insert == "queries" else 1))
                found = {done: _measure(done, hot, plan, folder) for done in _plans()}
                for done, one in found.items():
                    _note(insert, strength, done, one, figures, rows)
                    for field in FIELDS:
                        line = series.setdefault(f"{figure} {field}: {insert} inserted", {}).setdefault(done, [])
                        line.append((strength, getattr(one, field)))
            _compare(insert, found, figures)
    notes = [f"drawn: {path}" for path in drawn("sstd-balance", "", series, options.out)] if options.out else []
    return Report(
        name="sstd-balance",
        data=f"synthetic stream, {count:,} standing queries, {stream.kept:,} objects kept, {stream.batch:,} objects and a "
        f"question an epoch, {workers} evaluators, a QT-tree; inserted near the centre: objects, or up to {count:,} queries",
        seed=options.seed,
        figures=figures,
        goals=[] if options.quick else _goals(),
        columns=(
            "inserted",
            "done",
            "queries moved",
            "epochs",
            "latency ms",
            "objects/s",
            "efficiency",
            f"of {PENDING} epochs",
            "at best",
        ),
        rows=rows,
        notes=[
            *notes,
            "objects/s with a core for each task; epochs from the insertion to the last change; efficiency by epoch, "
            f"in windows of {PENDING}, and by epoch if all evaluators had the same work in all epochs together",
        ],
    )


def _stream(count: int, options: Options) -> SstdStream:
    epochs = CALM + SETTLING + MEASURED
    if options.quick:
        epochs //= 2
    return SstdStream(
        5_000 if options.quick else 200_000,
        standing=(Questions("crq", count * 3 // 4), Questions("ckq", count // 8), Questions("ctq", count // 8)),
        asked=(Questions("srq", epochs),), batch=200 if options.quick else 1_000, calm=CALM // 2 if options.quick else CALM,
        seed=options.seed,
    )  # fmt: skip


def _plans() -> list[str]:
    """Return the plans of action that the shipped policies can follow."""
    return [done for done, methods in PLANS.items() if not methods or "sstd" in POLICIES]


def _policy(done: str) -> dict[str, Any] | None:
    return {"policy": "sstd", "settings": {"methods": PLANS[done]}} if PLANS[done] else None


def _measure(done: str, stream: SstdStream, plan: Plan, folder: Path) -> Adjusted:
    seen = observed(sstd_topology(INDEXES["qt-tree"], stream, plan, folder, _policy(done)))
    hot = stream.begin + stream.calm
    late = slice(
        hot + (stream.lasting - stream.calm) * SETTLING // (SETTLING + MEASURED), stream.begin + stream.lasting
    )
    cost, changes = seen.cost[late], [move for move in seen.summary["rebalances"] if move["epoch"] >= hot]
    return Adjusted(
        moved=sum(move["queries_moved"] for move in changes),
        epochs=max((move["epoch"] - hot for move in changes), default=0),
        latency=float(np.median(latency_ms(seen)[late])),
        objects_per_s=stream.batch * len(cost) / seen.busy_ms[late].max(1).sum() * 1e3,
        efficiency=_efficiency(cost, 1),
        under_way=_efficiency(cost, PENDING),
        at_best=_efficiency(cost / np.maximum(cost.mean(0), 1.0), 1),
    )


def _efficiency(cost: Floats, epochs: int) -> float:
    """Return the mean work of workers over that of the busiest, in windows of so many epochs."""
    windows = len(cost) // epochs
    work = cost[: windows * epochs].reshape(windows, epochs, -1).sum(1)
    return float(work.sum() / max(work.shape[1] * work.max(1).sum(), 1.0))


def _note(
    insert: str, strength: float, done: str, one: Adjusted, figures: dict[str, float], rows: list[list[str]]
) -> None:
    for field in FIELDS:
        name = f"{insert}_{done}_{field}" if strength == EXTENTS[-1] else f"{insert}_{strength:g}_{done}_{field}"
        figures[name] = float(getattr(one, field))
    rows.append(
        [
            f"{strength:.0%} {insert}", done, f"{one.moved:,}", f"{one.epochs}", f"{one.latency:.2f}",
            f"{one.objects_per_s:,.0f}", f"{one.efficiency:.3f}", f"{one.under_way:.3f}", f"{one.at_best:.3f}",
        ]
    )  # fmt: skip


def _compare(insert: str, found: Mapping[str, Adjusted], figures: dict[str, float]) -> None:
    """Note what the goals are about: all methods against FG alone."""
    if "fg" in found:
        every, alone = found["pm+fm+fg"], found["fg"]
        figures[f"{insert}_moved_of_fg"] = every.moved / max(alone.moved, 1)
        figures[f"{insert}_efficiency_of_fg"] = every.efficiency / max(alone.efficiency, 1e-9)


def _goals() -> list[Goal]:
    return [
        bound
        for insert in ("objects", "queries")
        for bound in (
            Goal(f"{insert}_pm+fm+fg_efficiency", at_least=EVEN),
            Goal(f"{insert}_efficiency_of_fg", at_least=AS_GOOD),
            Goal(f"{insert}_moved_of_fg", at_most=1.0),
        )
    ]
