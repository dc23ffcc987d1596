"""Rows of scored subscriptions: all that a score and its threshold need, in one line of the cache.

Of the eight float64 of a line (`operators.indexes.core.word_lines`) the last three are six int32:

    X, Y, ALPHA, NORM, THETA    the place, alpha, |q| of `streams.scoring`, the threshold
    COUNT                       the number of keywords
    FIRST...                    the keywords as words, up to `INLINE`; of more the first place tells where they begin in `long`

The weight of a keyword is ``idf[word] / NORM``, as `streams.scoring` has it, to the last bit; `idf` is kept once a word.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from operators.indexes.core.growth import grown
from operators.indexes.core.query_table import DEAD, QueryTable
from operators.indexes.core.rare_columns import RareColumns
from operators.indexes.core.word_lines import LINE_BYTES, WordLines, inline_words
from streams.batches import QueryBatch
from streams.geometry import Metric, Rect, max_distance
from streams.scoring import norms
from streams.vocabulary import Vocabulary

__all__ = ["ALPHA", "BITS", "COUNT", "FIRST", "INLINE", "NORM", "THETA", "ScoredTable", "X", "Y"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Slots = NDArray[np.int32]

#: Places in a line: float64 ones, and, in the int32 view, those of the keywords.
X, Y, ALPHA, NORM, THETA = range(5)
COUNT = 10
FIRST, INLINE = COUNT + 1, inline_words(COUNT)
#: Of so many keywords it can be said whether they are filed.
BITS = 63


class ScoredTable(QueryTable):
    """A `QueryTable` whose places, words and thresholds are in lines.

    Attributes:
        idf: by word.
        filing: by slot, which keywords structures should file, as bits from the first keyword on; those beyond `BITS` are filed
            anyway. A structure may file all, as long as there is any. Empty: all are filed.
        max_distance: of the space, as scores have it.
    """

    def __init__(self, space: Rect, metric: Metric, vocabulary: Vocabulary) -> None:
        super().__init__(space, metric, shape=0)
        self._rare = RareColumns("alpha")
        self.vocabulary = vocabulary
        self.max_distance = max_distance(space, metric)
        self._lines = WordLines(COUNT)
        self.idf: Floats = np.empty(0)
        self.filing: Ints = np.empty(0, np.int64)

    @property
    def lines(self) -> Floats:
        """A row a slot, float64; see the module. They are replaced when they grow."""
        return self._lines.lines

    @property
    def parts(self) -> Slots:
        """The same bytes as int32."""
        return self._lines.parts

    @property
    def long(self) -> Slots:
        """The words of subscriptions with many."""
        return self._lines.long

    @property
    def theta(self) -> Floats:
        """The thresholds by slot: a look into the lines, which are replaced when they grow."""
        return self.lines[:, THETA]

    @property
    def nbytes(self) -> int:
        """Bytes in use."""
        # The base counts 12 bytes for words, which are in the lines here.
        return super().nbytes + (LINE_BYTES - 12) * self.roster.top + self._lines.pool_bytes + 8 * self.words.top

    def admit(self, queries: QueryBatch) -> Slots:
        """File registrations; their thresholds are -inf."""
        slots = super().admit(queries)
        norm = norms(queries.kw_off, queries.kw, self.vocabulary)
        lines = self.lines
        lines[slots, X], lines[slots, Y], lines[slots, ALPHA] = queries.shape[:, 0], queries.shape[:, 1], queries.alpha
        lines[slots, NORM], lines[slots, THETA] = norm, -np.inf
        words = self.words_of(slots)[1]
        if self.words.top > len(self.idf):
            self.idf = grown(self.idf, 2 * self.words.top)
        self.idf[words] = self.vocabulary.idf(queries.kw)
        return slots

    def batch(self, slots: Slots) -> QueryBatch:
        """Return the queries of slots as registrations; their ids are their numbers."""
        return replace(super().batch(slots), alpha=self.lines[slots, ALPHA])

    def words_of(self, slots: Slots) -> tuple[Slots, Slots]:
        """Return the words of subscriptions as ragged rows, ids of keywords ascending."""
        return self._lines.words_of(slots)

    def _keep_words(self, slots: Slots, off: Slots, words: Slots) -> None:
        self._lines.grow(len(self.traits))
        self._lines.write(
            slots, off, words, lambda: np.setdiff1d(self.roster.held(), slots, assume_unique=True).astype(np.int32)
        )

    def _bury(self, slots: Slots) -> Slots:
        self.traits[slots] |= DEAD
        return self._lines.forget(slots)

    def _shapes(self, slots: Slots) -> Floats:
        shape = np.zeros((len(slots), 4))
        shape[:, :2] = self.lines[slots, :2]
        return shape
