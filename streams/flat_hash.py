"""Where a key stands in a flat hash: one function for all tables that kernels search."""

from typing import Any

import numpy as np

from streams.kernel import lean_kernel

__all__ = ["place_of"]


@lean_kernel
def place_of(key: Any, places: Any) -> Any:
    """Return the first place of a key: the top 31 bits of a Fibonacci hash, scaled to the table."""
    mixed = np.int64(key) * np.int64(-7046029254386353131)
    return (((mixed >> 33) & 0x7FFFFFFF) * places) >> 31
