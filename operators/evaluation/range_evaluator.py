"""The evaluator of continuous range queries: an index of standing queries, matched with every object of an epoch."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from operators.evaluation.balanced_share import REPLY_FIELDS, STATISTICS, BalancedShare
from operators.evaluation.evaluator_shares import divided_shares, live_queries
from operators.evaluation.meetings import Meetings
from operators.indexes import INDEXES, make_range_index
from operators.operator import Bolt, Emitter, Epoch, Inputs, State, TaskContext
from operators.redistribution import Division
from operators.routing.textual_summary import SUMMARY_FIELDS, summary_changes
from operators.sinks.query_ids import QueryIds
from partitioners.grids.fine_grid import DEFAULT_SIDE
from partitioners.plans.grid_plan import GridPlan
from streams.batches import OP_REGISTER, MatchBatch, ObjectBatch, QueryBatch, batch_fields
from streams.columns import Ints
from streams.errors import DeclarationError, did_you_mean

__all__ = ["RangeEvaluator"]


@dataclass
class RangeEvaluator(Bolt):
    """Answers continuous range queries.

    In each epoch queries that other evaluators give come first, then orders of a balancer, then the query operations:
    registrations are inserted, unregistrations lower the end of a query. Then the objects are matched; a pair counts if
    ``q.ts <= o.ts < q.end``, so the order within the epoch is that of event time. Then queries that have ended are dropped.

    A tick sends statistics of the load to the balancer.

    Options:
        index: which index holds the queries: ``kag``, ``fast``, ``gi2`` or ``brute``.
        transfer_queries: how many queries at most are given to other evaluators, or dropped afterwards, in one epoch.
        statistics: what a tick sends: ``summaries``, or the load of all ``cells`` (the centralised variant, for comparison).
        knots: how finely a summary tells where the load is; the policy ``tornado-paper`` needs none.
    """

    outputs: ClassVar = {
        "results": batch_fields(MatchBatch),
        "statistics": ("summary",),
        "replies": REPLY_FIELDS,
        "transfer": batch_fields(QueryBatch),
        "summary": SUMMARY_FIELDS,
    }
    answers: ClassVar = frozenset({"continuous range"})
    plan_streams: ClassVar = frozenset({"statistics", "replies", "transfer", "summary"})

    index: str = "kag"
    transfer_queries: int = 3_000
    statistics: str = "summaries"
    knots: int = 64

    def __post_init__(self) -> None:
        if self.index not in INDEXES:
            raise DeclarationError(
                f"index = '{self.index}'{did_you_mean(self.index, INDEXES)}, expected one of: {', '.join(INDEXES)}"
            )
        if self.statistics not in STATISTICS:
            near = did_you_mean(self.statistics, STATISTICS)
            raise DeclarationError(f"statistics = '{self.statistics}'{near}, expected one of: {', '.join(STATISTICS)}")
        if self.transfer_queries < 1:
            raise DeclarationError(f"transfer_queries = {self.transfer_queries}, expected at least 1")

    def open(self, context: TaskContext) -> None:
        """Make an empty index."""
        self._context = context
        plan = context.plan
        self._ids = QueryIds()
        self._meetings = None if plan is None or plan.meets_once else Meetings(plan, context.index, context.metric)
        grid = (plan.columns, plan.rows) if isinstance(plan, GridPlan) else (DEFAULT_SIDE, DEFAULT_SIDE)
        by_cell = self.statistics == "cells"
        self._index = make_range_index(self.index, context.space, context.metric, grid, by_cell)
        self._share = None
        if "replies" in context.targets:
            self._share = BalancedShare(context, self._index, self.transfer_queries, self.statistics, self.knots)
        self._examined = 0
        self._tells = "summary" in context.targets

    def execute_epoch(self, epoch: Epoch, inputs: Inputs, emit: Emitter) -> None:
        """Follow orders, apply the query operations, match the objects, drop what has ended."""
        if self._share is not None:
            # The last queries of a round come in the epoch of its switch, which ends the round: so they come first.
            if given := inputs.batches("transfer"):
                self._take_over(QueryBatch.concat(given), epoch, emit)
            self._share.follow(inputs.batches("orders"), emit)
            self._examined = self._index.cost().candidates
        if queries := inputs.batches("queries"):
            self._apply(QueryBatch.concat(queries))
        if objects := inputs.batches("objects"):
            self._match(ObjectBatch.concat(objects), emit)
        if epoch.watermark is not None:
            self._drop(self._index.ended(epoch.watermark), epoch, emit)
        if self._share is not None and not epoch.final:
            self._give(epoch, emit)

    def _apply(self, queries: QueryBatch) -> None:
        registers = queries.op == OP_REGISTER
        new = queries if registers.all() else queries.take(np.flatnonzero(registers))
        if len(new):
            self._index.insert(new)
            self._ids.add(new)
            if self._meetings is not None:
                self._meetings.add(new)
            self._context.count("queries_in", len(new))
        if new is not queries:
            numbers, ends = queries.target[~registers], queries.end[~registers]
            self._index.set_end(numbers, ends)
            if self._share is not None:
                self._share.transfers.note_ends(numbers, ends)

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

    # --- what comes and goes -----------------------------------------------------------------------------------------

    def _drop(self, numbers: Ints, epoch: Epoch, emit: Emitter) -> None:
        """Let go of queries; routers hear which keywords they needed."""
        if not len(numbers):
            return
        if self._tells:
            self._tell(self._index.queries(numbers), self._context.index, -1, epoch, emit)
        self._index.remove(numbers)
        self._ids.remove(numbers)
        if self._meetings is not None:
            self._meetings.remove(numbers)

    def _take_over(self, given: QueryBatch, epoch: Epoch, emit: Emitter) -> None:
        """File what other evaluators gave; they have told the routers of all of it, so what was here is told off again."""
        assert self._share is not None
        new, known = self._share.transfers.arrive(given, self._index)
        self._ids.add(new)
        self._context.count("queries_taken", len(new))
        self._tell(known, self._context.index, -1, epoch, emit)

    def _give(self, epoch: Epoch, emit: Emitter) -> None:
        """Send on what the next plan wants elsewhere, and let go of what the last one did."""
        assert self._share is not None
        for taker, batch in self._share.give(self._ids, emit):
            self._context.count("queries_given", len(batch))
            emit.direct(taker, batch, "transfer")
            self._tell(batch, taker, 1, epoch, emit)
        stale = self._share.transfers.next_drop(self._index)
        if stale is not None:
            self._drop(stale.number, epoch, emit)

    def _tell(self, queries: QueryBatch, worker: int, sign: int, epoch: Epoch, emit: Emitter) -> None:
        """Tell routers what a worker's summary gains or loses; in the final epoch nobody needs to know any more."""
        if self._tells and len(queries) and not epoch.final:
            routes = np.arange(len(queries) + 1, dtype=np.int32), np.full(len(queries), worker, np.int32)
            changes = summary_changes(queries, routes, sign)
            if changes is not None:
                emit.batch(changes, "summary")

    def tick(self, epoch: Epoch, emit: Emitter) -> None:
        """Send statistics."""
        if self._share is not None:
            self._share.send_statistics(emit)
            self._examined = 0

    # --- state -------------------------------------------------------------------------------------------------------

    def snapshot(self) -> State:
        """Return the index as arrays, the identifiers, and what is on its way elsewhere."""
        return {
            "index": dict(self._index.snapshot()),
            "ids": self._ids.snapshot(),
            "examined": self._examined,
            "meetings": None if self._meetings is None else self._meetings.snapshot(),
            "share": None if self._share is None else self._share.snapshot(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Take over a snapshot."""
        self._index.restore(state["index"])
        self._ids.restore(state["ids"])
        self._examined = state["examined"]
        if self._meetings is not None:
            self._meetings.restore(state["meetings"])
        if self._share is not None and state["share"] is not None:
            self._share.restore(state["share"])

    @classmethod
    def live_queries(cls, states: Sequence[State]) -> QueryBatch:
        """Return the queries that evaluators with these states hold, each once."""
        return live_queries(states)

    @classmethod
    def redistribute(cls, states: Sequence[State], division: Division) -> list[State]:
        """Give each evaluator the queries that are its own from now on; no transfer is under way any more."""
        return divided_shares(states, division) if division.replanned else list(states)
