"""A plan over its data: an area for each box or leaf, in the colour and with the number of its worker.

Hatched areas are divided by text as well. Behind them are the objects, and land where places are longitudes and latitudes;
beside them is the share of the objects that each worker is sent.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from partitioners.columns import Points
from partitioners.grids.fine_grid import FineGrid
from partitioners.plans.assignment_plan import AssignmentPlan
from partitioners.plans.grid_plan import GridPlan
from partitioners.plans.keyword_first import KeywordFirstPlan
from partitioners.plans.plan import Plan, load
from partitioners.plans.qt_tree import QtTreePlan
from reports.canvas import INK, QUIET, colour_of, fit_ticks, new_figure, picture_path, save_picture
from reports.map_outlines import draw_map, looks_geographic
from streams.files.prepared import object_paths
from streams.geometry import Rect

__all__ = ["Area", "ObjectDensity", "draw_plan", "plan_areas", "prepared_points"]

#: Cells of the density along each side, and objects read at a time.
_SIDE = 256
_ROWS = 1 << 18
#: Workers that have a line of their own beside the picture, and areas with a number in them.
_MOST_LISTED = 24
_MOST_NUMBERED = 400

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


@dataclass(frozen=True, slots=True, eq=False)
class ObjectDensity:
    """Objects by cell (rows x columns), how many there are, and how many each worker of a plan is sent."""

    heat: NDArray[np.float64]
    objects: int
    sent: NDArray[np.int64]

    @classmethod
    def of(cls, plan: Plan, parts: Iterable[Points]) -> "ObjectDensity":
        """Count objects, a part at a time."""
        space = plan.space
        heat, sent, objects = np.zeros((_SIDE, _SIDE)), np.zeros(plan.workers, np.int64), 0
        spans = [[space.min_y, space.max_y], [space.min_x, space.max_x]]
        for points in parts:
            heat += np.histogram2d(points.y, points.x, bins=_SIDE, range=spans)[0]
            sent += np.bincount(plan.route_points(points)[1], minlength=plan.workers)
            objects += len(points)
        return cls(heat, objects, sent)


def prepared_points(data: str | Path) -> Iterator[Points]:
    """Yield the objects of a prepared data set, a part at a time."""
    for path in object_paths(data):
        file = pq.ParquetFile(path)
        words = [name for name in ("keyword_ids",) if name in file.schema_arrow.names]
        for batch in file.iter_batches(batch_size=_ROWS, columns=["x", "y", *words]):
            x, y = (batch[name].to_numpy(zero_copy_only=False) for name in ("x", "y"))
            if not words:
                yield Points.of(x, y)
                continue
            lists = batch[words[0]].combine_chunks() if hasattr(batch[words[0]], "combine_chunks") else batch[words[0]]
            sizes = np.array([len(row) if row is not None else 0 for row in lists.to_pylist()], np.int32)
            values = lists.flatten().to_numpy(zero_copy_only=False)
            yield Points.of(x, y, np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32), values)


def draw_plan(
    plan: Plan | str | Path, parts: Iterable[Points] | None, out: str | Path, *, on_map: bool | None = None
) -> None:
    """Draw a plan over objects (None: over nothing) to a PNG file; on a map where its space is one of degrees."""
    held = load(plan) if isinstance(plan, str | Path) else plan
    path = picture_path(out)
    density = ObjectDensity.of(held, parts) if parts is not None else None
    space = held.space
    ratio = (space.max_y - space.min_y) / (space.max_x - space.min_x)
    figure = new_figure(11, min(max(8.6 * ratio + 0.9, 4.0), 10.0))
    axes = figure.subplots()
    if looks_geographic(space) if on_map is None else on_map:
        draw_map(axes, space)
    else:
        axes.set_xlabel("x, in units of the data")
        axes.set_ylabel("y, in units of the data")
    if density is not None:
        _draw_density(axes, density.heat, space)
    areas = plan_areas(held)
    _draw_areas(axes, areas)
    axes.set_xlim(space.min_x, space.max_x)
    axes.set_ylim(space.min_y, space.max_y)
    axes.set_aspect("equal")
    fit_ticks(axes, figure, ratio)
    by_text = sum(area.textual for area in areas)
    hatched = f", {by_text:,} of them divided by text (hatched)" if by_text else ""
    axes.set_title(
        f"{held.kind} plan: {len(areas):,} areas{hatched}, {held.workers:,} workers", loc="left", fontsize=11, color=INK
    )
    _list_workers(axes, held, density)
    save_picture(figure, path)


def _draw_density(axes: Any, heat: NDArray[np.float64], space: Rect) -> None:
    extent = (space.min_x, space.max_x, space.min_y, space.max_y)
    seen = np.ma.masked_equal(np.log1p(heat), 0.0)
    axes.imshow(
        seen, origin="lower", extent=extent, aspect="auto", cmap="Greys", vmin=-1, interpolation="nearest", zorder=2
    )


def _draw_areas(axes: Any, areas: Sequence[Area]) -> None:
    from matplotlib.patches import Rectangle

    boxes = np.array([area.box for area in areas])
    numbered = sum(len(area.workers) for area in areas) <= _MOST_NUMBERED
    for area in areas:
        x0, y0, x1, y1 = area.box
        shape: dict[str, Any] = {"xy": (x0, y0), "width": x1 - x0, "height": y1 - y0, "fill": False}
        if not area.workers:
            axes.add_patch(Rectangle(**shape, linewidth=0.4, edgecolor=QUIET, zorder=3))
            continue
        if area.textual and len(area.workers) > 1:
            axes.add_patch(Rectangle(**shape, linewidth=0, edgecolor=QUIET, alpha=0.45, hatch="//", zorder=1.5))
        axes.add_patch(Rectangle(**shape, linewidth=0.8, edgecolor=INK, zorder=3))
        if not _lies_over_others(area, boxes):
            _draw_workers(axes, area, numbered)


def _lies_over_others(area: Area, boxes: NDArray[np.float64]) -> bool:
    """Tell whether an area that is divided by text has others within it, whose colours it would hide."""
    x0, y0, x1, y1 = area.box
    inside = (boxes[:, 0] >= x0) & (boxes[:, 1] >= y0) & (boxes[:, 2] <= x1) & (boxes[:, 3] <= y1)
    return len(area.workers) > 1 and bool(np.count_nonzero(inside) > 1)


def _draw_workers(axes: Any, area: Area, numbered: bool) -> None:
    """Colour an area by worker: where it has several, one band of it for each."""
    from matplotlib.patches import Rectangle

    x0, y0, x1, y1 = area.box
    workers = sorted(set(area.workers))
    width = (x1 - x0) / len(workers)
    for place, worker in enumerate(workers):
        left = x0 + place * width
        axes.add_patch(
            Rectangle((left, y0), width, y1 - y0, color=colour_of(worker), alpha=0.28, linewidth=0, zorder=1)
        )
        if numbered:
            axes.text(
                left + width / 2, (y0 + y1) / 2, str(worker), ha="center", va="center", fontsize=8, color=INK, clip_on=True,
                zorder=4, bbox={"boxstyle": "circle,pad=0.15", "fc": "white", "ec": "none", "alpha": 0.75},
            )  # fmt: skip


def _list_workers(axes: Any, plan: Plan, density: ObjectDensity | None) -> None:
    """Say beside the picture what each worker is sent; where objects go to several, the shares add up to more than all."""
    from matplotlib.patches import Patch

    def share(worker: int) -> str:
        if density is None or not density.objects:
            return ""
        return f": {density.sent[worker] / density.objects:.0%} of objects"

    shown = range(min(plan.workers, _MOST_LISTED))
    handles = [Patch(color=colour_of(worker), alpha=0.5, label=f"worker {worker}{share(worker)}") for worker in shown]
    if plan.workers > _MOST_LISTED:
        handles.append(Patch(alpha=0, label=f"and {plan.workers - _MOST_LISTED:,} more"))
    title = "sent to each worker" if density is not None else "workers"
    axes.legend(
        handles=handles, loc="upper left", bbox_to_anchor=(1.01, 1.0), fontsize=8, frameon=False, title=title,
        alignment="left", title_fontsize=9,
    )  # fmt: skip
