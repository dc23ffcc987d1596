"""Kernels as they are compiled, for whoever has to say why nothing seems to happen.

Kernels that are loaded, because they were compiled on this machine before, are not counted.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from numba.core import event

__all__ = ["WORTH_A_WORD", "compilations", "kernel_notice"]

#: With so many kernels one waits long enough to be told why, where it is told once.
WORTH_A_WORD = 5


class _Counting(event.Listener):
    def __init__(self, told: Callable[[int, bool], object]) -> None:
        self._told = told
        self._lock = threading.Lock()
        self._count = self._depth = 0

    def on_start(self, _event: event.Event) -> None:
        self._note(1)

    def on_end(self, _event: event.Event) -> None:
        self._note(-1)

    def _note(self, step: int) -> None:
        with self._lock:
            self._count += step > 0
            self._depth += step
            self._told(self._count, self._depth > 0)


@contextmanager
def compilations(told: Callable[[int, bool], object]) -> Iterator[None]:
    """Tell on each change how many kernels this process has compiled, and whether it compiles one now."""
    with event.install_listener("numba:compile", _Counting(told)):
        yield


def kernel_notice(tell: Callable[[int, float], object]) -> AbstractContextManager[None]:
    """Tell as each kernel begins to be compiled how many there were, and seconds since the first."""
    count, began = 0, 0.0

    def told(so_far: int, _under_way: bool) -> None:
        nonlocal count, began
        if so_far == count:
            return  # one has ended
        began = began or time.monotonic()
        count = so_far
        tell(count, time.monotonic() - began)

    return compilations(told)
