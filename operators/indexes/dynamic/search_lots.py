"""A search for many queries, some after the others, so that what is found takes bounded room."""

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from operators.indexes.dynamic.dynamic_index import Floats, Lot, Slots
from streams.columns import Ints

__all__ = ["search_lots"]

#: Objects that a search may write before its buffers are filled, beyond those of one query.
FOUND_TOGETHER = 1 << 20

#: From the first query, and where to write offsets, scores, places in the order, objects and whether these are all, to the
#: first query that there was no room for.
Kernel = Callable[[int, Ints, Floats, Ints, Slots, NDArray[np.bool_]], int]


def search_lots(wanted: Ints, kernel: Kernel) -> Iterator[Lot]:
    """Yield what a kernel finds for queries that want so many objects each."""
    count = len(wanted)
    room = min(int(wanted.sum()), FOUND_TOGETHER + int(wanted.max()))
    scores, seen, found = np.empty(room), np.empty(room, np.int64), np.empty(room, np.int32)
    ends, whole, done = np.zeros(count + 1, np.int64), np.empty(count, np.bool_), 0
    while done < count:
        ends[done] = 0
        stop = kernel(done, ends, scores, seen, found, whole)
        end = ends[stop]
        yield Lot(slice(done, stop), ends[done : stop + 1], found[:end], scores[:end], whole[done:stop])
        done = stop
