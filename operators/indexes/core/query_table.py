"""What an index knows of each query, in rows by slot: the truth behind every filter.

Columns: the region exactly as given (kind and four float64), whether any keyword will do, and the keywords as words,
least frequent first. Three words fit into the row; a query with more has the rest in a pool. The order of the words is
fixed when the query comes: an index hangs a query on its first word, as FAST does on the least frequent keyword.
What most queries do not say (type, k, window, ...) takes memory only where some query does (`rare_columns`).
"""

import numpy as np
from numpy.typing import NDArray

from operators.indexes.core.growth import lined
from operators.indexes.core.rare_columns import RareColumns
from operators.indexes.core.residuals import Residuals
from operators.indexes.core.roster import Roster
from operators.indexes.core.words import Words
from streams.batches import OP_REGISTER, QueryBatch
from streams.columns import Ids, sorted_rows
from streams.geometry import (
    REGION_NONE,
    REGION_POLYGON,
    REGION_RECT,
    Metric,
    Rect,
    boxed,
    region_bounds,
)
from streams.kernel import kernel
from streams.prefetch import prefetch

__all__ = ["ANY", "DEAD", "KIND", "QueryTable", "region_box"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Slots = NDArray[np.int32]

#: Bits of `QueryTable.traits`: the kind of region; any one of several keywords will do; the user said "any" (which
#: makes no difference to a query of one keyword or none); the query is held but matches nothing; the query has gone.
KIND, ANY, SAID_ANY, ASLEEP, DEAD = np.uint8(3), np.uint8(4), np.uint8(8), np.uint8(16), np.uint8(128)

#: Rows of up to so many words are sorted by insertion.
_SHORT_ROW = 64
_AHEAD = 16


@kernel
def _arrange(off: Slots, words: Slots, uses: Slots, raw: Ints, slots: Slots, kw: Slots, pool: Slots, top: int) -> int:
    """Sort each query's words by uses, least first, and file them; return the new end of the pool.

    Row layout: (word, word or -1, word or -1), or (word, word, -2 - p) with ``pool[p]`` more words after p. Words used
    alike are told apart by the keyword's id, the larger first: prepared vocabularies number the frequent words first.
    """
    for i in range(slots.shape[0]):
        first, last = off[i], off[i + 1]
        for j in range(first + 1, last):
            word = words[j]
            k = j - 1
            while k >= first and (
                uses[words[k]] > uses[word] or (uses[words[k]] == uses[word] and raw[words[k]] < raw[word])
            ):
                words[k + 1] = words[k]
                k -= 1
            words[k + 1] = word
        slot = slots[i]
        kw[slot, 0] = words[first] if last > first else 0
        kw[slot, 1] = words[first + 1] if last > first + 1 else -1
        kw[slot, 2] = words[first + 2] if last > first + 2 else -1
        if last > first + 3:
            kw[slot, 2] = -2 - top
            pool[top] = last - first - 2
            for j in range(first + 2, last):
                pool[top + j - first - 1] = words[j]
            top += last - first - 1
    return top


@kernel
def _file(
    slots: Slots, region: NDArray[np.uint8], match_any: NDArray[np.bool_], off: Slots, given: Floats,
    traits: NDArray[np.uint8], shape: Floats,
) -> None:  # fmt: skip
    for i in range(slots.shape[0]):
        slot = slots[i]
        for k in range(shape.shape[1]):
            shape[slot, k] = given[i, k]
        traits[slot] = region[i] | ((SAID_ANY | (ANY if off[i + 1] > off[i] + 1 else 0)) if match_any[i] else 0)


@kernel
def _count(slots: Slots, kw: Slots, pool: Slots, off: Slots) -> None:
    off[0] = 0
    for i in range(slots.shape[0]):
        slot = slots[i]
        count = 0 if kw[slot, 0] == 0 else 1 if kw[slot, 1] < 0 else 2 if kw[slot, 2] == -1 else 3
        if kw[slot, 2] < -1:
            count = 2 + pool[-2 - kw[slot, 2]]
        off[i + 1] = off[i] + count


@kernel
def _gather(slots: Slots, kw: Slots, pool: Slots, off: Slots, out: Slots) -> None:
    for i in range(slots.shape[0]):
        slot = slots[i]
        for j in range(off[i], off[i + 1]):
            nth = j - off[i]
            if nth < 2 or kw[slot, 2] >= 0:
                out[j] = kw[slot, nth]
            else:
                out[j] = pool[-2 - kw[slot, 2] + nth - 1]


@kernel
def _ascend(off: Slots, words: Slots, raw: Ints, out: Ints) -> bool:
    """Write the ids of words so that each row ascends; tell whether all rows are short and without repetition.

    By insertion: a query has few words, and a sort of all rows at once is what made snapshots expensive.
    """
    for i in range(off.shape[0] - 1):
        if off[i + 1] - off[i] > _SHORT_ROW:
            return False
        for j in range(off[i], off[i + 1]):
            value = raw[words[j]]
            place = j
            while place > off[i] and out[place - 1] > value:
                out[place] = out[place - 1]
                place -= 1
            if place > off[i] and out[place - 1] == value:
                return False
            out[place] = value
    return True


@kernel
def _rows(slots: Slots, shape: Floats, kw: Slots, traits: NDArray[np.uint8], out: Floats) -> bool:
    """Copy the shapes of rows and tell whether all are boxes; the words, needed next, are asked for as well."""
    boxes = True
    for i in range(slots.shape[0]):
        if i + _AHEAD < slots.shape[0]:
            ahead = np.int64(slots[i + _AHEAD])
            prefetch(shape, shape.shape[1] * ahead)
            prefetch(kw, 3 * ahead)
            prefetch(traits, ahead)
        for k in range(4):
            out[i, k] = shape[slots[i], k]
        kind = traits[slots[i]] & KIND
        boxes &= kind in (REGION_RECT, REGION_POLYGON)
    return boxes


@kernel
def _first_words(slots: Slots, kw: Slots, traits: NDArray[np.uint8], out: Slots) -> bool:
    """Copy the first word of each row and tell whether that is where all of them hang."""
    one = True
    for i in range(slots.shape[0]):
        out[i] = kw[slots[i], 0]
        one &= traits[slots[i]] & ANY == 0
    return one


@kernel
def _bury(slots: Slots, kw: Slots, traits: NDArray[np.uint8], out: Slots) -> bool:
    """Mark rows as dead, copy their words and tell whether these are all."""
    short = True
    for i in range(slots.shape[0]):
        slot = slots[i]
        traits[slot] |= DEAD
        for k in range(3):
            out[3 * i + k] = kw[slot, k]
        short &= kw[slot, 2] >= -1
    return short


class QueryTable:
    """Rows of queries by slot, their words, numbers and lifetimes.

    Queries that have a place and no region need the first two numbers of `shape` only.

    Attributes:
        sleeping: how many queries are asleep; structures do not look at it, so whoever reports matches leaves them out.
        residuals: what structures do not look at either: polygons inside of their boxes, keywords that must not occur.
    """

    def __init__(self, space: Rect, metric: Metric, shape: int = 4) -> None:
        self.space = space
        self.metric = metric
        self.roster = Roster()
        self.words = Words()
        self.shape: Floats = np.empty((0, shape))
        self.traits: NDArray[np.uint8] = np.empty(0, np.uint8)
        self.kw: Slots = np.empty((0, 3), np.int32)
        self.pool: Slots = np.empty(0, np.int32)
        self.sleeping = 0
        self.residuals = Residuals()
        self._rare = RareColumns()
        self._pool_top = self._pool_garbage = 0

    def __len__(self) -> int:
        return self.roster.live

    @property
    def nbytes(self) -> int:
        """Bytes in use; capacity that was never touched is address space, not memory."""
        row: int = 13 + 8 * self.shape.shape[1] + self._rare.row_bytes + self.residuals.row_bytes
        pools = 4 * self._pool_top + self.residuals.nbytes
        return self.roster.nbytes + self.words.nbytes + row * self.roster.top + pools

    def admit(self, queries: QueryBatch) -> Slots:
        """File registrations that `check` has seen and return their slots."""
        words = self.words.number(queries.kw)
        slots = self.roster.admit(queries.number, queries.ts, queries.end)
        if self.roster.top > len(self.traits):
            self._grow(3 * self.roster.top + 64)
        _file(slots, queries.region, queries.match_any, queries.kw_off, queries.shape, self.traits, self.shape)
        self._rare.write(slots, queries, len(self.traits))
        self.residuals.write(slots, queries, len(self.traits))
        self._keep_words(slots, queries.kw_off, words)
        return slots

    def _keep_words(self, slots: Slots, off: Slots, words: Slots) -> None:
        """File the words of rows, whose order here may change."""
        lengths = off[1:] - off[:-1]
        if len(slots) and lengths.max() > 3:
            self.kw[slots, 2] = -1  # what stands there is of nobody, and the pool may be packed anew
            self._reserve_pool(int((lengths[lengths > 3] - 1).sum()))
        self._pool_top = _arrange(
            off, words, self.words.uses, self.words.raw, slots, self.kw, self.pool, self._pool_top
        )

    def drop(self, slots: Slots) -> None:
        """Forget what withdrawn queries said; their rows are dead until `recycle`."""
        if self.sleeping:
            self.sleeping -= int(np.count_nonzero(self.traits[slots] & ASLEEP))
        self.words.release(self._bury(slots))
        self.residuals.drop(slots)

    def _bury(self, slots: Slots) -> Slots:
        """Mark rows as dead and return their words, with some numbers among them that are none."""
        words = np.empty(3 * len(slots), np.int32)
        if not _bury(slots, self.kw, self.traits, words):
            off, words = self.words_of(slots)
            lengths = np.diff(off)
            self._pool_garbage += int((lengths[lengths > 3] - 1).sum())
        return words

    def hush(self, slots: Slots) -> None:
        """Put queries to sleep, each named once."""
        self.sleeping += int(np.count_nonzero(self.traits[slots] & ASLEEP == 0))
        self.traits[slots] |= ASLEEP

    def wake(self, slots: Slots) -> None:
        """Wake queries up, each named once."""
        self.sleeping -= int(np.count_nonzero(self.traits[slots] & ASLEEP))
        self.traits[slots] &= ~ASLEEP

    def asleep(self) -> Slots:
        """Return the slots of the queries that are asleep, in no particular order."""
        held: Slots = self.roster.held() if self.sleeping else np.empty(0, np.int32)
        return held[np.flatnonzero(self.traits[held] & ASLEEP)]

    def rearrange(self, slots: Slots) -> None:
        """Sort the words of queries by their frequencies as they are now; long queries keep their order."""
        short = slots[self.kw[slots, 2] >= -1]
        off, words = self.words_of(short)
        _arrange(off, words, self.words.uses, self.words.raw, short, self.kw, self.pool, self._pool_top)

    def recycle(self, slots: Slots) -> None:
        """Let the rows of dropped queries be used again."""
        self.roster.recycle(slots)

    def words_of(self, slots: Slots) -> tuple[Slots, Slots]:
        """Return the words of queries as ragged rows, least frequent first."""
        off = np.empty(len(slots) + 1, np.int32)
        _count(slots, self.kw, self.pool, off)
        words = np.empty(off[-1], np.int32)
        _gather(slots, self.kw, self.pool, off, words)
        return off, words

    def postings(self, slots: Slots) -> tuple[Ints, Slots]:
        """Return where queries hang: the place of each in `slots`, in order if there is no more to it, and the word.

        A query hangs on its first word, or on each where any will do; as many postings as queries are one for each.
        """
        places, words = np.arange(len(slots)), np.empty(len(slots), np.int32)
        if _first_words(slots, self.kw, self.traits, words):
            return places, words
        either = np.flatnonzero(self.traits[slots] & ANY)
        off, words = self.words_of(slots[either])
        single = np.delete(places, either)
        places = np.concatenate([single, np.repeat(either, np.diff(off))])
        return places, np.concatenate([self.kw[slots[single], 0], words])

    def k_of(self, slots: Slots) -> Slots:
        """Return how many results the queries of slots want."""
        return self._rare.column("k", slots)

    def detects_of(self, slots: Slots) -> NDArray[np.uint8]:
        """Return the bits of what the queries of slots detect."""
        return self._rare.column("detect", slots)

    def bounds(self, slots: Slots) -> Floats:
        """Return a box for each query that contains every point it can match."""
        shape = np.empty((len(slots), 4))
        if _rows(slots, self.shape, self.kw, self.traits, shape):
            return shape
        return region_box(self.traits[slots] & KIND, shape, self.space, self.metric)

    def batch(self, slots: Slots) -> QueryBatch:
        """Return the queries of slots as registrations; their ids are their numbers."""
        kw_off, words = self.words_of(slots)
        kw = np.empty(len(words), np.int64)
        if not _ascend(kw_off, words, self.words.raw, kw):
            row = np.repeat(np.arange(len(slots)), np.diff(kw_off))
            kw_off, kw = sorted_rows(row, self.words.raw[words], len(slots))
        count, numbers, traits = len(slots), self.roster.numbers_of(slots), self.traits[slots]
        return QueryBatch(
            number=numbers, target=numbers, op=np.full(count, OP_REGISTER, np.uint8),
            ts=self.roster.starts_of(slots), end=self.roster.ends_of(slots), match_any=(traits & SAID_ANY) != 0,
            region=traits & KIND, shape=self._shapes(slots), **self._rare.read(slots),
            kw_off=kw_off, kw=kw, ids=Ids("int", numbers), **self.residuals.read(slots),
        )  # fmt: skip

    def _shapes(self, slots: Slots) -> Floats:
        kept = self.shape.shape[1]
        if kept == 4:
            return self.shape[slots]
        shape = np.zeros((len(slots), 4))
        shape[:, :kept] = self.shape[slots]
        return shape

    def _grow(self, room: int) -> None:
        shape = lined((room, self.shape.shape[1]), np.float64)
        traits, kw = np.empty(room, np.uint8), np.empty((room, 3), np.int32)
        held = len(self.traits)
        shape[:held], traits[:held], kw[:held] = self.shape, self.traits, self.kw
        self.shape, self.traits, self.kw = shape, traits, kw

    def _reserve_pool(self, more: int) -> None:
        if self._pool_top + more <= len(self.pool):
            return
        if self._pool_garbage > self._pool_top // 2:
            self._repack_pool()
        pool = np.empty((self._pool_top + more) * 3 // 2 + 16, np.int32)
        pool[: self._pool_top] = self.pool[: self._pool_top]
        self.pool = pool

    def _repack_pool(self) -> None:
        held = self.roster.held()
        held = held[(self.traits[held] & DEAD == 0) & (self.kw[held, 2] < -1)]
        off, words = self.words_of(held)
        pool = np.empty(len(self.pool), np.int32)
        # Uses do not matter here: rows keep the order they have, so the words are filed as they come.
        nothing = np.zeros(self.words.top, np.int32)
        order = np.zeros(self.words.top, np.int64)
        self._pool_top = _arrange(off, words, nothing, order, held, self.kw, pool, 0)
        self.pool, self._pool_garbage = pool, 0


def region_box(kind: NDArray[np.uint8], shape: Floats, space: Rect, metric: Metric) -> Floats:
    """Return bounds as `region_bounds` does, as rows, and without end for a query that has no region."""
    if boxed(kind).all():
        return shape
    with np.errstate(invalid="ignore"):  # rows that are no circles are computed as such and not used
        box = np.column_stack(region_bounds(kind, shape, space, metric))
    box[kind == REGION_NONE] = (-np.inf, -np.inf, np.inf, np.inf)
    return box
