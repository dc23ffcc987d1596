"""The kernel that finds the balls objects are in; the layout is in `operators.indexes.knn.pyramid_kernels`."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from operators.indexes.core.prefetch import prefetch
from operators.indexes.knn.pyramid_kernels import CLASS_BITS, DEPTH, LEVEL_BITS, LEVELS, POSTINGS, ROOT, depth_of
from streams.kernel import kernel

__all__ = ["TOGETHER", "probe"]

Int = Any  # a machine integer, numpy's or Python's
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Slots = NDArray[np.int32]

#: Objects that go through the stages together.
TOGETHER = 16
#: Records of a line of the cache, and of a run that are asked for ahead of time: the machine foresees the rest.
_A_LINE, _PREFETCHED = 4, 32


@kernel
def probe(
    first: Int, everything: bool, enough: Int, x: Floats, y: Floats, spots: Singles, word_off: Ints, object_words: Slots,
    frame: Floats, pool: Any, found: Slots, off: Ints, runs: Ints, ends: Ints, tally: Ints,
) -> Int:  # fmt: skip
    """Find the records whose balls objects are in; return the object to go on with, or -1 where `found` is too small.

    Objects go through the stages in small numbers together: what one stage asks for has come when the next one reads it.
    """
    records, slot_of, _, cells, words, grids, _, _, _, _, _ = pool
    objects, last = x.shape[0], records.shape[1] - 1
    lefts, lows, highs = np.empty(LEVELS, np.int64), np.empty(LEVELS, np.int64), np.empty(LEVELS, np.int64)
    around = frame[3] != 0.0
    everybody = words[0, POSTINGS] > 0
    pairs, examined = np.int64(0), np.int64(0)
    off[0] = 0
    base = first
    while base < objects:
        stop = min(base + TOGETHER, objects)
        for j in range(word_off[base], word_off[stop]):
            prefetch(words, np.int64(object_words[j]) * words.shape[1])
        for j in range(word_off[base], word_off[stop]):
            if depth_of(object_words[j], words) > 0:
                prefetch(grids, np.int64(words[object_words[j], ROOT]) * grids.shape[1])
                prefetch(grids, np.int64(words[object_words[j], ROOT]) * grids.shape[1] + 16)
        count = 0
        for i in range(base, stop):
            u, v = (x[i] - frame[0]) * frame[2], (y[i] - frame[1]) * frame[2]
            if not around:
                u, v = min(max(u, 0.0), 1.0), min(max(v, 0.0), 1.0)
            for level in range(1, LEVELS):
                side = np.int64(1) << level
                lefts[level] = np.int64(math.floor(u * side - 0.5))
                low: Int = np.int64(math.floor(v * side - 0.5))
                lows[level], highs[level] = max(low, 0), min(low + 1, side - 1)
            for j in range(word_off[i] - (1 if everybody else 0), word_off[i + 1]):
                word = np.int64(object_words[j]) if j >= word_off[i] else np.int64(0)
                if words[word, POSTINGS] == 0:
                    continue
                depth = depth_of(word, words)
                if depth == 0:
                    runs[count, 0] = words[word, ROOT]
                    runs[count, 1] = 1
                    prefetch(cells, 2 * runs[count, 0])
                    count += 1
                    continue
                present = words[word, DEPTH] >> LEVEL_BITS
                for level in range(depth + 1):
                    if (present >> level) & 1 == 0:
                        continue
                    root = np.int64(grids[words[word, ROOT], level])
                    if level == 0:
                        runs[count, 0] = root
                        runs[count, 1] = 1
                        prefetch(cells, 2 * root)
                        count += 1
                        continue
                    side = np.int64(1) << level
                    left = lefts[level]
                    for line in range(lows[level], highs[level] + 1):
                        if around:
                            if 0 <= left < side - 1:
                                runs[count, 0] = root + line * side + left
                                runs[count, 1] = 2
                                prefetch(cells, 2 * runs[count, 0])
                                count += 1
                            else:
                                for column in range(left, left + 2):
                                    runs[count, 0] = root + line * side + column % side
                                    runs[count, 1] = 1
                                    prefetch(cells, 2 * runs[count, 0])
                                    count += 1
                        else:
                            begin: Int = max(left, 0)
                            runs[count, 0] = root + line * side + begin
                            runs[count, 1] = min(left + 1, side - 1) - begin + 1
                            prefetch(cells, 2 * runs[count, 0])
                            count += 1
            ends[i - base] = count
        # Cells become runs of records, in the rest of the array: each may give two.
        third = runs.shape[0] // 3
        kept, done = third, 0
        for i in range(stop - base):
            for r in range(done, ends[i]):
                for cell in range(runs[r, 0], runs[r, 0] + runs[r, 1]):
                    size = cells[cell, 1] >> CLASS_BITS
                    if size > 0:
                        runs[kept, 0] = cells[cell, 0]
                        runs[kept, 1] = size
                        for line in range(0, min(int(size), _PREFETCHED), _A_LINE):
                            prefetch(records, (runs[kept, 0] + line) * (last + 1))
                        kept += 1
            done = ends[i]
            ends[i] = kept
        done = third
        for i in range(stop - base):
            a, b = spots[base + i, 0], spots[base + i, 1]
            c = spots[base + i, 2]
            total = np.int64(0)
            for r in range(done, ends[i]):
                total += runs[r, 1]
            if pairs + total > found.shape[1]:
                tally[0], tally[1] = examined, total
                return base + i if base + i > first else -1
            examined += total
            for r in range(done, ends[i]):
                for p in range(runs[r, 0], runs[r, 0] + runs[r, 1]):
                    da, db = records[p, 0] - a, records[p, 1] - b
                    square = da * da + db * db
                    if last == 4:
                        dc = records[p, 2] - c
                        square += dc * dc
                    if square < records[p, last - 1] or everything:
                        found[0, pairs] = slot_of[p, last]
                        found[1, pairs] = p
                        pairs += 1
            done = ends[i]
            off[base + i - first + 1] = pairs
            if pairs > enough:
                tally[0] = examined
                return base + i + 1
        base = stop
    tally[0] = examined
    return objects
