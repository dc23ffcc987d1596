"""Plans that send one side everywhere: hashing-based (DSkype, Section 7.3.1) and replicate-all (Tornado, Section 5.1).

Neither looks at places or words, so they balance well and prune nothing: the baselines that the others must beat.
"""

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from partitioners.columns import Csr, Ints, Points, Regions, Workers, check_range, own_columns
from partitioners.plans.plan import check_plan, plan_kind, successor
from partitioners.plans.units import check_assigned, found_in, moved_numbers, moved_units
from streams.geometry import Rect

__all__ = ["HashPlan", "ReplicatePlan", "assigned_or", "everywhere", "one_each", "scrambled"]

#: Slots of a hash plan, rounded up to a multiple of the workers.
_SLOTS = 1024


def everywhere(rows: int, workers: int) -> Csr:
    """Send each row to every worker."""
    return (np.arange(rows + 1) * workers).astype(np.int32), np.tile(np.arange(workers, dtype=np.int32), rows)


def one_each(worker: NDArray[np.integer]) -> Csr:
    """Send each row to one worker."""
    return np.arange(len(worker) + 1, dtype=np.int32), worker.astype(np.int32)


def assigned_or(worker: Workers, asked: Ints, number: Ints, assigned: Workers) -> Workers:
    """Return for each asked number the worker that a table (numbers ascending) assigns, or else the given one."""
    place, known = found_in(number, asked)
    if not known.any():
        return worker
    found = worker.copy()
    found[known] = assigned[place[known]]
    return found


def scrambled(values: NDArray[np.integer], workers: int) -> Workers:
    """Spread 64-bit values over workers (the finaliser of splitmix64), the same in every process."""
    z = values.astype(np.int64).view(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray((z ^ (z >> np.uint64(31))) % np.uint64(workers), np.int32)


@plan_kind
@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class HashPlan:
    """A query goes to the worker of its number, an object to all (DSkype, Equation 14: id mod N_sb).

    Numbers are given out one by one, so the plain remainder spreads them evenly. Between the two stands a table of slots,
    so that some of a worker's queries can move: number modulo slots, and the worker of the slot. There are a multiple
    of the workers of them, which makes it the paper's formula until a slot moves.

    Attributes:
        slot_worker: the worker of each slot; without one, as the formula says.
        number, assigned: queries that have moved one by one, by number, ascending, and their workers.
    """

    kind: ClassVar[str] = "hash"

    space: Rect
    workers: int
    slot_worker: Workers = field(default_factory=lambda: np.empty(0, np.int32))
    number: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    assigned: Workers = field(default_factory=lambda: np.empty(0, np.int32))
    version: int = 1

    def __post_init__(self) -> None:
        check_plan(self)
        if not len(self.slot_worker):
            slots = -(-_SLOTS // self.workers) * self.workers
            object.__setattr__(self, "slot_worker", np.arange(slots) % self.workers)
        own_columns(self, slot_worker=(np.int32, 1), number=(np.int64, 1), assigned=(np.int32, 1))
        self.check()

    @property
    def meets_once(self) -> bool:
        """Always: a query has one worker."""
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
        """The worker of each slot."""
        return self.slot_worker

    def with_units(self, units: ArrayLike, workers: ArrayLike) -> "HashPlan":
        """Return the next plan, in which these slots have these workers; what moved by number stays where it is."""
        return successor(self, slot_worker=moved_units(self.slot_worker, units, workers, self.workers))

    def with_moved(self, numbers: ArrayLike, workers: ArrayLike) -> "HashPlan":
        """Return the next plan, in which these queries have these workers, whatever their slots."""
        number, assigned = moved_numbers(self.number, self.assigned, numbers, workers, self.workers)
        return successor(self, number=number, assigned=assigned)

    def check(self) -> None:
        """Raise unless every slot and every query that has moved has one existing worker."""
        check_plan(self)
        check_range("slot_worker", self.slot_worker, 0, self.workers)
        check_assigned(self.number, self.assigned, self.workers)

    def route_points(self, points: Points) -> Csr:
        """Send every object to all workers."""
        return everywhere(len(points), self.workers)

    def route_regions(self, regions: Regions) -> Csr:
        """Send each query to the worker of its number."""
        worker = self.slot_worker[regions.number % len(self.slot_worker)]
        return one_each(assigned_or(worker, regions.number, self.number, self.assigned))


@plan_kind
@dataclass(frozen=True, slots=True, weakref_slot=True)
class ReplicatePlan:
    """A query goes to all workers, an object to one: the native Storm program that Tornado compares with."""

    kind: ClassVar[str] = "replicate"

    space: Rect
    workers: int
    version: int = 1

    def __post_init__(self) -> None:
        self.check()

    @property
    def meets_once(self) -> bool:
        """Always: an object has one worker."""
        return True

    @property
    def reads_words(self) -> bool:
        """Always: they help to scatter objects."""
        return True

    @property
    def single_home(self) -> bool:
        """Only of one worker."""
        return self.workers == 1

    @property
    def unit_worker(self) -> Workers:
        """None: queries are everywhere."""
        return np.empty(0, np.int32)

    def with_units(self, units: ArrayLike, workers: ArrayLike) -> "ReplicatePlan":
        """Refuse any unit: there are none."""
        moved_units(self.unit_worker, units, workers, self.workers)
        return successor(self)

    def check(self) -> None:
        """Raise unless there are workers."""
        check_plan(self)

    def route_points(self, points: Points) -> Csr:
        """Scatter objects by a hash of their place and words, as a shuffle that can be repeated."""
        p = points
        words = np.append(np.cumsum(p.kw * 31 + 7), 0)
        said = words[p.kw_off[1:] - 1] - np.where(p.kw_off[:-1] > 0, words[p.kw_off[:-1] - 1], 0)
        said = np.where(p.kw_off[1:] > p.kw_off[:-1], said, 0)
        return one_each(scrambled(p.x.view(np.int64) ^ (p.y.view(np.int64) >> 7) ^ said, self.workers))

    def route_regions(self, regions: Regions) -> Csr:
        """Send every query to all workers."""
        return everywhere(len(regions), self.workers)
