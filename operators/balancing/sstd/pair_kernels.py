"""Kernel: how many queries each of some objects would have to be held against."""

import numpy as np

from partitioners.columns import Floats
from streams.kernel import kernel

__all__ = ["pairs_of_objects"]


@kernel
def pairs_of_objects(x: Floats, y: Floats, bounds: Floats, weight: Floats) -> Floats:
    """Return for each object the weight of the queries whose bounds (queries x 4) hold it."""
    out = np.zeros(len(x))
    for i in range(len(x)):
        for q in range(len(weight)):
            if bounds[q, 0] <= x[i] <= bounds[q, 2] and bounds[q, 1] <= y[i] <= bounds[q, 3]:
                out[i] += weight[q]
    return out
