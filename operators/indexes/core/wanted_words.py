"""Whether an object has the words of a row of a `QueryTable`: one of them, or all."""

from typing import Any

import numpy as np

from operators.indexes.core.query_table import ANY
from streams.kernel import kernel

__all__ = ["wants"]


@kernel
def wants(slot: Any, there: Any, traits: Any, kw: Any, pool: Any) -> bool:
    """Tell whether the words that are there are those of a row: one of them, or all."""
    more = kw[slot, 2] < -1
    head = np.int64(-2 - kw[slot, 2]) if more else 0
    either = bool(traits[slot] & ANY != 0)
    for nth in range(2 + pool[head] if more else 3):
        word = kw[slot, nth] if nth < 2 or not more else pool[head + nth - 1]
        if word <= 0:
            break
        if either == (there[word] != 0):
            return either
    return not either
