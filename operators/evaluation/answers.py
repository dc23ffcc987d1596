"""The lists of one evaluator: which have changed, which may be sent, what is due when, and what moves with a query."""

from collections.abc import Iterator, Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from operators.evaluation.core import Core, Found, Growing, ListCore, Printing
from operators.evaluation.division import standing
from operators.evaluation.handover import Handover
from operators.evaluation.instants import Instants
from operators.operator import Emitter, Epoch, TaskContext
from partitioners.plans.broadcast import HashPlan
from streams.batches import TYPE_TERMS, PrintBatch, QueryBatch, RankedBatch
from streams.columns import Ints, distinct, union_of, without
from streams.hashing import places_by_hash

__all__ = ["Answers", "answers_of"]

#: Lists of a batch, at most: where an epoch has changed millions of them, what is needed to put one together stays small.
SENT_TOGETHER = 1 << 14

_NONE: Ints = np.empty(0, np.int64)


class Answers:
    """What an evaluator whose results are lists sends to the mergers: on one stream, or counts of terms on ``counts``.

    Where lists only gain (`Growing`) and queries have several homes, a list is sent whole once, and then what is new in it.
    Where a query has one home and nobody behind the mergers reads lists (`counted`), fingerprints of them are sent.

    Attributes:
        changed: standing queries whose list has changed since it was sent.
        last_ts: the time of the last object that can have changed a list; None before the first.
    """

    def __init__(
        self,
        core: ListCore,
        *streams: str,
        one_home: bool,
        mergers: int = 1,
        by_remainder: bool = False,
        counted: bool = False,
    ) -> None:
        self._core, self._streams, self._mergers, self._by_remainder = core, streams, mergers, by_remainder
        self._growing = core if isinstance(core, Growing) and not one_home else None
        self._printing = core if isinstance(core, Printing) and one_home and counted else None
        self.instants = Instants()
        self.changed: Ints = _NONE
        self.last_ts: int | None = None
        #: The least `seq` of what was taken since lists were sent, and those lists that have more unsent than came from there.
        self._since: int | None = None
        self._whole: Ints = _NONE

    def change(self, found: Found, ts: int | None, first: int | None = None) -> None:
        """Note what objects up to a time have brought; `first` is the least `seq` of them."""
        self.changed = union_of(self.changed, found.changed)
        self._saw(ts)
        if first is not None:
            self._since = first if self._since is None else min(self._since, first)

    def _saw(self, ts: int | None) -> None:
        if ts is not None:
            self.last_ts = ts if self.last_ts is None else max(ts, self.last_ts)

    # --- what is sent ------------------------------------------------------------------------------------------------

    def send(self, epoch: Epoch, handover: Handover | None, emit: Emitter) -> None:
        """Send answers that are due and lists that have changed; those whose results are on their way are held back."""
        if handover is not None:
            speaking = handover.settle(None if epoch.final else epoch.number)
            if len(speaking):
                spoken = standing(self._core.queries(speaking))
                self.changed, self._whole = union_of(self.changed, spoken), union_of(self._whole, spoken)
        self.answer(epoch.watermark, handover, emit)
        withheld = _NONE if handover is None else handover.withheld
        ready = without(self.changed, withheld)
        self.changed = self.changed[np.isin(self.changed, withheld)] if len(ready) < len(self.changed) else _NONE
        ready = ready[self._core.holds(ready)]
        self._send_lists(ready, emit)
        if handover is not None:
            numbers, others = handover.replaced(ready)
            if len(numbers):
                self._note(_notes(numbers, self.last_ts, -1 - others), emit)

    def _send_lists(self, ready: Ints, emit: Emitter) -> None:
        """Send lists whole, or what is new in them since the last ones were sent."""
        growing, since = self._growing, self._since
        gaining = _NONE if growing is None or since is None else without(ready, self._whole)
        whole = ready if not len(gaining) else ready[np.isin(ready, self._whole)] if len(self._whole) else _NONE
        for numbers in self._together(gaining):
            assert growing is not None
            assert since is not None
            self._emit(self._stamped(growing.gained(numbers, since)), emit)
        if self._printing is not None:
            if len(whole):
                self._note(PrintBatch(whole, self._printing.prints(whole)), emit)
        else:
            for numbers in self._together(whole):
                self._emit(self._stamped(self._core.results(numbers)), emit)
        left = without(self._whole, ready)
        # What is held back is sent whole when its time has come.
        self._whole, self._since = union_of(left[self._core.holds(left)], self.changed), None

    def _together(self, numbers: Ints) -> Iterator[Ints]:
        """Yield queries whose lists make one batch: those of one merger, so that no grouping copies lists to divide them."""
        parts = [numbers]
        if self._mergers > 1 and len(numbers):
            merger = places_by_hash([numbers], self._mergers, by_remainder=self._by_remainder)
            parts = [numbers[merger == one] for one in range(self._mergers)]
        for part in parts:
            for start in range(0, len(part), SENT_TOGETHER):
                yield part[start : start + SENT_TOGETHER]

    def _emit(self, lists: RankedBatch, emit: Emitter) -> None:
        """Send lists, each where its merger reads."""
        if len(self._streams) == 1:
            emit.batch(lists, self._streams[0])
            return
        for stream in self._streams:
            part = lists.where((lists.type == TYPE_TERMS) == (stream == "counts"))
            if len(part):
                emit.batch(part, stream)

    def _note(self, notes: RankedBatch | PrintBatch, emit: Emitter) -> None:
        """Say something of queries to all mergers: those that do not know one pass over it."""
        for stream in self._streams:
            emit.batch(notes, stream)

    def answer(self, watermark: int | None, handover: Handover | None, emit: Emitter) -> None:
        """Answer what is due: all objects up to an instant are here once the watermark has passed it."""
        if watermark is not None and self.instants.earliest < watermark:
            withheld = _NONE if handover is None else handover.withheld
            numbers, instants = self.instants.due(watermark, withheld)
            if len(numbers):
                self._emit(self._core.answer(numbers, instants), emit)

    def _stamped(self, lists: RankedBatch) -> RankedBatch:
        """Give lists the time of the last object that can have changed them."""
        ts = np.full(len(lists), 0 if self.last_ts is None else self.last_ts, np.int64)
        return RankedBatch(
            lists.number, ts, lists.type, lists.k, lists.instant, lists.off, lists.seq, lists.ids, lists.value
        )

    def end(self, numbers: Ints, emit: Emitter) -> None:
        """Say that queries have ended."""
        if len(numbers):
            self._note(_notes(numbers, self.last_ts, np.zeros(len(numbers), np.int64)), emit)

    # --- what moves --------------------------------------------------------------------------------------------------

    def hand_over(
        self, handover: Handover, epoch: int, lag: int, watermark: int | None, ended: Ints
    ) -> list[tuple[int, RankedBatch]]:
        """Put the next plan in force; return what to send to whom: lists, and what this evaluator should have done still.

        Queries that came early are answered from the watermark on: until there, others have answered.
        """
        late, at = self.instants.overdue(handover.leaving, watermark)
        woken, results = handover.switch(self._core, self._core, epoch, lag, ended, watermark)
        self.instants.add(self._core.queries(woken), watermark)
        self.changed = without(self.changed, handover.left)
        sent = []
        for taker, lists in results:
            numbers, others = handover.replaced(lists.number)
            waits = np.isin(late, lists.number)
            instants = _notes(late[waits], None, np.ones(int(waits.sum()), np.int64), at[waits])
            withdrawn = _notes(numbers, self.last_ts, -1 - others)
            sent.append((taker, RankedBatch.concat([self._stamped(lists), withdrawn, instants])))
        handover.sends(sent)
        return sent

    def adopt(self, handover: Handover, given: RankedBatch, giver: int, *, one_home: bool) -> bool:
        """Take results over, and with them what the giver should have done still; return whether lists had changed here.

        Where a query has one home, the list of its next home takes the place of the last one's by itself. One that is not
        held any more has ended on the way of its results, and nobody asks for them.
        """
        held = self._core.holds(given.number)
        if not held.all():
            given = given.take(np.flatnonzero(held))
        if not one_home:
            by = np.where(given.k < 0, -1 - given.k, giver).astype(np.int32)
            listed = ~given.instant & np.isin(given.number, standing(self._core.queries(np.unique(given.number))))
            handover.replace(given.number[listed], by[listed])
        if given.instant.any():
            late = given.take(np.flatnonzero(given.instant))
            self.instants.catch_up(self._core.queries(late.number), late.ts)
        lists = given.take(np.flatnonzero(~given.instant & (given.k > 0)))
        if not len(lists):
            return False
        self._saw(int(lists.ts.max()))
        self._core.adopt(lists)
        self._whole = union_of(self._whole, distinct(lists.number))
        return bool(np.isin(lists.number, self.changed).any())

    # --- state -------------------------------------------------------------------------------------------------------

    def register(self, queries: QueryBatch) -> None:
        """Note when registrations are due."""
        self.instants.add(queries, None)

    def snapshot(self) -> dict[str, Any]:
        """Return what is to be sent."""
        return {
            "instants": self.instants.snapshot(), "changed": self.changed, "last_ts": self.last_ts, "whole": self._whole,
            "since": self._since,
        }  # fmt: skip

    def restore(self, state: dict[str, Any]) -> None:
        """Take over a snapshot."""
        self.instants.restore(state["instants"])
        self.changed, self.last_ts = state["changed"], state["last_ts"]
        self._whole, self._since = state["whole"], state["since"]


def _notes(numbers: Ints, ts: int | None, k: NDArray[np.integer], at: Ints | None = None) -> RankedBatch:
    """Return lists without items, which say something of a query (`RankedBatch`); with an instant: it is not answered yet."""
    return RankedBatch.without_items(numbers, k, (ts or 0) if at is None else at, instant=at is not None)


def answers_of(core: Core, context: TaskContext, streams: Sequence[str]) -> Answers | None:
    """Return the lists of an evaluator, which go out on some streams; none where its results are matches."""
    if not core.remembers:
        return None
    mergers = max((tasks for stream in streams for _, tasks in context.targets.get(stream, ())), default=1)
    return Answers(
        cast(ListCore, core), *streams, one_home=context.plan is not None and context.plan.single_home, mergers=mergers,
        by_remainder=isinstance(context.plan, HashPlan),  # as groupings to mergers do
        counted=len(streams) == 1 and context.counted.issuperset(streams),
    )  # fmt: skip
