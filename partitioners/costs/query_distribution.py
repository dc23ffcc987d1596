"""SSTD's cost model (Section 4.1.1): query distribution statistics J, and the workload of a partition by query type.

The paper keeps J as a quadtree of counts. Here a region's statistics are counted in the query sample when they are asked
for, from the queries of the enclosing region, which gives the same numbers for every cell of any quadtree.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from partitioners.columns import Floats, Ints
from partitioners.costs.statistics import QuerySample
from streams.batches import TYPE_KNN, TYPE_RANGE, TYPE_TERMS, TYPE_TOPK
from streams.columns import csr_take

__all__ = [
    "CKQ",
    "CRQ",
    "CTQ",
    "MAX_LENGTH",
    "SKQ",
    "SRQ",
    "STQ",
    "QueryDistribution",
    "RegionStatistics",
    "covered_share",
    "spatial_discrepancy",
    "split_by_discrepancy",
    "workload",
]

#: The six types of queries, in the order of Equation 2.
SRQ, SKQ, STQ, CRQ, CKQ, CTQ = range(6)

#: Longer queries count as if they had this many keywords: the powers in Equation 1 vanish long before.
MAX_LENGTH = 8

_SNAPSHOT = {TYPE_RANGE: SRQ, TYPE_KNN: SKQ, TYPE_TOPK: SKQ, TYPE_TERMS: STQ}

Box = tuple[float, float, float, float]


@dataclass(frozen=True, slots=True, eq=False)
class RegionStatistics:
    """What J knows of a region (Figure 5).

    Attributes:
        overlap: for each type, the share of its queries that overlap the region (p_srq, p_skq, ...).
        words: the query keywords of SRQ and SKQ, ascending.
        shares: M_srq and M_skq, the probability of each of `words` (2 x words).
        lengths: Pr(|q.phi| = l), by SRQ and SKQ, by match all and any (2 x 2 x MAX_LENGTH + 1).
        life_ms: the mean lifetime of CRQ, CKQ and CTQ, the sum over T of Pr(q.tau = T) * T.
    """

    overlap: Floats
    words: Ints
    shares: Floats
    lengths: Floats
    life_ms: Floats


@dataclass(frozen=True, slots=True, eq=False)
class QueryDistribution:
    """J: a sample of queries with their types, and the prior probability of each type.

    Without any query, every region counts as touched by one continuous range query that lives for a unit of time, so that
    partitions are balanced by objects.
    """

    queries: QuerySample
    code: NDArray[np.int64]
    totals: Ints

    @classmethod
    def of(cls, queries: QuerySample) -> "QueryDistribution":
        """Count types. A scored top-k query is taken as a kNN query: both want the best k from anywhere."""
        base = np.array([_SNAPSHOT[kind] for kind in range(len(_SNAPSHOT))])[queries.type]
        code = np.where(queries.continuous, base + 3, base).astype(np.int64)
        return cls(queries, code, np.bincount(code, minlength=6))

    @property
    def prior(self) -> Floats:
        """Pr(srq), Pr(skq), ...: the probability that a query is of each type."""
        if len(self.queries) == 0:
            return np.array([0.0, 0.0, 0.0, 1.0, 0.0, 0.0])
        return np.asarray(self.totals / len(self.queries))

    def overlapping(self, box: Box, among: Ints) -> Ints:
        """Return the rows, among these, of queries whose bounds overlap a closed box."""
        q, (low_x, low_y, high_x, high_y) = self.queries, box
        hit = (q.min_x[among] <= high_x) & (q.max_x[among] >= low_x)
        return among[hit & (q.min_y[among] <= high_y) & (q.max_y[among] >= low_y)]

    def statistics(self, rows: Ints) -> RegionStatistics:
        """Return the statistics of a region that these queries overlap."""
        if len(self.queries) == 0:
            empty = np.empty((2, 0))
            return RegionStatistics(
                np.ones(6), np.empty(0, np.int64), empty, np.zeros((2, 2, MAX_LENGTH + 1)), np.ones(3)
            )
        code = self.code[rows]
        counts = np.bincount(code, minlength=6)
        life = np.bincount(code, self.queries.life_ms[rows], minlength=6)[3:] / np.maximum(counts[3:], 1)
        keyed = rows[(code == SRQ) | (code == SKQ)]
        kw_off, kw = csr_take(self.queries.kw_off, self.queries.kw, keyed)
        words, place = np.unique(kw, return_inverse=True)
        kind = (self.code[keyed] == SKQ).astype(np.int64)
        per_word = np.repeat(kind, np.diff(kw_off))
        shares = np.stack([np.bincount(place[per_word == t], minlength=len(words)) for t in (0, 1)]).astype(np.float64)
        shares /= np.maximum(shares.sum(axis=1, keepdims=True), 1)
        lengths = np.zeros((2, 2, MAX_LENGTH + 1))
        clipped = np.minimum(np.diff(kw_off), MAX_LENGTH)
        np.add.at(lengths, (kind, self.queries.match_any[keyed].astype(np.int64), clipped), 1.0)
        lengths /= np.maximum(lengths.sum(axis=(1, 2), keepdims=True), 1)
        return RegionStatistics(counts / np.maximum(self.totals, 1), words, shares, lengths, life)


def covered_share(covered: float, lengths: Floats) -> float:
    """Return Pr(q.phi in P.phi | q overlaps P), SSTD's Equation 1: the sum over l of Pr(|q.phi| = l) * H^l.

    `covered` is H, the probability that one query keyword is among the partition's, and `lengths` a table by match all and
    any. The paper knows all; any of l keywords is met with 1 - (1 - H)^l, and a query without keywords always.
    """
    covered = min(max(covered, 0.0), 1.0)
    powers = np.arange(lengths.shape[1])
    some = 1.0 - (1.0 - covered) ** powers
    some[0] = 1.0
    return float(lengths[0] @ covered**powers + lengths[1] @ some)


def workload(
    prior: Floats, region: RegionStatistics, objects: float, rate: float, covered: tuple[float, float]
) -> float:
    """Return W(P), SSTD's Equation 2: the six cost terms of a partition under a random query.

    Args:
        prior: Pr of each type.
        region: the statistics of the partition's region.
        objects: |O|, the objects in the partition.
        rate: E_P, objects that arrive in it per time unit.
        covered: H_srq and H_skq for the keywords of its objects.
    """
    arriving = region.life_ms * rate  # the expected number of new objects during a query's life, by continuous type
    terms = (
        region.overlap[SRQ] * covered_share(covered[0], region.lengths[0]) * objects,
        region.overlap[SKQ] * covered_share(covered[1], region.lengths[1]) * objects,
        region.overlap[STQ] * objects,
        region.overlap[CRQ] * arriving[0],
        region.overlap[CKQ] * arriving[1],
        region.overlap[CTQ] * arriving[2],
    )
    return float(prior @ np.array(terms))


def spatial_discrepancy(parent: Floats, children: Floats) -> float:
    """Return h-hat (SSTD, Section 5.3): the mean overlap of four children over that of their parent.

    Both are shares by query type (6, and 4 x 6). Small: queries touch few children, so a spatial split separates them.
    """
    whole = float(parent.sum())
    return float(children.sum()) / (len(children) * whole) if whole > 0 else 0.0


def split_by_discrepancy(discrepancy: float, epsilon: float) -> str:
    """Return ``spatial`` or ``textual``, SSTD's Equation 3."""
    return "spatial" if discrepancy <= epsilon else "textual"
