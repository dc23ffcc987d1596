"""The keyword-first hybrid (DSkype, Section 8.2): keyword ranges, and a k-d tree of its own for each of them."""

from collections.abc import Sequence
from dataclasses import InitVar, dataclass, field
from typing import Any, ClassVar

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
from partitioners.grids.adjacency import neighbours_of
from partitioners.grids.fine_grid import FineGrid
from partitioners.grids.tiling import painted, tiling_boxes
from partitioners.plans.divisible import (
    KEYWORD,
    NO_WORD,
    Cut,
    Divided,
    Filed,
    KeywordCuts,
    Room,
    box_room,
    check_cut,
    cut_box,
    filed_words,
    united_box,
)
from partitioners.plans.grid_routing import box_workers, boxes_at, parts_of_words, workers_of_parts
from partitioners.plans.plan import check_plan, plan_kind, successor
from partitioners.plans.units import moved_units
from streams.columns import sorted_rows
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
        range_start, range_part: first keywords and the base part they belong to (-1: by hash), as in `GridPlan`.
        box_off, boxes, box_worker: the boxes of each part (cells, as in `GridPlan`) and their workers.
        part_base, part_start: how base parts are divided into parts (`partitioners.plans.divisible`); empty: not at all.
        tilings: the boxes of parts, each once: those of a plan before need no proof that they cover the space once.
        who_off, who: the workers of each part.
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
    part_base: Workers = field(default_factory=lambda: np.empty(0, np.int32))
    part_start: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    version: int = 1
    near: InitVar["KeywordFirstPlan | None"] = None
    tilings: frozenset[bytes] = field(init=False, repr=False)
    who_off: Offsets = field(init=False, repr=False)
    who: Workers = field(init=False, repr=False)

    def __post_init__(self, near: "KeywordFirstPlan | None") -> None:
        own_columns(
            self, range_start=(np.int64, 1), box_off=(np.int32, 1), boxes=(np.int32, 2), box_worker=(np.int32, 1)
        )
        own_columns(self, cost=(np.float64, 1), range_part=(np.int32, 1))
        if not len(self.part_base) and not len(self.part_start):
            whole = KeywordCuts.none(np.array([self.parts]))
            object.__setattr__(self, "part_base", whole.base)
            object.__setattr__(self, "part_start", whole.start)
        own_columns(self, part_base=(np.int32, 1), part_start=(np.int64, 1))
        known = near.tilings if near is not None and near.grid == self.grid else frozenset()
        object.__setattr__(self, "tilings", self._checked(known))
        self.check()
        part = np.repeat(np.arange(self.parts), np.diff(self.box_off))
        off, who = sorted_rows(part, self.box_worker.astype(np.int64), self.parts)
        object.__setattr__(self, "who_off", off)
        object.__setattr__(self, "who", who)
        own_columns(self, who_off=(np.int32, 1), who=(np.int32, 1))

    def _checked(self, known: frozenset[bytes]) -> frozenset[bytes]:
        """Return the tilings of all parts; raise unless each covers the space once. Those that are known do."""
        check_csr("box_off", self.box_off, len(self.boxes), self.parts)
        found = set()
        for part in range(self.parts):
            boxes = tiling_boxes(self.grid, self.boxes[self.box_off[part] : self.box_off[part + 1]])
            if (tiling := boxes.tobytes()) not in known and tiling not in found:
                painted(self.grid, boxes)
            found.add(tiling)
        return frozenset(found)

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
        """Raise unless every box has a worker and keyword ranges ascend; that boxes tile the grid is checked at once."""
        check_plan(self)
        if len(self.box_worker) != len(self.boxes) or len(self.cost) != len(self.boxes):
            raise InputError("a keyword-first plan needs a worker and a cost for each box")
        check_range("box_worker", self.box_worker, 0, self.workers)
        if not self.parts:
            raise InputError("a keyword-first plan has no part")
        KeywordCuts(self.part_base, self.part_start).check(np.array([0, self.parts]))
        check_range("range_part", self.range_part, -1, int(self.part_base[-1]) + 1)
        if len(self.range_part) != len(self.range_start) or (np.diff(self.range_start) <= 0).any():
            raise InputError("the keyword ranges of a plan must ascend, each with a part")

    # --- routes ---

    @property
    def _bases(self) -> tuple[Offsets, Offsets]:
        """The base parts, and the parts of each, as offsets."""
        base_off, base_first = KeywordCuts(self.part_base, self.part_start).firsts(np.array([0, self.parts]))
        return column(base_off, np.int32), column(base_first, np.int32)

    @property
    def _by_keyword(self) -> tuple[Ints, Offsets, Offsets, Offsets, Ints, Workers]:
        """What a kernel needs to find the part of a keyword."""
        ranges = column([0, len(self.range_start)], np.int32)
        return self.part_start, *self._bases, ranges, self.range_start, self.range_part

    def route_points(self, points: Points) -> Csr:
        """Return the workers of all boxes of the parts that each object touches."""
        scattered = column(points.x.view(np.int64), np.int64)
        return workers_of_parts(
            points.kw_off, points.kw, scattered, *self._by_keyword, self.who_off, self.who, self.workers
        )

    def route_regions(self, regions: Regions) -> Csr:
        """Return, for the parts that each query is filed under, the worker of its place."""
        row, unit, _ = self._filed(regions)
        order = np.argsort(row, kind="stable")
        found: Csr = box_workers(
            column(row[order], np.int64), column(unit[order], np.int64), self.box_worker, len(regions), self.workers
        )
        return found

    def keyword_workers(self, regions: Regions) -> Workers:
        """Return for each keyword of queries that want any of theirs the worker at which objects that have it meet them."""
        row = np.repeat(np.arange(len(regions)), np.diff(regions.kw_off))
        found: Workers = self.box_worker[self._boxes_at(regions, row, self._parts_of(regions.kw))]
        return found

    def _parts_of(self, word: Ints) -> Ints:
        """Return the parts of keywords."""
        return parts_of_words(column(word, np.int64), column(np.zeros(len(word)), np.int64), *self._by_keyword)

    def _boxes_at(self, regions: Regions, row: Ints, part: Ints) -> Ints:
        """Return the boxes of parts at the places of rows of queries."""
        cell = column(self.grid.cells_of(regions.at_x, regions.at_y)[row], np.int64)
        found: Ints = boxes_at(column(part, np.int64), cell, self.columns, self.box_off, self.boxes)
        return found

    def _filed(self, regions: Regions) -> tuple[Ints, Ints, Ints]:
        """Return rows of queries, units and keywords; those of queries without keywords come last."""
        filed, word, plain = filed_words(regions, np.arange(len(regions)))
        row = np.concatenate([filed, np.repeat(plain, self.parts)])
        part = np.concatenate([self._parts_of(word), np.tile(np.arange(self.parts), len(plain))])
        return row, self._boxes_at(regions, row, part), np.append(word, np.full(len(row) - len(word), NO_WORD))

    # --- units, cut and merged (`partitioners.plans.divisible`) ---

    def filed(self, regions: Regions) -> Filed:
        """Return which units bring each query to workers."""
        return Filed.of(*self._filed(regions))

    def _part_of(self, unit: int) -> int:
        if not 0 <= unit < len(self.boxes):
            raise InputError(f"there is no unit {unit}; expected 0 to {len(self.boxes) - 1}")
        return int(np.searchsorted(self.box_off, unit, side="right")) - 1

    def room(self, unit: int) -> Sequence[Room]:
        """Return where a unit can be cut: not by keyword where every query has one home, which mergers rely on."""
        part = self._part_of(unit)
        places = box_room(self.boxes[unit], 1)
        if self.single_home:
            return places
        boxes = int(self.box_off[part + 1] - self.box_off[part])
        return [*places, *KeywordCuts(self.part_base, self.part_start).room(part, self.parts - 1, boxes)]

    def divided(self, cut: Cut) -> Divided["KeywordFirstPlan"]:
        """Cut a unit; by keyword its part is cut, with all of its boxes."""
        check_cut(cut, len(self.boxes), self.room(cut.unit))
        part, everything = self._part_of(cut.unit), np.arange(len(self.boxes))
        after = np.arange(len(self.box_off)) > part
        if cut.axis == KEYWORD:
            here = everything[self.box_off[part] : self.box_off[part + 1]]
            origin = np.insert(everything, here[-1] + 1, here)
            off = np.insert(self.box_off + after * len(here), part + 1, here[-1] + 1)
            base = np.insert(self.part_base, part + 1, self.part_base[part])
            start = np.insert(self.part_start, part + 1, cut.at)
            changed = {"boxes": self.boxes[origin], "box_off": off, "part_base": base, "part_start": start}
            unit = cut.unit + len(here)
        else:
            origin = np.insert(everything, cut.unit + 1, cut.unit)
            boxes, unit = self.boxes[origin], cut.unit + 1
            boxes[cut.unit], boxes[unit] = cut_box(self.boxes[cut.unit], cut.axis, cut.at)
            changed = {"boxes": boxes, "box_off": self.box_off + after}
        cost = (self.cost / np.bincount(origin))[origin]
        return Divided(successor(self, box_worker=self.box_worker[origin], cost=cost, **changed), unit, origin)

    def mergeable(self) -> list[tuple[int, int]]:
        """Return pairs of boxes of one part, and of parts that are divided alike (named by their first boxes)."""
        found = []
        cuts = KeywordCuts(self.part_base, self.part_start)
        for part in range(self.parts):
            here, boxes = int(self.box_off[part]), self.boxes[self.box_off[part] : self.box_off[part + 1]]
            for number in range(len(boxes)):
                for near in neighbours_of(boxes, number):
                    one, other = here + number, here + near.partition
                    if near.mergeable and one < other and self.box_worker[one] == self.box_worker[other]:
                        found.append((one, other))
            if cuts.follows(part) and self._alike(part):
                found.append((here, int(self.box_off[part + 1])))
        return found

    def _alike(self, part: int) -> bool:
        """Tell whether a part and the next one divide the space among the same workers in the same way."""
        first, middle, last = self.box_off[part : part + 3].tolist()
        columns = (self.boxes, self.box_worker)
        return all(np.array_equal(column[first:middle], column[middle:last]) for column in columns)

    def merged(self, one: int, other: int) -> "KeywordFirstPlan":
        """Return the next plan, in which two units are one; by keyword their parts are, with all of their boxes."""
        one, other = sorted((one, other))
        part, second = self._part_of(one), self._part_of(other)
        changed: dict[str, NDArray[Any]] = {}
        boxes, cost = self.boxes.copy(), self.cost.copy()
        if part == second:
            together = united_box(boxes[one], boxes[other])
            if together is None or self.box_worker[one] != self.box_worker[other]:
                raise InputError(
                    f"units {one} and {other} cannot be merged: no neighbours of one worker that make a box"
                )
            boxes[one] = together
            kept, gone = np.array([one]), np.array([other])
            off = self.box_off - (np.arange(len(self.box_off)) > part)
        else:
            cuts = KeywordCuts(self.part_base, self.part_start)
            if second != part + 1 or not cuts.follows(part) or not self._alike(part):
                raise InputError(f"units {one} and {other} cannot be merged: their parts are not divided alike")
            kept, gone = np.arange(*self.box_off[part : part + 2]), np.arange(*self.box_off[second : second + 2])
            off = np.append(self.box_off[: part + 1], self.box_off[second + 1 :] - len(gone))
            changed = {name: np.delete(getattr(self, name), second) for name in ("part_base", "part_start")}
        cost[kept] += cost[gone]
        columns: dict[str, NDArray[Any]] = {"boxes": boxes, "cost": cost, "box_worker": self.box_worker}
        changed |= {name: np.delete(column, gone, axis=0) for name, column in columns.items()}
        return successor(self, box_off=off, **changed)
