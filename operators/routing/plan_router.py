"""A router that follows a plan: whatever the partitioner, each object and each query goes where the plan says."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from operators.balancing.orders import Order, PlanSchedule, orders_of
from operators.needs import ROUTER_READS, Need
from operators.operator import Bolt, Emitter, Epoch, Inputs, State, TaskContext
from operators.redistribution import Division
from operators.routing.nearest_first import NearestFirst, at_their_places
from operators.routing.query_types import check_types, of_types
from operators.routing.textual_summary import TEXTUAL_FIELDS, TextualSummary, textual_changes
from partitioners.columns import Csr, Points
from partitioners.plans.broadcast import one_each
from partitioners.plans.keyword_lists import KeywordLists
from partitioners.plans.plan import Plan
from partitioners.plans.qt_tree import QtTreePlan
from streams.batches import OP_REGISTER, OP_UPSERT, ObjectBatch, QueryBatch, batch_fields
from streams.errors import DeclarationError

__all__ = ["PlanRouter"]


@dataclass
class PlanRouter(Bolt):
    """Routes by the topology's plan (`topology.plan`, or one built from a sample as `[topology.partitioner]` says).

    The evaluators read both streams with a direct grouping. Routers are replicated: where a row goes depends on the plan and
    the row alone, and all of them change the plan in the same epoch, when a balancer says so on ``orders``. An
    unregistration does not say where its query is, so it goes to all evaluators, and those that do not hold the query pass
    over it.

    With `textual_summary`, objects that no query of their evaluator can match are not sent. What queries add to textual
    summaries goes out on the stream ``keywords``, in the same epoch; routers of objects read it with the grouping ``all`` from
    the routers of queries, which therefore are a bolt of their own, and as feedback from the evaluators, which send what
    has ended. (A single router can route both.)

    With `learn`, objects at textual nodes of a QT-tree go to the child with the smallest workload increment by this router's
    own keyword lists, which learn the words of every object (SSTD, section 4.2). They begin as those of the plan, also
    after every change of it.

    With `two_phase`, a snapshot of the k nearest goes first to the evaluator of its own leaf, on ``probes``, and then to those
    that the circle of its kth object meets (`operators.routing.nearest_first`), which comes back on ``reach``.

    Options:
        textual_summary: whether objects are held against the keywords of the queries.
        learn: whether keyword lists learn from objects; for plans of the kind qt-tree.
        two_phase: whether snapshots of the k nearest have two phases.
        types: the types of query that its evaluators answer, where other routers read the same queries; none: all.
    """

    outputs: ClassVar = {
        "objects": batch_fields(ObjectBatch),
        "queries": batch_fields(QueryBatch),
        "keywords": TEXTUAL_FIELDS,
        "probes": batch_fields(QueryBatch),
    }
    needs_plan: ClassVar = True
    addressed: ClassVar = frozenset({"objects", "queries", "probes"})
    reads: ClassVar = {
        **ROUTER_READS,
        "orders": Need(("all",), "some routers would keep the old plan", feedback=True),
        "keywords": Need(("all",), "some routers would withhold objects that queries want"),
        "reach": Need(("all",), "some routers would wait for circles for ever", feedback=True),
    }
    routes_alike_with: ClassVar = ()
    routes_as: ClassVar = "the plan says"

    textual_summary: bool = False
    learn: bool = False
    two_phase: bool = False
    types: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_types(self.types)

    def check(self, _settings: Any, component: Any) -> Iterator[tuple[str, str]]:
        """Yield what would make the textual summaries incomplete, or keep the second phase from coming."""
        streams = {item.stream for item in component.inputs if not item.feedback}
        if self.two_phase and not any(item.stream == "reach" and item.feedback for item in component.inputs):
            yield (
                "two_phase",
                "nobody sends this router how far the first phase has reached; read the stream 'reach' of the evaluators with "
                "the grouping 'all' and feedback = true, and let them read 'probes' with 'direct'",
            )
        if not self.textual_summary or "objects" not in streams:
            return
        if "queries" in streams and component.parallelism > 1:
            yield (
                "textual_summary",
                f"the {component.parallelism} tasks of '{component.name}' would not know of each other's queries; let "
                "another plan-router read the queries, and this one its stream 'keywords' with the grouping 'all'",
            )
        elif not streams & {"queries", "keywords"}:
            yield (
                "textual_summary",
                "nobody sends this router the keywords of queries; read the stream 'keywords' of their router",
            )
        read = {(item.stream, item.feedback) for item in component.inputs}
        if ("orders", True) in read and ("keywords", True) not in read:
            yield (
                "textual_summary",
                "queries that a balancer moves take their keywords along, and nobody says so here; read the stream 'keywords' "
                "of their evaluators as well, with the grouping 'all' and feedback = true",
            )
        for item in component.inputs:
            if item.stream == "keywords" and item.grouping != "all":
                yield (
                    "inputs",
                    f"a textual summary read with the grouping '{item.grouping}' would be incomplete; use 'all'",
                )

    def open(self, context: TaskContext) -> None:
        """Take the plan."""
        readers = {n for stream in ("objects", "queries") for _, n in context.targets.get(stream, ())}
        if context.plan is None or readers != {context.plan.workers}:
            raise DeclarationError(f"a router needs a plan for its readers, which have {sorted(readers)} tasks")
        self._context = context
        self._workers = context.plan.workers
        if self.textual_summary and context.kept_ms is not None:
            raise DeclarationError(
                "textual_summary withholds objects that no standing query wants, but the evaluators keep objects for queries "
                "to come; leave it out",
                ("textual_summary",),
            )
        self._schedule = PlanSchedule(context.plan, context.window, context.kept_ms)
        self._lists = self._lists_of(context.plan)
        self._textual = TextualSummary(self._workers) if self.textual_summary else None
        self._sends_keywords = "keywords" in context.targets
        self._nearest_first = NearestFirst() if self.two_phase else None
        if self.two_phase and (context.kept_ms is None or "probes" not in context.targets):
            raise DeclarationError(
                "two_phase is about snapshots of the k nearest, but no evaluator that keeps objects reads the stream 'probes'; "
                "leave it out",
                ("two_phase",),
            )

    def _lists_of(self, plan: Plan) -> KeywordLists | None:
        """Return the keyword lists of a plan, where they are to learn."""
        if not self.learn:
            return None
        if not isinstance(plan, QtTreePlan):
            raise DeclarationError(
                f"learn = true is about the keyword lists of QT-trees, which a plan of the kind '{plan.kind}' does not have; "
                "use the partitioner qt-tree, quadtree or text-tree, or leave it out",
                ("learn",),
            )
        return KeywordLists(plan)

    def routes(self, queries: QueryBatch) -> Csr:
        """Return the evaluators that hold each query."""
        return self._schedule.route_queries(queries, self._context.metric)

    def execute_epoch(self, epoch: Epoch, inputs: Inputs, emit: Emitter) -> None:
        """Follow orders, then divide what has come."""
        for order in orders_of(inputs.batches("orders")):
            self._follow(order)
        if self._textual is not None:
            self._textual.apply(inputs.batches("keywords"))
        if self._nearest_first is not None:
            ready = self._nearest_first.ready(inputs.batches("reach"))
            if len(ready):
                self._send(emit, "queries", ready, self.routes(ready))
        for queries in self._operations(inputs):
            self._route_queries(queries, emit)
        for objects in inputs.batches("objects"):
            self._send(emit, "objects", objects, self._object_routes(objects))
        self._schedule.end_epoch(epoch.watermark)

    def _follow(self, order: Order) -> None:
        self._schedule.follow(order)
        if order.kind == "switch":
            self._lists = self._lists_of(self._schedule.plan)

    def _operations(self, inputs: Inputs) -> list[QueryBatch]:
        return [of_types(batch, self.types) for batch in inputs.batches("queries")]

    def _object_routes(self, objects: ObjectBatch) -> Csr:
        """Return where objects go; a deletion goes everywhere, as it does not say where its object was."""
        present = objects.op == OP_UPSERT
        if not present.all():
            off, worker = self._object_routes(objects.take(np.flatnonzero(present)))
            counts = np.full(len(objects), self._workers, np.int64)
            counts[present] = np.diff(off)
            whole = np.tile(np.arange(self._workers, dtype=np.int32), int(np.count_nonzero(~present)))
            routed = np.empty(int(counts.sum()), np.int32)
            by_place = np.repeat(present, counts)
            routed[by_place], routed[~by_place] = worker, whole
            return np.concatenate([[0], np.cumsum(counts)]).astype(np.int32), routed
        routes = self._schedule.route_objects(objects) if self._lists is None else self._learned(self._lists, objects)
        if self._textual is None:
            return routes
        admitted = self._textual.admitted(objects, routes)
        self._context.count("withheld", len(routes[1]) - len(admitted[1]))
        return admitted

    @staticmethod
    def _learned(lists: KeywordLists, objects: ObjectBatch) -> Csr:
        return lists.route_points(Points.of(objects.x, objects.y, objects.kw_off, objects.kw))

    def _route_queries(self, queries: QueryBatch, emit: Emitter) -> None:
        registers = queries.op == OP_REGISTER
        new = queries.where(registers)
        if self._nearest_first is not None:
            new = self._probed(self._nearest_first, new, emit)
        routes = self._registered(new)
        self._send(emit, "queries", new, routes)
        if (self._sends_keywords or self._textual is not None) and (
            changes := textual_changes(new, routes)
        ) is not None:
            if self._sends_keywords:
                emit.batch(changes, "keywords")
            if self._textual is not None:
                self._textual.apply([changes])
        if not registers.all():
            self._send_ends(queries.take(np.flatnonzero(~registers)), emit)

    def _probed(self, first: NearestFirst, queries: QueryBatch, emit: Emitter) -> QueryBatch:
        """Send queries of two phases to the evaluator of their place, and return the others."""
        concerned = first.concerns(queries)
        if not concerned.any():
            return queries
        probes = queries.take(np.flatnonzero(concerned))
        first.hold(probes)
        off, worker = self._schedule.routes_from_now(at_their_places(probes), self._context.metric)
        self._send(emit, "probes", probes, one_each(worker[off[:-1]]))
        return queries.take(np.flatnonzero(~concerned))

    def _registered(self, queries: QueryBatch) -> Csr:
        """Return where registrations go."""
        return self.routes(queries)

    def _send_ends(self, ended: QueryBatch, emit: Emitter) -> None:
        """Send unregistrations to all: whoever does not hold a query passes over its end."""
        for worker in range(self._workers):
            emit.direct(worker, ended, "queries")

    def _send(self, emit: Emitter, stream: str, batch: Any, routes: Csr) -> None:
        """Give each worker its rows, in their order."""
        off, worker = routes
        if len(worker) == len(batch) * self._workers:  # all of it to all of them
            for number in range(self._workers if len(batch) else 0):
                emit.direct(number, batch, stream)
            return
        row = np.repeat(np.arange(len(batch)), np.diff(off))
        ordered = batch.take(row[np.argsort(worker, kind="stable")])
        ends = np.cumsum(np.bincount(worker, minlength=self._workers)).tolist()
        for number, (start, end) in enumerate(zip([0, *ends[:-1]], ends, strict=True)):
            if end > start:
                emit.direct(number, ordered.slice(start, end), stream)

    def snapshot(self) -> State:
        """Return the plans, what was learned and the textual summaries."""
        textual = None if self._textual is None else self._textual.snapshot()
        lists = None if self._lists is None else self._lists.snapshot()
        nearest = None if self._nearest_first is None else self._nearest_first.snapshot()
        return {
            "schedule": self._schedule.snapshot(),
            "lists": lists,
            "textual_summary": textual,
            "nearest_first": nearest,
        }

    def restore(self, state: State) -> None:
        """Take over a snapshot; one without plans is that of a router whose plan is new."""
        if state["schedule"] is not None:
            self._schedule.restore(state["schedule"])
            self._lists = self._lists_of(self._schedule.plan)
            if self._lists is not None and state["lists"] is not None:
                self._lists.restore(state["lists"])
        else:
            self._schedule.scatter(state["watermark"])
        if self._textual is not None:
            self._textual.restore(state["textual_summary"])
        if self._nearest_first is not None and state["nearest_first"] is not None:
            self._nearest_first.restore(state["nearest_first"])

    @classmethod
    def redistribute(cls, states: Sequence[State], division: Division) -> list[State]:
        """All routers know the same, but for what they learned; with other evaluators they start with their plan anew.

        A router that is new takes the keyword lists of the plan.
        """
        state = dict(states[0])
        if division.queries is not None and division.routes is not None:
            state["watermark"], state["schedule"] = state["schedule"]["watermark"], None
            if state["textual_summary"] is not None:
                textual = TextualSummary(division.evaluators)
                changes = textual_changes(division.queries, division.routes)
                textual.apply([] if changes is None else [changes])
                state["textual_summary"] = textual.snapshot()
        lists = [None if division.replanned else one["lists"] for one in states]
        lists += [None] * max(division.tasks - len(lists), 0)
        waiting: list[Any] = [None] * division.tasks  # each query waits at one router
        if state["nearest_first"] is not None:
            whole = QueryBatch.concat([one["nearest_first"]["waiting"] for one in states])
            waiting = [{"waiting": whole}, *[{"waiting": QueryBatch.empty()}] * (division.tasks - 1)]
        return [
            {**state, "lists": learned, "nearest_first": held}
            for learned, held in zip(lists[: division.tasks], waiting, strict=True)
        ]
