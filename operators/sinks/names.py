"""The identifiers that users gave their queries, kept where results are written and nowhere else.

Results travel by query number. A sink that writes them reads the stream ``names`` of the query spouts: numbers, identifiers and
ends. A name is dropped some epochs after its query has ended, so that answers which were held back still find it. Epochs in
which time stands still do not count: some answers wait until it goes on.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from operators.operator import Epoch
from operators.sinks.query_ids import QueryIds
from streams.batches import (
    FOREVER,
    AnswerBatch,
    CrossingBatch,
    EventBatch,
    HitBatch,
    MatchBatch,
    RankedBatch,
    TupleBatch,
)
from streams.columns import Ints
from streams.errors import RunError
from streams.files.named_hits import NamedHits

__all__ = ["KEPT_EPOCHS", "Names"]

#: So many epochs in which time goes on after its end a query may still be named: longer than any answer is held back.
KEPT_EPOCHS = 64

#: Sorted runs of ends are joined when there are so many of them.
_MOST_RUNS = 16

_NONE: Ints = np.empty(0, np.int64)


class Names:
    """Identifiers by query number, as far as they can still be asked for."""

    def __init__(self) -> None:
        self._ids = QueryIds()
        self._runs: list[tuple[Ints, Ints]] = []
        self._leaving: deque[tuple[int, Ints]] = deque()
        #: In how many epochs time has gone on, and up to where.
        self._steps, self._watermark = 0, -FOREVER
        #: Who has ended and is named still, ascending, and when.
        self._over: tuple[Ints, Ints] = (_NONE, _NONE)

    def __len__(self) -> int:
        return len(self._ids)

    def apply(self, batches: Iterable[TupleBatch]) -> None:
        """Take what query spouts say; a number that is known already has another end now."""
        for batch in batches:
            numbers, ids, ends = (batch.column(name) for name in ("number", "id", "end"))
            _, first = np.unique(numbers, return_index=True)
            new = np.sort(first[~self._ids.holds(numbers[first])])
            if len(new):
                self._ids.add(numbers[new], ids.take(new))
            finite = np.flatnonzero(ends != FOREVER)
            if len(finite):
                order = finite[np.argsort(ends[finite], kind="stable")]
                self._runs.append((ends[order], numbers[order]))
        if len(self._runs) > _MOST_RUNS:
            ends, numbers = (np.concatenate(parts) for parts in zip(*self._runs, strict=True))
            order = np.argsort(ends, kind="stable")
            self._runs = [(ends[order], numbers[order])]

    def drop_ended(self, epoch: Epoch) -> None:
        """Drop the names of queries that ended long enough ago."""
        if epoch.watermark is None:
            return
        if epoch.watermark > self._watermark:
            self._steps, self._watermark = self._steps + 1, epoch.watermark
        ended, when = [_NONE], [_NONE]
        for place, (ends, numbers) in enumerate(self._runs):
            count = int(np.searchsorted(ends, epoch.watermark, side="right"))
            if count:
                ended.append(numbers[:count])
                when.append(ends[:count])
                self._runs[place] = (ends[count:], numbers[count:])
        self._runs = [run for run in self._runs if len(run[0])]
        if any(map(len, ended)):
            numbers, ends = np.concatenate(ended), np.concatenate(when)
            order = np.lexsort((ends, numbers))  # of several ends of one query the smallest comes first
            numbers, first = np.unique(numbers[order], return_index=True)
            self._leaving.append((self._steps, numbers))
            self._end(numbers, ends[order][first])
        while self._leaving and self._leaving[0][0] + KEPT_EPOCHS < self._steps:
            numbers = self._leaving.popleft()[1]
            self._ids.remove(numbers[self._ids.holds(numbers)])
            left = ~np.isin(self._over[0], numbers)
            self._over = self._over[0][left], self._over[1][left]

    def _end(self, numbers: Ints, ends: Ints) -> None:
        """Note ends, but those of queries that had ended before."""
        over, when = self._over
        new = ~np.isin(numbers, over)
        place = np.searchsorted(over, numbers[new])
        self._over = np.insert(over, place, numbers[new]), np.insert(when, place, ends[new])

    def dated(self, batch: Any) -> Any:
        """Return results, those of queries that have ended as of their last instant at the latest.

        A last list may come after the end, with the time of its epoch, and the identifier may be that of another query by
        then, whose lists have later times.
        """
        over, ends = self._over
        if not isinstance(batch, RankedBatch) or not len(batch.number) or not len(over):
            return batch
        place = np.minimum(np.searchsorted(over, batch.number), len(over) - 1)
        last = np.where(over[place] == batch.number, ends[place] - 1, FOREVER)
        return batch if (batch.ts <= last).all() else replace(batch, ts=np.minimum(batch.ts, last))

    def named(self, batch: Any) -> Any:
        """Return results as users see them; what is no result of a query stays as it is."""
        if isinstance(batch, HitBatch):
            rows = np.repeat(np.arange(len(batch)), np.diff(batch.off))
            return MatchBatch(self._of(batch.number), batch.ts[rows], batch.ids.take(rows))
        if isinstance(batch, CrossingBatch):
            return EventBatch(self._of(batch.number), batch.ts, batch.ids, batch.detect)
        if isinstance(batch, RankedBatch):
            return AnswerBatch(self._of(batch.number), batch.ts, batch.type, batch.off, batch.ids, batch.value)
        return batch

    def located(self, batch: HitBatch) -> NamedHits:
        """Return hits with the places of their queries' identifiers, for who writes them as they are."""
        return NamedHits(batch, self._places(batch.number), self._ids.tables)

    def _of(self, numbers: Ints) -> Any:
        self._places(numbers)
        return self._ids.of(numbers)

    def _places(self, numbers: Ints) -> Ints:
        places = self._ids.places(numbers)
        if len(places) and places.min() < 0:
            raise RunError(
                f"results of query number {numbers[places < 0][0]}, whose identifier no spout has sent; a spout of queries "
                "needs a stream 'names' with number, id and end"
            )
        return places

    def snapshot(self) -> dict[str, Any]:
        """Return all names and ends."""
        return {
            "ids": self._ids.snapshot(),
            "runs": [list(run) for run in self._runs],
            "leaving": [list(entry) for entry in self._leaving],
            "over": list(self._over),
            "passed": [self._steps, self._watermark],
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Take over a snapshot."""
        self._ids.restore(state["ids"])
        self._runs = [(ends, numbers) for ends, numbers in state["runs"]]
        self._leaving = deque((step, numbers) for step, numbers in state["leaving"])
        self._over = tuple(state["over"])
        self._steps, self._watermark = state["passed"]
