"""Which subscriptions lose a message of their result next, for kernels: a calendar of expiries.

A subscription stands in one bucket, that of the oldest message of its result, or of an older one. So nothing has to be
known about the subscriptions of a message, and an expiry costs those that it concerns: each is looked at when its bucket
is due, and stands in a later one afterwards. A new message in a result changes nothing here, because it is newer.

calendar    int32 rows by slot: the `seq` that it stands for, as a distance from the base; the next and the previous slot of its
            bucket, -1 for none, NOWHERE as the previous one where it stands nowhere
buckets     int32, a power of two of them, a ring: the first slot of each. Bucket of a `seq`: seq >> SHIFT
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from streams.kernel import kernel

__all__ = ["NOWHERE", "due_slots", "leave", "stand"]

Int = Any  # a machine integer, numpy's or Python's
Slots = NDArray[np.int32]

NOWHERE = -2


@kernel
def leave(slot: Int, shift: Int, calendar: Slots, buckets: Slots) -> None:
    """Take a slot out of its bucket, if it stands in one."""
    before, after = np.int64(calendar[slot, 2]), np.int64(calendar[slot, 1])
    if before == NOWHERE:
        return
    if before >= 0:
        calendar[before, 1] = after
    else:
        buckets[(np.int64(calendar[slot, 0]) >> shift) & (buckets.shape[0] - 1)] = after
    if after >= 0:
        calendar[after, 2] = before
    calendar[slot, 2] = NOWHERE


@kernel
def stand(slot: Int, oldest: Int, shift: Int, calendar: Slots, buckets: Slots) -> None:
    """Put a slot into the bucket of a message, wherever it stood."""
    leave(slot, shift, calendar, buckets)
    bucket = (np.int64(oldest) >> shift) & (buckets.shape[0] - 1)
    head = np.int64(buckets[bucket])
    calendar[slot, 0] = oldest
    calendar[slot, 1] = head
    calendar[slot, 2] = -1
    if head >= 0:
        calendar[head, 2] = slot
    buckets[bucket] = slot


@kernel
def due_slots(before: Int, first: Int, shift: Int, calendar: Slots, buckets: Slots, due: Slots) -> Int:
    """Take out the slots that stand for a message from `before` on and older than `first`; return how many.

    The last bucket may be due in part.
    """
    count = np.int64(0)
    last = min((first - 1) >> shift, (before >> shift) + buckets.shape[0] - 1)
    for bucket in range(before >> shift, last + 1):
        slot = np.int64(buckets[bucket & (buckets.shape[0] - 1)])
        while slot >= 0:
            after = np.int64(calendar[slot, 1])
            if calendar[slot, 0] < first:
                leave(slot, shift, calendar, buckets)
                due[count] = slot
                count += 1
            slot = after
    return count
