"""Which subscriptions lose a message of their result next, for kernels: a calendar of expiries.

A subscription stands for one message, the oldest of its result, or an older one. So nothing has to be known about the
subscriptions of a message: each is looked at when the window has passed what it stands for, and stands for a later one
afterwards. A new message in a result changes nothing here, because it is newer.

An epoch's expiries concern many subscriptions, so they are found by going through all, which costs less than to keep them in
order, and finds them in the order of their slots. Where few are concerned, most pages are passed over.

oldest      int32 by slot: the `seq` that it stands for, as a distance from the base; NOWHERE for none
pages       int32, one for every `PAGE` slots: none of them stands for an older one
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from streams.kernel import lean_kernel

__all__ = ["NOWHERE", "PAGE", "due_slots", "leave", "stand"]

Int = Any  # a machine integer, numpy's or Python's
Slots = NDArray[np.int32]

#: Later than any message.
NOWHERE = 2**31 - 1
PAGE = 256


@lean_kernel
def leave(slot: Int, oldest: Slots) -> None:
    """Let a slot stand for no message."""
    oldest[slot] = NOWHERE


@lean_kernel
def stand(slot: Int, seq: Int, oldest: Slots, pages: Slots) -> None:
    """Let a slot stand for a message, whatever it stood for."""
    oldest[slot] = seq
    pages[slot // PAGE] = min(np.int64(pages[slot // PAGE]), np.int64(seq))


@lean_kernel
def due_slots(first: Int, oldest: Slots, pages: Slots, due: Slots) -> Int:
    """Take out the slots that stand for a message older than `first`, ascending; return how many there are."""
    count = np.int64(0)
    for page in range(pages.shape[0]):
        if pages[page] >= first:
            continue
        least = np.int64(NOWHERE)
        for slot in range(page * PAGE, min((page + 1) * PAGE, oldest.shape[0])):
            if oldest[slot] < first:
                oldest[slot] = NOWHERE
                due[count] = slot
                count += 1
            else:
                least = min(least, np.int64(oldest[slot]))
        pages[page] = least
    return count
