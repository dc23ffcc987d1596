"""The state of a component divided among another number of tasks: what a run needs to go on with more or fewer of them.

Each operator that holds state says how (`redistribute`), as a pure function from the states of all its tasks to new
ones. What routers and evaluators know of each other is made anew from the queries that live: who held them before does
not matter.
"""

from dataclasses import dataclass

import numpy as np

from partitioners.columns import Csr
from streams.batches import QueryBatch

__all__ = ["Division"]


@dataclass(frozen=True, slots=True, eq=False)
class Division:
    """How the state of a component is to be divided.

    Attributes:
        component: the component's name.
        tasks: how many tasks it has from now on.
        evaluators: how many evaluators there are from now on.
        queries: where there is another number of evaluators, all queries that live, with their identifiers; else None.
        routes: for each of these queries, the evaluators that hold it from now on.
    """

    component: str
    tasks: int
    evaluators: int = 0
    queries: QueryBatch | None = None
    routes: Csr | None = None

    @property
    def replanned(self) -> bool:
        """Whether the queries are divided anew."""
        return self.queries is not None

    def rows_of(self, worker: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """Return the rows of `queries` that an evaluator holds from now on."""
        assert self.routes is not None
        off, workers = self.routes
        row = np.repeat(np.arange(len(off) - 1), np.diff(off))
        return np.unique(row[workers == worker])
