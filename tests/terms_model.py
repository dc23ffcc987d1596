"""Continuous top-k frequent term queries as plain Python: what every index of them is compared with."""

from collections import Counter
from dataclasses import dataclass, field, replace

import numpy as np
from polygon_model import as_tuples, drawn_polygons, rings_of
from range_model import PlainQuery, rows_of

from streams.batches import FOREVER, OP_DELETE, OP_UPSERT, TYPE_TERMS, ObjectBatch
from streams.columns import Ids
from streams.geometry import REGION_CIRCLE, REGION_NONE, REGION_POLYGON, REGION_RECT, inside_region


@dataclass(frozen=True)
class PlainTerm:
    """An object."""

    seq: int
    ts: int
    x: float
    y: float
    keywords: frozenset[int]
    op: int = OP_UPSERT


def terms_batch(objects):
    off, kw = rows_of([o.keywords for o in objects])
    seq = np.array([o.seq for o in objects], np.int64)
    return ObjectBatch(
        seq=seq, ts=np.array([o.ts for o in objects], np.int64), x=np.array([o.x for o in objects], np.float64),
        y=np.array([o.y for o in objects], np.float64), op=np.array([o.op for o in objects], np.uint8),
        kw_off=off, kw=kw, ids=Ids("int", seq),
    )  # fmt: skip


@dataclass
class PlainTerms:
    """The definition of the contract, query by query."""

    metric: str = "euclidean"
    rows: dict[int, PlainQuery] = field(default_factory=dict)
    asleep: set[int] = field(default_factory=set)
    objects: list[PlainTerm] = field(default_factory=list)

    def set_end(self, number, end):
        if number in self.rows:
            self.rows[number] = replace(self.rows[number], end=min(self.rows[number].end, end))

    def counts(self, number, instant):
        """Return how many objects contain each term."""
        q, found = self.rows[number], Counter()
        x, y = (np.array([getattr(o, axis) for o in self.objects], np.float64) for axis in "xy")
        inside = inside_region(x, y, q.region, q.shape, self.metric, rings_of(q.polygons))
        for i in np.flatnonzero(inside).tolist():
            o = self.objects[i]
            shared = len(q.keywords & o.keywords)
            fits = not q.keywords or (shared > 0 if q.match_any else shared == len(q.keywords))
            fits = fits and not q.none & o.keywords
            if o.op == OP_UPSERT and instant - q.window < o.ts <= instant and fits:
                found.update(o.keywords)
        return dict(found)


def listed(counts, k, whole):
    """Return what an answer lists: all, or the k largest counts and what is tied with the last of them."""
    if not whole or len(counts) <= k:
        return counts
    kth = sorted(counts.values(), reverse=True)[k - 1]
    return {term: count for term, count in counts.items() if count >= kth}


def lists_of(answer):
    """Return the answers of a batch as a list of (number, instant, counts)."""
    assert answer.instant.all()
    assert (answer.type == TYPE_TERMS).all()
    cuts = answer.off.tolist()
    found = []
    for i, (number, ts) in enumerate(zip(answer.number.tolist(), answer.ts.tolist(), strict=True)):
        part = slice(cuts[i], cuts[i + 1])
        pairs = list(zip(answer.seq[part].tolist(), answer.value[part].tolist(), strict=True))
        assert len(dict(pairs)) == len(pairs), "a term occurs twice in one answer"
        found.append((number, ts, dict(pairs)))
    return found


class Drawn:
    """Queries and objects drawn from a seed, on places that repeat, so that many are on borders and tie."""

    def __init__(self, rng, space, words=7):
        self.rng, self.space, self.words = rng, space, words
        self.now, self.seq, self.number = 0, 0, 0

    def place(self):
        s = self.space
        return (
            s.min_x + (s.max_x - s.min_x) * self.rng.randrange(9) / 8,
            s.min_y + (s.max_y - s.min_y) * self.rng.randrange(9) / 8,
        )

    def keywords(self, most=4):
        # Ids are up to 63 bits wide.
        return frozenset(
            self.rng.choice([w, w + 2**62]) for w in self.rng.sample(range(self.words), self.rng.randrange(most))
        )

    def object(self):
        self.seq += self.rng.choice([1, 1, 3])
        x, y = self.place()
        op = OP_DELETE if self.rng.random() < 0.05 else OP_UPSERT
        return PlainTerm(self.seq, self.now, x, y, self.keywords(6), op)

    def objects(self, count):
        found = []
        for _ in range(count):
            self.now += self.rng.choice([0, 0, 1])
            found.append(self.object())
        return found

    def region(self, metric):
        (a, b), (c, d) = self.place(), self.place()
        kind = self.rng.choice([REGION_RECT, REGION_RECT, REGION_CIRCLE, REGION_POLYGON, REGION_NONE])
        if kind == REGION_RECT:
            return kind, (min(a, c), min(b, d), max(a, c), max(b, d))
        if kind == REGION_CIRCLE:
            unit = 5e6 if metric == "haversine" else (self.space.max_x - self.space.min_x) / 8
            return kind, (a, b, unit * self.rng.choice([0, 1, 2, 2.5, 5]), 0.0)
        if kind == REGION_POLYGON:
            wide, high = (self.space.max_x - self.space.min_x) / 2, (self.space.max_y - self.space.min_y) / 2
            self.polygons = as_tuples(drawn_polygons(self.rng, a, b, wide, high))
            return kind, rings_of(self.polygons).box()
        return kind, (0.0, 0.0, 0.0, 0.0)

    def query(self, metric, **fixed):
        self.number += self.rng.choice([1, 2])
        self.polygons = ()
        kind, shape = (fixed["region"], fixed.get("shape", (0.0,) * 4)) if "region" in fixed else self.region(metric)
        drawn = {
            "number": self.number, "region": kind, "shape": shape,
            "keywords": self.rng.choice([frozenset(), frozenset(), self.keywords()]),
            "match_any": self.rng.random() < 0.5, "ts": self.now, "type": TYPE_TERMS,
            "end": self.rng.choice([FOREVER, self.now + self.rng.randrange(20)]), "k": self.rng.choice([1, 2, 3, 5, 30]),
            "window": self.rng.randrange(1, 13), "slide": self.rng.choice([1, 2, 5, 20]), "polygons": self.polygons,
            "none": self.keywords() if self.rng.random() < 0.25 else frozenset(),
        }  # fmt: skip
        return PlainQuery(**{**drawn, **fixed})
