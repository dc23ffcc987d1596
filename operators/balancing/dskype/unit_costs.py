"""What the units of one worker cost, and what a cut through one of them would take off.

Work is known by query, or by query and keyword. Where it is known by query alone, one that several units bring to a worker
counts for the first of them, and there for its first keyword: of the keywords of a query the most frequent one causes most
of its work, and ids, as well as the parts that partitioners make, are in the order of frequency.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partitioners.columns import Floats, Ints
from partitioners.plans.divisible import COLUMN, KEYWORD, Divisible, Filed

__all__ = ["Cuts", "UnitCosts", "Work", "unit_costs"]

#: Cuts that are looked at along one axis of a unit, and the dearest units for which there are any.
_CUTS, _DEAR = 32, 8


@dataclass(frozen=True, slots=True, eq=False)
class Cuts:
    """Possible cuts (`partitioners.plans.divisible.Cut`).

    Attributes:
        adds: how many units come into being; more than one where those beside it are cut as well.
        cost, queries: what is above the cut.
    """

    unit: Ints
    axis: Ints
    adds: Ints
    at: Ints
    cost: Floats
    queries: Floats

    @classmethod
    def concat(cls, parts: Sequence["Cuts"]) -> "Cuts":
        """Put cuts one after the other."""
        return cls(*(np.concatenate([getattr(part, f.name) for part in parts]) for f in fields(cls)))

    def take(self, kept: NDArray[np.bool_]) -> "Cuts":
        """Return some of them."""
        return Cuts(*(getattr(self, f.name)[kept] for f in fields(self)))


@dataclass(frozen=True, slots=True, eq=False)
class UnitCosts:
    """The units of a worker, what they cost and how many queries they hold, and possible cuts through the dear ones."""

    unit: Ints
    cost: Floats
    queries: Floats
    cuts: Cuts

    def answer(self) -> list[Any]:
        """Return it as an evaluator answers it, in plain values, which travel."""
        columns = self.unit, self.cost, self.queries, *(getattr(self.cuts, f.name) for f in fields(Cuts))
        return [column.tolist() for column in columns]

    @classmethod
    def of(cls, answer: Sequence[Sequence[Any]]) -> "UnitCosts":
        """Read an answer."""
        whole, real = np.int64, np.float64
        kinds: tuple[Any, ...] = (whole, real, real, whole, whole, whole, whole, real, real)
        columns: list[Any] = [np.array(column, kind) for column, kind in zip(answer, kinds, strict=True)]
        unit, cost, queries, *cuts = columns
        return cls(unit, cost, queries, Cuts(*cuts))


@dataclass(frozen=True, slots=True, eq=False)
class Work:
    """What was done: for which query (its row), for which of its keywords (-1: nobody knows), and how much."""

    row: Ints
    word: Ints
    cost: Floats


def unit_costs(plan: Divisible, worker: int, filed: Filed, cell: Ints, work: Work, count: Floats) -> UnitCosts:
    """Add up what queries cost by unit of a worker.

    `cell` is the cell of each query's place, and `count` how many queries it stands for.
    """
    mine = np.flatnonzero(plan.unit_worker[filed.unit] == worker)
    row, unit, word = filed.row[mine], filed.unit[mine], filed.word[mine]
    cost, number = _placed(row, word, work), count[row] * np.append(True, row[1:] != row[:-1])[: len(row)]
    units = np.flatnonzero(plan.unit_worker == worker)
    by_unit, queries = (_sums(unit, weight, len(plan.unit_worker))[units] for weight in (cost, number))
    column, line = cell % plan.grid.columns, cell // plan.grid.columns
    none, nothing = np.empty(0, np.int64), np.empty(0)
    cuts = [Cuts(none, none, none, none, nothing, nothing)]
    for dear in units[np.argsort(-by_unit, kind="stable")[:_DEAR]].tolist():
        here = np.flatnonzero(unit == dear)
        for axis, low, high, adds in plan.room(dear):
            places = word[here] if axis == KEYWORD else (column if axis == COLUMN else line)[row[here]]
            at, above, held = _cuts(places, cost[here], number[here], low, high)
            ones = np.ones(len(at), np.int64)
            cuts.append(Cuts(dear * ones, axis * ones, adds * ones, at, above, held))
    return UnitCosts(units, by_unit, queries, Cuts.concat(cuts))


def _placed(row: Ints, word: Ints, work: Work) -> Floats:
    """Return what was done for each of some pairs of query and keyword, rows ascending; the first of a query has the rest."""
    cost = np.zeros(len(row))
    if not len(row):
        return cost
    pairs = np.stack([np.append(row, work.row), np.append(word, work.word)])
    _, named, place = np.unique(pairs, axis=1, return_index=True, return_inverse=True)
    at = named[place.ravel()[len(row) :]]
    first = np.minimum(np.searchsorted(row, work.row), len(row) - 1)
    at = np.where(at < len(row), at, first)
    here = row[at] == work.row
    return cost + np.bincount(at[here], work.cost[here], minlength=len(row))


def _sums(group: Ints, weight: Floats, groups: int) -> Floats:
    return np.bincount(group, weight, minlength=groups).astype(np.float64)


def _cuts(value: Ints, cost: Floats, count: Floats, low: int, high: int) -> tuple[Ints, Floats, Floats]:
    """Return values to cut at, and cost and queries above each; of many, those next to equal shares of the cost."""
    at, place = np.unique(value, return_inverse=True)
    if not len(at):
        return at, np.empty(0), np.empty(0)
    above, number = (_sums(place, weight, len(at))[::-1].cumsum()[::-1] for weight in (cost, count))
    possible = np.flatnonzero((at >= low) & (at <= high) & (above < above[0]) & (above > 0))
    if len(possible) > 2 * _CUTS:
        shares = np.searchsorted(-above[possible], -above[0] * np.arange(1, _CUTS + 1) / (_CUTS + 1))
        possible = possible[np.unique(np.minimum(np.append(shares, shares - 1).clip(0), len(possible) - 1))]
    return at[possible], above[possible], number[possible]
