"""Brute force: every query is a candidate for every object. The oracle of the other indexes."""

import numpy as np
from numpy.typing import NDArray

from operators.indexes.core.query_table import ANY, DEAD, KIND, QueryTable
from operators.indexes.core.structure import Bounds, Found, Probe
from streams.geometry import REGION_CIRCLE, REGION_NONE, boxed

__all__ = ["BruteForce"]

Slots = NDArray[np.int32]


class BruteForce:
    """Compares each object with all queries at once, column by column, with the definitions of `streams.geometry`."""

    def __init__(self, table: QueryTable) -> None:
        self._table = table
        self._slots: Slots = np.empty(0, np.int32)

    def add(self, slots: Slots, bounds: Bounds) -> None:
        """Take in queries."""
        self._slots = np.concatenate([self._slots, slots])

    def discard(self, slots: Slots, bounds: Bounds) -> Slots:
        """Remove queries."""
        self._slots = self._slots[~np.isin(self._slots, slots)]
        return slots

    @property
    def nbytes(self) -> int:
        """Bytes in use, without the table."""
        return self._slots.nbytes

    def probe(self, objects: Probe) -> Found:
        """Examine every query for every object."""
        table, slots = self._table, self._slots
        traits, shape = table.traits[slots], table.shape[slots]
        kind, either = traits & KIND, (traits & ANY) != 0
        off, words = table.words_of(slots)
        row = np.repeat(np.arange(len(slots)), np.diff(off))
        wanted = np.where(either, 1, np.diff(off))
        present = np.zeros(table.words.top, np.bool_)
        matched: list[Slots] = []
        for i in range(len(objects.x)):
            own = objects.words[objects.word_off[i] : objects.word_off[i + 1]]
            present[own] = True
            contained = np.bincount(row[present[words]], minlength=len(slots)) >= wanted
            present[own] = False
            inside = self._inside(objects.x[i], objects.y[i], kind, shape)
            matched.append(slots[inside & contained & (traits & DEAD == 0)])
        ends = np.cumsum([0, *(len(part) for part in matched)])
        return Found(
            ends.astype(np.int64),
            np.concatenate([slots[:0], *matched]),
            np.full(len(objects.x), len(slots), np.int64),
        )

    def _inside(self, x: float, y: float, kind: NDArray[np.uint8], shape: NDArray[np.float64]) -> NDArray[np.bool_]:
        a, b, c, d = shape.T
        inside = kind == REGION_NONE
        inside |= boxed(kind) & (x >= a) & (x <= c) & (y >= b) & (y <= d)
        if self._table.metric == "haversine":
            return np.asarray(inside | (kind == REGION_CIRCLE))
        dx, dy = x - a, y - b
        return np.asarray(inside | ((kind == REGION_CIRCLE) & (dx * dx + dy * dy <= c * c)))
