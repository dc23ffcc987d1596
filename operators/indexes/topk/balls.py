"""The ball index: a subscription as balls whose radius is linear in the weights of the message, one for each keyword.

Let w be the shared keyword with the largest id, the rarest. What both have in common apart from it is among the keywords with
smaller ids; let b and n be the norms of these parts of the message and of the subscription. Then

    cosine <= weight(m, w) * weight(s, w) + b * n                                                 (Cauchy-Schwarz)

where the second term is 0 if signatures of these parts tell that they are disjoint. With that, score >= theta becomes

    distance / maxdist <= weight(m, w) * U1 + b * U2 + C       U1 = (1 - alpha) * weight(s, w) / alpha
                                                               U2 = (1 - alpha) * n / alpha,   C = 1 - theta / alpha

a ball around the subscription, tested without root or division. A pair is found through each shared keyword and accepted
through w alone, which is also what the bound is for. Where alpha is next to 0 the place is left out of the test.

Every keyword has a stack of grids of its own. A ball is filed by its place in the grid whose cells are as wide as its radius
for a message of the usual norm, which a fifth of the keyword's messages exceed. What is not a ball for such a message, or is
wider than half of the space, is in lists by the least norm that it needs. A message of a larger norm looks at more cells. A new
threshold is a write in place, unless the ball has outgrown its cell. The balls of a keyword are laid out anew when its cells
have overflowed, when many of them would be better elsewhere, or when messages have changed: one keyword at a time.

Costs: a probe reads, for each keyword of a message, up to three by three cells of each of its grids.
Memory: 28 bytes a ball, with a quarter of room to spare, at most two cells of four bytes, and 20 bytes a subscription to find
its balls again; 48 bytes a keyword. During a probe 16 bytes a candidate, of which four for each subscription, or a million, are
held at a time.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from operators.indexes.core.growth import grown
from operators.indexes.knn.blocks import BLOCK_CLASSES
from operators.indexes.topk import ball_filing, ball_memory, ball_probe
from operators.indexes.topk import ball_kernels as kernels
from operators.indexes.topk.frame import frame_of
from operators.indexes.topk.scored_pairs import PROBE_BITS, Columns, KnownMessages, Verifier, known_messages
from operators.indexes.topk.scored_table import INLINE, ScoredTable, X, Y
from operators.indexes.topk.topk_index import Hits, Messages

__all__ = ["Balls"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Slots = NDArray[np.int32]

#: Candidates that are verified together, at most, and how many of each subscription: the more there are, the nearer to each
#: other are those that come one after the other. The 16 bytes that each takes are given back with the hits.
CANDIDATES, OF_EACH = 1 << 20, 4
#: Of the balls that a call has tested, so many are named at most.
LOOKED = 1 << 13
#: Candidates are sorted into so many ranges of slots.
RANGES = 2048
#: Balls that are laid out anew after a probe, at most, beyond the first keyword.
REFRESHED = 1 << 17
#: Balls and cells move together when one in so many is lost.
LOST_SHARE = 16


class Balls:
    """Subscriptions as balls, by keyword, radius and place."""

    def __init__(self, table: ScoredTable) -> None:
        self._table, self._verifier = table, Verifier(table)
        self._frame = frame_of(table.space, table.metric)
        self._balls: NDArray[np.float32] = np.empty((5, 0), np.float32)
        self._owners: Slots = np.empty((2, 0), np.int32)
        self._words: Slots = np.zeros((0, kernels.WORD_WIDTH), np.int32)
        self._starts: Slots = np.empty(0, np.int32)
        self._places: Slots = np.empty((0, INLINE), np.int32)
        self._more: Slots = np.empty(0, np.int32)
        self._free: Slots = np.full(BLOCK_CLASSES, -1, np.int32)
        self._state: Ints = np.zeros(kernels.STATE_SIZE, np.int64)
        self._due: Slots = np.empty(0, np.int32)
        self._waiting: Slots = np.empty(0, np.int32)
        self._ends: Ints = np.empty(RANGES + 2, np.int64)
        self._scratch = _scratch(256)

    @property
    def nbytes(self) -> int:
        """Bytes in use; capacity that was never touched is address space, not memory."""
        state = self._state
        pools = 28 * int(state[kernels.BALLS_TOP]) + 4 * int(state[kernels.STARTS_TOP] + state[kernels.MORE_TOP])
        scratch = sum(part.nbytes for part in self._scratch) + self._verifier.nbytes
        rows = 4 * INLINE * self._table.roster.top + 4 * kernels.WORD_WIDTH * self._table.words.top
        return int(pools + scratch + rows)

    @property
    def _pool(self) -> tuple[Any, ...]:
        return (self._balls, self._owners, self._words, self._words.view(np.float32), self._starts,
                self._starts.view(np.float32), self._places, self._more, self._state)  # fmt: skip

    @property
    def _rows(self) -> tuple[Slots, Slots, Ints]:
        return self._table.parts, self._table.long, self._table.filing

    def _spots(self, slots: Slots) -> NDArray[np.float32]:
        lines = self._table.lines
        return self._frame.spots(lines[slots, X], lines[slots, Y]).astype(np.float32)

    def add(self, slots: Slots) -> None:
        """File the balls of subscriptions."""
        self._reserve()
        while not ball_memory.open_rows(slots, self._table.parts, self._places, self._more, self._free, self._state):
            self._more = grown(self._more, 2 * len(self._more) + 64 * len(slots) + 1024)
        self._until_done(ball_filing.add, slots)

    def _reserve(self) -> None:
        room, words = len(self._table.lines), self._table.words.top
        if room > len(self._places):
            self._places = grown(self._places, room)
        if words > len(self._words):
            had = len(self._words)
            self._words = grown(self._words, 2 * words + 16)
            self._words[had:] = 0
            self._due = np.empty(len(self._words), np.int32)

    def _until_done(self, kernel: Any, slots: Slots, *more: Any) -> None:
        """Call a kernel again and again, with more room each time it asks for some."""
        table, done = self._table, np.zeros(2, np.int64)
        spots = self._spots(slots)
        while not kernel(
            done, slots, spots, self._frame.diagonal, table.lines, table.idf, table.words.raw, self._rows, self._pool,
            self._scratch, *more,
        ):  # fmt: skip
            self._make_room()

    def _make_room(self) -> None:
        """Give kernels what they have asked for: memory that has been given up, or else new memory."""
        state = self._state
        if state[kernels.NEED_SCRATCH]:
            self._scratch = _scratch(9 * int(state[kernels.NEED_SCRATCH]) // 8 + 64)
        balls, starts = int(state[kernels.NEED_BALLS]), int(state[kernels.NEED_STARTS])
        state[kernels.NEED_BALLS : kernels.NEED_SCRATCH + 1] = 0
        if not balls and not starts:
            return
        self._squeeze(balls, starts)

    def _squeeze(self, balls: int, starts: int) -> None:
        """Move balls and cells together, so that there is room for so many more."""
        state, words = self._state, self._words
        kept = int(state[kernels.BALLS_TOP] - state[kernels.BALLS_LOST])
        cells = int(state[kernels.STARTS_TOP] - state[kernels.STARTS_LOST])
        used = np.flatnonzero(words[:, kernels.ROOM]).astype(np.int32)
        order = used[np.argsort(words[used, kernels.BEGIN])]
        room = 3 * kept // 2 + balls + 1024
        moved = np.empty((5, room), np.float32), np.empty((2, room), np.int32)
        grids = np.empty(3 * cells // 2 + starts + 1024, np.int32)
        ball_memory.squeeze(order, self._pool, *moved, grids)
        self._balls, self._owners = moved
        self._starts = grids

    def discard(self, slots: Slots) -> None:
        """Take subscriptions out."""
        ball_filing.discard(slots, self._rows, self._pool, self._due)
        ball_memory.close_rows(slots, self._table.parts, self._places, self._more, self._free)
        self._refresh()

    def retune(self, slots: Slots) -> None:
        """Give balls their new radii; what is filed follows `filing` of the table."""
        self._until_done(ball_filing.retune, slots, self._due)
        self._refresh()

    def _refresh(self) -> None:
        """Lay out some of the words that are due."""
        state = self._state
        self._waiting = np.concatenate([self._waiting, self._due[: state[kernels.DUE]]])
        state[kernels.DUE] = 0
        if not len(self._waiting):
            return
        sizes = np.cumsum(self._words[self._waiting, kernels.BALLS])
        count = 1 + int(np.searchsorted(sizes[1:], REFRESHED))
        queue, self._waiting = self._waiting[:count], self._waiting[count:]
        done = np.zeros(1, np.int64)
        while not ball_filing.refresh(done, queue, self._rows, self._pool, self._scratch):
            self._make_room()
        if state[kernels.BALLS_LOST] > state[kernels.BALLS_TOP] // LOST_SHARE + 4096:
            self._squeeze(0, 0)

    def probe(self, messages: Messages) -> Hits:
        """Return what messages enter, keyword by keyword."""
        self._reserve()
        known = known_messages(messages, self._table)
        spots = self._frame.spots(known.x, known.y).astype(np.float32)
        order, total = np.empty(len(known), np.int64), int(known.off[-1])
        ball_probe.curve(spots, order)
        order.sort()
        keys, row, word = np.empty(total, np.int64), np.empty(total, np.int32), np.empty(total, np.int32)
        weight, norm, sign = np.empty(total, np.float32), np.empty(total, np.float32), np.empty(total, np.int32)
        ball_probe.probes(
            order,
            known.off,
            known.words,
            known.weights,
            self._table.words.raw,
            keys,
            row,
            word,
            weight,
            norm,
            sign,
        )
        keys.sort()
        held = len(self._table)
        room = min(max(CANDIDATES, OF_EACH * held), 16 * held + 1024)
        lots = np.empty(room, np.int64), np.empty(room, np.int64)
        runs = np.empty((ball_probe.TOGETHER * ball_probe.MOST_RUNS, 3), np.int64)
        found, first, tally = [], 0, np.zeros(ball_probe.TALLY_SIZE, np.int64)
        looked, tally[ball_probe.EVERY] = np.empty((2, LOOKED), np.int32), 1
        while first < total:
            first = int(ball_probe.scan(
                keys, first, row, word, weight, norm, sign, spots, self._pool, self._due, runs, lots[0], looked, tally
            ))  # fmt: skip
            hits = self._verify(int(tally[ball_probe.COUNT]), lots, (row, word), known)
            found.append(hits if first == total else (hits[0].copy(), hits[1].copy(), hits[2].copy()))
        self._refresh()
        columns = found[0] if len(found) == 1 else self._parted(found)
        return Hits(*columns, int(tally[ball_probe.TESTED]), *looked[:, : tally[ball_probe.LOOKED]].copy())

    def _verify(
        self, count: int, lots: tuple[Ints, Ints], probes: tuple[Slots, Slots], known: KnownMessages
    ) -> Columns:
        """Return the hits among candidates, which are sorted and then written over."""
        candidates, ordered = lots[0][:count], lots[1][:count]
        ball_probe.parted(candidates, PROBE_BITS + self._shift(), self._ends, ordered)
        halves = candidates.view(np.int32)
        hits = self._verifier.hits(ordered, known, probes, (halves[:count], halves[count:], ordered.view(np.float64)))
        return hits.row, hits.slot, hits.score

    def _shift(self) -> int:
        """Return what slots are shifted by to be ranges of them."""
        return (self._table.roster.top // RANGES).bit_length()

    def _parted(self, found: Sequence[Columns]) -> Columns:
        """Return the hits of several lots, or of none, by ranges of slots."""
        row, slot = (np.concatenate([np.empty(0, np.int32), *(one[which] for one in found)]) for which in (0, 1))
        score = np.concatenate([np.empty(0), *(one[2] for one in found)])
        out = np.empty_like(row), np.empty_like(slot), np.empty_like(score)
        ball_probe.parted_hits(row, slot, score, self._shift(), self._ends, *out)
        return out


def _scratch(room: int) -> tuple[Any, ...]:
    """Return arrays for the balls of one word while they are laid out."""
    return np.empty((5, room), np.float32), np.empty((2, room), np.int32), np.empty(room, np.int32)
