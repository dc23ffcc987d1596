"""A thread that writes beside the one that works gets the interpreter, also where that one gives it away for moments only.

A thread that waits for the interpreter asks for it after 5 ms in which nobody gave it away. Arrow and numpy give it away in
every other call, for a microsecond: that wakes a thread which waits, too late, and its 5 ms begin anew. So a run of small
epochs could keep a checkpoint from being written for as long as it lasted.
"""

import time

__all__ = ["MakingWay"]

#: So often a thread that writes gets the interpreter at least: once for each of its calls of the system, some thirty a file.
EVERY_SECONDS = 0.002
#: Long enough to wake up, on any machine.
NAP_SECONDS = 0.0001


class MakingWay:
    """Called by the thread that works, between two pieces of work, while another one writes."""

    def __init__(self) -> None:
        self._last = time.monotonic()

    def __call__(self) -> None:
        """Wait for a moment, if it is time."""
        if time.monotonic() - self._last >= EVERY_SECONDS:
            time.sleep(NAP_SECONDS)
            self._last = time.monotonic()
