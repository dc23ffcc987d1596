"""The evaluator of topk and knn queries over objects that move and change (search on dynamic spatial keyword objects)."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from operators.evaluation.dynamic_core import DynamicCore
from operators.evaluation.evaluator import Evaluator
from operators.evaluation.object_states import check_states
from operators.indexes.dynamic.cost_model import FINEST
from operators.indexes.dynamic.dynamic_kinds import DynamicKinds
from operators.indexes.dynamic.registry import FINDERS, PLANE_ONLY, REFILLERS
from operators.operator import TaskContext
from streams.batches import RankedBatch, batch_fields
from streams.errors import DeclarationError, did_you_mean

__all__ = ["DynamicEvaluator"]


@dataclass
class DynamicEvaluator(Evaluator):
    """Answers topk and knn queries: the k best among the current states of all objects, by distance and text, or by distance.

    Each task keeps the states of all objects, so all of them must see all records: any plan will do that gives a query one home
    and sends objects everywhere (hash, dkm-sks with a main-server, or none with a broadcast-router).

    Options:
        index: how the topk queries that a new state concerns are found; one of `FINDERS`.
        refill: what is kept of each of these besides its list, and how it is filled; one of `REFILLERS`. Both are about scores:
            knn queries have a radius pyramid and buffers of their own, or brute force where that is chosen.
        n: cells to a side of the grid that `gpcl`, `gcl` and `kmax` have; 0: what the paper's cost model says.
        transfer_queries: as for every evaluator.
    """

    answers: ClassVar = frozenset({"continuous topk", "continuous knn"})
    answers_on: ClassVar = "rankings"
    outputs: ClassVar = {"rankings": batch_fields(RankedBatch), **Evaluator.exchanged}
    core_class: ClassVar = DynamicCore

    index: str = "pyramid"
    refill: str = "buffers"
    n: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        for option, known in (("index", FINDERS), ("refill", REFILLERS)):
            name = getattr(self, option)
            if name not in known:
                raise DeclarationError(
                    f"{option} = '{name}'{did_you_mean(name, known)}, expected one of: {', '.join(known)}", (option,)
                )

        if self.n and self.refill not in PLANE_ONLY:
            raise DeclarationError(
                f"n = {self.n}, but refill = '{self.refill}' has no grid of cells; leave n out, or use one of: "
                f"{', '.join(name for name in REFILLERS if name in PLANE_ONLY)}", ("n",),
            )  # fmt: skip
        if not 0 <= self.n <= FINEST:
            raise DeclarationError(f"n = {self.n}, expected 1 to {FINEST}, or 0 for what the cost model says", ("n",))

    def check(self, settings: Any, component: Any) -> Iterator[tuple[str, str]]:
        """Yield what keeps it from answering."""
        yield from super().check(settings, component)
        for option in ("index", "refill"):
            if settings.metric == "haversine" and getattr(self, option) in PLANE_ONLY:
                others = ", ".join(name for name in (FINDERS, REFILLERS)[option == "refill"] if name not in PLANE_ONLY)
                yield (
                    option,
                    f"'{getattr(self, option)}' reckons in the plane, but topology.metric = '{settings.metric}'; "
                    f"use one of: {others}",
                )

    def make_core(self, context: TaskContext) -> DynamicCore:
        """Return an empty core."""
        check_states(context)
        options = {"n": self.n} if self.n else {}
        kinds = DynamicKinds(self.index, self.refill, context.space, context.metric, context.word_statistics, options)
        return DynamicCore(kinds)
