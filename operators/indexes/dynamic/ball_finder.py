"""Who finds the `knn` queries that new states of moving objects concern: an index of balls, which grow as well as shrink.

The structures are those of continuous k nearest neighbours over objects that stay (`operators.indexes.knn`): the ball of a
query has its threshold as radius. There balls only ever shrink. A ball that grows is closed first, which takes it out, and
filed again as it is then.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from operators.indexes.core.growth import grown
from operators.indexes.core.query_table import QueryTable
from operators.indexes.core.standing_queries import plain
from operators.indexes.core.structure import Probe
from operators.indexes.core.wanted_words import wants
from operators.indexes.dynamic.dynamic_index import Floats, Slots
from operators.indexes.knn.brute_force import BruteForce
from operators.indexes.knn.knn_index import BallStructure, Near, Radii
from operators.indexes.knn.pyramid import RadiusPyramid
from operators.indexes.topk.topk_index import Hits, Messages, joined_hits
from streams.batches import QueryBatch
from streams.columns import Ints
from streams.geometry import Metric, Rect, distance
from streams.kernel import kernel
from streams.prefetch import prefetch

__all__ = ["BallFinder", "BallTable", "brute_balls", "pyramid_balls"]

#: Of the candidates one in so many is remembered.
LOOKED = 16
_AHEAD = 16
_NO_DISTANCES: Floats = np.empty(0)


class BallTable(QueryTable):
    """Rows of `knn` queries, with thresholds: negative distances."""

    def __init__(self, space: Rect, metric: Metric) -> None:
        super().__init__(space, metric, shape=2)
        self.theta: Floats = np.empty(0)

    def admit(self, queries: QueryBatch) -> Slots:
        """File registrations; their thresholds are -inf."""
        slots = super().admit(queries)
        if len(self.traits) > len(self.theta):
            self.theta = grown(self.theta, len(self.traits))
        self.theta[slots] = -np.inf
        return slots

    @property
    def nbytes(self) -> int:
        """Bytes in use."""
        return super().nbytes + 8 * self.roster.top


@dataclass(slots=True, eq=False)
class _Radii:
    radius: Floats = field(default_factory=lambda: np.empty(0))


@kernel
def _verify(
    first: int, off: Any, slots: Any, far: Any, x: Any, y: Any, word_off: Any, words: Any, there: Any, met: Any, traits: Any,
    kw: Any, pool: Any, shape: Any, theta: Any, out_row: Any, out_slot: Any, out_score: Any,
) -> int:  # fmt: skip
    """Write the pairs that match and come up to the threshold, each once; return how many there are.

    `far` has the distances of all pairs, or nothing in the plane. `there` by word and `met` by slot are 0, and left so.
    """
    count = 0
    for i in range(off.shape[0] - 1):
        for j in range(word_off[first + i], word_off[first + i + 1]):
            there[words[j]] = 1
        for p in range(off[i], off[i + 1]):
            if p + _AHEAD < slots.shape[0]:
                prefetch(shape, 2 * np.int64(slots[p + _AHEAD]))
                prefetch(theta, np.int64(slots[p + _AHEAD]))
            slot = np.int64(slots[p])
            if met[slot] != 0:
                continue
            met[slot] = 1
            if far.shape[0] > 0:
                score = -far[p]
            else:
                dx, dy = x[first + i] - shape[slot, 0], y[first + i] - shape[slot, 1]
                score = -np.sqrt(dx * dx + dy * dy)
            if score >= theta[slot] and wants(slot, there, traits, kw, pool):
                out_row[count], out_slot[count], out_score[count] = first + i, slot, score
                count += 1
        for p in range(off[i], off[i + 1]):
            met[slots[p]] = 0
        for j in range(word_off[first + i], word_off[first + i + 1]):
            there[words[j]] = 0
    return count


class BallFinder:
    """A structure of balls as a `Dissemination`: thresholds are negative distances, and may rise and fall."""

    def __init__(self, table: BallTable, make: Callable[[QueryTable, Radii], BallStructure]) -> None:
        self._table, self._radii = table, _Radii()
        self._structure = make(table, self._radii)
        self._there: NDArray[np.uint8] = np.zeros(0, np.uint8)
        self._met: NDArray[np.uint8] = np.zeros(0, np.uint8)

    @property
    def nbytes(self) -> int:
        """Bytes in use, without the table."""
        return self._structure.nbytes + 9 * self._table.roster.top + self._there.nbytes

    def _radius(self, slots: Slots) -> Floats:
        """Return radii of open balls that have what is just as far as the threshold."""
        return np.asarray(np.nextafter(-self._table.theta[slots], np.inf))

    def add(self, slots: Slots) -> None:
        """File queries."""
        room = len(self._table.traits)
        if room > len(self._met):
            self._radii.radius = grown(self._radii.radius, room)
            self._met = np.zeros(room, np.uint8)
        self._radii.radius[slots] = self._radius(slots)
        self._structure.add(slots)

    def discard(self, slots: Slots) -> None:
        """Remove queries; no structure here has anything left of them."""
        self._structure.discard(slots)

    def retune(self, slots: Slots) -> None:
        """Let balls shrink, or close and open wider."""
        radius = self._radius(slots)
        wider = slots[radius > self._radii.radius[slots]]
        if len(wider):
            self._radii.radius[wider] = 0.0
            self._structure.shrink(wider)
        self._radii.radius[slots] = radius
        self._structure.shrink(slots)

    def probe(self, messages: Messages) -> Hits:
        """Return the queries whose balls states are in, with negative distances."""
        kw_off, kw = plain(messages.kw_off, np.int32), plain(messages.kw, np.int64)
        word_off, words = self._table.words.known(kw_off, kw)
        probe = Probe(plain(messages.x, np.float64), plain(messages.y, np.float64), word_off, words)
        if self._table.words.top > len(self._there):
            self._there = np.zeros(2 * self._table.words.top, np.uint8)
        found, row = [], 0
        while row < len(messages):
            near = self._structure.probe(probe, row)
            found.append(self._verified(near, probe, kw_off, kw))
            row = near.next
        return joined_hits(found)

    def _verified(self, near: Near, probe: Probe, kw_off: Any, kw: Ints) -> Hits:
        """Hold pairs against keywords, those that are excluded too, and distances."""
        table, off, slots = self._table, near.off, near.slots
        seen = slice(near.first, near.next)
        if table.residuals.live:
            keep = table.residuals.keep(
                off, slots, probe.x[seen], probe.y[seen], kw_off[near.first : near.next + 1], kw
            )
            if keep is not None:
                before = np.concatenate([[0], np.cumsum(keep)])
                off, slots = before[off], slots[keep]
        far = _NO_DISTANCES
        if table.metric != "euclidean":
            at = np.repeat(np.arange(near.first, near.next), np.diff(off))
            place = table.shape[slots]
            far = distance(probe.x[at], probe.y[at], place[:, 0], place[:, 1], table.metric)
        count = len(slots)
        out = np.empty(count, np.int32), np.empty(count, np.int32), np.empty(count)
        if count:
            count = _verify(
                near.first, off, slots, far, probe.x, probe.y, probe.word_off, probe.words, self._there, self._met,
                table.traits, table.kw, table.pool, table.shape, table.theta, *out,
            )  # fmt: skip
        return Hits(out[0][:count], out[1][:count], out[2][:count], near.examined, near.slots[::LOOKED])


def pyramid_balls(table: BallTable) -> BallFinder:
    """Return the radius pyramid."""
    return BallFinder(table, RadiusPyramid)


def brute_balls(table: BallTable) -> BallFinder:
    """Return all balls, one by one."""
    return BallFinder(table, BruteForce)
