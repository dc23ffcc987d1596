"""The main server of DkM-SKS (Section 2): it assigns every subscription to a worker, by cost, and knows who has which."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, cast

import numpy as np

from operators.balancing.orders import Order
from operators.operator import Emitter, Epoch, Inputs, State, TaskContext
from operators.redistribution import Division
from operators.routing.plan_router import PlanRouter
from operators.routing.subscription_book import SubscriptionBook
from partitioners.columns import Csr, Floats, Ints, Workers
from partitioners.costs.statistics import QuerySample
from partitioners.plans.assignment_plan import AssignmentPlan
from partitioners.plans.broadcast import one_each
from partitioners.plans.meeting import route_queries_by_both, united
from streams.batches import QueryBatch
from streams.errors import DeclarationError

__all__ = ["MainServer"]

#: So many subscriptions are priced at once.
_PRICED_AT_ONCE = 1 << 16

_ESTIMATED = "estimated_cost:"


@dataclass
class MainServer(PlanRouter):
    """Routes queries by an assignment plan: known ones to their worker, others to the worker with the least cost by then.

    What a new subscription costs, the plan's model says: KOP's, SOP's or DkM-SKS's equations over O_init. C(w) is the cost of
    what a worker has: it grows when a subscription is registered, shrinks when one ends, and follows those that a
    balancer moves. Unregistrations go to whoever has the query. One task has all of it; it can route the objects too, or leave
    them to plan-routers.

    Costs are very unequal: where one dear subscription ends, hundreds of cheap ones would follow each other to its worker,
    and new ones cost more than they are estimated at, because their balls are still large. So workers whose C(w) is nearly
    the least count as equal, and the one with the fewest subscriptions is taken.

    Options:
        slack: how much more than the least, as a share of the mean C(w), counts as equal; 0 is the paper's rule.

    The summary has C(w) as the counters ``estimated_cost:0``, ``estimated_cost:1``, ...: what was estimated, beside what
    evaluators have counted.
    """

    single: ClassVar = True
    single_because: ClassVar = "knows who has which query"
    routes_all_queries: ClassVar = True

    slack: float = 0.01

    def __post_init__(self) -> None:
        if not 0.0 <= self.slack <= 1.0:
            raise DeclarationError(f"slack = {self.slack}, expected a share from 0 to 1", ("slack",))

    def open(self, context: TaskContext) -> None:
        """Take the plan, which must be an assignment."""
        if not isinstance(context.plan, AssignmentPlan):
            raise DeclarationError(
                f"a main-server assigns queries one by one, which a plan of the kind '{context.plan and context.plan.kind}' "
                "does not; use a plan-router, or one of the partitioners dkm-sks, kop, sop, ps2stream",
                ("operator",),
            )
        super().open(context)
        self._book = SubscriptionBook(self._workers)
        self._published: Floats = np.zeros(self._workers)

    def execute_epoch(self, epoch: Epoch, inputs: Inputs, emit: Emitter) -> None:
        """Do what routers do, then give up what has ended."""
        super().execute_epoch(epoch, inputs, emit)
        if epoch.watermark is not None:
            self._book.expire(epoch.watermark)
        self._publish()

    def _plan(self) -> AssignmentPlan:
        return cast(AssignmentPlan, self._schedule.plan)

    def _operations(self, inputs: Inputs) -> list[QueryBatch]:
        """Return all operations of the epoch together: who comes first does not depend on which spout sent it."""
        batches = inputs.batches("queries")
        return [QueryBatch.concat(batches)] if batches else []

    def _follow(self, order: Order) -> None:
        """Take an order; at the switch costs move with their subscriptions."""
        before = self._plan()
        super()._follow(order)
        if order.kind == "switch":
            self._context.count("subscriptions_moved", self._book.move(*before.moved_in(self._plan())))

    # --- registrations -----------------------------------------------------------------------------------------------

    def routes(self, queries: QueryBatch) -> Csr:
        """Return where queries belong if there were no others."""
        return one_each(self._assigned(queries, SubscriptionBook(self._workers)))

    def _registered(self, queries: QueryBatch) -> Csr:
        home = self._assigned(queries, self._book)
        if self._schedule.next is None:
            return one_each(home)
        return united(*route_queries_by_both(self._plan(), self._schedule.next, queries, self._context.metric, home))

    def _assigned(self, queries: QueryBatch, book: SubscriptionBook) -> Workers:
        """Enter queries into a book; return the worker of each.

        Those that a plan knows come first. A query that only the plan to come knows begins there, so it need not move.
        """
        home, cost = self._plan().known(queries.number)
        if self._schedule.next is not None:
            later, _ = cast(AssignmentPlan, self._schedule.next).known(queries.number)
            home = np.where(home < 0, later, home)
        unpriced = np.flatnonzero(np.isnan(cost))
        cost[unpriced] = self._prices(queries, unpriced)
        known = np.flatnonzero(home >= 0)
        new = np.flatnonzero(home < 0)
        new = new[np.argsort(queries.number[new], kind="stable")]
        book.add(queries.number[known], home[known], cost[known], queries.end[known])
        home[new], _ = self._plan().assign(cost[new], book.load, book.held, self.slack)
        book.add(queries.number[new], home[new], cost[new], queries.end[new])
        return home

    def _prices(self, queries: QueryBatch, rows: Ints) -> Floats:
        """Return C(s) of some queries by the plan's model."""
        found = [np.empty(0)]
        for first in range(0, len(rows), _PRICED_AT_ONCE):
            some = queries.take(rows[first : first + _PRICED_AT_ONCE])
            q = QuerySample.of_batch(some, self._plan().space, self._context.metric, 0.0, None)
            found.append(self._plan().costs(q.at_x, q.at_y, q.kw_off, q.kw, np.maximum(q.k, 1), q.match_any))
        self._context.count("priced", len(rows))
        return np.concatenate(found)

    # --- ends --------------------------------------------------------------------------------------------------------

    def _send_ends(self, ended: QueryBatch, emit: Emitter) -> None:
        """Send unregistrations to who has the query; while it moves, also to who will have it."""
        holder = self._book.remove(ended.target)
        held = np.flatnonzero(holder >= 0)  # what has ended by itself, nobody has any more
        ended, home = (ended, holder) if len(held) == len(holder) else (ended.take(held), holder[held])
        routes = one_each(home)
        if self._schedule.next is not None:
            _, later = route_queries_by_both(self._plan(), self._schedule.next, ended, self._context.metric, home)
            routes = united(routes, later)
        self._send(emit, "queries", ended, routes)

    def _publish(self) -> None:
        """Count how C(w) has changed; with fewer workers than before, those that are gone have none."""
        size = max(len(self._published), self._workers)
        load, before = np.zeros(size), np.zeros(size)
        load[: self._workers], before[: len(self._published)] = self._book.load, self._published
        for worker in np.flatnonzero(load != before).tolist():
            self._context.count(f"{_ESTIMATED}{worker}", float(load[worker] - before[worker]))
        self._published = load[: self._workers]

    # --- state -------------------------------------------------------------------------------------------------------

    def snapshot(self) -> State:
        """Return what routers know, and the book."""
        return {**super().snapshot(), "book": self._book.snapshot(), "published": self._published}

    def restore(self, state: State) -> None:
        """Take over a snapshot; one without a book has queries with their workers, which are priced here."""
        super().restore(state)
        self._published = state["published"]
        if state["book"] is not None:
            self._book.restore(state["book"])
            return
        queries, home = state["queries"], state["home"]
        _, cost = self._plan().known(queries.number)
        unpriced = np.flatnonzero(np.isnan(cost))
        cost[unpriced] = self._prices(queries, unpriced)
        self._book.add(queries.number, home, cost, queries.end)

    @classmethod
    def redistribute(cls, states: Sequence[State], division: Division) -> list[State]:
        """With other evaluators it starts with the queries that live, where they are from now on."""
        (state,) = super().redistribute(states, division)
        if division.queries is not None and division.routes is not None:
            state = {**state, "book": None, "queries": division.queries, "home": division.routes[1]}
        return [state]
