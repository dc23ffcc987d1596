"""Standing range queries as plain Python, and batches made of them: what every range index is compared with."""

from dataclasses import dataclass, field

import numpy as np
from polygon_model import ring_columns, rings_of

from streams.batches import FOREVER, NO_WINDOW, OP_REGISTER, OP_UPSERT, TYPE_RANGE, ObjectBatch, QueryBatch
from streams.columns import Ids
from streams.geometry import inside_region


@dataclass(frozen=True)
class PlainQuery:
    number: int
    region: int
    shape: tuple[float, float, float, float]
    keywords: frozenset[int] = frozenset()
    match_any: bool = False
    ts: int = 0
    end: int = FOREVER
    type: int = TYPE_RANGE
    continuous: bool = True
    k: int = 0
    alpha: float = 0.0
    window: int = NO_WINDOW
    slide: int = 0
    detect: int = 0
    none: frozenset[int] = frozenset()
    polygons: tuple = ()


@dataclass(frozen=True)
class PlainObject:
    x: float
    y: float
    keywords: frozenset[int] = frozenset()
    ts: int = 0


def rows_of(sets):
    off = np.zeros(len(sets) + 1, np.int32)
    np.cumsum([len(s) for s in sets], out=off[1:])
    return off, np.array([k for s in sets for k in sorted(s)], np.int64)


def query_batch(queries):
    count = len(queries)
    off, kw = rows_of([q.keywords for q in queries])
    number = np.array([q.number for q in queries], np.int64)
    return QueryBatch(
        number=number, target=number, op=np.full(count, OP_REGISTER, np.uint8),
        ts=np.array([q.ts for q in queries], np.int64), end=np.array([q.end for q in queries], np.int64),
        type=np.array([q.type for q in queries], np.uint8),
        continuous=np.array([q.continuous for q in queries], np.bool_),
        match_any=np.array([q.match_any for q in queries], np.bool_),
        region=np.array([q.region for q in queries], np.uint8),
        shape=np.array([q.shape for q in queries], np.float64).reshape(count, 4),
        k=np.array([q.k for q in queries], np.int32), alpha=np.array([q.alpha for q in queries], np.float64),
        window=np.array([q.window for q in queries], np.int64), slide=np.array([q.slide for q in queries], np.int64),
        detect=np.array([q.detect for q in queries], np.uint8), kw_off=off, kw=kw, ids=Ids("int", number),
        **residual_columns(queries),
    )  # fmt: skip


def residual_columns(queries):
    """Return the columns of excluded keywords and of rings, of queries that have `none` and `polygons`."""
    off, none = rows_of([q.none for q in queries])
    return {"none_off": off, "none": none, **ring_columns([q.polygons for q in queries])}


def object_batch(objects):
    off, kw = rows_of([o.keywords for o in objects])
    seq = np.arange(len(objects))
    return ObjectBatch(
        seq=seq, ts=np.array([o.ts for o in objects], np.int64), x=np.array([o.x for o in objects], np.float64),
        y=np.array([o.y for o in objects], np.float64), op=np.full(len(objects), OP_UPSERT, np.uint8),
        kw_off=off, kw=kw, ids=Ids("int", seq),
    )  # fmt: skip


@dataclass
class PlainIndex:
    """The definition of the contract, query by query."""

    metric: str = "euclidean"
    queries: dict[int, PlainQuery] = field(default_factory=dict)
    asleep: set[int] = field(default_factory=set)

    def pairs(self, objects):
        x, y = np.array([o.x for o in objects], np.float64), np.array([o.y for o in objects], np.float64)
        found = []
        for q in self.queries.values():
            if q.number in self.asleep:
                continue
            inside = inside_region(x, y, q.region, q.shape, self.metric, rings_of(q.polygons))
            for i, o in enumerate(objects):
                shared = len(q.keywords & o.keywords)
                fits = not q.keywords or (shared > 0 if q.match_any else shared == len(q.keywords))
                fits = fits and not q.none & o.keywords
                if inside[i] and fits and q.ts <= o.ts < q.end:
                    found.append((i, q.number))
        return sorted(found)


def pairs_of(matches):
    assert matches.off[0] == 0
    assert matches.off[-1] == len(matches.number)
    return sorted(zip(matches.object.tolist(), matches.number.tolist(), strict=True))
