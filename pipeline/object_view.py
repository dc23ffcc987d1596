"""Prepared objects as a topology sees them: in its space, with the ids that its vocabulary gives their words.

A data set numbers its words by frequency. A topology that names that vocabulary sees the same numbers; one without a
vocabulary sees hashes, and one with another vocabulary sees its numbers. Objects outside of the space are rejected online.
"""

from dataclasses import dataclass

import numpy as np

from partitioners.costs.statistics import ObjectSample
from pipeline.workloads import SourceObjects
from streams.columns import Ints, csr_take, sorted_rows
from streams.geometry import Rect
from streams.vocabulary import Encoder, Vocabulary

__all__ = ["ObjectView"]


@dataclass(frozen=True, slots=True, eq=False)
class ObjectView:
    """What a topology makes of prepared objects.

    Attributes:
        space: objects outside of it are left out.
        ids: the topology's id of each word of the data set; None where they are the same.
    """

    space: Rect
    ids: Ints | None = None

    @classmethod
    def of(cls, space: Rect, prepared: Vocabulary, seen: Vocabulary) -> "ObjectView":
        """Return the view of a topology with a space and a vocabulary on a data set with another."""
        same = prepared.words == seen.words
        return cls(space, None if same else Encoder(seen).words(prepared.words))

    def seen(self, objects: SourceObjects | ObjectSample, span_ms: float = 1.0) -> ObjectSample:
        """Return objects as they are seen."""
        kw_off, kw = objects.kw_off, objects.kw
        x, y = objects.x, objects.y
        inside = np.flatnonzero(self.space.contains(x, y))
        if len(inside) < len(x):
            x, y = x[inside], y[inside]
            kw_off, kw = csr_take(kw_off, kw, inside)
        if self.ids is not None:
            known = kw < len(self.ids)
            row = np.repeat(np.arange(len(x)), np.diff(kw_off))
            kw_off, kw = sorted_rows(row, np.where(known, self.ids[np.where(known, kw, 0)], kw), len(x))
        return ObjectSample(x, y, kw_off, kw, span_ms)
