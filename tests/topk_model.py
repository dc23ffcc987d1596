"""Scored subscriptions as plain Python: what every structure of dissemination is compared with."""

import math

import numpy as np

from operators.indexes.topk.topk_index import Messages
from streams.batches import FOREVER, NO_WINDOW, OP_REGISTER, TYPE_TOPK, QueryBatch
from streams.columns import Ids
from streams.geometry import REGION_NONE, distance, max_distance
from streams.scoring import cosine, score, unit_weights
from streams.vocabulary import Vocabulary

#: Words of the vocabulary and, far above, two that it does not have.
WORDS = 60
UNSEEN = (2**62, 2**63 - 1)


def vocabulary(documents=1000):
    return Vocabulary(tuple(f"w{i}" for i in range(WORDS)), np.array([600 // (i + 1) for i in range(WORDS)]), documents)


class PlainSubscriptions:
    """Every subscription, scored against every message."""

    def __init__(self, space, metric, words):
        self.space, self.metric, self.vocabulary = space, metric, words
        self.rows = {}  # number -> dict of its columns
        self.asleep = set()
        self.known = {}  # unit weights by keywords

    def insert(self, queries):
        for q in queries:
            self.rows[q["number"]] = q | {"theta": -math.inf}

    def remove(self, numbers):
        for n in numbers:
            self.rows.pop(n, None)
            self.asleep.discard(n)

    def set_end(self, pairs):
        for n, end in pairs:
            if n in self.rows:
                self.rows[n]["end"] = min(self.rows[n]["end"], end)

    def ended(self, now):
        return sorted(n for n, q in self.rows.items() if q["end"] <= now)

    def weights(self, kw):
        key = tuple(kw)
        if key not in self.known:
            off = np.array([0, len(kw)], np.int32)
            self.known[key] = unit_weights(off, np.array(kw, np.int64), self.vocabulary).tolist()
        return self.known[key]

    def score(self, q, m):
        kw, words = sorted(q["keywords"]), sorted(m["keywords"])
        alike = cosine(kw, self.weights(kw), words, self.weights(words))
        far = distance(np.array([m["x"]]), np.array([m["y"]]), q["x"], q["y"], self.metric)[0]
        return float(score(float(far), alike, q["alpha"], max_distance(self.space, self.metric)))

    def hits(self, messages):
        """Return (row, number, score) of every pair that counts."""
        return sorted(
            (row, n, value)
            for row, m in enumerate(messages)
            for n, q in self.rows.items()
            if n not in self.asleep and m["ts"] < q["end"] and q["keywords"] & m["keywords"]
            if (value := self.score(q, m)) >= q["theta"]
        )


def _rows(sets):
    off = np.zeros(len(sets) + 1, np.int32)
    np.cumsum([len(s) for s in sets], out=off[1:])
    return off, np.array([k for s in sets for k in sorted(s)], np.int64)


def topk_batch(queries):
    count = len(queries)
    off, kw = _rows([q["keywords"] for q in queries])
    number = np.array([q["number"] for q in queries], np.int64)
    shape = np.zeros((count, 4))
    shape[:, 0], shape[:, 1] = [q["x"] for q in queries], [q["y"] for q in queries]
    return QueryBatch(
        number=number, target=number, op=np.full(count, OP_REGISTER, np.uint8),
        ts=np.array([q["ts"] for q in queries], np.int64), end=np.array([q["end"] for q in queries], np.int64),
        type=np.full(count, TYPE_TOPK, np.uint8), continuous=np.ones(count, np.bool_),
        match_any=np.ones(count, np.bool_), region=np.full(count, REGION_NONE, np.uint8),
        shape=shape, k=np.array([q["k"] for q in queries], np.int32),
        alpha=np.array([q["alpha"] for q in queries], np.float64), window=np.full(count, NO_WINDOW, np.int64),
        slide=np.zeros(count, np.int64), detect=np.zeros(count, np.uint8), kw_off=off, kw=kw, ids=Ids("int", number),
    )  # fmt: skip


def messages_batch(messages, words):
    off, kw = _rows([m["keywords"] for m in messages])
    return Messages(
        seq=np.arange(len(messages)), x=np.array([m["x"] for m in messages], np.float64),
        y=np.array([m["y"] for m in messages], np.float64), kw_off=off, kw=kw, weight=unit_weights(off, kw, words),
    )  # fmt: skip


ALPHAS = [0.0, 1.0, 0.5, 1e-9, 1e-4, 1 - 1e-12, 0.999, 0.3]
SPECIAL = [0.0, 1.0, 0.5, 0.25, 0.75, 0.125, 1 / 3, 2**-16, 1 - 2**-16, 2**-53, 1 - 2**-53]


class Drawn:
    """Subscriptions and messages drawn from one seed, with many equal places and words."""

    def __init__(self, rng, space):
        self.rng, self.space = rng, space
        self.number = self.now = 0

    def place(self):
        rng, s = self.rng, self.space
        u, v = (rng.choice([rng.choice(SPECIAL), rng.randrange(17) / 16, rng.random()]) for _ in range(2))
        return s.min_x + u * (s.max_x - s.min_x), s.min_y + v * (s.max_y - s.min_y)

    def keywords(self, least):
        rng = self.rng
        count = rng.choice([1, 1, 2, 2, 3, 4, 5, 6, 8, 12, 40])
        words = [rng.choice([rng.randrange(4), rng.randrange(WORDS), rng.choice(UNSEEN)]) for _ in range(count)]
        return frozenset(words if least or rng.random() < 0.95 else [])

    def query(self):
        self.number += self.rng.randrange(1, 3)
        x, y = self.place()
        ts = self.now + self.rng.choice([-3, 0, 0, 1, 2])
        end = FOREVER if self.rng.random() < 0.6 else ts + self.rng.randrange(12)
        alpha = self.rng.choice([self.rng.choice(ALPHAS), self.rng.random()])
        return {"number": self.number, "x": x, "y": y, "keywords": self.keywords(1), "ts": ts, "end": end,
                "k": self.rng.choice([1, 20, 1000]), "alpha": alpha}  # fmt: skip

    def message(self):
        x, y = self.place()
        return {"ts": self.now + self.rng.randrange(3), "x": x, "y": y, "keywords": self.keywords(0)}
