"""The seam between what all range indexes share and what tells them apart.

As in Lucene's monitor there are two stages: a structure leads from an object to candidates and verifies them, everything
else (rows, words, lifetimes, counters) is the business of `StandingIndex`.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = ["Bounds", "Found", "Probe", "Structure"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Slots = NDArray[np.int32]
Bounds = Floats  # rows of min x, min y, max x, max y


@dataclass(frozen=True, slots=True, eq=False)
class Probe:
    """Objects to look up: places, and as ragged rows those of their words that some query uses."""

    x: Floats
    y: Floats
    word_off: Ints
    words: Slots


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """The slots that each object matches in place and keywords, as ragged rows, and the candidates examined for each.

    A circle under the haversine metric may be its bounding box here: `StandingIndex` applies the formula, to all circles or to
    those places in `slots` that are `undecided`. A polygon always is its box, and keywords that must not occur are not
    looked at: it holds pairs against these as well.
    """

    off: Ints
    slots: Slots
    examined: Ints
    undecided: Ints | None = None


class Structure(Protocol):
    """Filters candidates for objects; the rows of the slots are in the `QueryTable` it was made with."""

    def add(self, slots: Slots, bounds: Bounds) -> None:
        """Take in queries whose rows are filled; the bounds enclose every point they can match."""

    def discard(self, slots: Slots, bounds: Bounds) -> Slots:
        """Remove queries, before their rows die, and return the slots that nothing refers to any more.

        A structure that cleans up lazily returns slots of earlier calls when it has swept them out.
        """

    def probe(self, objects: Probe) -> Found:
        """Return what the objects match."""

    @property
    def nbytes(self) -> int:
        """Bytes in use, without the table."""
