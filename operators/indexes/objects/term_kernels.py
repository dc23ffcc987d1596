"""The most frequent terms of regions over blocks and the open chunk (STQ).

Blocks that the window cuts are counted object by object. In others a node that is inside of the region is looked up: its head
says how often its frequent words occur, and its tail bounds all others. A small node across the border is looked up as well,
but its head only says what is not exceeded; elsewhere at the border objects are counted.

So after one walk there is for each word a count that it reaches, `counted`, and one that it does not exceed: that, plus the sum
of all tails, less `named`, which is the tails of heads that name the word, less its counts in those at the border. Words that
cannot come up to the kth of what is reached are out; those that are left are counted in the segments, where the cells inside
of the region are a difference of two starts. Where too many are left, or the tails alone come up to the kth count, everything
is counted.
"""

from typing import Any

import numpy as np

from operators.indexes.objects import block_kernels as blocks_of
from operators.indexes.objects.probe_kernels import (
    EXAMINED,
    FEW,
    NEEDED,
    ONE,
    REGION_SIZE,
    bounds_in,
    decided,
    inside,
    lead,
    next_run,
    probe,
    probe_open,
    read_region,
)  # fmt: skip
from operators.indexes.objects.raw_arrays import doubles_at, ints_at, singles_at
from operators.indexes.objects.segment_kernels import FINEST
from streams.kernel import kernel, lean_kernel

__all__ = ["count_object", "count_open", "count_ranks", "list_terms", "stq"]

#: Sums of a walk: words met, sum of tails, words of nodes that were looked up and not counted.
MET, TAIL, SPARED = 0, 1, 2
#: A node across the border is small if it has at most one object in so many of those inside.
BORDER = 32
#: Counts from here on are sorted to find the kth; smaller ones are counted themselves.
LARGE = 2048
#: Counting a word in a segment takes about as long as counting so many words one by one.
A_SEGMENT = 60


@lean_kernel
def count_words(words: Any, begin: Any, end: Any, counted: Any, met: Any, sums: Any) -> None:
    """Count a run of words."""
    kinds = sums[MET]
    for p in range(begin, end):
        word = words[p]
        before = counted[word]
        met[kinds] = word
        kinds += 1 if before == 0 else 0
        # A word that was met counts from 1 on, so that one with a count of 0 is known to have been met.
        counted[word] = before + np.int32(2 if before == 0 else 1)
    sums[MET] = kinds


@lean_kernel
def _look_up(head: Any, block: Any, whole: Any, counted: Any, named: Any, met: Any, sums: Any) -> None:
    """Add a head: to what is reached and what is not exceeded, or, of a node that is not wholly inside, to the latter alone."""
    tops = ints_at(block[blocks_of.TOPS], block[blocks_of.HEAD_COUNT] + 1)
    heads = ints_at(block[blocks_of.HEADS], 2 * block[blocks_of.HEAD_LENGTH])
    tail = ints_at(block[blocks_of.TAILS], block[blocks_of.HEAD_COUNT])[head]
    sums[TAIL] += tail
    kinds = sums[MET]
    for p in range(tops[head], tops[head + 1]):
        word = heads[2 * p]
        if counted[word] == 0:
            met[kinds] = word
            kinds += 1
            counted[word] = 1
        if whole:
            counted[word] += heads[2 * p + 1]
            named[word] += tail
        else:
            named[word] += tail - heads[2 * p + 1]
    sums[MET] = kinds


@lean_kernel
def _held(starts: Any, level: Any, region: Any, frame: Any, bounds: Any, stack: Any) -> Any:
    """Return about how many objects of a block are inside of a region."""
    stack[0, :] = 0
    depth, total, most = np.int64(1), np.int64(0), np.int64(1) << 40
    while True:
        depth, begin, end, _, _ = next_run(stack, depth, starts, level, region, frame, bounds, most, np.int64(FEW))
        if end < 0:
            return total
        total += end - begin


@lean_kernel
def _walk_block(
    block: Any, frame: Any, region: Any, first: Any, stop: Any, heads: Any, chunks: Any, shift: Any, oldest: Any, stack: Any,
    bounds: Any, counted: Any, named: Any, met: Any, sums: Any, info: Any,
) -> None:  # fmt: skip
    """Add the words of a block's objects inside of a region."""
    level, base = block[blocks_of.LEVEL], block[blocks_of.FIRST]
    starts = ints_at(block[blocks_of.STARTS], block[blocks_of.START_LENGTH])
    records = ints_at(block[blocks_of.RECORDS], 4 * block[blocks_of.RECORD_LENGTH])
    places = singles_at(block[blocks_of.RECORDS], 4 * block[blocks_of.RECORD_LENGTH])
    words = ints_at(block[blocks_of.WORDS], block[blocks_of.WORD_LENGTH])
    nodes = ints_at(block[blocks_of.NODES], block[blocks_of.NODE_LENGTH])
    whole = base >= first and block[blocks_of.STOP] <= stop
    bounds_in(region, frame, level, bounds)
    small, most = np.int64(FEW), stop - first
    if heads and whole:
        most = np.int64(blocks_of.MOST_HEADED)
        small = max(small, _held(starts, level, region, frame, bounds, stack) // BORDER)
    stack[0, :] = 0
    depth = np.int64(1)
    while True:
        depth, begin, end, side, place = next_run(stack, depth, starts, level, region, frame, bounds, most, small)
        if end < 0:
            return
        word = records[4 * begin - 1] if begin > 0 else np.int32(0)
        if heads and whole and place < nodes.shape[0] and nodes[place] >= 0:
            _look_up(nodes[place], block, side == 1, counted, named, met, sums)
            sums[SPARED] += records[4 * end - 1] - word
            continue
        if side == 1 and whole:
            info[EXAMINED] += end - begin
            count_words(words, word, records[4 * end - 1], counted, met, sums)
            continue
        info[EXAMINED] += end - begin
        for p in range(begin, end):
            rank = base + records[4 * p + 2]
            if (whole or first <= rank < stop) and (
                side == 1 or decided(places[4 * p], places[4 * p + 1], rank, region, chunks, shift, oldest)
            ):
                count_words(words, word, records[4 * p + 3], counted, met, sums)
            word = records[4 * p + 3]


@lean_kernel
def count_object(rank: Any, chunks: Any, shift: Any, oldest: Any, counted: Any, met: Any, sums: Any) -> None:
    """Count the words of one object."""
    chunk = (rank - oldest) >> shift
    row = rank - oldest - (chunk << shift)
    off = ints_at(chunks[chunk, blocks_of.CHUNK_OFF], (np.int64(1) << shift) + 1)
    words = ints_at(chunks[chunk, blocks_of.CHUNK_WORDS], chunks[chunk, blocks_of.CHUNK_WORD_LENGTH])
    count_words(words, off[row], off[row + 1], counted, met, sums)


@lean_kernel
def count_open(
    base: Any, newest: Any, region: Any, first: Any, stop: Any, chunks: Any, shift: Any, oldest: Any, counted: Any, met: Any,
    sums: Any, info: Any,
) -> None:  # fmt: skip
    """Count the words of the open chunk's objects inside of a region."""
    chunk = (base - oldest) >> shift
    x, y = (
        doubles_at(chunks[chunk, blocks_of.CHUNK_X], np.int64(1) << shift),
        doubles_at(chunks[chunk, blocks_of.CHUNK_Y], np.int64(1) << shift),
    )
    for rank in range(max(first, base), min(stop, newest)):
        info[EXAMINED] += 1
        if inside(x[rank - base], y[rank - base], region):
            count_object(rank, chunks, shift, oldest, counted, met, sums)


@kernel
def _walk(
    store: Any, region: Any, first: Any, stop: Any, heads: Any, counted: Any, named: Any, met: Any, sums: Any, info: Any
) -> None:
    """Add the words of all objects inside of a region."""
    _, _, blocks, frames, chunks, shift, oldest, open_, newest, _, _ = store
    stack, bounds = np.empty((4 * FINEST, 3), np.int64), np.empty(4, np.int64)
    sums[:] = 0
    for b in range(blocks.shape[0]):
        if blocks[b, blocks_of.FIRST] < stop and blocks[b, blocks_of.STOP] > first:
            _walk_block(
                blocks[b], frames[b], region, first, stop, heads, chunks, shift, oldest, stack, bounds, counted, named, met,
                sums, info,
            )  # fmt: skip
    count_open(open_[3], newest, region, first, stop, chunks, shift, oldest, counted, met, sums, info)


@kernel
def _kth(counted: Any, met: Any, kinds: Any, k: Any) -> Any:
    """Return the kth largest count of the words met, 0 where there are fewer, or all are wanted."""
    if k < 1 or kinds < k:
        return np.int64(0)
    shares = np.zeros(LARGE + 1, np.int64)
    for i in range(kinds):
        shares[min(counted[met[i]], LARGE)] += 1
    count, above = np.int64(LARGE), np.int64(0)
    while above + shares[count] < k:
        above += shares[count]
        count -= 1
    if count < LARGE:
        return count - 1
    counts, found = np.empty(shares[LARGE], np.int32), 0
    for i in range(kinds):
        if counted[met[i]] >= LARGE:
            counts[found] = counted[met[i]]
            found += 1
    return np.int64(np.partition(counts, found - k)[found - k]) - 1


@kernel
def _settle(
    store: Any, region: Any, first: Any, stop: Any, kth: Any, counted: Any, named: Any, met: Any, sums: Any, grids: Any,
    info: Any,
) -> Any:  # fmt: skip
    """Count exactly what may come up to the kth count, and forget the rest; return False where that is too much work."""
    segments, frames, _, _, chunks, shift, oldest, open_, _, _, _ = store
    if sums[TAIL] >= kth:
        return False
    left = 0
    for i in range(sums[MET]):
        word = met[i]
        if named[word] < sums[TAIL] and counted[word] - 1 + sums[TAIL] - named[word] >= kth:
            left += 1
    if left * A_SEGMENT * (segments.shape[0] + 1) > sums[SPARED] + 1000:
        return False
    nobody, word_of = np.empty(0, np.int64), np.empty(1, np.int64)
    spans = np.empty((segments.shape[0], 4), np.int64)
    kinds = 0
    for i in range(sums[MET]):
        word = met[i]
        most = counted[word] - 1 + sums[TAIL] - named[word]
        if most >= kth and named[word] < sums[TAIL]:
            word_of[0] = word
            lead(segments, frames, word, first, stop, region, grids, spans)
            count = np.int64(0)
            for g in range(segments.shape[0]):
                if grids[g] >= 0:
                    count = probe(
                        segments[g], spans[g], grids[g], region, first, stop, word_of, 0, ONE, np.int32(0), chunks, shift,
                        oldest, True, nobody, count, info,
                    )  # fmt: skip
            count = probe_open(
                open_, region, first, stop, word_of, 0, ONE, chunks, shift, oldest, True, nobody, count, info
            )
            counted[word] = count + 1
        named[word] = 0
        if most >= kth:
            met[kinds] = word
            kinds += 1
        else:
            counted[word] = 0
    sums[MET] = kinds
    return True


@lean_kernel
def _forget(counted: Any, named: Any, met: Any, sums: Any) -> None:
    for i in range(sums[MET]):
        counted[met[i]] = named[met[i]] = 0
    sums[MET] = 0


@kernel
def list_terms(
    k: Any, counted: Any, named: Any, met: Any, sums: Any, exact: Any, terms: Any, counts: Any, found: Any, rest: Any, info: Any
) -> Any:  # fmt: skip
    """Append the words that reach the kth count, and forget all; return how many are listed now, -1 where there is no room."""
    kth = max(_kth(counted, met, sums[MET], k), 1)
    top = found
    rest[0] = 0 if exact else kth - 1
    for i in range(sums[MET]):
        count = np.int64(counted[met[i]]) - 1
        if count >= kth:
            if top < terms.shape[0]:
                terms[top] = met[i]
                counts[top] = count
            top += 1
        elif exact:
            rest[0] = max(rest[0], count)
    _forget(counted, named, met, sums)
    if top > terms.shape[0]:
        info[NEEDED] = top
        return np.int64(-1)
    return top


@kernel
def stq(
    begin: Any, asks: Any, k: Any, store: Any, scratch: Any, off: Any, terms: Any, counts: Any, rest: Any, info: Any
) -> Any:
    """Answer questions without keywords from `begin` on; return the first that is not answered, for which there is no room.

    `scratch` are the arrays `counted`, `named` and `met`: 0 for every word, before and after, and room for all words.
    """
    kinds, shape, _, _, _, firsts, stops = asks
    segments, corner, error = store[0], store[9], store[10]
    counted, named, met = scratch
    region, sums, grids = np.empty(REGION_SIZE), np.zeros(3, np.int64), np.empty(segments.shape[0], np.int64)
    for q in range(begin, firsts.shape[0]):
        first, stop = firsts[q], stops[q]
        read_region(kinds[q], shape[q], corner, error, region)
        _walk(store, region, first, stop, k[q] > 0, counted, named, met, sums, info)
        exact = sums[SPARED] == 0
        if not exact:
            kth = _kth(counted, met, sums[MET], k[q])
            if not _settle(store, region, first, stop, kth, counted, named, met, sums, grids, info):
                _forget(counted, named, met, sums)
                _walk(store, region, first, stop, False, counted, named, met, sums, info)
                exact = True
        found = list_terms(k[q], counted, named, met, sums, exact, terms, counts, off[q], rest[q : q + 1], info)
        if found < 0:
            return q
        off[q + 1] = found
    return firsts.shape[0]


@kernel
def count_ranks(
    begin: Any, rank_off: Any, ranks: Any, k: Any, chunks: Any, shift: Any, oldest: Any, scratch: Any, off: Any, terms: Any,
    counts: Any, rest: Any, info: Any,
) -> Any:  # fmt: skip
    """Count the words of objects that were found for each question; as `stq`."""
    counted, named, met = scratch
    sums = np.zeros(3, np.int64)
    for q in range(begin, k.shape[0]):
        for i in range(rank_off[q], rank_off[q + 1]):
            count_object(ranks[i], chunks, shift, oldest, counted, met, sums)
        found = list_terms(k[q], counted, named, met, sums, True, terms, counts, off[q], rest[q : q + 1], info)
        if found < 0:
            return q
        off[q + 1] = found
    return k.shape[0]
