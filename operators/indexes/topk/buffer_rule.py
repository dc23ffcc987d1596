"""When buffers are filled, with how much, and when their thresholds rise: rules for re-evaluation by name (Section 6)."""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = ["Ask", "RankRule", "Rule", "Unlearned", "ranked"]

Floats = NDArray[np.float64]
Slots = NDArray[np.int32]


@dataclass(frozen=True, slots=True, eq=False)
class Ask:
    """What the window is searched for when buffers are filled: columns of `Requests`."""

    least: Slots
    most: Slots
    bound: Floats
    ratio: Floats


class Rule(Protocol):
    """A rule for re-evaluation; whichever it is, results are exact."""

    #: Whether entries with k newer ones at least as good are dropped as a buffer fills.
    skyband: bool

    def capacity(self, k: Slots) -> Slots:
        """Return how many entries a buffer has room for, at least k."""

    def keep(self, k: Slots) -> Slots:
        """Return how many entries are left when a buffer has overflowed; the best of those dropped is its threshold."""

    def ask(self, k: Slots) -> Ask:
        """Return what to search for, for subscriptions to the k best."""

    def learn(self, arrived: int, expired: int, searches: int, examined: int) -> None:
        """Take note of messages that came and went, of searches and the candidates that they examined."""

    def snapshot(self) -> dict[str, Any]:
        """Return what was learnt."""

    def restore(self, state: dict[str, Any]) -> None:
        """Take up what was learnt."""


def ranked(rank: Slots) -> Ask:
    """Ask for the best up to a rank."""
    count = len(rank)
    return Ask(rank, rank, np.full(count, np.inf), np.zeros(count))


class Unlearned:
    """What rules without memory share."""

    def learn(self, arrived: int, expired: int, searches: int, examined: int) -> None:
        """Learn nothing."""

    def snapshot(self) -> dict[str, Any]:
        """Return nothing."""
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        """Take up nothing."""


class RankRule(Unlearned):
    """The threshold is the score at a rank beyond k, and rises whenever the buffer overflows.

    So there is a bound on what a subscription takes and on what is disseminated to it, however long ago it was
    filled: a threshold that was set in a poor window does not stay low. Of what a search finds, a part is dominated and left
    out, so it goes to a higher rank than the buffer has room for. Little is dropped at a time, because what a search
    costs is more than what the few entries more do: with half of the rank, buffers run dry three times as often.
    """

    skyband = True

    def __init__(self, rank: float = 4.6, room: float = 3.5) -> None:
        self._rank, self._room = rank, room

    def capacity(self, k: Slots) -> Slots:
        """Return k and some roots of k."""
        return _beyond(k, self._room)

    def keep(self, k: Slots) -> Slots:
        """Return all that there is room for."""
        return self.capacity(k)

    def ask(self, k: Slots) -> Ask:
        """Ask for the best up to the rank."""
        return ranked(_beyond(k, self._rank))


def _beyond(k: Slots, roots: float) -> Slots:
    """Return k and so many times its root: the number of messages above a threshold varies by its root."""
    return np.asarray(k + np.ceil(roots * np.sqrt(k)), np.int32)
