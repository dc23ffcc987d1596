"""Results that are the k most frequent terms of a region: `terms` at any instant."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from streams.batches import NO_WINDOW, ObjectBatch
from streams.columns import Ints, csr_take
from streams.window import rows_upto

__all__ = ["TermCounts", "TermList"]

#: Terms with their counts, in the order of the result.
TermList = tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True, eq=False)
class TermCounts:
    """The objects that one query ever counts, and how far back it looks.

    Attributes:
        k: how many terms are listed.
        window: how many milliseconds count, or `NO_WINDOW`.
        rows: the objects inside the region, as rows of the input, ascending.
        objects: the input.
        word: gives the word of a keyword id.
    """

    k: int
    window: int
    rows: Ints
    objects: ObjectBatch
    word: Callable[[int], str]

    def at(self, now: int) -> TermList:
        """Return the k first terms by count, largest first, then in alphabetical order (of code points)."""
        ts = self.objects.ts[self.rows]
        start = 0 if self.window == NO_WINDOW else rows_upto(ts, now - self.window)
        rows = self.rows[start : rows_upto(ts, now)]
        _, kw = csr_take(self.objects.kw_off, self.objects.kw, rows)
        terms, counts = np.unique(kw, return_counts=True)
        if len(terms) > self.k:
            at_least = np.partition(counts, -self.k)[-self.k]
            terms, counts = terms[counts >= at_least], counts[counts >= at_least]
        listed = [(self.word(term), count) for term, count in zip(terms.tolist(), counts.tolist(), strict=True)]
        return tuple(sorted(listed, key=lambda item: (-item[1], item[0]))[: self.k])
