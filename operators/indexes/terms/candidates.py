"""Candidates with a bound on every other term: only what entered or left a window since its last instant is counted.

Objects stand in blocks by time, in the order of cells (`cell_blocks`); each query has some candidates
(`candidate_kernels`). The answers of a call are worked out place by place, so that neighbours find the objects that
they share in the caches.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from operators.indexes.core.growth import grown
from operators.indexes.core.query_table import QueryTable
from operators.indexes.core.words import Words
from operators.indexes.terms.brute_force import counted_plainly
from operators.indexes.terms.candidate_kernels import count_terms
from operators.indexes.terms.cell_blocks import CellBlocks
from operators.indexes.terms.term_window import TermWindow
from operators.indexes.terms.terms_index import Asked, Counts
from streams.columns import csr_places
from streams.errors import DeclarationError
from streams.geometry import EARTH_RADIUS_M

__all__ = ["Candidates"]

Ints = NDArray[np.int64]
Slots = NDArray[np.int32]

#: Candidates of a query, at least so many for each term that it wants.
A_TERM = 2
#: Blocks that are looked at together.
DIVIDED = 32


class Candidates:
    """The structure of ours.

    Options:
        candidates: candidates of a query, at least.
        sizes: objects of a block, from small to large; each divides the next.
    """

    def __init__(
        self,
        table: QueryTable,
        window: TermWindow,
        candidates: int = 48,
        sizes: Sequence[int] = (2048, 8192, 32_768, 131_072),
    ) -> None:
        if candidates < 1:
            raise DeclarationError(f"candidates = {candidates}, expected at least 1")
        self._table, self._window, self._least = table, window, candidates
        self._terms = Words()
        self._blocks = CellBlocks(table.space, self._terms, sizes)
        #: By slot: box, half the radius as `candidate_kernels` wants it, place in the order of places.
        self._box: NDArray[np.float64] = np.empty((0, 4))
        self._half: NDArray[np.float64] = np.empty(0)
        self._place: Slots = np.empty(0, np.int32)
        #: By slot: where candidates are, for how many there is room, how many there are, the bound, and over which rows.
        self._at: Ints = np.empty(0, np.int64)
        self._room: Slots = np.empty(0, np.int32)
        self._held: Slots = np.empty(0, np.int32)
        self._bound: Slots = np.empty(0, np.int32)
        self._since: Ints = np.empty(0, np.int64)
        self._upto: Ints = np.empty(0, np.int64)
        self._candidates: Slots = np.empty((0, 2), np.int32)
        self._top = 0
        self._free: dict[int, list[int]] = {}
        #: By word of the table: its number among the terms.
        self._term_of: Slots = np.empty(0, np.int32)
        self._acc: Slots = np.zeros(0, np.int32)
        self._touched: Slots = np.empty(0, np.int32)
        self._hist: Slots = np.zeros(0, np.int32)
        self._found: Slots = np.empty(0, np.int32)
        self._divided: Ints = np.empty((DIVIDED, 3), np.int64)
        self._items = 4096
        self.enumerated = 0

    _BY_SLOT = ("_box", "_half", "_place", "_at", "_room", "_held", "_bound", "_since", "_upto")

    @property
    def nbytes(self) -> int:
        """Bytes in use."""
        rows = sum(getattr(self, name)[:1].nbytes for name in self._BY_SLOT) * self._table.roster.top
        scratch = self._acc.nbytes + self._touched.nbytes + self._hist.nbytes + self._found.nbytes
        return int(rows + 8 * self._top + scratch + self._terms.nbytes + self._blocks.nbytes + self._term_of.nbytes)

    # --- queries -----------------------------------------------------------------------------------------------------

    def add(self, slots: Slots) -> None:
        """Take in queries; their candidates are found with the first answer."""
        table = self._table
        if table.roster.top > len(self._at):
            for name in self._BY_SLOT:
                setattr(self, name, grown(getattr(self, name), 3 * table.roster.top + 64))
        self._box[slots] = table.bounds(slots)
        angle = np.minimum(np.abs(table.shape[slots, 2]) / EARTH_RADIUS_M * 0.5, np.pi / 2)
        self._half[slots] = np.sin(angle) ** 2
        self._place[slots] = self._codes(self._box[slots])
        wanted = np.maximum(A_TERM * table.k_of(slots), self._least)
        self._room[slots] = wanted
        self._held[slots] = -1
        self._at[slots] = [self._block(int(room)) for room in wanted]
        if self._top > len(self._candidates):
            self._candidates = grown(self._candidates, 2 * self._top)
        if len(words := table.words_of(slots)[1]):
            if table.words.top > len(self._term_of):
                self._term_of = grown(self._term_of, 2 * table.words.top)
            self._term_of[words] = self._terms.number(table.words.raw[words])

    def _codes(self, box: NDArray[np.float64]) -> Slots:
        """Return where queries are, along a curve through the space that keeps neighbours near each other."""
        low_x, low_y, per_x, per_y = self._blocks.scale
        with np.errstate(invalid="ignore"):
            centre = np.nan_to_num((box[:, :2] + box[:, 2:]) / 2)
        x = np.clip((centre[:, 0] - low_x) * per_x * 1024, 0, 1023).astype(np.int64)
        y = np.clip((centre[:, 1] - low_y) * per_y * 1024, 0, 1023).astype(np.int64)
        code = np.zeros(len(box), np.int64)
        for bit in range(10):
            code |= ((x >> bit) & 1) << (2 * bit) | ((y >> bit) & 1) << (2 * bit + 1)
        return code.astype(np.int32)

    def _block(self, room: int) -> int:
        """Return where there is room for so many candidates."""
        if free := self._free.get(room):
            return free.pop()
        self._top += room
        return self._top - room

    def discard(self, slots: Slots) -> Slots:
        """Remove queries; the room of their candidates is used again."""
        for room, at in zip(self._room[slots].tolist(), self._at[slots].tolist(), strict=True):
            self._free.setdefault(room, []).append(at)
        words = self._table.words_of(slots)[1]
        self._terms.release(self._term_of[words])
        return slots

    # --- objects -----------------------------------------------------------------------------------------------------

    def append(self, first: int) -> None:
        """Take in objects."""
        if self._blocks.stop == self._blocks.base:
            self._blocks.base = self._blocks.stop = first
        self._blocks.append(self._window.objects(first, self._window.stop))

    def forget(self, first: int) -> None:
        """Let old objects go, from time to time."""
        self._blocks.forget(first)

    # --- answers -----------------------------------------------------------------------------------------------------

    def count(self, asked: Asked) -> Counts:
        """Count what entered and left, or the whole region where that is needed."""
        table, blocks, n = self._table, self._blocks, len(asked)
        rows = blocks.stop - blocks.base
        self._scratch(rows)
        order = np.lexsort((asked.stop, self._place[asked.slots]))
        tally, unsure = np.zeros(3, np.int64), np.zeros(n, np.bool_)
        off = np.zeros(n + 1, np.int64)
        term, count = np.empty(self._items, np.int32), np.empty(self._items, np.int32)
        done, need = 0, 0
        entries, *residuals = table.residuals.columns
        excluded = table.residuals.none_of(asked.slots)
        none = excluded[0], self._terms.find(excluded[1])  # -1 for a term that no object has
        while done < n:
            if need > len(term):
                self._items = 2 * need
                term, count = grown(term[: off[done]], self._items), grown(count[: off[done]], self._items)
            done, need = count_terms(
                done, order, asked.slots, asked.first, asked.stop, asked.k, asked.whole, blocks.base,
                table.metric == "haversine", self._box, self._half, table.shape, table.traits, table.kw, table.pool,
                self._term_of, blocks.geometry, blocks.scale, blocks.points, blocks.starts,
                blocks.word_off, blocks.words, self._candidates, self._at, self._room, self._held, self._bound,
                self._since, self._upto, self._divided, self._found, self._acc, self._touched, self._hist, off,
                term, count, tally, unsure, entries, tuple(residuals), *none,
            )  # fmt: skip
        self.enumerated += int(tally[2])
        found = self._in_order(order, off, self._terms.raw[term[: off[n]]], count[: off[n]].astype(np.int64), tally)
        return self._settled(asked, found, unsure) if unsure.any() else found

    def _scratch(self, rows: int) -> None:
        """Make room for the counts of all terms and the rows of all objects."""
        if self._terms.top + 1 > len(self._acc):
            room = 2 * self._terms.top + 64
            self._acc, self._touched = np.zeros(room, np.int32), np.empty(room, np.int32)
        if rows + 2 > len(self._hist):
            self._hist = np.zeros(2 * rows + 64, np.int32)
            self._found = np.empty(2 * rows + 64, np.int32)

    @staticmethod
    def _in_order(order: Ints, off: Ints, term: Ints, count: Ints, tally: Any) -> Counts:
        """Return answers, which are in the order of places, as they were asked for."""
        back = np.empty(len(order), np.int64)
        back[order] = np.arange(len(order))
        new_off, source = csr_places(off.astype(np.int32), back)
        return Counts(new_off.astype(np.int64), term[source], count[source], int(tally[0]), int(tally[1]))

    def _settled(self, asked: Asked, found: Counts, unsure: NDArray[np.bool_]) -> Counts:
        """Return answers with those filled in that only `streams.geometry` can give: an object is on the very border."""
        lists = []
        for row, plainly in enumerate(unsure.tolist()):
            if plainly:
                terms, counts, _ = counted_plainly(self._table, self._window, asked, row)
                lists.append((terms, counts))
            else:
                start, stop = found.off[row : row + 2]
                lists.append((found.term[start:stop], found.count[start:stop]))
        return Counts.of(lists, found.examined, found.counted)
