"""What operators print in a worker, on its way to the driver: there somebody sees it.

Ray would show the output of workers too, but late, with that of its own processes, and not what is printed just before the end.
"""

import io
import sys
import threading
from typing import TextIO

__all__ = ["MOST_CHARACTERS", "Printed", "show"]

#: So much waits for its way to the driver at most; what is printed beyond that is counted.
MOST_CHARACTERS = 1 << 20


class Printed(io.TextIOBase):
    """Takes what is printed, for as long as it stands for the standard output, and passes it on to what stood there before."""

    def __init__(self, beside: TextIO, most: int = MOST_CHARACTERS) -> None:
        self._beside, self._most = beside, most
        self._lock = threading.Lock()
        self._parts: list[str] = []
        self._size = self._lost = 0

    @classmethod
    def catch(cls, frame_bytes: int) -> "Printed":
        """Stand for the standard output of this process from now on; what waits fits into a frame of so many bytes."""
        caught = cls(sys.stdout, min(MOST_CHARACTERS, frame_bytes // 8))
        sys.stdout = caught
        return caught

    def writable(self) -> bool:
        """It is."""
        return True

    def write(self, text: str) -> int:
        """Keep a text for the driver; the worker's log has it, too."""
        self._beside.write(text)
        with self._lock:
            kept = text[: self._most - self._size]
            self._lost += len(text) - len(kept)
            if kept:
                self._parts.append(kept)
                self._size += len(kept)
        return len(text)

    def flush(self) -> None:
        """Pass on what the log has."""
        self._beside.flush()

    def take(self, *, all_of_it: bool = False) -> str:
        """Return the whole lines that were printed since the last time, or everything; and how much was too much."""
        if not self._parts:
            return ""
        with self._lock:
            text, rest = "".join(self._parts), ""
            if self._lost:
                text += f"\n... and {self._lost:,} characters more, which were too many to be shown\n"
            elif not all_of_it:
                end = text.rfind("\n") + 1
                text, rest = text[:end], text[end:]
            self._parts, self._size, self._lost = [rest] if rest else [], len(rest), 0
        return text.encode("utf-8", "replace").decode()  # a lone surrogate cannot be sent


def show(text: str) -> None:
    """Print what a worker's operators have printed, where the run was started."""
    if text:
        sys.stdout.write(text)
        sys.stdout.flush()
