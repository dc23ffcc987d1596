"""The balancer: reads what evaluators report, lets a policy decide, and leads the change from one plan to the next.

Paper: Tornado, sections 4.2 to 4.4, where one of the routing units does this. A round goes through phases:

    watching --(the policy asks)--> asking --(all have answered)--> watching, with the answers
    watching --(the policy changes the plan)--> moving --(all evaluators have sent what moves)--> watching, under the new plan

One round at a time; it may hold many operations. Whoever runs a service may order a round (`rebalance`): as soon as evaluators
report, the policy is asked with settings that make it wait for nothing. All else is as always, so nothing stops for it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from operators.balancing.orders import ORDER_FIELDS, Order, loaded_plan, order_batch, saved_plan
from operators.balancing.policy import Ask, Change, Step, View, settings_of
from operators.balancing.registry import policy_of
from operators.balancing.statistics import STATISTICS, StatisticsRequest
from operators.balancing.tornado.partitions import Partitions
from operators.needs import Need
from operators.operator import Bolt, Emitter, Epoch, Inputs, State, TaskContext
from operators.redistribution import Division
from operators.references import Reference
from partitioners.plans.grid_plan import GridPlan
from partitioners.plans.plan import Plan
from partitioners.plans.plan_change import change_between, pack_change
from streams.batches import TupleBatch
from streams.codec import encode, size_of
from streams.errors import DeclarationError

__all__ = ["REBALANCE", "Balancer"]

_DEFAULT_POLICY = Reference("tornado")

WATCHING, ASKING, MOVING = "watching", "asking", "moving"

#: The stream on which a round is ordered.
REBALANCE = "rebalance"


@dataclass
class Balancer(Bolt):
    """Keeps the load of the evaluators even.

    It reads their streams ``statistics`` and ``replies``, each with the grouping ``global``; routers and evaluators
    read its ``orders`` as feedback, with the grouping ``all``.

    Options:
        policy: how it decides; one of `operators.balancing.registry.POLICIES`, or your own as ``module:NAME`` or
            ``file.py:NAME``.
        settings: the policy's own settings.
    """

    outputs: ClassVar = {"orders": ORDER_FIELDS}
    plan_streams: ClassVar = frozenset({"orders"})
    addressed: ClassVar = frozenset()
    reads: ClassVar = {
        "statistics": Need(feedback=False, required=True),
        "replies": Need(feedback=False, required=True),
        REBALANCE: Need(feedback=False),
    }
    needs_plan: ClassVar = True
    single: ClassVar = True

    policy: Reference = _DEFAULT_POLICY
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._policy = policy_of(self.policy)
        self._settings = settings_of(self._policy, self.settings)

    @property
    def asks(self) -> StatisticsRequest:
        """What evaluators are to report."""
        return StatisticsRequest(self._policy.statistics, self._policy.report_options(self._settings))

    @property
    def plans(self) -> tuple[Plan, Plan | None]:
        """The plan in force, and the one that replaces it while that is prepared."""
        return self._plan, None if self._change is None else self._change.plan

    def open(self, context: TaskContext) -> None:
        """Take the plan, which must be one that the policy can change."""
        assert context.plan is not None
        if (objection := self._policy.objection(context.plan)) is not None:
            raise DeclarationError(f"the policy '{self.policy}' cannot change this plan: {objection}", ("policy",))
        self._context = context
        self._plan = context.plan
        self._phase = WATCHING
        self._change: Change | None = None
        self._reports: list[TupleBatch] = []
        self._memory: Any = None
        self._ordered = False
        self._awaited: set[int] = set()
        self._answers: dict[int, Any] = {}
        self._sent: dict[tuple[int, int], int] = {}

    def execute_epoch(self, epoch: Epoch, inputs: Inputs, emit: Emitter) -> None:
        """Receive what evaluators send, and take the next step if there is one; none in the final epoch."""
        for batch in inputs.batches("statistics"):
            self._context.count("statistics_bytes", size_of(encode([(0, batch)])))
        self._ordered = self._ordered or any(len(batch) for batch in inputs.batches(REBALANCE))
        for batch in inputs.batches("replies"):
            for kind, worker, value in batch.rows():
                self._answered(kind, worker, value)
        if epoch.final:
            return
        if self._phase == WATCHING:
            if self._all_reported(inputs.batches("statistics")):
                self._decide(emit)
        elif not self._awaited:
            if self._phase == ASKING:
                self._decide(emit)
            else:
                self._switch(epoch, emit)

    def _answered(self, kind: str, worker: int, value: Any) -> None:
        self._awaited.discard(worker)
        if kind == "answer":
            self._answers[worker] = value
        else:
            self._sent.update({(worker, taker): queries for taker, queries in value})

    def _read(self) -> list[Any]:
        read = STATISTICS[self._policy.statistics].read
        return [report for batch in self._reports for report in read(batch)]

    def _all_reported(self, batches: list[TupleBatch]) -> bool:
        """Tell whether all evaluators have reported under the plan in force, and there was any work at all.

        Where nothing flows a round would keep the run from coming to rest.
        """
        self._reports, self._answers = batches, {}
        reports = self._read()
        wanted = list(range(self._plan.workers))
        if STATISTICS[self._policy.statistics].by_place:
            assert isinstance(self._plan, GridPlan)
            wanted = sorted(Partitions.of(self._plan).numbers)
        current = [one.worker for one in reports if one.version == self._plan.version]
        return current == wanted and any(np.sum(one.cost) for one in reports)

    def _decide(self, emit: Emitter) -> None:
        """Let the policy decide; a task that was restored decides the same again, because a policy is a pure function."""
        settings = replace(self._settings, **self._policy.impatient) if self._ordered else self._settings
        view = View(self._plan, self._read(), settings, self._answers, self._memory)
        decision, memory = self._policy.decide(view)
        if isinstance(decision, Ask):
            self._phase, self._awaited = ASKING, set(decision.questions)
            emit.batch(order_batch([Order("ask", w, q) for w, q in sorted(decision.questions.items())]), "orders")
            return
        self._memory, self._phase, self._ordered = memory, WATCHING, False
        if decision is None:
            return
        self._phase, self._change, self._awaited = MOVING, decision, set(range(self._plan.workers))
        self._sent.clear()
        self._context.event({"event": "rebalancing", "version": decision.plan.version})
        change = pack_change(change_between(self._plan, decision.plan))
        self._context.count("orders_bytes", len(change))
        emit.batch(order_batch([Order("prepare", payload=change)]), "orders")

    def _switch(self, epoch: Epoch, emit: Emitter) -> None:
        assert self._change is not None
        emit.batch(order_batch([Order("switch")]), "orders")
        for (giver, taker), queries in sorted(self._sent.items()):
            step = self._change.step(giver, taker)
            self._context.event(
                {
                    "event": "rebalanced",
                    "version": self._change.plan.version,
                    "epoch": epoch.number + self._context.epoch_feedback,
                    "kind": step.kind,
                    "from": giver,
                    "to": taker,
                    "queries_moved": queries,
                    "why": step.why,
                }
            )
        self._context.count("rebalances", 1)
        self._plan, self._change, self._phase = self._change.plan, None, WATCHING

    def snapshot(self) -> State:
        """Return the plan in force, the round under way and what the policy remembers."""
        change = self._change
        return {
            "plan": saved_plan(self._plan),
            "next": None if change is None else saved_plan(change.plan),
            "steps": [] if change is None else [[s.kind, sorted(s.workers), s.why] for s in change.steps],
            "phase": self._phase,
            "reports": list(self._reports),
            "memory": self._memory,
            "ordered": self._ordered,
            "awaited": sorted(self._awaited),
            "answers": [list(item) for item in sorted(self._answers.items())],
            "sent": [[giver, taker, queries] for (giver, taker), queries in sorted(self._sent.items())],
        }

    def restore(self, state: State) -> None:
        """Take over a snapshot; an empty one is that of a balancer whose plan is new."""
        if not state:
            return
        self._plan = loaded_plan(state["plan"])
        if state["next"] is not None:
            steps = tuple(Step(kind, frozenset(workers), why) for kind, workers, why in state["steps"])
            self._change = Change(loaded_plan(state["next"]), steps)
        self._phase, self._reports, self._memory = state["phase"], state["reports"], state["memory"]
        self._ordered = state.get("ordered", False)  # states of earlier versions know of no orders
        self._awaited = set(state["awaited"])
        self._answers = {worker: value for worker, value in state["answers"]}  # noqa: C416
        self._sent = {(giver, taker): queries for giver, taker, queries in state["sent"]}

    @classmethod
    def redistribute(cls, states: Sequence[State], division: Division) -> list[State]:
        """With other evaluators it starts watching afresh."""
        return [{}] if division.replanned else list(states)
