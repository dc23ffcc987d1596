"""Subscriptions to the k nearest as plain Python: what every index of them is compared with."""

import numpy as np

from streams.batches import FOREVER, NO_WINDOW, OP_DELETE, OP_REGISTER, OP_UPSERT, TYPE_KNN, ObjectBatch, QueryBatch
from streams.columns import Ids
from streams.geometry import REGION_NONE, distance


class PlainKnn:
    """Every subscription with all objects that it ever saw."""

    def __init__(self, metric):
        self.metric = metric
        self.rows = {}  # number -> dict of its columns
        self.asleep = set()
        self.seen = {}  # number -> [(distance, seq, id)]

    def insert(self, queries):
        for q in queries:
            self.rows[q["number"]] = dict(q)
            self.seen[q["number"]] = []

    def remove(self, numbers):
        for n in numbers:
            if self.rows.pop(n, None) is not None:
                self.seen.pop(n)
                self.asleep.discard(n)

    def set_end(self, pairs):
        for n, end in pairs:
            if n in self.rows:
                self.rows[n]["end"] = min(self.rows[n]["end"], end)

    def ended(self, now):
        return sorted(n for n, q in self.rows.items() if q["end"] <= now)

    def results(self):
        return {n: sorted(self.seen[n])[: q["k"]] for n, q in self.rows.items()}

    def take(self, objects):
        before = self.results()
        for o in objects:
            for n, q in self.rows.items():
                if o["op"] == OP_UPSERT and n not in self.asleep and q["ts"] <= o["ts"] < q["end"] and matches(q, o):
                    far = distance(np.array([o["x"]]), np.array([o["y"]]), q["x"], q["y"], self.metric)[0]
                    self.seen[n].append((float(far), o["seq"], o["id"]))
        after = self.results()
        return sorted(n for n in after if after[n] != before[n])


def matches(q, o):
    if q.get("none", frozenset()) & o["keywords"]:
        return False
    wanted = q["keywords"]
    return not wanted or (bool(wanted & o["keywords"]) if q["match_any"] else wanted <= o["keywords"])


def _rows(sets):
    off = np.zeros(len(sets) + 1, np.int32)
    np.cumsum([len(s) for s in sets], out=off[1:])
    return off, np.array([k for s in sets for k in sorted(s)], np.int64)


def knn_batch(queries):
    count = len(queries)
    off, kw = _rows([q["keywords"] for q in queries])
    none_off, none = _rows([q.get("none", ()) for q in queries])
    number = np.array([q["number"] for q in queries], np.int64)
    shape = np.zeros((count, 4))
    shape[:, 0], shape[:, 1] = [q["x"] for q in queries], [q["y"] for q in queries]
    return QueryBatch(
        number=number, target=number, op=np.full(count, OP_REGISTER, np.uint8),
        ts=np.array([q["ts"] for q in queries], np.int64), end=np.array([q["end"] for q in queries], np.int64),
        type=np.full(count, TYPE_KNN, np.uint8), continuous=np.ones(count, np.bool_),
        match_any=np.array([q["match_any"] for q in queries], np.bool_), region=np.full(count, REGION_NONE, np.uint8),
        shape=shape, k=np.array([q["k"] for q in queries], np.int32), alpha=np.zeros(count),
        window=np.full(count, NO_WINDOW, np.int64), slide=np.zeros(count, np.int64),
        detect=np.zeros(count, np.uint8), kw_off=off, kw=kw, ids=Ids("int", number), none_off=none_off, none=none,
    )  # fmt: skip


def objects_batch(objects):
    count = len(objects)
    off, kw = _rows([o["keywords"] for o in objects])
    return ObjectBatch(
        seq=np.array([o["seq"] for o in objects], np.int64), ts=np.array([o["ts"] for o in objects], np.int64),
        x=np.array([o["x"] for o in objects]), y=np.array([o["y"] for o in objects]),
        op=np.array([o["op"] for o in objects], np.uint8), kw_off=off, kw=kw,
        ids=Ids.of([o["id"] for o in objects]) if count else Ids("int", np.empty(0, np.int64)),
    )  # fmt: skip


def lists_of(batch):
    """Return lists as plain values, by number."""
    ids = batch.ids.to_list()
    items = list(zip(batch.value.tolist(), batch.seq.tolist(), ids, strict=True))
    return {n: items[batch.off[i] : batch.off[i + 1]] for i, n in enumerate(batch.number.tolist())}


SPECIAL = [0.0, 1.0, 0.5, 0.25, 0.75, 0.125, 1 / 3, 2**-16, 1 - 2**-16, 2**-53, 1 - 2**-53]
WORDS = [0, 1, 2, 3, 4, 7, 100_000, 2**62, 2**62 + 5, 2**63 - 1]


class Drawn:
    """Subscriptions and objects drawn from one seed, with many equal places, words and distances."""

    def __init__(self, rng, space):
        self.rng, self.space = rng, space
        self.seq = self.number = self.now = 0
        self.text_ids = rng.random() < 0.3

    def place(self):
        rng, s = self.rng, self.space
        u, v = (rng.choice([rng.choice(SPECIAL), rng.randrange(17) / 16, rng.random()]) for _ in range(2))
        return s.min_x + u * (s.max_x - s.min_x), s.min_y + v * (s.max_y - s.min_y)

    def keywords(self):
        if self.rng.random() < 0.05:
            return frozenset(range(k := self.rng.randrange(4), k + 30))
        return frozenset(self.rng.choice(WORDS) for _ in range(self.rng.randrange(5)))

    def query(self):
        self.number += self.rng.randrange(1, 3)
        x, y = self.place()
        ts = self.now + self.rng.choice([-3, 0, 0, 1, 2])
        end = FOREVER if self.rng.random() < 0.6 else ts + self.rng.randrange(12)
        k = self.rng.choice([1, 1, 2, 3, 5, 10, 40, 1000])
        return {"number": self.number, "x": x, "y": y, "keywords": self.keywords(), "ts": ts, "end": end, "k": k,
                "match_any": self.rng.random() < 0.6,
                "none": self.keywords() if self.rng.random() < 0.2 else frozenset()}  # fmt: skip

    def object(self):
        self.seq += self.rng.randrange(1, 4)
        x, y = self.place()
        deleted = self.rng.random() < 0.05
        return {"seq": self.seq, "ts": self.now + self.rng.randrange(3), "x": x, "y": y, "keywords": self.keywords(),
                "op": OP_DELETE if deleted else OP_UPSERT,
                "id": f"o{self.seq}" if self.text_ids else self.seq}  # fmt: skip
