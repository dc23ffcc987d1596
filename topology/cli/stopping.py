"""Ctrl-C: the first drains the epochs under way and ends cleanly, the second ends at once."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["stop_on_interrupt"]


@contextmanager
def stop_on_interrupt() -> Iterator[Callable[[], bool]]:
    """Yield a function that tells whether somebody has asked to stop (Ctrl-C, or a polite kill)."""
    stop = threading.Event()

    def handle(number: int, _frame: FrameType | None) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop.is_set
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
