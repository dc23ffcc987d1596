"""CIQ: the index that Skype is measured against (Section 2.2), without its decay of time.

The space is divided by a quadtree. A subscription is assigned to cells that cover all of it, small ones around its place and
larger ones farther away, and for each of them it is known beforehand what its text and that of a message from there must have
in common at least. Each cell has an inverted file ordered by subscription. A message goes through the files of the cells that
it is in, document at a time, and what has enough in common is verified.

Costs: a message reads every posting of its keywords in its cells. Each subscription is there exactly once, so that is all of
them; and it is posted ``3 * depth + 1`` times. A new threshold is a new bound for each of its cells. Files are laid out anew
when an eighth of the subscriptions has come or gone; until then, those that have come are verified with every message.
"""

import numpy as np
from numpy.typing import NDArray

from operators.indexes.core.growth import grown
from operators.indexes.topk import ciq_kernels as kernels
from operators.indexes.topk.frame import frame_of
from operators.indexes.topk.scored_pairs import PROBE_BITS, KnownMessages, Verifier, known_messages
from operators.indexes.topk.scored_table import COUNT, ScoredTable, X, Y
from operators.indexes.topk.topk_index import Hits, Messages, joined_hits
from streams.errors import DeclarationError

__all__ = ["Ciq"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Slots = NDArray[np.int32]

#: Candidates that are verified together.
CANDIDATES = 1 << 20
#: Files are laid out anew when one in so many has come or gone, and at least so many have.
CHANGED, LEAST = 8, 64


class Ciq:
    """Subscriptions by covering cell and keyword.

    Options:
        depth: levels of the quadtree.
    """

    def __init__(self, table: ScoredTable, *, depth: int = 3) -> None:
        if not 1 <= depth <= 12:
            raise DeclarationError(f"depth = {depth}, expected 1 to 12")
        self._table, self._depth, self._verifier = table, depth, Verifier(table)
        self._frame = frame_of(table.space, table.metric)
        self._spots: Floats = np.empty((0, 2))
        self._own: Ints = np.empty(0, np.int64)
        self._least: NDArray[np.float32] = np.empty((0, 3 * depth + 1), np.float32)
        self._posted: NDArray[np.bool_] = np.empty(0, np.bool_)
        self._fresh: Slots = np.empty(0, np.int32)
        self._gone = 0
        self._lay_out(self._fresh)

    @property
    def nbytes(self) -> int:
        """Bytes in use."""
        files = self._keys.nbytes + self._begins.nbytes + self._who.nbytes + self._weights.nbytes
        return int(
            files
            + self._fresh.nbytes
            + self._verifier.nbytes
            + (25 + 4 * self._least.shape[1]) * self._table.roster.top
        )

    def add(self, slots: Slots) -> None:
        """Take in subscriptions, to be posted later."""
        lines = self._table.lines
        if len(lines) > len(self._own):
            had, room = len(self._own), len(lines)
            self._spots, self._own = grown(self._spots, room), grown(self._own, room)
            self._least, self._posted = grown(self._least, room), grown(self._posted, room)
            self._posted[had:] = False
        spots = self._frame.spots(lines[slots, X], lines[slots, Y])
        self._spots[slots] = spots
        own = np.empty(len(slots), np.int64)
        kernels.codes(spots, self._depth, own)
        self._own[slots] = own
        # A slot may still be in files from before: these postings must lead to nothing.
        self._least[slots] = np.inf
        self._fresh = np.concatenate([self._fresh, slots])

    def discard(self, slots: Slots) -> None:
        """Forget subscriptions; their postings lead to nothing until they are swept out."""
        self._least[slots] = np.inf
        self._gone += int(np.count_nonzero(self._posted[slots]))
        self._posted[slots] = False
        self._fresh = np.setdiff1d(self._fresh, slots, assume_unique=True)

    def retune(self, slots: Slots) -> None:
        """Compute the bounds of subscriptions anew."""
        self._bound(slots[self._posted[slots]])

    def _bound(self, slots: Slots) -> None:
        kernels.bounds(slots, self._spots, self._own, self._depth, self._frame.diagonal, self._table.lines, self._least)

    def _lay_out(self, slots: Slots) -> None:
        """Post subscriptions, and no others."""
        table = self._table
        count = int(table.parts[slots, COUNT].sum()) * (3 * self._depth + 1)
        keys, who = np.empty(count, np.int64), np.empty(count, np.int32)
        weights = np.empty(count, np.float32)
        kernels.postings(
            slots, self._own, self._depth, table.parts, table.long, table.lines, table.idf, keys, who, weights
        )
        order = np.argsort(keys, kind="stable")  # slots ascend, and stay so within a list
        keys, self._who, self._weights = keys[order], who[order], weights[order]
        first = np.flatnonzero(np.diff(keys, prepend=-1))
        self._keys, self._begins = keys[first], np.append(first, count)
        self._posted[:] = False
        self._posted[slots] = True
        self._bound(slots)
        self._fresh, self._gone = np.empty(0, np.int32), 0

    def probe(self, messages: Messages) -> Hits:
        """Return what messages enter."""
        posted = int(np.count_nonzero(self._posted))
        if len(self._fresh) + self._gone > max(LEAST, posted // CHANGED):
            self._lay_out(np.sort(np.concatenate([np.flatnonzero(self._posted).astype(np.int32), self._fresh])))
        known = known_messages(messages, self._table)
        spots = self._frame.spots(known.x, known.y)
        longest = int(np.diff(known.off).max(initial=0))
        cursor, end, weight = np.empty(longest, np.int64), np.empty(longest, np.int64), np.empty(longest)
        out = np.empty(max(CANDIDATES, posted), np.int64)
        found, first, tally = [self._probe_fresh(known)], 0, np.zeros(2, np.int64)
        while first < len(known):
            first = int(kernels.disseminate(
                first, spots, known.off, known.words, known.weights, self._depth, self._keys, self._begins, self._who,
                self._weights, self._own, self._least, cursor, end, weight, out, tally,
            ))  # fmt: skip
            found.append(self._verifier.hits(out[: tally[0]], known))
        hits = joined_hits(found)
        return Hits(hits.row, hits.slot, hits.score, found[0].examined + int(tally[1]), hits.looked)

    def _probe_fresh(self, known: KnownMessages) -> Hits:
        """Verify what is not posted yet with every message."""
        pairs = ((self._fresh.astype(np.int64) << PROBE_BITS) | np.arange(len(known))[:, None]).ravel()
        return self._verifier.hits(pairs, known)
