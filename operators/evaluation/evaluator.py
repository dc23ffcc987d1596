"""The evaluator: everything that evaluators of all kinds of queries have in common, around a core that answers one kind.

Within an epoch queries and results that other evaluators gave come first, then orders of a balancer, then query operations:
registrations are inserted, unregistrations lower the end of a query. Then the core takes the objects, in the order of the
input where it asks for that; then instants that have passed are answered, lists that have changed are sent, and queries that
have ended are dropped. Whatever a core is about, a pair of query and object counts if ``q.ts <= o.ts < q.end``, so the
order within an epoch is that of event time.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from operators.balancing.orders import PlanSchedule, orders_of
from operators.balancing.statistics import LoadReporter, make_reporter
from operators.evaluation.core import Core, Found, ListCore
from operators.evaluation.division import divided_states, live_queries, standing
from operators.evaluation.handover import Handover
from operators.evaluation.instants import Instants
from operators.evaluation.meetings import Meetings
from operators.needs import EVALUATOR_READS
from operators.operator import Bolt, Emitter, Epoch, Inputs, State, TaskContext
from operators.redistribution import Division
from operators.routing.textual_summary import SUMMARY_FIELDS, summary_changes
from partitioners.plans.plan import Plan
from streams.batches import (
    OP_REGISTER,
    HitBatch,
    ObjectBatch,
    QueryBatch,
    RankedBatch,
    TupleBatch,
    batch_fields,
)
from streams.columns import Ints
from streams.errors import DeclarationError

__all__ = ["BOUND_FIELDS", "REPLY_FIELDS", "Evaluator"]

#: What evaluators answer a balancer: ``answer`` (to a question of the policy) and ``sent`` (pairs of taker and queries given).
REPLY_FIELDS = ("kind", "worker", "value")
#: What an object must come up to for a query that was given, so that the taker need not start with everything.
BOUND_FIELDS = ("number", "bound")

_NONE: Ints = np.empty(0, np.int64)


@dataclass
class Evaluator(Bolt):
    """Answers standing queries with a core, which a class derived from this one makes.

    A tick sends statistics of the load to the balancer, as its policy asks for them.

    Options:
        transfer_queries: how many queries at most are given to other evaluators, or dropped afterwards, in one epoch.
    """

    #: The stream of what it finds: ``results`` where these are matches; lists go to a merger, as ``rankings`` or ``counts``.
    answers_on: ClassVar[str] = "results"

    #: What moves between evaluators, and what balancer and routers are sent.
    exchanged: ClassVar = {
        "statistics": ("report",),
        "replies": REPLY_FIELDS,
        "transfer": batch_fields(QueryBatch),
        "bounds": BOUND_FIELDS,
        "adoption": batch_fields(RankedBatch),
        "summary": SUMMARY_FIELDS,
    }
    outputs: ClassVar = {"results": batch_fields(HitBatch), **exchanged}
    addressed: ClassVar = frozenset({"transfer", "bounds", "adoption"})
    reads: ClassVar = EVALUATOR_READS
    plan_streams: ClassVar = frozenset(exchanged)

    #: The class of its cores.
    core_class: ClassVar[type[Any]]

    transfer_queries: int = 3_000

    def __post_init__(self) -> None:
        if self.transfer_queries < 1:
            raise DeclarationError(f"transfer_queries = {self.transfer_queries}, expected at least 1")

    def make_core(self, context: TaskContext) -> Core:
        """Return an empty core."""
        raise NotImplementedError

    def check(self, _settings: Any, component: Any) -> Iterator[tuple[str, str]]:
        """Yield what would keep queries from moving."""
        read = {item.stream for item in component.inputs}
        if "orders" not in read:
            return
        wanted = ["transfer"]
        if self.core_class.remembers:
            wanted.append("adoption")
            if not hasattr(self.core_class, "adopt"):
                yield (
                    "operator",
                    f"the results of its queries cannot move, because {self.core_class.__name__} has no method 'adopt'; give "
                    "it one, or leave the balancer out",
                )
        for stream in wanted:
            if stream not in read:
                yield (
                    "inputs",
                    f"it follows a balancer, but does not read its own stream '{stream}'; add {{ component = "
                    f"'{component.name}', stream = '{stream}', grouping = 'direct', feedback = true }}",
                )

    def open(self, context: TaskContext) -> None:
        """Start without queries."""
        self._context = context
        self._core = self.make_core(context)
        self._lists = cast(ListCore, self._core) if self.core_class.remembers else None
        self._instants = Instants()
        self._meetings = self._meetings_of(context.plan)
        self._next_meetings: Meetings | None = None
        self._schedule: PlanSchedule | None = None
        self._handover: Handover | None = None
        self._reporter: LoadReporter | None = None
        if "replies" in context.targets:
            assert context.plan is not None
            self._schedule = PlanSchedule(context.plan)
            self._handover = Handover(context.index, self.transfer_queries)
            self._reporter = make_reporter(context.statistics, context.index, self._core)
        self._examined = 0
        self._last_ts: int | None = None
        self._watermark: int | None = None
        self._changed: Ints = _NONE
        self._ended: Ints = _NONE
        self._counts_words = "summary" in context.targets

    def _meetings_of(self, plan: Plan | None) -> Meetings | None:
        """Return what decides who reports a match that several could; lists are freed of doubles by their merger."""
        if plan is None or plan.meets_once or self.core_class.remembers:
            return None
        return Meetings(plan, self._context.index, self._context.metric)

    # --- one epoch ---------------------------------------------------------------------------------------------------

    def execute_epoch(self, epoch: Epoch, inputs: Inputs, emit: Emitter) -> None:
        """Do what the module says, in its order."""
        if self._handover is not None:
            # The last queries of a round come in the epoch of its switch, which ends the round: so they come first.
            self._take_over(self._handover, inputs, epoch, emit)
            if not epoch.final:  # a round that the end of the input meets half-way is given up: nothing flows any more
                self._follow(self._handover, inputs.batches("orders"), epoch, emit)
            self._examined = self._core.cost().candidates
        if queries := inputs.batches("queries"):
            self._apply(QueryBatch.concat(queries))
        objects = ObjectBatch.concat([ObjectBatch.empty(), *inputs.batches("objects")])
        if self._lists is None:
            self._match(objects, emit)
            self._expire(_NONE, epoch, emit)
        else:
            self._update_lists(objects, epoch, emit)
        self._watermark = epoch.watermark
        if self._handover is not None and not epoch.final:
            self._give(self._handover, epoch, emit)

    def _apply(self, queries: QueryBatch) -> None:
        registers = queries.op == OP_REGISTER
        new = queries if registers.all() else queries.take(np.flatnonzero(registers))
        if len(new):
            self._core.insert(new)
            self._note(new)
            self._context.count("queries_in", len(new))
        if new is not queries:
            numbers, ends = queries.target[~registers], queries.end[~registers]
            self._core.set_end(numbers, ends)
            self._instants.set_end(numbers, ends)
            if self._handover is not None:
                self._handover.note_ends(numbers, ends)

    def _note(self, new: QueryBatch) -> None:
        """Enter registrations into what goes by plans: those that only the next plan wants here are not due yet."""
        if self._handover is None or not self._handover.moving:
            self._instants.add(new, None)
            if self._meetings is not None:
                self._meetings.add(new)
            return
        assert self._schedule is not None
        old, coming = self._schedule.routes_of(new, self._context.metric)
        awake = self._handover.register(new, old, coming, self._core)
        self._instants.add(new.take(np.flatnonzero(awake)), None)
        for meetings, routes in ((self._meetings, old), (self._next_meetings, coming)):
            if meetings is not None:
                meetings.add(new, routes)

    def _match(self, objects: ObjectBatch, emit: Emitter) -> None:
        """Report the matches of objects."""
        matches = self._take(objects).matches
        if matches is None or not len(matches):
            return
        off, numbers = matches.off, matches.number
        if self._meetings is not None:
            ours = self._meetings.ours(objects, matches)
            off, numbers = np.append(0, np.cumsum(ours))[off], numbers[ours]
        self._context.count("matches", len(numbers))
        hit = np.flatnonzero(off[1:] > off[:-1])
        if len(hit):
            # Rows without a match have no numbers, so the numbers stay as they are.
            part = np.append(off[hit], off[-1]).astype(np.int32)
            emit.batch(HitBatch(objects.seq[hit], objects.ts[hit], objects.ids.take(hit), part, numbers), "results")

    def _take(self, objects: ObjectBatch) -> Found:
        """Let the core take objects, and count what it does."""
        if not len(objects):
            return Found()
        self._context.count("objects_in", len(objects))
        found = self._core.take(objects)
        examined = self._core.cost().candidates
        self._context.count("cost", examined - self._examined)
        self._examined = examined
        self._saw(int(objects.ts.max()))
        return found

    def _saw(self, ts: int) -> None:
        self._last_ts = ts if self._last_ts is None else max(ts, self._last_ts)

    # --- lists -------------------------------------------------------------------------------------------------------

    def _update_lists(self, objects: ObjectBatch, epoch: Epoch, emit: Emitter) -> None:
        """Take objects in two steps: up to the last timestamp that is complete, after which lists are sent, and the rest.

        A list of time t states the result after all input up to t, and an epoch may end between two objects of one time.
        """
        if self._core.ordered and (objects.seq[1:] < objects.seq[:-1]).any():
            objects = objects.take(np.argsort(objects.seq, kind="stable"))
        mark, before = epoch.watermark, self._watermark
        complete = np.full(len(objects), True) if epoch.final or mark is None else objects.ts < mark
        self._change(self._take(objects if complete.all() else objects.take(np.flatnonzero(complete))))
        if epoch.final or mark is None or before is None or mark > before:
            # What was taken so far is older than the watermark, here and at all other evaluators.
            if self._handover is not None:
                self._settle(self._handover, epoch)
            self._answer(mark, emit)
            self._send_lists(emit)
            self._expire(self._withheld, epoch, emit)
        if not complete.all():
            self._change(self._take(objects.take(np.flatnonzero(~complete))))

    def _change(self, found: Found) -> None:
        self._changed = np.union1d(self._changed, found.changed) if len(self._changed) else found.changed

    def _answer(self, watermark: int | None, emit: Emitter) -> None:
        """Answer what is due: all objects up to an instant are here once the watermark has passed it."""
        if watermark is None or not len(self._instants):
            return
        numbers, instants = self._instants.due(watermark, self._withheld)
        if len(numbers) and self._lists is not None:
            emit.batch(self._lists.answer(numbers, instants), self.answers_on)

    @property
    def _withheld(self) -> Ints:
        return _NONE if self._handover is None else self._handover.withheld

    def _send_lists(self, emit: Emitter) -> None:
        """Send the lists that have changed; one whose results are on their way is held back until they are here."""
        if self._lists is None or not len(self._changed):
            return
        waits = np.isin(self._changed, self._withheld)
        ready, self._changed = self._changed[~waits], self._changed[waits]
        ready = ready[self._core.holds(ready)]
        if len(ready):
            emit.batch(self._stamped(self._lists.results(ready)), self.answers_on)
        if self._handover is not None:
            numbers, others = self._handover.replaced(ready)
            if len(numbers):
                emit.batch(_notes(numbers, self._last_ts, -1 - others), self.answers_on)

    def _stamped(self, lists: RankedBatch) -> RankedBatch:
        """Give lists the time of the last object that can have changed them."""
        ts = np.full(len(lists), 0 if self._last_ts is None else self._last_ts, np.int64)
        return RankedBatch(
            lists.number, ts, lists.type, lists.k, lists.instant, lists.off, lists.seq, lists.ids, lists.value
        )

    def _settle(self, handover: Handover, epoch: Epoch) -> None:
        """Speak again for queries whose results have come."""
        speaking = handover.settle(None if epoch.final else epoch.number)
        if len(speaking):
            self._changed = np.union1d(self._changed, standing(self._core.queries(speaking)))

    # --- what comes and goes -----------------------------------------------------------------------------------------

    def _expire(self, withheld: Ints, epoch: Epoch, emit: Emitter) -> None:
        """Drop queries that have ended; one whose results are on their way waits for them."""
        if epoch.watermark is None:
            return
        ended = np.union1d(self._ended, self._core.ended(epoch.watermark))
        waits = np.isin(ended, withheld)
        ended, self._ended = ended[~waits], ended[waits]
        if not len(ended):
            return
        if self._handover is not None:
            if self._handover.concerns(ended):
                self._context.count("moment_ended_while_moving", 1)
            left = np.isin(ended, self._handover.left)
            self._handover.forget(ended)
            spoken = ended[~left]
        else:
            spoken = ended
        if self._lists is not None and len(spoken):
            emit.batch(_notes(spoken, self._last_ts, np.zeros(len(spoken), np.int64)), self.answers_on)
        self._drop(ended, epoch, emit)

    def _drop(self, numbers: Ints, epoch: Epoch, emit: Emitter) -> None:
        """Remove queries; routers are sent which keywords they needed."""
        if not len(numbers):
            return
        if self._counts_words:
            self._send_words(self._core.queries(numbers), self._context.index, -1, epoch, emit)
        self._core.remove(numbers)
        self._instants.remove(numbers)
        for meetings in (self._meetings, self._next_meetings):
            if meetings is not None:
                meetings.remove(numbers)

    def _take_over(self, handover: Handover, inputs: Inputs, epoch: Epoch, emit: Emitter) -> None:
        """File what others gave; they have sent routers the words of all of it, so those of stale copies are taken off."""
        if given := inputs.batches("transfer"):
            assert self._schedule is not None
            queries = QueryBatch.concat(given)
            old, coming = self._schedule.routes_of(queries, self._context.metric)
            stale = handover.arrive(queries, old, coming, self._core)
            if self._next_meetings is not None:
                self._next_meetings.add(queries, coming)
            self._context.count("queries_taken", len(queries))
            self._send_words(stale, self._context.index, -1, epoch, emit)
        if self._lists is None:
            return
        for batch in inputs.batches("bounds"):
            numbers, bounds = batch.column("number"), batch.column("bound")
            held = self._core.holds(numbers)
            self._lists.bind(numbers[held], bounds[held])
        for arrival in inputs.arrivals:
            if arrival.stream == "adoption":
                assert isinstance(arrival.batch, RankedBatch)
                self._adopt(self._lists, handover, arrival.batch, arrival.task)
        handover.arrived(epoch.number)

    def _adopt(self, core: ListCore, handover: Handover, given: RankedBatch, giver: int) -> None:
        """Take results over, and with them what the giver should have done still: withdraw lists, answer instants."""
        assert self._schedule is not None
        if (
            not self._schedule.plan.single_home
        ):  # else the list of a query's next home takes the place of the last one's
            notes = given.k < 0
            by = np.where(notes, -1 - given.k, giver).astype(np.int32)
            handover.replace(given.number[~given.instant], by[~given.instant])
        if given.instant.any():
            late = given.take(np.flatnonzero(given.instant & self._core.holds(given.number)))
            self._instants.catch_up(self._core.queries(late.number), late.ts)
        lists = given.take(np.flatnonzero(~given.instant & (given.k > 0)))
        if not len(lists):
            return
        self._saw(int(lists.ts.max()))
        held = self._core.holds(lists.number)
        if np.isin(lists.number[held], self._changed).any():
            self._context.count("moment_results_after_changes", 1)
        core.adopt(lists if held.all() else lists.take(np.flatnonzero(held)))

    def _follow(self, handover: Handover, orders: Sequence[TupleBatch], epoch: Epoch, emit: Emitter) -> None:
        assert self._schedule is not None
        assert self._reporter is not None
        for order in orders_of(orders):
            if order.kind == "ask":
                if order.worker == self._context.index:
                    answer = self._reporter.answer(self._schedule.plan, order.payload)
                    emit("answer", self._context.index, answer, stream="replies")
                continue
            self._schedule.follow(order)
            if order.kind == "prepare":
                handover.begin(self._core)
                self._next_meetings = self._meetings_of(self._schedule.next)
            else:
                self._switch(handover, epoch, emit)

    def _switch(self, handover: Handover, epoch: Epoch, emit: Emitter) -> None:
        """Put the next plan in force: what came early speaks from now on, what leaves is silent."""
        late, at = self._instants.overdue(handover.leaving, self._watermark)
        woken, results = handover.switch(self._core, self._lists, epoch.number, self._context.epoch_feedback)
        self._meetings, self._next_meetings = self._next_meetings, None
        self._instants.remove(handover.left)
        self._instants.add(self._core.queries(woken), self._watermark)
        for taker, lists in results:
            self._context.count("results_given", len(lists))
            numbers, others = handover.replaced(lists.number)
            waits = np.isin(late, lists.number)
            instants = _notes(late[waits], None, np.ones(int(waits.sum()), np.int64), at[waits])
            withdrawn = _notes(numbers, self._last_ts, -1 - others)
            emit.direct(taker, RankedBatch.concat([self._stamped(lists), withdrawn, instants]), "adoption")
        self._changed = np.setdiff1d(self._changed, handover.left)
        self._ended = np.setdiff1d(self._ended, handover.left)
        self._core.reset_cost()

    def _give(self, handover: Handover, epoch: Epoch, emit: Emitter) -> None:
        """Send on what the next plan wants elsewhere, and drop what the last one took away."""
        assert self._schedule is not None
        if (queries := handover.unseen(self._core)) is not None:
            old, coming = self._schedule.routes_of(queries, self._context.metric)
            handover.look(queries, old, coming)
            if self._next_meetings is not None:
                self._next_meetings.add(queries, coming)
        for taker, batch in handover.next_piece(self._core):
            self._context.count("queries_given", len(batch))
            emit.direct(taker, batch, "transfer")
            if self._lists is not None:
                emit.direct(taker, TupleBatch(BOUND_FIELDS, (batch.number, self._lists.bounds(batch.number))), "bounds")
            self._send_words(batch, taker, 1, epoch, emit)
        if (sent := handover.all_sent()) is not None:
            emit("sent", self._context.index, sent, stream="replies")
        self._drop(handover.next_drop(), epoch, emit)

    def _send_words(self, queries: QueryBatch, worker: int, sign: int, epoch: Epoch, emit: Emitter) -> None:
        """Send routers what a worker's textual summary gains or loses; in the final epoch nobody needs to know any more."""
        if self._counts_words and len(queries) and not epoch.final:
            routes = np.arange(len(queries) + 1, dtype=np.int32), np.full(len(queries), worker, np.int32)
            changes = summary_changes(queries, routes, sign)
            if changes is not None:
                emit.batch(changes, "summary")

    def tick(self, epoch: Epoch, emit: Emitter) -> None:
        """Send statistics."""
        if self._reporter is not None and self._schedule is not None:
            report = self._reporter.report(self._schedule.plan)
            if report is not None:
                emit.batch(report, "statistics")
            self._core.reset_cost()
            self._examined = 0

    # --- state -------------------------------------------------------------------------------------------------------

    def snapshot(self) -> State:
        """Return queries, results and what is on its way elsewhere."""
        state: State = {
            "core": self._core.snapshot(),
            "instants": self._instants.snapshot(),
            "examined": self._examined,
            "last_ts": self._last_ts,
            "watermark": self._watermark,
            "changed": self._changed,
            "ended": self._ended,
            "meetings": None if self._meetings is None else self._meetings.snapshot(),
            "next_meetings": None if self._next_meetings is None else self._next_meetings.snapshot(),
            "moving": None,
        }
        if self._handover is not None and self._schedule is not None and self._reporter is not None:
            state["moving"] = {
                "schedule": self._schedule.snapshot(),
                "handover": self._handover.snapshot(),
                "reporter": self._reporter.snapshot(),
            }
        return state

    def restore(self, state: State) -> None:
        """Take over a snapshot."""
        self._core.restore(state["core"])
        self._instants.restore(state["instants"])
        self._examined, self._last_ts, self._watermark = state["examined"], state["last_ts"], state["watermark"]
        self._changed, self._ended = state["changed"], state["ended"]
        if self._handover is not None and self._schedule is not None and self._reporter is not None:
            if state["moving"] is not None:
                self._schedule.restore(state["moving"]["schedule"])
                self._handover.restore(state["moving"]["handover"])
                self._reporter.restore(state["moving"]["reporter"])
            if self._handover.moving:
                self._context.count("moment_restored_in_mid_round", 1)
            if state.get("divided_in_mid_round"):
                self._context.count("moment_divided_in_mid_round", 1)
        plan = self._context.plan if self._schedule is None else self._schedule.plan
        self._meetings = self._meetings_of(plan)
        if self._meetings is not None:
            self._meetings.restore(state["meetings"])
        if self._schedule is not None and state["next_meetings"] is not None:
            self._next_meetings = self._meetings_of(self._schedule.next)
            assert self._next_meetings is not None
            self._next_meetings.restore(state["next_meetings"])

    @classmethod
    def live_queries(cls, states: Sequence[State]) -> QueryBatch:
        """Return the queries that evaluators with these states hold, each once."""
        return live_queries(cls.core_class, states)

    @classmethod
    def redistribute(cls, states: Sequence[State], division: Division) -> list[State]:
        """Give each evaluator the queries and results that are its own from now on; nothing is under way any more."""
        return divided_states(cls.core_class, states, division) if division.replanned else list(states)


def _notes(numbers: Ints, ts: int | None, k: NDArray[np.integer], at: Ints | None = None) -> RankedBatch:
    """Return lists without items, which say something of a query.

    With k = 0: it has ended. With k < 0: the list of evaluator -1 - k is part of another's now. With an instant: it is not
    answered yet.
    """
    count = len(numbers)
    return RankedBatch(
        number=numbers, ts=np.full(count, ts or 0, np.int64) if at is None else at, type=np.zeros(count, np.uint8),
        k=k.astype(np.int32), instant=np.full(count, at is not None), off=np.zeros(count + 1, np.int32), seq=_NONE,
        ids=RankedBatch.empty().ids, value=np.empty(0),
    )  # fmt: skip
