"""The oracle: every result of the contract, straight from its definition.

No index, no state that is carried along, no shortcut: each query is answered on its own by comparing it with all objects
that it may be about, one numpy expression over columns for each condition of the contract. Whatever an evaluator does
must come to the same.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streams.batches import DETECTS, NO_WINDOW, OP_DELETE, TYPE_KNN, TYPE_RANGE, TYPE_TERMS, ObjectBatch, QueryBatch
from streams.columns import Ints, csr_take
from streams.errors import DeclarationError, InputError
from streams.geometry import REGION_NONE, Metric, Rect, distance, max_distance
from streams.oracle.crossings import Crossings, crossings
from streams.oracle.identities import Lifelines
from streams.oracle.rankings import Ranked, Ranking
from streams.oracle.registrations import Registration, registered
from streams.oracle.selection import inside, span_of_snapshot
from streams.oracle.term_counts import TermCounts
from streams.scoring import cosines, score, unit_weights
from streams.vocabulary import Vocabulary
from streams.window import Window, rows_upto

__all__ = ["Matches", "Oracle"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Matches:
    """Matches of continuous range queries as ragged rows: query `number[i]` has objects `object[off[i]:off[i + 1]]`."""

    number: Ints
    off: Ints
    object: Ints


class Oracle:
    """All results of some queries over some objects, by brute force.

    Objects are named by their row in `objects`, queries by their `Registration` (or its number).

    Attributes:
        objects: the whole input, in input order.
        registrations: every registration, with the end of its life.
        last_ts: the largest timestamp of the input, where event time ends; None without input.
    """

    def __init__(
        self,
        objects: ObjectBatch,
        queries: QueryBatch,
        *,
        space: Rect,
        metric: Metric = "euclidean",
        vocabulary: Vocabulary | None = None,
        words: Mapping[int, str] | None = None,
        window: Window | None = None,
        dynamic: bool = False,
    ) -> None:
        """Take the input and what the topology says of it.

        Args:
            objects: accepted objects, in input order.
            queries: accepted query operations, in input order.
            space: the space, whose diagonal scales the scores.
            metric: how distances are measured.
            vocabulary: the statistics of scores, and the words of ids by rank.
            words: keyword id to word, for the words that the vocabulary does not have.
            window: the sliding window of `topk`; none: all objects so far.
            dynamic: whether records with the same id are states of one object (continuous `knn`, `topk` and fences).
        """
        if dynamic and window is not None:
            raise DeclarationError(
                "a sliding window over dynamic objects has no defined result; declare one of the two"
            )
        if (np.diff(objects.ts) < 0).any() or (np.diff(objects.seq) <= 0).any():
            raise InputError("objects are not in input order; expected ascending seq and non-decreasing ts")
        if not dynamic and (objects.op == OP_DELETE).any():
            row = int(np.argmax(objects.op == OP_DELETE))
            raise InputError(
                f"object {row} is a deletion, but objects are not dynamic here; reject it or declare them so"
            )
        self.objects = objects
        self.registrations = registered(queries)
        if not dynamic and (fences := [q for q in self.registrations if q.detect]):
            raise InputError(f"query {fences[0].id!r} has detect, but objects are not dynamic here; declare them so")
        ends = [int(batch.ts[-1]) for batch in (objects, queries) if len(batch)]
        self.last_ts = max(ends) if ends else None
        self._metric = metric
        self._max_distance = max_distance(space, metric)
        self._vocabulary = vocabulary or Vocabulary()
        self._words = words or {}
        self._window = window
        self._dynamic = dynamic

    @cached_property
    def object_ids(self) -> list[int | str]:
        """The identifiers of all objects, by row."""
        return self.objects.ids.to_list()

    def registration(self, number: int) -> Registration:
        """Return the registration of a number."""
        found = self._by_number.get(number)
        if found is None:
            raise InputError(f"no registration has number {number}; there are {len(self.registrations)}")
        return found

    def matches(self) -> Matches:
        """Return the results of all continuous range queries but fences: q.ts <= o.ts < q.end, inside, matching."""
        asked = [q for q in self.registrations if q.type == TYPE_RANGE and q.continuous and not q.detect]
        found = [self.selected(q) for q in asked]
        off = np.zeros(len(asked) + 1, np.int64)
        np.cumsum([len(rows) for rows in found], out=off[1:])
        number = np.array([q.number for q in asked], np.int64)
        return Matches(number, off, np.concatenate([np.empty(0, np.int64), *found]))

    def selected(self, q: Registration) -> Ints:
        """Return the objects of a range query, in input order: those of its life, or of a snapshot's window."""
        ts = self.objects.ts
        if not q.lives:
            return np.empty(0, np.int64)
        start, stop = (rows_upto(ts, q.ts - 1), rows_upto(ts, q.end - 1)) if q.continuous else span_of_snapshot(ts, q)
        return inside(self.objects, start, stop, q, self._metric)

    def crossings(self, q: Registration) -> Crossings:
        """Return the events of a fence, in the order of time."""
        assert self._lifelines is not None
        assert self.last_ts is not None
        empty = np.empty(0, np.int64)
        if not q.lives:
            return Crossings(empty, empty, empty)
        return crossings(q, self.objects, self._lifelines, self.last_ts, self._metric)

    def ranking(self, q: Registration) -> Ranking:
        """Return all that a `knn` or `topk` query may list; ask it for the result at an instant."""
        return self._knn(q) if q.type == TYPE_KNN else self._topk(q)

    def nearest(self, q: Registration) -> Ranked:
        """Return the result of a `knn` snapshot."""
        return self._knn(q).at(q.ts)

    def instants(self, q: Registration) -> range:
        """Return when a `terms` query answers: q.ts + n * slide, n >= 1, in its life and in the input; or once."""
        if not q.lives or self.last_ts is None:
            return range(0)
        if not q.continuous:
            return range(q.ts, q.ts + 1)
        return range(q.ts + q.slide, min(q.end, self.last_ts + 1), q.slide)

    def term_counts(self, q: Registration) -> TermCounts:
        """Return the objects that a `terms` query counts, also those older than it; ask it for an instant's result."""
        ts, instants = self.objects.ts, self.instants(q)
        start = rows_upto(ts, instants[0] - q.window) if instants and q.window != NO_WINDOW else 0
        stop = rows_upto(ts, instants[-1]) if instants else 0
        rows = inside(self.objects, start, stop, q, self._metric)
        return TermCounts(q.k, q.window, rows, self.objects, self._word)

    def lines(self) -> Iterator[dict[str, Any]]:
        """Yield the lines of a right results file, query by query.

        A `knn` or `topk` query has a line for each timestamp that changes its result: as if each timestamp were an epoch.
        """
        for q in self.registrations:
            if not q.lives:
                continue
            if q.type == TYPE_TERMS:
                counts = self.term_counts(q)
                for now in self.instants(q):
                    yield {"query": q.id, "ts": now, "terms": [list(item) for item in counts.at(now)]}
            elif q.type == TYPE_RANGE:
                yield from self._range_lines(q)
            elif q.continuous:
                yield from self._ranked_lines(q)
            else:
                yield {"query": q.id, "ts": q.ts, "objects": self.listed(self.nearest(q))}

    def listed(self, ranked: Ranked) -> list[list[Any]]:
        """Return objects best first as a results line has them: identifier and distance or score."""
        ids = [self.object_ids[row] for row in ranked.objects.tolist()]
        return [[name, value] for name, value in zip(ids, ranked.values.tolist(), strict=True)]

    def _range_lines(self, q: Registration) -> Iterator[dict[str, Any]]:
        if q.detect:
            found = self.crossings(q)
            for ts, row, detect in zip(found.ts.tolist(), found.object.tolist(), found.detect.tolist(), strict=True):
                yield {"query": q.id, "ts": ts, "object": self.object_ids[row], "detect": DETECTS[detect]}
            return
        rows = self.selected(q).tolist()
        if not q.continuous:
            yield {"query": q.id, "ts": q.ts, "objects": [self.object_ids[row] for row in rows]}
            return
        for row in rows:
            yield {"query": q.id, "ts": int(self.objects.ts[row]), "object": self.object_ids[row]}

    def _ranked_lines(self, q: Registration) -> Iterator[dict[str, Any]]:
        ranking, before = self.ranking(q), list[list[Any]]()
        for now in ranking.change_times():
            result = self.listed(ranking.at(now))
            if result != before:
                yield {"query": q.id, "ts": now, "objects": result}
                before = result

    def _knn(self, q: Registration) -> Ranking:
        """Rank by (distance, seq) among the matching objects of q's life, or of a snapshot's window."""
        if q.continuous and self._lifelines is not None:
            return self._nearest_states(q, self._lifelines)
        objects = self.objects
        anywhere = replace(q, region=REGION_NONE)
        if q.continuous:
            start, stop = rows_upto(objects.ts, q.ts - 1), rows_upto(objects.ts, q.end - 1)
        else:
            start, stop = span_of_snapshot(objects.ts, q)
        rows = inside(objects, start, max(start, stop), anywhere, self._metric)
        values = distance(objects.x[rows], objects.y[rows], q.shape[0], q.shape[1], self._metric)
        order = np.lexsort((rows, values))
        return Ranking(q.k, rows, values, order, objects.ts, q.ts, self._lasts(q), since=start)

    def _nearest_states(self, q: Registration, lifelines: Lifelines) -> Ranking:
        """Rank by (distance, first-seen order) among the matching states of dynamic objects, also those older than q."""
        objects = self.objects
        rows = inside(objects, 0, rows_upto(objects.ts, q.end - 1), replace(q, region=REGION_NONE), self._metric)
        values = distance(objects.x[rows], objects.y[rows], q.shape[0], q.shape[1], self._metric)
        order = np.lexsort((lifelines.first_seen[rows], values))
        leaves = lifelines.leaves[rows]
        return Ranking(q.k, rows, values, order, objects.ts, q.ts, self._lasts(q), leaves=leaves)

    def _topk(self, q: Registration) -> Ranking:
        """Rank by (score, seq), largest first, or over dynamic objects by (score largest first, first-seen order)."""
        objects = self.objects
        anywhere = replace(q, region=REGION_NONE, match_any=True)
        rows = inside(objects, 0, rows_upto(objects.ts, q.end - 1), anywhere, self._metric)
        values = self._scores(q, rows)
        if self._lifelines is None:
            order = np.lexsort((-rows, -values))
            return Ranking(q.k, rows, values, order, objects.ts, q.ts, self._lasts(q), window=self._window)
        order = np.lexsort((self._lifelines.first_seen[rows], -values))
        leaves = self._lifelines.leaves[rows]
        return Ranking(q.k, rows, values, order, objects.ts, q.ts, self._lasts(q), leaves=leaves)

    def _scores(self, q: Registration, rows: Ints) -> Floats:
        far = distance(self.objects.x[rows], self.objects.y[rows], q.shape[0], q.shape[1], self._metric)
        off, kw = csr_take(self.objects.kw_off, self.objects.kw, rows)
        _, weight = csr_take(self.objects.kw_off, self._weights, rows)
        query_weight = unit_weights(np.array([0, len(q.keywords)], np.int32), q.keywords, self._vocabulary)
        return score(far, cosines(off, kw, weight, q.keywords, query_weight), q.alpha, self._max_distance)

    def _lasts(self, q: Registration) -> int:
        """Return the last instant at which the result of q may change."""
        assert self.last_ts is not None  # there is at least the registration of q
        return min(q.end - 1, self.last_ts)

    def _word(self, keyword: int) -> str:
        if keyword < len(self._vocabulary):
            return self._vocabulary.words[keyword]
        word = self._words.get(keyword)
        if word is None:
            raise InputError(f"no word is known for keyword {keyword}; give the oracle the words of all objects")
        return word

    @cached_property
    def _weights(self) -> Floats:
        return unit_weights(self.objects.kw_off, self.objects.kw, self._vocabulary)

    @cached_property
    def _lifelines(self) -> Lifelines | None:
        return Lifelines.of(self.objects) if self._dynamic else None

    @cached_property
    def _by_number(self) -> dict[int, Registration]:
        return {q.number: q for q in self.registrations}
