"""The units of a `GridPlan`, cut and merged: parts of boxes, by place with their whole box and by keyword within it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partitioners.columns import Floats, Ints, Offsets, Workers
from partitioners.grids.adjacency import neighbours_of
from partitioners.plans.divisible import KEYWORD, Cut, KeywordCuts, Room, box_room, check_cut, cut_box, united_box
from streams.errors import InputError

__all__ = ["GridUnits"]


@dataclass(frozen=True, slots=True, eq=False)
class GridUnits:
    """What of a grid plan changes when units are cut or merged; the fields are those of `GridPlan`.

    A new box stands behind all others, so that these keep their numbers; a part of a box stands behind the one that it
    was cut from.
    """

    boxes: NDArray[np.int32]
    part_off: Offsets
    part_worker: Workers
    part_base: Workers
    part_start: Ints
    range_off: Offsets
    range_start: Ints
    range_part: Workers
    cost: Floats

    @property
    def cuts(self) -> KeywordCuts:
        """How base parts are divided."""
        return KeywordCuts(self.part_base, self.part_start)

    def box_of(self, unit: int) -> int:
        """Return the box of a unit."""
        if not 0 <= unit < len(self.part_worker):
            raise InputError(f"there is no unit {unit}; expected 0 to {len(self.part_worker) - 1}")
        return int(np.searchsorted(self.part_off, unit, side="right")) - 1

    def _parts(self, box: int) -> slice:
        return slice(int(self.part_off[box]), int(self.part_off[box + 1]))

    def _ranges(self, box: int) -> slice:
        return slice(int(self.range_off[box]), int(self.range_off[box + 1]))

    def room(self, unit: int, *, by_keyword: bool) -> Sequence[Room]:
        """Return where a unit can be cut: by place all parts of its box are."""
        box = self.box_of(unit)
        parts = self._parts(box)
        words = self.cuts.room(unit, parts.stop - 1, 1) if by_keyword else []
        return [*words, *box_room(self.boxes[box], parts.stop - parts.start)]

    def divided(self, cut: Cut, *, by_keyword: bool) -> tuple[dict[str, Any], int, Ints]:
        """Cut a unit; return the fields that change, the new unit, and where all units come from."""
        check_cut(cut, len(self.part_worker), self.room(cut.unit, by_keyword=by_keyword))
        everything = np.arange(len(self.part_worker))
        box = self.box_of(cut.unit)
        if cut.axis == KEYWORD:
            origin = np.insert(everything, cut.unit + 1, cut.unit)
            start = self.part_start[origin]
            start[cut.unit + 1] = cut.at
            off = self.part_off + (np.arange(len(self.part_off)) > box)
            return self._taken(origin) | {"part_off": off, "part_start": start}, cut.unit + 1, origin
        parts, ranges = self._parts(box), self._ranges(box)
        low, high = cut_box(self.boxes[box], cut.axis, cut.at)
        boxes = np.concatenate([self.boxes, high[None]])
        boxes[box] = low
        origin = np.append(everything, everything[parts])
        fields = {
            "boxes": boxes,
            "part_off": np.append(self.part_off, len(origin)),
            "range_off": np.append(self.range_off, len(self.range_start) + ranges.stop - ranges.start),
            "range_start": np.append(self.range_start, self.range_start[ranges]),
            "range_part": np.append(self.range_part, self.range_part[ranges]),
        }
        return self._taken(origin) | fields, len(everything) + cut.unit - parts.start, origin

    def _taken(self, origin: Ints) -> dict[str, Any]:
        """Return the columns of parts after a cut; nobody knows what the pieces cost, so they cost the same."""
        cost = self.cost / np.bincount(origin, minlength=len(self.cost))
        columns: dict[str, NDArray[Any]] = {
            "part_worker": self.part_worker, "part_base": self.part_base, "part_start": self.part_start, "cost": cost
        }  # fmt: skip
        return {name: column[origin] for name, column in columns.items()}

    def mergeable(self) -> list[tuple[int, int]]:
        """Return pairs of parts of one base part, and of boxes that are divided alike (named by their first parts)."""
        same = self.part_worker[1:] == self.part_worker[:-1]
        found = [(unit, unit + 1) for unit in np.flatnonzero(same).tolist() if self.cuts.follows(unit)]
        boxes = [
            (box, near.partition)
            for box in range(len(self.boxes))
            for near in neighbours_of(self.boxes, box)
            if near.mergeable and box < near.partition and self._alike(box, near.partition)
        ]
        return [*found, *((int(self.part_off[one]), int(self.part_off[other])) for one, other in boxes)]

    def _alike(self, one: int, other: int) -> bool:
        """Tell whether two boxes divide their keywords among the same workers in the same way."""
        a, b, a_ranges, b_ranges = self._parts(one), self._parts(other), self._ranges(one), self._ranges(other)
        columns = (self.part_worker, self.part_base, self.part_start)
        return all(np.array_equal(column[a], column[b]) for column in columns) and all(
            np.array_equal(column[a_ranges], column[b_ranges]) for column in (self.range_start, self.range_part)
        )

    def merged(self, one: int, other: int) -> dict[str, Any]:
        """Put two units together; return the fields that change."""
        one, other = sorted((one, other))
        box, second = self.box_of(one), self.box_of(other)
        if box == second:
            if other != one + 1 or not self.cuts.follows(one) or self.part_worker[one] != self.part_worker[other]:
                raise InputError(f"units {one} and {other} cannot be merged: no neighbours of one worker by keyword")
            off = self.part_off - (np.arange(len(self.part_off)) > box)
            return self._without([other], [one]) | {"part_off": off}
        together = united_box(self.boxes[box], self.boxes[second])
        if together is None or not self._alike(box, second):
            raise InputError(
                f"units {one} and {other} cannot be merged: their boxes make no box, or are not divided alike"
            )
        boxes = self.boxes.copy()
        boxes[box] = together
        parts, ranges = self._parts(second), self._ranges(second)
        gone, kept = np.arange(parts.start, parts.stop), np.arange(*self.part_off[box : box + 2])
        drop = np.arange(ranges.start, ranges.stop)
        counts = np.delete(np.diff(self.part_off), second), np.delete(np.diff(self.range_off), second)
        return self._without(gone, kept) | {
            "boxes": np.delete(boxes, second, axis=0),
            "part_off": np.append(0, np.cumsum(counts[0])),
            "range_off": np.append(0, np.cumsum(counts[1])),
            "range_start": np.delete(self.range_start, drop),
            "range_part": np.delete(self.range_part, drop),
        }

    def _without(self, gone: Any, kept: Any) -> dict[str, Any]:
        """Return the columns of parts when some have become part of others."""
        cost = self.cost.copy()
        cost[kept] += cost[gone]
        columns: dict[str, NDArray[Any]] = {
            "part_worker": self.part_worker, "part_base": self.part_base, "part_start": self.part_start, "cost": cost
        }  # fmt: skip
        return {name: np.delete(column, gone) for name, column in columns.items()}
