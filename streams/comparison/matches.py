"""Continuous range queries: millions of (query, time, object), with what a fence detected, compared as columns."""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from streams.batches import DETECTS
from streams.columns import Ints
from streams.comparison.differences import Kind, Tally
from streams.oracle import Oracle
from streams.oracle.identities import Codes

__all__ = ["MatchColumns", "compare_matches"]

_TYPE = "range"


@dataclass(frozen=True, slots=True, eq=False)
class MatchColumns:
    """Match lines in file order: code of the query's identifier, time, code of the object's identifier, event.

    An event is a place in `DETECTS`, and -1 for a match that is none.
    """

    query: "array[int]" = field(default_factory=lambda: array("q"))
    ts: "array[int]" = field(default_factory=lambda: array("q"))
    object: "array[int]" = field(default_factory=lambda: array("q"))
    detect: "array[int]" = field(default_factory=lambda: array("q"))

    def as_arrays(self) -> list[Ints]:
        """Return the columns as numpy arrays, without copying."""
        return [np.frombuffer(column, np.int64) for column in (self.query, self.ts, self.object, self.detect)]


def compare_matches(oracle: Oracle, found: MatchColumns, queries: Codes, objects: Codes, tally: Tally) -> None:
    """Compare match lines with the oracle's as multisets, and check that each query's are in time order.

    Args:
        oracle: the definition.
        found: the match lines.
        queries: the identifiers of the oracle's registrations.
        objects: the identifiers of the oracle's objects.
        tally: takes the differences.
    """
    given_columns = found.as_arrays()
    _check_order(given_columns[0], given_columns[1], queries.names, tally)
    right = _expected(oracle, queries, objects)
    tally.expected[_TYPE] += len(right[0])
    tally.found[_TYPE] += len(given_columns[0])

    columns = [np.concatenate(pair) for pair in zip(right, given_columns, strict=True)]
    if not len(columns[0]):
        return
    order = np.lexsort(columns[::-1])
    q, t, o, d = ordered = [column[order] for column in columns]
    first = np.ones(len(q), np.bool_)
    first[1:] = np.logical_or.reduce([column[1:] != column[:-1] for column in ordered])
    starts = np.flatnonzero(first)
    wanted = np.add.reduceat((order < len(right[0])).astype(np.int64), starts)
    given = np.diff(np.append(starts, len(q))) - wanted

    def note(kind: Kind, surplus: Ints, where: NDArray[np.bool_]) -> None:
        groups = np.flatnonzero(where)
        kept = groups[: tally.room(_TYPE, kind)]
        for group in kept.tolist():
            row = starts[group]
            name = objects.names[o[row]]
            name = name if d[row] < 0 else f"{name} {DETECTS[d[row]]}"
            expected = name if wanted[group] else None
            there = name if given[group] else None
            times = int(surplus[group])
            tally.add(_TYPE, kind, queries.names[q[row]], int(t[row]), expected=expected, found=there, times=times)
        tally.count_only(_TYPE, kind, int(surplus[groups[len(kept) :]].sum()))

    note("missing", wanted - given, given < wanted)
    note("unexpected", given, (wanted == 0) & (given > 0))
    note("repeated", given - wanted, (wanted > 0) & (given > wanted))


def _expected(oracle: Oracle, queries: Codes, objects: Codes) -> list[Ints]:
    """Return the columns of all lines that there should be."""
    code_of = {q.number: code for q, code in zip(oracle.registrations, queries.codes.tolist(), strict=True)}
    matches = oracle.matches()
    codes = np.array([code_of[number] for number in matches.number.tolist()], np.int64)
    rows = matches.object
    parts = [
        [np.repeat(codes, np.diff(matches.off)), oracle.objects.ts[rows], objects.codes[rows], np.full(len(rows), -1)]
    ]
    for q in oracle.registrations:
        if q.detect:
            events = oracle.crossings(q)
            code = np.full(len(events.ts), code_of[q.number])
            parts.append([code, events.ts, objects.codes[events.object], events.detect])
    return [np.concatenate(columns) for columns in zip(*parts, strict=True)]


def _check_order(query: Ints, ts: Ints, names: Sequence[int | str], tally: Tally) -> None:
    order = np.argsort(query, kind="stable")
    q, t = query[order], ts[order]
    back = np.flatnonzero((q[1:] == q[:-1]) & (t[1:] < t[:-1])) + 1
    kept = back[: tally.room(_TYPE, "out_of_order")]
    for row in kept.tolist():
        tally.add(
            _TYPE, "out_of_order", names[q[row]], int(t[row]), expected=f"ts >= {t[row - 1]}", found=f"ts {t[row]}"
        )
    tally.count_only(_TYPE, "out_of_order", len(back) - len(kept))
