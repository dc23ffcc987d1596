"""DSkype's keyword-based and prefix-based methods (Sections 7.3.3 and 7.3.4): ranges of keywords for bolts."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from partitioners.columns import Floats, Ints, Offsets, Regions, column
from partitioners.costs.cell_costs import node_cost
from partitioners.plans.grid_plan import KeywordParts, keyword_ranges
from streams.columns import sorted_rows
from streams.errors import DeclarationError
from streams.kernel import kernel

__all__ = ["Ragged", "Ranking", "keyword_partition", "loose_prefixes"]

#: Ragged rows of keywords: offsets and values.
Ragged = tuple[Offsets, Ints]


def keyword_partition(subscriptions: Ragged, messages: Ragged, vocabulary: int, parts: int) -> tuple[Ints, Floats]:
    """Cut the keywords 0 .. vocabulary - 1 into consecutive ranges (Algorithm 4); return first keywords and costs.

    C(W) = N(W) * p(W) (Equation 16), N the subscriptions and p the share of messages with a keyword in W. A cut after
    keyword w minimises |C(W1) - C(W2)|. The paper's depth makes a power of two; for other numbers of parts a side
    gets half of them, rounded down, and costs are compared by part, which is the same rule where halves are equal. Of
    equal cuts, the one that divides the keywords most evenly is taken, then the first. A range of one keyword stays.
    """
    if parts < 1 or vocabulary < 0:
        raise DeclarationError(f"cannot cut {vocabulary} keywords into {parts} parts; expected at least 1 part")
    starts: list[int] = []
    costs: list[float] = []
    total = len(messages[0]) - 1
    waiting = [(0, vocabulary, parts)]
    while waiting:
        low, high, wanted = waiting.pop()
        ends_s, ends_m = _ends(subscriptions, low, high), _ends(messages, low, high)
        if wanted == 1 or high - low < 2:
            starts.append(low)
            costs.append(float(node_cost(len(ends_s[0]), len(ends_m[0]), total)))
            continue
        left_parts = wanted // 2
        size = high - low
        left = node_cost(_below(ends_s[0], size), _below(ends_m[0], size), total)
        right = node_cost(_above(ends_s[1], size), _above(ends_m[1], size), total)
        uneven = np.abs(2 * np.arange(1, size) - size)
        difference = np.abs(left / left_parts - right / (wanted - left_parts))
        cut = low + int(np.lexsort((uneven, difference))[0]) + 1
        waiting.append((cut, high, wanted - left_parts))
        waiting.append((low, cut, left_parts))
    return np.array(starts, np.int64), np.array(costs)


def _ends(rows: Ragged, low: int, high: int) -> tuple[Ints, Ints]:
    """Return the first and the last keyword within a range, from its start, of the rows that have one."""
    off, kw = rows
    inside = np.flatnonzero((kw >= low) & (kw < high))
    row = np.searchsorted(off, inside, side="right")
    change = np.flatnonzero(np.diff(row)) + 1
    first = np.concatenate([[0], change]) if len(row) else np.empty(0, np.int64)
    last = np.concatenate([change - 1, [len(row) - 1]]) if len(row) else np.empty(0, np.int64)
    found = kw[inside] - low
    return found[first.astype(np.int64)], found[last.astype(np.int64)]


def _below(first: Ints, size: int) -> Ints:
    """Count, for each cut, the rows that reach the keywords before it."""
    return np.cumsum(np.bincount(first, minlength=size))[:-1]


def _above(last: Ints, size: int) -> Ints:
    """Count, for each cut, the rows that reach the keywords after it."""
    return len(last) - np.cumsum(np.bincount(last, minlength=size))[:-1]


@dataclass(frozen=True, slots=True, eq=False)
class Ranking:
    """Keywords by frequency, the order in which Algorithm 4 cuts them.

    Ids of a prepared vocabulary are ranks (`words` is None). Without one, the words of a sample are ranked and named.
    """

    size: int
    words: Ints | None = None

    @classmethod
    def of(cls, vocabulary: int, messages: Ints, subscriptions: Ints) -> "Ranking":
        """Take the vocabulary's ranks, or rank the keywords of a sample: frequent in messages first, then by id."""
        if vocabulary:
            return cls(vocabulary)
        words, place = np.unique(np.concatenate([messages, subscriptions]), return_inverse=True)
        counts = np.bincount(place[: len(messages)], minlength=len(words))
        return cls(len(words), words[np.lexsort((words, -counts))])

    def ranks(self, rows: Ragged) -> Ragged:
        """Return ragged rows of ascending ranks; a keyword that is not ranked is left out."""
        off, kw = rows
        row = np.repeat(np.arange(len(off) - 1), np.diff(off))
        rank = kw
        if self.words is not None:
            order = np.argsort(self.words)
            place = np.searchsorted(self.words[order], kw)
            found = np.append(self.words[order], -1)[place] == kw
            rank = np.where(found, np.append(order, -1)[place], self.size)
        known = rank < self.size
        return sorted_rows(row[known], rank[known], len(off) - 1)

    def parts(self, starts: Ints, workers: NDArray[np.integer]) -> KeywordParts:
        """Turn ranges of ranks into the parts of a box; keywords that are not ranked are spread by hash.

        The paper has no unseen words; putting all of them into the last range would overload its bolt.
        """
        part = np.searchsorted(starts, np.arange(self.size), side="right").astype(np.int32) - 1
        if self.words is not None:
            order = np.argsort(self.words)
            return *keyword_ranges(self.words[order], part[order]), np.asarray(workers, np.int32)
        return *keyword_ranges(np.arange(self.size), part), np.asarray(workers, np.int32)


def loose_prefixes(
    kw_off: Offsets, kw: Ints, weights: Floats, k_score: Floats, alpha: Floats, *, bound: str = "norm"
) -> Ragged:
    """Return pref(s) of each subscription: the keywords a message must touch to enter its result (Definition 12).

    Keywords are taken rarest first, and the rest is left out once it cannot reach the kth score even for a message at
    the subscription's own place: alpha + (1 - alpha) * rest < kScore (Equation 18, multiplied out, so alpha = 1 needs
    no exception: everything is kept). `bound` is the paper's ``sum`` of the rest's weights, or ``norm``, its length: messages
    are unit vectors, so by Cauchy-Schwarz the norm is also safe, and never larger. The comparison leaves room for
    rounding. `weights` are those of unit-length subscriptions, row by row; a k_score of 0 or less keeps everything.
    """
    if bound not in ("sum", "norm"):
        raise DeclarationError(f"unknown bound '{bound}' of a prefix; expected 'sum' or 'norm'")
    rows = len(kw_off) - 1
    if len(weights) != len(kw) or len(k_score) != rows or len(alpha) != rows:
        raise DeclarationError(
            "a prefix needs a weight for each keyword, a kth score and an alpha for each subscription"
        )
    r = Regions.of((alpha, alpha, alpha, alpha), kw_off, kw, np.ones(rows, np.bool_))
    keep: NDArray[np.bool_] = _kept(
        r.kw_off, column(weights, np.float64), column(k_score, np.float64), r.min_x, bound == "norm"
    )
    off = np.concatenate([[0], np.cumsum(keep)])[r.kw_off]
    return off.astype(np.int32), kw[keep]


@kernel
def _kept(kw_off: Offsets, weights: Floats, k_score: Floats, alpha: Floats, norm: bool) -> NDArray[np.bool_]:
    keep = np.ones(len(weights), np.bool_)
    for s in range(len(k_score)):
        rest = 0.0
        for i in range(kw_off[s], kw_off[s + 1]):  # ids ascend by rarity, so the rest grows from the front
            rest += weights[i] * weights[i] if norm else weights[i]
            most = alpha[s] + (1.0 - alpha[s]) * (np.sqrt(rest) if norm else rest)
            if not most < k_score[s] - 1e-9:
                break
            keep[i] = False
    return keep
