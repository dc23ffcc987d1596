"""Which objects a query is about: when, where, and with which keywords."""

import numpy as np
from numpy.typing import NDArray

from streams.batches import NO_WINDOW, OP_UPSERT, ObjectBatch
from streams.columns import Ints, csr_take
from streams.geometry import Metric, inside_region
from streams.oracle.registrations import Registration
from streams.window import rows_upto

__all__ = ["fits_keywords", "inside", "span_of_snapshot"]


def fits_keywords(objects: ObjectBatch, rows: Ints, keywords: Ints, match_any: bool) -> NDArray[np.bool_]:
    """Tell for each of these rows whether it has all of the keywords, or any; no keywords fit everything."""
    if not len(keywords):
        return np.ones(len(rows), np.bool_)
    off, kw = csr_take(objects.kw_off, objects.kw, rows)
    row = np.repeat(np.arange(len(rows)), np.diff(off))
    shared = np.bincount(row[np.isin(kw, keywords)], minlength=len(rows))
    return np.asarray(shared > 0 if match_any else shared == len(keywords))


def free_of(objects: ObjectBatch, rows: Ints, none: Ints) -> NDArray[np.bool_]:
    """Tell for each of these rows whether it has none of some keywords."""
    if not len(none):
        return np.ones(len(rows), np.bool_)
    return ~fits_keywords(objects, rows, none, True)


def inside(objects: ObjectBatch, start: int, stop: int, q: Registration, metric: Metric) -> Ints:
    """Return the rows from start to stop that are inside the region of q, fit its keywords and have none that it excludes.

    A deletion has no place and no keywords: it is never inside.
    """
    found = inside_region(objects.x[start:stop], objects.y[start:stop], q.region, q.shape, metric, q.rings)
    rows: Ints = np.flatnonzero(found) + start
    rows = rows[objects.op[rows] == OP_UPSERT]
    rows = rows[fits_keywords(objects, rows, q.keywords, q.match_any)]
    return rows[free_of(objects, rows, q.none)]


def span_of_snapshot(ts: Ints, q: Registration) -> tuple[int, int]:
    """Return the rows with q.ts - window < ts <= q.ts as a slice; without a window, all with ts <= q.ts."""
    start = 0 if q.window == NO_WINDOW else rows_upto(ts, q.ts - q.window)
    return start, rows_upto(ts, q.ts)
