"""Results on a map: where objects were, which of them somebody was told of, and who asked.

Matches are dots that grow with the number of results; lists (the k nearest, the k best) are lines from the question to what
is on its list at the end; counts of words are drawn as the regions that they are counted in.
"""

import gzip
import itertools
import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from reports.canvas import INK, QUIET, colour_of, fit_ticks, new_figure, picture_path, save_picture
from reports.map_outlines import draw_map
from streams.errors import InputError
from streams.geometry import EARTH_RADIUS_M, Rect

__all__ = ["Alerts", "alert_figure", "alerts_of", "draw_alerts", "read_lines"]

#: Questions that are drawn: those with the most results. Those with lists are fewer, for they bring many lines.
MOST_QUESTIONS, MOST_LISTS = 40, 12

#: The part of the space that holds all but the farthest of what is drawn is shown, and so much around it.
#: A view is at most so many times as high as it is wide, as it is drawn.
_MOST_UPRIGHT = 1.1
_MARGIN = 0.06

#: Regions that are drawn are shown whole where that makes the picture at most so many times as wide and as high.
_MOST_WIDENING = 6.0

Point = tuple[float, float]
Line = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Alerts:
    """What a results file says: how often each object was told of, and the last list of each query that has one."""

    told: Counter[str] = field(default_factory=Counter)
    by_query: Counter[str] = field(default_factory=Counter)
    lists: dict[str, list[str]] = field(default_factory=dict)
    lines: int = 0


def read_lines(path: Path, *, strict: bool = True) -> Iterator[Line]:
    """Yield the records of a file of results, or of queries; where it is not `strict`, lines that are none are passed over."""
    try:
        if path.name.endswith(".parquet"):
            yield from pq.read_table(path).to_pylist()
            return
        with gzip.open(path) if path.suffix == ".gz" else pa.input_stream(str(path)) as stream:
            lines = stream.read().splitlines()
    except (OSError, pa.ArrowInvalid) as error:
        raise InputError(f"{path} cannot be read as results ({error}); make them with --results") from None
    for number, line in enumerate(lines, 1):
        try:
            yield json.loads(line)
        except ValueError as error:
            if strict:
                raise InputError(
                    f"{path}, line {number}: not JSON ({error}); results are made with --results"
                ) from None


def alerts_of(lines: Iterable[Line]) -> Alerts:
    """Add up the lines of a results file."""
    told: Counter[str] = Counter()
    by_query: Counter[str] = Counter()
    lists: dict[str, list[str]] = {}
    count = 0
    for line in lines:
        if not isinstance(line, Mapping) or "query" not in line:
            raise InputError(f"line {count + 1} is no result: it has no 'query'; expected a file of --results")
        count += 1
        query = str(line["query"])
        by_query[query] += 1
        if line.get("object") is not None:
            told[str(line["object"])] += 1
        elif line.get("objects") is not None:
            lists[query] = [_listed(item) for item in line["objects"]]
    for items in lists.values():
        told.update(items)
    return Alerts(told, by_query, lists, count)


def _listed(item: Any) -> str:
    """Return the identifier of an item of a list: lines have it first, tables by name, lists without values bare."""
    if isinstance(item, Mapping):
        return str(item["id"])
    return str(item[0] if isinstance(item, list) else item)


def draw_alerts(
    alerts: Alerts,
    places: Mapping[str, Point],
    questions: Mapping[str, Line],
    space: Rect,
    out: str | Path,
    *,
    on_map: bool,
    metric: str = "euclidean",
) -> None:
    """Draw alerts to a PNG file, as `alert_figure` has them."""
    path = picture_path(out)
    save_picture(alert_figure(alerts, places, questions, space, on_map=on_map, metric=metric), path)


def alert_figure(
    alerts: Alerts,
    places: Mapping[str, Point],
    questions: Mapping[str, Line],
    space: Rect,
    *,
    on_map: bool,
    metric: str = "euclidean",
) -> Any:
    """Return a figure of alerts.

    Args:
        alerts: what was told.
        places: of all objects, by identifier as text.
        questions: registrations by identifier as text, as a query file has them.
        space: of the topology.
        on_map: whether places are longitudes and latitudes.
        metric: of distances; with haversine, radii are metres.
    """
    everything = np.array(list(places.values()), np.float64).reshape(-1, 2)
    at: Counter[Point] = Counter()
    for name, count in alerts.told.items():
        if name in places:
            at[places[name]] += count
    busiest = [
        name
        for name, _ in alerts.by_query.most_common(MOST_LISTS if alerts.lists else MOST_QUESTIONS)
        if name in questions
    ]
    view = _with_regions(_view(at, everything, space), [questions[name] for name in busiest], space, metric)
    tall = _tall((view.min_y + view.max_y) / 2) if on_map else 1.0
    view = _widened(view, tall, space)
    ratio = tall * (view.max_y - view.min_y) / (view.max_x - view.min_x)
    figure = new_figure(11, min(max(10.0 * ratio + 1.5, 4.0), 10.0))
    axes = figure.subplots()
    if on_map:
        draw_map(axes, view)
    else:
        axes.set_xlabel("x, in units of the data")
        axes.set_ylabel("y, in units of the data")
    axes.scatter(*everything.T, s=3, color=QUIET, alpha=0.35, linewidths=0, zorder=2, label="an object")
    if busiest:
        axes.plot(
            [],
            [],
            color=colour_of(0),
            linewidth=0.8,
            label="a question: its region, or its place (x) and what is on its list",
        )
    for name in busiest:
        _draw_question(
            axes, questions[name], [places[one] for one in alerts.lists.get(name, ()) if one in places], metric
        )
    _draw_told(axes, at)
    axes.set_xlim(view.min_x, view.max_x)
    axes.set_ylim(view.min_y, view.max_y)
    axes.set_aspect(tall)
    fit_ticks(axes, figure, ratio)
    axes.set_title(_title(alerts, len(busiest)), loc="left", fontsize=11, color=INK)
    figure.legend(loc="outside lower center", ncols=3, fontsize=8, frameon=False)
    return figure


def _title(alerts: Alerts, drawn: int) -> str:
    asked = len(alerts.by_query)
    said = f"{_counted(alerts.lines, 'result')} for {_counted(asked, 'question')}"
    return said if drawn == asked else f"{said}; drawn: the {drawn} with the most"


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _draw_told(axes: Any, at: Mapping[Point, int]) -> None:
    """Draw objects that somebody was told of; those at one place together, as large as the number of results."""
    if not at:
        return
    counts = np.array(list(at.values()), np.float64)
    sizes = 8 + 180 * np.sqrt(counts / counts.max())
    axes.scatter(
        *np.array(list(at)).T, s=sizes, color=colour_of(3), alpha=0.55, edgecolors="white", linewidths=0.4, zorder=4,
        label=f"results about objects there (the largest dot: {counts.max():,.0f})",
    )  # fmt: skip


def _draw_question(axes: Any, question: Line, listed: list[Point], metric: str) -> None:
    from matplotlib.patches import Ellipse, Polygon, Rectangle

    look: dict[str, Any] = {"fill": False, "edgecolor": colour_of(0), "linewidth": 0.8, "alpha": 0.7, "zorder": 3}
    region = question.get("region") or {}
    if "rect" in region:
        a, b, c, d = region["rect"]
        axes.add_patch(Rectangle((a, b), c - a, d - b, **look))
    elif "circle" in region:
        x, y, radius = region["circle"]
        wide, high = _radii(radius, y, metric)
        axes.add_patch(Ellipse((x, y), 2 * wide, 2 * high, **look))
    for ring in _rings(region, metric):
        turns = [0.0]
        if metric == "haversine":  # what lies beyond the antimeridian is seen at the other edge
            turns += [turn for turn in (-360.0, 360.0) if any(abs(x) > 180 and x * turn < 0 for x, _ in ring)]
        for turn in turns:
            axes.add_patch(Polygon([(x + turn, y) for x, y in ring], closed=True, **look))
    if "at" in question:
        x, y = question["at"]
        for other in listed:
            axes.plot([x, other[0]], [y, other[1]], color=colour_of(0), linewidth=0.6, alpha=0.6, zorder=3)
        axes.plot([x], [y], marker="x", color=colour_of(0), markersize=5, zorder=5)


def _rings(region: Line, metric: str) -> list[list[Point]]:
    """Return the rings of a region, holes too; on the globe, one that jumps across the antimeridian goes on beyond it.

    Of one that is no polygon there are none.
    """
    if region.get("type") == "MultiPolygon":
        rings = [ring for polygon in region["coordinates"] for ring in polygon]
    else:
        rings = region.get("polygon") or region.get("coordinates") or []
    written = [[(float(position[0]), float(position[1])) for position in ring] for ring in rings]
    return [_unbroken(ring) for ring in written] if metric == "haversine" else written


def _unbroken(ring: list[Point]) -> list[Point]:
    """Return a ring whose edges of more than 180 degrees go the other way round, as the meaning of polygons has it."""
    turn = 0.0
    unbroken = ring[:1]
    for (before, _), (x, y) in itertools.pairwise(ring):
        if 180 < abs(x - before) < 360:
            turn -= math.copysign(360.0, x - before)
        unbroken.append((x + turn, y))
    return unbroken


def _tall(latitude: float) -> float:
    """Return how much higher than wide a degree is drawn, so that shapes at a latitude are as they are on the ground."""
    return 1 / max(math.cos(math.radians(latitude)), 0.2)


def _radii(radius: float, latitude: float, metric: str) -> Point:
    """Return a circle's radii along x and y in units of the picture."""
    if metric != "haversine":
        return radius, radius
    degrees = math.degrees(radius / EARTH_RADIUS_M)
    return degrees / max(math.cos(math.radians(latitude)), 0.01), degrees


def _view(at: Counter[Point], places: Any, space: Rect) -> Rect:
    """Return the part of the space to show: where nearly all results are, or nearly all objects where there are none."""
    points, weights = (np.array(list(at)), list(at.values())) if at else (places, [1] * len(places))
    if not len(points):
        return space
    low, high = (
        np.array([_weighted_quantile(points[:, axis], np.array(weights), share) for axis in (0, 1)])
        for share in (0.005, 0.995)
    )
    around = _MARGIN * max(*(high - low).tolist(), 1e-9)
    low, high = low - around, high + around
    return Rect(
        max(float(low[0]), space.min_x), max(float(low[1]), space.min_y),
        min(float(high[0]), space.max_x), min(float(high[1]), space.max_y),
    )  # fmt: skip


def _with_regions(view: Rect, questions: Iterable[Line], space: Rect, metric: str) -> Rect:
    """Return a view that shows the borders of regions too, but for those beside which the objects would be one dot."""
    low, high = np.array([view.min_x, view.min_y]), np.array([view.max_x, view.max_y])
    most = _MOST_WIDENING * (high - low)
    for question in questions:
        if (box := _region_box(question, metric)) is None:
            continue
        margin = _MARGIN * (box[1] - box[0])
        wider_low, wider_high = np.minimum(low, box[0] - margin), np.maximum(high, box[1] + margin)
        if (wider_high - wider_low <= most).all():
            low, high = wider_low, wider_high
    return Rect(
        max(float(low[0]), space.min_x), max(float(low[1]), space.min_y),
        min(float(high[0]), space.max_x), min(float(high[1]), space.max_y),
    )  # fmt: skip


def _widened(view: Rect, tall: float, space: Rect) -> Rect:
    """Return a view that is no column: with what is left and right of it, as far as the space goes."""
    missing = (tall * (view.max_y - view.min_y) / _MOST_UPRIGHT - (view.max_x - view.min_x)) / 2
    if missing <= 0:
        return view
    return Rect(max(view.min_x - missing, space.min_x), view.min_y, min(view.max_x + missing, space.max_x), view.max_y)


def _region_box(question: Line, metric: str) -> Any:
    """Return the lower left and upper right corner of a region, as it is drawn; None where there is none."""
    region = question.get("region") or {}
    if "rect" in region:
        return np.array(region["rect"], np.float64).reshape(2, 2)
    if "circle" in region:
        x, y, radius = region["circle"]
        wide, high = _radii(radius, y, metric)
        return np.array([[x - wide, y - high], [x + wide, y + high]])
    positions = [position for ring in _rings(region, metric) for position in ring]
    return np.array([np.min(positions, axis=0), np.max(positions, axis=0)]) if positions else None


def _weighted_quantile(values: Any, weights: Any, share: float) -> float:
    order = np.argsort(values)
    upto = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(upto, share * upto[-1])])
