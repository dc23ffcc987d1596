"""A kernel that judges which objects come too late to be put in order of time."""

import numpy as np
from numpy.typing import NDArray

from streams.kernel import kernel

__all__ = ["COUNT", "FLOOR", "NEVER", "TOP", "judge_times"]

Ints = NDArray[np.int64]

#: Places in the cursor of `judge_times`: the largest time accepted, the time before which nothing is accepted any more,
#: how many objects were accepted.
TOP, FLOOR, COUNT = 0, 1, 2

#: The time before all others.
NEVER = int(np.iinfo(np.int64).min)


@kernel
def judge_times(
    ts: Ints, bad: NDArray[np.bool_], lateness: int, cursor: Ints, tops: Ints, late: NDArray[np.bool_], before: Ints
) -> None:
    """Tell which times are too late, one after the other; rows that are `bad` do not count.

    `tops` is a ring: what the largest time was after each of the last objects that were accepted. An object waits until one
    comes that is `lateness` newer, or until as many as the ring holds have been accepted after it; what is older than such
    an object is late. `before` has, for what is late, the time that it would have had to reach.
    """
    top, floor, count = cursor[TOP], cursor[FLOOR], cursor[COUNT]
    room = len(tops)
    for row in range(len(ts)):
        if bad[row]:
            continue
        if ts[row] < floor:
            late[row] = True
            before[row] = floor
            continue
        if ts[row] > top:
            top = ts[row]
            floor = max(floor, top - lateness)
        place = count % room
        if count >= room:
            floor = max(floor, tops[place])
        tops[place] = top
        count += 1
    cursor[TOP], cursor[FLOOR], cursor[COUNT] = top, floor, count
