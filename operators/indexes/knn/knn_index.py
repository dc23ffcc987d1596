"""What every index of continuous k-nearest-neighbour queries can do, and the seam to what tells them apart.

An index holds subscriptions (a place, keywords, k, a lifetime), keeps for each the k nearest matching objects since its
registration, and tells which lists an epoch has changed. All implementations give the same lists; they differ in what they
examine on the way.
"""

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from operators.indexes.core.structure import Probe

__all__ = ["BallStructure", "Near", "Radii"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Slots = NDArray[np.int32]

_NOWHERE: Slots = np.empty(0, np.int32)


@dataclass(frozen=True, slots=True, eq=False)
class Near:
    """Pairs of an object and a slot whose ball it may be in, by object; a pair may occur more than once.

    Attributes:
        first, next: the objects of the probe that were looked at, `next` excluded.
        off: object ``first + i`` has the slots ``slots[off[i]:off[i + 1]]``.
        examined: candidates that were looked at.
        at: where the structure has each pair, if it wants to know that afterwards.
    """

    first: int
    next: int
    off: Ints
    slots: Slots
    examined: int
    at: Slots = field(default_factory=lambda: _NOWHERE)


class Radii(Protocol):
    """Who has the radii of the balls that a structure files: `NearestLists`, or what follows objects that move."""

    @property
    def radius(self) -> Floats:
        """The radius of each slot's ball."""


class BallStructure(Protocol):
    """Finds the subscriptions whose balls objects fall into.

    Rows of slots are in the `QueryTable` it was made with, radii in the `NearestLists` (or other `Radii`). Whatever has a
    keyword in common and is nearer than the radius must be found. More may be, as long as it has a keyword in common or wants
    none: distances, all keywords, lifetimes and sleep are looked at afterwards.
    """

    def add(self, slots: Slots) -> None:
        """Take in subscriptions whose rows are filled and whose lists are open."""

    def discard(self, slots: Slots) -> Slots:
        """Remove subscriptions, before their rows die, and return the slots that nothing refers to any more."""

    def shrink(self, slots: Slots, near: Near | None = None) -> None:
        """Take note that the balls of these slots have become smaller; a slot may be named more than once.

        `near` is what a probe has returned, where that is what came of it.
        """

    def probe(self, objects: Probe, first: int, *, everything: bool = False) -> Near:
        """Look objects up, from `first` on, up to as many as it likes, at least one.

        With `everything` the pairs are all that are examined, whether in the ball or not.
        """

    @property
    def nbytes(self) -> int:
        """Bytes in use, without table and lists."""
