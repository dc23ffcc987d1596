"""What a balancer tells routers and evaluators, and the plans that are in force because of it.

All of them hear an order in the same epoch and follow it before anything else of that epoch, so no epoch is worked on under
two plans. A plan is replaced in two steps (Tornado, section 4.4). From *prepare* on, queries go where the old or the new plan
sends them, objects still where the old one does, and evaluators copy to each other what the new plan wants elsewhere. From
*switch* on the old plan is forgotten.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

from partitioners.columns import Csr
from partitioners.plans.meeting import route_objects, route_queries, united
from partitioners.plans.plan import Plan, pack, unpack
from streams.batches import ObjectBatch, QueryBatch, TupleBatch
from streams.geometry import Metric

__all__ = ["ORDER_FIELDS", "Order", "PlanSchedule", "order_batch", "orders_of"]

ORDER_FIELDS = ("kind", "worker", "payload")

Kind = Literal["shift", "prepare", "switch"]


@dataclass(frozen=True, slots=True)
class Order:
    """One order: to one worker, or to all of them (-1).

    ``shift`` asks a worker where to cut; its payload says which way and what the neighbour's cost is. ``prepare`` brings
    the next plan, packed. ``switch`` puts it in force.
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


@lru_cache(maxsize=2)
def _unpacked(payload: bytes) -> Plan:
    """Return the plan of an order; all tasks of a process share it, since a plan never changes and has a large table."""
    return unpack(payload, "the plan of a balancer")


class PlanSchedule:
    """The plan in force, and the next one while it is prepared.

    Attributes:
        plan: what objects follow.
        next: what will replace it; queries follow both meanwhile.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.next: Plan | None = None

    def follow(self, order: Order) -> None:
        """Take an order that changes the plan; others change nothing."""
        if order.kind == "prepare":
            self.next = _unpacked(order.payload)
        elif order.kind == "switch":
            assert self.next is not None, "switched without a plan"
            self.plan, self.next = self.next, None

    def route_objects(self, objects: ObjectBatch) -> Csr:
        """Return the workers that must see each object."""
        return route_objects(self.plan, objects)

    def route_queries(self, queries: QueryBatch, metric: Metric) -> Csr:
        """Return the workers that must hold each query."""
        routes = route_queries(self.plan, queries, metric)
        return routes if self.next is None else united(routes, route_queries(self.next, queries, metric))

    def snapshot(self) -> dict[str, Any]:
        """Return both plans, packed."""
        return {"plan": pack(self.plan), "next": None if self.next is None else pack(self.next)}

    def restore(self, state: dict[str, Any]) -> None:
        """Take over a snapshot."""
        self.plan = unpack(state["plan"])
        self.next = None if state["next"] is None else unpack(state["next"])
