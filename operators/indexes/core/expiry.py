"""Which queries end next, without looking at all of them every epoch.

The earliest ends, about one query in sixteen, wait in order up to a horizon; what comes or changes later and ends before the
horizon waits beside them. Only when time passes the horizon are all lifetimes looked at again, so that the work an
expired query causes stays bounded however many live on. While all ends that are known wait in order, the horizon has no end:
among millions without an end, a hundred that are unregistered cost a hundred.
"""

import numpy as np
from numpy.typing import NDArray

from operators.indexes.core.roster import Roster
from streams.batches import FOREVER

__all__ = ["Expiry"]

Ints = NDArray[np.int64]

#: The share of queries that waits in order, as a divisor, and the least that is worth a look at all lifetimes.
WAITING_SHARE, LEAST_WAITING = 16, 1024


class Expiry:
    """The queries that end up to a horizon, in the order of their ends."""

    def __init__(self) -> None:
        self._horizon = -FOREVER
        self._numbers: Ints = np.empty(0, np.int64)
        self._ends: Ints = np.empty(0, np.int64)
        self._late: list[tuple[Ints, Ints]] = []

    @property
    def nbytes(self) -> int:
        """Bytes in use."""
        return 16 * (len(self._numbers) + sum(len(numbers) for numbers, _ in self._late))

    def note(self, numbers: Ints, ends: Ints) -> None:
        """Note the ends of new queries, or of new ends of old ones."""
        near = ends <= self._horizon
        if np.count_nonzero(near):
            self._late.append((numbers[near], ends[near]))
            if sum(len(part) for part, _ in self._late) > max(LEAST_WAITING, len(self._numbers)):
                self._merge()

    def ended(self, now: int, roster: Roster) -> Ints:
        """Return numbers of which every query with end <= now is one; some may have gone or may be named twice."""
        if not roster.may_end(now):
            return np.empty(0, np.int64)
        if now > self._horizon:
            self._look_at_all(now, roster)
        elif self._late:
            self._merge()
        count = int(np.searchsorted(self._ends, now, side="right"))
        found, self._numbers = self._numbers[:count], self._numbers[count:]
        self._ends = self._ends[count:]
        return found

    def _merge(self) -> None:
        numbers = np.concatenate([self._numbers, *(part for part, _ in self._late)])
        ends = np.concatenate([self._ends, *(part for _, part in self._late)])
        order = np.argsort(ends, kind="stable")
        self._numbers, self._ends, self._late = numbers[order], ends[order], []

    def _look_at_all(self, now: int, roster: Roster) -> None:
        slots = roster.held()
        ends = roster.ends_of(slots)
        finite = np.flatnonzero(ends != FOREVER)
        wait = max(LEAST_WAITING, len(slots) // WAITING_SHARE)
        later = ends[finite][ends[finite] > now]
        self._horizon = int(np.partition(later, wait)[wait]) if len(later) > wait else FOREVER - 1
        roster.tighten(int(later.min()) if len(later) else FOREVER)
        near = finite[ends[finite] <= self._horizon]
        near = near[np.argsort(ends[near], kind="stable")]
        self._numbers, self._ends, self._late = roster.numbers_of(slots[near]), ends[near], []
