"""A clock that stands still while kernels are compiled, or loaded from the cache of those that were.

Compiling happens when a kernel is first called on a machine, and takes seconds; a throughput or a latency with that in it
says nothing of the run.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from numba.core import event

__all__ = ["KernelClock", "kernel_clock"]

#: What numba says when it compiles or loads a kernel.
_PREPARING = "numba:compiler_lock"


class KernelClock:
    """Seconds of which only differences matter, without those in which this process prepared kernels.

    Kernels may be prepared within kernels and by several threads; time stands still until the last is ready.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._under_way = 0
        self._since = 0.0
        self._lost = 0.0

    def __call__(self) -> float:
        """Return the time."""
        with self._lock:
            return (self._since if self._under_way else time.monotonic()) - self._lost

    def stop(self) -> None:
        """Stand still from now on."""
        with self._lock:
            if not self._under_way:
                self._since = time.monotonic()
            self._under_way += 1

    def go_on(self) -> None:
        """Undo a `stop`."""
        with self._lock:
            if self._under_way == 1:
                self._lost += time.monotonic() - self._since
            self._under_way = max(
                0, self._under_way - 1
            )  # 0 before: another thread had begun before the clock was made


class _Preparing(event.Listener):
    def __init__(self, clock: KernelClock) -> None:
        self._clock = clock

    def on_start(self, _event: event.Event) -> None:
        self._clock.stop()

    def on_end(self, _event: event.Event) -> None:
        self._clock.go_on()


@contextmanager
def kernel_clock() -> Iterator[KernelClock]:
    """Yield a clock."""
    clock = KernelClock()
    with event.install_listener(_PREPARING, _Preparing(clock)):
        yield clock
