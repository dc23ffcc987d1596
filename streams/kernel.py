"""How numba compiles our kernels: one set of flags, in one place."""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

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
