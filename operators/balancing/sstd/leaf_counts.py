"""What is known of leaves: objects, queries of six types, and the load that follows from them by SSTD's Equation 2.

Equation 2 is the work of a partition under a random query. Times the number of queries it is the work of all of them, which
needs no probabilities: Pr(type) * p_type * |Q| is the number of queries of a type that overlap the partition. For a
continuous type that is what arrives, and times E(T), the time that they live, it is how many are alive (Little's law).
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

from partitioners.columns import Floats, Ints
from streams.batches import TupleBatch
from streams.errors import InputError

__all__ = ["LEAVES_FIELDS", "LeafCounts", "LeafReport", "leaves_from_batch", "leaves_to_batch"]

LEAVES_FIELDS = (
    "worker", "version", "cost", "leaf", "arriving", "kept", "srq", "skq", "stq", "crq", "ckq", "ctq", "covered_srq",
    "covered_skq", "pairs",
)  # fmt: skip

#: The leaf of a row that only says that a worker has none.
NO_LEAF = -1


@dataclass(frozen=True, slots=True, eq=False)
class LeafCounts:
    """Leaves, row by row.

    Attributes:
        arriving: objects that came in the time between two reports.
        kept: objects that snapshot queries look at.
        queries: by the six types (leaves x 6), in the order of Equation 2: snapshot queries of that time, continuous
            queries that live.
        covered: the probability of Equation 1 for SRQ and SKQ (leaves x 2).
        pairs: continuous queries that an object of the leaf has to be held against, as counted for the latest ones. In
            Equation 2 these are all that overlap the leaf.
        factor: the load is multiplied by this; 1 for Equation 2 as it stands.
    """

    arriving: Floats
    kept: Floats
    queries: Floats
    covered: Floats
    pairs: Floats
    factor: Floats

    @classmethod
    def none(cls, leaves: int) -> "LeafCounts":
        """Return leaves without anything."""
        zeros = np.zeros(leaves)
        return cls(zeros, zeros, np.zeros((leaves, 6)), np.zeros((leaves, 2)), zeros, np.ones(leaves))

    def __len__(self) -> int:
        return len(self.arriving)

    @property
    def load(self) -> Floats:
        """The load of each leaf, by Equation 2 with the pairs that are set."""
        looking = (self.queries[:, :2] * self.covered).sum(1) + self.queries[:, 2]
        return np.asarray(self.factor * (looking * self.kept + self.pairs * self.arriving))

    @property
    def variance(self) -> Floats:
        """By how much, squared, the load of each leaf is off by chance alone: objects come as they like."""
        return np.asarray((self.factor * self.pairs) ** 2 * self.arriving)

    def by_equation(self) -> "LeafCounts":
        """Return leaves whose load is Equation 2 as it stands: an object is held against all queries of its leaf."""
        return replace(self, pairs=self.standing)

    @property
    def standing(self) -> Floats:
        """The continuous queries of each leaf: what moves with it."""
        return np.asarray(self.queries[:, 3:].sum(1))

    def take(self, rows: NDArray[np.integer]) -> "LeafCounts":
        """Return some leaves."""
        return LeafCounts(*(getattr(self, f.name)[rows] for f in fields(self)))

    def scaled(self, share: Floats) -> "LeafCounts":
        """Return leaves with such a share of their objects each."""
        return replace(self, arriving=self.arriving * share, kept=self.kept * share)

    @classmethod
    def concat(cls, parts: Sequence["LeafCounts"]) -> "LeafCounts":
        """Put leaves one after the other."""
        return cls(*(np.concatenate([getattr(part, f.name) for part in parts]) for f in fields(cls)))

    @classmethod
    def mean(cls, parts: Sequence["LeafCounts"]) -> "LeafCounts":
        """Return the mean of several reports on the same leaves."""
        return cls(*(np.mean([getattr(part, f.name) for part in parts], axis=0) for f in fields(cls)))


@dataclass(frozen=True, slots=True, eq=False)
class LeafReport:
    """What a worker reports under one plan: its work in candidates examined, and its leaves."""

    worker: int
    version: int
    cost: int
    leaf: Ints
    counts: LeafCounts


def leaves_to_batch(report: LeafReport) -> TupleBatch:
    """Write a report, a row for each leaf; a worker without leaves has one row that says so."""
    leaf, counts = report.leaf, report.counts
    if not len(leaf):
        leaf, counts = np.array([NO_LEAF]), LeafCounts.none(1)
    whole = (np.full(len(leaf), value, np.int64) for value in (report.worker, report.version, report.cost))
    columns = (
        *whole,
        leaf.astype(np.int64),
        counts.arriving,
        counts.kept,
        *counts.queries.T,
        *counts.covered.T,
        counts.pairs,
    )
    return TupleBatch(LEAVES_FIELDS, tuple(np.ascontiguousarray(column) for column in columns))


def leaves_from_batch(batch: TupleBatch) -> Sequence[LeafReport]:
    """Read reports; several workers' may stand one after the other."""
    if batch.fields != LEAVES_FIELDS:
        raise InputError(f"reports of leaves have the fields {list(batch.fields)}, expected {list(LEAVES_FIELDS)}")
    columns = [np.asarray(column) for column in batch.columns]
    found = []
    for worker in np.unique(columns[0]).tolist():
        rows = np.flatnonzero((columns[0] == worker) & (columns[3] != NO_LEAF))
        one = int(np.flatnonzero(columns[0] == worker)[0])
        numbers = [column[rows].astype(np.float64) for column in columns[4:]]
        counts = LeafCounts(
            numbers[0],
            numbers[1],
            np.stack(numbers[2:8], 1),
            np.stack(numbers[8:10], 1),
            numbers[10],
            np.ones(len(rows)),
        )
        found.append(
            LeafReport(worker, int(columns[1][one]), int(columns[2][one]), columns[3][rows].astype(np.int64), counts)
        )
    return found
