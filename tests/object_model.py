"""Kept objects and snapshot queries as plain Python: what object indexes are compared with."""

from collections import Counter

import numpy as np
from polygon_model import drawn_polygons, ring_columns, rings_of

from operators.indexes.objects.object_index import Requests
from streams.batches import OP_DELETE, OP_UPSERT, ObjectBatch
from streams.columns import Ids
from streams.geometry import REGION_CIRCLE, REGION_NONE, REGION_POLYGON, REGION_RECT, Rect, distance, inside_region

SPACE = Rect(-1.0, 0.0, 3.0, 2.0)
GLOBE = Rect(-180.0, -90.0, 180.0, 90.0)


class Drawn:
    """Random objects and questions: common words and rare ones, few places and so many ties, windows at every border."""

    def __init__(self, rng, space=SPACE, metric="euclidean", *, words=40, grid=0, gaps=False, longest=8):
        self.rng, self.space, self.metric, self.grid, self.gaps, self.longest = rng, space, metric, grid, gaps, longest
        self.words = [*range(words), 2**62 + 7, 2**63 - 2]
        self.seq = -1

    def place(self):
        x, y = self.rng.random(), self.rng.random()
        if self.grid:
            x, y = round(x * self.grid) / self.grid, round(y * self.grid) / self.grid
        s = self.space
        return s.min_x + x * (s.max_x - s.min_x), s.min_y + y * (s.max_y - s.min_y)

    def within(self, shape):
        """Return the place of a shape, moved into the space: that of a query is."""
        s = self.space
        return min(max(shape[0], s.min_x), s.max_x), min(max(shape[1], s.min_y), s.max_y)

    def keywords(self, least, most):
        count = self.rng.randint(least, min(most, len(self.words)))
        found = set()
        while len(found) < count:
            found.add(self.words[min(int(self.rng.paretovariate(0.7)) - 1, len(self.words) - 1)])
        return sorted(found)

    def object(self):
        x, y = self.place()
        self.seq += self.rng.randint(1, 4) if self.gaps else 1
        return {"seq": self.seq, "x": x, "y": y, "kw": self.keywords(0, self.longest)}

    def region(self, rows):
        """Return a kind and a shape; borders go through objects where there are some."""
        rng, s = self.rng, self.space
        kind = rng.choice([REGION_RECT, REGION_RECT, REGION_CIRCLE, REGION_CIRCLE, REGION_POLYGON, REGION_NONE])
        self.polygons = ()
        (x, y), size = self.place(), rng.choice([0.0, 0.02, 0.1, 0.3, 1.2]) * rng.random()
        if rows and rng.random() < 0.5:
            x, y = (lambda o: (o["x"], o["y"]))(rng.choice(rows))
        if kind == REGION_POLYGON:
            self.polygons = drawn_polygons(rng, x, y, size * (s.max_x - s.min_x), size * (s.max_y - s.min_y))
            return kind, list(rings_of(self.polygons).box())
        if kind == REGION_RECT:
            far = rng.choice(rows) if rows and rng.random() < 0.3 else None
            wide, high = size * (s.max_x - s.min_x), size * (s.max_y - s.min_y) * rng.random()
            shape = [x - wide * rng.random(), y - high, x + wide, y + high]
            if far:
                shape = [min(x, far["x"]), min(y, far["y"]), max(x, far["x"]), max(y, far["y"])]
            if rng.random() < 0.1:
                shape = [s.max_x + 1.0, s.min_y, s.max_x + 2.0, s.max_y]  # beyond the space
            return kind, shape
        if kind == REGION_CIRCLE:
            if self.metric == "haversine":
                radius = rng.choice([0.0, 3e3, 2e5, 3e6, 2.1e7]) * rng.random()
            else:
                radius = size * (s.max_x - s.min_x)
            if rows and rng.random() < 0.3:  # through another object, as exactly as floats can say
                o = rng.choice(rows)
                radius = float(distance(np.array([o["x"]]), np.array([o["y"]]), x, y, self.metric)[0])
            return kind, [x, y, radius, 0.0]
        return kind, [x, y, 0.0, 0.0]

    def window(self, rows):
        rng, stop = self.rng, self.seq + 1
        if not rows or rng.random() < 0.4:
            return 0, stop
        first, last = sorted(rng.choice(rows)["seq"] for _ in range(2))
        return rng.choice(
            [(first, last), (first, last + 1), (first + 1, last), (first, stop), (0, last), (last, first)]
        )

    def request(self, rows):
        kind, shape = self.region(rows)
        first, stop = self.window(rows)
        k = self.rng.choice([0, 1, 3, 10, 10, 1000])
        reach = self.rng.choice([np.inf, np.inf, self.rng.random() * (2e6 if self.metric == "haversine" else 1.0)])
        if rows and self.rng.random() < 0.2:
            o = self.rng.choice(rows)
            reach = float(distance(np.array([o["x"]]), np.array([o["y"]]), *self.within(shape), self.metric)[0])
        kw = self.rng.choice([[], self.keywords(1, 1), self.keywords(1, 4), self.keywords(2, 3), [3, 12345]])
        return {
            "region": kind, "shape": shape, "any": self.rng.random() < 0.5, "kw": kw, "first": first, "stop": stop,
            "k": k, "reach": reach, "polygons": self.polygons,
            "none": self.keywords(1, 3) if self.rng.random() < 0.25 else [],
        }  # fmt: skip


def _ragged(rows, name="kw"):
    off = np.zeros(len(rows) + 1, np.int32)
    np.cumsum([len(row.get(name, [])) for row in rows], out=off[1:])
    return off, np.array([word for row in rows for word in row.get(name, [])], np.int64)


def _column(rows, name, dtype):
    return np.array([row[name] for row in rows], dtype)


def batch_of(rows, deleted=()):
    """Return objects as a batch, deletions among them where there should be some."""
    seq = _column(rows, "seq", np.int64)
    op = np.where(np.isin(seq, list(deleted)), OP_DELETE, OP_UPSERT).astype(np.uint8)
    off, kw = _ragged(rows)
    return ObjectBatch(
        seq, seq, _column(rows, "x", np.float64), _column(rows, "y", np.float64), op, off, kw, Ids("int", seq)
    )


def requests_of(rows):
    off, kw = _ragged(rows)
    return Requests(
        _column(rows, "region", np.uint8), np.array([row["shape"] for row in rows], np.float64).reshape(-1, 4),
        _column(rows, "any", np.bool_), _column(rows, "first", np.int64), _column(rows, "stop", np.int64),
        _column(rows, "k", np.int32), _column(rows, "reach", np.float64), off, kw, *_ragged(rows, "none"),
        **ring_columns([row.get("polygons", ()) if row["region"] == REGION_POLYGON else () for row in rows]),
    )  # fmt: skip


class PlainObjects:
    """Objects in the order of the input, and the answers by definition."""

    def __init__(self, metric):
        self.metric, self.rows = metric, []

    def matching(self, q, region=True):
        rows = [o for o in self.rows if q["first"] <= o["seq"] < q["stop"]]
        if region and rows:
            at = _column(rows, "x", np.float64), _column(rows, "y", np.float64)
            rings = rings_of(q.get("polygons", ()))
            inside = inside_region(*at, q["region"], tuple(q["shape"]), self.metric, rings)
            rows = [o for o, there in zip(rows, inside.tolist(), strict=True) if there]
        rows = [o for o in rows if not set(q.get("none", [])) & set(o["kw"])]
        wanted = set(q["kw"])
        if not wanted:
            return rows
        return [o for o in rows if (wanted & set(o["kw"]) if q["any"] else wanted <= set(o["kw"]))]

    def srq(self, q):
        return [o["seq"] for o in self.matching(q)]

    def skq(self, q):
        rows = self.matching(q, region=False)
        far = distance(_column(rows, "x", np.float64), _column(rows, "y", np.float64), *q["shape"][:2], self.metric)
        ranked = sorted((d, o["seq"]) for d, o in zip(far.tolist(), rows, strict=True) if d <= q["reach"])
        return ranked[: q["k"]]

    def stq(self, q):
        """Return what is listed, and the largest count that is not."""
        counts = Counter(word for o in self.matching(q) for word in o["kw"])
        ranked = sorted(((-count, term) for term, count in counts.items()))
        listed = ranked
        if 0 < q["k"] < len(ranked):
            listed = [item for item in ranked if item[0] <= ranked[q["k"] - 1][0]]
        left_out = -ranked[len(listed)][0] if len(listed) < len(ranked) else 0
        return [(term, -count) for count, term in listed], left_out
