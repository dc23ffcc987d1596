"""FAST, the index of Tornado's evaluators (section 3.2): a spatial pyramid with an adaptive keyword index, AKI.

A query hangs on its least frequent keyword and starts in the list of that keyword in the one cell at the top of the
pyramid. A list that has grown to `frequent` queries makes its keyword a frequent one: from then on its queries live on
the level of the pyramid that fits their size; where a list is still long, it becomes a node of a trie in which queries
are told apart by their next keywords. Infrequent keywords stay in short lists at the top. A query is
stored once and shared by neighbouring cells, which read each other's lists, so nothing is replicated.
"""

import numpy as np
from numpy.typing import NDArray

from operators.indexes.core.quanta import boxes_in_quanta, places_in_quanta
from operators.indexes.core.query_table import QueryTable
from operators.indexes.core.structure import Bounds, Found, Probe
from operators.indexes.range import fast_kernels, list_kernels
from operators.indexes.range.keyed_lists import KeyedLists
from streams.errors import DeclarationError

__all__ = ["Fast"]

Ints = NDArray[np.int64]
Slots = NDArray[np.int32]

#: Queries that are filed at a time when the lists are written anew.
CHUNK = 8192


class Fast:
    """The structure of FAST.

    Options:
        frequent: the length of a list at which its keyword counts as frequent (theta in FAST).
        levels: levels of the pyramid below the top; the lowest has 2^levels cells on each side.
    """

    def __init__(self, table: QueryTable, frequent: int = 8, levels: int = 9) -> None:
        if not 1 <= frequent <= 4096:
            raise DeclarationError(f"frequent = {frequent}, expected a whole number from 1 to 4096")
        if not 0 <= levels <= 12:
            raise DeclarationError(f"levels = {levels}, expected a whole number from 0 to 12")
        self._table = table
        self._frequent, self._levels = frequent, levels
        self._lists = KeyedLists()
        self._levels_of: Slots = np.zeros(1, np.int32)
        self._reach: Ints = np.zeros((levels + 1, 2), np.int64)
        self._box: NDArray[np.uint16] = np.empty((0, 4), np.uint16)
        self._stack: Slots = np.empty((frequent * 8 + 64, 2), np.int32)

    @property
    def nbytes(self) -> int:
        """Bytes in use, without the table."""
        return self._lists.nbytes + 8 * self._table.roster.top + 4 * self._table.words.top

    def add(self, slots: Slots, bounds: Bounds) -> None:
        """File queries."""
        table, lists = self._table, self._lists
        top = table.words.top
        if top > len(self._levels_of):
            self._levels_of = np.append(self._levels_of, np.zeros(top + top // 2 - len(self._levels_of), np.int32))
        if table.roster.top > len(self._box):
            box = np.empty((len(table.traits), 4), np.uint16)
            box[: len(self._box)] = self._box
            self._box = box
        self._box[slots] = boxes_in_quanta(bounds, table.space)
        places, words = table.postings(slots)
        slots = slots[places]
        done = 0
        while done < len(slots) or lists.state[list_kernels.STACK_TOP] > 0:
            done = fast_kernels.fast_add(
                done, slots, words, self._box, self._frequent, self._levels, self._levels_of, self._reach,
                table.kw, table.pool, table.traits,
                lists.table, lists.nodes, lists.arena, lists.free, self._stack, lists.state,
            )  # fmt: skip
            lists.make_room()

    def discard(self, slots: Slots, bounds: Bounds) -> Slots:
        """Remove queries; their postings are skipped until the lists are written anew."""
        dead = self._lists.bury(slots, self._table)
        if dead is None:
            return slots[:0]
        self._lists.clear()
        self._levels_of[:] = 0
        self._reach[:] = 0
        held = self._table.roster.held()
        for start in range(0, len(held), CHUNK):
            part = held[start : start + CHUNK]
            self._table.rearrange(part)
            self.add(part, self._table.bounds(part))
        return dead

    def probe(self, objects: Probe) -> Found:
        """Match objects."""
        table, lists = self._table, self._lists
        x, y = places_in_quanta(objects.x, objects.y, table.space)
        longest = int(np.diff(objects.word_off).max(initial=0))
        keys, owners = lists.asked(4 * (longest + 1) * (self._levels + 1))
        stack = np.empty(2 * longest + 8, np.int32)

        def run(start: int, out: Slots, off: Ints, examined: Ints) -> int:
            done: int = fast_kernels.fast_probe(
                start, objects.x, objects.y, x, y, objects.word_off, objects.words,
                self._levels, self._levels_of, self._reach, lists.table, lists.nodes, lists.arena,
                table.shape, table.traits, table.kw, table.pool, table.metric == "haversine", lists.present,
                keys, owners, stack, lists.runs, out, off, examined,
            )  # fmt: skip
            return done

        return lists.probe(table.words.top, len(objects.x), run)
