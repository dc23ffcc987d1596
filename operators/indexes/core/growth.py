"""Arrays with room for more rows."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["grown"]


def grown(array: NDArray[Any], room: int) -> NDArray[Any]:
    """Return an array of so many rows that begins with another; rows that are never touched are address space, not memory."""
    larger = np.empty((room, *array.shape[1:]), array.dtype)
    larger[: len(array)] = array
    return larger
