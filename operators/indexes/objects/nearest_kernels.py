"""The k nearest objects over segments, blocks and the open chunk (SKQ), in the plane.

Grids are searched in squares of cells around the place, which grow in all segments together until all that is left is
farther away than the kth object so far; where few matches are expected grids are read from end to end. Quadtrees of blocks are
searched depth first, the quarter of the place before the others. Distances that count are those of the columns, in float64.
"""

from typing import Any

import numpy as np

from operators.indexes.objects import block_kernels as blocks_of
from operators.indexes.objects import segment_kernels as segments_of
from operators.indexes.objects.block_kernels import z_code
from operators.indexes.objects.probe_kernels import ALL, ANY, EXAMINED, ONE, REGION_SIZE, fits, lead, order_words
from operators.indexes.objects.raw_arrays import doubles_at, ints_at, singles_at
from operators.indexes.objects.segment_kernels import FINEST, fine, signature_bit
from streams.kernel import kernel, lean_kernel
from streams.prefetch import prefetch

__all__ = ["offer", "search_open", "skq"]

#: Nodes of so few objects are looked at one by one.
FEW = 16
#: Objects whose words are looked at together.
TOGETHER = 32
#: The first square around a place has about so many objects of the leading word for each that is asked for.
FIRST_SQUARE = 1.0


@lean_kernel
def offer(far: Any, ranks: Any, count: Any, k: Any, distance: Any, rank: Any) -> Any:
    """Enter an object into a list of the k nearest; return how many there are."""
    if count == k and (distance > far[k - 1] or (distance == far[k - 1] and rank > ranks[k - 1])):
        return count
    i = count if count < k else k - 1
    while i > 0 and (far[i - 1] > distance or (far[i - 1] == distance and ranks[i - 1] > rank)):
        far[i] = far[i - 1]
        ranks[i] = ranks[i - 1]
        i -= 1
    far[i] = distance
    ranks[i] = rank
    return min(count + 1, k)


@lean_kernel
def _measure(at: Any, rank: Any, k: Any, chunks: Any, shift: Any, oldest: Any, far: Any, ranks: Any, count: Any) -> Any:
    """Offer an object at its exact distance, if it is within reach; return how many are listed."""
    chunk = (rank - oldest) >> shift
    row = rank - oldest - (chunk << shift)
    dx = doubles_at(chunks[chunk, blocks_of.CHUNK_X], np.int64(1) << shift)[row] - at[0]
    dy = doubles_at(chunks[chunk, blocks_of.CHUNK_Y], np.int64(1) << shift)[row] - at[1]
    distance = np.sqrt(dx * dx + dy * dy)
    return offer(far, ranks, count, k, distance, rank) if distance <= at[4] else count


@lean_kernel
def _limit(at: Any, far: Any, count: Any, k: Any) -> Any:
    """Return how far away a float32 place may be and still matter."""
    return (min(far[k - 1], at[4]) if count == k else at[4]) + at[5]


@lean_kernel
def _rings(frame: Any, grid: Any, at: Any, reach: Any) -> Any:
    """Return how many rings of cells around a place's cover what is so near, and whether these are all cells of the grid."""
    coarse, last = FINEST - (grid & 15), (np.int64(1) << (grid & 15)) - 1
    ring, whole = np.int64(0), True
    for axis in range(2):
        here = fine(at[2 + axis], frame[axis], frame[2 + axis]) >> coarse
        low = np.int64(0) if reach == np.inf else fine(at[2 + axis] - reach, frame[axis], frame[2 + axis]) >> coarse
        high = last if reach == np.inf else fine(at[2 + axis] + reach, frame[axis], frame[2 + axis]) >> coarse
        ring = max(ring, here - low, high - here)
        whole = whole and low == 0 and (high == last or frame[2 + axis] == 0.0)
    return ring, whole


@lean_kernel
def _check(
    pending: Any, waiting: Any, at: Any, words: Any, leading: Any, mode: Any, k: Any, chunks: Any, shift: Any, oldest: Any,
    far: Any, ranks: Any, count: Any,
) -> Any:  # fmt: skip
    """Offer those of some objects that have all the words they must have; return how many are listed.

    Their words are far apart in memory: they are asked for together.
    """
    for i in range(waiting):
        chunk = (pending[i, 0] - oldest) >> shift
        prefetch(
            ints_at(chunks[chunk, blocks_of.CHUNK_OFF], (np.int64(1) << shift) + 1),
            pending[i, 0] - oldest - (chunk << shift),
        )
    for i in range(waiting):
        chunk = (pending[i, 0] - oldest) >> shift
        off = ints_at(chunks[chunk, blocks_of.CHUNK_OFF], (np.int64(1) << shift) + 1)
        start = np.int64(off[pending[i, 0] - oldest - (chunk << shift)])
        prefetch(ints_at(chunks[chunk, blocks_of.CHUNK_WORDS], chunks[chunk, blocks_of.CHUNK_WORD_LENGTH]), start)
    for i in range(waiting):
        if fits(pending[i, 0], np.int32(pending[i, 1]), words, leading, mode, chunks, shift, oldest):
            count = _measure(at, pending[i, 0], k, chunks, shift, oldest, far, ranks, count)
    return count


@lean_kernel
def _search_grid(
    segment: Any, frame: Any, grid: Any, done: Any, ring: Any, at: Any, first: Any, stop: Any, words: Any, leading: Any,
    mode: Any, need: Any, k: Any, pending: Any, chunks: Any, shift: Any, oldest: Any, far: Any, ranks: Any, count: Any,
    info: Any,
) -> Any:  # fmt: skip
    """Offer a word's objects in the cells up to a ring of one segment, beyond those that are done; return how many are listed.

    `at` is the place, the place from the corner of the space, the reach, and the error of float32 distances.
    """
    level = grid & 15
    starts = ints_at(segment[segments_of.STARTS], segment[segments_of.START_LENGTH])
    records = ints_at(segment[segments_of.RECORDS], 4 * segment[segments_of.RECORD_LENGTH])
    places = singles_at(segment[segments_of.RECORDS], 4 * segment[segments_of.RECORD_LENGTH])
    base = segment[segments_of.FIRST]
    last = (np.int64(1) << level) - 1
    coarse = FINEST - level
    column, row = fine(at[2], frame[0], frame[2]) >> coarse, fine(at[3], frame[1], frame[3]) >> coarse
    unit = np.float64(np.int64(1) << coarse)
    high = unit / frame[3] if frame[3] > 0.0 else np.inf
    limit, waiting = _limit(at, far, count, k), 0
    for y in range(max(row - ring, 0), min(row + ring, last) + 1):
        if y < row and at[3] - (frame[1] + (y + 1) * high) > limit:
            continue
        if y > row and frame[1] + y * high - at[3] > limit:
            break
        fresh = y < row - done or y > row + done or done < 0
        for part in range(1 if fresh else 2):  # a new row from end to end, an old one on both sides of what was read
            left = max(column - ring, 0) if fresh or part == 0 else column + done + 1
            right = min(column + ring, last) if fresh or part == 1 else column - done - 1
            if left > right:
                continue
            cell = (grid >> 4) + (y << level)
            begin, end = starts[cell + left], starts[cell + right + 1]
            info[EXAMINED] += end - begin
            for p in range(begin, end):
                if records[4 * p + 3] & need != need:
                    continue
                dx, dy = np.float64(places[4 * p]) - at[2], np.float64(places[4 * p + 1]) - at[3]
                if dx * dx + dy * dy > limit * limit:
                    continue
                rank = base + records[4 * p + 2]
                if rank < first or rank >= stop:
                    continue
                if mode == ONE:
                    count = _measure(at, rank, k, chunks, shift, oldest, far, ranks, count)
                    limit = _limit(at, far, count, k)
                    continue
                pending[waiting, 0], pending[waiting, 1] = rank, records[4 * p + 3]
                waiting += 1
                if waiting == TOGETHER:
                    count = _check(
                        pending, waiting, at, words, leading, mode, k, chunks, shift, oldest, far, ranks, count
                    )
                    limit, waiting = _limit(at, far, count, k), 0
    return _check(pending, waiting, at, words, leading, mode, k, chunks, shift, oldest, far, ranks, count)


@lean_kernel
def _search_grids(
    segments: Any, frames: Any, grids: Any, done: Any, at: Any, first: Any, stop: Any, words: Any, leading: Any, mode: Any,
    need: Any, k: Any, sparse: Any, uses: Any, pending: Any, chunks: Any, shift: Any, oldest: Any, far: Any, ranks: Any,
    count: Any, info: Any,
) -> Any:  # fmt: skip
    """Offer a word's objects in all segments, in squares that grow together; return how many are listed.

    All segments have objects near the place, so none need be searched farther than the kth of all of them is. The first square
    is to have some objects of the word, a next one so many more as are missing.
    """
    spread, area = np.float64(max(uses[words[leading]], 1)), np.float64(np.inf)
    for g in range(segments.shape[0]):
        done[g] = -1
        if grids[g] >= 0 and frames[g, 2] > 0.0 and frames[g, 3] > 0.0:
            side = np.float64(np.int64(1) << FINEST)
            area = min(area, side / frames[g, 2] * (side / frames[g, 3]))
    reach = 0.5 * np.sqrt(FIRST_SQUARE * k * area / spread)
    if sparse or not reach > 0.0:
        reach = np.inf
    while True:
        limit = _limit(at, far, count, k)
        nearest, left = min(reach, limit), False
        for g in range(segments.shape[0]):
            if grids[g] < 0:
                continue
            ring, whole = _rings(frames[g], grids[g], at, nearest)
            if ring > done[g]:
                count = _search_grid(
                    segments[g], frames[g], grids[g], done[g], ring, at, first, stop, words, leading, mode, need, k, pending,
                    chunks, shift, oldest, far, ranks, count, info,
                )  # fmt: skip
                done[g] = ring
            left = left or not whole
        if not left or _limit(at, far, count, k) <= nearest:
            return count
        reach = nearest * min(max(1.1 * np.sqrt((k + 1.0) / (count + 1.0)), 1.2), 2.0)


@lean_kernel
def _search_block(
    block: Any, frame: Any, at: Any, first: Any, stop: Any, k: Any, chunks: Any, shift: Any, oldest: Any, stack: Any, far: Any,
    ranks: Any, count: Any, info: Any,
) -> Any:  # fmt: skip
    """Offer the objects of one block; return how many are listed."""
    level, base = block[blocks_of.LEVEL], block[blocks_of.FIRST]
    starts = ints_at(block[blocks_of.STARTS], block[blocks_of.START_LENGTH])
    records = ints_at(block[blocks_of.RECORDS], 4 * block[blocks_of.RECORD_LENGTH])
    places = singles_at(block[blocks_of.RECORDS], 4 * block[blocks_of.RECORD_LENGTH])
    step_x, step_y = fine(at[2], frame[0], frame[2]), fine(at[3], frame[1], frame[3])
    stack[0, 0] = stack[0, 1] = stack[0, 2] = 0
    depth = 1
    while depth > 0:
        depth -= 1
        level_of, column, row = stack[depth, 0], stack[depth, 1], stack[depth, 2]
        width = level - level_of
        node = z_code(column, row)
        begin, end = starts[node << (2 * width)], starts[(node + 1) << (2 * width)]
        if begin == end:
            continue
        limit = _limit(at, far, count, k)
        steps = np.int64(1) << (FINEST - level_of)
        dx, dy = (
            np.float64(0.0),
            np.float64(0.0),
        )  # what is left of the first column, or right of the last, belongs to it
        if column * steps > step_x:
            dx = frame[0] + column * steps / frame[2] - at[2]
        elif (column + 1) * steps <= step_x:
            dx = at[2] - (frame[0] + (column + 1) * steps / frame[2])
        if row * steps > step_y:
            dy = frame[1] + row * steps / frame[3] - at[3]
        elif (row + 1) * steps <= step_y:
            dy = at[3] - (frame[1] + (row + 1) * steps / frame[3])
        dx, dy = max(dx, np.float64(0.0)), max(dy, np.float64(0.0))
        if dx * dx + dy * dy > limit * limit:
            continue
        if level_of < level and end - begin > FEW:
            middle_x, middle_y = (2 * column + 1) * (steps >> 1), (2 * row + 1) * (steps >> 1)
            own = (1 if step_x >= middle_x else 0) | (2 if step_y >= middle_y else 0)
            for turn in range(3, -1, -1):
                quarter = own ^ turn
                stack[depth, 0], stack[depth, 1] = level_of + 1, 2 * column + (quarter & 1)
                stack[depth, 2] = 2 * row + (quarter >> 1)
                depth += 1
            continue
        info[EXAMINED] += end - begin
        for p in range(begin, end):
            dx, dy = np.float64(places[4 * p]) - at[2], np.float64(places[4 * p + 1]) - at[3]
            if dx * dx + dy * dy > limit * limit:
                continue
            rank = base + records[4 * p + 2]
            if first <= rank < stop:
                count = _measure(at, rank, k, chunks, shift, oldest, far, ranks, count)
                limit = _limit(at, far, count, k)
    return count


@lean_kernel
def search_open(
    open_: Any, newest: Any, at: Any, first: Any, stop: Any, words: Any, leading: Any, mode: Any, k: Any, chunks: Any,
    shift: Any, oldest: Any, far: Any, ranks: Any, count: Any, info: Any,
) -> Any:  # fmt: skip
    """Offer the objects of the open chunk: those of a word, or all."""
    head, before, owner, base = open_
    if words.shape[0] == 0:
        for rank in range(max(first, base), min(stop, newest)):
            count = _measure(at, rank, k, chunks, shift, oldest, far, ranks, count)
        info[EXAMINED] += max(min(stop, newest) - max(first, base), 0)
        return count
    p = head[words[leading]] if words[leading] < head.shape[0] else np.int32(-1)
    while p >= 0:
        rank = base + owner[p]
        p = before[p]
        info[EXAMINED] += 1
        if rank < first:
            break
        if rank < stop and (mode == ONE or fits(rank, np.int32(-1), words, leading, mode, chunks, shift, oldest)):
            count = _measure(at, rank, k, chunks, shift, oldest, far, ranks, count)
    return count


@lean_kernel
def _expected(words: Any, uses: Any, objects: Any, any_: Any) -> Any:
    """Return about how many objects match, were words independent of each other."""
    share = 1.0
    for i in range(words.shape[0]):
        part = uses[words[i]] / max(objects, 1)
        share = share * part if not any_ or i == 0 else share + part
    return share * objects


@kernel
def skq(
    asks: Any, k: Any, reach: Any, store: Any, uses: Any, objects: Any, off: Any, out: Any, distances: Any, info: Any
) -> None:
    """Answer questions; `out` and `distances` have room for k of each, and `off` says where each list begins and ends."""
    _, shape, any_, word_off, words, firsts, stops = asks
    segments, segment_frames, blocks, block_frames, chunks, shift, oldest, open_, newest, corner, error = store
    at, grids, stack = np.empty(6), np.empty(segments.shape[0], np.int64), np.empty((4 * FINEST, 3), np.int64)
    region, done, pending = np.zeros(REGION_SIZE), np.empty_like(grids), np.empty((TOGETHER, 2), np.int64)
    spans = np.empty((segments.shape[0], 4), np.int64)
    for q in range(firsts.shape[0]):
        asked = words[word_off[q] : word_off[q + 1]]
        chosen = np.empty(asked.shape[0], np.int64)
        number = order_words(any_[q], asked, uses, chosen)
        first, stop, most = firsts[q], stops[q], np.int64(k[q])
        off[q + 1] = off[q]
        if number < 0 or first >= stop or most < 1:
            continue
        chosen = chosen[:number]
        far, ranks, count = distances[off[q] : off[q] + most], out[off[q] : off[q] + most], np.int64(0)
        at[0], at[1], at[2], at[3] = shape[q, 0], shape[q, 1], shape[q, 0] - corner[0], shape[q, 1] - corner[1]
        at[4], at[5] = reach[q], error + (abs(shape[q, 0]) + abs(shape[q, 1])) * 1e-12
        region[0] = region[2] = at[2]
        region[1] = region[3] = at[3]
        mode = ONE if number == 1 else (ANY if any_[q] else ALL)
        need = np.int32(0)
        if mode == ALL:
            for i in range(1, number):
                need |= signature_bit(chosen[i])
        if number == 0:
            for b in range(blocks.shape[0]):
                if blocks[b, blocks_of.FIRST] < stop and blocks[b, blocks_of.STOP] > first:
                    count = _search_block(
                        blocks[b], block_frames[b], at, first, stop, most, chunks, shift, oldest, stack, far, ranks, count, info
                    )  # fmt: skip
            count = search_open(
                open_, newest, at, first, stop, chosen, 0, ONE, most, chunks, shift, oldest, far, ranks, count, info
            )
        sparse = _expected(chosen, uses, objects, any_[q]) < 2.0 * most
        for leading in range(min(number, 1) if mode == ALL else number):
            lead(segments, segment_frames, chosen[leading], first, stop, region, grids, spans)
            count = _search_grids(
                segments, segment_frames, grids, done, at, first, stop, chosen, leading,
                ONE if leading == 0 and mode == ANY else mode, need, most, sparse, uses, pending, chunks, shift, oldest, far,
                ranks, count, info,
            )  # fmt: skip
            count = search_open(
                open_,
                newest,
                at,
                first,
                stop,
                chosen,
                leading,
                mode,
                most,
                chunks,
                shift,
                oldest,
                far,
                ranks,
                count,
                info,
            )
        off[q + 1] = off[q] + count
