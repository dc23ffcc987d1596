"""What filing in KAG and taking out will touch is asked for ahead; `kag_group_kernels` has the layout."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from operators.indexes.range.kag_group_kernels import BASE, COUNT, ORIGIN, SIDE, _shift
from streams.kernel import lean_kernel
from streams.prefetch import prefetch

Int = Any  # a machine integer, numpy's or Python's
Slots = NDArray[np.int32]
Postings = NDArray[np.uint32]


@lean_kernel
def _hint(
    i: Int, words: Slots, box: Slots, directory: Slots, groups: Slots, cells: Slots, postings: Postings, filing: bool
) -> None:
    """Ask for what the next postings of a batch will touch: the further ahead, the earlier the stage.

    Filing moves postings up to the end of the row, taking out touches one cell. Only the first group of a word is looked at,
    and the cell is the likely one: rounding may set it off by one.
    """
    last = words.shape[0] - 1
    prefetch(directory, words[min(i + 16, last)])
    prefetch(groups, 8 * np.int64(directory[words[min(i + 11, last)]]))
    for ahead in (7, 3):
        n = min(i + ahead, last)
        g = np.int64(directory[words[n]])
        if g < 0:
            continue
        side, base = np.int64(groups[g, SIDE]), np.int64(groups[g, BASE])
        shift, origin = _shift(g, groups), np.int64(groups[g, ORIGIN])
        x = ((np.int64(box[n, 0]) + box[n, 2]) >> (1 + shift)) - ((origin & 0xFFFF) << 15)
        y = ((np.int64(box[n, 1]) + box[n, 3]) >> (1 + shift)) - ((origin >> 16 & 0xFFFF) << 15)
        if side > 1 and (x | y) >> 16 == 0:
            base += ((y * side) >> 16) * (side + 2)
            entry = base + 1 + ((x * side) >> 16)
            if ahead == 7:
                prefetch(cells, entry)
                if filing:
                    prefetch(cells, base)
                    prefetch(cells, base + 1 + side)
            elif filing:
                prefetch(postings, 4 * np.int64(cells[entry + 1]))
                prefetch(postings, 4 * np.int64(cells[base + 1 + side]))
            else:
                prefetch(postings, 4 * np.int64(cells[entry]))
                prefetch(postings, 4 * np.int64(cells[entry + 1]) - 4)
        elif side == 1 and ahead == 7:
            prefetch(postings, 4 * base)
            if not filing:
                prefetch(postings, 4 * (base + np.int64(groups[g, COUNT]) - 1))
