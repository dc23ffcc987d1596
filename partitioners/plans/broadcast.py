"""Plans that send one side everywhere: hashing-based (DSkype, Section 7.3.1) and replicate-all (Tornado, Section 5.1).

Neither looks at places or words, so they balance well and prune nothing: the baselines that the others must beat.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from partitioners.columns import Csr, Points, Regions, Workers
from partitioners.plans.plan import check_plan, plan_kind
from streams.geometry import Rect

__all__ = ["HashPlan", "ReplicatePlan", "everywhere", "one_each", "scrambled"]


def everywhere(rows: int, workers: int) -> Csr:
    """Send each row to every worker."""
    return (np.arange(rows + 1) * workers).astype(np.int32), np.tile(np.arange(workers, dtype=np.int32), rows)


def one_each(worker: NDArray[np.integer]) -> Csr:
    """Send each row to one worker."""
    return np.arange(len(worker) + 1, dtype=np.int32), worker.astype(np.int32)


def scrambled(values: NDArray[np.integer], workers: int) -> Workers:
    """Spread 64-bit values over workers (the finaliser of splitmix64), the same in every process."""
    z = values.astype(np.int64).view(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray((z ^ (z >> np.uint64(31))) % np.uint64(workers), np.int32)


@plan_kind
@dataclass(frozen=True, slots=True)
class HashPlan:
    """A query goes to the worker of its number, an object to all (DSkype, Equation 14: id mod N_sb).

    Numbers are given out one by one, so the plain remainder spreads them evenly.
    """

    kind: ClassVar[str] = "hash"

    space: Rect
    workers: int
    version: int = 1

    def __post_init__(self) -> None:
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

    def check(self) -> None:
        """Raise unless there are workers."""
        check_plan(self)

    def route_points(self, points: Points) -> Csr:
        """Send every object to all workers."""
        return everywhere(len(points), self.workers)

    def route_regions(self, regions: Regions) -> Csr:
        """Send each query to the worker of its number."""
        return one_each(regions.number % self.workers)


@plan_kind
@dataclass(frozen=True, slots=True)
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
