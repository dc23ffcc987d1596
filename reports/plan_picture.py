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

__all__ = ["Areas", "ObjectDensity", "draw_plan", "plan_areas", "prepared_points"]

#: Cells of the density along each side, and objects read at a time.
_SIDE = 256
_ROWS = 1 << 18
#: Workers that have a line of their own beside the picture, and areas with a number in them.
_MOST_LISTED = 24
_MOST_NUMBERED = 400

_NONE: NDArray[np.int64] = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Areas:
    """Rectangles of a plan, in columns.

    Attributes:
        box: min x, min y, max x, max y of each.
        off, worker: its workers ``worker[off[i]:off[i + 1]]``, ascending. None: subscriptions within it are dealt out one
            by one.
        textual: whether its workers share it by text.
    """

    box: NDArray[np.float64]
    off: NDArray[np.int32]
    worker: NDArray[np.int64]
    textual: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.box)

    def workers(self, area: int) -> list[int]:
        """Return the workers of one of them."""
        return self.worker[self.off[area] : self.off[area + 1]].tolist()  # type: ignore[no-any-return]


def plan_areas(plan: Plan) -> Areas:
    """Return the rectangles that a plan divides its space into; one that does not look at places has one."""
    if isinstance(plan, GridPlan):
        part_box = np.repeat(np.arange(len(plan.boxes)), np.diff(plan.part_off))
        return _areas(plan.grid.boxes(plan.boxes), part_box, plan.part_worker, np.diff(plan.part_off) > 1)
    if isinstance(plan, QtTreePlan):
        boxes, leaf_area, leaves = np.unique(plan.leaf_box, axis=0, return_inverse=True, return_counts=True)
        return _areas(boxes, leaf_area.ravel(), plan.leaf_worker, leaves > 1)
    if isinstance(plan, KeywordFirstPlan):
        count = len(plan.boxes)
        boxes = FineGrid(plan.space, plan.columns, plan.rows).boxes(plan.boxes)
        return _areas(boxes, np.arange(count), plan.box_worker, np.ones(count, np.bool_))
    if isinstance(plan, AssignmentPlan):
        held = (plan.rects[:, 0] <= plan.rects[:, 2]) & (plan.rects[:, 1] <= plan.rects[:, 3])
        if held.any():
            return _areas(plan.rects[held], _NONE, _NONE, np.zeros(np.count_nonzero(held), np.bool_))
    whole, everyone = np.array([plan.space.as_tuple()]), np.arange(plan.workers)
    return _areas(whole, np.zeros_like(everyone), everyone, np.array([isinstance(plan, AssignmentPlan)]))


def _areas(
    box: NDArray[np.floating], area: NDArray[np.integer], worker: NDArray[np.integer], textual: NDArray[np.bool_]
) -> Areas:
    """Put areas together from pairs of an area and one of its workers, in any order, some more than once."""
    width = int(worker.max(initial=0)) + 1
    pairs = np.unique(np.asarray(area, np.int64) * width + worker)
    off = np.searchsorted(pairs, np.arange(len(box) + 1) * width).astype(np.int32)
    return Areas(np.asarray(box, np.float64), off, pairs % width, textual)


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
    by_text = np.count_nonzero(areas.textual)
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


def _draw_areas(axes: Any, areas: Areas) -> None:
    from matplotlib.patches import Rectangle

    numbered = len(areas.worker) <= _MOST_NUMBERED
    for area, (x0, y0, x1, y1) in enumerate(areas.box.tolist()):
        workers = areas.workers(area)
        shape: dict[str, Any] = {"xy": (x0, y0), "width": x1 - x0, "height": y1 - y0, "fill": False}
        if not workers:
            axes.add_patch(Rectangle(**shape, linewidth=0.4, edgecolor=QUIET, zorder=3))
            continue
        if areas.textual[area] and len(workers) > 1:
            axes.add_patch(Rectangle(**shape, linewidth=0, edgecolor=QUIET, alpha=0.45, hatch="//", zorder=1.5))
        axes.add_patch(Rectangle(**shape, linewidth=0.8, edgecolor=INK, zorder=3))
        if len(workers) == 1 or not _lies_over_others(areas.box, area):
            _draw_workers(axes, areas.box[area], workers, numbered)


def _lies_over_others(boxes: NDArray[np.float64], area: int) -> bool:
    """Tell whether an area that is divided by text has others within it, whose colours it would hide."""
    x0, y0, x1, y1 = boxes[area]
    inside = (boxes[:, 0] >= x0) & (boxes[:, 1] >= y0) & (boxes[:, 2] <= x1) & (boxes[:, 3] <= y1)
    return bool(np.count_nonzero(inside) > 1)


def _draw_workers(axes: Any, box: NDArray[np.float64], workers: Sequence[int], numbered: bool) -> None:
    """Colour an area by worker: where it has several, one band of it for each."""
    from matplotlib.patches import Rectangle

    x0, y0, x1, y1 = box.tolist()
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
