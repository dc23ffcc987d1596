"""Scored subscriptions: a table, and a structure that finds those which messages enter (Skype's dissemination, Section 5).

Numbers, lifetimes and sleep are as for all standing queries. There is more below, for a core in the same process that keeps
what messages have entered: it knows subscriptions by their slots, which are small, and used again after `remove`.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from operators.indexes.core.query_table import ASLEEP
from operators.indexes.core.standing_queries import (
    CHUNK,
    SAVED_COLUMNS,
    StandingQueries,
    finite_places,
    plain,
    registrations,
    saved_columns,
)
from operators.indexes.range.range_index import Cost
from operators.indexes.topk.disseminations import DISSEMINATIONS, dissemination
from operators.indexes.topk.own_words import Leads, OwnWords
from operators.indexes.topk.scored_table import ScoredTable
from operators.indexes.topk.topk_index import Dissemination, Hits, Messages
from streams.batches import QueryBatch
from streams.errors import InputError
from streams.files.query_records import MAX_K
from streams.geometry import Metric, Rect
from streams.vocabulary import Vocabulary

__all__ = ["ScoredSubscriptions"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Slots = NDArray[np.int32]

#: So many candidates of late are remembered, to tell which subscriptions cost work.
KEPT = 1 << 14


class ScoredSubscriptions(StandingQueries):
    """Subscriptions with places, keywords, alpha and thresholds, over any structure.

    Args:
        name: of the structure, one of `known`.
        space: its diagonal scales the scores.
        metric: what distance means.
        vocabulary: the statistics that keywords are weighed by.
        known: structures by name, if not those of `operators.indexes.topk.disseminations`.
        renumbered: called when slots have changed all at once, with the slots as they were: what was at ``old[i]`` is at i.
        leads: tells which keywords are filed here, where others have some of them; None: all are.
        prefix: whether keywords outside of the loose prefix are left out too.
        options: of the structure.

    Attributes:
        filed: how many have a threshold that a message may come up to, and a keyword that is filed.
    """

    def __init__(
        self, name: str, space: Rect, metric: Metric, vocabulary: Vocabulary, *,
        known: Mapping[str, Callable[..., Dissemination]] = DISSEMINATIONS,
        renumbered: Callable[[Slots], None] | None = None, leads: Leads | None = None, prefix: bool = False, **options: Any,
    ) -> None:  # fmt: skip
        self._make = dissemination(name, known, **options)
        self._vocabulary = vocabulary
        self._theta = -np.inf
        self._renumbered, self._leads, self._prefix = renumbered, leads, prefix
        self._cost = Cost()
        super().__init__(space, metric)

    def _clear(self) -> None:
        super()._clear()
        self._table: ScoredTable = self._new_table()
        self._own = None if self._leads is None else OwnWords(self._table, self._leads, prefix=self._prefix)
        self._structure = self._make(self._table)
        self._recent: list[Slots] = []
        self._remembered: Ints = np.empty((2, 0), np.int64)
        self.filed = 0

    def _new_table(self) -> Any:
        """Return an empty table: rows with `theta`."""
        return ScoredTable(self._space, self._metric, self._vocabulary)

    def _check(self, queries: QueryBatch) -> None:
        super()._check(queries)
        lengths, gaps = np.diff(queries.kw_off), np.diff(queries.kw)
        inner = np.ones(len(gaps), np.bool_)
        ends = queries.kw_off[1:-1]
        inner[ends[(ends > 0) & (ends <= len(gaps))] - 1] = False
        unordered = np.searchsorted(queries.kw_off, np.flatnonzero(inner & (gaps <= 0)), side="right") - 1
        place = queries.shape[:, :2]
        for wrong, text in (
            (np.flatnonzero((queries.k < 1) | (queries.k > MAX_K)), f"has a k that is not in 1 to {MAX_K}"),
            (np.flatnonzero(~((queries.alpha >= 0) & (queries.alpha <= 1))), "has an alpha that is not in 0 to 1"),
            (np.flatnonzero(~np.isfinite(place).all(axis=1)), "has a place that is not finite"),
            (np.flatnonzero(lengths == 0), "has no keyword; a scored subscription has at least one"),
            (unordered, "has keywords that do not ascend; sort their ids and name each once"),
        ):
            if len(wrong):
                row = int(wrong[0])
                raise InputError(f"query {queries.number[row]} (row {row} of the batch) {text}")

    def insert(self, queries: QueryBatch, theta: float = -np.inf) -> None:
        """Add registrations with a threshold; no message comes up to one of inf, and nothing is filed for it."""
        self._theta = theta
        super().insert(queries)

    def _file(self, queries: QueryBatch, slots: Slots) -> None:
        self._table.theta[slots] = self._theta
        if self._own is not None:
            self._own.admit(slots, queries)
        if self._theta < np.inf:
            filed = slots[self._is_filed(slots)]
            if len(filed):
                self._structure.add(filed)
            self.filed += len(filed)

    def _is_filed(self, slots: Slots) -> NDArray[np.bool_]:
        found: NDArray[np.bool_] = self._table.theta[slots] < np.inf
        return found if self._own is None else found & (self._table.filing[slots] != 0)

    def _unfile(self, slots: Slots) -> Slots:
        self._remember()
        filed = slots[self._is_filed(slots)]
        if len(filed):
            self._structure.discard(filed)
        self.filed -= len(filed)
        return slots

    def _rebuild(self) -> None:
        old = np.sort(self._table.roster.held())
        numbers, thresholds = self._table.roster.numbers_of(old), self._table.theta[old].copy()
        remembered = self._remembered
        self._theta = np.inf
        super()._rebuild()
        self._remembered = remembered
        self.bind(numbers, thresholds)
        if self._renumbered is not None:
            self._renumbered(old)

    # --- thresholds, by number ---------------------------------------------------------------------------------------

    def bounds(self, numbers: Ints) -> Floats:
        """Return the thresholds of queries that are held."""
        return self._table.theta[self.slots(numbers)]

    def bind(self, numbers: Ints, bounds: Floats) -> None:
        """Give queries that are held, each named once, other thresholds."""
        self.retune(self.slots(numbers), bounds)

    # --- slots, for a core in the same process -----------------------------------------------------------------------

    @property
    def table(self) -> ScoredTable:
        """The rows of subscriptions by slot."""
        return self._table

    def retune(self, slots: Slots, theta: Floats) -> None:
        """Give subscriptions, each named once, other thresholds, higher or lower."""
        if not len(slots):
            return
        slots = plain(slots, np.int32)
        was, becomes = self._is_filed(slots), theta < np.inf
        if self._own is not None:
            filing = self._own.filing(slots, theta)
            becomes &= filing != 0
            self._table.filing[slots] = filing
        leaving, coming, staying = slots[was & ~becomes], slots[~was & becomes], slots[was & becomes]
        if len(leaving):
            self._structure.discard(leaving)
        self._table.theta[slots] = theta
        if len(coming):
            self._structure.add(coming)
        if len(staying):
            self._structure.retune(staying)
        self.filed += int(np.count_nonzero(becomes)) - int(np.count_nonzero(was))

    def refile(self) -> None:
        """Ask anew which keywords lead here, and file what has come and gone."""
        if self._own is None:
            return
        held = self._table.roster.held()
        for start in range(0, len(held), CHUNK):
            changed = self._own.renewed(plain(held[start : start + CHUNK], np.int32))
            self.retune(changed, self._table.theta[changed])

    def hits(self, messages: Messages, ts: Ints) -> Hits:
        """Return the pairs of messages, with their times, and subscriptions that are awake and have not ended by then.

        A subscription is entered by messages from before its registration too.
        """
        finite_places(messages.x, messages.y)
        found = self._structure.probe(messages)
        table, keep = self._table, None
        if len(found.slot) and len(ts) and table.roster.may_end(int(ts.max())):
            keep = ts[found.row] < table.roster.ends_of(found.slot)
        if table.sleeping:
            awake = table.traits[found.slot] & ASLEEP == 0
            keep = awake if keep is None else keep & awake
        if keep is not None:
            found = replace(found, row=found.row[keep], slot=found.slot[keep], score=found.score[keep])
        self._note(len(messages), found)
        return found

    def _note(self, messages: int, found: Hits) -> None:
        cost = self._cost
        self._cost = Cost(cost.objects + messages, cost.candidates + found.examined, cost.matches + len(found.slot))
        through = found.through if len(found.through) else np.full(len(found.looked), -1, np.int32)
        self._recent.append(np.stack([found.looked, through])[:, :: 1 + len(found.looked) // KEPT])
        while sum(part.shape[1] for part in self._recent[1:]) >= KEPT:
            self._recent = self._recent[1:]

    def _remember(self) -> None:
        """Note whose the candidates of late were, before slots change hands."""
        slots, words = np.concatenate([np.empty((2, 0), np.int32), *self._recent], axis=1)
        self._recent = []
        if len(slots):
            # Without a word the index -1 reads some keyword, which does not matter.
            keywords = np.where(words >= 0, self._table.words.raw[words], -1)
            late = np.stack([self._table.roster.numbers_of(slots), keywords])
            self._remembered = np.concatenate([self._remembered, late], axis=1)[:, -KEPT:]

    # --- work --------------------------------------------------------------------------------------------------------

    def cost(self) -> Cost:
        """Return the counters of work done."""
        return self._cost

    def reset_cost(self) -> None:
        """Start counting work afresh."""
        self._cost = Cost()

    def weights(self) -> tuple[Ints, Floats]:
        """Return which subscriptions were looked at of late, and how often each."""
        self._remember()
        numbers, counts = np.unique(self._remembered[0], return_counts=True)
        held = self.holds(numbers)
        return numbers[held], counts[held].astype(np.float64)

    def weights_by_word(self) -> tuple[Ints, Ints, Floats]:
        """Return the same with the keyword that each was looked at for, or -1 where that is not known."""
        self._remember()
        (numbers, keywords), counts = np.unique(self._remembered, axis=1, return_counts=True)
        held = self.holds(numbers)
        return numbers[held], keywords[held], counts[held].astype(np.float64)

    @property
    def nbytes(self) -> int:
        """Bytes in use."""
        own = 0 if self._own is None else self._own.nbytes
        return self._table.nbytes + self._structure.nbytes + self._expiry.nbytes + own

    # --- state -------------------------------------------------------------------------------------------------------

    def snapshot(self) -> dict[str, Any]:
        """Return subscriptions, thresholds and counters."""
        self._remember()
        numbers, cost = self.numbers(), self._cost
        return {
            **saved_columns(self.queries(numbers)),
            "bounds": self.bounds(numbers),
            "asleep": self.asleep(),
            "cost": np.array([cost.objects, cost.candidates, cost.matches], np.int64),
            "recent": self._remembered.ravel(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Become the subscriptions that made this snapshot."""
        self._clear()
        self.insert(registrations({name: np.array(state[name]) for name in SAVED_COLUMNS}), np.inf)
        self.bind(np.array(state["number"]), np.array(state["bounds"]))
        self.hush(state["asleep"])
        self._cost = Cost(*(int(number) for number in state["cost"]))
        self._remembered = np.array(state["recent"], np.int64).reshape(2, -1)
