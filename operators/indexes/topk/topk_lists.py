"""The lists of top-k subscriptions over a window: from registration to the last moment, whoever searches the window.

A subscription is *fresh* until its first search. From then on messages enter its buffer, and leave it when they leave the
window; when it has run dry, the window must be searched again, and until that is answered nobody may speak for it. The list of
one that has ended is that of its last moment, in the window as it was then.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from operators.indexes.core.standing_queries import StandingQueries
from operators.indexes.topk.buffers import Buffers
from operators.indexes.topk.topk_index import Answers
from operators.indexes.topk.window_log import WindowLog
from streams.batches import TYPE_TOPK, RankedBatch
from streams.columns import Ints, csr_take, union_of, without

__all__ = ["TopkLists", "Wanted", "part_of_lists", "united_lists"]

Floats = NDArray[np.float64]
Slots = NDArray[np.int32]

_NONE: Ints = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Wanted:
    """Subscriptions that need a search, and the limits of `Requests` for each.

    Attributes:
        living: which of them are searched for in the window as it is; the window of the others ends in the past.
    """

    numbers: Ints
    least: Slots
    most: Slots
    bound: Floats
    ratio: Floats
    first: Ints
    stop: Ints
    living: NDArray[np.bool_]


class TopkLists:
    """Lists by number, over the slots of a table of subscriptions.

    Attributes:
        fresh: subscriptions without a list yet.
        asked: those whose search is under way.
        final: the lists of those that take no part any more, because they have ended or sleep.
    """

    def __init__(self, table: StandingQueries, buffers: Buffers, log: WindowLog) -> None:
        self._table, self._buffers, self._log = table, buffers, log
        self.fresh: Ints = _NONE
        self.asked: Ints = _NONE
        self.final: RankedBatch = RankedBatch.empty()
        self._named: Ints = _NONE

    # --- what comes and goes -----------------------------------------------------------------------------------------

    def begin(self, numbers: Ints) -> None:
        """Let subscriptions that are in the table have a list, from their first search on."""
        self._forget_final(numbers)
        self.fresh = union_of(self.fresh, numbers)

    def _forget_final(self, numbers: Ints) -> None:
        if len(self.final):
            self.final = self.final.take(np.flatnonzero(~np.isin(self.final.number, numbers)))

    def _filled(self, numbers: Ints) -> Ints:
        """Return those that have a buffer."""
        return without(without(numbers, self.fresh), self.final.number)

    def close(self, numbers: Ints) -> None:
        """Forget subscriptions, before they leave the table."""
        self._buffers.close(self._table.slots(self._filled(numbers)))
        self._forget_final(numbers)
        for name in ("fresh", "asked", "_named"):
            setattr(self, name, without(getattr(self, name), numbers))

    def freeze(self, numbers: Ints) -> None:
        """Let lists stay as they are from now on."""
        numbers = self._filled(numbers)
        lists = self.results(numbers)
        self._buffers.close(self._table.slots(numbers))
        self.final = RankedBatch.concat([self.final, lists])

    def ended(self) -> Ints:
        """Return the subscriptions whose end was met, each once."""
        named, self._named = self._named, _NONE
        return named

    # --- messages, and time ------------------------------------------------------------------------------------------

    def enter(self, slots: Slots, seq: Ints, score: Floats) -> Ints:
        """Enter messages into buffers; return the numbers of the lists that have changed, ascending."""
        return self._ascending(np.sort(self._buffers.enter(slots, seq, score)))

    def _ascending(self, slots: Slots) -> Ints:
        """Return the numbers of slots, which ascend with these more often than not."""
        numbers = self._table.numbers_of(slots)
        return numbers if (numbers[1:] > numbers[:-1]).all() else np.sort(numbers)

    def due(self, now: int, until: int | None, stop: int) -> tuple[Ints, Wanted]:
        """Let time go by; return whose lists have changed, ascending, and who needs a search.

        It is `now`, all messages before `stop` have come, and all input before `until` is complete.
        """
        ended = _NONE if until is None else self._table.ended(until)
        self._named = union_of(self._named, ended)
        ended = without(ended, self.final.number)
        over = self._end(ended)
        first = self._log.first(now, stop)
        slots, wanting = self._buffers.expire(first)
        changed, dry = self._ascending(slots), self._table.numbers_of(wanting)
        begun = self._begun(now)
        self._buffers.open(self._table.slots(begun), self._k(begun))
        self.fresh = without(self.fresh, begun)
        dry = np.concatenate([without(dry, self.asked), begun])
        ask = self._buffers.requests_for(self._table.slots(dry))
        window = np.full(len(dry), first), np.full(len(dry), stop)
        living = Wanted(dry, ask.least, ask.most, ask.bound, ask.ratio, *window, np.ones(len(dry), np.bool_))
        self.asked = union_of(self.asked, np.concatenate([dry, over.numbers]))
        return union_of(changed, ended), _together(living, over)

    def _begun(self, now: int) -> Ints:
        """Return the fresh subscriptions that are awake and have begun by a time."""
        if not len(self.fresh):
            return _NONE
        awake = without(self.fresh, self._table.asleep())
        return awake[self._table.starts_of(self._table.slots(awake)) <= now]

    def _end(self, ended: Ints) -> Wanted:
        """Keep the final lists of subscriptions; return those that need a search for it."""
        ended = without(ended, self._table.asleep())
        slots = self._table.slots(ended)
        ends = self._table.ends_of(slots)
        moments, at = np.unique(ends, return_inverse=True)
        stops = [self._log.stop_at(end) for end in moments.tolist()]
        firsts = [self._log.first(end - 1, stop) for end, stop in zip(moments.tolist(), stops, strict=True)]
        first, stop = np.array(firsts, np.int64)[at], np.array(stops, np.int64)[at]
        filled = ~np.isin(ended, self.fresh)
        unsure = np.isin(ended, self.asked)
        _, dry = self._buffers.expire_some(slots[filled], first[filled])
        good = filled & ~unsure & ~np.isin(slots, dry)
        lists = self._listed(ended[good], *self._buffers.lists(slots[good]))
        self._buffers.close(slots[filled])
        self.fresh = without(self.fresh, ended)
        empty = ended[~good]
        nothing = self._listed(empty, np.zeros(len(empty) + 1, np.int64), _NONE, np.empty(0))
        self.final = RankedBatch.concat([self.final, lists, nothing])
        # One that ends as it begins lives at no instant, and lists nothing.
        rest = ~good & (self._table.starts_of(slots) < ends)
        count = int(rest.sum())
        k = self._k(ended[rest])
        return Wanted(
            ended[rest],
            k,
            k,
            np.full(count, -np.inf),
            np.zeros(count),
            first[rest],
            stop[rest],
            np.zeros(count, np.bool_),
        )

    def refill(self, numbers: Ints, answers: Answers) -> None:
        """Take what was found for subscriptions that were asked for."""
        self.asked = without(self.asked, numbers)
        over = np.isin(numbers, self.final.number)
        if over.any():
            lists = self._listed(numbers[over], *_best(_rows_of(answers, np.flatnonzero(over)), self._k(numbers[over])))
            self._forget_final(numbers[over])
            self.final = RankedBatch.concat([self.final, lists])
        self._buffers.refill(self._table.slots(numbers[~over]), _rows_of(answers, np.flatnonzero(~over)))

    # --- lists -------------------------------------------------------------------------------------------------------

    def results(self, numbers: Ints) -> RankedBatch:
        """Return lists, in this order; those of fresh subscriptions are empty."""
        filled = self._filled(numbers)
        slots = self._table.slots(filled)
        lists = self._of(filled, self._table.k_of(slots), *self._buffers.lists(slots))
        if len(filled) == len(numbers):
            return lists
        empty = without(numbers[np.isin(numbers, self.fresh)], self.final.number)
        none = self._listed(empty, np.zeros(len(empty) + 1, np.int64), _NONE, np.empty(0))
        whole = RankedBatch.concat([lists, none, self.final])
        place = np.argsort(whole.number, kind="stable")
        return whole.take(place[np.searchsorted(whole.number[place], numbers)])

    def _listed(self, numbers: Ints, off: Ints, seq: Ints, score: Floats) -> RankedBatch:
        return self._of(numbers, self._k(numbers), off, seq, score)

    def _of(self, numbers: Ints, k: Slots, off: Ints, seq: Ints, score: Floats) -> RankedBatch:
        count = len(numbers)
        return RankedBatch(
            number=numbers, ts=np.zeros(count, np.int64), type=np.full(count, TYPE_TOPK, np.uint8),
            k=k, instant=np.zeros(count, np.bool_), off=off.astype(np.int32), seq=seq,
            ids=self._log.ids(seq), value=score,
        )  # fmt: skip

    def _k(self, numbers: Ints) -> Slots:
        return self._table.k_of(self._table.slots(numbers))

    def adopt(self, results: RankedBatch) -> None:
        """Take the final lists of subscriptions that sleep here and have none."""
        unknown = np.isin(results.number, self._table.asleep()) & ~np.isin(results.number, self.final.number)
        self.final = RankedBatch.concat([self.final, results.take(np.flatnonzero(unknown))])
        self.fresh = without(self.fresh, results.number[unknown])

    # --- state -------------------------------------------------------------------------------------------------------

    def snapshot(self) -> dict[str, Any]:
        """Return buffers by number, and what is under way."""
        buffers = self._buffers.snapshot()
        return {
            "buffers": {**buffers, "slot": self._table.numbers_of(buffers["slot"])},
            "fresh": self.fresh,
            "asked": self.asked,
            "final": self.final,
            "named": self._named,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Take over a snapshot; its subscriptions are in the table."""
        if state["buffers"] is not None:
            self._buffers.restore({**state["buffers"], "slot": self._table.slots(state["buffers"]["slot"])})
        self.fresh, self.asked, self.final, self._named = (state[name] for name in ("fresh", "asked", "final", "named"))

    def renumber(self, old: Slots) -> None:
        """Follow a table whose slots have changed: what was at ``old[i]``, ascending, is at i."""
        state = self._buffers.snapshot()
        self._buffers.restore({**state, "slot": np.searchsorted(old, state["slot"]).astype(np.int32)})


def _together(one: Wanted, other: Wanted) -> Wanted:
    columns = ((getattr(one, name), getattr(other, name)) for name in Wanted.__slots__)
    return Wanted(*(np.concatenate(pair) for pair in columns))


def _best(answers: Answers, k: Slots) -> tuple[Ints, Ints, Floats]:
    """Return the first k of each list: several stores may have found more."""
    row = np.repeat(np.arange(len(k)), np.diff(answers.off))
    kept = np.arange(len(answers.seq)) - answers.off[row] < k[row]
    off = np.concatenate([[0], np.cumsum(kept)])[answers.off]
    return off, answers.seq[kept], answers.score[kept]


def _rows_of(answers: Answers, rows: Ints) -> Answers:
    """Return some of the lists that were found."""
    if len(rows) == len(answers.floor):
        return answers
    off, place = csr_take(answers.off.astype(np.int32), np.arange(len(answers.seq)), rows)
    return Answers(
        off.astype(np.int64), answers.seq[place], answers.score[place], answers.floor[rows], answers.examined
    )


# --- states of several tasks ------------------------------------------------------------------------------------------

_BY_SLOT = ("slot", "k", "theta", "cut", "wanting")


def united_lists(states: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the snapshot of one that has the lists of several."""
    buffers = [state["buffers"] for state in states]
    whole = {name: np.concatenate([one[name] for one in buffers]) for name in (*_BY_SLOT, "seq", "score")}
    lengths = np.concatenate([np.diff(one["off"]) for one in buffers])
    whole["off"] = np.concatenate([[0], np.cumsum(lengths)])
    whole["window"] = np.max([one["window"] for one in buffers], axis=0)
    whole["rule"] = buffers[0]["rule"]
    numbers = {name: np.sort(np.concatenate([state[name] for state in states])) for name in ("fresh", "asked", "named")}
    return {"buffers": whole, **numbers, "final": RankedBatch.concat([state["final"] for state in states])}


def part_of_lists(state: dict[str, Any], mine: Callable[[Ints], NDArray[np.bool_]]) -> dict[str, Any]:
    """Return the snapshot of one that has some of the lists only."""
    buffers = state["buffers"]
    rows = np.flatnonzero(mine(buffers["slot"]))
    off, place = csr_take(buffers["off"].astype(np.int32), np.arange(len(buffers["seq"])), rows)
    part = {name: buffers[name][rows] for name in _BY_SLOT}
    part |= {"off": off.astype(np.int64), "seq": buffers["seq"][place], "score": buffers["score"][place]}
    numbers = {name: state[name][mine(state[name])] for name in ("fresh", "asked", "named")}
    final = state["final"].take(np.flatnonzero(mine(state["final"].number)))
    return {"buffers": {**buffers, **part}, **numbers, "final": final}
