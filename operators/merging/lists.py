"""Lists of several evaluators as one: united and cut to k where items are objects, added up where they are terms."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from operators.indexes.core.standing_queries import plain
from operators.merging.list_kernels import MOST, add_up, unite_short
from streams.batches import TYPE_KNN, TYPE_TERMS, RankedBatch
from streams.columns import Ids, Ints, Offsets
from streams.hashing import hash_columns
from streams.kernel import kernel

__all__ = ["fingerprints", "summed", "united"]


def united(place: Ints, lists: RankedBatch, answers: int, *, first_seen: bool = False) -> RankedBatch:
    """Unite the lists of each place (0 .. answers - 1, every one of which has a list), and keep the k best of each.

    An object that several evaluators list counts once. The smallest values come first for `knn`, then the smallest `seq`;
    the largest for other types, then the largest `seq`, or the smallest (`first_seen`) where objects have states.
    """
    head = np.searchsorted(place, np.arange(answers + 1))
    if (np.diff(lists.off[head]) <= MOST).all():
        return _united_short(head, lists, first_seen)
    head = head[:-1]
    row = place[lists.row]
    ascending = lists.type[head][row] == TYPE_KNN
    value = np.where(ascending, lists.value, -lists.value)
    tie = np.where(ascending | first_seen, lists.seq, -lists.seq)
    order = np.lexsort((tie, value, row))
    twice = _repeated(row[order], lists.seq[order])
    order = order[~twice]
    rank = np.arange(len(order)) - np.searchsorted(row[order], row[order])
    order = order[rank < lists.k[head][row[order]]]
    off = np.zeros(answers + 1, np.int32)
    np.cumsum(np.bincount(row[order], minlength=answers), out=off[1:])
    return _regrouped(lists, head, off, order)


def _united_short(head: Ints, lists: RankedBatch, first_seen: bool) -> RankedBatch:
    """Do the same with a kernel, which pays where lists are short."""
    first = head[:-1]
    off, items = np.empty(len(head), np.int32), np.empty(len(lists.seq), np.int64)
    unite_short(
        head, plain(lists.off, np.int32), plain(lists.seq, np.int64), plain(lists.value, np.float64),
        lists.type[first] == TYPE_KNN, first_seen, lists.k[first], off, items,
    )  # fmt: skip
    return _regrouped(lists, first, off, items[: off[-1]])


def _repeated(row: Ints, seq: Ints) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Tell which items repeat an earlier one of their row."""
    order = np.lexsort((np.arange(len(seq)), seq, row))
    again = np.zeros(len(seq), np.bool_)
    again[1:] = (row[order][1:] == row[order][:-1]) & (seq[order][1:] == seq[order][:-1])
    twice = np.zeros(len(seq), np.bool_)
    twice[order] = again
    return twice


def _regrouped(lists: RankedBatch, head: Ints, off: Offsets, items: Ints) -> RankedBatch:
    """Return answers with some of the items of their lists; `head` is the first list of each."""
    latest = np.maximum.reduceat(lists.ts, head) if len(head) else lists.ts
    return RankedBatch(
        number=lists.number[head], ts=latest, type=lists.type[head], k=lists.k[head], instant=lists.instant[head],
        off=off, seq=lists.seq[items], ids=lists.ids.take(items), value=lists.value[items],
    )  # fmt: skip


def summed(place: Ints, lists: RankedBatch, answers: int, words_of: Callable[[Ints], list[str]]) -> RankedBatch:
    """Add up the counts of each place, and keep the k terms that occur most; of equal ones the first by the alphabet.

    A list has a term once. `words_of` names distinct terms; it is asked only for those that reach the kth count.
    """
    heads = np.searchsorted(place, np.arange(answers + 1))
    head, count = heads[:-1], len(lists.seq)
    row, item, totals = np.empty(count, np.int64), np.empty(count, np.int64), np.empty(count)
    reached = add_up(
        lists.off[heads].astype(np.int64), plain(lists.seq, np.int64), plain(lists.value, np.float64),
        plain(lists.k[head], np.int32), row, item, totals,
    )  # fmt: skip
    row, item, totals = row[:reached], item[:reached], totals[:reached]
    terms, term = np.unique(lists.seq[item], return_inverse=True)
    words = words_of(terms)
    alphabetical = np.argsort(np.argsort(np.array(words, dtype=object), kind="stable"), kind="stable")
    best = np.lexsort((alphabetical[term], -totals, row))
    rank = np.arange(len(best)) - np.searchsorted(row[best], row[best])
    best = best[rank < lists.k[head][row[best]]]
    off = np.zeros(answers + 1, np.int32)
    np.cumsum(np.bincount(row[best], minlength=answers), out=off[1:])
    merged = _regrouped(lists, head, off, item[best])
    texts = Ids("text", pa.array(words, pa.string())).take(term[best])
    return RankedBatch(
        merged.number, merged.ts, np.full(answers, TYPE_TERMS, np.uint8), merged.k, merged.instant, merged.off,
        merged.seq, texts, totals[best],
    )  # fmt: skip


def fingerprints(lists: RankedBatch, *, by_id: bool = False) -> Ints:
    """Return a number for each list that other lists have not, but for chance (2^-64): its items in their order, with values.

    An empty list has 0. Items are told apart by `seq`, or by identifier where the same object may come with another one.
    """
    out = np.empty(len(lists), np.uint64)
    items = hash_columns([lists.ids]).view(np.int64) if by_id else lists.seq
    off, seq, value = (
        np.require(c, t, ["C", "A", "W"])
        for c, t in ((lists.off, np.int32), (items, np.int64), (lists.value, np.float64))
    )
    _prints(off, seq.view(np.uint64), value.view(np.uint64), out)
    return out.view(np.int64)


@kernel
def _item_print(rank: Any, seq: np.uint64, value: np.uint64) -> np.uint64:
    """Return what one item adds: rank, item and value by odd factors, and their sum scrambled as splitmix64 does."""
    z = seq + value * np.uint64(0xD1342543DE82EF95) + np.uint64(rank + 1) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@kernel
def _prints(off: Any, seq: Any, value: Any, out: Any) -> None:
    """Add up the items of each list."""
    for i in range(out.shape[0]):
        total = np.uint64(0)
        for p in range(off[i], off[i + 1]):
            total += _item_print(p - off[i], seq[p], value[p])
        out[i] = total
