"""Routing of points and ranges (Tornado, Figure 7): A-Grid next to a plain grid and an R-tree, one thread, batches of 1,000.

Partitions are k-d decompositions by objects of the skewed stream; ranges are squares around places of its objects. "side
0.5%" is half a percent of the side of the space, as in Tornado's Table 1; "area 0.5%" is half a percent of its area, which
"of the entire spatial range" in Section 5.2 may mean as well. Times are CPU times of the thread, the median of rounds in
which the routers take turns, because the machine is shared. All routers have to give the same rows.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from benchmarks.report import Goal, Options, Report
from benchmarks.synthetic_stream import synthetic_objects
from partitioners.builders.kd_decomposition import kd_decomposition
from partitioners.grids.a_grid import AGrid
from partitioners.grids.fine_grid import DEFAULT_SIDE, FineGrid
from partitioners.grids.plain_grid import PlainGrid
from partitioners.grids.r_tree import RTree
from partitioners.grids.range_routing import RangeRouter
from streams.errors import RunError
from streams.geometry import Rect

__all__ = ["run"]

Floats = NDArray[np.float64]
Columns = tuple[Floats, ...]

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

    def points(self) -> list[Columns]:
        """Return the places in batches."""
        return _batches((self.x, self.y))

    def ranges(self, side: float) -> list[Columns]:
        """Return squares around the places in batches."""
        half = side / 2
        return _batches((self.x - half, self.y - half, self.x + half, self.y + half))


def _batches(columns: Columns) -> list[Columns]:
    return [tuple(c[start : start + BATCH] for c in columns) for start in range(0, len(columns[0]), BATCH)]


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
            Goal("a_grid_points_per_s", at_least=10e6),
            Goal("granularity_2000_over_500", at_most=1.3),
        ],
        columns=("partitions", "what", "overlaps", "A-Grid ns", "grid ns", "R-tree ns", "lead"),
        rows=rows,
        notes=(
            "ns for a point or a range, one thread, batches of 1,000; all routers gave the same rows",
            "lead: the time of the faster of the two others over that of A-Grid",
            "fine: A-Grid with the same partitions on grids of side 500, 1000 and 2000, mean over the ranges by side; "
            f"2000 over 500 is {figures['granularity_2000_over_500_worst']:.2f} at worst",
        ),
    )


def _routers(grid: FineGrid, boxes: NDArray[np.int32]) -> dict[str, RangeRouter]:
    return {
        "a_grid": AGrid.of_boxes(grid, boxes, np.arange(len(boxes))),
        "grid": PlainGrid.of_boxes(grid, boxes),
        "r_tree": RTree.of_boxes(grid, boxes),
    }


def _scaled(boxes: NDArray[np.int32], side: int) -> tuple[FineGrid, NDArray[np.int32]]:
    """Lay partitions of the coarse grid over a finer one, so that only the granularity differs."""
    finer = side // COARSE
    return FineGrid(SPACE, side, side), boxes * finer + np.array([0, 0, finer - 1, finer - 1], np.int32)


def _timed(calls: Mapping[str, tuple[Callable[[Columns], object], Sequence[Columns]]], rounds: int) -> dict[str, float]:
    """Return nanoseconds a row of each call, which take turns; the first round compiles and is not counted."""
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds + 1):
        for name, (call, batches) in calls.items():
            start = time.thread_time()
            for batch in batches:
                call(batch)
            seconds[name].append(time.thread_time() - start)
    size = {name: sum(len(batch[0]) for batch in batches) for name, (_, batches) in calls.items()}
    return {name: float(np.median(taken[1:])) / size[name] * 1e9 for name, taken in seconds.items()}


def _row(partitions: int, what: str, overlaps: float, ns: Mapping[str, float], lead: float) -> tuple[str, ...]:
    return (f"{partitions:,}", what, f"{overlaps:.1f}", *(f"{value:,.0f}" for value in ns.values()), f"{lead:.2f} x")


def _points(
    stream: Stream, tilings: Mapping[int, NDArray[np.int32]], figures: dict[str, float]
) -> list[tuple[str, ...]]:
    rows, batches, slowest = [], stream.points(), 0.0
    for partitions, boxes in tilings.items():
        routers = _routers(*_scaled(boxes, USUAL))
        answers = [np.concatenate([r.route_points(*batch) for batch in batches]) for r in routers.values()]
        if any((answer != answers[0]).any() for answer in answers):
            raise RunError(f"the routers disagree about points over {partitions} partitions")
        ns = _timed({name: (_call(r.route_points), batches) for name, r in routers.items()}, stream.rounds)
        figures |= {f"{name}_point_ns_{partitions}": value for name, value in ns.items()}
        slowest = max(slowest, ns["a_grid"])
        rows.append(_row(partitions, "points", 1.0, ns, min(ns["grid"], ns["r_tree"]) / ns["a_grid"]))
    figures["a_grid_points_per_s"] = 1e9 / slowest
    return rows


def _ranges(
    stream: Stream, tilings: Mapping[int, NDArray[np.int32]], figures: dict[str, float]
) -> list[tuple[str, ...]]:
    rows = []
    leads: dict[str, list[float]] = {"side": [], "area": []}
    for (partitions, boxes), (what, side) in product(tilings.items(), RANGES.items()):
        routers = _routers(*_scaled(boxes, USUAL))
        batches = stream.ranges(side)
        few = batches[: len(batches) // 10] if (side * USUAL) ** 2 > _MANY_CELLS else batches
        given = {name: few if name == "grid" else batches for name in routers}
        overlaps = _agreed(routers, given, f"{what} over {partitions} partitions")
        ns = _timed({name: (_call(r.route_ranges), given[name]) for name, r in routers.items()}, stream.rounds)
        lead = min(ns["grid"], ns["r_tree"]) / ns["a_grid"]
        key = f"{partitions}_{what.replace(' ', '_').rstrip('%')}"
        figures |= {f"{name}_range_ns_{key}": value for name, value in ns.items()}
        if side >= FROM:
            leads[what.split()[0]].append(lead)
        rows.append(_row(partitions, what, overlaps, ns, lead))
    figures["a_grid_lead_from_half_a_percent"] = min(leads["side"])
    figures["a_grid_lead_by_area"] = min(leads["area"])
    return rows


def _agreed(routers: Mapping[str, RangeRouter], given: Mapping[str, Sequence[Columns]], what: str) -> float:
    """Return the partitions that a range overlaps on average; raise unless all routers find the same."""
    answers = {name: [router.route_ranges(*batch) for batch in given[name]] for name, router in routers.items()}
    for name, answer in answers.items():
        for (off, found), (expected_off, expected) in zip(answer, answers["a_grid"], strict=False):
            if not (np.array_equal(off, expected_off) and np.array_equal(found, expected)):
                raise RunError(f"{name} and a_grid disagree about ranges of {what}")
    return sum(len(found) for _, found in answers["a_grid"]) / sum(len(off) - 1 for off, _ in answers["a_grid"])


def _granularities(
    stream: Stream, tilings: Mapping[int, NDArray[np.int32]], figures: dict[str, float]
) -> list[tuple[str, ...]]:
    """Compare A-Grids of three granularities over the same partitions; rows are means over the ranges by side."""
    rows: list[tuple[str, ...]] = []
    ratios = []
    for partitions, boxes in tilings.items():
        made = {s: AGrid.of_boxes(*_scaled(boxes, s), np.arange(len(boxes))) for s in (COARSE, USUAL, FINE)}
        total = dict.fromkeys(made, 0.0)
        for share in SHARES:
            batches = stream.ranges(share)
            calls = {str(side): (_call(a_grid.route_ranges), batches) for side, a_grid in made.items()}
            ns = _timed(calls, stream.rounds)
            ratios.append(ns[str(FINE)] / ns[str(COARSE)])
            for side in made:
                figures[f"a_grid_{side}_range_ns_{partitions}_{share * 100:.1f}"] = ns[str(side)]
                total[side] += ns[str(side)] / len(SHARES)
        for side, mean in total.items():
            against = f"{mean / total[COARSE]:.2f} x" if side != COARSE else ""
            rows.append((f"{partitions:,}", f"fine {side}", "", f"{mean:,.0f}", "", "", against))
    figures["granularity_2000_over_500"] = float(np.median(ratios))
    figures["granularity_2000_over_500_worst"] = max(ratios)
    return rows


def _call(method: Callable[..., object]) -> Callable[[Columns], object]:
    return lambda columns: method(*columns)
