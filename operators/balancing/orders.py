"""What a balancer orders routers and evaluators to do, and the plans that are in force because of it.

All of them receive an order in the same epoch and follow it before anything else of that epoch, so no epoch is worked on under
two plans. A plan is replaced in two steps (Tornado, section 4.4). From *prepare* on, queries go where the old or the new plan
sends them, objects still where the old one does, and evaluators copy to each other what the new plan wants elsewhere. From
*switch* on the old plan is history. A plan is sent as what changes in it, never whole.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal
from weakref import WeakKeyDictionary, WeakValueDictionary

import numpy as np

from partitioners.columns import Csr, Workers
from partitioners.plans.meeting import route_objects, route_queries, route_queries_by_both, united
from partitioners.plans.plan import Plan, pack, unpack
from partitioners.plans.plan_change import changed, unpack_change
from partitioners.plans.plan_history import PlanHistory
from streams.batches import NO_WINDOW, ObjectBatch, QueryBatch, TupleBatch
from streams.columns import Ints, sorted_rows
from streams.geometry import Metric
from streams.state import Part
from streams.window import Window

__all__ = ["ORDER_FIELDS", "Order", "PlanSchedule", "loaded_plan", "order_batch", "orders_of", "saved_plan"]

ORDER_FIELDS = ("kind", "worker", "payload")

#: The most plans that a history has where objects are kept: each is asked for every query that reaches back to it.
MOST_PLANS = 64

Kind = Literal["ask", "prepare", "switch"]


@dataclass(frozen=True, slots=True)
class Order:
    """One order: to one worker, or to all of them (-1).

    ``ask`` brings a question of the policy to a worker. ``prepare`` brings the change to the next plan, packed. ``switch``
    puts it in force.
    """

    kind: Kind
    worker: int = -1
    payload: Any = None


def order_batch(orders: Iterable[Order]) -> TupleBatch:
    """Return orders as a batch."""
    return TupleBatch.of(ORDER_FIELDS, [(order.kind, order.worker, [order.payload]) for order in orders])


def orders_of(batches: Iterable[TupleBatch]) -> list[Order]:
    """Return the orders of batches."""
    return [Order(kind, worker, payload[0]) for batch in batches for kind, worker, payload in batch.rows()]


#: The parts of states that hold plans, and the plans that parts hold: a plan is written once however many tasks follow it
#: in however many checkpoints, and all tasks of a process share it.
_parts: WeakKeyDictionary[Any, Part] = WeakKeyDictionary()
_plans: WeakValueDictionary[str, Any] = WeakValueDictionary()


def saved_plan(plan: Plan) -> Part:
    """Return a plan as a state has it."""
    if plan not in _parts:
        packed = pack(plan)
        _parts[plan] = Part.of(f"plan-{plan.version}-{hashlib.blake2b(packed, digest_size=16).hexdigest()}", packed)
        _plans[_parts[plan].key] = plan
    return _parts[plan]


def loaded_plan(saved: Part) -> Plan:
    """Return the plan of a state."""
    plan: Plan | None = _plans.get(saved.key)
    if plan is None:
        plan = unpack(saved.value)
        _parts[plan], _plans[saved.key] = saved, plan
    return plan


#: The last change that was applied in this process: its tasks share a plan, which never changes and may be large.
_last: tuple[Plan, bytes, Plan] | None = None


def _next(plan: Plan, payload: bytes) -> Plan:
    """Return the plan that a change makes of another."""
    global _last
    if _last is None or _last[0] is not plan or _last[1] != payload:
        _last = (plan, payload, changed(plan, unpack_change(payload, "the order of a balancer")))
    return _last[2]


class PlanSchedule:
    """The plan in force, the next one while it is prepared, and those that objects of the topology's window followed.

    Where objects are kept, a query that is answered at instants goes to everybody who may have objects of it, by the plans of
    its window, whatever its keywords: an object that several workers see is kept by one of them.

    Attributes:
        next: what will replace the plan in force; queries follow both meanwhile.
        history: the plan in force and those before it, for as long as the window, or what is kept, reaches back.

    Args:
        plan: the first plan.
        window: the topology's sliding window.
        kept_ms: how long objects are kept; None where they are not.
    """

    def __init__(self, plan: Plan, window: Window | None = None, kept_ms: int | None = None) -> None:
        self.next: Plan | None = None
        self.history = PlanHistory.of(plan)
        self._keeps = kept_ms is not None
        window_ms = None if window is None else window.ms
        self._reach_ms = max((ms for ms in (kept_ms, window_ms) if ms is not None), default=None)
        self._watermark: int | None = None
        #: Objects up to this time may be kept by anybody: the plans that they followed are forgotten.
        self._scattered: int | None = None

    @property
    def plan(self) -> Plan:
        """What objects follow."""
        return self.history.newest

    @property
    def remembers(self) -> bool:
        """Whether queries may be sent to workers because of objects that came under an older plan."""
        return self._keeps and (len(self.history) > 1 or self._scattered is not None)

    def end_epoch(self, watermark: int | None) -> None:
        """Note that objects of later epochs are not older than this: a plan that is put in force then holds from here on."""
        self._watermark = watermark

    def follow(self, order: Order) -> None:
        """Take an order that changes the plan; others change nothing."""
        if order.kind == "prepare":
            self.next = _next(self.plan, order.payload)
        elif order.kind == "switch":
            assert self.next is not None, "switched without a plan"
            self._put(self.next)
            self.next = None

    def _put(self, plan: Plan) -> None:
        """Put a plan in force from now on."""
        now = 0 if self._watermark is None else max(self._watermark, self.history.times[-1])
        if self._reach_ms is None:
            self.history = PlanHistory.of(plan, now)
            return
        # A question of two phases is asked again when its time has passed, so what is kept now is not all that counts.
        kept = self.history if self._keeps else self.history.pruned(now - self._reach_ms)
        if len(kept) >= MOST_PLANS:
            half = len(kept) // 2
            kept, self._scattered = PlanHistory(kept.plans[half:], kept.times[half:]), kept.times[half]
        self.history = kept.with_next(plan, now)

    def scatter(self, watermark: int | None) -> None:
        """Begin anew where another number of workers goes on: objects that came before may be kept by anybody."""
        self._watermark = watermark
        if self._keeps:
            self._scattered = watermark

    def route_objects(self, objects: ObjectBatch) -> Csr:
        """Return the workers that must see each object."""
        return route_objects(self.plan, objects)

    def routes_of(self, queries: QueryBatch, metric: Metric, home: Workers) -> tuple[Csr, Csr]:
        """Return the workers of queries under the plan in force and under the next one, while there is one.

        `home` is who holds each query under the plan in force, -1 where that is not known.
        """
        assert self.next is not None
        return route_queries_by_both(self.plan, self.next, self._as_routed(queries), metric, home)

    def _as_routed(self, queries: QueryBatch) -> QueryBatch:
        """Return queries as they are routed: those that are answered from kept objects by their place alone."""
        if not self._keeps or not (wordless := queries.at_instants).any():
            return queries
        if wordless.all():
            return replace(queries, kw_off=np.zeros(len(queries) + 1, np.int32), kw=queries.kw[:0])
        words = np.diff(queries.kw_off)
        off = np.append(0, np.cumsum(np.where(wordless, 0, words))).astype(np.int32)
        return replace(queries, kw_off=off, kw=queries.kw[~np.repeat(wordless, words)])

    def route_queries(self, queries: QueryBatch, metric: Metric) -> Csr:
        """Return the workers that must hold each new query.

        While a plan is prepared, a query that the plan in force knows nothing of begins where the next one wants it: so who
        receives one that only the next plan knows is its home, whatever a hash says.
        """
        if self.remembers and (kept := queries.at_instants).any():
            return self._routes_of_window(queries, metric, kept)
        return self.routes_from_now(queries, metric)

    def routes_from_now(self, queries: QueryBatch, metric: Metric) -> Csr:
        """Return the workers of queries by the plans that objects follow from now on."""
        queries = self._as_routed(queries)
        if self.next is None:
            return route_queries(self.plan, queries, metric)
        home = None
        if self.next.single_home:
            home = route_queries(self.next, queries, metric)[1]
        return united(*route_queries_by_both(self.plan, self.next, queries, metric, home))

    def _routes_of_window(self, queries: QueryBatch, metric: Metric, kept: Any) -> Csr:
        """Return the workers of queries; those that are answered from kept objects go to the workers of their whole window."""
        queries = self._as_routed(queries)
        pairs = [_pairs(self.routes_from_now(queries, metric), np.arange(len(queries)))]
        begin = np.where(queries.window == NO_WINDOW, np.iinfo(np.int64).min, queries.ts - queries.window)
        for number, plan in enumerate(self.history.plans[:-1]):
            rows = np.flatnonzero(kept & (begin <= self.history.times[number + 1]))
            if len(rows):
                pairs.append(_pairs(route_queries(plan, queries.take(rows), metric), rows))
        if self._scattered is not None:
            rows = np.flatnonzero(kept & (begin <= self._scattered))
            pairs.append((np.repeat(rows, self.plan.workers), np.tile(np.arange(self.plan.workers), len(rows))))
        row, worker = (np.concatenate(part) for part in zip(*pairs, strict=True))
        off, workers = sorted_rows(row, worker, len(queries))
        return off, workers.astype(np.int32)

    def snapshot(self) -> dict[str, Any]:
        """Return all plans."""
        return {
            "plans": [saved_plan(plan) for plan in self.history.plans],
            "times": list(self.history.times),
            "next": None if self.next is None else saved_plan(self.next),
            "watermark": self._watermark,
            "scattered": self._scattered,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Take over a snapshot."""
        self.history = PlanHistory(tuple(loaded_plan(saved) for saved in state["plans"]), tuple(state["times"]))
        self.next = None if state["next"] is None else loaded_plan(state["next"])
        self._watermark, self._scattered = state["watermark"], state["scattered"]


def _pairs(routes: Csr, rows: Ints) -> tuple[Ints, Ints]:
    """Return routes as pairs of a row, numbered as `rows` says, and a worker."""
    off, worker = routes
    return np.repeat(rows, np.diff(off)), worker.astype(np.int64)
