"""How numba compiles our kernels: one set of flags, in one place."""

import gc
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
from numba.core import event

__all__ = ["KERNEL_FLAGS", "kernel", "lean_kernel"]

#: Compiled once a machine, and free of the interpreter's lock while they run. That references to arrays are counted is said,
#: because a kernel that is first called by a lean one would be compiled like it.
KERNEL_FLAGS: dict[str, Any] = {"cache": True, "nogil": True, "_nrt": True}

Function = TypeVar("Function", bound=Callable[..., Any])


def kernel(function: Function) -> Function:
    """Compile a function over scalars and arrays; its types stay visible to the type checker."""
    return cast("Function", numba.njit(**KERNEL_FLAGS)(function))


def lean_kernel(function: Function) -> Function:
    """Compile a function that takes no memory of its own: references to arrays are not counted in it.

    A kernel that passes arrays on counts them for each call, with locked instructions. Where it does so for every row, that
    costs more than the row.
    """
    return cast("Function", numba.njit(**{**KERNEL_FLAGS, "_nrt": False})(function))


class _Uncollected(event.Listener):
    """Keeps Python's collector of cycles still while a kernel is compiled.

    Compiling makes a great many objects that live until it is done, which the collector looks through time and again: a sixth
    of the processor time of a first run. Kernels are compiled within kernels, under a lock of numba's.
    """

    def __init__(self) -> None:
        self._depth = 0
        self._collecting = False

    def on_start(self, _event: event.Event) -> None:
        if not self._depth:
            self._collecting = gc.isenabled()
            gc.disable()
        self._depth += 1

    def on_end(self, _event: event.Event) -> None:
        self._depth -= 1
        if not self._depth and self._collecting:
            gc.enable()


event.register("numba:compile", _Uncollected())  # type: ignore[no-untyped-call]
