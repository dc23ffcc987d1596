"""A router that follows a plan: whatever the partitioner, each object and each query goes where the plan says."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from operators.operator import Bolt, Emitter, Epoch, Inputs, TaskContext
from partitioners.columns import Csr
from partitioners.meeting import route_objects, route_queries
from partitioners.plan import Plan
from streams.batches import OP_REGISTER, ObjectBatch, QueryBatch, batch_fields
from streams.errors import DeclarationError

__all__ = ["PlanRouter"]


@dataclass
class PlanRouter(Bolt):
    """Routes by the topology's plan (`topology.plan`, or one built from a sample as `[topology.partitioner]` says).

    The evaluators read both streams with a direct grouping. Routers are replicated without talking to each other: where
    a row goes depends on the plan and the row alone. An unregistration does not say where its query is, so it goes to
    all evaluators, and those that do not hold the query pass over it.
    """

    outputs: ClassVar = {"objects": batch_fields(ObjectBatch), "queries": batch_fields(QueryBatch)}
    needs_plan: ClassVar = True

    def open(self, context: TaskContext) -> None:
        """Take the plan."""
        readers = {n for stream in self.outputs for _, n in context.targets.get(stream, ())}
        if context.plan is None or readers != {context.plan.workers}:
            raise DeclarationError(f"a plan-router needs a plan for its readers, which have {sorted(readers)} tasks")
        self._plan: Plan = context.plan
        self._metric = context.metric

    def execute_epoch(self, epoch: Epoch, inputs: Inputs, emit: Emitter) -> None:
        """Divide what has come."""
        for queries in inputs.batches("queries"):
            registers = queries.op == OP_REGISTER
            new = queries.take(np.flatnonzero(registers))
            _send(emit, "queries", new, route_queries(self._plan, new, self._metric), self._plan.workers)
            if not registers.all():
                ended = queries.take(np.flatnonzero(~registers))
                for worker in range(self._plan.workers):
                    emit.direct(worker, ended, "queries")
        for objects in inputs.batches("objects"):
            _send(emit, "objects", objects, route_objects(self._plan, objects), self._plan.workers)


def _send(emit: Emitter, stream: str, batch: Any, routes: Csr, workers: int) -> None:
    """Give each worker its rows, in their order."""
    off, worker = routes
    row = np.repeat(np.arange(len(batch)), np.diff(off))
    order = np.argsort(worker, kind="stable")
    ends = np.cumsum(np.bincount(worker, minlength=workers))
    for number, (start, end) in enumerate(zip([0, *ends[:-1]], ends, strict=True)):
        if end > start:
            emit.direct(number, batch.take(row[order[start:end]]), stream)
