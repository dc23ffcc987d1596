"""Lists of k and nothing behind them: whoever runs short is searched for among all objects, one by one.

What the other refillers are held against. What enters lists comes from the finder, so finders are held against it too.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from operators.indexes.core.growth import grown
from operators.indexes.core.query_table import SAID_ANY
from operators.indexes.dynamic.ball_finder import BallTable
from operators.indexes.dynamic.dynamic_index import Floats, Slots
from operators.indexes.dynamic.object_table import ObjectTable
from operators.indexes.topk.scored_table import ALPHA, ScoredTable, X, Y
from operators.indexes.topk.subscriptions import ScoredSubscriptions
from operators.indexes.topk.topk_index import Messages
from streams.columns import Ints
from streams.geometry import distance
from streams.scoring import cosines, score, unit_weights

__all__ = ["BruteRefiller", "all_distances", "all_scores"]

_NONE: Slots = np.empty(0, np.int32)


#: From the table of queries, a slot and all states to the rows of those that count for the query, and their scores.
Scored = Callable[[Any, int, Messages], tuple[Ints, Floats]]


def all_scores(table: ScoredTable, slot: int, states: Messages) -> tuple[Ints, Floats]:
    """Return all states that share a keyword with a `topk` query, and their scores."""
    kw = table.words.raw[table.words_of(np.array([slot], np.int32))[1]]
    weight = unit_weights(np.array([0, len(kw)], np.int32), kw, table.vocabulary)
    x, y, alpha = (float(table.lines[slot, place]) for place in (X, Y, ALPHA))
    alike = cosines(states.kw_off, states.kw, states.weight, kw, weight)
    far = distance(states.x, states.y, x, y, table.metric)
    sharing = np.flatnonzero(_shared(states, kw))
    return sharing, score(far, alike, alpha, table.max_distance)[sharing]


def all_distances(table: BallTable, slot: int, states: Messages) -> tuple[Ints, Floats]:
    """Return all states that match a `knn` query, and their negative distances."""
    one = np.array([slot], np.int32)
    kw, none = table.words.raw[table.words_of(one)[1]], table.residuals.none_of(one)[1]
    needed = len(kw) if table.traits[slot] & SAID_ANY == 0 else min(len(kw), 1)
    rows = np.flatnonzero((_shared(states, kw) >= needed) & (_shared(states, none) == 0))
    place = table.shape[slot]
    return rows, -distance(states.x[rows], states.y[rows], place[0], place[1], table.metric)


def _shared(states: Messages, kw: Ints) -> Ints:
    """Return how many of some keywords each state has."""
    return np.diff(np.append(0, np.cumsum(np.isin(states.kw, kw)))[states.kw_off])


class BruteRefiller:
    """Lists by slot, in plain dictionaries."""

    def __init__(self, objects: ObjectTable, queries: ScoredSubscriptions, scored: Scored) -> None:
        self._objects, self._queries, self._scored = objects, queries, scored
        self.theta: Floats = np.full(64, np.inf)
        self.examined = self.searches = 0
        self._k: dict[int, int] = {}
        self._lists: dict[int, tuple[Slots, Floats]] = {}
        self._last: dict[int, int] = {}
        self._touched: set[int] = set()

    def open(self, slots: Slots, k: Slots) -> None:
        """Keep lists from now on."""
        room = int(slots.max(initial=-1)) + 1
        if room > len(self.theta):
            self.theta = grown(self.theta, 2 * room)
        self.theta[slots] = np.inf
        self._k.update(zip(slots.tolist(), k.tolist(), strict=True))
        self._touched.update(slots.tolist())

    def close(self, slots: Slots) -> None:
        """Forget lists."""
        self.theta[slots] = np.inf
        for slot in slots.tolist():
            del self._k[slot]
            self._lists.pop(slot, None)
            self._touched.discard(slot)

    def leave(self, objects: Slots) -> None:
        """Look through all lists."""
        for slot, (listed, value) in self._lists.items():
            stays = ~np.isin(listed, objects)
            if not stays.all():
                self._lists[slot] = listed[stays], value[stays]
                self._touched.add(slot)

    def arrive(self, objects: Slots) -> None:
        """Do nothing: states are looked at where they are."""

    def enter(self, objects: Slots, slots: Slots, score: Floats) -> None:
        """Add objects to lists, which may have more than k for a while.

        Others may score the threshold too and be known to nobody, because they were seen later than the last of the list.
        """
        for slot in np.unique(slots).tolist():
            listed, value = self._lists[slot]
            of_it = (slots == slot) & (
                (score > self.theta[slot]) | (self._objects.first_seen[objects] < self._last[slot])
            )
            self._lists[slot] = np.append(listed, objects[of_it]), np.append(value, score[of_it])
            self._touched.add(slot)

    def refill(self) -> None:
        """Put lists into order; score all objects for those that are short."""
        held = self._objects.held()
        states = self._objects.states(held)
        for slot in self._touched:
            k = self._k[slot]
            if slot in self._lists and (len(self._lists[slot][0]) >= k or self.theta[slot] == -np.inf):
                listed, value = self._lists[slot]
            else:
                rows, value = self._scored(self._queries.table, slot, states)
                listed = held[rows]
                self.examined += len(held)
                self.searches += 1
            order = np.lexsort((self._objects.first_seen[listed], -value))[:k]
            self._lists[slot] = listed[order], value[order]
            self.theta[slot] = -np.inf if len(listed) < k else value[order[-1]]
            self._last[slot] = 0 if len(listed) < k else int(self._objects.first_seen[listed[order[-1]]])

    def retuned(self) -> Slots:
        """Return whose list may have changed: thresholds change with it."""
        return np.array(sorted(self._touched), np.int32)

    def changed(self) -> Slots:
        """Return whose list may have changed."""
        touched, self._touched = self._touched, set()
        return np.array(sorted(touched), np.int32)

    def lists(self, slots: Slots) -> tuple[Ints, Slots, Floats]:
        """Return lists."""
        none = _NONE, np.empty(0)
        found = [self._lists.get(slot, none) for slot in slots.tolist()]
        off = np.cumsum([0, *(len(objects) for objects, _ in found)])
        objects = np.concatenate([none[0], *(one[0] for one in found)])
        return off, objects, np.concatenate([none[1], *(one[1] for one in found)])

    def renumber(self, old: Slots) -> None:
        """Follow the table."""
        place = {slot: at for at, slot in enumerate(old.tolist())}
        self._k = {place[slot]: k for slot, k in self._k.items()}
        self._lists = {place[slot]: one for slot, one in self._lists.items()}
        self._last = {place[slot]: last for slot, last in self._last.items() if slot in place}
        self._touched = {place[slot] for slot in self._touched}
        theta = np.full(len(self.theta), np.inf)
        theta[: len(old)] = self.theta[old]
        self.theta = theta

    @property
    def nbytes(self) -> int:
        """Bytes in use."""
        return self.theta.nbytes + sum(12 * len(objects) + 200 for objects, _ in self._lists.values())
