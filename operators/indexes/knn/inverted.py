"""KOP's index (DkM-SKS, Section 3.1): an inverted file, a list of subscriptions for each keyword, whatever their places."""

import numpy as np
from numpy.typing import NDArray

from operators.indexes.core.query_table import QueryTable
from operators.indexes.core.structure import Probe
from operators.indexes.knn.ball_lists import OBJECTS, BallLists, Boxes
from operators.indexes.knn.knn_index import Near
from operators.indexes.knn.nearest_lists import NearestLists

__all__ = ["Inverted"]

Slots = NDArray[np.int32]


class Inverted:
    """The structure of the inverted file.

    A subscription is in the list of each of its keywords, one that wants all of them in that of the least frequent, one without
    keywords in a list that every object reads. An object reads the lists of its words and looks at every ball in them.
    """

    def __init__(self, table: QueryTable, lists: NearestLists) -> None:
        self._lists = BallLists(table, lists)

    def add(self, slots: Slots) -> None:
        """File subscriptions under their words."""
        self._lists.add(slots, _one_cell(slots))

    def discard(self, slots: Slots) -> Slots:
        """Remove subscriptions; long lists are cleaned later."""
        return self._lists.discard(slots, _one_cell(slots))

    def shrink(self, slots: Slots, near: Near | None = None) -> None:
        """Take note of smaller balls."""
        self._lists.note(slots)

    def probe(self, objects: Probe, first: int, *, everything: bool = False) -> Near:
        """Read the lists of each object's words."""
        count = min(OBJECTS, len(objects.x) - first)
        return self._lists.read(objects, first, np.arange(count + 1), np.zeros(count, np.int64), everything=everything)

    @property
    def nbytes(self) -> int:
        """Bytes in use, without table and lists."""
        return self._lists.nbytes


def _one_cell(slots: Slots) -> Boxes:
    return np.zeros((len(slots), 4), np.int16)
