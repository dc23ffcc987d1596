"""Scored subscriptions over a sliding window as plain Python: what message indexes and buffers are compared with."""

import numpy as np

from operators.indexes.topk.topk_index import Messages, Requests
from streams.geometry import Rect, distance, max_distance
from streams.scoring import cosine, score, unit_weights
from streams.vocabulary import Vocabulary

SPACE = Rect(-1.0, 0.0, 3.0, 2.0)
VOCABULARY = Vocabulary(tuple(f"w{n:02d}" for n in range(40)), np.array([4000 // (n + 1) for n in range(40)]), 5000)


class Drawn:
    """Random messages and subscriptions: common words and rare ones, few places and so many ties, extreme alphas."""

    def __init__(self, rng, space=SPACE, *, words=40, grid=0, gaps=False, seq=0, longest=8):
        self.rng, self.space, self.grid, self.gaps, self.seq, self.longest = rng, space, grid, gaps, seq, longest
        self.words = [*range(words), 2**62 + 7, 2**63 - 2]
        self.subscriptions = 0

    def _place(self):
        x, y = self.rng.random(), self.rng.random()
        if self.grid:
            x, y = round(x * self.grid) / self.grid, round(y * self.grid) / self.grid
        s = self.space
        return s.min_x + x * (s.max_x - s.min_x), s.min_y + y * (s.max_y - s.min_y)

    def _keywords(self, least, most):
        count = self.rng.randint(least, min(most, len(self.words)))
        found = set()
        while len(found) < count:
            found.add(self.words[min(int(self.rng.paretovariate(0.7)) - 1, len(self.words) - 1)])
        return sorted(found)

    def message(self):
        x, y = self._place()
        self.seq += self.rng.randint(1, 4) if self.gaps else 1
        return _weighted({"seq": self.seq, "x": x, "y": y, "kw": self._keywords(0, self.longest)})

    def subscription(self, most_k):
        x, y = self._place()
        alpha = self.rng.choice([0.0, 1.0, 1e-9, 1 - 1e-12, 0.5, self.rng.random(), self.rng.random()])
        k = self.rng.choice([1, self.rng.randint(1, most_k), most_k])
        self.subscriptions += 1
        kw = self._keywords(1, 5)
        return _weighted({"number": self.subscriptions, "x": x, "y": y, "alpha": alpha, "k": k, "kw": kw})


def _weighted(row):
    kw = np.array(row["kw"], np.int64)
    row["weight"] = unit_weights(np.array([0, len(kw)], np.int32), kw, VOCABULARY).tolist()
    return row


def _ragged(rows, name, dtype):
    off = np.zeros(len(rows) + 1, np.int32)
    np.cumsum([len(row[name]) for row in rows], out=off[1:])
    return off, np.array([item for row in rows for item in row[name]], dtype)


def _column(rows, name, dtype):
    return np.array([row[name] for row in rows], dtype)


def messages_of(rows):
    off, kw = _ragged(rows, "kw", np.int64)
    places = (_column(rows, name, np.float64) for name in ("x", "y"))
    return Messages(_column(rows, "seq", np.int64), *places, off, kw, _ragged(rows, "weight", np.float64)[1])


def requests_of(rows, least, most, bound, ratio, first, stop):
    off, kw = _ragged(rows, "kw", np.int64)
    places = (_column(rows, name, np.float64) for name in ("x", "y", "alpha"))
    return Requests(
        *places, off, kw, _ragged(rows, "weight", np.float64)[1], np.asarray(least, np.int32), np.asarray(most, np.int32),
        np.asarray(bound, np.float64), np.asarray(ratio, np.float64), np.asarray(first, np.int64), np.asarray(stop, np.int64),
    )  # fmt: skip


class PlainWindow:
    """Messages in the order of the input, and the scores that subscriptions give them."""

    def __init__(self, space=SPACE, metric="euclidean"):
        self.metric, self.max_distance = metric, max_distance(space, metric)
        self.rows = []
        self._scores = {}  # (number of the subscription, seq) -> score

    def score(self, subscription, message):
        """Return the score, None where no keyword is shared."""
        key = subscription["number"], message["seq"]
        if key not in self._scores:
            found = None
            if set(subscription["kw"]) & set(message["kw"]):
                at = np.array([message["x"]]), np.array([message["y"]])
                far = float(distance(*at, subscription["x"], subscription["y"], self.metric)[0])
                text = cosine(subscription["kw"], subscription["weight"], message["kw"], message["weight"])
                found = score(far, text, subscription["alpha"], self.max_distance)
            self._scores[key] = found
        return self._scores[key]

    def ranking(self, subscription, first, stop):
        """Return (score, seq) of all that share a keyword, the best first."""
        of_range = [m for m in self.rows if first <= m["seq"] < stop]
        scored = [(self.score(subscription, m), m["seq"]) for m in of_range]
        return sorted((item for item in scored if item[0] is not None), reverse=True)


def asked(ranking, least, most, bound, ratio):
    """Return what `Requests` want of a ranking, and the largest score that is left out."""
    if ratio and len(ranking) >= least:
        bound = min(ratio * ranking[least - 1][0], ranking[least - 1][0])
    count = max(least, sum(value >= bound for value, _ in ranking))
    count = min(count, most, len(ranking))
    return ranking[:count], ranking[count][0] if count < len(ranking) else None
