"""Of several evaluators that hold a query and see an object, the one that reports the match.

Only plans that divide by keywords bring a pair together more than once, and only queries that are stored at several workers
are concerned; those are remembered with their workers.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from operators.indexes import Matches
from partitioners.columns import Csr
from partitioners.plans.meeting import first_meeting, route_objects, route_queries
from partitioners.plans.plan import Plan
from streams.batches import HitBatch, ObjectBatch, QueryBatch
from streams.columns import Ints, Offsets, csr_concat, csr_take
from streams.geometry import Metric

__all__ = ["Meetings", "Speakers", "kept_here"]


def kept_here(objects: ObjectBatch, plan: Plan | None, worker: int) -> ObjectBatch:
    """Return the objects that a worker keeps: of several workers that see one, the first keeps it."""
    if plan is None or plan.meets_once:
        return objects
    off, workers = route_objects(plan, objects)
    return objects.where(workers[off[:-1]] == worker)


class Meetings:
    """The workers of queries that are stored more than once, by query number."""

    def __init__(self, plan: Plan, worker: int, metric: Metric) -> None:
        self._plan, self._worker, self._metric = plan, worker, metric
        self._numbers: Ints = np.empty(0, np.int64)
        self._off: Offsets = np.zeros(1, np.int32)
        self._workers: NDArray[np.int32] = np.empty(0, np.int32)

    def add(self, queries: QueryBatch, routes: Csr | None = None) -> None:
        """Remember registrations; `routes` are their workers, where they are known."""
        off, workers = routes or route_queries(self._plan, queries, self._metric)
        several = np.flatnonzero(np.diff(off) > 1)
        if len(several):
            added = csr_take(off, workers, several)
            self._keep(np.concatenate([self._numbers, queries.number[several]]), [(self._off, self._workers), added])

    def remove(self, numbers: Ints) -> None:
        """Forget queries that have ended."""
        if np.isin(self._numbers, numbers).any():
            kept = np.flatnonzero(~np.isin(self._numbers, numbers))
            self._keep(self._numbers[kept], [csr_take(self._off, self._workers, kept)])

    def _keep(self, numbers: Ints, parts: list[tuple[Offsets, NDArray[np.int32]]]) -> None:
        off, workers = csr_concat(parts)
        order = np.argsort(numbers, kind="stable")
        self._numbers = numbers[order]
        self._off, self._workers = csr_take(off, workers, order)

    def snapshot(self) -> dict[str, Any]:
        """Return what is remembered."""
        return {"numbers": self._numbers, "off": self._off, "workers": self._workers}

    def restore(self, state: dict[str, Any]) -> None:
        """Take over a snapshot."""
        self._numbers, self._off, self._workers = state["numbers"], state["off"], state["workers"]

    def ours(self, objects: ObjectBatch, matches: Matches) -> NDArray[np.bool_]:
        """Tell which matches this worker is to report: of those who can, the first does."""
        ours = np.ones(len(matches), np.bool_)
        if not len(self._numbers):
            return ours
        row = np.minimum(np.searchsorted(self._numbers, matches.number), len(self._numbers) - 1)
        shared = np.flatnonzero(self._numbers[row] == matches.number)
        if len(shared):
            routes = route_objects(self._plan, objects)
            first = first_meeting(routes, (self._off, self._workers), matches.object[shared], row[shared])
            ours[shared] = first == self._worker
        return ours


class Speakers:
    """Who reports matches, under the plan in force and under the next one while it is prepared.

    Args:
        worker: the evaluator.
        metric: how far regions reach.
        plan: the plan in force; None where nothing is reported as a match: lists are freed of doubles by who unites them.
    """

    def __init__(self, worker: int, metric: Metric, plan: Plan | None) -> None:
        self._worker, self._metric, self._reports = worker, metric, plan is not None
        self._now, self._next = self._meetings(plan), self._meetings(None)

    def _meetings(self, plan: Plan | None, state: dict[str, Any] | None = None) -> Meetings | None:
        if plan is None or plan.meets_once or not self._reports:
            return None
        meetings = Meetings(plan, self._worker, self._metric)
        if state is not None:
            meetings.restore(state)
        return meetings

    def add(self, queries: QueryBatch, old: Csr | None = None, coming: Csr | None = None) -> None:
        """Remember registrations; while a plan is prepared, `old` and `coming` are their workers under both."""
        if self._now is not None:
            self._now.add(queries, old)
        if coming is not None:
            self.add_coming(queries, coming)

    def add_coming(self, queries: QueryBatch, coming: Csr) -> None:
        """Remember the workers of queries under the next plan."""
        if self._next is not None:
            self._next.add(queries, coming)

    def remove(self, numbers: Ints) -> None:
        """Forget queries that have ended."""
        for meetings in (self._now, self._next):
            if meetings is not None:
                meetings.remove(numbers)

    def prepare(self, plan: Plan) -> None:
        """Begin to remember who reports under the next plan."""
        self._next = self._meetings(plan)

    def switch(self) -> None:
        """Put the next plan in force."""
        self._now, self._next = self._next, None

    def hits(self, objects: ObjectBatch, matches: Matches) -> HitBatch:
        """Return the matches that this worker is to report: all, where no other worker can find them too."""
        off, numbers = matches.off, matches.number
        if self._now is not None:
            ours = self._now.ours(objects, matches)
            off, numbers = np.append(0, np.cumsum(ours))[off], numbers[ours]
        hit = np.flatnonzero(off[1:] > off[:-1])
        # Rows without a match have no numbers, so the numbers stay as they are.
        part = np.append(off[hit], off[-1]).astype(np.int32)
        return HitBatch(objects.seq[hit], objects.ts[hit], objects.ids.take(hit), part, numbers)

    def snapshot(self) -> dict[str, Any]:
        """Return what is remembered, under both plans."""
        return {
            "meetings": None if self._now is None else self._now.snapshot(),
            "next_meetings": None if self._next is None else self._next.snapshot(),
        }

    def restore(self, state: dict[str, Any], plan: Plan | None, coming: Plan | None) -> None:
        """Take over a snapshot under a plan, and the next one."""
        self._now = self._meetings(plan, state["meetings"])
        self._next = self._meetings(coming, state["next_meetings"])
