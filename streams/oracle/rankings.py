"""Results that are the k best objects: `knn` and `topk` at any instant.

The distance or score of an object from a query never changes, and neither does the order of any two objects. So all
objects that a query may ever list are ranked once; its result at an instant is the k first ranks among those present.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from streams.batches import FOREVER
from streams.columns import Ints
from streams.window import Window, rows_upto

__all__ = ["Ranked", "Ranking"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Ranked:
    """Objects (their rows), best first, with their distances or scores."""

    objects: Ints
    values: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Ranking:
    """Every object that one query may ever list, in the order that never changes.

    Attributes:
        k: how many are listed.
        rows: the objects, as rows of the input, ascending.
        values: the distance or score of each.
        order: places in `rows`, best first.
        ts: the timestamps of all objects of the input.
        begins: the first instant of the query.
        lasts: its last instant: just before its end, or the end of the input; after that its result is frozen.
        since: the first row of the input that counts.
        window: the sliding window that objects must be in, if there is one.
        leaves: for each of `rows`, the row of the input that ends it (dynamic objects).
        ranks: the place of each of `rows` in `order`.
    """

    k: int
    rows: Ints
    values: Floats
    order: Ints
    ts: Ints
    begins: int
    lasts: int
    since: int = 0
    window: Window | None = None
    leaves: Ints | None = None
    ranks: Ints = field(init=False)

    def __post_init__(self) -> None:
        ranks = np.empty(len(self.order), np.int64)
        ranks[self.order] = np.arange(len(self.order))
        object.__setattr__(self, "ranks", ranks)

    def at(self, time: int) -> Ranked:
        """Return the result after all input with timestamps up to a time."""
        now = min(time, self.lasts)
        return self._listed(self._best(rows_upto(self.ts, now), now))

    def final(self) -> Ranked:
        """Return the result that stays."""
        return self.at(self.lasts)

    def during(self, time: int) -> Iterator[Ranked]:
        """Yield each result that holds while the objects of one timestamp come in, from none of them to all of them.

        An epoch may end between two objects of the same time.
        """
        if time > self.lasts:
            yield self.final()
            return
        before, after = rows_upto(self.ts, time - 1), rows_upto(self.ts, time)
        best = self._best(before, time)
        yield self._listed(best)
        seen, place = self._comings_and_goings(before, after)
        for count, rank in zip(seen.tolist(), self.ranks[place].tolist(), strict=True):
            if len(best) == self.k and rank > best[-1]:
                continue  # it comes or goes behind the k-th
            now_best = self._best(count, time)
            if not np.array_equal(now_best, best):
                best = now_best
                yield self._listed(best)

    def change_times(self) -> list[int]:
        """Return the instants, ascending, at which the result may become another one."""
        times = [np.array([self.begins], np.int64), self.ts[self.rows]]
        if self.window is not None and self.window.ms is not None:
            times.append(np.minimum(self.ts[self.rows], FOREVER - self.window.ms) + self.window.ms)
        leaves = self._leaves()
        if leaves is not None:
            times.append(self.ts[leaves[leaves < len(self.ts)]])
        distinct = np.unique(np.concatenate(times))
        return [time for time in distinct.tolist() if self.begins <= time <= self.lasts]

    def _leaves(self) -> Ints | None:
        """Return the row of the input that pushes each of `rows` out, where rows push each other out."""
        if self.window is not None and self.window.objects is not None:
            return self.rows + self.window.objects
        return self.leaves

    def _comings_and_goings(self, before: int, after: int) -> tuple[Ints, Ints]:
        """Return the numbers of objects seen, in (before, after], at which one of `rows` enters or leaves, and which."""
        seen, place = self.rows + 1, np.arange(len(self.rows))
        leaves = self._leaves()
        if leaves is not None:
            seen, place = np.concatenate([seen, leaves + 1]), np.concatenate([place, place])
        kept = np.flatnonzero((seen > before) & (seen <= after))
        kept = kept[np.argsort(seen[kept], kind="stable")]
        return seen[kept], place[kept]

    def _best(self, seen: int, now: int) -> Ints:
        """Return the k first ranks of those present when `seen` objects have come and it is `now`."""
        first = self.since if self.window is None else self.window.first(self.ts, seen, now)
        start, stop = np.searchsorted(self.rows, [first, seen])
        present = self.ranks[start:stop]
        if self.leaves is not None:
            present = present[self.leaves[start:stop] >= seen]
        if len(present) > self.k:
            present = np.partition(present, self.k - 1)[: self.k]
        return np.sort(present)

    def _listed(self, best: Ints) -> Ranked:
        places = self.order[best]
        return Ranked(self.rows[places], self.values[places])
