"""Which keywords of subscriptions are filed, where workers divide keywords among them (DSkype, Section 7.3).

A message enters a subscription through the rarest keyword that both have. The plan leads both of them, by that keyword, to one
worker; so each worker files a subscription under the keywords that lead to it, and a pair is found by one worker alone. With
loose prefixes (Definition 12) the keywords outside of the prefix are filed nowhere: through these alone no message comes up to
the threshold.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from operators.indexes.core.growth import grown
from operators.indexes.topk.scored_table import ALPHA, BITS, NORM, ScoredTable
from partitioners.builders.keyword_partition import loose_prefixes
from streams.batches import QueryBatch

__all__ = ["Leads", "OwnWords"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Slots = NDArray[np.int32]

#: Tells of each keyword of queries whether it leads here; None: all do.
Leads = Callable[[QueryBatch], "NDArray[np.bool_] | None"]

#: The bits of all keywords.
_ALL = np.int64(-1)


class OwnWords:
    """The keywords of each subscription that lead here, as bits by slot, and which of them are to be filed.

    Args:
        table: the rows of subscriptions; its `filing` is kept here.
        leads: tells which keywords lead here.
        prefix: whether keywords outside of the loose prefix are left out.
    """

    def __init__(self, table: ScoredTable, leads: Leads, *, prefix: bool) -> None:
        self._table, self._leads, self._prefix = table, leads, prefix
        self._own: Ints = np.empty(0, np.int64)

    @property
    def nbytes(self) -> int:
        """Bytes in use."""
        return 16 * self._table.roster.top

    def admit(self, slots: Slots, queries: QueryBatch) -> None:
        """Take note of subscriptions in new slots, whose thresholds are set."""
        room, had = len(self._table.lines), len(self._own)
        if room > had:
            self._own, self._table.filing = grown(self._own, room), grown(self._table.filing, room)
        self._own[slots] = self._bits(queries)
        self._table.filing[slots] = self.filing(slots, self._table.theta[slots])

    def renewed(self, slots: Slots) -> Slots:
        """Ask anew what leads here; return the slots for which that has changed."""
        bits = self._bits(self._table.batch(slots))
        changed: Slots = slots[bits != self._own[slots]]
        self._own[slots] = bits
        return changed

    def filing(self, slots: Slots, theta: Floats) -> Ints:
        """Return, as bits, the keywords that are to be filed for these thresholds."""
        bits = self._own[slots]
        if not self._prefix:
            return bits
        some = np.flatnonzero(theta > 0)  # others keep all words
        if len(some):
            who = slots[some]
            off, words = self._table.words_of(who)
            lengths = np.diff(off)
            norm, alpha = self._table.lines[who, NORM], self._table.lines[who, ALPHA]
            weights = self._table.idf[words] / np.repeat(norm, lengths)
            kept, _ = loose_prefixes(off, words.astype(np.int64), weights, theta[some], alpha)
            dropped = np.minimum(lengths - np.diff(kept), BITS)  # the most frequent ones, which come first
            bits[some] &= _ALL << dropped.astype(np.int64)
        return bits

    def _bits(self, queries: QueryBatch) -> Ints:
        bits = np.full(len(queries), _ALL)
        here = self._leads(queries)
        if here is None or not len(queries):
            return bits
        off = np.asarray(queries.kw_off, np.int64)
        lengths = np.diff(off)
        which = np.arange(len(here)) - np.repeat(off[:-1], lengths)
        bit = np.where(here, np.int64(1) << np.minimum(which, BITS - 1), 0)
        found = np.bitwise_or.reduceat(bit, off[:-1])
        return np.where(lengths <= BITS, found, bits)
