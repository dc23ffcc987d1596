"""The core of SSTD's workers: queries of six kinds, each held by the part that answers it (Section 6).

Continuous `range` queries report matches, continuous `knn` queries have lists that live, and everything that is answered at
instants (snapshots, continuous `terms` queries) is answered from the objects that are kept. Continuous `terms` queries
whose window fits may be counted by an index of their own, which remembers what it counted at the last slide.

That index has objects of its own, as far back as its queries look and no further: where a query comes that looks back further,
it is filled again from those that are kept. So states hold objects once, and where nobody asks for terms so does memory.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from operators.evaluation.core import Found
from operators.evaluation.kept_core import KeptCore
from operators.evaluation.knn_core import KnnCore
from operators.evaluation.range_core import RangeCore
from operators.evaluation.terms_core import TermsCore
from operators.indexes import Cost
from partitioners.columns import Floats
from streams.batches import TYPE_KNN, ObjectBatch, QueryBatch, RankedBatch
from streams.columns import Ints

__all__ = ["MixedCore"]

_NONE: Ints = np.empty(0, np.int64)


class MixedCore:
    """Three or four cores as one: a query is where its kind belongs.

    Args:
        matching, nearest, kept: of continuous range queries, continuous knn queries, and those that are answered from objects.
        terms: of continuous terms queries; None: these are answered from objects too. It begins without objects, and
            `kept` must have in memory whatever it may look back to.
        terms_ms: the longest window that `terms` looks back.
    """

    remembers: ClassVar = True
    ordered: ClassVar = True

    def __init__(
        self, matching: RangeCore, nearest: KnnCore, kept: KeptCore, terms: TermsCore | None = None, terms_ms: int = 0
    ) -> None:
        self._matching, self._nearest, self._kept, self._terms = matching, nearest, kept, terms
        self._parts: tuple[Any, ...] = (matching, nearest, kept) if terms is None else (matching, nearest, kept, terms)
        self._terms_ms = 0 if terms is None else terms_ms
        self.asked = kept.asked

    def _split(self, queries: QueryBatch) -> list[tuple[Any, Ints]]:
        """Return the parts, and which rows belong to each."""
        places = _part_of(queries, self._terms_ms)
        return [(part, np.flatnonzero(places == place)) for place, part in enumerate(self._parts)]

    # --- queries -----------------------------------------------------------------------------------------------------

    def numbers(self) -> Ints:
        """Return the numbers of all queries held, ascending."""
        return np.sort(np.concatenate([part.numbers() for part in self._parts]))

    def holds(self, numbers: Ints) -> NDArray[np.bool_]:
        """Tell of each number whether it is held."""
        held: NDArray[np.bool_] = np.logical_or.reduce([part.holds(numbers) for part in self._parts])
        return held

    def touching(self, boxes: Floats) -> Ints:
        """Return the range queries that touch some boxes, and all others."""
        others = [part.numbers() for part in self._parts[1:]]
        return np.sort(np.concatenate([self._matching.touching(boxes), *others]))

    def queries(self, numbers: Ints) -> QueryBatch:
        """Return those of these queries that are held, in this order."""
        rows = [np.flatnonzero(part.holds(numbers)) for part in self._parts]
        found = [part.queries(numbers[held]) for part, held in zip(self._parts, rows, strict=True)]
        return QueryBatch.concat(found).take(np.argsort(np.concatenate(rows), kind="stable"))

    def insert(self, queries: QueryBatch) -> None:
        """Add registrations."""
        for part, rows in self._split(queries):
            if len(rows):
                some = queries if len(rows) == len(queries) else queries.take(rows)
                if part is self._terms:
                    self._look_back(int(some.window.max()))
                part.insert(some)

    def _look_back(self, window: int) -> None:
        """Have the objects of such a window counted; twice as many as before, at least, so that this is not done often."""
        terms = self._terms
        if terms is not None and window > (reach := terms.looks_back_ms or 0):
            reach = min(max(window, 2 * reach), self._terms_ms)
            terms.refill(self._kept.after(None if terms.passed is None else terms.passed - reach), reach)

    def set_end(self, numbers: Ints, ends: Ints) -> None:
        """Lower ends."""
        for part in self._parts:
            part.set_end(numbers, ends)

    def remove(self, numbers: Ints) -> None:
        """Drop queries."""
        for part in self._parts:
            part.remove(numbers)

    def ended(self, now: int) -> Ints:
        """Return the numbers of the queries with end <= now."""
        return np.concatenate([part.ended(now) for part in self._parts])

    def listed(self, numbers: Ints) -> Ints:
        """Return those of these queries whose lists live: what is answered at instants has none."""
        return numbers[self._nearest.holds(numbers)]

    def hush(self, numbers: Ints) -> None:
        """Let queries take no part."""
        for part in self._parts:
            part.hush(numbers)

    def wake(self, numbers: Ints) -> None:
        """Let queries take part again."""
        for part in self._parts:
            part.wake(numbers)

    # --- objects and answers -----------------------------------------------------------------------------------------

    def take(self, objects: ObjectBatch) -> Found:
        """Return the matches, and the lists that have changed."""
        return Found(self._matching.take(objects).matches, self._nearest.take(objects).changed)

    def keep(self, objects: ObjectBatch) -> None:
        """Take in the objects of an epoch, in the order of the input."""
        self._kept.keep(objects)
        if self._terms is not None and self._terms.looks_back_ms:
            self._terms.keep(objects)

    def settle(self, now: int, until: int | None) -> Found:
        """Let time go by: objects that nobody can ask for any more are forgotten."""
        self._kept.forget(until)
        if self._terms is None:
            return Found()
        if self._terms.looks_back_ms and not len(self._terms):
            self._terms.refill(ObjectBatch.empty(), 0)
        return self._terms.settle(now, until)

    def answer(self, numbers: Ints, instants: Ints) -> RankedBatch:
        """Answer queries as of instants that have passed."""
        if self._terms is None:
            return self._kept.answer(numbers, instants)
        counted = self._terms.holds(numbers)
        if counted.all():
            return self._terms.answer(numbers, instants)
        if not counted.any():
            return self._kept.answer(numbers, instants)
        return RankedBatch.concat(
            [
                self._kept.answer(numbers[~counted], instants[~counted]),
                self._terms.answer(numbers[counted], instants[counted]),
            ]
        )

    def results(self, numbers: Ints) -> RankedBatch:
        """Return the lists of those of these queries that have any."""
        return self._nearest.results(numbers[self._nearest.holds(numbers)])

    def gained(self, numbers: Ints, since: int) -> RankedBatch:
        """Return what is new in the lists of those of these queries that have any."""
        return self._nearest.gained(numbers[self._nearest.holds(numbers)], since)

    def adopt(self, results: RankedBatch) -> None:
        """Unite lists with those that another evaluator had."""
        self._nearest.adopt(results)

    def bounds(self, numbers: Ints) -> NDArray[np.float64]:
        """Return what an object must come up to, for queries with lists."""
        bounds = np.full(len(numbers), np.nan)
        listed = self._nearest.holds(numbers)
        bounds[listed] = self._nearest.bounds(numbers[listed])
        return bounds

    def bind(self, numbers: Ints, bounds: NDArray[np.float64]) -> None:
        """Use the bounds of others, for queries with lists."""
        listed = self._nearest.holds(numbers)
        self._nearest.bind(numbers[listed], bounds[listed])

    # --- work --------------------------------------------------------------------------------------------------------

    def cost(self) -> Cost:
        """Return the work of all parts; an object is looked at by each of them."""
        costs = [part.cost() for part in self._parts]
        return Cost(costs[0].objects, sum(one.candidates for one in costs), sum(one.matches for one in costs))

    def reset_cost(self) -> None:
        """Start counting work afresh."""
        for part in self._parts:
            part.reset_cost()

    # --- state -------------------------------------------------------------------------------------------------------

    def snapshot(self) -> dict[str, Any]:
        """Return the states of all parts."""
        parts = {name: part.snapshot() for name, part in zip(_NAMES, self._parts, strict=False)}
        if "terms" in parts:
            parts["terms"] = TermsCore.without_objects(parts["terms"])
        return {**parts, "terms_ms": self._terms_ms}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over a snapshot."""
        for name, part in zip(_NAMES, self._parts, strict=False):
            part.restore(state[name])
        if self._terms is not None and len(self._terms):
            self._look_back(int(self._terms.queries(self._terms.numbers()).window.max()))

    @staticmethod
    def saved_queries(state: Mapping[str, Any]) -> QueryBatch:
        """Return the queries of a snapshot."""
        kinds = [kind.saved_queries(state[name]) for name, kind in _KINDS.items() if name in state]
        return QueryBatch.concat([QueryBatch.empty(), *kinds])

    @staticmethod
    def saved_results(state: Mapping[str, Any]) -> RankedBatch:
        """Return the lists of a snapshot."""
        return KnnCore.saved_results(state["nearest"])

    @staticmethod
    def divided(like: Mapping[str, Any], queries: QueryBatch, results: RankedBatch) -> dict[str, Any]:
        """Return a snapshot with these queries and lists, and with the objects of another."""
        places = _part_of(queries, like["terms_ms"])
        matching, nearest, kept, terms = (queries.take(np.flatnonzero(places == place)) for place in range(4))
        divided = {
            "matching": RangeCore.divided(like["matching"], matching, results),
            "nearest": KnnCore.divided(like["nearest"], nearest, results),
            "kept": KeptCore.divided(like["kept"], kept, [like["kept"]]),
            "terms_ms": like["terms_ms"],
        }
        return divided | ({"terms": TermsCore.divided(like["terms"], terms, results)} if "terms" in like else {})

    @staticmethod
    def with_objects(state: Mapping[str, Any], givers: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Return a snapshot with the objects of others in place of its own."""
        queries = KeptCore.saved_queries(state["kept"])
        kept = KeptCore.divided(state["kept"], queries, [giver["kept"] for giver in givers])
        return {**state, "kept": kept}


#: The parts by their names in states.
_KINDS: Mapping[str, Any] = {"matching": RangeCore, "nearest": KnnCore, "kept": KeptCore, "terms": TermsCore}
_NAMES = tuple(_KINDS)


def _part_of(queries: QueryBatch, terms_ms: int) -> NDArray[np.int64]:
    """Return the place of each query's part."""
    counted = queries.continuous & (queries.window <= terms_ms)
    return np.where(queries.at_instants, np.where(counted, 3, 2), np.where(queries.type == TYPE_KNN, 1, 0))
