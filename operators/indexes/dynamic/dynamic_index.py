"""The seams between the parts of continuous search on dynamic objects.

A `topk` query has a place, keywords, k and alpha; its score for an object is that of `streams.scoring`, to the last bit. Its
list has the k best among the current states of all objects that share a keyword: the largest score first, of equal ones the
object first seen. A `knn` query has the objects that match its keywords, and the score is the negative distance; all that is
said here of scores, and of objects that share a keyword, holds for these then.

theta(q), the *threshold* of a query, is what a new state must come up to in order to matter: every object that shares a keyword
and scores more is known to the refiller as one of the list's, or behind it. It is -inf where all that share a keyword
are, and inf where nothing is known yet, so that nothing is looked for. Of the objects that score just theta those are known
that were seen before a certain one, which is the refiller's own affair.

Who finds the queries that new states come up to (the paper's *affected queries finder*, Section V) is a
`operators.indexes.topk.topk_index.Dissemination`: thresholds stand in its table, and may rise and fall.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from streams.columns import Ints

__all__ = ["Floats", "Lot", "Refiller", "Search", "Slots"]

Floats = NDArray[np.float64]
Slots = NDArray[np.int32]


class Refiller(Protocol):
    """Keeps the lists of queries, and fills them (the paper's *top-k refiller*, Sections VI and VII).

    It is made with the table of objects and the table of queries. A batch of states, in which each object counts once, is
    `leave`, `arrive`, `enter` and `refill`, in this order; after `refill` all lists and thresholds are right.
    """

    @property
    def theta(self) -> Floats:
        """The threshold of each query, by slot."""

    @property
    def examined(self) -> int:
        """Objects and cells that were looked at in order to fill lists: the work done."""

    @property
    def searches(self) -> int:
        """Lists that were filled from the objects, the first time or again."""

    def open(self, slots: Slots, k: Slots) -> None:
        """Keep lists of so many for queries whose rows are filled; they are filled by the next `refill`."""

    def close(self, slots: Slots) -> None:
        """Forget the lists of queries, before their rows die."""

    def leave(self, objects: Slots) -> None:
        """Take objects out whose states, which are in the table still, are about to end."""

    def arrive(self, objects: Slots) -> None:
        """Take in objects with the states that are in the table now."""

    def enter(self, objects: Slots, slots: Slots, score: Floats) -> None:
        """Take in the pairs of these objects and queries that score at least the threshold; each is there once."""

    def refill(self) -> None:
        """Fill the lists that have run short, or have never been filled."""

    def retuned(self) -> Slots:
        """Return the queries, each once, whose threshold may be another one than when this was last asked."""

    def changed(self) -> Slots:
        """Return the queries, each once, whose list may be another one than when this was last asked."""

    def lists(self, slots: Slots) -> tuple[Ints, Slots, Floats]:
        """Return the lists of queries that are open as ragged rows: offsets, objects and scores, best first."""

    def renumber(self, old: Slots) -> None:
        """Follow a table of queries whose slots have changed: what was at ``old[i]``, ascending, is at i."""

    @property
    def nbytes(self) -> int:
        """Bytes in use, without the tables."""


@dataclass(frozen=True, slots=True, eq=False)
class Lot:
    """What a search has found for some of its queries, as ragged rows, in no order.

    Attributes:
        of: which of the queries.
        whole: of each, that these are all there are.
    """

    of: slice
    off: Ints
    objects: Slots
    scores: Floats
    whole: NDArray[np.bool_]


class Search(Protocol):
    """Finds the best objects of queries whose buffers have run short."""

    #: What the scores of a `Lot` may differ from those of the definition, by the last bits of a sine; 0 in the plane.
    error: float

    @property
    def examined(self) -> int:
        """Cells and objects that were looked at."""

    @property
    def nbytes(self) -> int:
        """Bytes in use, without the tables."""

    def add(self, slots: Slots) -> None:
        """File objects."""

    def discard(self, slots: Slots) -> None:
        """Take objects out, whose states are in the table still."""

    def near(self, slots: Slots) -> Slots:
        """Return queries in an order in which those that look at the same cells follow each other."""

    def found(self, slots: Slots, wanted: Ints, floors: Floats, limits: Floats, cuts: Ints) -> Iterator[Lot]:
        """Yield so many of the best objects of each query that are worse than (limit, cut), of some queries after the others.

        Floors are guesses of what these score at least.
        """

    def exact(self, slots: Slots, ends: Ints, found: Slots, row: Ints) -> Floats:
        """Return the scores of objects that were found for queries, as ragged rows, by the definition."""
