"""The evaluator of continuous range queries: an index of standing queries, matched with every object of an epoch."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from operators.indexes import INDEXES, make_range_index
from operators.meetings import Meetings
from operators.operator import Bolt, Emitter, Epoch, Inputs, State, TaskContext
from operators.query_ids import QueryIds
from streams.batches import OP_REGISTER, MatchBatch, ObjectBatch, QueryBatch, batch_fields
from streams.errors import DeclarationError, did_you_mean

__all__ = ["RangeEvaluator"]


@dataclass
class RangeEvaluator(Bolt):
    """Answers continuous range queries.

    In each epoch the query operations come first: registrations are inserted, unregistrations lower the end of a query.
    Then the objects are matched; a pair counts if ``q.ts <= o.ts < q.end``, so the order within the epoch is that of
    event time. Then queries that have ended are dropped.

    Options:
        index: which index holds the queries: ``kag``, ``fast``, ``gi2`` or ``brute``.
    """

    outputs: ClassVar = {"results": batch_fields(MatchBatch)}
    answers: ClassVar = frozenset({"continuous range"})

    index: str = "kag"

    def __post_init__(self) -> None:
        if self.index not in INDEXES:
            raise DeclarationError(
                f"index = '{self.index}'{did_you_mean(self.index, INDEXES)}, expected one of: {', '.join(INDEXES)}"
            )

    def open(self, context: TaskContext) -> None:
        """Make an empty index."""
        self._context = context
        self._index = make_range_index(self.index, context.space, context.metric)
        self._ids = QueryIds()
        plan = context.plan
        self._meetings = None if plan is None or plan.meets_once else Meetings(plan, context.index, context.metric)
        self._examined = 0

    def execute_epoch(self, epoch: Epoch, inputs: Inputs, emit: Emitter) -> None:
        """Apply the query operations, match the objects, drop what has ended."""
        if queries := inputs.batches("queries"):
            self._apply(QueryBatch.concat(queries))
        if objects := inputs.batches("objects"):
            self._match(ObjectBatch.concat(objects), emit)
        if epoch.watermark is not None:
            ended = self._index.expire(epoch.watermark)
            if len(ended):
                self._ids.remove(ended)
                if self._meetings is not None:
                    self._meetings.remove(ended)

    def _apply(self, queries: QueryBatch) -> None:
        registers = queries.op == OP_REGISTER
        new = queries.take(np.flatnonzero(registers))
        if len(new):
            self._index.insert(new)
            self._ids.add(new)
            if self._meetings is not None:
                self._meetings.add(new)
            self._context.count("queries_in", len(new))
        if not registers.all():
            self._index.set_end(queries.target[~registers], queries.end[~registers])

    def _match(self, objects: ObjectBatch, emit: Emitter) -> None:
        self._context.count("objects_in", len(objects))
        matches = self._index.match(objects)
        examined = self._index.cost().candidates
        self._context.count("cost", examined - self._examined)
        self._examined = examined
        if len(matches):
            place, number = matches.object, matches.number
            if self._meetings is not None:
                ours = self._meetings.ours(objects, matches)
                place, number = place[ours], number[ours]
            self._context.count("matches", len(number))
            emit.batch(MatchBatch(self._ids.of(number), objects.ts[place], objects.ids.take(place)), "results")

    def snapshot(self) -> State:
        """Return the index as arrays, and the identifiers."""
        meetings = self._meetings.snapshot() if self._meetings is not None else None
        index = dict(self._index.snapshot())
        return {"index": index, "ids": self._ids.snapshot(), "examined": self._examined, "meetings": meetings}

    def restore(self, state: dict[str, Any]) -> None:
        """Take over a snapshot."""
        self._index.restore(state["index"])
        self._ids.restore(state["ids"])
        self._examined = state["examined"]
        if self._meetings is not None:
            self._meetings.restore(state["meetings"])
