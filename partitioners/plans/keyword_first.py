"""The keyword-first hybrid (DSkype, Section 8.2): keyword ranges, and a k-d tree of its own for each of them."""

from dataclasses import InitVar, dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from partitioners.columns import (
    Csr,
    Floats,
    Ints,
    Offsets,
    Points,
    Regions,
    Workers,
    check_csr,
    check_range,
    own_columns,
)
from partitioners.grids.fine_grid import MAX_CELLS, FineGrid
from partitioners.plans.broadcast import scrambled
from partitioners.plans.plan import check_plan, plan_kind, successor
from partitioners.plans.units import moved_units
from streams.columns import csr_take, sorted_rows
from streams.errors import InputError
from streams.geometry import Rect

__all__ = ["KeywordFirstPlan"]


@plan_kind
@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class KeywordFirstPlan:
    """Keywords to parts, places to the boxes of a part.

    A subscription is kept, for each part that its keywords touch, in the box of its place; a message visits all boxes
    of each part that its keywords touch.

    Attributes:
        range_start, range_part: first keywords and the part they belong to (-1: by hash), as in `GridPlan`.
        box_off, boxes, box_worker: the boxes of each part (cells, as in `GridPlan`) and their workers.
    """

    kind: ClassVar[str] = "keyword-first"

    space: Rect
    workers: int
    columns: int
    rows: int
    range_start: Ints
    range_part: Workers
    box_off: Offsets
    boxes: NDArray[np.int32]
    box_worker: Workers
    cost: Floats
    version: int = 1
    near: InitVar["KeywordFirstPlan | None"] = None
    owner: NDArray[np.int32] = field(init=False, repr=False)

    def __post_init__(self, near: "KeywordFirstPlan | None") -> None:
        own_columns(
            self, range_start=(np.int64, 1), box_off=(np.int32, 1), boxes=(np.int32, 2), box_worker=(np.int32, 1)
        )
        own_columns(self, cost=(np.float64, 1), range_part=(np.int32, 1))
        same = near is not None and near.boxes is self.boxes and near.box_off is self.box_off and near.grid == self.grid
        object.__setattr__(self, "owner", near.owner if near is not None and same else self._painted())
        own_columns(self, owner=(np.int32, 2))
        self.check()

    def _painted(self) -> NDArray[np.int32]:
        grid = FineGrid(self.space, self.columns, self.rows)
        parts = self.parts
        if parts < 1 or parts * grid.cells > MAX_CELLS:
            raise InputError(f"{parts} parts of {grid.cells:,} cells; expected 1 up to {MAX_CELLS:,} cells together")
        check_csr("box_off", self.box_off, len(self.boxes), parts)
        check_range("boxes", self.boxes[:, ::2], 0, grid.columns)
        check_range("boxes", self.boxes[:, 1::2], 0, grid.rows)
        owner = np.full((parts, grid.rows, grid.columns), -1, np.int32)
        which = np.repeat(np.arange(parts), np.diff(self.box_off))
        for number, (x0, y0, x1, y1) in enumerate(self.boxes.tolist()):
            owner[which[number], y0 : y1 + 1, x0 : x1 + 1] = number
        return owner.reshape(parts, grid.cells)

    @property
    def grid(self) -> FineGrid:
        """The fine grid under the boxes."""
        return FineGrid(self.space, self.columns, self.rows)

    @property
    def parts(self) -> int:
        """The number of parts that keywords are divided into."""
        return len(self.box_off) - 1

    @property
    def meets_once(self) -> bool:
        """Only where keywords are not divided."""
        return self.parts == 1

    @property
    def reads_words(self) -> bool:
        """Whether keywords are divided."""
        return self.parts > 1

    @property
    def single_home(self) -> bool:
        """Only where keywords are not divided: then a query has the worker of its place."""
        return self.parts == 1

    @property
    def unit_worker(self) -> Workers:
        """The worker of each box of a keyword part."""
        return self.box_worker

    def with_units(self, units: ArrayLike, workers: ArrayLike) -> "KeywordFirstPlan":
        """Return the next plan, in which these units have these workers."""
        return successor(self, box_worker=moved_units(self.box_worker, units, workers, self.workers))

    def check(self) -> None:
        """Raise unless the boxes of every part cover the space exactly once and keyword ranges ascend."""
        check_plan(self)
        if len(self.box_worker) != len(self.boxes) or len(self.cost) != len(self.boxes):
            raise InputError("a keyword-first plan needs a worker and a cost for each box")
        check_range("box_worker", self.box_worker, 0, self.workers)
        area = (self.boxes[:, 2:].astype(np.int64) - self.boxes[:, :2] + 1).prod(axis=1)
        covered = np.add.reduceat(area, self.box_off[:-1]) if len(area) else np.empty(0)
        if (self.owner < 0).any() or (covered != self.grid.cells).any():
            raise InputError("the boxes of a keyword part do not cover the space exactly once; build the plan again")
        check_range("range_part", self.range_part, -1, self.parts)
        if len(self.range_part) != len(self.range_start) or (np.diff(self.range_start) <= 0).any():
            raise InputError("the keyword ranges of a plan must ascend, each with a part")

    def _parts_of(self, kw: Ints) -> Ints:
        place = np.searchsorted(self.range_start, kw, side="right") - 1
        part = np.append(self.range_part, np.int32(-1))[place]  # place -1, before the first range, finds the -1
        return np.where(part >= 0, part, scrambled(kw, self.parts)).astype(np.int64)

    def route_points(self, points: Points) -> Csr:
        """Return the workers of all boxes of the parts that each object touches."""
        p = points
        row = np.repeat(np.arange(len(p.x)), np.diff(p.kw_off))
        plain = np.flatnonzero(np.diff(p.kw_off) == 0)
        row = np.concatenate([row, plain])
        which = np.concatenate([self._parts_of(p.kw), scrambled(p.x.view(np.int64)[plain], self.parts)])
        off, worker = csr_take(self.box_off, self.box_worker, which)
        return _distinct(np.repeat(row, np.diff(off)), worker, len(p.x))

    def route_regions(self, regions: Regions) -> Csr:
        """Return, for the parts that each query is filed under, the worker of its place."""
        r = regions
        rows = len(r)
        lengths = np.diff(r.kw_off)
        row = np.repeat(np.arange(rows), lengths)
        filed = r.match_any[row] | (np.arange(len(r.kw)) == r.kw_off[1:][row] - 1)
        plain = np.flatnonzero(lengths == 0)
        row = np.concatenate([row[filed], np.repeat(plain, self.parts)])
        which = np.concatenate([self._parts_of(r.kw[filed]), np.tile(np.arange(self.parts), len(plain))])
        cell = self.grid.cells_of(r.at_x, r.at_y)
        return _distinct(row, self.box_worker[self.owner[which, cell[row]]], rows)


def _distinct(row: Ints, worker: NDArray[np.integer], rows: int) -> Csr:
    order = np.argsort(row, kind="stable")
    off, distinct = sorted_rows(row[order], worker[order].astype(np.int64), rows)
    return off, distinct.astype(np.int32)
