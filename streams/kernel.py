"""How numba compiles our kernels: one set of flags, in one place."""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

__all__ = ["KERNEL_FLAGS", "kernel"]

#: Compiled once a machine, and free of the interpreter's lock while they run.
KERNEL_FLAGS: dict[str, Any] = {"cache": True, "nogil": True}

Function = TypeVar("Function", bound=Callable[..., Any])


def kernel(function: Function) -> Function:
    """Compile a function over scalars and arrays; its types stay visible to the type checker."""
    return cast("Function", numba.njit(**KERNEL_FLAGS)(function))
