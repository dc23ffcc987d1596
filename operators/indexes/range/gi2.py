"""GI2: a uniform grid with an inverted list for each keyword in each cell; the baseline of Tornado and of PS2Stream.

A query is filed in every cell that it overlaps, under its least frequent keyword (under each where any will do).
"""

import numpy as np
from numpy.typing import NDArray

from operators.indexes.core.query_table import QueryTable
from operators.indexes.core.structure import Bounds, Found, Probe
from operators.indexes.range import gi2_kernels
from operators.indexes.range.keyed_lists import KeyedLists
from partitioners.grids.fine_grid import FineGrid
from streams.errors import DeclarationError

__all__ = ["GI2"]

Ints = NDArray[np.int64]
Slots = NDArray[np.int32]

#: Queries that are filed at a time when the lists are written anew.
CHUNK = 8192


class GI2:
    """The structure of the grid-inverted index.

    Options:
        side: cells on each side of the grid.
        most_cells: a query that overlaps more cells is filed once, in lists that every object reads, because copies of
            a space-filling query in all cells would cost more than they save.
    """

    def __init__(self, table: QueryTable, side: int = 64, most_cells: int = 256) -> None:
        if not 1 <= side <= 4096:
            raise DeclarationError(f"side = {side}, expected a whole number from 1 to 4096")
        if not 1 <= most_cells <= 1 << 20:
            raise DeclarationError(f"most_cells = {most_cells}, expected a whole number from 1 to {1 << 20}")
        self._table = table
        self._grid = FineGrid(table.space, side, side)
        self._most_cells = most_cells
        self._lists = KeyedLists()

    @property
    def nbytes(self) -> int:
        """Bytes in use, without the table."""
        return self._lists.nbytes

    def add(self, slots: Slots, bounds: Bounds) -> None:
        """File queries in the cells they overlap."""
        side, lists = self._grid.columns, self._lists
        low, high = self._grid.cells_of(bounds[:, 0], bounds[:, 1]), self._grid.cells_of(bounds[:, 2], bounds[:, 3])
        span = np.column_stack([low % side, low // side, high % side, high // side]).astype(np.int32)
        places, words = self._table.postings(slots)
        slots, span = slots[places], np.ascontiguousarray(span[places])
        done = 0
        while done < len(slots):
            done = gi2_kernels.gi2_add(
                done, slots, words, span, side, self._most_cells,
                lists.table, lists.nodes, lists.arena, lists.free, lists.state,
            )  # fmt: skip
            lists.make_room()

    def discard(self, slots: Slots, bounds: Bounds) -> Slots:
        """Remove queries; their postings are skipped until the lists are written anew."""
        dead = self._lists.bury(slots, self._table)
        if dead is None:
            return slots[:0]
        self._lists.clear()
        held = self._table.roster.held()
        for start in range(0, len(held), CHUNK):
            part = held[start : start + CHUNK]
            self.add(part, self._table.bounds(part))
        return dead

    def probe(self, objects: Probe) -> Found:
        """Match objects."""
        table, lists, side = self._table, self._lists, self._grid.columns
        cell = self._grid.cells_of(objects.x, objects.y).astype(np.int32)
        longest = int(np.diff(objects.word_off).max(initial=0))
        keys, owners = lists.asked(2 * (longest + 1))
        runs = lists.runs if len(keys) <= len(lists.runs) else np.empty((len(keys), 4), np.int32)

        def run(start: int, out: Slots, off: Ints, examined: Ints) -> int:
            done: int = gi2_kernels.gi2_probe(
                start, objects.x, objects.y, cell, side, objects.word_off, objects.words,
                lists.table, lists.nodes, lists.arena, lists.state,
                table.shape, table.traits, table.kw, table.pool, table.metric == "haversine", lists.present,
                keys, owners, runs, out, off, examined,
            )  # fmt: skip
            return done

        return lists.probe(table.words.top, len(objects.x), run)
