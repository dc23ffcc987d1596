"""Rules of k-skybands: all messages above a threshold that fewer than k newer ones dominate (Skype, Section 6).

Where the paper leaves off, or goes wrong, exactness and a bound on memory win. A subscription with few candidates knows them
all, and is never evaluated again, where Algorithm 2 would do so at each expiry. A buffer has a limit; past it the threshold
rises, so that one that was set in a poor window does not stay low for ever. Dominance goes by `seq`: timestamps may be equal.
"""

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from operators.indexes.topk.buffer_rule import Ask, Slots, Unlearned, ranked

__all__ = ["CostBasedSkyband", "Skyband", "best_rank", "lasting"]

Floats = NDArray[np.float64]

#: The limit of a buffer, as a multiple of k and so many more; what is left of one that has reached it.
LARGEST, MORE, LEFT = 16, 64, 0.75


class _Skyband:
    """The size of buffers that are bounded for safety's sake only."""

    skyband = True

    def capacity(self, k: Slots) -> Slots:
        """Return the limit."""
        return np.asarray(LARGEST * k + MORE, np.int32)

    def keep(self, k: Slots) -> Slots:
        """Return what is left past it."""
        return np.asarray(LEFT * self.capacity(k), np.int32)


class Skyband(_Skyband, Unlearned):
    """The threshold is a part of the kth score at the last evaluation (Mouratidis et al., Section 8.1.2).

    Args:
        ratio: that part; 1 in the original, 0.95 where the paper found it best.
    """

    def __init__(self, ratio: float = 0.95) -> None:
        self._ratio = ratio

    def ask(self, k: Slots) -> Ask:
        """Ask for the k best and all that come up to a part of the last of them."""
        count = len(k)
        return Ask(k, self.keep(k), np.zeros(count), np.full(count, self._ratio))


class CostBasedSkyband(_Skyband):
    """The threshold is where maintenance and evaluation cost least together (Section 6.2, Equations 9 to 13).

    prob(theta), the part of messages that come up to a threshold, is that of the window itself: a threshold at rank r of a
    window W has r / W. Then W drops out of Equation 13, and what is left to find is the rank (`best_rank`).

    Args:
        period: the messages from which the proportion of arrivals to expiries is taken (Section 6.3).
    """

    def __init__(self, period: int = 50_000) -> None:
        self._period = period
        self._flow: Floats = np.zeros(2)  # arrivals and expiries of the recent period
        self._searches: Floats = np.zeros(2)  # searches, and candidates that they examined, of late

    def ask(self, k: Slots) -> Ask:
        """Ask for the best up to the rank where costs are least."""
        searches, examined = self._searches.tolist()
        cost = examined / searches if searches else 1000.0
        arrived, expired = self._flow.tolist()
        growth = arrived / expired if expired else 1.0
        # In steps, so that ranks are computed once in a while.
        steps = round(2 * float(np.log2(max(cost, 1.0)))), round(10 * min(max(growth, 0.2), 3.0))
        ranks = np.zeros(int(k.max(initial=0)) + 1, np.int32)
        for one in np.unique(k).tolist():
            ranks[one] = best_rank(one, 2.0 ** (steps[0] / 2), steps[1] / 10)
        return ranked(ranks[k])

    def learn(self, arrived: int, expired: int, searches: int, examined: int) -> None:
        """Take note of the recent period, and of the average cost of a search."""
        self._flow *= 0.5 ** (arrived / self._period)
        self._flow += (arrived, expired)
        self._searches *= 0.5 ** (searches / self._period)
        self._searches += (searches, examined)

    def snapshot(self) -> dict[str, Any]:
        """Return what was learnt."""
        return {"flow": self._flow.copy(), "searches": self._searches.copy()}

    def restore(self, state: dict[str, Any]) -> None:
        """Take up what was learnt."""
        self._flow, self._searches = np.array(state["flow"]), np.array(state["searches"])


@lru_cache(maxsize=4096)
def best_rank(k: int, search_cost: float, growth: float = 1.0) -> int:
    """Return the rank of the threshold at which Equation 13 is least, in entries touched while the window turns over once.

    Maintenance (Equation 9): each of r messages that arrive, and of r that expire, goes through a skyband of
    ``k * (1 + ln(r / k))`` entries; the paper leaves out the first k of them. Evaluation (Equation 10): a search whenever
    fewer than k are left, after `lasting` turnovers.
    """
    ranks = np.unique(np.round(k + np.sqrt(k) * np.arange(0.0, 12.0, 0.125)).astype(np.int64))
    maintenance = 2 * ranks * k * (1 + np.log(ranks / k))
    return int(ranks[np.argmin(maintenance + search_cost / lasting(k, ranks, growth))])


def lasting(k: int, ranks: NDArray[np.int64], growth: float = 1.0) -> Floats:
    """Return how many turnovers of the window pass until fewer than k messages are above a threshold set at each rank.

    Theorem 6: dominated messages do not matter. In place of Equation 12, a walk between a cliff and a wall, this is one that
    tends back: the more messages there are, the more expire. With r arrivals a turnover (times the growth of the stream,
    Section 6.3) and n expiries of n messages, the time from n to n - 1 is ``t(n) = (1 + r * t(n + 1)) / n``.
    """
    arrivals = ranks * growth
    top = int(max(arrivals.max(), ranks.max())) + 12 * int(np.sqrt(arrivals.max()) + 1)
    time, total = np.zeros(len(ranks)), np.zeros(len(ranks))
    for n in range(top, k - 1, -1):
        time = np.minimum((1 + arrivals * time) / n, 1e12)
        total += np.where(n <= ranks, time, 0.0)
    return total
