"""Rows of scored subscriptions: all that a score and its threshold need, in one line of the cache.

A line is 64 bytes, eight float64 of which the last three are six int32:

    X, Y, ALPHA, NORM, THETA    the place, alpha, |q| of `streams.scoring`, the threshold
    COUNT                       the number of keywords
    FIRST...                    the keywords as words, ids ascending, up to `INLINE`; of more the first place tells where they
                                begin in `long`

The weight of a keyword is ``idf[word] / NORM``, as `streams.scoring` has it, to the last bit; `idf` is kept once a word.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from operators.indexes.core.growth import grown
from operators.indexes.core.query_table import DEAD, QueryTable
from operators.indexes.core.rare_columns import RareColumns
from streams.batches import QueryBatch
from streams.geometry import Metric, Rect, max_distance
from streams.kernel import kernel
from streams.scoring import norms
from streams.vocabulary import Vocabulary

__all__ = ["ALPHA", "BITS", "COUNT", "FIRST", "INLINE", "NORM", "THETA", "ScoredTable", "X", "Y"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Slots = NDArray[np.int32]

#: Places in a line: float64 ones, and, in the int32 view, those of the keywords.
X, Y, ALPHA, NORM, THETA = range(5)
COUNT, FIRST, INLINE = 10, 11, 5
#: Of so many keywords it can be said whether they are filed.
BITS = 63
_WIDTH = 8
_LINE_BYTES = 64


@kernel
def _write(slots: Slots, off: Slots, words: Slots, parts: Slots, long: Slots, top: int) -> int:
    """File words; return the new end of `long`."""
    for i in range(slots.shape[0]):
        slot = slots[i]
        first, count = off[i], off[i + 1] - off[i]
        parts[slot, COUNT] = count
        for j in range(INLINE):
            parts[slot, FIRST + j] = words[first + j] if j < count else -1
        if count > INLINE:
            parts[slot, FIRST] = top
            for j in range(count):
                long[top + j] = words[first + j]
            top += count
    return top


@kernel
def _read(slots: Slots, parts: Slots, long: Slots, off: Slots, out: Slots) -> None:
    """Copy the words of slots to where their rows begin."""
    for i in range(slots.shape[0]):
        slot = slots[i]
        count = parts[slot, COUNT]
        for j in range(count):
            out[off[i] + j] = parts[slot, FIRST + j] if count <= INLINE else long[parts[slot, FIRST] + j]


@kernel
def _repack(slots: Slots, parts: Slots, long: Slots, out: Slots) -> int:
    """Copy the long keyword lists of slots, one after the other; return where they end."""
    top = 0
    for i in range(slots.shape[0]):
        slot = slots[i]
        count, start = parts[slot, COUNT], parts[slot, FIRST]
        if count > INLINE:
            parts[slot, FIRST] = top
            for j in range(count):
                out[top + j] = long[start + j]
            top += count
    return top


def _lines(count: int) -> Floats:
    """Return rows that begin at lines of the cache."""
    spare = np.empty(_WIDTH * count + _WIDTH)
    skip = (-spare.ctypes.data % _LINE_BYTES) // spare.itemsize
    return spare[skip : skip + _WIDTH * count].reshape(count, _WIDTH)


class ScoredTable(QueryTable):
    """A `QueryTable` whose places, words and thresholds are in lines.

    Attributes:
        lines: float64, a row a slot; see the module. `parts` are the same bytes as int32.
        long: the words of subscriptions with many.
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
        self.lines: Floats = _lines(0)
        self.parts: Slots = self.lines.view(np.int32)
        self.long: Slots = np.empty(0, np.int32)
        self.idf: Floats = np.empty(0)
        self.filing: Ints = np.empty(0, np.int64)
        self._long_top = self._long_garbage = 0

    @property
    def theta(self) -> Floats:
        """The thresholds by slot: a look into the lines, which are replaced when they grow."""
        return self.lines[:, THETA]

    @property
    def nbytes(self) -> int:
        """Bytes in use."""
        # The base counts 12 bytes for words, which are in the lines here.
        return super().nbytes + (_LINE_BYTES - 12) * self.roster.top + 4 * self._long_top + 8 * self.words.top

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
        off = np.zeros(len(slots) + 1, np.int32)
        np.cumsum(self.parts[slots, COUNT], out=off[1:])
        words = np.empty(off[-1], np.int32)
        _read(slots, self.parts, self.long, off, words)
        return off, words

    def _keep_words(self, slots: Slots, off: Slots, words: Slots) -> None:
        if len(self.traits) > len(self.lines):
            larger = _lines(len(self.traits))
            larger[: len(self.lines)] = self.lines
            self.lines, self.parts = larger, larger.view(np.int32)
        lengths = np.diff(off)
        self._reserve_long(int(lengths[lengths > INLINE].sum()), slots)
        self._long_top = _write(slots, off, words, self.parts, self.long, self._long_top)

    def _bury(self, slots: Slots) -> Slots:
        self.traits[slots] |= DEAD
        counts = self.parts[slots, COUNT]
        self._long_garbage += int(counts[counts > INLINE].sum())
        return self.words_of(slots)[1]

    def _shapes(self, slots: Slots) -> Floats:
        shape = np.zeros((len(slots), 4))
        shape[:, :2] = self.lines[slots, :2]
        return shape

    def _reserve_long(self, more: int, coming: Slots) -> None:
        if self._long_top + more <= len(self.long):
            return
        long = np.empty((self._long_top + more) * 3 // 2 + 16, np.int32)
        if self._long_garbage > self._long_top // 2:
            held = np.setdiff1d(self.roster.held(), coming, assume_unique=True)
            self._long_top, self._long_garbage = _repack(held, self.parts, self.long, long), 0
        else:
            long[: self._long_top] = self.long[: self._long_top]
        self.long = long
