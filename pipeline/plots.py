"""Pictures: a plan over its data, and a run's load and throughput over time.

Neither needs Spark. A plan is drawn over a heat map of the objects: an area for each box or leaf in the colour of its
worker, hatched where it is divided by text as well.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from partitioners.grids.fine_grid import FineGrid
from partitioners.plans.assignment_plan import AssignmentPlan
from partitioners.plans.grid_plan import GridPlan
from partitioners.plans.keyword_first import KeywordFirstPlan
from partitioners.plans.plan import Plan, load
from partitioners.plans.qt_tree import QtTreePlan
from streams.errors import DeclarationError, InputError
from streams.files.prepared import object_paths
from streams.geometry import Rect

__all__ = ["Area", "object_heat", "plan_areas", "plot_plan", "plot_summary"]

#: Cells of the heat map along each side, and objects read at a time.
_HEAT_SIDE = 256
_HEAT_ROWS = 1 << 18
#: Slices of time that throughput is drawn in.
_TIME_SLICES = 60

Box = tuple[float, float, float, float]


@dataclass(frozen=True, slots=True)
class Area:
    """A rectangle of a plan (min x, min y, max x, max y), its workers, and whether they share it by text.

    No workers: the rectangle encloses subscriptions that are dealt out one by one.
    """

    box: Box
    workers: tuple[int, ...]
    textual: bool


def plan_areas(plan: Plan) -> list[Area]:
    """Return the rectangles that a plan divides its space into; one that does not look at places has one."""
    if isinstance(plan, GridPlan):
        ends = zip(plan.part_off[:-1].tolist(), plan.part_off[1:].tolist(), strict=True)
        workers = [tuple(plan.part_worker[first:last].tolist()) for first, last in ends]
        return [Area(plan.grid.box(box), who, len(who) > 1) for box, who in zip(plan.boxes, workers, strict=True)]
    if isinstance(plan, QtTreePlan):
        together: dict[Box, list[int]] = {}
        for box, worker in zip(plan.leaf_box.tolist(), plan.leaf_worker.tolist(), strict=True):
            together.setdefault((box[0], box[1], box[2], box[3]), []).append(worker)
        return [Area(box, tuple(who), len(who) > 1) for box, who in together.items()]
    if isinstance(plan, KeywordFirstPlan):
        grid = FineGrid(plan.space, plan.columns, plan.rows)
        return [Area(grid.box(b), (w,), True) for b, w in zip(plan.boxes, plan.box_worker.tolist(), strict=True)]
    everyone = tuple(range(plan.workers))
    if isinstance(plan, AssignmentPlan):
        areas = [Area((a, b, c, d), (), False) for a, b, c, d in plan.rects.tolist() if a <= c and b <= d]
        return areas or [Area(plan.space.as_tuple(), everyone, True)]
    return [Area(plan.space.as_tuple(), everyone, False)]


def object_heat(data: str | Path, space: Rect, side: int = _HEAT_SIDE) -> NDArray[np.float64]:
    """Return the objects of a prepared data set by cell (rows x columns), read a part at a time."""
    heat = np.zeros((side, side))
    spans = [[space.min_y, space.max_y], [space.min_x, space.max_x]]
    for path in object_paths(data):
        for batch in pq.ParquetFile(path).iter_batches(batch_size=_HEAT_ROWS, columns=["x", "y"]):
            x, y = (batch[name].to_numpy(zero_copy_only=False) for name in ("x", "y"))
            heat += np.histogram2d(y, x, bins=side, range=spans)[0]
    return heat


def plot_plan(plan: Plan | str | Path, data: str | Path | None, out: str | Path) -> None:
    """Draw a plan over the objects of a prepared data set (None: over nothing) to a PNG file."""
    held = load(plan) if isinstance(plan, str | Path) else plan
    out = _target(out)
    figure, axes = _figure(10, 8)
    space = held.space
    if data is not None:
        heat = np.log1p(object_heat(data, space))
        extent = (space.min_x, space.max_x, space.min_y, space.max_y)
        axes.imshow(heat, origin="lower", extent=extent, aspect="auto", cmap="Greys", interpolation="nearest")
    areas = plan_areas(held)
    _draw_areas(axes, areas, held.workers)
    axes.set_xlim(space.min_x, space.max_x)
    axes.set_ylim(space.min_y, space.max_y)
    by_text = sum(area.textual for area in areas)
    axes.set_title(f"{held.kind}: {len(areas)} areas, {by_text} divided by text (hatched), {held.workers} workers")
    figure.tight_layout()
    figure.savefig(out, dpi=120)


def _draw_areas(axes: Any, areas: Sequence[Area], workers: int) -> None:
    from matplotlib import colormaps
    from matplotlib.patches import Rectangle

    colours = colormaps["hsv"].resampled(max(workers, 2) + 1)
    for area in areas:
        x0, y0, x1, y1 = area.box
        hatch = "///" if area.textual else None
        if not area.workers:
            axes.add_patch(Rectangle((x0, y0), x1 - x0, y1 - y0, fill=False, linewidth=0.4, edgecolor="tab:blue"))
            continue
        # An area of several workers is striped: one band of it for each.
        width = (x1 - x0) / len(area.workers)
        for i, worker in enumerate(area.workers):
            band = Rectangle((x0 + i * width, y0), width, y1 - y0, color=colours(worker), alpha=0.35, linewidth=0)
            axes.add_patch(band)
        axes.add_patch(Rectangle((x0, y0), x1 - x0, y1 - y0, fill=False, linewidth=0.8, edgecolor="black", hatch=hatch))


def plot_summary(summary: str | Path | Mapping[str, Any], out: str | Path) -> None:
    """Draw a run's throughput and the load of its evaluators over time to a PNG file.

    Over time where the summary has a ``timeline`` (a list of ``seconds``, ``objects`` so far, ``costs`` of each evaluator
    since the entry before, and the ``epochs`` that it covers from ``epoch`` on); otherwise its totals: cost by evaluator,
    and latency. Rebalances are marked by epoch.
    """
    told = _summary(summary)
    out = _target(out)
    timeline = told.get("timeline") or []
    figure, (above, below) = _figure(10, 7, rows=2)
    if len(timeline) > 1:
        _draw_timeline(above, below, timeline, [int(one["epoch"]) for one in told.get("rebalances", [])])
    else:
        _draw_totals(above, below, told)
    rate, imbalance = told.get("objects_per_s", 0.0), told.get("imbalance", {})
    figure.suptitle(
        f"{told['objects']:,} objects, {told['queries']:,} queries, {told['results']:,} results; {rate:,.0f} objects/s; "
        f"imbalance {imbalance.get('start', 1):.2f} at the start, {imbalance.get('end', 1):.2f} at the end; "
        f"{len(told.get('rebalances', []))} rebalances",
        fontsize=10,
    )
    figure.tight_layout()
    figure.savefig(out, dpi=120)


def _draw_timeline(above: Any, below: Any, timeline: Sequence[Mapping[str, Any]], changes: Sequence[int]) -> None:
    """Draw throughput over slices of time, and the cost of an epoch by evaluator, with a line where the plan changed."""
    seconds = np.array([entry["seconds"] for entry in timeline], np.float64)
    objects = np.array([entry["objects"] for entry in timeline], np.float64)
    # Epochs are complete in bursts, so the rate from one to the next says nothing.
    slices = np.linspace(0.0, max(seconds[-1], 1e-9), min(_TIME_SLICES, len(timeline)))
    above.plot(slices[1:], np.diff(np.interp(slices, seconds, objects)) / np.diff(slices), drawstyle="steps-pre")
    above.set_ylabel("objects/s")
    above.set_xlabel("seconds")
    above.set_ylim(bottom=0)
    most = max(len(entry["costs"]) for entry in timeline)
    costs = np.array([list(entry["costs"]) + [0] * (most - len(entry["costs"])) for entry in timeline[1:]], np.float64)
    epochs = np.array([entry.get("epoch", place) for place, entry in enumerate(timeline[1:])], np.float64)
    covered = np.array([max(entry.get("epochs", 1), 1) for entry in timeline[1:]], np.float64)
    for worker in range(most):
        below.plot(epochs, costs[:, worker] / covered, label=f"evaluator {worker}", linewidth=1.0)
    for epoch in sorted(set(changes)):
        below.axvline(epoch, color="black", linewidth=0.4, linestyle=":")
    below.set_ylabel("cost of an epoch")
    below.set_xlabel("epoch; dotted: the plan changed" if changes else "epoch")
    if most <= 16:
        below.legend(fontsize=7, ncols=4)


def _draw_totals(above: Any, below: Any, told: Mapping[str, Any]) -> None:
    evaluators = told.get("evaluators", [])
    above.bar([str(entry["task"]) for entry in evaluators], [entry["cost"] for entry in evaluators])
    above.set_ylabel("cost by evaluator")
    latency = told.get("latency_ms", {})
    below.bar(list(latency), list(latency.values()))
    below.set_ylabel("latency of an epoch, ms")


def _summary(summary: str | Path | Mapping[str, Any]) -> Mapping[str, Any]:
    told: Any = summary
    if isinstance(summary, str | Path):
        try:
            told = json.loads(Path(summary).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise InputError(f"{summary} cannot be read as a summary ({error}); make one with --summary") from error
    missing = [key for key in ("objects", "queries", "results") if not isinstance(told, Mapping) or key not in told]
    if missing:
        raise InputError(f"{summary if isinstance(summary, str | Path) else 'the summary'} has no '{missing[0]}'")
    found: Mapping[str, Any] = told
    return found


def _target(out: str | Path) -> Path:
    path = Path(out)
    if path.suffix.lower() != ".png":
        raise DeclarationError(f"{path} is no name for a picture; expected an ending .png")
    if not path.parent.is_dir():
        raise InputError(f"{path.parent} is no folder to write {path.name} to; make it first")
    return path


def _figure(wide: float, high: float, rows: int = 1) -> tuple[Any, Any]:
    """Return a figure that needs no screen, and its axes."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(wide, high))
    FigureCanvasAgg(figure)
    return figure, figure.subplots(rows)
