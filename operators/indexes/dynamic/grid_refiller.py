"""The paper's refillers (Section VI), and the one that it compares itself with: GPCL, GCL and kmax, over the grid of objects.

All keep ranked lists; they differ in what a list has room for, and in what is known when it runs short:

    gpcl    k objects, and a partial cell list; the next best are searched for in its cells (Algorithm 5)
    gcl     k objects, and a list of all cells; the whole list is searched for again, best cells first (Algorithm 2)
    kmax    up to kmax objects, and no cell list; when fewer than k are left, kmax are searched for in all cells (Yi et al.)

A batch of states is one step. Objects leave their lists, those that are good enough enter, cell lists are checked, and what is
short then is filled from the grid, which has all new states. With batches of one state this is the paper's algorithm.

Distances are those of the plane: minscore needs the farthest point of a cell.
"""

import numpy as np

from operators.indexes.dynamic import cell_list_kernels as kernels
from operators.indexes.dynamic.cell_bounds import Asked, Plane
from operators.indexes.dynamic.cell_list_kernels import Batch
from operators.indexes.dynamic.cell_lists import CellLists, Scratch, batch_of
from operators.indexes.dynamic.cost_model import FINEST, MEASURED, UnitCosts, Workload, best_side
from operators.indexes.dynamic.dynamic_index import Floats, Slots
from operators.indexes.dynamic.object_grid import ObjectGrid
from operators.indexes.dynamic.object_rows import COUNT, X, Y
from operators.indexes.dynamic.object_table import ObjectTable
from operators.indexes.dynamic.ranked_kernels import CHANGED, RETUNED
from operators.indexes.dynamic.ranked_lists import RankedLists
from operators.indexes.topk.frame import frame_of
from operators.indexes.topk.scored_pairs import KnownMessages, known_messages
from operators.indexes.topk.scored_table import COUNT as WORDS
from operators.indexes.topk.subscriptions import ScoredSubscriptions
from streams.columns import Ints
from streams.errors import DeclarationError

__all__ = ["GridRefiller", "gcl", "gpcl", "kmax"]

#: The grid is chosen anew when there are so many times more, or fewer, objects than it was chosen for, and at least so many.
RECHOSEN, LEAST = 4, 256


class GridRefiller:
    """Ranked lists over a grid of objects.

    Args:
        objects: the current states.
        queries: the rows of queries.
        n: cells to a side; 0 for what the cost model says.
        units: the prices of the cost model.
        factor: room of a list as a multiple of k.
        cell_lists: of the queries, or none.

    Attributes:
        theta, examined, searches: see `dynamic_index.Refiller`.
        checks, recreated: cells that were checked with a cell list; cell lists that were made.
    """

    def __init__(
        self, objects: ObjectTable, queries: ScoredSubscriptions, n: int, units: UnitCosts, factor: float,
        cell_lists: CellLists | None,
    ) -> None:  # fmt: skip
        if not 0 <= n <= FINEST:
            raise DeclarationError(
                f"n = {n}, expected 1 to {FINEST} cells to a side, or 0 for as many as the model says"
            )
        self._objects, self._queries, self._n, self._units, self._factor = objects, queries, n, units, factor
        self._cell_lists = cell_lists
        self._frame = frame_of(queries.table.space, "euclidean")
        self._grid = ObjectGrid(objects, self._frame, n or 1)
        self._chosen_for = 0
        self._lists = RankedLists(objects)
        self._scratch = Scratch()
        self._fresh: set[int] = set()
        self._was: tuple[Slots, Slots, KnownMessages] | None = None
        self._batch: Batch | None = None
        self._ousted: Slots = np.empty((0, 2), np.int32)
        self._moves = np.zeros(2)
        self.theta: Floats = self._lists.columns.theta
        self.examined = self.searches = 0

    @property
    def n(self) -> int:
        """Cells to a side."""
        return self._grid.n

    @property
    def checks(self) -> int:
        """Cells that were checked."""
        return int(self._scratch.tally[kernels.CHECKED])

    @property
    def recreated(self) -> int:
        """Cell lists that were made."""
        return int(self._scratch.tally[kernels.RECREATED])

    @property
    def nbytes(self) -> int:
        """Bytes in use, without the tables."""
        own = self._lists.nbytes + self._grid.nbytes + self._scratch.marks.nbytes
        return own + (self._cell_lists.nbytes if self._cell_lists is not None else 0)

    # --- queries -----------------------------------------------------------------------------------------------------

    def open(self, slots: Slots, k: Slots) -> None:
        """Keep lists for queries."""
        room = np.maximum(np.round(self._factor * k), k).astype(np.int32)
        self._lists.open(slots, k, room)
        self.theta = self._lists.columns.theta
        if self._cell_lists is not None:
            self._cell_lists.reserve(len(self.theta))
        self._fresh.update(slots.tolist())

    def close(self, slots: Slots) -> None:
        """Forget lists."""
        self._lists.close(slots)
        self._fresh.difference_update(slots.tolist())
        if self._cell_lists is not None:
            self._cell_lists.drop(slots)

    def renumber(self, old: Slots) -> None:
        """Follow the table of queries."""
        place = {slot: at for at, slot in enumerate(old.tolist())}
        self._fresh = {place[slot] for slot in self._fresh}
        self._lists.renumber(old)
        self.theta = self._lists.columns.theta
        if self._cell_lists is not None:
            self._cell_lists.renumber(old)

    def retuned(self) -> Slots:
        """Return the queries whose threshold may be another one."""
        return self._lists.flagged(RETUNED)

    def changed(self) -> Slots:
        """Return the queries whose list may be another one."""
        return self._lists.flagged(CHANGED)

    def lists(self, slots: Slots) -> tuple[Ints, Slots, Floats]:
        """Return the lists of queries."""
        return self._lists.results(slots)

    # --- a batch -----------------------------------------------------------------------------------------------------

    def leave(self, objects: Slots) -> None:
        """Take objects out of lists and grid."""
        self._lists.leave(objects)
        known = known_messages(self._objects.states(objects), self._queries.table)
        self._was = objects, self._grid.cell_of[objects], known
        self._grid.leave(objects)

    def arrive(self, objects: Slots) -> None:
        """Put objects into the grid."""
        self._lists.arrive()
        gone, old_cells, old = self._was or (objects[:0], objects[:0], None)
        self._was = None
        if not self._n and self._outgrown():
            self._choose()
            return
        self._grid.enter(objects)
        if self._cell_lists is None and self._n:
            return
        by_slot = np.argsort(gone)
        place = np.searchsorted(gone, objects, sorter=by_slot)
        same = np.flatnonzero(place < len(gone))
        same = same[gone[by_slot[place[same]]] == objects[same]]
        of = by_slot[place[same]]
        if old is not None and len(same):
            now = self._objects.lines[objects[same]]
            self._moves += len(same), float(np.hypot(now[:, X] - old.x[of], now[:, Y] - old.y[of]).sum())
        if self._cell_lists is None or not len(self.theta):
            return
        new_cells = self._grid.cell_of[objects]
        was, becomes = np.full(len(objects), -1, np.int32), np.full(len(gone), -1, np.int32)
        was[same], becomes[of] = old_cells[of], new_cells[same]
        table = self._queries.table
        new = known_messages(self._objects.states(objects), table)
        parts = [new] if old is None else [old, new]
        cell, other = np.concatenate([old_cells, new_cells]), np.concatenate([becomes, was])
        self._batch = batch_of(parts, cell, other, table.words.top)

    def _outgrown(self) -> bool:
        now = max(len(self._objects), LEAST)
        return not self._chosen_for or now > RECHOSEN * self._chosen_for or now * RECHOSEN < self._chosen_for

    def _choose(self) -> None:
        """Choose a grid for the objects and queries that are there."""
        objects, table, lists = self._objects, self._queries.table, self._lists
        held = objects.held()
        self._chosen_for = max(len(held), LEAST)
        open_slots = np.flatnonzero(lists.k)
        load = Workload(len(held), k=float(lists.k[open_slots].mean()) if len(open_slots) else 20.0)
        if len(open_slots):
            words = max(float(objects.parts[held, COUNT].mean()) if len(held) else 1.0, 1.0)
            step = float(self._moves[1] / self._moves[0]) / self._frame.scale if self._moves[0] else load.step
            load = Workload(load.objects, load.k, step, float(table.parts[open_slots, WORDS].mean()), words)
        self._grid = ObjectGrid(objects, self._frame, best_side(load, self._units))
        self._grid.enter(held)
        if self._cell_lists is not None:
            self._cell_lists.clear()

    def enter(self, objects: Slots, slots: Slots, score: Floats) -> None:
        """Put objects into lists."""
        self._ousted = self._lists.enter(objects, slots, score)

    def refill(self) -> None:
        """Settle thresholds, keep cell lists right, and fill what has run short."""
        lists, short = self._lists, self._lists.settle()
        due = np.concatenate([short, np.array(sorted(self._fresh), np.int32)])
        self._fresh.clear()
        batch, self._batch = self._batch, None
        if not len(due) and batch is None:
            return
        asked, plane = self._asked(), self._plane()
        if batch is not None and self._cell_lists is not None:
            self._maintain(self._cell_lists, batch, asked, plane)
        self.searches += len(due)
        if self._cell_lists is None or not self._cell_lists.partial:
            lists.clear(short)  # reevaluation: what is left of a list is found again
        found = due[:0]
        if self._cell_lists is not None:
            found = self._top_up(self._cell_lists, due, asked, plane)
        self._fill(np.setdiff1d(due, found), asked, plane)
        self._filled(due, found, asked, plane)

    def _filled(self, due: Slots, found: Slots, asked: Asked, plane: Plane) -> None:
        """Set the thresholds of lists that have what there is, and make their cell lists, unless they come from these."""
        lists = self._lists
        full = lists.columns.length[due] == lists.columns.room[due]
        lists.tune(due[full])
        lists.know_all(due[~full])
        if self._cell_lists is not None:
            self._cell_lists.drop(due[~full])
            remade = np.union1d(np.setdiff1d(due[full], found), self._cell_lists.missing(due[full])).astype(np.int32)
            self._cell_lists.make(remade, lists, asked, plane, self._grid.cells(), self._scratch)
        self.examined = int(self._scratch.tally.sum())

    def adopt(self, slots: Slots, off: Ints, objects: Slots, score: Floats) -> None:
        """Begin lists, which are open and were never filled, with their objects, best first, in ragged rows.

        A row has as many as its list has room for, or all that share a keyword. The paper begins like this too: "there already
        exist some objects and queries, as well as the top-k results" (Section III-B).
        """
        self._fresh.difference_update(slots.tolist())
        self._lists.begin(slots, off, objects, score)
        self._filled(slots, slots[:0], self._asked(), self._plane())

    def rooms(self, slots: Slots) -> Slots:
        """Return how many objects lists have room for."""
        return np.asarray(self._lists.columns.room[slots])

    def _maintain(self, cell_lists: CellLists, batch: Batch, asked: Asked, plane: Plane) -> None:
        """Keep cell lists right: for states that ended and began, and for objects that had to make room."""
        lists, cells, scratch = self._lists, self._grid.cells(), self._scratch
        cell_lists.maintain(np.flatnonzero(lists.k).astype(np.int32), batch, lists, asked, plane, cells, scratch)
        slots, objects = self._ousted[:, 0].copy(), self._ousted[:, 1]
        cell_lists.check(slots, self._grid.cell_of[objects], lists, asked, plane, cells, scratch)

    def _top_up(self, cell_lists: CellLists, due: Slots, asked: Asked, plane: Plane) -> Slots:
        """Fill lists from their cell lists; return those for which that was enough."""
        lists, cells, scratch = self._lists, self._grid.cells(), self._scratch
        unlisted = cell_lists.missing(due)
        if not cell_lists.partial:
            cell_lists.make(unlisted, lists, asked, plane, cells, scratch)
            unlisted = unlisted[:0]
        listed = np.setdiff1d(due, unlisted)
        wanted = self._wanted(listed)
        missed = cell_lists.top_up(listed, wanted, lists, asked, plane, self._grid.columns(), cells, scratch)
        return np.setdiff1d(listed, missed)

    def _wanted(self, slots: Slots) -> Slots:
        """Return how many objects lists want."""
        columns = self._lists.columns
        return np.asarray(columns.room[slots] - columns.length[slots], np.int32)

    def _fill(self, slots: Slots, asked: Asked, plane: Plane) -> None:
        """Search all cells."""
        lists, scratch = self._lists, self._scratch
        lists.pool = kernels.fill(
            slots, self._wanted(slots), lists.columns, asked, plane, self._grid.columns(), self._grid.cells(),
            scratch.marks, scratch.serials(len(slots)), scratch.words, scratch.weights, scratch.upper, scratch.lower,
            scratch.found, scratch.scores, lists.backs, lists.pool, lists.free, lists.blocks, scratch.tally,
        )  # fmt: skip

    def _asked(self) -> Asked:
        """Return the columns of queries, and have scratch room for all of them."""
        table, lists = self._queries.table, self._lists
        open_slots = np.flatnonzero(lists.k)
        words = int(table.parts[open_slots, WORDS].max(initial=1))
        rooms = int(lists.columns.room[open_slots].max(initial=1))
        self._scratch.fit(words, self._grid.n**2, rooms, self._objects.top)
        word_of = self._objects.words.find(table.words.raw[: table.words.top])
        return Asked(table.lines, table.parts, table.long, table.idf, word_of)

    def _plane(self) -> Plane:
        space, table = self._frame, self._queries.table
        return Plane(float(space.low[0]), float(space.low[1]), space.scale, self._grid.n, table.max_distance)


def gpcl(
    objects: ObjectTable, queries: ScoredSubscriptions, *, n: int = 0, units: UnitCosts = MEASURED
) -> GridRefiller:
    """Make a refiller with partial cell lists (Section VI-B)."""
    return GridRefiller(objects, queries, n, units, 1.0, CellLists(partial=True))


def gcl(objects: ObjectTable, queries: ScoredSubscriptions, *, n: int = 0, units: UnitCosts = MEASURED) -> GridRefiller:
    """Make a refiller with lists of all cells (Section VI-A)."""
    return GridRefiller(objects, queries, n, units, 1.0, CellLists(partial=False))


def kmax(
    objects: ObjectTable, queries: ScoredSubscriptions, *, n: int = 0, units: UnitCosts = MEASURED, factor: float = 3.0
) -> GridRefiller:
    """Make a refiller with buffers of k to kmax objects, `factor` times k (3, as Section VIII found best)."""
    if not factor >= 1:
        raise DeclarationError(f"factor = {factor}, expected at least 1")
    return GridRefiller(objects, queries, n, units, factor, None)
