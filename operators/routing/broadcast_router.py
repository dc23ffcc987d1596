"""The simplest router: one side is divided among the evaluators, the other goes to all of them."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from operators.needs import ROUTER_READS
from operators.operator import Bolt, Emitter, Epoch, Inputs, TaskContext
from operators.routing.query_types import check_types, of_types
from partitioners.columns import Csr
from streams.batches import OP_DELETE, ObjectBatch, QueryBatch, batch_fields
from streams.errors import DeclarationError

__all__ = ["BroadcastRouter"]


@dataclass
class BroadcastRouter(Bolt):
    """Sends objects to all evaluators and divides the queries, or the other way round.

    The evaluators read both streams with a direct grouping.

    Options:
        broadcast: ``objects`` (each query is stored once, each object is looked at by every evaluator) or ``queries``
            (each query is stored by every evaluator, each object is looked at once).
        types: the types of query that its evaluators answer, where other routers read the same queries; none: all.
    """

    outputs: ClassVar = {"objects": batch_fields(ObjectBatch), "queries": batch_fields(QueryBatch)}
    addressed: ClassVar = frozenset({"objects", "queries"})
    reads: ClassVar = ROUTER_READS
    routes_alike_with: ClassVar = ("broadcast",)

    broadcast: Literal["objects", "queries"] = "objects"
    types: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_types(self.types)

    def open(self, context: TaskContext) -> None:
        """Learn how many evaluators there are."""
        readers = {component: n for stream in self.outputs for component, n in context.targets.get(stream, ())}
        if len(readers) != 1:
            raise DeclarationError(
                f"a broadcast-router feeds one component, but {len(readers)} read it: {', '.join(readers) or 'none'}"
            )
        self._evaluators = next(iter(readers.values()))

    def routes(self, queries: QueryBatch) -> Csr:
        """Return the evaluators that hold each query."""
        n, rows = self._evaluators, len(queries)
        if self.broadcast == "objects":
            return np.arange(rows + 1, dtype=np.int32), (queries.target % n).astype(np.int32)
        return np.arange(0, n * rows + 1, n, dtype=np.int32), np.tile(np.arange(n, dtype=np.int32), rows)

    def execute_epoch(self, epoch: Epoch, inputs: Inputs, emit: Emitter) -> None:
        """Divide one side, repeat the other."""
        n = self._evaluators
        for queries in (of_types(batch, self.types) for batch in inputs.batches("queries")):
            for task in range(n):
                divided = self.broadcast == "objects" and n > 1
                mine = queries.take(np.flatnonzero(queries.target % n == task)) if divided else queries
                emit.direct(task, mine, "queries")
        for objects in inputs.batches("objects"):
            for task in range(n):
                divided = self.broadcast == "queries" and n > 1
                # A deletion is for whoever has seen its object: that may be anybody.
                ours = (objects.seq % n == task) | (objects.op == OP_DELETE)
                mine = objects.take(np.flatnonzero(ours)) if divided else objects
                emit.direct(task, mine, "objects")
