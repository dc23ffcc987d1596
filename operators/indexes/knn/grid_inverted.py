"""DkM-SKS's index (Section 4.3): a uniform grid, in each cell an inverted file of the subscriptions whose balls overlap it."""

import numpy as np
from numpy.typing import NDArray

from operators.indexes.core.query_table import QueryTable
from operators.indexes.core.structure import Probe
from operators.indexes.knn.ball_grid import BallGrid
from operators.indexes.knn.knn_index import Near
from operators.indexes.knn.nearest_lists import NearestLists

__all__ = ["GridInverted"]

Slots = NDArray[np.int32]


class GridInverted:
    """The structure of the grid of inverted files.

    The paper does not bound how many cells hold a subscription: one whose list is not full yet would be in all of them. Here
    it is in one inverted file beside the grid, which every object reads, until its ball fits into `most_cells`.

    Options:
        side: cells on each side of the grid.
        most_cells: cells that hold a subscription, at most.
    """

    def __init__(self, table: QueryTable, lists: NearestLists, side: int = 64, most_cells: int = 16) -> None:
        self._balls = BallGrid(table, lists, side, most_cells, by_word=True)

    def add(self, slots: Slots) -> None:
        """File subscriptions in the cells that their balls overlap, under their words."""
        self._balls.add(slots)

    def discard(self, slots: Slots) -> Slots:
        """Remove subscriptions; long lists are cleaned later."""
        return self._balls.discard(slots)

    def shrink(self, slots: Slots, near: Near | None = None) -> None:
        """Let balls leave cells, or enter the grid."""
        self._balls.shrink(slots)

    def probe(self, objects: Probe, first: int, *, everything: bool = False) -> Near:
        """Read the lists of each object's words in its cell, and those beside the grid."""
        return self._balls.probe(objects, first, everything=everything)

    @property
    def nbytes(self) -> int:
        """Bytes in use, without table and lists."""
        return self._balls.nbytes
