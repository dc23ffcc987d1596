"""What every index of continuous top-k frequent term queries (SSTD's CTQ) can do, and the seam to what tells them apart.

An index holds queries (a region, keywords, k, a window and a slide of their own) and the objects of the window, and
counts at an instant t how many objects inside the region, with t - window < ts <= t, contain each term. All
implementations give the same counts; they differ in what they examine on the way.

**What a partial answer must contain.** An evaluator has some of the objects, a query is at every evaluator that may
have objects of its region, and a merger adds up. A result states exact counts, and a term that is rare here may be
frequent elsewhere. So an evaluator that leaves out one term with a count above 0 can make the sum wrong, whatever
threshold it used: in one pass, *part* answers list every term. Bounded partial answers need a second pass in which the
merger asks for the terms it has seen (TPUT): `feedback` epochs of delay for each instant, and objects that are kept for
so much longer. An evaluator that has all objects of a query's window knows the result but for the alphabet, which
mergers know: its answer is *whole*, the k terms with the largest counts and all that are tied with the last of them.
Most regions are small and lie inside one partition, so most answers are whole, and only these are worth candidates and
bounds.

**Queries that move.** Objects stay where they were sent. Counts are of the objects that an index has taken, whenever
the query came: so a query that has moved is counted by its taker from the first object on that is sent there, and by
its giver until the window has passed the last object that it has. No object is at both, so nothing has to be cut off at
the switch.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = ["Asked", "CountStructure", "Counts"]

Ints = NDArray[np.int64]
Slots = NDArray[np.int32]


@dataclass(frozen=True, slots=True, eq=False)
class Asked:
    """What is to be counted, a row an answer.

    Attributes:
        slots: the queries.
        first, stop: the rows of the window (`TermWindow`) that count, `stop` excluded.
        k: how many terms the query wants.
        whole: the answer is all there is to know of it: the k largest counts and what is tied with the last of them. Else
            every term is listed.
    """

    slots: Slots
    first: Ints
    stop: Ints
    k: Slots
    whole: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.slots)

    def take(self, rows: Ints) -> "Asked":
        """Return some rows."""
        return Asked(self.slots[rows], self.first[rows], self.stop[rows], self.k[rows], self.whole[rows])


@dataclass(frozen=True, slots=True, eq=False)
class Counts:
    """Terms and how many objects contain each, as ragged rows, in no particular order within a row.

    Attributes:
        off: row i has ``term[off[i]:off[i + 1]]``.
        term: keyword ids.
        count: how many objects contain the term.
        examined: objects that were looked at for these.
        counted: objects that were counted.
    """

    off: Ints
    term: Ints
    count: Ints
    examined: int = 0
    counted: int = 0

    @classmethod
    def of(cls, lists: list[tuple[Ints, Ints]], examined: int = 0, counted: int = 0) -> "Counts":
        """Put lists together."""
        none = np.empty(0, np.int64)
        off = np.cumsum([0, *(len(terms) for terms, _ in lists)])
        terms, counts = (
            np.concatenate([none, *column]) for column in (zip(*lists, strict=True) if lists else ((), ()))
        )
        return cls(off, terms, counts, examined, counted)


class CountStructure(Protocol):
    """Counts terms. Rows of slots are in the `QueryTable` it was made with, objects in the `TermWindow`."""

    def add(self, slots: Slots) -> None:
        """Take in queries whose rows are filled."""

    def discard(self, slots: Slots) -> Slots:
        """Remove queries, before their rows die, and return the slots that nothing refers to any more."""

    def append(self, first: int) -> None:
        """Take in the objects of the window from a row on, none of which it has."""

    def forget(self, first: int) -> None:
        """Take note that rows before this one are not asked for any more; the window has them for the last time."""

    def count(self, asked: Asked) -> Counts:
        """Count."""

    @property
    def nbytes(self) -> int:
        """Bytes in use, without table and window."""
