"""Fences: who enters a region, leaves it, or stays inside, from the states of dynamic objects.

The state of an object is its last record; it is inside of a query if place and keywords are. A query that lives compares each
record with the state before it. When it begins, whoever is inside already enters; when it ends, whoever is still inside exits.
"""

from dataclasses import dataclass

import numpy as np

from streams.batches import DETECTS, ObjectBatch
from streams.columns import Ints
from streams.geometry import Metric
from streams.oracle.identities import Lifelines
from streams.oracle.registrations import Registration
from streams.oracle.selection import inside
from streams.window import rows_upto

__all__ = ["Crossings", "crossings"]

_ENTER, _EXIT, _INSIDE = range(len(DETECTS))


@dataclass(frozen=True, slots=True, eq=False)
class Crossings:
    """Events in the order of time: when, a row of the object that it is about, and a place in `DETECTS`."""

    ts: Ints
    object: Ints
    detect: Ints


def crossings(q: Registration, objects: ObjectBatch, lifelines: Lifelines, last_ts: int, metric: Metric) -> Crossings:
    """Return what a fence reports: those of its events that it detects."""
    ts, count = objects.ts, len(objects)
    first, stop = rows_upto(ts, q.ts - 1), rows_upto(ts, q.end - 1)
    within = np.zeros(count + 1, np.bool_)  # the last stands for no record at all
    within[inside(objects, 0, stop, q, metric)] = True
    before = np.full(count + 1, count)  # the record that each one follows
    before[lifelines.leaves] = np.arange(count)

    rows = np.arange(first, stop)
    now, was = within[rows], within[before[rows]]
    events = [
        (ts[rows], rows, np.where(now & was, _INSIDE, np.where(now, _ENTER, np.where(was, _EXIT, -1)))),
    ]
    present = np.flatnonzero(within[:first] & (lifelines.leaves[:first] >= first))
    events.insert(0, (np.full(len(present), q.ts), present, np.full(len(present), _ENTER)))
    if q.end <= last_ts:
        left = np.flatnonzero(within[:stop] & (lifelines.leaves[:stop] >= stop))
        events.append((np.full(len(left), q.end), left, np.full(len(left), _EXIT)))
    when, row, detect = (np.concatenate(columns).astype(np.int64) for columns in zip(*events, strict=True))
    wanted = np.flatnonzero((detect >= 0) & ((q.detect >> np.maximum(detect, 0)) & 1 == 1))
    return Crossings(when[wanted], row[wanted], detect[wanted])
