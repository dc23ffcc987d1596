"""The seams between the parts of continuous search on dynamic objects.

A query has a place, keywords, k and alpha; its score for an object is that of `streams.scoring`, to the last bit. Its list
has the k best among the current states of all objects that share a keyword: the largest score first, of equal ones the
object first seen.

theta(q), the *threshold* of a query, is what a new state must come up to in order to matter: every object that shares a keyword
and scores more is known to the refiller as one of the list's, or behind it. It is -inf where all that share a keyword
are, and inf where nothing is known yet, so that nothing is looked for. Of the objects that score just theta those are known
that were seen before a certain one, which is the refiller's own affair.

Who finds the queries that new states come up to (the paper's *affected queries finder*, Section V) is a
`operators.indexes.topk.topk_index.Dissemination`: thresholds stand in its table, and may rise and fall.
"""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from streams.columns import Ints

__all__ = ["Floats", "Refiller", "Slots"]

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
