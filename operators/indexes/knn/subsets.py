"""SOP's index (DkM-SKS, Section 3.2): subsets of subscriptions by place, each an inverted file behind a rectangle."""

import numpy as np
from numpy.typing import NDArray

from operators.indexes.core.query_table import QueryTable
from operators.indexes.core.structure import Probe
from operators.indexes.knn.ball_grid import ball_boxes
from operators.indexes.knn.ball_lists import BallLists, Boxes
from operators.indexes.knn.knn_index import Near
from operators.indexes.knn.nearest_lists import NearestLists
from operators.indexes.knn.quarters import Quarters, divided, grow_rects, no_rects
from streams.columns import distinct
from streams.errors import DeclarationError
from streams.kernel import kernel

__all__ = ["Subsets"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Slots = NDArray[np.int32]
Numbers = NDArray[np.int16]

#: The space is divided anew when there are so many times the subscriptions of the last time.
GROWN = 2
#: Rectangles are computed anew when so many candidates for each subscription have been looked at, or one ball in so many has
#: become smaller: what that costs stays small next to what was done since. Those that the last ball without end has left prune
#: nothing until then, so they wait for one candidate for each subscription only.
LOOKED_AT, SHRUNK_SHARE = 64, 4
#: Subscriptions whose boxes are computed at a time, pairs of object and subset that are asked for at a time.
CHUNK, ASKED = 65536, 65536


@kernel
def _containing(x: Floats, y: Floats, rects: Floats, off: Ints, subsets: Ints) -> None:
    """Write for each place the subsets whose rectangles contain it."""
    count = 0
    for i in range(x.shape[0]):
        off[i] = count
        for s in range(rects.shape[0]):
            subsets[count] = s
            count += (x[i] >= rects[s, 0]) & (y[i] >= rects[s, 1]) & (x[i] <= rects[s, 2]) & (y[i] <= rects[s, 3])
    off[x.shape[0]] = count


class Subsets:
    """The structure of SOP.

    The subspaces r are the leaves of a quadtree, those of largest cost divided first, as in SOP's plan; a new subscription
    joins the subset S_r of its place. R encloses all balls of S_r, and an object reads the inverted files of those subsets
    whose R contains it. R grows at once and shrinks from time to time; one ball without end makes it as large as the space, and
    when the last of these has an end, R soon has one too.

    Options:
        subsets: how many there are, at least (theta of the paper, which is by worker).
    """

    def __init__(self, table: QueryTable, lists: NearestLists, subsets: int = 64) -> None:
        if not 1 <= subsets <= 4096:
            raise DeclarationError(f"subsets = {subsets}, expected a whole number from 1 to 4096")
        self._table, self._radii, self._wanted = table, lists, subsets
        self._lists = BallLists(table, lists)
        self._subset: Numbers = np.empty(0, np.int16)
        self._quarters = Quarters(table.space, np.array([-1], np.int32), 1)
        self._rects = no_rects(1)
        self._divided_at = 0
        self._seen: Floats = np.empty((0, 2))
        self._shrunk = self._looked_at = self._looked_at_since = 0
        #: For each subset the balls without end, and whether it had some since its R was computed.
        self._endless: Ints = np.zeros(1, np.int64)
        self._wide: NDArray[np.bool_] = np.zeros(1, np.bool_)

    @property
    def nbytes(self) -> int:
        """Bytes in use, without table and lists."""
        tree = (
            self._rects.nbytes
            + self._quarters.nodes.nbytes
            + self._seen.nbytes
            + self._endless.nbytes
            + self._wide.nbytes
        )
        return self._lists.nbytes + 2 * self._table.roster.top + tree

    def add(self, slots: Slots) -> None:
        """File subscriptions in the subsets of their places; divide these anew where there are many more by now."""
        room = len(self._table.traits)
        if room > len(self._subset):
            grown = np.empty(room, np.int16)
            grown[: len(self._subset)] = self._subset
            self._subset = grown
        if len(self._table) > GROWN * max(self._divided_at, self._wanted):
            self._divide()
        else:
            self._file(slots)

    def _file(self, slots: Slots) -> None:
        place = self._table.shape[slots]
        self._subset[slots] = self._quarters.of(place[:, 0].copy(), place[:, 1].copy())
        self._lists.add(slots, self._boxes(slots))
        self._count_endless(slots[self._lists.endless(slots)], 1)
        self._enclose(slots)

    def _count_endless(self, slots: Slots, sign: int) -> None:
        """Count balls that have no end, or have none no longer."""
        if len(slots):
            counts = np.bincount(self._subset[slots], minlength=len(self._endless))
            self._endless += sign * counts
            self._wide |= counts > 0

    def _divide(self) -> None:
        """Divide the space by the places and balls of now, and file all subscriptions again."""
        held = np.sort(self._table.roster.held())  # neighbours in a list are neighbours in memory
        place, boxes = self._table.shape[held], ball_boxes(held, self._table, self._radii)
        self._quarters = divided(self._table.space, place[:, 0], place[:, 1], boxes, self._seen, self._wanted)
        self._divided_at = len(held)
        self._rects = no_rects(self._quarters.leaves)
        self._endless = np.zeros(self._quarters.leaves, np.int64)
        self._wide = np.zeros(self._quarters.leaves, np.bool_)
        self._lists.clear()
        for start in range(0, len(held), CHUNK):
            self._file(held[start : start + CHUNK])

    def _boxes(self, slots: Slots) -> Boxes:
        """Return subsets as lists know them: each is a cell of a single row."""
        boxes = np.zeros((len(slots), 4), np.int16)
        boxes[:, 0] = boxes[:, 2] = self._subset[slots]
        return boxes

    def _enclose(self, slots: Slots) -> None:
        grow_rects(self._subset[slots], ball_boxes(slots, self._table, self._radii), self._rects)

    def discard(self, slots: Slots) -> Slots:
        """Remove subscriptions; long lists are cleaned later."""
        self._shrunk += len(slots)
        self._count_endless(slots[self._lists.endless(slots)], -1)
        return self._lists.discard(slots, self._boxes(slots))

    def shrink(self, slots: Slots, near: Near | None = None) -> None:
        """Take note of smaller balls."""
        before = distinct(slots[self._lists.endless(slots)])
        self._lists.note(slots)
        self._count_endless(before[~self._lists.endless(before)], -1)
        self._shrunk += len(slots)

    def _tighten(self) -> None:
        """Compute R anew where enough has happened since the last time: of all subsets, or of those that need it most."""
        count = len(self._table)
        if self._shrunk == 0:
            return
        if self._looked_at >= LOOKED_AT * count or SHRUNK_SHARE * self._shrunk >= count:
            self._shrunk = self._looked_at = 0
            self._compute(np.ones(len(self._rects), np.bool_))
        elif self._looked_at_since >= count and (ended := self._wide & (self._endless == 0)).any():
            self._compute(ended)

    def _compute(self, anew: NDArray[np.bool_]) -> None:
        """Compute R of some subsets anew."""
        self._looked_at_since = 0
        self._wide[anew] = self._endless[anew] > 0
        self._rects[anew] = no_rects(int(anew.sum()))
        held = self._table.roster.held()
        held = held[anew[self._subset[held]]]
        for start in range(0, len(held), CHUNK):
            self._enclose(held[start : start + CHUNK])

    def probe(self, objects: Probe, first: int, *, everything: bool = False) -> Near:
        """Read the lists of each object's words in the subsets that it may matter to."""
        self._tighten()
        stop = min(len(objects.x), first + max(1, ASKED // self._quarters.leaves))
        x, y = objects.x[first:stop], objects.y[first:stop]
        self._seen = np.column_stack([x, y])
        off, subsets = np.empty(len(x) + 1, np.int64), np.empty(len(x) * len(self._rects) + 1, np.int64)
        _containing(x, y, self._rects, off, subsets)
        near = self._lists.read(objects, first, off, subsets, everything=everything)
        self._looked_at += near.examined
        self._looked_at_since += near.examined
        return near
