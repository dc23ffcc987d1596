"""What a balancer orders routers and evaluators to do, and the plans that are in force because of it.

All of them receive an order in the same epoch and follow it before anything else of that epoch, so no epoch is worked on under
two plans. A plan is replaced in two steps (Tornado, section 4.4). From *prepare* on, queries go where the old or the new plan
sends them, objects still where the old one does, and evaluators copy to each other what the new plan wants elsewhere. From
*switch* on the old plan is history. A plan is sent as what changes in it, never whole.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal
from weakref import WeakKeyDictionary, WeakValueDictionary

from partitioners.columns import Csr, Workers
from partitioners.plans.meeting import route_objects, route_queries, route_queries_by_both, united
from partitioners.plans.plan import Plan, pack, unpack
from partitioners.plans.plan_change import changed, unpack_change
from partitioners.plans.plan_history import PlanHistory
from streams.batches import ObjectBatch, QueryBatch, TupleBatch
from streams.geometry import Metric
from streams.state import Part
from streams.window import Window

__all__ = ["ORDER_FIELDS", "Order", "PlanSchedule", "loaded_plan", "order_batch", "orders_of", "saved_plan"]

ORDER_FIELDS = ("kind", "worker", "payload")

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

    Attributes:
        next: what will replace the plan in force; queries follow both meanwhile.
        history: the plan in force and those before it, for as long as the window reaches back.
    """

    def __init__(self, plan: Plan, window: Window | None = None) -> None:
        self.next: Plan | None = None
        self.history = PlanHistory.of(plan)
        self._reach_ms = None if window is None else window.ms
        self._watermark: int | None = None

    @property
    def plan(self) -> Plan:
        """What objects follow."""
        return self.history.newest

    def end_epoch(self, watermark: int | None) -> None:
        """Note that objects of later epochs are not older than this: a plan that is put in force then holds from here on."""
        self._watermark = watermark

    def follow(self, order: Order) -> None:
        """Take an order that changes the plan; others change nothing."""
        if order.kind == "prepare":
            self.next = _next(self.plan, order.payload)
        elif order.kind == "switch":
            assert self.next is not None, "switched without a plan"
            now = 0 if self._watermark is None else max(self._watermark, self.history.times[-1])
            kept = self.history.pruned(now - self._reach_ms) if self._reach_ms is not None else None
            self.history = PlanHistory.of(self.next, now) if kept is None else kept.with_next(self.next, now)
            self.next = None

    def route_objects(self, objects: ObjectBatch) -> Csr:
        """Return the workers that must see each object."""
        return route_objects(self.plan, objects)

    def routes_of(self, queries: QueryBatch, metric: Metric, home: Workers) -> tuple[Csr, Csr]:
        """Return the workers of queries under the plan in force and under the next one, while there is one.

        `home` is who holds each query under the plan in force, -1 where that is not known.
        """
        assert self.next is not None
        return route_queries_by_both(self.plan, self.next, queries, metric, home)

    def route_queries(self, queries: QueryBatch, metric: Metric) -> Csr:
        """Return the workers that must hold each new query.

        While a plan is prepared, a query that the plan in force knows nothing of begins where the next one wants it: so who
        receives one that only the next plan knows is its home, whatever a hash says.
        """
        if self.next is None:
            return route_queries(self.plan, queries, metric)
        home = None
        if self.next.single_home:
            home = route_queries(self.next, queries, metric)[1]
        return united(*route_queries_by_both(self.plan, self.next, queries, metric, home))

    def snapshot(self) -> dict[str, Any]:
        """Return all plans."""
        return {
            "plans": [saved_plan(plan) for plan in self.history.plans],
            "times": list(self.history.times),
            "next": None if self.next is None else saved_plan(self.next),
            "watermark": self._watermark,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Take over a snapshot."""
        self.history = PlanHistory(tuple(loaded_plan(saved) for saved in state["plans"]), tuple(state["times"]))
        self.next = None if state["next"] is None else loaded_plan(state["next"])
        self._watermark = state["watermark"]
