"""Event time over a column of non-decreasing timestamps, and the sliding window of a topology."""

from dataclasses import dataclass

import numpy as np

from streams.columns import Ints
from streams.errors import DeclarationError

__all__ = ["MAX_WINDOW", "Window", "rows_upto"]

#: The largest window, so that a row or a timestamp of this age plus a window is still an int64.
MAX_WINDOW = 1 << 61

_INT64 = np.iinfo(np.int64)


def rows_upto(ts: Ints, time: int) -> int:
    """Return how many rows have a timestamp <= time: the end of the slice of all input up to it.

    Any Python integer is a time: ``ts - window`` of a very long window must not wrap around.
    """
    if time < _INT64.min:
        return 0
    return int(np.searchsorted(ts, np.int64(min(time, _INT64.max)), side="right"))


@dataclass(frozen=True, slots=True)
class Window:
    """The sliding window of a topology: the last `objects` objects, or those of the last `ms` milliseconds."""

    objects: int | None = None
    ms: int | None = None

    def __post_init__(self) -> None:
        given = [(name, size) for name, size in (("objects", self.objects), ("ms", self.ms)) if size is not None]
        if len(given) != 1:
            raise DeclarationError(
                f"a sliding window has a number of objects or of milliseconds, found {dict(given) or 'neither'}; "
                "set one of topology.window.objects and topology.window.ms"
            )
        name, size = given[0]
        if not 1 <= size <= MAX_WINDOW:
            raise DeclarationError(f"topology.window.{name} is {size}, expected an integer from 1 to {MAX_WINDOW}")

    def first(self, ts: Ints, seen: int, now: int) -> int:
        """Return the row of the oldest object in the window when `seen` objects have come and it is `now`."""
        if self.objects is not None:
            return max(seen - self.objects, 0)
        assert self.ms is not None
        return min(rows_upto(ts, now - self.ms), seen)
