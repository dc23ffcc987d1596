"""Threshold buffers: all objects down to a threshold, between k and k + slack of them; the default refiller.

The buffer of a query has all objects that come up to its threshold. A state that ends leaves the buffers that it is in, which
a list of them for each object tells; a new one enters those that the finder names. A buffer that is full keeps its best, and
its threshold rises; one that has fewer than k is filled from the keyword grids, and its threshold falls. In between nothing
is searched for. Buffers are in no order, so that entering is a write and leaving a look through one of them; lists are put in
order when they are asked for.

Costs: 12 bytes an entry of a buffer, 4 an entry of a list with a fifth of room to spare, 77 bytes a query.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from operators.indexes.core.growth import grown
from operators.indexes.dynamic import buffer_row_kernels as kernels
from operators.indexes.dynamic.dynamic_index import Floats, Lot, Search, Slots
from operators.indexes.dynamic.object_table import ObjectTable
from operators.indexes.topk.subscriptions import ScoredSubscriptions
from streams.columns import Ints

__all__ = ["ThresholdBuffers"]

#: Buffers that objects leave are sorted into so many ranges.
RANGES = 2048
#: A queue has many where it has one in so many of all queries.
MANY = 32


class ThresholdBuffers:
    """Buffers of queries over keyword grids of objects.

    Args:
        objects: the current states.
        queries: the rows of queries.
        search: finds what is short among the objects.
        slack: entries of a buffer beyond k, as a share of k.
        least_slack: no fewer than so many.
        reserve: the share of the slack that is in use after a buffer was filled or has kept its best.
    """

    def __init__(
        self, objects: ObjectTable, queries: ScoredSubscriptions, search: Search, slack: float, least_slack: int,
        reserve: float,
    ) -> None:  # fmt: skip
        self._objects, self._queries, self._search = objects, queries, search
        self._slack, self._least_slack, self._reserve = slack, least_slack, reserve
        self._rows: Ints = np.zeros((0, 8), np.int64)
        self._members: Slots = np.empty(0, np.int32)
        self._scores: Floats = np.empty(0)
        self._top = 0
        self._free: dict[int, list[int]] = {}
        self._heads: Ints = np.zeros(0, np.int64)
        self._tally: Slots = np.zeros(0, np.int32)
        self._pool: Slots = np.empty(0, np.int32)
        self._state: Ints = np.zeros(kernels.FREE + kernels.LIST_CLASSES, np.int64)
        self._state[kernels.FREE :] = -1
        self._pairs: Ints = np.empty(0, np.int64)
        self._ends: Ints = np.empty(RANGES + 2, np.int64)
        self._marks: NDArray[np.uint8] = np.zeros(0, np.uint8)
        self._queues: tuple[Slots, Slots, Slots] = (self._tally, self._tally, self._tally)
        self._opened: Slots = np.empty(0, np.int32)
        self.searches = 0

    @property
    def theta(self) -> Floats:
        """The thresholds by slot."""
        return self._rows.view(np.float64)[:, kernels.THETA]

    @property
    def examined(self) -> int:
        """Cells and objects that searches have looked at."""
        return self._search.examined

    @property
    def nbytes(self) -> int:
        """Bytes in use."""
        return self.query_bytes + self._search.nbytes + 12 * self._objects.top

    @property
    def query_bytes(self) -> int:
        """Bytes of buffers and lists, without the keyword grids of the objects."""
        rows = (64 + 13) * self._queries.table.roster.top
        return int(rows + 12 * self._top + 4 * self._state[kernels.TOP])

    # --- queries -----------------------------------------------------------------------------------------------------

    def open(self, slots: Slots, k: Slots) -> None:
        """Give queries buffers."""
        top = int(slots.max(initial=-1)) + 1
        if top > len(self._rows):
            had = len(self._rows)
            self._rows = _lines(2 * top + 16, self._rows)
            self._rows[had:, kernels.START] = -1
            self.theta[had:] = np.inf
            self._marks = grown(self._marks, len(self._rows))
            self._marks[had:] = 0
            self._queues = tuple(grown(queue, len(self._rows)) for queue in self._queues)  # type: ignore[assignment]
        rows = self._rows
        room = k + np.maximum(np.ceil(self._slack * k), self._least_slack).astype(np.int64)
        for size in np.unique(room).tolist():
            these = slots[room == size]
            free = self._free.get(size, [])
            reused = np.array(free[max(0, len(free) - len(these)) :], np.int64)
            del free[len(free) - len(reused) :]
            fresh = self._top + size * np.arange(len(these) - len(reused))
            self._top += size * (len(these) - len(reused))
            rows[these, kernels.START] = np.append(reused, fresh)
        if self._top > len(self._members):
            self._members = grown(self._members, self._top * 5 // 4 + 1024)
            self._scores = grown(self._scores, len(self._members))
        rows[slots, kernels.COUNT], rows[slots, kernels.K], rows[slots, kernels.ROOM] = 0, k, room
        self.theta[slots], rows[slots, kernels.CUT] = np.inf, 0
        self._opened = np.append(self._opened, slots)

    def close(self, slots: Slots) -> None:
        """Take buffers back; objects may have the queries in their lists still."""
        rows = self._rows
        for start, size in rows[slots][:, [kernels.START, kernels.ROOM]].tolist():
            self._free.setdefault(size, []).append(start)
        rows[slots, kernels.START], rows[slots, kernels.COUNT] = -1, 0
        self.theta[slots] = np.inf
        self._opened = self._opened[~np.isin(self._opened, slots)]
        self._drop_from_queues(slots)

    def _drop_from_queues(self, slots: Slots) -> None:
        state = self._state
        self._marks[slots] = 0
        for at, queue in zip((kernels.SHORT, kernels.RETUNED, kernels.CHANGED), self._queues, strict=True):
            held = queue[: state[at]]
            kept = held[~np.isin(held, slots)] if state[at] else held
            queue[: len(kept)] = kept
            state[at] = len(kept)

    # --- objects -----------------------------------------------------------------------------------------------------

    @property
    def _buffers(self) -> tuple[Any, ...]:
        return self._rows, self._rows.view(np.float64), self._members, self._scores, self._marks

    def leave(self, objects: Slots) -> None:
        """Take objects out of buffers and grids."""
        if not len(objects):
            return
        short, _, changed = self._queues
        total = int((self._heads[objects] & kernels.LENGTH).sum())
        if total > len(self._pairs):
            self._pairs = np.empty(total * 5 // 4, np.int64)
        pairs, shift = self._pairs[:total], (len(self._rows) // RANGES).bit_length()
        kernels.freed(objects, self._heads, self._pool, self._state, self._ends, shift, pairs)
        kernels.leave(pairs, *(*self._buffers, short, changed, self._state))
        self._search.discard(objects)

    def arrive(self, objects: Slots) -> None:
        """File objects in the grids."""
        if self._objects.top > len(self._heads):
            had = len(self._heads)
            self._heads, self._tally = (grown(one, 2 * self._objects.top) for one in (self._heads, self._tally))
            self._heads[had:], self._tally[had:] = 0, 0
        self._search.add(objects)

    def enter(self, objects: Slots, slots: Slots, score: Floats) -> None:
        """Put objects into buffers."""
        if not len(objects):
            return
        _, retuned, changed = self._queues
        taken: NDArray[np.bool_] = np.empty(len(objects), np.bool_)
        kernels.enter(
            objects, slots, score, self._reserve, self._objects.first_seen,
            *(*self._buffers, retuned, changed, self._state, taken),
        )  # fmt: skip
        room = kernels.needed(objects, taken, self._tally, self._pool)
        self._reserve_lists(room)
        kernels.listed(objects, slots, taken, self._tally, self._heads, self._pool, self._state)

    def _reserve_lists(self, room: int) -> None:
        if self._state[kernels.TOP] + room > len(self._pool):
            self._pool = grown(self._pool, int(self._state[kernels.TOP]) * 5 // 4 + 2 * room + 1024)

    # --- lists that have run short -----------------------------------------------------------------------------------

    def refill(self) -> None:
        """Search for what is short, and for what was opened."""
        short, state = self._queues[0], self._state
        wanting = short[: state[kernels.SHORT]]
        rows = self._rows
        still = wanting[rows[wanting, kernels.COUNT] < rows[wanting, kernels.K]]
        self._marks[wanting] &= ~kernels.IS_SHORT
        state[kernels.SHORT] = 0
        due = np.concatenate([still, self._opened])
        self._opened = self._opened[:0]
        if len(due):
            self._fill(due)

    def _fill(self, slots: Slots) -> None:
        rows = self._rows
        slots = self._search.near(slots)
        self.searches += len(slots)
        if self._search.error > 0.0:
            self._fill_roughly(slots)
            return
        wanted = self._wanted(slots)
        limits = self._floors(slots, wanted), self.theta[slots], rows[slots, kernels.CUT]
        for lot in self._search.found(slots, wanted, *limits):
            self._install(slots[lot.of], lot.off, lot.objects, lot.scores, lot.whole)

    def _wanted(self, slots: Slots) -> Ints:
        """Return how many objects buffers are short of."""
        rows = self._rows[slots]
        slack = rows[:, kernels.ROOM] - rows[:, kernels.K]
        return np.asarray(rows[:, kernels.K] + (self._reserve * slack).astype(np.int64) - rows[:, kernels.COUNT])

    def _fill_roughly(self, slots: Slots) -> None:
        """Fill buffers from scratch, where a kernel knows scores but for their last bits.

        What it finds has all that scores more than the worst of it, by more than both may be wrong. If these are fewer than k,
        because others score much the same, more are searched for.
        """
        self._rows[slots, kernels.COUNT] = 0
        more = 8
        while len(slots):
            wanted, anything = self._wanted(slots), np.full(len(slots), np.inf)
            again = []
            for lot in self._search.found(slots, wanted + more, -anything, anything, np.zeros(len(slots), np.int64)):
                enough = self._install_sure(slots[lot.of], wanted[lot.of], lot)
                again.append(slots[lot.of][~enough])
            slots, more = np.concatenate(again), 4 * more

    def _install_sure(self, slots: Slots, wanted: Ints, lot: Lot) -> NDArray[np.bool_]:
        """Fill buffers with what is certain of what a kernel has found; tell for which of them that is enough."""
        found, whole = lot.objects, lot.whole
        row, count = np.repeat(np.arange(len(slots)), np.diff(lot.off)), len(slots)
        exact, seen = self._search.exact(slots, lot.off, found, row), self._objects.first_seen[found]
        worst = np.full(count, np.inf)
        np.minimum.at(worst, row, lot.scores)
        sure = exact > np.where(whole, -np.inf, worst + 2 * self._search.error)[row]
        certain = np.bincount(row[sure], minlength=count)
        enough: NDArray[np.bool_] = whole | (certain >= self._rows[slots, kernels.K])
        order = np.lexsort((seen, -exact, row))
        order = order[(sure & enough[row])[order]]
        rank = np.arange(len(order)) - np.searchsorted(row[order], row[order])
        order = order[rank < wanted[row[order]]]
        off = np.concatenate([[0], np.cumsum(np.bincount(row[order], minlength=count)[enough])])
        self._install(slots[enough], off, found[order], exact[order], (whole & (certain <= wanted))[enough])
        return enough

    def _floors(self, slots: Slots, wanted: Ints) -> Floats:
        """Guess what so many more will score at least: down from the best of a buffer, scores get no sparser as a rule."""
        rows, theta, best = self._rows, self.theta[slots], np.empty(len(slots))
        kernels.best_of(slots, rows, self._scores, best)
        count = rows[slots, kernels.COUNT]
        known = (count > 0) & (theta < np.inf)
        guess = np.full(len(slots), -np.inf)
        guess[known] = theta[known] - (best - theta)[known] * wanted[known] / count[known]
        return guess

    def _install(self, slots: Slots, off: Ints, found: Slots, scores: Floats, whole: NDArray[np.bool_]) -> None:
        _, retuned, changed = self._queues
        done = 0
        while done < len(slots):
            done = kernels.install(
                done, slots, off, found, scores, whole, self._objects.first_seen,
                *(*self._buffers, self._heads, self._pool, retuned, changed, self._state),
            )  # fmt: skip
            if done < len(slots):
                self._reserve_lists(len(self._pool) // 4 + 4 * len(self._heads) + 4096)

    # --- what there is -----------------------------------------------------------------------------------------------

    def retuned(self) -> Slots:
        """Return whose threshold may have changed."""
        return self._taken(kernels.RETUNED, self._queues[1], kernels.IS_RETUNED)

    def changed(self) -> Slots:
        """Return whose buffer has changed, ascending."""
        return self._taken(kernels.CHANGED, self._queues[2], kernels.IS_CHANGED)

    def _taken(self, at: int, queue: Slots, mark: np.uint8) -> Slots:
        """Return a queue in order, and empty it; where it has many, their marks tell who is in it, and the order."""
        count, marks = int(self._state[at]), self._marks[: self._queries.table.roster.top]
        self._state[at] = 0
        if MANY * count > len(marks):
            slots = np.flatnonzero((marks & mark) != 0).astype(np.int32)
            marks &= ~mark
        else:
            slots = np.sort(queue[:count])
            marks[slots] &= ~mark
        return slots

    def lists(self, slots: Slots) -> tuple[Ints, Slots, Floats]:
        """Return the k best of buffers, in order."""
        rows = self._rows
        off = np.concatenate([[0], np.cumsum(np.minimum(rows[slots, kernels.COUNT], rows[slots, kernels.K]))])
        members, scores = np.empty(off[-1], np.int32), np.empty(off[-1])
        kernels.ranked(slots, rows, self._members, self._scores, self._objects.first_seen, off, members, scores)
        return off, members, scores

    def renumber(self, old: Slots) -> None:
        """Move the rows of queries, and make the lists of objects anew."""
        rows = _lines(len(self._rows), self._rows[old])
        rows[len(old) :, kernels.START] = -1
        rows.view(np.float64)[len(old) :, kernels.THETA] = np.inf
        self._rows = rows
        marks = np.zeros_like(self._marks)
        marks[: len(old)] = self._marks[old]
        self._marks = marks
        place = np.full(int(old.max(initial=-1)) + 1, -1, np.int32)
        place[old] = np.arange(len(old), dtype=np.int32)
        for at, queue in zip((kernels.SHORT, kernels.RETUNED, kernels.CHANGED), self._queues, strict=True):
            queue[: self._state[at]] = place[queue[: self._state[at]]]
        self._opened = place[self._opened]
        while not kernels.relink(
            rows, len(old), self._members, self._tally, self._heads, self._pool, self._state
        ):  # pragma: no cover - lists never need more than they had
            self._pool = np.empty(2 * len(self._pool) + 1024, np.int32)


def _lines(count: int, rows: Ints) -> Ints:
    """Return rows that begin at lines of the cache, the first of them as given."""
    spare = np.zeros(8 * count + 8, np.int64)
    skip = (-spare.ctypes.data % 64) // 8
    lines = spare[skip : skip + 8 * count].reshape(count, 8)
    lines[: len(rows)] = rows
    return lines
