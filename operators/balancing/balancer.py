"""The balancer: hears of the load of all evaluators, decides, and leads the change from one plan to the next.

Paper: Tornado, sections 4.2 to 4.4, where one of the routing units does this. A change is a round of up to three steps, each of
which the evaluators answer: *ask* (the givers of shifts say where they would cut), *prepare* (queries are copied), *switch*.
One round at a time; it may hold many operations.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from operators.balancing.orders import ORDER_FIELDS, Order, order_batch
from operators.balancing.registry import policy_of
from operators.balancing.tornado import (
    BorderShift,
    Operation,
    Partitions,
    apply,
    cells_from_batch,
    moves,
    summaries_from_batch,
)
from operators.balancing.tornado.settings import PolicySettings
from operators.operator import Bolt, Emitter, Epoch, Inputs, State, TaskContext
from operators.redistribution import Division
from partitioners.plans.grid_plan import GridPlan
from partitioners.plans.plan import pack, unpack
from streams.batches import TupleBatch
from streams.codec import encode, size_of
from streams.errors import DeclarationError

__all__ = ["Balancer"]

WATCHING, ASKING, MOVING = "watching", "asking", "moving"


@dataclass
class Balancer(Bolt):
    """Keeps the load of the evaluators even.

    It reads their streams ``statistics`` and ``replies``, each with the grouping ``global``; routers and evaluators
    read its ``orders`` as feedback, with the grouping ``all``.

    Options:
        policy: how it decides; one of `operators.balancing.tornado.POLICIES`.
        beta, operations, threshold, minimal_cost, gain, seed: see `PolicySettings`.
    """

    outputs: ClassVar = {"orders": ORDER_FIELDS}
    plan_streams: ClassVar = frozenset({"orders"})
    needs_plan: ClassVar = True
    single: ClassVar = True

    policy: str = "tornado"
    beta: float = 1.0
    operations: int = 0
    threshold: float = 1.1
    minimal_cost: int = 1
    gain: float = 0.02
    seed: int = 0

    def __post_init__(self) -> None:
        self._policy = policy_of(self.policy)
        self._settings = PolicySettings(
            self.beta, self.operations, self.threshold, self.minimal_cost, self.gain, seed=self.seed
        )

    def open(self, context: TaskContext) -> None:
        """Take the plan, which must be one whose borders can move."""
        if not isinstance(context.plan, GridPlan):
            kind = None if context.plan is None else context.plan.kind
            raise DeclarationError(
                f"a balancer moves borders of a grid plan, but the plan is '{kind}'; use 'kd' or 'uniform'"
            )
        Partitions.of(context.plan)
        self._context = context
        self._plan: GridPlan = context.plan
        self._next: GridPlan | None = None
        self._phase = WATCHING
        self._statistics: list[TupleBatch] = []
        self._decided: tuple[Operation, ...] | None = None
        self._awaited: set[int] = set()
        self._positions: dict[int, int | None] = {}
        self._sent: dict[tuple[int, int], int] = {}

    def execute_epoch(self, epoch: Epoch, inputs: Inputs, emit: Emitter) -> None:
        """Hear what evaluators tell, and take the next step if there is one; none in the final epoch."""
        for batch in inputs.batches("statistics"):
            self._context.count("statistics_bytes", size_of(encode([(0, batch)])))
        for batch in inputs.batches("replies"):
            for kind, worker, value in batch.rows():
                self._answered(kind, worker, value)
        if epoch.final:
            return
        if self._phase == WATCHING:
            self._watch(inputs.batches("statistics"), emit)
        elif self._phase == ASKING and not self._awaited:
            self._prepare(self._operations(), emit)
        elif self._phase == MOVING and not self._awaited:
            self._switch(epoch, emit)

    def _answered(self, kind: str, worker: int, value: Any) -> None:
        self._awaited.discard(worker)
        if kind == "position":
            self._positions[worker] = value
        else:
            self._sent.update({(worker, taker): queries for taker, queries in value})

    def _operations(self) -> tuple[Operation, ...]:
        """Decide, once a round; a task that was restored decides the same again, because a policy is a pure function."""
        if self._decided is None:
            self._decided = self._policy.decide(self._heard(self._statistics), self._plan, self._settings)
        return self._decided

    def _heard(self, batches: list[TupleBatch]) -> list[Any]:
        """Return the statistics of batches."""
        read = cells_from_batch if self._policy.statistics == "cells" else summaries_from_batch
        return [told for batch in batches for told in read(batch)]

    def _watch(self, statistics: list[TupleBatch], emit: Emitter) -> None:
        """Decide when all evaluators have told of their load under the plan in force."""
        told = self._heard(statistics)
        if [one.worker for one in told if one.version == self._plan.version] != sorted(
            Partitions.of(self._plan).numbers
        ):
            return
        if not any(np.sum(one.cost) for one in told):
            return  # nothing flows; a round now would also keep the run from coming to rest
        self._statistics, self._decided = statistics, None
        operations = self._operations()
        if not operations:
            return
        self._positions.clear()
        self._context.event({"event": "rebalancing", "version": self._plan.version + 1})
        costs = {one.worker: one.cost for one in told}
        asked = [
            Order("shift", o.givers[0], [o.side.value, costs[o.takers[0]]])
            for o in operations
            if isinstance(o, BorderShift) and o.position is None
        ]
        if not asked:
            self._prepare(operations, emit)
            return
        self._phase, self._awaited = ASKING, {order.worker for order in asked}
        emit.batch(order_batch(asked), "orders")

    def _prepare(self, operations: tuple[Operation, ...], emit: Emitter) -> None:
        new = apply(self._plan, operations, self._positions)
        givers = {giver for giver, _, _ in moves(self._plan, new)}
        if not givers:
            self._phase = WATCHING
            return
        self._phase, self._awaited, self._next = MOVING, givers, new
        self._sent.clear()
        emit.batch(order_batch([Order("prepare", payload=pack(new))]), "orders")

    def _switch(self, epoch: Epoch, emit: Emitter) -> None:
        assert self._next is not None
        emit.batch(order_batch([Order("switch")]), "orders")
        operations = self._operations()
        for (giver, taker), queries in sorted(self._sent.items()):
            self._context.event(
                {
                    "event": "rebalanced",
                    "version": self._next.version,
                    "epoch": epoch.number + self._context.epoch_feedback,
                    "kind": _kind(operations, giver, taker),
                    "from": giver,
                    "to": taker,
                    "queries_moved": queries,
                }
            )
        self._context.count("rebalances", 1)
        self._plan, self._next, self._phase = self._next, None, WATCHING

    def snapshot(self) -> State:
        """Return the plan in force and the round under way."""
        return {
            "plan": pack(self._plan),
            "next": None if self._next is None else pack(self._next),
            "phase": self._phase,
            "statistics": list(self._statistics),
            "awaited": sorted(self._awaited),
            "positions": [list(item) for item in sorted(self._positions.items())],
            "sent": [[giver, taker, queries] for (giver, taker), queries in sorted(self._sent.items())],
        }

    def restore(self, state: State) -> None:
        """Take over a snapshot; an empty one is that of a balancer whose plan is new."""
        if not state:
            return
        self._plan = _grid_plan(state["plan"])
        self._next = None if state["next"] is None else _grid_plan(state["next"])
        self._phase, self._statistics, self._decided = state["phase"], state["statistics"], None
        self._awaited = set(state["awaited"])
        self._positions = dict(state["positions"])
        self._sent = {(giver, taker): queries for giver, taker, queries in state["sent"]}

    @classmethod
    def redistribute(cls, states: Sequence[State], division: Division) -> list[State]:
        """With other evaluators it starts watching afresh."""
        return [{}] if division.replanned else list(states)


def _kind(operations: tuple[Operation, ...], giver: int, taker: int) -> str:
    """Return the kind of the operation that brought two workers together."""
    return next(o.kind for o in operations if {giver, taker} <= o.workers or giver in o.workers)


def _grid_plan(packed: bytes) -> GridPlan:
    plan = unpack(packed)
    assert isinstance(plan, GridPlan)
    return plan
