"""What an evaluator's core can do: hold standing queries of one kind, and answer them.

The shell (`operators.evaluation.evaluator`) does everything else: orders, moves between evaluators, time, statistics,
state. A core knows nothing of plans, epochs or other evaluators.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from operators.indexes import Cost, Matches
from partitioners.columns import Floats
from streams.batches import CrossingBatch, ObjectBatch, QueryBatch, RankedBatch
from streams.columns import Ints

__all__ = ["Clocked", "Core", "Found", "Growing", "Keeping", "ListCore", "Printing"]


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """What the objects of an epoch have brought.

    Attributes:
        matches: for queries whose results are matches: the pairs.
        changed: for queries whose results are lists: the numbers of those whose list has changed.
        hits: for queries whose lists are kept elsewhere: what may enter them, a row a query; for fences: the events.
    """

    matches: Matches | None = None
    changed: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    hits: RankedBatch | CrossingBatch | None = None


class Core(Protocol):
    """Standing queries of one kind, known by their number, and what is known of their answers.

    A query that is hushed is held but takes no part: it matches nothing and changes nothing until it is woken. All columns
    of a query but its identifier come back as they were registered.
    """

    #: Results live: a query that moves takes them along, and a merger puts them together.
    remembers: ClassVar[bool]

    #: It must see the objects of an epoch in the order of the input.
    ordered: ClassVar[bool]

    def numbers(self) -> Ints:
        """Return the numbers of all queries held, ascending."""

    def holds(self, numbers: Ints) -> NDArray[np.bool_]:
        """Tell of each number whether it is held."""

    def touching(self, boxes: Floats) -> Ints:
        """Return the numbers of the queries that touch any of some closed boxes, ascending; others may be among them.

        A box is low x, low y, high x, high y. So fewer are looked through when a plan changes; a core that knows no places
        returns the numbers of all.
        """

    def queries(self, numbers: Ints) -> QueryBatch:
        """Return those of these queries that are held, in this order; their ids are their numbers."""

    def insert(self, queries: QueryBatch) -> None:
        """Add registrations, none of which is held."""

    def set_end(self, numbers: Ints, ends: Ints) -> object:
        """Lower the (exclusive) ends of those that are held; an end never moves up."""

    def remove(self, numbers: Ints) -> object:
        """Drop those that are held."""

    def ended(self, now: int) -> Ints:
        """Return the numbers of the queries with end <= now; each is named once, and is to be removed then.

        Where results live, one may stay for some epochs, hushed, until all that is known of its answer has come.
        """

    def hush(self, numbers: Ints) -> object:
        """Let queries that are held take no part."""

    def wake(self, numbers: Ints) -> object:
        """Let hushed queries take part again."""

    def take(self, objects: ObjectBatch) -> Found:
        """Match the objects of an epoch; a pair counts only if ``q.ts <= o.ts < q.end``."""

    def cost(self) -> Cost:
        """Return the counters of work done."""

    def reset_cost(self) -> None:
        """Start counting work afresh."""

    def snapshot(self) -> Mapping[str, Any]:
        """Return the whole state."""

    def restore(self, state: Any) -> None:
        """Take over a snapshot."""

    @staticmethod
    def saved_queries(state: dict[str, Any]) -> QueryBatch:
        """Return the queries of a snapshot."""

    @staticmethod
    def divided(like: dict[str, Any], queries: QueryBatch, results: RankedBatch) -> dict[str, Any]:
        """Return a snapshot that holds these queries and results, otherwise like another; work is counted afresh."""


@runtime_checkable
class Clocked(Protocol):
    """What a core may offer besides: its results also change because time goes by, as lists over a window do."""

    def settle(self, now: int, until: int | None) -> Found:
        """Let time go by, up to `now`: all objects up to it have been taken, and perhaps some later ones.

        Asked once for every epoch in which a time has become complete, before lists are sent; without lists, for every epoch
        that has a watermark, with the last complete time. All input before `until` is
        complete, so the list of a query that ends by then is that of its last moment. A query that begins later than now has no
        list yet.
        """


@runtime_checkable
class Keeping(Protocol):
    """What a core with lists may offer besides: it keeps objects, and answers queries at instants from these.

    Such queries are answered by everybody who may have objects of them, each from its own, and do not move: they are
    copied to who will get their objects, and linger where their objects are.
    """

    def keep(self, objects: ObjectBatch) -> None:
        """Take in the objects of an epoch, in the order of the input; one that several evaluators see is kept by one."""

    def listed(self, numbers: Ints) -> Ints:
        """Return those of these queries whose lists live, so that mergers remember them."""

    @staticmethod
    def with_objects(state: dict[str, Any], givers: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """Return a snapshot with the objects of others in place of its own."""


@runtime_checkable
class Growing(Protocol):
    """What a core with lists may offer besides: an object in a list leaves it only for better ones, never by itself.

    So where several evaluators have parts of a list, a merger that is sent what is new has all of it.
    """

    def gained(self, numbers: Ints, since: int) -> RankedBatch:
        """Return of these standing queries what `results` has from objects with this `seq` or a larger one."""


@runtime_checkable
class Printing(Protocol):
    """What a core with lists may offer besides: it tells a list from all of its earlier states without a copy of any."""

    def prints(self, numbers: Ints) -> Ints:
        """Return a number for what `results` has of each of these standing queries: no earlier state of the list had it.

        It depends on the list alone, so wherever a query moves, the same list has the same number; an empty one has 0.
        """


class ListCore(Core, Protocol):
    """A core whose results are lists that live: the k nearest, the k best, counts over a window."""

    def answer(self, numbers: Ints, instants: Ints) -> RankedBatch:
        """Answer queries once, each as of an instant that has passed; `instant` of the answers is set."""

    def results(self, numbers: Ints) -> RankedBatch:
        """Return what is known of the answers to these standing queries, in this order; `ts` is left to the caller."""

    def adopt(self, results: RankedBatch) -> None:
        """Add what another evaluator knew of the answers to queries that are held here."""

    def bounds(self, numbers: Ints) -> NDArray[np.float64]:
        """Return for each query what an object must come up to in order to matter: NaN where everything may."""

    def bind(self, numbers: Ints, bounds: NDArray[np.float64]) -> None:
        """Use the bounds of another evaluator for queries whose results are still to come."""

    @staticmethod
    def saved_results(state: dict[str, Any]) -> RankedBatch:
        """Return the results of a snapshot; a query that came early and has not been woken has none that count."""
