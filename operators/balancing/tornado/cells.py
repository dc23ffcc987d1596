"""The centralised variant that the paper compares itself with (Figure 9b): statistics of every cell go to the balancer.

Costs of cells are as in Equation 1. Queries are counted twice, at the first and at the last cell of each within its
partition: that is as much as is needed to know how many overlap a band of cells. A count of the queries that overlap each
cell would not tell, since one query overlaps many.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from operators.balancing.tornado.aggregates import BandSums, Box, Ints
from operators.balancing.tornado.decision import decide
from operators.balancing.tornado.operations import Operation
from operators.balancing.tornado.partition_loads import PartitionLoad, load_of_sums
from operators.balancing.tornado.partitions import Partitions
from operators.balancing.tornado.settings import TornadoSettings
from partitioners.plans.grid_plan import GridPlan
from streams.errors import InputError

__all__ = ["CellStatistics", "decide_centralised"]


class CellLoad(Protocol):
    """What an index counts by cell of the fine grid (`operators.indexes.Load`)."""

    @property
    def cost(self) -> int:
        """Candidates examined in all."""

    @property
    def cells(self) -> Ints | None:
        """Costs, queries by first cell and queries by last cell, each rows x columns; None where it does not count them."""


@dataclass(frozen=True, slots=True, eq=False)
class CellStatistics:
    """The workload of every cell of an evaluator's box under one plan; tables are rows x columns of the box.

    Attributes:
        worker: the evaluator.
        version: the plan under which it was counted.
        box: first column, first row, last column, last row.
        cost: candidates examined for the objects in each cell (Equation 1).
        starts: queries by the first column and row of theirs within the box.
        ends: queries by the last column and row of theirs within the box.
    """

    worker: int
    version: int
    box: Box
    cost: Ints
    starts: Ints
    ends: Ints

    def __post_init__(self) -> None:
        shape = (self.box[3] - self.box[1] + 1, self.box[2] - self.box[0] + 1)
        for name in ("cost", "starts", "ends"):
            if getattr(self, name).shape != shape:
                raise InputError(
                    f"'{name}' of the cells of {list(self.box)} is a table of {getattr(self, name).shape}, expected {shape}"
                )

    @classmethod
    def of_load(cls, load: CellLoad, plan: GridPlan, worker: int) -> "CellStatistics":
        """Cut the cells that an index counts by down to a worker's box; queries that reach beyond it are cut off."""
        if load.cells is None:
            raise InputError("the index of an evaluator does not count by cell; make it so that it does")
        box = Partitions.of(plan).box(worker)
        x0, y0, x1, y1 = box
        cost, starts, ends = load.cells
        inside = int(cost[y0 : y1 + 1, x0 : x1 + 1].sum())
        if inside != load.cost:
            raise InputError(
                f"{load.cost - inside} of a cost of {load.cost} was counted outside the box {list(box)}; "
                "count afresh when a new plan takes effect"
            )
        first = np.vstack([starts[: y0 + 1].sum(0, keepdims=True), starts[y0 + 1 : y1 + 1]])
        first = np.hstack([first[:, : x0 + 1].sum(1, keepdims=True), first[:, x0 + 1 : x1 + 1]])
        last = np.vstack([ends[y0:y1], ends[y1:].sum(0, keepdims=True)])
        last = np.hstack([last[:, x0:x1], last[:, x1:].sum(1, keepdims=True)])
        return cls(worker, plan.version, box, cost[y0 : y1 + 1, x0 : x1 + 1], first, last)

    def load(self, plan: GridPlan, knots: int) -> PartitionLoad:
        """Return what the evaluator would have reported itself."""
        box = Partitions.of(plan).box(self.worker)
        if (self.box, self.version) != (box, plan.version):
            raise InputError(
                f"worker {self.worker} has counted cells of {list(self.box)} under plan {self.version}, but has "
                f"{list(box)} under plan {plan.version}"
            )
        return load_of_sums(BandSums.of_cells(self.box, self.cost, self.starts, self.ends), plan, self.worker, knots)


def decide_centralised(
    statistics: Sequence[CellStatistics], plan: GridPlan, settings: TornadoSettings
) -> tuple[Operation, ...]:
    """Decide as `tornado` does, on loads that the balancer adds up itself."""
    return decide([cells.load(plan, settings.knots) for cells in statistics], plan, settings)
