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

from operators.balancing.orders import PlanSchedule, orders_of
from operators.balancing.statistics import LoadReporter, make_reporter
from operators.evaluation.answers import Answers, answers_of
from operators.evaluation.core import Clocked, Core, Found, Keeping, ListCore
from operators.evaluation.division import divided_states, live_queries
from operators.evaluation.handover import BOUND_FIELDS, Handover, moving_problems
from operators.evaluation.meetings import Speakers, kept_here
from operators.evaluation.moves import ended_on_their_way
from operators.evaluation.passing_time import PassingTime
from operators.needs import EVALUATOR_READS
from operators.operator import Bolt, Emitter, Epoch, Inputs, State, TaskContext
from operators.redistribution import Division
from operators.routing.textual_summary import TEXTUAL_FIELDS, textual_changes
from partitioners.columns import Csr, all_to
from partitioners.plans.moved_places import moved_places, moved_subscriptions
from streams.batches import OP_REGISTER, HitBatch, ObjectBatch, QueryBatch, RankedBatch, TupleBatch, batch_fields
from streams.columns import Ints, union_of, without
from streams.errors import DeclarationError

__all__ = ["REPLY_FIELDS", "Evaluator"]

#: What evaluators answer a balancer: ``answer`` (to a question of the policy) and ``sent`` (pairs of taker and queries given).
REPLY_FIELDS = ("kind", "worker", "value")

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

    #: The streams of its lists, where it reports matches as well; counts of terms go on ``counts``.
    lists_on: ClassVar[tuple[str, ...]] = ()

    #: What moves between evaluators, and what balancer and routers are sent.
    exchanged: ClassVar = {
        "statistics": ("report",),
        "replies": REPLY_FIELDS,
        "transfer": batch_fields(QueryBatch),
        "bounds": BOUND_FIELDS,
        "adoption": batch_fields(RankedBatch),
        "keywords": TEXTUAL_FIELDS,
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
        """Return what would keep queries from moving."""
        return moving_problems(component, self.core_class)

    def open(self, context: TaskContext) -> None:
        """Start without queries."""
        self._context, self._core = context, self.make_core(context)
        self._answers = answers_of(self._core, context, self.lists_on or (self.answers_on,))
        self._speakers = Speakers(context.index, context.metric, context.plan if self.answers_on == "results" else None)
        self._schedule: PlanSchedule | None = None
        self._handover: Handover | None = None
        self._reporter: LoadReporter | None = None
        if "replies" in context.targets:
            assert context.plan is not None
            self._schedule = PlanSchedule(context.plan, context.window, context.kept_ms)
            self._handover = Handover(context.index, self.transfer_queries, keeps=context.kept_ms is not None)
            self._reporter = make_reporter(context.statistics, context.index, self._core, context.metric)
        self._examined, self._watermark, self._gives_bounds = 0, cast(int | None, None), self._answers is not None
        self._clocked = self._core if isinstance(self._core, Clocked) else None
        self._keeping = self._core if isinstance(self._core, Keeping) else None
        self._time, self._ended, self._counts_words = PassingTime(), _NONE, "keywords" in context.targets

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
        objects = ObjectBatch.concat(inputs.batches("objects") or [ObjectBatch.empty()])
        if self._answers is None:
            self._take(objects, emit)
            if self._clocked is not None and epoch.watermark is not None:
                self._report(self._clocked.settle(epoch.watermark - 1, epoch.watermark), emit)
            self._expire(_NONE, epoch, emit)
        else:
            self._update_lists(self._answers, objects, epoch, emit)
        self._watermark = epoch.watermark
        if self._schedule is not None:
            self._schedule.end_epoch(epoch.watermark)
        if self._handover is not None and not epoch.final:
            self._give(self._handover, epoch, emit)

    def _apply(self, queries: QueryBatch) -> None:
        if self._clocked is not None and self._answers is not None:
            self._time.note(queries.ts)
        registers = queries.op == OP_REGISTER
        if len(new := queries.where(registers)):
            self._core.insert(new)
            self._note(new)
            self._context.count("queries_in", len(new))
        if new is not queries:
            numbers, ends = queries.target[~registers], queries.end[~registers]
            self._core.set_end(numbers, ends)
            if self._answers is not None:
                self._answers.instants.set_end(numbers, ends)
            if self._handover is not None:
                self._handover.note_ends(numbers, ends)

    def _note(self, new: QueryBatch) -> None:
        """Enter registrations into what goes by plans: those that only the next plan wants here are not due yet."""
        if self._handover is not None and self._schedule is not None and self._schedule.remembers:
            slides = new.where(new.at_instants & new.continuous)
            self._handover.register_for_kept(slides, self._schedule.routes_from_now(slides, self._context.metric))
        if self._handover is None or not self._handover.moving:
            if self._answers is not None:
                self._answers.register(new)
            self._speakers.add(new)
            return
        old, coming = self._routes(new, self._context.index)
        awake = self._handover.register(new, old, coming, self._core)
        if self._answers is not None:
            self._answers.register(new.where(awake))
        self._speakers.add(new, old, coming)

    def _routes(self, queries: QueryBatch, home: int | Ints) -> tuple[Csr, Csr]:
        """Return the workers of queries under both plans; `home` holds them now, wherever a main server has put them."""
        assert self._schedule is not None
        return self._schedule.routes_of(queries, self._context.metric, np.full(len(queries), home, np.int32))

    def _take(self, objects: ObjectBatch, emit: Emitter) -> Found:
        """Let the core take objects, count what it does, and report the matches."""
        if not len(objects):
            return Found()
        self._context.count("objects_in", len(objects))
        if self._reporter is not None and self._schedule is not None:
            self._reporter.saw(self._schedule.plan, objects)
        if self._keeping is not None:
            plan = self._context.plan if self._schedule is None else self._schedule.plan
            self._keeping.keep(kept_here(objects, plan, self._context.index))
        found = self._core.take(objects)
        before, self._examined = self._examined, self._core.cost().candidates
        self._context.count("cost", self._examined - before)
        self._report(found, emit)
        if found.matches is not None and len(found.matches):
            hits = self._speakers.hits(objects, found.matches)
            self._context.count("matches", len(hits.number))
            if len(hits):
                emit.batch(hits, self.answers_on)
        return found

    def _report(self, found: Found, emit: Emitter) -> None:
        """Send what was found and is not to be looked at again."""
        if found.hits is not None and len(found.hits):
            emit.batch(found.hits, self.answers_on)

    def _update_lists(self, answers: Answers, objects: ObjectBatch, epoch: Epoch, emit: Emitter) -> None:
        """Take objects in two steps: up to the last timestamp that is complete, after which lists are sent, and the rest.

        A list of time t states the result after all input up to t, and an epoch may end between two objects of one time.
        """
        if self._core.ordered and (objects.seq[1:] < objects.seq[:-1]).any():
            objects = objects.take(np.argsort(objects.seq, kind="stable"))
        mark, before = epoch.watermark, self._watermark
        complete = np.full(len(objects), True) if epoch.final or mark is None else objects.ts < mark
        self._update(answers, objects.where(complete), emit)
        if epoch.final or mark is None or before is None or mark > before:
            # What was taken so far is older than the watermark, here and at all other evaluators.
            if self._clocked is not None and (now := self._time.reached(epoch, answers.last_ts)) is not None:
                answers.change(self._clocked.settle(now, epoch.watermark), now)
            answers.send(epoch, self._handover, emit)
            self._expire(_NONE if self._handover is None else self._handover.withheld, epoch, emit)
        else:  # a question may have come when its time had passed
            answers.answer(mark, self._handover, emit)
        self._update(answers, objects.where(~complete), emit)

    def _update(self, answers: Answers, objects: ObjectBatch, emit: Emitter) -> None:
        if len(objects):
            answers.change(self._take(objects, emit), int(objects.ts.max()), int(objects.seq.min()))

    # --- what comes and goes -----------------------------------------------------------------------------------------

    def _expire(self, withheld: Ints, epoch: Epoch, emit: Emitter) -> None:
        """Drop queries that have ended; one whose results are on their way waits for them."""
        if epoch.watermark is None:
            return
        ended, self._ended = union_of(self._ended, self._core.ended(epoch.watermark)), _NONE
        if len(ended) and len(withheld):
            ended, self._ended = without(ended, withheld), ended[np.isin(ended, withheld)]
            self._core.hush(self._ended)  # what it knows may still move, but it learns nothing more
        if not len(ended):
            return
        spoken = ended
        if self._handover is not None:
            if self._handover.concerns(ended):
                self._context.count("moment_ended_while_moving", 1)
            spoken = without(ended, self._handover.left)
            self._handover.forget(ended)
        if self._answers is not None:
            self._answers.end(spoken if self._keeping is None else self._keeping.listed(spoken), emit)
        self._drop(ended, epoch, emit)

    def _drop(self, numbers: Ints, epoch: Epoch, emit: Emitter) -> None:
        """Remove queries; routers are sent which keywords they needed."""
        if not len(numbers):
            return
        if self._counts_words:
            self._send_words(self._core.queries(numbers), self._context.index, -1, epoch, emit)
        self._core.remove(numbers)
        if self._answers is not None:
            self._answers.instants.remove(numbers)
        self._speakers.remove(numbers)

    def _take_over(self, handover: Handover, inputs: Inputs, epoch: Epoch, emit: Emitter) -> None:
        """File what others gave; they have sent routers the words of all of it, so those of stale copies are taken off."""
        if given := [arrival for arrival in inputs.arrivals if arrival.stream == "transfer"]:
            queries = QueryBatch.concat([cast(QueryBatch, arrival.batch) for arrival in given])
            giver = np.repeat([arrival.task for arrival in given], [len(arrival.batch) for arrival in given])
            old, coming = self._routes(queries, giver)
            stale, awake = handover.arrive(queries, old, coming, self._core)
            if self._clocked is None or self._answers is not None:  # others name what has ended themselves
                self._ended = union_of(self._ended, ended_on_their_way(self._core, queries.number, self._watermark))
            self._speakers.add_coming(queries, coming)
            if self._answers is not None:
                self._answers.instants.add(awake, self._watermark)
            self._context.count("queries_taken", len(queries))
            self._send_words(stale, self._context.index, -1, epoch, emit)
        if self._answers is None:
            return
        lists = cast(ListCore, self._core)
        for batch in inputs.batches("bounds"):
            held = lists.holds(batch.column("number"))
            lists.bind(batch.column("number")[held], batch.column("bound")[held])
        for arrival in inputs.arrivals:
            if arrival.stream == "adoption":
                assert self._schedule is not None
                assert isinstance(arrival.batch, RankedBatch)
                if self._answers.adopt(handover, arrival.batch, arrival.task, one_home=self._schedule.plan.single_home):
                    self._context.count("moment_results_after_changes", 1)
        handover.arrived(epoch.number)

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
                assert self._schedule.next is not None
                plans = self._schedule.plan, self._schedule.next
                handover.begin(self._core, moved_places(*plans), moved_subscriptions(*plans))
                self._speakers.prepare(self._schedule.next)
            else:
                self._switch(handover, epoch, emit)

    def _switch(self, handover: Handover, epoch: Epoch, emit: Emitter) -> None:
        """Put the next plan in force: what came early speaks from now on, what leaves is silent."""
        when = epoch.number, self._context.epoch_feedback
        if self._answers is None:
            handover.switch(self._core, None, *when)
        else:
            for taker, lists in self._answers.hand_over(handover, *when, self._watermark, self._ended):
                self._context.count("results_given", len(lists))
                emit.direct(taker, lists, "adoption")
        self._speakers.switch()
        self._ended = without(self._ended, handover.left)
        self._core.reset_cost()

    def _give(self, handover: Handover, epoch: Epoch, emit: Emitter) -> None:
        """Send on what the next plan wants elsewhere, and drop what the last one took away."""
        if (queries := handover.unseen(self._core)) is not None:
            old, coming = self._routes(queries, self._context.index)
            handover.look(queries, old, coming)
            self._speakers.add_coming(queries, coming)
        for taker, batch in handover.next_piece(self._core):
            self._context.count("queries_given", len(batch))
            emit.direct(taker, batch, "transfer")
            if self._gives_bounds:
                bounds = cast(ListCore, self._core).bounds(batch.number)
                emit.direct(taker, TupleBatch(BOUND_FIELDS, (batch.number, bounds)), "bounds")
            self._send_words(batch, taker, 1, epoch, emit)
        if (sent := handover.all_sent()) is not None:
            emit("sent", self._context.index, sent, stream="replies")
        if self._answers is not None:
            self._answers.instants.remove(handover.leave(self._core, epoch.watermark))
        self._drop(handover.next_drop(), epoch, emit)

    def _send_words(self, queries: QueryBatch, worker: int, sign: int, epoch: Epoch, emit: Emitter) -> None:
        """Send routers what a worker's textual summary gains or loses; in the final epoch nobody needs to know any more."""
        if not self._counts_words or not len(queries) or epoch.final:
            return
        if (changes := textual_changes(queries, all_to(worker, len(queries)), sign)) is not None:
            emit.batch(changes, "keywords")

    def tick(self, epoch: Epoch, emit: Emitter) -> None:
        """Send statistics."""
        if self._reporter is not None and self._schedule is not None:
            if (report := self._reporter.report(self._schedule.plan)) is not None:
                emit.batch(report, "statistics")
            self._core.reset_cost()
            self._examined = 0

    # --- state -------------------------------------------------------------------------------------------------------

    def snapshot(self) -> State:
        """Return queries, results and what is on its way elsewhere."""
        state: State = {
            "core": self._core.snapshot(),
            "answers": None if self._answers is None else self._answers.snapshot(),
            "examined": self._examined,
            "watermark": self._watermark,
            "times": self._time.times,
            "ended": self._ended,
            **self._speakers.snapshot(),
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
        if self._answers is not None:
            self._answers.restore(state["answers"])
        self._examined, self._watermark = state["examined"], state["watermark"]
        self._ended, self._time.times = state["ended"], state["times"]
        if self._handover is not None and self._schedule is not None and self._reporter is not None:
            if state["moving"] is not None:
                self._schedule.restore(state["moving"]["schedule"])
                self._handover.restore(state["moving"]["handover"])
                self._reporter.restore(state["moving"]["reporter"])
            if self._handover.moving:
                self._context.count("moment_restored_in_mid_round", 1)
            if len(self._handover.given.seq):
                self._context.count("moment_restored_with_results_under_way", 1)
            if state.get("divided_in_mid_round"):
                self._context.count("moment_divided_in_mid_round", 1)
        schedule = self._schedule
        plans = (self._context.plan, None) if schedule is None else (schedule.plan, schedule.next)
        self._speakers.restore(state, *plans)

    @classmethod
    def live_queries(cls, states: Sequence[State]) -> QueryBatch:
        """Return the queries that evaluators with these states hold, each once."""
        return live_queries(cls.core_class, states)

    @classmethod
    def redistribute(cls, states: Sequence[State], division: Division) -> list[State]:
        """Give each evaluator the queries and results that are its own from now on; nothing is under way any more."""
        return divided_states(cls.core_class, states, division) if division.replanned else list(states)
