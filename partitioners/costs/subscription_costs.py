"""The cost models of DkM-SKS (Sections 3.1, 3.2 and 4.1): how likely a new object changes a subscription's result.

All probabilities are shares of O_init. A subscription without keywords, which the paper does not have, is touched by every
object in its rectangle.
"""

import numpy as np

from partitioners.columns import Floats, Ints, Offsets
from partitioners.costs.initial_objects import InitialObjects
from streams.geometry import Rect

__all__ = ["at_least_one_object", "ball_rects", "hybrid_costs", "keyword_costs", "space_costs"]


def keyword_costs(initial: InitialObjects, kw_off: Offsets, kw: Ints) -> Floats:
    """Return C(s), the sum of P(lambda) over the keywords of each subscription (Equation 1); 1 without keywords."""
    row = np.repeat(np.arange(len(kw_off) - 1), np.diff(kw_off))
    total = np.bincount(row, initial.frequencies(kw), minlength=len(kw_off) - 1)
    return np.where(np.diff(kw_off) == 0, 1.0, total)


def ball_rects(x: Floats, y: Floats, radius: Floats, space: Rect) -> Floats:
    """Return the rectangle around each ball B(s), within the space (rows of min x, min y, max x, max y)."""
    return np.stack(
        [
            np.clip(x - radius, space.min_x, space.max_x),
            np.clip(y - radius, space.min_y, space.max_y),
            np.clip(x + radius, space.min_x, space.max_x),
            np.clip(y + radius, space.min_y, space.max_y),
        ],
        axis=1,
    )


def space_costs(initial: InitialObjects, rects: Floats) -> Floats:
    """Return P(R) = |O_R| / |O_init| of each rectangle (Equation 2).

    Times the number of its subscriptions it is C(S_r) (Equation 3); for one subscription it is its cost.
    """
    counts = initial.counts_within(rects, np.arange(len(rects)), None)
    return np.asarray(counts / max(len(initial), 1))


def hybrid_costs(initial: InitialObjects, rects: Floats, rect_of: Ints, kw_off: Offsets, kw: Ints) -> Floats:
    """Return C(s), the sum of P(R, lambda) = |O_{R,lambda}| / |O_init| over keywords (Equations 4 and 5).

    `rect_of` names the rectangle R of each subscription.
    """
    rows = len(kw_off) - 1
    lengths = np.diff(kw_off)
    row = np.repeat(np.arange(rows), lengths)
    # Subscriptions of one subset share keywords: each pair of rectangle and keyword is counted once.
    order = np.lexsort((kw, rect_of[row]))
    rect, word = rect_of[row][order], kw[order]
    new = np.ones(len(word), np.bool_)
    new[1:] = (rect[1:] != rect[:-1]) | (word[1:] != word[:-1])
    counts = initial.counts_within(rects, rect[new], word[new])
    found = np.empty(len(word))
    found[order] = counts[np.cumsum(new) - 1]
    total = np.bincount(row, found, minlength=rows)
    plain = np.flatnonzero(lengths == 0)
    total[plain] = initial.counts_within(rects, rect_of[plain], None)
    return np.asarray(total / max(len(initial), 1))


def at_least_one_object(initial: InitialObjects, costs: Floats) -> Floats:
    """Price what no object of O_init concerns as if one did.

    By the equations it costs nothing, and all of its kind would go to the worker that is least loaded at the time.
    """
    return np.maximum(costs, 1.0 / max(len(initial), 1))
