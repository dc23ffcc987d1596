"""Which queries a worker gives away: as few as possible, together no dearer than what it is to shed."""

import numpy as np

from partitioners.columns import Floats, Ints

__all__ = ["fewest"]

#: A choice that sheds so much of what is asked is good enough; more of them would move for next to nothing.
ENOUGH = 0.9


def fewest(costs: Floats, amount: float, most: int) -> Ints:
    """Return rows whose costs sum up to at most `amount`, and to most of it where that can be: as few as possible.

    So many rows must be taken that the dearest of them make up `ENOUGH` of the amount. If these are too dear together, then
    with one of them exchanged for another so that it fits best, or so with the first run in descending order that fits, or
    the one before it; if that is not enough, one row more, and so on up to `most`. The best choice seen is returned where none
    is enough. (The fewest of all are hard to find; these have hardly ever one more.)
    """
    order = np.argsort(-costs, kind="stable")[: np.count_nonzero(costs > 0)]
    sums = np.concatenate([[0.0], np.cumsum(costs[order])])
    last = min(most, len(order))
    # Fewer than these are not enough, however dear.
    least = min(int(np.searchsorted(sums, ENOUGH * amount)), last)
    best = order[: max(least - 1, 0)]
    best_sum = float(sums[len(best)])
    for count in range(max(least, 1), last + 1):
        # The sums of runs descend, so the first that fits is the dearest of them.
        runs = sums[count:] - sums[:-count]
        if runs[-1] > amount:
            break  # the cheapest do not fit, nor do more of them
        first = int(np.searchsorted(-runs, -amount, side="left"))
        for begin in sorted({0, max(first - 1, 0), first}):
            chosen = _exchanged(costs[order], begin, count, amount)
            found = float(costs[order[chosen]].sum())
            if best_sum < found <= amount:
                best, best_sum = order[chosen], found
        if best_sum >= ENOUGH * amount:
            break
    return best


def _exchanged(costs: Floats, begin: int, count: int, amount: float) -> Ints:
    """Return a run of descending costs, one row exchanged where that brings its sum nearer to the amount from below."""
    run = np.arange(begin, begin + count)
    room = amount - float(costs[run].sum())
    # For each row of the run: the dearest outside of it that is dear enough by no more than there is room.
    other = np.searchsorted(-costs, -(costs[run] + room), side="left")
    other = np.where((other >= begin) & (other < begin + count), begin + count, other)
    gain = np.append(costs, -np.inf)[other] - costs[run]
    place = int(gain.argmax())
    if not np.isfinite(gain[place]) or (room >= 0 and gain[place] <= 0):
        return run
    return np.append(np.delete(run, place), other[place])
