"""What aggregators ask message stores for, and what these find, on the wire."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from operators.indexes.topk.topk_index import Answers, Requests
from streams.batches import TYPE_TOPK, QueryBatch, RankedBatch, TupleBatch
from streams.columns import Ids, Ints
from streams.scoring import unit_weights
from streams.vocabulary import Vocabulary

__all__ = ["AS_OF_NOW", "LIMIT_FIELDS", "Pairs", "all_between", "asked", "found", "limits", "partial_answers"]

Floats = NDArray[np.float64]

#: Subscription, message, score.
Pairs = tuple[Ints, Ints, Floats]

#: The columns of `Requests` that a subscription does not have; they travel beside the subscriptions, row by row.
LIMIT_FIELDS = ("least", "most", "bound", "ratio", "first", "stop")

#: Stands for the window's end and beginning when the request is answered.
AS_OF_NOW = -1


def limits(requests: Requests) -> TupleBatch:
    """Return the limits of requests as a batch."""
    return TupleBatch(LIMIT_FIELDS, tuple(getattr(requests, name) for name in LIMIT_FIELDS))


def asked(queries: QueryBatch, limit: TupleBatch, first: int, stop: int, vocabulary: Vocabulary) -> Requests:
    """Return the requests of subscriptions; those as of now get the window as it is."""
    columns = {name: limit.column(name) for name in LIMIT_FIELDS}
    columns["first"] = np.where(columns["first"] == AS_OF_NOW, first, columns["first"])
    columns["stop"] = np.where(columns["stop"] == AS_OF_NOW, stop, columns["stop"])
    weight = unit_weights(queries.kw_off, queries.kw, vocabulary)
    place = np.ascontiguousarray(queries.shape[:, 0]), np.ascontiguousarray(queries.shape[:, 1])
    return Requests(*place, queries.alpha, queries.kw_off, queries.kw, weight, **columns)


def all_between(requests: Requests, first: int, stop: int) -> Requests:
    """Return requests for all messages between two places that share a keyword; of those for a window of the past, for none."""
    rows = len(requests)
    end = np.where(requests.stop == first, stop, first)
    most = np.full(rows, stop - first, np.int32)
    nowhere = np.full(rows, -np.inf)
    return replace(
        requests, least=most, most=most, bound=nowhere, ratio=np.zeros(rows), first=np.full(rows, first), stop=end
    )


def found(numbers: Ints, answers: Answers, later: Answers | None, ts: int) -> RankedBatch:
    """Return answers as a batch: of each the list, its floor as an item of no message, and what was found `later`."""
    rows = len(numbers)
    ends = answers.off[1:]
    off, seq = answers.off + np.arange(rows + 1), np.insert(answers.seq, ends, -1)
    value = np.insert(answers.score, ends, answers.floor)
    if later is not None:
        behind = np.repeat(off[1:], np.diff(later.off))
        seq, value, off = np.insert(seq, behind, later.seq), np.insert(value, behind, later.score), off + later.off
    return RankedBatch(
        number=numbers, ts=np.full(rows, ts, np.int64), type=np.full(rows, TYPE_TOPK, np.uint8),
        k=np.ones(rows, np.int32), instant=np.zeros(rows, np.bool_), off=off.astype(np.int32), seq=seq,
        ids=Ids("int", seq), value=value,
    )  # fmt: skip


def partial_answers(parts: list[RankedBatch]) -> tuple[Ints, Answers, Pairs]:
    """Unite what several stores have found: the numbers, ascending, for each what all of them know together; what came later.

    What one of them has left out is worse than the last that it lists, or at its floor, so what all have left out is worse than
    the best of these; what is listed and as bad is not all there is, and goes.
    """
    whole = RankedBatch.concat([RankedBatch.empty(), *parts])
    numbers, place = np.unique(whole.number, return_inverse=True)
    row = place[whole.row]
    is_floor = np.flatnonzero(whole.seq < 0)
    # A floor stands behind the last item of its list, and is its score where the list was cut there.
    last = np.maximum(is_floor - 1, 0)
    cut = np.where(
        (whole.seq[last] >= 0) & (row[last] == row[is_floor]) & (whole.value[last] == whole.value[is_floor]),
        whole.seq[last],
        -1,
    )
    highest = np.lexsort((cut, whole.value[is_floor], row[is_floor]))
    ends = np.searchsorted(row[is_floor][highest], np.arange(len(numbers)), side="right") - 1
    floor, seq = whole.value[is_floor][highest][ends], cut[highest][ends]
    listed = np.arange(len(whole.seq)) < is_floor[whole.row]
    known = (whole.value > floor[row]) | ((whole.value == floor[row]) & (whole.seq >= seq[row]))
    kept = np.flatnonzero(listed & known)
    order = kept[np.lexsort((-whole.seq[kept], -whole.value[kept], row[kept]))]
    off = np.zeros(len(numbers) + 1, np.int64)
    np.cumsum(np.bincount(row[order], minlength=len(numbers)), out=off[1:])
    later = np.flatnonzero(np.arange(len(whole.seq)) > is_floor[whole.row])
    return (
        numbers,
        Answers(off, whole.seq[order], whole.value[order], floor, 0),
        (whole.number[whole.row[later]], whole.seq[later], whole.value[later]),
    )
