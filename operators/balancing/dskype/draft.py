"""A plan in the making: cut by cut and move by move, with what its units are known to cost."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from operators.balancing.dskype.unit_costs import Cuts, UnitCosts
from partitioners.columns import Floats, Ints
from partitioners.plans.divisible import KEYWORD, Cut, Divisible

__all__ = ["Draft", "Option"]


@dataclass(frozen=True, slots=True)
class Option:
    """Something that a worker could give away: a unit, or what is above or below a cut through one.

    Attributes:
        cost, queries: what would move.
        adds: how many units come into being by the cut.
    """

    unit: int
    cost: float
    queries: float
    cut: Cut | None = None
    above: bool = True
    adds: int = 0

    @property
    def by_keyword(self) -> bool:
        """Whether a range of keywords is cut."""
        return self.cut is not None and self.cut.axis == KEYWORD


@dataclass(frozen=True, slots=True, eq=False)
class Draft:
    """A plan, and what is known of it.

    Attributes:
        load: of each worker.
        cost, queries: of each unit; NaN where nobody was asked, or where a cut has made it unknown.
        cuts: those that are possible still.
    """

    plan: Divisible
    load: Floats
    cost: Floats
    queries: Floats
    cuts: Cuts

    @classmethod
    def of(cls, plan: Divisible, load: Floats, answers: list[UnitCosts]) -> "Draft":
        """Begin with what evaluators have answered."""
        cost, queries = (np.full(len(plan.unit_worker), np.nan) for _ in range(2))
        for one in answers:
            cost[one.unit], queries[one.unit] = one.cost, one.queries
        return cls(plan, load, cost, queries, Cuts.concat([one.cuts for one in answers]))

    def units_of(self, giver: int) -> list[Option]:
        """Return the units of a worker that it could give away."""
        known = np.flatnonzero((self.plan.unit_worker == giver) & (self.cost > 0)).tolist()
        return [Option(unit, float(self.cost[unit]), float(self.queries[unit])) for unit in known]

    def cuts_of(self, giver: int) -> list[Option]:
        """Return what a worker could cut off from its units."""
        found, cuts = [], self.cuts
        for row in np.flatnonzero(self.plan.unit_worker[cuts.unit] == giver).tolist():
            unit, adds = int(cuts.unit[row]), int(cuts.adds[row])
            cut = Cut(unit, int(cuts.axis[row]), int(cuts.at[row]))
            cost, queries = float(cuts.cost[row]), float(cuts.queries[row])
            rest, others = float(self.cost[unit]) - cost, float(self.queries[unit]) - queries
            found.append(Option(unit, cost, queries, cut, above=True, adds=adds))
            found.append(Option(unit, rest, others, cut, above=False, adds=adds))
        return found

    def taken(self, option: Option, taker: int) -> "Draft":
        """Return the draft after a worker has given something away."""
        giver = int(self.plan.unit_worker[option.unit])
        load = self.load.copy()
        load[giver] -= option.cost
        load[taker] += option.cost
        draft, unit = replace(self, load=load), option.unit
        if option.cut is not None:
            draft, unit = draft._cut(option.cut, option)
        cuts = draft.cuts.take(draft.cuts.unit != unit)  # its new worker knows nothing of it
        return replace(draft, plan=draft.plan.with_units([unit], [taker]), cuts=cuts)

    def _cut(self, cut: Cut, option: Option) -> tuple["Draft", int]:
        """Return the draft with a unit cut in two, and the piece that moves."""
        divided = self.plan.divided(cut)
        cost, queries = self.cost[divided.origin], self.queries[divided.origin]
        # What is beside the unit was cut as well, and nobody knows how much of it is where.
        beside = np.bincount(divided.origin)[divided.origin] > 1
        cost[beside] = queries[beside] = np.nan
        low = int(np.flatnonzero(divided.origin == cut.unit)[0])
        moving, staying = (divided.unit, low) if option.above else (low, divided.unit)
        cost[moving], queries[moving] = option.cost, option.queries
        cost[staying] = self.cost[cut.unit] - option.cost
        queries[staying] = self.queries[cut.unit] - option.queries
        cuts = self._possible_after(cut, option, staying, divided.origin, beside)
        return replace(self, plan=divided.plan, cost=cost, queries=queries, cuts=cuts), moving

    def _possible_after(self, cut: Cut, option: Option, staying: int, origin: Ints, beside: NDArray[np.bool_]) -> Cuts:
        """Return cuts with the new numbers of units: of the one that was cut, those along the same axis where it stays."""
        cuts = self.cuts
        place = np.full(len(self.cost), -1)
        place[origin[~beside]] = np.flatnonzero(~beside)
        same = (cuts.unit == cut.unit) & (cuts.axis == cut.axis)
        same &= cuts.at < cut.at if option.above else cuts.at > cut.at
        named = np.where(same, staying, place[cuts.unit])
        # Where what was above the cut is gone, so much less is above all others.
        gone = same & option.above
        cost, queries = cuts.cost - gone * option.cost, cuts.queries - gone * option.queries
        return replace(cuts, unit=named, cost=cost, queries=queries).take(named >= 0)
