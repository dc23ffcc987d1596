"""What an evaluator sends the balancer: a few numbers instead of its statistics (Tornado, Section 4.3).

The balancer decides by overall costs. What it cannot know, the evaluator works out from its aggregates by row and column
in O(m + n): where it would best be split, what each corner shift would move. `knots` go beyond the paper: the cost up to a
few positions along each axis, from which the balancer knows what a shift of a border is worth before it decides.
"""

from dataclasses import dataclass

import numpy as np

from operators.balancing.tornado.aggregates import AXES, BandSums, Ints, LoadAggregates
from operators.balancing.tornado.partitions import Partitions
from partitioners.grids.adjacency import Adjacency, Side, corner_strip, neighbours_of
from partitioners.plans.grid_plan import GridPlan
from streams.errors import DeclarationError

__all__ = [
    "KNOTS",
    "MAX_KNOTS",
    "CornerShift",
    "Knot",
    "PartitionLoad",
    "Split",
    "best_split",
    "load_of_partition",
    "load_of_sums",
    "split_at",
]

#: Knots of an axis, unless set otherwise, and at most.
KNOTS = 64
MAX_KNOTS = 1024


@dataclass(frozen=True, slots=True)
class Split:
    """A cut of a partition in two.

    Attributes:
        axis: 0 cuts between columns, 1 between rows.
        position: the last column or row of the low part.
        low_cost, high_cost: the costs of the parts.
        low_queries, high_queries: the queries of the parts; those that overlap both are counted in both.
    """

    axis: int
    position: int
    low_cost: int
    high_cost: int
    low_queries: int
    high_queries: int

    @property
    def larger(self) -> int:
        """The cost of the dearer part."""
        return max(self.low_cost, self.high_cost)


@dataclass(frozen=True, slots=True)
class CornerShift:
    """The strip that a neighbour at a corner can take over (Figure 3c); where it lies follows from the two boxes.

    Attributes:
        taker: the worker of the neighbour.
        side: where the neighbour is.
        cost, queries: those of the strip.
    """

    taker: int
    side: Side
    cost: int
    queries: int


@dataclass(frozen=True, slots=True)
class Knot:
    """What lies on both sides of a position of an axis.

    Attributes:
        position: the last column or row of the low part.
        low_cost: the cost of the low part; the other has the rest.
        low_queries, high_queries: the queries of the parts.
    """

    position: int
    low_cost: int
    low_queries: int
    high_queries: int


@dataclass(frozen=True, slots=True)
class PartitionLoad:
    """The load of an evaluator's partition under one plan, in a few numbers.

    Attributes:
        worker: the evaluator.
        version: the plan under which it was counted.
        cost: its overall cost (Equation 2).
        queries: its number of queries.
        split: the split that divides the cost most evenly; None for a single cell.
        corners: what each corner shift would move.
        knots: by axis, ascending positions within the box; none where the policy does not ask for them.
    """

    worker: int
    version: int
    cost: int
    queries: int
    split: Split | None
    corners: tuple[CornerShift, ...] = ()
    knots: tuple[tuple[Knot, ...], tuple[Knot, ...]] = ((), ())


def load_of_partition(load: LoadAggregates, plan: GridPlan, worker: int, knots: int = KNOTS) -> PartitionLoad:
    """Return what a worker's index has counted since the plan took effect, in O(m + n)."""
    box = Partitions.of(plan).box(worker)
    return load_of_sums(BandSums.of_load(load, box), plan, worker, knots)


def load_of_sums(sums: BandSums, plan: GridPlan, worker: int, knots: int = KNOTS) -> PartitionLoad:
    """Return the load of a worker's box from its aggregates; at most so many knots an axis."""
    if not 0 <= knots <= MAX_KNOTS:
        raise DeclarationError(f"a load of {knots} knots an axis; expected 0 to {MAX_KNOTS:,}")
    return PartitionLoad(
        worker,
        plan.version,
        sums.cost,
        sums.queries,
        best_split(sums),
        _corners(sums, plan, Partitions.of(plan).number(worker)),
        (_knots(sums, 0, knots), _knots(sums, 1, knots)),
    )


def best_split(sums: BandSums) -> Split | None:
    """Return the split with the smallest difference in cost over all positions of both axes; None for a single cell.

    The paper scans to the first position at or beyond half of the cost, where the one before it may be better; looking
    at all of them is O(m + n) as well. Of equal splits, the one that fewest queries overlap on both sides is taken, then
    the one between columns, then the first.
    """
    found: list[tuple[int, int, int, Split]] = []
    for axis in AXES:
        uneven = np.abs(2 * sums.costs[axis][1:-1] - sums.cost)
        if not len(uneven):
            continue
        equal = np.flatnonzero(uneven == uneven.min())
        both = (sums.started[axis] - sums.ended[axis])[equal + 1]
        split = split_at(sums, axis, sums.box[axis] + int(equal[both.argmin()]))
        found.append((int(uneven.min()), int(both.min()), axis, split))
    return min(found)[-1] if found else None


def split_at(sums: BandSums, axis: int, position: int) -> Split:
    """Return what a cut at a position divides."""
    first, last = sums.box[axis], sums.box[axis + 2]
    low = sums.band_cost(axis, first, position)
    return Split(
        axis,
        position,
        low,
        sums.cost - low,
        sums.band_queries(axis, first, position),
        sums.band_queries(axis, position + 1, last),
    )


def _corners(sums: BandSums, plan: GridPlan, partition: int) -> tuple[CornerShift, ...]:
    """Return what each corner shift would move: a band, so the aggregates tell exactly."""
    found = []
    for neighbour in neighbours_of(plan.boxes, partition):
        if neighbour.adjacency is not Adjacency.CORNER:
            continue
        other = Partitions.box_of(plan, neighbour.partition)
        strip, _, _ = corner_strip(sums.box, other, neighbour.side)
        axis = 1 if neighbour.side in (Side.LEFT, Side.RIGHT) else 0
        band = (axis, strip[axis], strip[axis + 2])
        taker = int(plan.part_worker[neighbour.partition])
        found.append(CornerShift(taker, neighbour.side, sums.band_cost(*band), sums.band_queries(*band)))
    return tuple(found)


def _knots(sums: BandSums, axis: int, count: int) -> tuple[Knot, ...]:
    """Return positions that divide the cost of a box into `count` + 1 parts, as evenly as its columns or rows allow."""
    low = sums.costs[axis][1:-1]
    if len(low) <= count:
        places: Ints = np.arange(len(low))
    else:
        marks = -(-sums.cost * np.arange(1, count + 1) // (count + 1))
        places = np.unique(np.minimum(np.searchsorted(low, marks), len(low) - 1))
    costs, started, ended = sums.costs[axis], sums.started[axis], sums.ended[axis]
    columns = (
        sums.box[axis] + places,
        costs[places + 1],
        started[places + 1] - ended[0],
        started[-1] - ended[places + 1],
    )
    return tuple(Knot(*row) for row in np.column_stack(columns).tolist())
