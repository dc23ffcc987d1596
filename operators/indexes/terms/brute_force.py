"""Every object of the window for every answer: the truth that the other structures are held against."""

import numpy as np
from numpy.typing import NDArray

from operators.indexes.core.query_table import ANY, KIND, QueryTable
from operators.indexes.terms.term_window import TermWindow
from operators.indexes.terms.terms_index import Asked, Counts
from streams.columns import csr_take
from streams.geometry import inside_region

__all__ = ["BruteForce", "counted_plainly", "listed"]

Ints = NDArray[np.int64]
Slots = NDArray[np.int32]


def listed(terms: Ints, counts: Ints, k: int, whole: bool) -> tuple[Ints, Ints]:
    """Return what an answer lists: all, or the k largest counts and what is tied with the last of them."""
    if not whole or len(terms) <= k:
        return terms, counts
    keep = counts >= np.partition(counts, -k)[-k]
    return terms[keep], counts[keep]


def counted_plainly(table: QueryTable, window: TermWindow, asked: Asked, row: int) -> tuple[Ints, Ints, int]:
    """Return terms and counts of one answer, and how many objects count, by the definitions of `streams.geometry`."""
    slot = asked.slots[row : row + 1]
    objects = window.objects(int(asked.first[row]), int(asked.stop[row]))
    a, b, c, d = table.shape[slot[0]].tolist()
    traits = table.traits[slot[0]]
    kind, rings = int(traits & KIND), table.residuals.rings_of(int(slot[0]))
    inside = np.flatnonzero(inside_region(objects.x, objects.y, kind, (a, b, c, d), table.metric, rings))
    unwanted = table.residuals.none_of(slot)[1]
    if len(unwanted):
        off, kw = csr_take(objects.kw_off, objects.kw, inside)
        owner = np.repeat(np.arange(len(inside)), np.diff(off))
        inside = inside[np.bincount(owner[np.isin(kw, unwanted)], minlength=len(inside)) == 0]
    off, kw = csr_take(objects.kw_off, objects.kw, inside)
    wanted = table.words.raw[table.words_of(slot)[1]]
    if len(wanted):
        owner = np.repeat(np.arange(len(inside)), np.diff(off))
        shared = np.bincount(owner[np.isin(kw, wanted)], minlength=len(inside))
        fits = np.flatnonzero(shared > 0 if traits & ANY else shared == len(wanted))
        inside, (_, kw) = inside[fits], csr_take(off, kw, fits)
    terms, counts = np.unique(kw, return_counts=True)
    return *listed(terms, counts.astype(np.int64), int(asked.k[row]), bool(asked.whole[row])), len(inside)


class BruteForce:
    """Nothing but the window."""

    def __init__(self, table: QueryTable, window: TermWindow) -> None:
        self._table, self._window = table, window

    def add(self, slots: Slots) -> None:
        """Do nothing: the table has all there is to know."""

    def discard(self, slots: Slots) -> Slots:
        """Do nothing."""
        return slots

    def append(self, first: int) -> None:
        """Do nothing: the window has the objects."""

    def forget(self, first: int) -> None:
        """Do nothing."""

    def count(self, asked: Asked) -> Counts:
        """Look at all objects of each window."""
        found = [counted_plainly(self._table, self._window, asked, row) for row in range(len(asked))]
        examined, counted = int((asked.stop - asked.first).sum()), sum(number for _, _, number in found)
        return Counts.of([(terms, counts) for terms, counts, _ in found], examined, counted)

    @property
    def nbytes(self) -> int:
        """Nothing."""
        return 0
