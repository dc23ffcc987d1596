"""Routing of points and ranges (Tornado, Figure 7): a grid plan with its A-Grid, next to a plain grid, an R-tree and a walk.

What is measured is what routers call: `route_points` and `route_regions` of the plan, one thread, batches of 1,000. The walk
from box to box is what plans routed with before (`benchmarks.box_walk`).

Partitions are k-d decompositions by objects of the skewed stream; ranges are squares around places of its objects. "side
0.5%" is half a percent of the side of the space, as in Tornado's Table 1; "area 0.5%" is half a percent of its area, which
"of the entire spatial range" in Section 5.2 may mean as well. Times are CPU times of the thread, the median of rounds in
which the routers take turns, because the machine is shared. All routers have to give the same rows.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.box_walk import BoxWalk
from benchmarks.report import Goal, Options, Report
from benchmarks.synthetic_stream import synthetic_objects
from partitioners.builders.kd_decomposition import kd_decomposition
from partitioners.columns import Csr, Points, Regions, Workers
from partitioners.grids.fine_grid import DEFAULT_SIDE, FineGrid
from partitioners.grids.plain_grid import PlainGrid
from partitioners.grids.r_tree import RTree
from partitioners.grids.range_routing import RangeRouter
from partitioners.plans.broadcast import one_each
from partitioners.plans.grid_plan import GridPlan
from streams.errors import RunError
from streams.geometry import Rect

__all__ = ["run"]

Floats = NDArray[np.float64]
Boxes = NDArray[np.int32]
Rows = Points | Regions

BATCH = 1000
PARTITIONS = (16, 64, 256, 1024)
SHARES = (0.001, 0.005, 0.01, 0.05)
#: Name of a range -> its side as a share of the space's.
RANGES = {f"side {s:.1%}": s for s in SHARES} | {f"area {s:.1%}": s**0.5 for s in SHARES}
#: Goals hold for ranges by side from here on.
FROM = 0.005
#: Sides of the fine grid that are compared; the middle one is that of the tables.
COARSE, USUAL, FINE = 500, DEFAULT_SIDE, 2000
SPACE = Rect(0.0, 0.0, 1.0, 1.0)
#: A range of more cells than this is given to the plain grid one time in ten only, as it would take minutes.
_MANY_CELLS = 3000


@dataclass(frozen=True, slots=True)
class Stream:
    """Places to route, and how often each measurement is taken."""

    x: Floats
    y: Floats
    rounds: int

    def points(self) -> list[Points]:
        """Return the places in batches."""
        return [Points.of(self.x[start : start + BATCH], self.y[start : start + BATCH]) for start in self._starts()]

    def regions(self, side: float) -> list[Regions]:
        """Return squares around the places in batches."""
        edges = self.x - side / 2, self.y - side / 2, self.x + side / 2, self.y + side / 2
        cut = [tuple(edge[start : start + BATCH] for edge in edges) for start in self._starts()]
        return [Regions.of((low_x, low_y, high_x, high_y)) for low_x, low_y, high_x, high_y in cut]

    def _starts(self) -> range:
        return range(0, len(self.x), BATCH)


@dataclass(frozen=True, slots=True)
class Router:
    """How a structure routes points and ranges."""

    points: Callable[[Points], Csr]
    regions: Callable[[Regions], Csr]


def run(options: Options) -> Report:
    """Measure points, ranges by partitions and size, and grids of three granularities."""
    objects = synthetic_objects(100_000 if options.quick else 400_000, options.seed)
    count = 10_000 if options.quick else 20_000
    rng = np.random.default_rng(options.seed)
    chosen = np.sort(rng.permutation(len(objects))[:count])
    stream = Stream(objects.x[chosen], objects.y[chosen], rounds=5 if options.quick else 11)
    costs = FineGrid(SPACE, COARSE, COARSE).counts(objects.x, objects.y)
    tilings = {partitions: kd_decomposition(costs, partitions) for partitions in PARTITIONS}
    figures: dict[str, float] = {}
    rows = _points(stream, tilings, figures) + _ranges(stream, tilings, figures)
    rows += _granularities(stream, tilings, figures)
    return Report(
        name="routing",
        data=f"synthetic stream, k-d partitions by {len(objects):,} objects, {count:,} ranges, fine grid {USUAL} x {USUAL}",
        seed=options.seed,
        figures=figures,
        goals=[
            Goal("a_grid_lead_from_half_a_percent", at_least=1.0),
            Goal("points_over_walk", at_least=1.0),
            Goal("ranges_over_walk", at_least=1.0),
            Goal("a_grid_points_per_s", at_least=10e6),
            Goal("granularity_2000_over_500", at_most=1.3),
        ],
        columns=("partitions", "what", "overlaps", "A-Grid ns", "grid ns", "R-tree ns", "walk ns", "lead"),
        rows=rows,
        notes=(
            "ns for a point or a range, one thread, batches of 1,000; all routers gave the same rows",
            "A-Grid: the routes of a grid plan; lead: the time of the faster of grid and R-tree over that of A-Grid",
            "walk: what plans routed with before they had an A-Grid; "
            f"its time over that of A-Grid is {figures['points_over_walk']:.2f} for points, "
            f"{figures['ranges_over_walk']:.2f} for ranges at least",
            "fine: A-Grid with the same partitions on grids of side 500, 1000 and 2000, mean over the ranges by side; "
            f"2000 over 500 is {figures['granularity_2000_over_500_worst']:.2f} at worst",
        ),
    )


def _plan(grid: FineGrid, boxes: Boxes) -> GridPlan:
    return GridPlan.of_boxes(grid, boxes, np.arange(len(boxes)), len(boxes))


def _routers(grid: FineGrid, boxes: Boxes) -> dict[str, Router]:
    plan, plain, tree = _plan(grid, boxes), PlainGrid.of_boxes(grid, boxes), RTree.of_boxes(grid, boxes)
    walk = BoxWalk.of_plan(plan)
    return {
        "a_grid": Router(plan.route_points, plan.route_regions),
        "grid": _of_workers(plain, plan.part_worker),
        "r_tree": _of_workers(tree, plan.part_worker),
        "walk": Router(walk.route_points, walk.route_regions),
    }


def _of_workers(router: RangeRouter, worker: Workers) -> Router:
    """Return a structure that finds partitions as one that finds their workers, which ascend as the partitions do."""

    def regions(rows: Regions) -> Csr:
        off, partition = router.route_ranges(*rows.bounds)
        return off, worker[partition]

    return Router(lambda rows: one_each(worker[router.route_points(rows.x, rows.y)]), regions)


def _scaled(boxes: Boxes, side: int) -> tuple[FineGrid, Boxes]:
    """Lay partitions of the coarse grid over a finer one, so that only the granularity differs."""
    finer = side // COARSE
    return FineGrid(SPACE, side, side), boxes * finer + np.array([0, 0, finer - 1, finer - 1], np.int32)


def _timed(calls: Mapping[str, tuple[Callable[[Any], Csr], Sequence[Rows]]], rounds: int) -> dict[str, float]:
    """Return nanoseconds a row of each call, which take turns; the first round compiles and is not counted."""
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds + 1):
        for name, (call, batches) in calls.items():
            start = time.thread_time()
            for batch in batches:
                call(batch)
            seconds[name].append(time.thread_time() - start)
    size = {name: sum(len(batch) for batch in batches) for name, (_, batches) in calls.items()}
    return {name: float(np.median(taken[1:])) / size[name] * 1e9 for name, taken in seconds.items()}


def _row(partitions: int, what: str, overlaps: float, ns: Mapping[str, float], lead: float) -> tuple[str, ...]:
    return (f"{partitions:,}", what, f"{overlaps:.1f}", *(f"{value:,.0f}" for value in ns.values()), f"{lead:.2f} x")


def _points(stream: Stream, tilings: Mapping[int, Boxes], figures: dict[str, float]) -> list[tuple[str, ...]]:
    rows, batches, slowest, leads = [], stream.points(), 0.0, []
    for partitions, boxes in tilings.items():
        routers = _routers(*_scaled(boxes, USUAL))
        given = dict.fromkeys(routers, batches)
        _agreed({name: r.points for name, r in routers.items()}, given, f"points over {partitions} partitions")
        ns = _timed({name: (r.points, batches) for name, r in routers.items()}, stream.rounds)
        figures |= {f"{name}_point_ns_{partitions}": value for name, value in ns.items()}
        slowest = max(slowest, ns["a_grid"])
        leads.append(ns["walk"] / ns["a_grid"])
        rows.append(_row(partitions, "points", 1.0, ns, min(ns["grid"], ns["r_tree"]) / ns["a_grid"]))
    figures["a_grid_points_per_s"] = 1e9 / slowest
    figures["points_over_walk"] = min(leads)
    return rows


def _ranges(stream: Stream, tilings: Mapping[int, Boxes], figures: dict[str, float]) -> list[tuple[str, ...]]:
    rows = []
    leads: dict[str, list[float]] = {"side": [], "area": [], "walk": []}
    for (partitions, boxes), (what, side) in product(tilings.items(), RANGES.items()):
        routers = _routers(*_scaled(boxes, USUAL))
        batches = stream.regions(side)
        few = batches[: len(batches) // 10] if (side * USUAL) ** 2 > _MANY_CELLS else batches
        given = {name: few if name == "grid" else batches for name in routers}
        overlaps = _agreed(
            {name: r.regions for name, r in routers.items()}, given, f"ranges of {what} over {partitions} partitions"
        )
        ns = _timed({name: (r.regions, given[name]) for name, r in routers.items()}, stream.rounds)
        lead = min(ns["grid"], ns["r_tree"]) / ns["a_grid"]
        key = f"{partitions}_{what.replace(' ', '_').rstrip('%')}"
        figures |= {f"{name}_range_ns_{key}": value for name, value in ns.items()}
        leads["walk"].append(ns["walk"] / ns["a_grid"])
        if side >= FROM:
            leads[what.split()[0]].append(lead)
        rows.append(_row(partitions, what, overlaps, ns, lead))
    figures["a_grid_lead_from_half_a_percent"] = min(leads["side"])
    figures["a_grid_lead_by_area"] = min(leads["area"])
    figures["ranges_over_walk"] = min(leads["walk"])
    return rows


def _agreed(calls: Mapping[str, Callable[[Any], Csr]], given: Mapping[str, Sequence[Rows]], what: str) -> float:
    """Return the partitions of a row on average; raise unless all routers find the same."""
    answers = {name: [call(batch) for batch in given[name]] for name, call in calls.items()}
    for name, answer in answers.items():
        for (off, found), (expected_off, expected) in zip(answer, answers["a_grid"], strict=False):
            if not (np.array_equal(off, expected_off) and np.array_equal(found, expected)):
                raise RunError(f"{name} and a_grid disagree about {what}")
    return sum(len(found) for _, found in answers["a_grid"]) / sum(len(off) - 1 for off, _ in answers["a_grid"])


def _granularities(stream: Stream, tilings: Mapping[int, Boxes], figures: dict[str, float]) -> list[tuple[str, ...]]:
    """Compare A-Grids of three granularities over the same partitions; rows are means over the ranges by side."""
    rows: list[tuple[str, ...]] = []
    ratios = []
    for partitions, boxes in tilings.items():
        made = {s: _plan(*_scaled(boxes, s)) for s in (COARSE, USUAL, FINE)}
        total = dict.fromkeys(made, 0.0)
        for share in SHARES:
            batches = stream.regions(share)
            ns = _timed({str(side): (plan.route_regions, batches) for side, plan in made.items()}, stream.rounds)
            ratios.append(ns[str(FINE)] / ns[str(COARSE)])
            for side in made:
                figures[f"a_grid_{side}_range_ns_{partitions}_{share * 100:.1f}"] = ns[str(side)]
                total[side] += ns[str(side)] / len(SHARES)
        for side, mean in total.items():
            against = f"{mean / total[COARSE]:.2f} x" if side != COARSE else ""
            rows.append((f"{partitions:,}", f"fine {side}", "", f"{mean:,.0f}", "", "", "", against))
    figures["granularity_2000_over_500"] = float(np.median(ratios))
    figures["granularity_2000_over_500_worst"] = max(ratios)
    return rows
