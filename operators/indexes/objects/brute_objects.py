"""Every object against every question: the truth that the other object indexes are held against."""

from functools import partial
from typing import Any

import numpy as np

from operators.indexes.objects.kept_parts import CHUNK, digest_of, restored, saved
from operators.indexes.objects.object_index import Counts, Found, Kept, Nearest, Requests, kept_of
from streams.batches import ObjectBatch
from streams.columns import Ints, csr_take
from streams.geometry import Metric, Rect, distance, inside_region
from streams.residual_columns import rings_of

__all__ = ["BruteObjects", "ranked_terms"]


def ranked_terms(terms: Ints, counts: Ints, k: int) -> tuple[Ints, Ints, int]:
    """Return the terms that `stq` lists, their counts, and the largest count that is left out."""
    order = np.lexsort((terms, -counts))
    terms, counts = terms[order], counts[order]
    if not 0 < k < len(terms):
        return terms, counts, 0
    listed = int(np.searchsorted(-counts, -counts[k - 1], side="right"))
    rest = int(counts[listed]) if listed < len(counts) else 0
    return terms[:listed], counts[:listed], rest


class BruteObjects:
    """A list of the objects, looked at from end to end."""

    def __init__(self, _space: Rect, metric: Metric = "euclidean") -> None:
        self._metric: Metric = metric
        self._held = Kept.empty()
        self._chunks: list[tuple[str, Kept]] = []
        self._first, self._last = 0, -1

    def __len__(self) -> int:
        return len(self._held)

    @property
    def nbytes(self) -> int:
        """Bytes in use."""
        held = self._held
        return sum(column.nbytes for column in (held.seq, held.x, held.y, held.kw_off, held.kw))

    def add(self, objects: ObjectBatch) -> None:
        """Take in objects."""
        self._append(kept_of(objects, self._last))

    def _append(self, more: Kept) -> None:
        if not len(more):
            return
        self._held = Kept.concat([self._held, more])
        self._last = int(more.seq[-1])
        while True:
            start = self._place(int(self._chunks[-1][1].seq[-1]) + 1 if self._chunks else 0)
            if len(self._held) - start < CHUNK:
                break
            chunk = self._held.slice(start, start + CHUNK)
            self._chunks.append((digest_of(chunk), chunk))

    def drop(self, first: int) -> None:
        """Forget objects."""
        self._first = max(self._first, first)
        self._held = self._held.slice(self._place(self._first), len(self._held))
        self._chunks = [(digest, chunk) for digest, chunk in self._chunks if chunk.seq[-1] >= self._first]

    def _place(self, seq: int) -> int:
        return int(np.searchsorted(self._held.seq, seq))

    def kept(self, first: int, stop: int) -> Kept:
        """Return objects as they came."""
        return self._held.slice(self._place(first), self._place(stop))

    def tend(self, _most: int) -> bool:
        """Do nothing: there is never work left."""
        return False

    # --- questions ---------------------------------------------------------------------------------------------------

    def _matching(self, requests: Requests, row: int) -> Ints:
        """Return the places of the objects that one request is about."""
        held = self._held
        start = self._place(int(requests.first[row]))
        stop = max(start, self._place(int(requests.stop[row])))
        a, b, c, d = requests.shape[row].tolist()
        x, y = held.x[start:stop], held.y[start:stop]
        kind, rings = int(requests.region[row]), rings_of(requests, row)
        places: Ints = start + np.flatnonzero(inside_region(x, y, kind, (a, b, c, d), self._metric, rings))
        unwanted = requests.none[requests.none_off[row] : requests.none_off[row + 1]]
        places = places[self._shared(places, unwanted) == 0] if len(unwanted) else places
        keywords = requests.kw[requests.kw_off[row] : requests.kw_off[row + 1]]
        if not len(keywords):
            return places
        shared = self._shared(places, keywords)
        return places[shared > 0 if requests.match_any[row] else shared == len(keywords)]

    def _shared(self, places: Ints, keywords: Ints) -> Ints:
        """Return how many of some keywords each of some objects has."""
        off, kw = csr_take(self._held.kw_off, self._held.kw, places)
        owner = np.repeat(np.arange(len(places)), np.diff(off))
        return np.bincount(owner[np.isin(kw, keywords)], minlength=len(places))

    def srq(self, requests: Requests) -> Found:
        """Return what is in regions."""
        rows = [self._held.seq[self._matching(requests, row)] for row in range(len(requests))]
        return Found(_off(rows), np.concatenate([np.empty(0, np.int64), *rows]), len(requests) * len(self))

    def skq(self, requests: Requests) -> Nearest:
        """Return what is nearest to places."""
        seqs, distances = [], []
        for row in range(len(requests)):
            places = self._matching(requests, row)
            at_x, at_y = requests.shape[row, :2].tolist()
            far = distance(self._held.x[places], self._held.y[places], at_x, at_y, self._metric)
            seq = self._held.seq[places]
            order = np.lexsort((seq, far))[: max(int(requests.k[row]), 0)]
            order = order[far[order] <= requests.reach[row]]
            seqs.append(seq[order])
            distances.append(far[order])
        found = np.concatenate([np.empty(0, np.int64), *seqs])
        return Nearest(_off(seqs), found, np.concatenate([np.empty(0), *distances]), len(requests) * len(self))

    def stq(self, requests: Requests) -> Counts:
        """Return how often terms occur in regions."""
        listed, counts, rests = [], [], np.zeros(len(requests), np.int64)
        for row in range(len(requests)):
            _, kw = csr_take(self._held.kw_off, self._held.kw, self._matching(requests, row))
            found = np.unique(kw, return_counts=True)
            terms, count, rests[row] = ranked_terms(found[0], found[1].astype(np.int64), int(requests.k[row]))
            listed.append(terms)
            counts.append(count)
        none = np.empty(0, np.int64)
        terms, count = np.concatenate([none, *listed]), np.concatenate([none, *counts])
        return Counts(_off(listed), terms, count, rests, len(requests) * len(self))

    # --- state -------------------------------------------------------------------------------------------------------

    def snapshot(self) -> dict[str, Any]:
        """Return the objects."""
        full = [(digest, partial(_same, chunk)) for digest, chunk in self._chunks]
        stop = int(self._chunks[-1][1].seq[-1]) + 1 if self._chunks else 0
        rest = self._held.slice(self._place(stop), len(self._held))
        return saved(full, rest, self._first, self._last)

    def restore(self, state: dict[str, Any]) -> None:
        """Take over a snapshot."""
        for chunk in restored(state):
            self._append(chunk)
        self._last = state["last"]
        self.drop(state["first"])


def _same(chunk: Kept) -> Kept:
    return chunk


def _off(rows: list[Any]) -> Ints:
    off = np.zeros(len(rows) + 1, np.int64)
    np.cumsum([len(row) for row in rows], out=off[1:])
    return off
