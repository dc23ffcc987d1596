"""`GridPlan`: rectangles of fine-grid cells, each with a worker or with workers by keyword.

Most of the papers' global indexes are of this form: Tornado's partitions and a uniform grid (one worker a box),
PS2Stream's kd^t-tree (some boxes divided by text), DSkype's keyword ranges (one box, many parts), its location-based
method and the spatial-first hybrid (`anchored`: a subscription lives in the box of its place, a message visits all
boxes, because a top-k query has no border beyond which nothing counts).
"""

from collections.abc import Sequence
from dataclasses import InitVar, dataclass, field, fields
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
    column,
    own_columns,
)
from partitioners.grids.a_grid import AGrid
from partitioners.grids.fine_grid import FineGrid
from partitioners.grids.range_routing_kernels import workers_of_rows
from partitioners.plans.broadcast import one_each
from partitioners.plans.divisible import NO_WORD, Cut, Divided, Filed, KeywordCuts, Room, filed_words
from partitioners.plans.grid_routing import part_workers, parts_of_words
from partitioners.plans.grid_units import GridUnits
from partitioners.plans.plan import check_plan, plan_kind, successor
from partitioners.plans.units import moved_units
from streams.columns import csr_take
from streams.errors import InputError
from streams.geometry import Rect

__all__ = ["GridPlan", "KeywordParts", "keyword_ranges"]

#: How a box divides its keywords: first keywords of ranges, their base parts (-1: by hash), and the workers of these.
KeywordParts = tuple[Ints, Workers, Workers]


@plan_kind
@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class GridPlan:
    """A tiling of the fine grid; the arrays are laid out as `partitioners.plans.grid_routing` says.

    Boxes are found by A-Grid; what a box that is divided by keywords does with a row is the business of `grid_routing`.

    Attributes:
        boxes: first column, first row, last column, last row of each box.
        part_off, part_worker: the parts of each box and their workers.
        range_off, range_start, range_part: how a box of several parts divides keywords among its base parts.
        cost: the estimated cost of each part, for allocation and display.
        part_base, part_start: how base parts are divided into parts (`partitioners.plans.divisible`); empty: not at all.
        anchored: whether queries stay in the box of their place and objects visit all boxes.
        in_order: whether workers ascend with boxes and are distinct, so that rows of boxes are rows of workers.
        numbered: whether box i is worker i's, as partitioners make plans: then there is nothing to look up.
        a_grid: the structure that points and ranges are routed with; a successor repaints what has changed.
        base_off, base_first: the base parts of boxes, and the parts of base parts.
    """

    kind: ClassVar[str] = "grid"

    space: Rect
    workers: int
    columns: int
    rows: int
    boxes: NDArray[np.int32]
    part_off: Offsets
    part_worker: Workers
    range_off: Offsets
    range_start: Ints
    range_part: Workers
    cost: Floats
    anchored: bool = False
    part_base: Workers = field(default_factory=lambda: np.empty(0, np.int32))
    part_start: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    version: int = 1
    near: InitVar["GridPlan | None"] = None
    a_grid: AGrid = field(init=False, repr=False)
    base_off: Offsets = field(init=False, repr=False)
    base_first: Offsets = field(init=False, repr=False)
    in_order: bool = field(init=False, repr=False)
    numbered: bool = field(init=False, repr=False)

    def __post_init__(self, near: "GridPlan | None") -> None:
        own_columns(
            self, boxes=(np.int32, 2), part_off=(np.int32, 1), part_worker=(np.int32, 1), range_off=(np.int32, 1)
        )
        own_columns(self, range_start=(np.int64, 1), range_part=(np.int32, 1), cost=(np.float64, 1))
        if not len(self.part_base) and not len(self.part_start):
            whole = KeywordCuts.none(np.diff(self.part_off))
            object.__setattr__(self, "part_base", whole.base)
            object.__setattr__(self, "part_start", whole.start)
        own_columns(self, part_base=(np.int32, 1), part_start=(np.int64, 1))
        shared = near is not None and near.grid == self.grid
        a_grid = (
            near.a_grid.with_boxes(self.boxes) if near is not None and shared else AGrid.of_boxes(self.grid, self.boxes)
        )
        object.__setattr__(self, "a_grid", a_grid)
        object.__setattr__(self, "in_order", bool((np.diff(self.part_worker) > 0).all()))
        object.__setattr__(self, "numbered", np.array_equal(self.part_worker, np.arange(len(self.boxes))))
        self.check()
        bases = KeywordCuts(self.part_base, self.part_start).firsts(self.part_off)
        object.__setattr__(self, "base_off", bases[0])
        object.__setattr__(self, "base_first", bases[1])
        own_columns(self, base_off=(np.int32, 1), base_first=(np.int32, 1))

    @classmethod
    def of_boxes(
        cls,
        grid: FineGrid,
        boxes: NDArray[np.integer],
        worker: NDArray[np.integer],
        workers: int,
        cost: Floats | None = None,
        anchored: bool = False,
    ) -> "GridPlan":
        """Make a plan with one worker for each box."""
        count = len(boxes)
        return cls(
            space=grid.space,
            workers=workers,
            columns=grid.columns,
            rows=grid.rows,
            boxes=np.asarray(boxes, np.int32),
            part_off=np.arange(count + 1, dtype=np.int32),
            part_worker=np.asarray(worker, np.int32),
            range_off=np.zeros(count + 1, np.int32),
            range_start=np.empty(0, np.int64),
            range_part=np.empty(0, np.int32),
            cost=np.zeros(count) if cost is None else cost,
            anchored=anchored,
        )

    @classmethod
    def of_parts(
        cls,
        grid: FineGrid,
        boxes: NDArray[np.integer],
        parts: list[KeywordParts],
        workers: int,
        cost: Floats | None = None,
        anchored: bool = False,
    ) -> "GridPlan":
        """Make a plan whose boxes divide their keywords, box i as `parts[i]` says."""
        part_off = np.cumsum([0] + [len(worker) for _, _, worker in parts])
        range_off = np.cumsum([0] + [len(start) for start, _, _ in parts])
        return cls(
            space=grid.space,
            workers=workers,
            columns=grid.columns,
            rows=grid.rows,
            boxes=np.asarray(boxes, np.int32),
            part_off=part_off,
            part_worker=np.concatenate([worker for _, _, worker in parts]),
            range_off=range_off,
            range_start=np.concatenate([start for start, _, _ in parts]),
            range_part=np.concatenate([part for _, part, _ in parts]),
            cost=np.zeros(part_off[-1]) if cost is None else cost,
            anchored=anchored,
        )

    @property
    def grid(self) -> FineGrid:
        """The fine grid under the boxes."""
        return FineGrid(self.space, self.columns, self.rows)

    @property
    def meets_once(self) -> bool:
        """Whether no box is divided by keywords."""
        return len(self.part_worker) == len(self.boxes)

    @property
    def reads_words(self) -> bool:
        """Whether some box is divided by keywords."""
        return not self.meets_once

    @property
    def single_home(self) -> bool:
        """Where queries stay in the box of their place and no box is divided by keywords."""
        return self.anchored and self.meets_once

    @property
    def unit_worker(self) -> Workers:
        """The worker of each part of a box: of each box, where none is divided by keywords."""
        return self.part_worker

    def with_units(self, units: ArrayLike, workers: ArrayLike) -> "GridPlan":
        """Return the next plan, in which these units have these workers."""
        return successor(self, part_worker=moved_units(self.part_worker, units, workers, self.workers))

    def with_boxes(self, boxes: NDArray[np.integer], worker: NDArray[np.integer]) -> "GridPlan":
        """Return the next plan, with these boxes and one worker for each; costs are unknown in it, so they are 0."""
        count = len(boxes)
        return successor(
            self, boxes=np.asarray(boxes, np.int32), part_off=np.arange(count + 1), part_worker=worker,
            range_off=np.zeros(count + 1, np.int32), range_start=np.empty(0, np.int64), range_part=np.empty(0, np.int32),
            cost=np.zeros(count), part_base=np.empty(0, np.int32), part_start=np.empty(0, np.int64),
        )  # fmt: skip

    # --- units, cut and merged (`partitioners.plans.divisible`) ---

    @property
    def _units(self) -> GridUnits:
        return GridUnits(**{f.name: getattr(self, f.name) for f in fields(GridUnits)})

    def room(self, unit: int) -> Sequence[Room]:
        """Return where a unit can be cut: not by keyword where every query has one home, which mergers rely on."""
        return self._units.room(unit, by_keyword=not self.single_home)

    def divided(self, cut: Cut) -> Divided["GridPlan"]:
        """Cut a unit; by place its box is cut, with all of its parts."""
        changed, unit, origin = self._units.divided(cut, by_keyword=not self.single_home)
        return Divided(successor(self, **changed), unit, origin)

    def mergeable(self) -> list[tuple[int, int]]:
        """Return pairs of units that can be one again; if queries have several homes, they have when these are one."""
        if self.anchored and len(self.part_worker) == len(self.boxes) + 1:
            return []
        return self._units.mergeable()

    def merged(self, one: int, other: int) -> "GridPlan":
        """Return the next plan, in which two units are one; by place their boxes are, with all of their parts."""
        return successor(self, **self._units.merged(one, other))

    def keyword_workers(self, regions: Regions) -> Workers | None:
        """Return for each keyword of queries that want any of theirs the worker at which objects that have it meet them.

        None where queries are in many boxes, so that a keyword leads to several workers.
        """
        if not self.anchored:
            return None
        box = self.a_grid.route_points(regions.at_x, regions.at_y)
        found: Workers = self.part_worker[self._parts_of(regions.kw, np.repeat(box, np.diff(regions.kw_off)))]
        return found

    def _parts_of(self, word: Ints, box: NDArray[np.integer]) -> Ints:
        """Return the parts of keywords in boxes."""
        found: Ints = parts_of_words(
            column(word, np.int64), column(box, np.int64), self.part_start, self.base_off, self.base_first,
            self.range_off, self.range_start, self.range_part,
        )  # fmt: skip
        return found

    def filed(self, regions: Regions) -> Filed:
        """Return which units bring each query to workers."""
        off, box = self._boxes_of(regions)
        row = np.repeat(np.arange(len(regions)), np.diff(off))
        pair, word, plain = filed_words(regions, row)
        part = self._parts_of(word, box[pair])
        each, parts = csr_take(self.part_off, np.arange(len(self.part_worker)), box[plain])
        return Filed.of(
            np.concatenate([row[pair], np.repeat(row[plain], np.diff(each))]),
            np.concatenate([part, parts]),
            np.concatenate([word, np.full(len(parts), NO_WORD)]),
        )

    def check(self) -> None:
        """Raise unless every part has a worker; that the boxes tile the grid, its A-Grid has checked."""
        check_plan(self)
        check_csr("part_off", self.part_off, len(self.part_worker), len(self.boxes))
        check_csr("range_off", self.range_off, len(self.range_start), len(self.boxes))
        check_range("part_worker", self.part_worker, 0, self.workers)
        parts = np.diff(self.part_off)
        if (
            (parts < 1).any()
            or len(self.cost) != len(self.part_worker)
            or len(self.range_part) != len(self.range_start)
        ):
            raise InputError("a grid plan has a box without a worker, or columns of different lengths")
        KeywordCuts(self.part_base, self.part_start).check(self.part_off)
        box = np.repeat(np.arange(len(self.boxes)), np.diff(self.range_off))
        bases = self.part_base[self.part_off[1:] - 1] + 1
        if (self.range_part < -1).any() or (self.range_part >= bases[box]).any():
            raise InputError("a grid plan has a keyword range with a part that its box does not have")
        if ((np.diff(self.range_start) <= 0) & (box[1:] == box[:-1])).any():
            raise InputError("a grid plan has keyword ranges that do not ascend")

    def route_points(self, points: Points) -> Csr:
        """Return the workers that must see each object."""
        if self.anchored and self.meets_once:
            return _alike(len(points), np.unique(self.part_worker))
        if self.anchored:
            boxes = _alike(len(points), np.arange(len(self.boxes), dtype=np.int32))
        else:
            boxes = one_each(self.a_grid.route_points(points.x, points.y))
            if self.meets_once:
                return self._their_workers(boxes)
        scattered = points.x.view(np.int64) ^ (points.y.view(np.int64) >> 7)
        return self._by_keyword(boxes, points.kw_off, points.kw, np.ones(len(points), np.bool_), scattered)

    def route_regions(self, regions: Regions) -> Csr:
        """Return the workers that must hold each query."""
        boxes = self._boxes_of(regions)
        if not self.meets_once:
            return self._by_keyword(boxes, regions.kw_off, regions.kw, regions.match_any, np.empty(0, np.int64))
        if self.anchored or self.in_order:
            return self._their_workers(boxes)
        found: Csr = workers_of_rows(*boxes, self.part_worker, self.workers)
        return found

    def _boxes_of(self, regions: Regions) -> Csr:
        """Return the boxes that queries are kept in."""
        if self.anchored:
            return one_each(self.a_grid.route_points(regions.at_x, regions.at_y))
        return self.a_grid.route_ranges(*regions.bounds, nearest=True)

    def _their_workers(self, boxes: Csr) -> Csr:
        """Return rows of boxes that have one worker each as rows of these."""
        return boxes if self.numbered else (boxes[0], self.part_worker.take(boxes[1]))

    def _by_keyword(self, boxes: Csr, kw_off: Offsets, kw: Ints, by_all: NDArray[np.bool_], scattered: Ints) -> Csr:
        """Return workers for rows of boxes and of keywords."""
        found: Csr = part_workers(
            column(boxes[0], np.int32), column(boxes[1], np.int32), kw_off, kw, column(by_all, np.bool_),
            column(scattered, np.int64), self.part_off, self.part_worker, self.part_start, self.base_off,
            self.base_first, self.range_off, self.range_start, self.range_part, self.workers,
        )  # fmt: skip
        return found


def _alike(rows: int, values: Workers) -> Csr:
    """Return the same values for each row."""
    return (np.arange(rows + 1) * len(values)).astype(np.int32), np.tile(values, rows)


def keyword_ranges(keyword: Ints, part: NDArray[np.integer]) -> tuple[Ints, Workers]:
    """Turn an explicit table (keyword, part), keywords ascending, into ranges; what is not in it goes by hash.

    Neighbouring keywords of one part become one range, so a table of ranks compresses well.
    """
    if len(keyword) == 0:
        return np.empty(0, np.int64), np.empty(0, np.int32)
    gap = np.append(keyword[1:] != keyword[:-1] + 1, True)
    new = np.append(True, gap[:-1] | (part[1:] != part[:-1]))
    start = np.concatenate([keyword[new], keyword[gap] + 1])
    kept = np.concatenate([np.asarray(part, np.int32)[new], np.full(int(gap.sum()), -1, np.int32)])
    order = np.argsort(start, kind="stable")
    return start[order], kept[order]
