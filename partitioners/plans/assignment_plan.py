"""`AssignmentPlan`: subscriptions one by one to workers, objects to all (DkM-SKS, Section 2).

The plan keeps O_init and the rectangles of the subsets, so that the main server can price subscriptions that come later
(Sections 3.1, 3.2 and 4.4) and give each to the worker that is least loaded by then.
"""

from dataclasses import InitVar, dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from partitioners.columns import Csr, Floats, Ints, Offsets, Points, Regions, Workers, check_range, own_columns
from partitioners.costs.allocation import greedy_in_order
from partitioners.costs.initial_objects import MAX_INITIAL_OBJECTS, InitialObjects
from partitioners.costs.rect_index import RectIndex
from partitioners.costs.statistics import Statistics
from partitioners.costs.subscription_costs import (
    at_least_one_object,
    ball_rects,
    hybrid_costs,
    keyword_costs,
    space_costs,
)
from partitioners.plans.broadcast import assigned_or, everywhere, one_each, scrambled
from partitioners.plans.plan import check_plan, plan_kind, successor
from partitioners.plans.units import check_assigned, found_in, moved_numbers, moved_units
from streams.errors import InputError, did_you_mean
from streams.geometry import Rect

__all__ = ["COST_MODELS", "AssignmentPlan"]

#: How a new subscription is priced: KOP's Equation 1, SOP's Equation 2, DkM-SKS's Equations 5 and 7; or all alike.
COST_MODELS = ("keyword", "space", "hybrid", "count")

Costs = NDArray[np.float32]


@plan_kind
@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class AssignmentPlan:
    """An assignment of known subscriptions and a cost model for those to come.

    Attributes:
        model: one of `COST_MODELS`.
        number, assigned: known subscriptions by number, ascending, and their workers.
        load: C(w) of each worker: what its known subscriptions cost.
        rects: R of each subset (only the hybrid model looks at it). Of several that overlap a ball alike, the first counts.
        x, y, kw_off, kw: the objects of O_init.
        cost: C(s) of each known subscription; NaN where nobody has priced it, as in plans of older versions.
    """

    kind: ClassVar[str] = "assignment"

    space: Rect
    workers: int
    model: str
    number: Ints
    assigned: Workers
    load: Floats
    rects: Floats
    x: Floats
    y: Floats
    kw_off: Offsets
    kw: Ints
    cost: Costs = field(default_factory=lambda: np.empty(0, np.float32))
    version: int = 1
    near: InitVar["AssignmentPlan | None"] = None
    _initial: list[InitialObjects] = field(init=False, repr=False)
    _subsets: list[RectIndex] = field(init=False, repr=False)

    def __post_init__(self, near: "AssignmentPlan | None") -> None:
        if not len(self.cost):
            object.__setattr__(self, "cost", np.full(len(self.number), np.nan, np.float32))
        own_columns(self, number=(np.int64, 1), assigned=(np.int32, 1), load=(np.float64, 1), rects=(np.float64, 2))
        own_columns(self, x=(np.float64, 1), y=(np.float64, 1), kw_off=(np.int32, 1), kw=(np.int64, 1))
        own_columns(self, cost=(np.float32, 1))
        for made, names in (("_initial", ("x", "y", "kw_off", "kw")), ("_subsets", ("rects",))):
            kept = near is not None and all(getattr(self, name) is getattr(near, name) for name in names)
            object.__setattr__(self, made, getattr(near, made) if kept else [])
        self.check()

    @classmethod
    def of(
        cls,
        statistics: Statistics,
        workers: int,
        model: str,
        assigned: Workers,
        load: Floats,
        rects: Floats | None = None,
        cost: Floats | None = None,
    ) -> "AssignmentPlan":
        """Make a plan from an assignment of the sampled queries and their costs, row by row."""
        order = np.argsort(statistics.queries.number, kind="stable")
        o = statistics.objects
        return cls(
            space=statistics.space,
            workers=workers,
            model=model,
            number=statistics.queries.number[order],
            assigned=assigned[order],
            load=load,
            rects=np.empty((0, 4)) if rects is None else rects,
            x=o.x,
            y=o.y,
            kw_off=o.kw_off,
            kw=o.kw,
            cost=np.empty(0, np.float32) if cost is None else cost[order].astype(np.float32),
        )

    @property
    def initial(self) -> InitialObjects:
        """O_init with the index that costs are looked up in; made when first asked for, which routers never do."""
        if not self._initial:
            self._initial.append(InitialObjects.of(self.x, self.y, self.kw_off, self.kw))
        return self._initial[0]

    @property
    def subsets(self) -> RectIndex:
        """The rectangles of the subsets, indexed; made when first asked for."""
        if not self._subsets:
            self._subsets.append(RectIndex.of(self.rects))
        return self._subsets[0]

    @property
    def meets_once(self) -> bool:
        """Always: a subscription has one worker."""
        return True

    @property
    def reads_words(self) -> bool:
        """Never."""
        return False

    @property
    def single_home(self) -> bool:
        """Always."""
        return True

    @property
    def unit_worker(self) -> Workers:
        """The worker of each known subscription."""
        return self.assigned

    def with_units(self, units: ArrayLike, workers: ArrayLike) -> "AssignmentPlan":
        """Return the next plan, in which these units have these workers."""
        return self._reassigned(self.number, moved_units(self.assigned, units, workers, self.workers))

    def with_moved(self, numbers: ArrayLike, workers: ArrayLike) -> "AssignmentPlan":
        """Return the next plan, in which these subscriptions, known or not, have these workers.

        The plan does not know what those cost that it did not know; whoever registers them does.
        """
        return self._reassigned(*moved_numbers(self.number, self.assigned, numbers, workers, self.workers))

    def _reassigned(self, number: Ints, assigned: Workers) -> "AssignmentPlan":
        """Return the next plan, with C(w) as it is after known subscriptions have moved, and others have joined them."""
        known, grown = assigned, {}
        if len(number) > len(self.number):
            place = np.searchsorted(number, self.number)
            cost = np.full(len(number), np.nan, np.float32)
            cost[place] = self.cost
            known, grown = assigned[place], {"number": number, "cost": cost}
        moved = np.flatnonzero(self.assigned != known)
        weight = np.nan_to_num(self.cost[moved], nan=0.0).astype(np.float64)
        gained = np.bincount(known[moved], weight, minlength=self.workers)
        lost = np.bincount(self.assigned[moved], weight, minlength=self.workers)
        return successor(self, assigned=assigned, load=np.maximum(self.load + gained - lost, 0.0), **grown)

    def known(self, numbers: Ints) -> tuple[Workers, Floats]:
        """Return the workers of subscriptions, -1 where the plan knows none, and their costs, NaN where it knows none."""
        place, known = found_in(self.number, numbers)
        worker, cost = np.full(len(numbers), -1, np.int32), np.full(len(numbers), np.nan)
        worker[known], cost[known] = self.assigned[place[known]], self.cost[place[known]]
        return worker, cost

    def moved_in(self, later: "AssignmentPlan") -> tuple[Ints, Workers]:
        """Return the subscriptions whose worker a later version says, and this one does not, with their workers."""
        before = self.assigned
        if len(later.number) != len(self.number):
            before, _ = self.known(later.number)
        moved = np.flatnonzero(before != later.assigned)
        return later.number[moved], later.assigned[moved]

    def check(self) -> None:
        """Raise unless every known subscription has one existing worker."""
        check_plan(self)
        if len(Points.of(self.x, self.y, self.kw_off, self.kw)) > MAX_INITIAL_OBJECTS:
            raise InputError(f"O_init has {len(self.x):,} objects, at most {MAX_INITIAL_OBJECTS:,}; draw a sample")
        if self.model not in COST_MODELS:
            near = did_you_mean(str(self.model), COST_MODELS)
            raise InputError(
                f"an assignment by the unknown cost model '{self.model}'{near}; expected one of {COST_MODELS}"
            )
        check_assigned(self.number, self.assigned, self.workers)
        if len(self.load) != self.workers or self.rects.shape[1] != 4:
            raise InputError(f"an assignment to {self.workers} workers has {len(self.load)} loads")
        if (
            len(self.cost) != len(self.number)
            or not ((self.cost >= 0) & np.isfinite(self.cost) | np.isnan(self.cost)).all()
        ):
            raise InputError(
                "an assignment needs a cost for each subscription, 0 or more, or NaN where it is not known"
            )

    def costs(
        self, x: Floats, y: Floats, kw_off: Offsets, kw: Ints, k: NDArray[np.integer], match_any: NDArray[np.bool_]
    ) -> Floats:
        """Return C(s) of new subscriptions from O_init.

        The hybrid model takes R* of the subset that overlaps the ball's rectangle most (Equation 7), the rectangle
        itself where it overlaps none.
        """
        r = Regions.of((x, y, x, y), kw_off, kw, match_any)
        if self.model == "count":
            return np.ones(len(r))
        return at_least_one_object(self.initial, self._equations(r, k))

    def _equations(self, r: Regions, k: NDArray[np.integer]) -> Floats:
        if self.model == "keyword":
            return keyword_costs(self.initial, r.kw_off, r.kw)
        radius = self.initial.kth_distances(r.min_x, r.min_y, r.kw_off, r.kw, k, r.match_any)
        own = ball_rects(r.min_x, r.min_y, radius, self.space)
        if self.model == "space":
            return space_costs(self.initial, own)
        nearest = self.subsets.overlapping_most(own)
        own[nearest >= 0] = self.rects[nearest[nearest >= 0]]
        return hybrid_costs(self.initial, own, np.arange(len(own)), r.kw_off, r.kw)

    def assign(
        self, costs: Floats, load: Floats, held: Ints | None = None, slack: float = 0.0
    ) -> tuple[Workers, Floats]:
        """Give new subscriptions, in order, to the least loaded workers; return workers and new loads.

        The loads are the main server's own, and so is how many subscriptions each worker holds, which decides between
        loads that are equal but for `slack`: a plan does not change.
        """
        return greedy_in_order(costs, load, held, slack)

    def route_points(self, points: Points) -> Csr:
        """Send every object to all workers."""
        return everywhere(len(points), self.workers)

    def route_regions(self, regions: Regions) -> Csr:
        """Send a known subscription to its worker, another one to the worker that has it, or that a hash of its number names.

        Where there is a main server it decides by `costs` and `assign` where new subscriptions go, and nobody else has to
        know: who holds one says so. Any choice is exact, because objects go everywhere.
        """
        check_range("home", regions.home, -1, self.workers)
        fallback = np.where(regions.home >= 0, regions.home, scrambled(regions.number, self.workers)).astype(np.int32)
        return one_each(assigned_or(fallback, regions.number, self.number, self.assigned))
