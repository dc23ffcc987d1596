"""What is known of each subscription's window, by slot: the result, and what may come into it (Skype, Section 6).

A buffer lists messages best first; the result is its first k. Its threshold theta, a score and a `seq`, says how much it
knows: every message of the window that shares a keyword and is better is in the buffer, or has k newer ones at least as good
beside it, so that it can never come into the result (a partial k-skyband, Definition 11). A buffer with a threshold of -inf
knows all. One with fewer than k entries, whose threshold is not -inf, has run dry: it wants to be filled from the window.

How much is fetched then, and what happens to a buffer that is full, is the matter of a rule (`buffer_rule`). Each of them
is exact, because dropping an entry raises the threshold.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from operators.indexes.core.growth import grown
from operators.indexes.topk import buffer_kernels as kernels
from operators.indexes.topk.buffer_blocks import BLOCK_CLASSES, NEED, TOP, USED
from operators.indexes.topk.buffer_rule import Ask, Rule
from operators.indexes.topk.entry_keys import PLACES
from operators.indexes.topk.expiry_calendar import NOWHERE, PAGE
from operators.indexes.topk.topk_index import Answers
from streams.columns import Ints
from streams.errors import InputError

__all__ = ["Buffers", "Whole"]

Floats = NDArray[np.float64]
Slots = NDArray[np.int32]

#: Entries that are not worth packing anew; how many times k a buffer is small.
SMALLEST_REPACK, TIGHT = 4096, 4

_NO_CUT = -(2**62)


@dataclass(frozen=True, slots=True, eq=False)
class Whole:
    """Buffers with their thresholds, ready for another task: ragged rows, best first."""

    off: Ints
    seq: Ints
    score: Floats
    theta: Floats
    cut: Ints


class Buffers:
    """The buffers of many subscriptions under one rule.

    Attributes:
        theta: the threshold's score, by slot.
    """

    def __init__(self, rule: Rule) -> None:
        self._rule = rule
        self.theta: Floats = np.empty(0)
        self._heads: Slots = np.zeros((0, 4), np.int32)
        self._oldest: Slots = np.empty(0, np.int32)
        self._pages: Slots = np.empty(0, np.int32)
        self._high: Ints = np.empty(0, np.int64)
        self._low: NDArray[Any] = np.empty(0, np.uint16)
        self._free: Ints = np.full(BLOCK_CLASSES, -1, np.int64)
        self._state: Ints = np.zeros(kernels.STATE_SIZE, np.int64)
        self._state[kernels.SKYBAND] = rule.skyband
        self._begin(0)
        self._places: Slots = np.empty(0, np.int32)
        self._sizes: Slots = np.zeros((1, 3), np.int32)
        self._newest: int | None = None
        self._open = 0

    @property
    def _arrays(self) -> Any:
        """What kernels are given."""
        return (
            self.theta, self._heads, self._oldest, self._high, self._low, self._free, self._pages, self._sizes,
            self._places, self._state,
        )  # fmt: skip

    @property
    def first(self) -> int:
        """Where the window begins."""
        return int(self._state[kernels.BASE] + self._state[kernels.FIRST])

    @property
    def nbytes(self) -> int:
        """Bytes in use."""
        return 28 * self._open + (8 + self._low.itemsize) * int(self._state[TOP]) + self._pages.nbytes

    # --- subscriptions come and go -----------------------------------------------------------------------------------

    def open(self, slots: Slots, k: NDArray[np.int32]) -> None:
        """Begin empty buffers that know everything: fill them before the next message, where the window is not empty."""
        room = int(slots.max(initial=-1)) + 1
        if room > len(self.theta):
            room += room // 2
            held = len(self.theta)
            self.theta, self._heads = grown(self.theta, room), grown(self._heads, room)
            self._oldest, self._pages = grown(self._oldest, room), grown(self._pages, 1 + room // PAGE)
            self._heads[held:, kernels.PACKED] = 0
            self._oldest[held:] = NOWHERE
            self._pages[held // PAGE :] = kernels.NO_CUT
        if k.max(initial=0) >= len(self._sizes):
            every = np.arange(int(k.max()) + 1, dtype=np.int32)
            capacity = self._rule.capacity(every)
            # Buffers that are never much larger than k have all of their room at once: blocks of one size leave no gaps.
            whole = np.where(capacity <= TIGHT * every, capacity, 0)
            self._sizes = np.column_stack([capacity, self._rule.keep(every), whole]).astype(np.int32)
            self._places = np.empty(int(capacity.max()), np.int32)
        kernels.open_buffers(slots, k, self.theta, self._heads, self._oldest)
        self._open += len(slots)

    def close(self, slots: Slots) -> None:
        """Forget buffers."""
        kernels.close(slots, *self._arrays)
        self._open -= len(slots)
        self._tidy()

    # --- messages come and go ----------------------------------------------------------------------------------------

    def enter(self, slots: Slots, seq: Ints, score: Floats) -> Slots:
        """Enter pairs of a subscription and a message, in any order; return the slots whose result has changed.

        What is not above the threshold, has expired or is there already is passed over.
        """
        self._reach(seq, self.first)
        changed = np.empty(min(len(slots), len(self.theta)), np.int32)
        begin, count = 0, 0
        while True:
            begin, count = kernels.enter(begin, slots, seq, score, *self._arrays, changed, count)
            if begin == len(slots):
                return changed[:count]
            self._make_room()

    def expire(self, first: int) -> tuple[Slots, Slots]:
        """Let the window begin at `first`; return the slots whose result has changed, and those that have run dry.

        One that has run dry is returned once, until it is filled.
        """
        before = self.first
        if first <= before:
            return np.empty(0, np.int32), np.empty(0, np.int32)
        self._reach(np.array([first]), first)
        changed, wanting = np.empty(self._open, np.int32), np.empty(self._open, np.int32)
        count, wants = kernels.expire(first, *self._arrays, changed, wanting)
        self._rule.learn(0, first - before, 0, 0)
        return changed[:count].copy(), wanting[:wants].copy()

    def expire_some(self, slots: Slots, first: Ints) -> tuple[Slots, Slots]:
        """Do the same for some slots only, by a window of each that begins no later than the next one of all."""
        changed, wanting = np.empty(len(slots), np.int32), np.empty(len(slots), np.int32)
        count, wants = kernels.expire_some(
            slots, first, self.theta, self._heads, self._high, self._low, self._state, changed, wanting
        )
        return changed[:count], wanting[:wants]

    # --- buffers are filled ------------------------------------------------------------------------------------------

    def requests_for(self, slots: Slots) -> Ask:
        """Return what to search for in order to fill buffers."""
        return self._rule.ask(self._k(slots))

    def refill(self, slots: Slots, answers: Answers) -> None:
        """Replace buffers by what a search of the window, as it is now, has found."""
        self._reach(answers.seq, self.first)
        self._rule.learn(0, 0, len(slots), answers.examined)
        off, seq, score, floor = answers.off, answers.seq, answers.score, answers.floor
        begin = 0
        while (begin := kernels.refill(begin, slots, off, seq, score, floor, *self._arrays)) < len(slots):
            self._make_room()
        self._tidy()

    def retuned(self) -> Slots:
        """Return the slots whose threshold has changed since this was last asked."""
        slots: Slots = np.empty(self._open, np.int32)
        return slots[: kernels.take_retuned(self._heads, slots)].copy()

    # --- what is in them ---------------------------------------------------------------------------------------------

    def lists(self, slots: Slots) -> tuple[Ints, Ints, Floats]:
        """Return results as ragged rows, best first: offsets, `seq` and scores."""
        return self._gather(slots, whole=False)

    def whole(self, slots: Slots) -> Whole:
        """Return buffers with all that is in them."""
        cut = self._heads[slots, kernels.CUT].astype(np.int64)
        cut = np.where(cut == kernels.NO_CUT, _NO_CUT, cut + self._state[kernels.BASE])
        return Whole(*self._gather(slots, whole=True), self.theta[slots], cut)

    def adopt(self, slots: Slots, whole: Whole) -> Slots:
        """Unite buffers with those that another task has of the same subscriptions; return the slots that have run dry.

        What both know together is what is above both thresholds.
        """
        kernels.raise_to(slots, whole.theta, whole.cut, self.theta, self._heads, self._high, self._low, self._state)
        self.enter(np.repeat(slots, np.diff(whole.off)), whole.seq, whole.score)
        return self.expire_some(slots, np.full(len(slots), self.first))[1]

    def _gather(self, slots: Slots, *, whole: bool) -> tuple[Ints, Ints, Floats]:
        lengths = self._heads[slots, kernels.LENGTH]
        off = np.zeros(len(slots) + 1, np.int64)
        np.cumsum(lengths if whole else np.minimum(lengths, self._k(slots)), out=off[1:])
        seq, score = np.empty(int(off[-1]), np.int64), np.empty(int(off[-1]))
        base = int(self._state[kernels.BASE])
        kernels.gather(slots, whole, self._heads, self._high, self._low, base, off, seq, score)
        return off, seq, score

    def _k(self, slots: Slots) -> Slots:
        return np.asarray(self._heads[slots, kernels.PACKED] >> kernels.K_SHIFT, np.int32)

    def _held(self) -> Slots:
        return np.flatnonzero(self._heads[:, kernels.PACKED]).astype(np.int32)

    # --- room --------------------------------------------------------------------------------------------------------

    def _begin(self, first: int) -> None:
        """Let an empty window begin with a message."""
        self._state[kernels.BASE], self._state[kernels.FIRST] = first - 1, 1

    def _make_room(self) -> None:
        """Give kernels what they have asked for: keys of any score, or larger pools."""
        if self._state[kernels.ODD]:
            self._repack(np.dtype(np.uint32))
            self._state[kernels.ODD] = 0
            return
        room = int(self._state[TOP] + max(self._state[NEED], self._state[TOP] // 2, 1024))
        self._high, self._low = grown(self._high, room), grown(self._low, room)

    def _tidy(self) -> None:
        """Pack the pools anew where most of them is free blocks."""
        top, used = int(self._state[TOP]), int(self._state[USED])
        if top > 2 * used + SMALLEST_REPACK:
            self._repack(self._low.dtype)

    def _repack(self, lows: np.dtype[Any]) -> None:
        """Move buffers together, with keys of this type."""
        room = 9 * int(self._state[USED]) // 8 + 1024
        high, low = np.empty(room, np.int64), np.empty(room, lows)
        kernels.repack(self._held(), self._heads, self._high, self._low, high, low, self._state)
        self._high, self._low = high, low
        self._free[:] = -1

    def _reach(self, seq: Ints, first: int) -> None:
        """Make places reach from the first message of the window to the newest."""
        if not len(seq):
            return
        newest = int(seq.max())
        if self._newest is not None:
            newest = max(newest, self._newest)
            self._rule.learn(newest - self._newest, 0, 0, 0)
        self._newest = newest
        narrow = self._low.itemsize == 2
        if newest - int(self._state[kernels.BASE]) <= PLACES[0 if narrow else 1]:
            return
        if narrow and newest - self.first >= PLACES[0] // 2:
            self._repack(np.dtype(np.uint32))
            self._reach(seq, first)
        else:
            self._rebase(seq, first, newest)

    def _rebase(self, seq: Ints, first: int, newest: int) -> None:
        """Count from the first message of the window, or from as far back as places reach."""
        held, longest = self._held(), PLACES[1] - 1
        base = max(self.first, newest - longest) - 1
        known = np.concatenate([seq, self._gather(held, whole=True)[1]])
        if (known[known >= first] <= base).any():
            raise InputError(
                f"a window from message {known[known >= first].min()} to {newest} is longer than {longest} messages; "
                "use a shorter one (topology.window)"
            )
        kernels.rebase(
            held, base - int(self._state[kernels.BASE]), self._heads, self._oldest, self._pages, self._high, self._low
        )
        self._begin(base + 1)

    # --- state -------------------------------------------------------------------------------------------------------

    def snapshot(self) -> dict[str, Any]:
        """Return all buffers as plain arrays."""
        slots = self._held()
        whole, newest = self.whole(slots), self.first if self._newest is None else self._newest
        return {
            "slot": slots, "k": self._k(slots), "off": whole.off, "seq": whole.seq, "score": whole.score,
            "theta": whole.theta, "cut": whole.cut, "window": np.array([self.first, newest], np.int64),
            "wanting": self._heads[slots, kernels.PACKED] & kernels.WANTING != 0, "rule": self._rule.snapshot(),
        }  # fmt: skip

    def restore(self, state: dict[str, Any]) -> None:
        """Become the buffers that made this snapshot; all of their slots count as retuned."""
        self.__init__(self._rule)  # type: ignore[misc]
        self._rule.restore(state["rule"])
        first, self._newest = (int(place) for place in state["window"])
        self._begin(first)
        slots = np.array(state["slot"], np.int32)
        self.open(slots, np.array(state["k"], np.int32))
        whole = Whole(*(np.array(state[name]) for name in ("off", "seq", "score", "theta", "cut")))
        self.adopt(slots, whole)
        self._heads[slots, kernels.PACKED] &= ~kernels.WANTING  # who is searched for is as it was
        self._heads[slots[np.array(state["wanting"], np.bool_)], kernels.PACKED] |= kernels.WANTING
