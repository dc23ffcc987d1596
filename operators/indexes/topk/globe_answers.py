"""Exact answers on the globe for message indexes whose kernels know distances but for their last bits.

A kernel's sine may differ from numpy's. So what a kernel finds says about where the last wanted message is; all that comes
near that is found in a second search, and scored by the definition.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from operators.indexes.topk.brute_messages import best_first, wanted
from operators.indexes.topk.topk_index import Answers, Requests
from streams.geometry import EARTH_RADIUS_M, distance

__all__ = ["GLOBE_ERROR", "near_requests", "scored_answers"]

Floats = NDArray[np.float64]

#: Distances on the globe by a kernel are right to this, in radians: least so at the far side of it.
GLOBE_ERROR = 1e-7


def near_requests(requests: Requests, answers: Answers, far: float, held: int) -> Requests:
    """Return requests for all that may be wanted, after the answers of a kernel; `far` is the largest distance."""
    count, margin = len(requests), 2 * GLOBE_ERROR * max(1.0, EARTH_RADIUS_M / far)
    return replace(
        requests,
        least=np.ones(count, np.int32),
        most=np.full(count, held + 1, np.int32),  # a list that is full would say that something may be left
        bound=answers.floor - margin,
        ratio=np.zeros(count),
    )


def scored_answers(requests: Requests, found: Answers, known: Floats, far: float, examined: int) -> Answers:
    """Return what is wanted of messages that were found; `known` are their x, y and cosines, row by row."""
    row = np.repeat(np.arange(len(requests)), np.diff(found.off))
    apart = distance(known[:, 0], known[:, 1], requests.x[row], requests.y[row], "haversine")
    alpha = requests.alpha[row]
    scores = alpha * (1.0 - apart / far) + (1.0 - alpha) * known[:, 2]
    off, floor, kept = np.zeros(len(requests) + 1, np.int64), np.empty(len(requests)), []
    for r in range(len(requests)):
        part = slice(int(found.off[r]), int(found.off[r + 1]))
        order = part.start + best_first(found.seq[part], scores[part])
        asked = int(requests.least[r]), int(requests.most[r]), float(requests.bound[r]), float(requests.ratio[r])
        count, floor[r] = wanted(scores[order], *asked)
        if floor[r] == -np.inf and found.floor[r] > -np.inf:
            floor[r] = scores[order[count - 1]]
        kept.append(order[:count])
        off[r + 1] = off[r] + count
    rows = np.concatenate(kept)
    return Answers(off, found.seq[rows], scores[rows], floor, examined)
