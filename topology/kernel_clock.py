"""A clock that stands still while kernels are compiled, or loaded from the cache of those that were.

Compiling happens when a kernel is first called on a machine, and takes seconds; a throughput or a latency with that in it
says nothing of the run.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from numba.core import event

__all__ = ["KernelClock", "compilations", "kernel_clock"]

#: What numba says when it compiles or loads a kernel, and when it really compiles one.
_PREPARING, _COMPILING = "numba:compiler_lock", "numba:compile"


class KernelClock:
    """Seconds of which only differences matter, without those in which this process prepared kernels.

    Kernels may be prepared within kernels and by several threads; time stands still until the last is ready.

    Attributes:
        compiled: kernels that were compiled since the clock was made; those of the cache do not count.
    """

    def __init__(self, on_compile: Callable[[], object] = lambda: None) -> None:
        self._on_compile = on_compile
        self._lock = threading.Lock()
        self._under_way = 0
        self._since = 0.0
        self._lost = 0.0
        self.compiled = 0

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

    def compiling(self) -> None:
        """Note that a kernel is being compiled; the first is reported."""
        self.compiled += 1
        if self.compiled == 1:
            self._on_compile()


class _Preparing(event.Listener):
    def __init__(self, clock: KernelClock) -> None:
        self._clock = clock

    def on_start(self, _event: event.Event) -> None:
        self._clock.stop()

    def on_end(self, _event: event.Event) -> None:
        self._clock.go_on()


class _Compiling(event.Listener):
    def __init__(self, clock: KernelClock) -> None:
        self._clock = clock

    def on_start(self, _event: event.Event) -> None:
        self._clock.compiling()

    def on_end(self, _event: event.Event) -> None:
        pass


@contextmanager
def kernel_clock(on_compile: Callable[[], object] = lambda: None) -> Iterator[KernelClock]:
    """Yield a clock; `on_compile` is called when the first kernel is compiled, which takes a while."""
    clock = KernelClock(on_compile)
    with (
        event.install_listener(_PREPARING, _Preparing(clock)),
        event.install_listener(_COMPILING, _Compiling(clock)),
    ):
        yield clock


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
    with event.install_listener(_COMPILING, _Counting(told)):
        yield
