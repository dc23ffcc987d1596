"""Every message against every subscription: the truth that the other message indexes are held against."""

import numpy as np
from numpy.typing import NDArray

from operators.indexes.topk.topk_index import Answers, Messages, Requests
from streams.columns import Ints, csr_concat
from streams.geometry import Metric, Rect, distance, max_distance
from streams.scoring import cosines, score

__all__ = ["BruteMessages", "best_first", "wanted"]

Floats = NDArray[np.float64]


def best_first(seq: Ints, scores: Floats) -> Ints:
    """Return the order from the best to the worst: by score, and of equal ones the newer first."""
    return np.asarray(np.lexsort((seq, scores))[::-1], np.int64)


def wanted(scores: Floats, least: int, most: int, bound: float, ratio: float) -> tuple[int, float]:
    """Return how many of all scores, best first, `Requests` ask for, and what the others can score at most."""
    total = len(scores)
    if total <= least:
        return total, -np.inf
    if ratio:
        bound = min(ratio * scores[least - 1], scores[least - 1])
    reach = int(np.searchsorted(-scores, -bound, side="right"))
    count = min(most, max(least, reach))
    if count == total:
        return total, -np.inf
    return count, float(bound if count == reach else scores[count - 1])


class BruteMessages:
    """A list of the messages of the window, looked at from end to end."""

    def __init__(self, space: Rect, metric: Metric = "euclidean") -> None:
        self._max_distance = max_distance(space, metric)
        self._metric: Metric = metric
        self._held = Messages(
            np.empty(0, np.int64), np.empty(0), np.empty(0), np.zeros(1, np.int32), np.empty(0, np.int64), np.empty(0)
        )

    def add(self, messages: Messages) -> None:
        """Take in messages."""
        held = self._held
        kw_off, kw = csr_concat([(held.kw_off, held.kw), (messages.kw_off, messages.kw)])
        self._held = Messages(
            np.concatenate([held.seq, messages.seq]),
            np.concatenate([held.x, messages.x]),
            np.concatenate([held.y, messages.y]),
            kw_off,
            kw,
            np.concatenate([held.weight, messages.weight]),
        )

    def drop(self, first: int) -> None:
        """Forget messages with ``seq < first``."""
        held, gone = self._held, int(np.searchsorted(self._held.seq, first))
        words = int(held.kw_off[gone])
        self._held = Messages(
            held.seq[gone:], held.x[gone:], held.y[gone:], held.kw_off[gone:] - np.int32(words), held.kw[words:],
            held.weight[words:],
        )  # fmt: skip

    def search(self, requests: Requests) -> Answers:
        """Answer requests one after the other."""
        seqs, scores, floors = [np.empty(0, np.int64)], [np.empty(0)], np.empty(len(requests))
        off = np.zeros(len(requests) + 1, np.int64)
        for row in range(len(requests)):
            seq, score_of = self._scored(requests, row)
            order = best_first(seq, score_of)
            count, floors[row] = wanted(
                score_of[order],
                int(requests.least[row]),
                int(requests.most[row]),
                float(requests.bound[row]),
                float(requests.ratio[row]),
            )
            seqs.append(seq[order[:count]])
            scores.append(score_of[order[:count]])
            off[row + 1] = off[row] + count
        examined = len(requests) * len(self._held)
        return Answers(off, np.concatenate(seqs), np.concatenate(scores), floors, examined)

    def _scored(self, requests: Requests, row: int) -> tuple[Ints, Floats]:
        """Return the messages of the range that share a keyword with a subscription, and their scores."""
        held, words = self._held, slice(requests.kw_off[row], requests.kw_off[row + 1])
        kw, weight = requests.kw[words], requests.weight[words]
        shares = np.zeros(len(held), np.bool_)
        shares[np.repeat(np.arange(len(held)), np.diff(held.kw_off))[np.isin(held.kw, kw)]] = True
        shares &= (held.seq >= requests.first[row]) & (held.seq < requests.stop[row])
        far = distance(held.x, held.y, float(requests.x[row]), float(requests.y[row]), self._metric)
        text = cosines(held.kw_off, held.kw, held.weight, kw, weight)
        found = score(far, text, float(requests.alpha[row]), self._max_distance)
        return held.seq[shares], found[shares]

    @property
    def nbytes(self) -> int:
        """Bytes in use."""
        held = self._held
        return sum(column.nbytes for column in (held.seq, held.x, held.y, held.kw_off, held.kw, held.weight))
