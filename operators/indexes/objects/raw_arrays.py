"""Arrays by their addresses, for kernels that go through many of them.

Segments come and go one by one, and a kernel cannot be given a list of arrays that changes its length with every call. So it
is given a table of addresses and lengths; whoever makes the table keeps the arrays alive for as long as it is in use.
"""

from typing import Any

import numpy as np
from numba import carray, types  # type: ignore[attr-defined]
from numba.extending import intrinsic

from streams.kernel import kernel

__all__ = ["doubles_at", "ints_at", "longs_at", "singles_at"]


def _pointer(typing_context: Any, address: Any) -> Any:
    """Return an address as a pointer."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

    return types.voidptr(types.int64), generate


pointer: Any = intrinsic(_pointer)


@kernel
def ints_at(address: Any, length: Any) -> Any:
    """Return the int32 array at an address."""
    return carray(pointer(address), (length,), np.int32)


@kernel
def singles_at(address: Any, length: Any) -> Any:
    """Return the float32 array at an address."""
    return carray(pointer(address), (length,), np.float32)


@kernel
def longs_at(address: Any, length: Any) -> Any:
    """Return the int64 array at an address."""
    return carray(pointer(address), (length,), np.int64)


@kernel
def doubles_at(address: Any, length: Any) -> Any:
    """Return the float64 array at an address."""
    return carray(pointer(address), (length,), np.float64)
