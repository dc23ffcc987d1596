"""Lists of subscriptions by cell and word, read by objects that look for balls: what the papers' indexes are made of.

A structure says in which box of cells a subscription lies and which cells an object reads. A posting stands in the lists of
each of these cells, under the words that the subscription hangs on. Balls are kept here in a form that both metrics share:
a point and how near an object must be, exact on the plane, a little too far on the sphere.

Who leaves a short list is taken out at once. A long list is cleaned when a quarter of it has left, so the slot of a
subscription that has gone may stand in some list for a while; it is given back when it stands in none.
"""

import numpy as np
from numpy.typing import NDArray

from operators.indexes.core.growth import grown
from operators.indexes.core.query_table import QueryTable
from operators.indexes.core.structure import Probe
from operators.indexes.knn import ball_list_kernels as kernels
from operators.indexes.knn.ball_list_kernels import (
    ARENA_TOP,
    ENTRIES,
    EXAMINED,
    FREED,
    LISTS,
    NEED,
    NODES_TOP,
    STATE_SIZE,
)
from operators.indexes.knn.knn_index import Near
from operators.indexes.knn.nearest_lists import NearestLists
from streams.errors import RunError

__all__ = ["OBJECTS", "PAIRS", "BallLists", "Boxes"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Slots = NDArray[np.int32]
Boxes = NDArray[np.int16]  # rows of first column, first row, last column, last row

#: Pairs after which a probe stops, and the most objects that it takes.
PAIRS, OBJECTS = 1 << 20, 1024
#: Lists are written anew when they take so many times the room of what they hold, or one in so many is not empty, and there
#: is at least so much more.
LOOSE, EMPTY, LEAST_LOOSE = 4, 2, 4096
#: Slots that wait are looked through when one in so many has been freed.
FREED_SHARE = 4
#: Nodes and arena are numbered with 32 bits.
MOST_ENTRIES = 2**31 - 1


class BallLists:
    """The lists of one structure.

    Args:
        table: the rows of slots.
        lists: their radii.
        side: cells of a row of the grid; a cell has the number row * side + column.
        by_word: whether lists are kept by word, or by cell alone.
        moving: whether balls leave cells while they are there.

    Attributes:
        span: the box of each slot, where balls move.
    """

    def __init__(
        self, table: QueryTable, lists: NearestLists, side: int = 1, *, by_word: bool = True, moving: bool = False
    ) -> None:
        self._table, self._radii, self._side, self._by_word = table, lists, side, by_word
        self._moving = moving
        self._ball: Floats = np.empty((0, 4))
        self._refs: Slots = np.empty(0, np.int32)
        self.span: Boxes = np.empty((0, 4), np.int16)
        self._waiting: Slots = np.empty(16, np.int32)
        self._waiting_count = 0
        self._out: Slots = np.empty(4096, np.int32)
        self._nodes_asked: Slots = np.empty(4096, np.int32)
        self.clear()

    def clear(self) -> None:
        """Forget all lists; slots that waited for one wait no more."""
        self._hash: Ints = np.full((16, 2), -1, np.int64)
        self._nodes: Slots = np.zeros((8, 4), np.int32)
        self._arena: Slots = np.empty(16, np.int32)
        self._free: Slots = np.full(32, -1, np.int32)
        self._state: Ints = np.zeros(STATE_SIZE, np.int64)
        self._refs[:] = 0
        self._state[FREED] = self._waiting_count

    @property
    def nbytes(self) -> int:
        """Bytes in use; capacity that was never touched is address space, not memory."""
        slots = (36 + (8 if self._moving else 0)) * self._table.roster.top
        lists = self._hash.nbytes + 16 * int(self._state[NODES_TOP]) + 4 * int(self._state[ARENA_TOP])
        return slots + lists + 4 * self._waiting_count

    @property
    def entries(self) -> int:
        """How many postings stand in the lists."""
        return int(self._state[ENTRIES])

    def members(self, cell: int, word: int = 0) -> Slots:
        """Return the slots that stand in one list, those included that are to be cleaned out of it."""
        row = np.flatnonzero(self._hash[:, 0] == (cell << 32 | word))
        if not len(row):
            return np.empty(0, np.int32)
        length, base, _, _ = self._nodes[self._hash[row[0], 1]]
        return self._arena[base : base + length].copy()

    # --- coming and going --------------------------------------------------------------------------------------------

    def note(self, slots: Slots) -> None:
        """Take note of balls."""
        kernels.note(slots, self._table.shape, self._radii.radius, self._table.metric == "haversine", self._ball)

    def endless(self, slots: Slots) -> NDArray[np.bool_]:
        """Tell which balls had no end when they were last noted."""
        return np.asarray(self._ball[slots, 3] == np.inf)

    def add(self, slots: Slots, boxes: Boxes) -> None:
        """File subscriptions in the cells of their boxes."""
        room = len(self._table.traits)
        if room > len(self._ball):
            balls = _lined_up(room)
            balls[: len(self._ball)] = self._ball
            self._ball, self._refs = balls, grown(self._refs, room)
            if self._moving:
                self.span = grown(self.span, room)
        self._refs[slots] = 0
        self.note(slots)
        nowhere = np.zeros_like(boxes)
        nowhere[:, 2] = -1
        self.move(slots, nowhere, boxes)

    def move(self, slots: Slots, old: Boxes, new: Boxes) -> None:
        """Let subscriptions, each named once, stand in the cells of other boxes."""
        if self._moving:
            self.span[slots] = new
        places, words = self._postings(slots)
        slots, old, new = slots[places], old[places], new[places]
        self._leave(slots, words, old, new)
        done = 0
        while True:
            done = kernels.enter(
                done, slots, words, old, new, self._side, self._hash, self._nodes, self._arena, self._free, self._refs,
                self._state,
            )  # fmt: skip
            if done == len(slots):
                break
            self._make_room()
        self._tighten()

    def discard(self, slots: Slots, boxes: Boxes) -> Slots:
        """Remove subscriptions that lie in these boxes; return the slots, of earlier ones too, that stand in no list."""
        self._ball[slots, 3] = -1.0
        places, words = self._postings(slots)
        old = boxes[places]
        nowhere = np.zeros_like(old)
        nowhere[:, 2] = -1
        self._leave(slots[places], words, old, nowhere)
        self._tighten()
        reusable, waiting = slots[self._refs[slots] == 0], slots[self._refs[slots] > 0]
        count = self._waiting_count + len(waiting)
        if count > len(self._waiting):
            self._waiting = grown(self._waiting, 2 * count)
        self._waiting[self._waiting_count : count] = waiting
        self._waiting_count = count
        self._state[FREED] -= len(reusable)
        return reusable if FREED_SHARE * self._state[FREED] < count else np.concatenate([reusable, self._swept()])

    def _swept(self) -> Slots:
        """Return those of the slots that wait which stand in no list any more."""
        waiting = self._waiting[: self._waiting_count]
        standing = self._refs[waiting] > 0
        swept, left = waiting[~standing], waiting[standing]
        self._waiting[: len(left)] = left
        self._waiting_count = len(left)
        self._state[FREED] = 0
        return swept

    def _postings(self, slots: Slots) -> tuple[Ints, Slots]:
        if self._by_word:
            return self._table.postings(slots)
        return np.arange(len(slots)), np.zeros(len(slots), np.int32)

    def _leave(self, slots: Slots, words: Slots, old: Boxes, new: Boxes) -> None:
        kernels.leave(
            slots, words, old, new, self._side, self._hash, self._nodes, self._arena, self._ball, self.span, self._refs,
            self._state,
        )  # fmt: skip

    def _make_room(self) -> None:
        """Let everything grow that is full."""
        nodes, arena, need = (int(self._state[place]) for place in (NODES_TOP, ARENA_TOP, NEED))
        if nodes == len(self._nodes):
            self._nodes = grown(self._nodes, 2 * nodes)
        if (nodes + 1) * 10 > 7 * len(self._hash):
            old, self._hash = self._hash, np.full((2 * len(self._hash), 2), -1, np.int64)
            kernels.rehash(old, self._hash)
        if arena + need > len(self._arena):
            if arena + need > MOST_ENTRIES:
                raise RunError(
                    f"{self.entries:,} postings in the lists of an index of {len(self._table):,} subscriptions are all that "
                    f"it can number; lower 'most_cells' or 'side', or take the default index"
                )
            self._arena = grown(self._arena, min(arena + need + arena // 2, MOST_ENTRIES))

    def _tighten(self) -> None:
        """Write all lists anew where they take far more than they hold."""
        nodes, arena, lists = (int(self._state[place]) for place in (NODES_TOP, ARENA_TOP, LISTS))
        if arena <= LOOSE * self.entries + LEAST_LOOSE and nodes <= EMPTY * lists + LEAST_LOOSE:
            return
        table, tight = np.full((2 * lists + 16, 2), -1, np.int64), np.zeros((lists + 8, 4), np.int32)
        held = np.empty(2 * self.entries + 16, np.int32)
        kernels.rewrite(self._hash, self._nodes, self._arena, table, tight, held, self._state)
        self._hash, self._nodes, self._arena = table, tight, held
        self._free[:] = -1

    # --- probing -----------------------------------------------------------------------------------------------------

    def read(self, objects: Probe, first: int, cell_off: Ints, cells: Ints, *, everything: bool) -> Near:
        """Look objects up in the lists of cells, given as ragged rows from object `first` on."""
        stop = first + len(cell_off) - 1
        word_off = objects.word_off[first : stop + 1]
        asked, keys = self._asked(cell_off, cells, word_off, objects.words)
        longest = int(np.diff(asked).max(initial=1))
        if longest > len(self._nodes_asked):
            self._nodes_asked = np.empty(longest, np.int32)
        place = kernels.points(objects.x[first:stop], objects.y[first:stop], self._table.metric == "haversine")
        off = np.zeros(stop - first + 1, np.int64)
        self._state[EXAMINED] = 0
        done = 0
        while True:
            done = kernels.read(
                done, asked, keys, place, PAIRS, everything, self._ball, self._hash, self._nodes, self._arena,
                self._nodes_asked, self._out, off, self._state,
            )  # fmt: skip
            if done == stop - first or off[done] >= PAIRS:
                break
            larger = np.empty(max(2 * len(self._out), int(self._state[NEED])), np.int32)
            larger[: off[done]] = self._out[: off[done]]
            self._out = larger
        return Near(first, first + done, off[: done + 1], self._out[: off[done]].copy(), int(self._state[EXAMINED]))

    def _asked(self, cell_off: Ints, cells: Ints, word_off: Ints, words: Slots) -> tuple[Ints, Ints]:
        """Return the keys of the lists that each object reads, as ragged rows."""
        of_cell = 1 + np.diff(word_off) if self._by_word else np.ones(len(word_off) - 1, np.int64)
        keys = np.empty(int((np.diff(cell_off) * of_cell).sum()), np.int64)
        asked = np.empty(len(cell_off), np.int64)
        kernels.ask(cell_off, cells, word_off, words, self._by_word, asked, keys)
        return asked, keys


def _lined_up(rows: int) -> Floats:
    """Return rows of four numbers none of which lies in two lines of the cache."""
    room = np.empty(4 * rows + 8)
    first = -(room.ctypes.data // 8) % 8
    return room[first : first + 4 * rows].reshape(rows, 4)
