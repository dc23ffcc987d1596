"""The core of DSkype's subscription bolts: which subscriptions a message enters, with which score; lists are elsewhere."""

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from operators.evaluation.core import Found
from operators.indexes.core.standing_queries import SAVED_COLUMNS, registrations, saved_columns
from operators.indexes.topk.subscriptions import ScoredSubscriptions
from operators.indexes.topk.topk_index import messages_of
from streams.batches import OP_UPSERT, TYPE_TOPK, ObjectBatch, QueryBatch, RankedBatch
from streams.columns import Ids, Ints
from streams.vocabulary import Vocabulary

__all__ = ["ScoredCore"]

Floats = NDArray[np.float64]

_NONE: Ints = np.empty(0, np.int64)


class ScoredCore:
    """Subscriptions with thresholds, which an aggregator sets; until then whatever shares a word enters.

    Attributes:
        unset: subscriptions whose threshold is not known here, though they are not new.
    """

    remembers: ClassVar = False
    ordered: ClassVar = False

    def __init__(self, table: ScoredSubscriptions, words: Vocabulary) -> None:
        self._table, self._words = table, words
        self.unset: Ints = _NONE
        self.numbers, self.queries, self.holds = table.numbers, table.queries, table.holds
        self.insert, self.set_end, self.remove = table.insert, table.set_end, table.remove
        self.ended, self.hush, self.wake = table.ended, table.hush, table.wake
        self.cost, self.reset_cost, self.weights_by_word = table.cost, table.reset_cost, table.weights_by_word
        self.bounds, self.bind, self.refile = table.bounds, table.bind, table.refile

    @property
    def filed(self) -> int:
        """How many subscriptions a message may enter here."""
        return self._table.filed

    def take(self, objects: ObjectBatch) -> Found:
        """Return the messages that each subscription is entered by, with their scores."""
        present = objects.op == OP_UPSERT
        if not present.all():
            objects = objects.take(np.flatnonzero(present))
        messages = messages_of(objects, self._words)
        hits = self._table.hits(messages, objects.ts)
        order = np.argsort(hits.slot, kind="stable")
        slots, counts = np.unique(hits.slot, return_counts=True)
        seq = messages.seq[hits.row[order]]
        rows = len(slots)
        scored = RankedBatch(
            number=self._table.numbers_of(slots), ts=np.zeros(rows, np.int64), type=np.full(rows, TYPE_TOPK, np.uint8),
            k=np.ones(rows, np.int32), instant=np.zeros(rows, np.bool_),
            off=np.concatenate([[0], np.cumsum(counts)]).astype(np.int32), seq=seq, ids=Ids("int", seq),
            value=hits.score[order],
        )  # fmt: skip
        return Found(hits=scored)

    def touching(self, _boxes: Floats) -> Ints:
        """Return the numbers of all: subscriptions are not found by place."""
        return self.numbers()

    def weights(self) -> tuple[Ints, Floats]:
        """Return the work of late by subscription."""
        return self._table.weights()

    def snapshot(self) -> Mapping[str, Any]:
        """Return subscriptions and thresholds."""
        return {**self._table.snapshot(), "unset": self.unset}

    def restore(self, state: Any) -> None:
        """Take over a snapshot."""
        self._table.restore(state)
        self.unset = state["unset"]

    @staticmethod
    def saved_queries(state: Mapping[str, Any]) -> QueryBatch:
        """Return the queries of a snapshot."""
        return registrations({name: np.asarray(state[name]) for name in SAVED_COLUMNS})

    @staticmethod
    def divided(like: Mapping[str, Any], queries: QueryBatch, _results: RankedBatch) -> dict[str, Any]:
        """Return a snapshot with these queries, all awake, whose thresholds are to be asked for."""
        return {
            **like,
            **saved_columns(queries),
            "bounds": np.full(len(queries), -np.inf),
            "asleep": _NONE,
            "cost": np.zeros(3, np.int64),
            "recent": _NONE,
            "unset": np.sort(queries.number),
        }
