"""Range questions over segments, blocks and the open chunk (SRQ).

A question's region is kept as 16 numbers (`WEST` .. `RADIUS`): its bounds as float32 from the corner of the space, its
bounds as they were given, and for a circle its centre, and the squares of radii within which a float32 place is surely
inside, and beyond which it surely is not. What float32 cannot decide is decided by the columns of the object, as
`streams.geometry` does.

Objects are known by rank, the place among all objects that were ever added; ranks ascend with `seq`. A question counts ranks
[first, stop). Of several words the rarest leads to the objects that must have all; each word in turn to those that may
have any, and an object is passed over where it has an earlier one of the words.
"""

from typing import Any

import numpy as np

from operators.indexes.objects import block_kernels as blocks_of
from operators.indexes.objects import segment_kernels as segments_of
from operators.indexes.objects.block_kernels import node_offset, z_code
from operators.indexes.objects.raw_arrays import doubles_at, ints_at, longs_at, singles_at
from operators.indexes.objects.segment_kernels import FINEST, entry_of, fine, signature_bit
from streams.geometry import REGION_CIRCLE, REGION_NONE
from streams.kernel import kernel, lean_kernel
from streams.prefetch import prefetch

__all__ = [
    "ALL", "ANY", "EXAMINED", "NEEDED", "ONE", "REGION_SIZE", "bounds_in", "decided", "fits", "inside", "lead",
    "next_run", "order_words", "probe", "probe_open", "read_region", "scan_open", "srq",
]  # fmt: skip

(
    WEST, SOUTH, EAST, NORTH, MIN_X, MIN_Y, MAX_X, MAX_Y, CIRCLE, CENTRE_X, CENTRE_Y, INNER, OUTER, AT_X, AT_Y, RADIUS,
) = range(16)  # fmt: skip
REGION_SIZE = 16

#: What more a posting's object must have: nothing, all other words, no earlier word.
ONE, ALL, ANY = 0, 1, 2

#: Outcomes that kernels count: what was examined one by one, room that an answer needs.
EXAMINED, NEEDED = 0, 1
#: Nodes of so few objects are looked at one by one.
FEW = 16
#: Rows of cells that memory is asked for ahead of time, and postings of each; so many postings are in one line of memory.
AHEAD, POSTINGS_AHEAD, A_LINE = 8, 40, 4

_STARTS, _RECORDS = segments_of.STARTS, segments_of.RECORDS


@lean_kernel
def read_region(kind: Any, shape: Any, corner: Any, error: Any, region: Any) -> None:
    """Set up the region of a question; `error` bounds how far float32 places are off."""
    radius = shape[2] if kind == REGION_CIRCLE else 0.0
    for axis in range(2):
        low, high = shape[axis], shape[2 + axis]
        if kind == REGION_NONE:
            low, high = -np.inf, np.inf
        elif kind == REGION_CIRCLE:  # as `region_bounds` widens it
            half = radius * (1 + 1e-12) + (abs(shape[0]) + abs(shape[1])) * 1e-12
            low, high = shape[axis] - half, shape[axis] + half
        region[WEST + axis] = np.float64(np.float32(low - corner[axis]))
        region[EAST + axis] = np.float64(np.float32(high - corner[axis]))
        region[MIN_X + axis] = low
        region[MAX_X + axis] = high
        region[CENTRE_X + axis] = shape[axis] - corner[axis]
        region[AT_X + axis] = shape[axis]
    region[CIRCLE] = 1.0 if kind == REGION_CIRCLE else 0.0
    region[RADIUS] = radius
    doubt = error + (radius + abs(shape[0]) + abs(shape[1])) * 1e-12
    region[INNER] = (radius - doubt) * (radius - doubt) if radius > doubt else -1.0
    region[OUTER] = (radius + doubt) * (radius + doubt)


@lean_kernel
def _verdict(x: Any, y: Any, region: Any) -> Any:
    """Tell whether a float32 place is outside (0), inside (1), or too close to the border to say (2)."""
    if region[CIRCLE] != 0.0:
        dx, dy = np.float64(x) - region[CENTRE_X], np.float64(y) - region[CENTRE_Y]
        square = dx * dx + dy * dy
        return 1 if square <= region[INNER] else (0 if square > region[OUTER] else 2)
    west, south, east, north = region[WEST], region[SOUTH], region[EAST], region[NORTH]
    if (x < west) | (x > east) | (y < south) | (y > north):
        return 0
    return 2 if (x == west) | (x == east) | (y == south) | (y == north) else 1


@lean_kernel
def inside(x: Any, y: Any, region: Any) -> Any:
    """Tell whether a place is inside, by definition."""
    if region[CIRCLE] != 0.0:
        dx, dy = x - region[AT_X], y - region[AT_Y]
        return dx * dx + dy * dy <= region[RADIUS] * region[RADIUS]
    return (x >= region[MIN_X]) & (x <= region[MAX_X]) & (y >= region[MIN_Y]) & (y <= region[MAX_Y])


@lean_kernel
def decided(x: Any, y: Any, rank: Any, region: Any, chunks: Any, shift: Any, oldest: Any) -> Any:
    """Tell whether the object with a float32 place is inside; `oldest` is the rank where the chunk table begins."""
    verdict = _verdict(x, y, region)
    if verdict < 2:
        return verdict == 1
    chunk = (rank - oldest) >> shift
    row = rank - oldest - (chunk << shift)
    at_x = doubles_at(chunks[chunk, blocks_of.CHUNK_X], np.int64(1) << shift)[row]
    return inside(at_x, doubles_at(chunks[chunk, blocks_of.CHUNK_Y], np.int64(1) << shift)[row], region)


@lean_kernel
def fits(rank: Any, signature: Any, words: Any, leading: Any, mode: Any, chunks: Any, shift: Any, oldest: Any) -> Any:
    """Tell whether an object that has the leading word has what else it must have."""
    if mode == ANY:
        doubtful = False
        for i in range(leading):
            doubtful = doubtful or signature & signature_bit(words[i]) != 0
        if not doubtful:
            return True
    chunk = (rank - oldest) >> shift
    row = rank - oldest - (chunk << shift)
    off = ints_at(chunks[chunk, blocks_of.CHUNK_OFF], (np.int64(1) << shift) + 1)
    held = ints_at(chunks[chunk, blocks_of.CHUNK_WORDS], chunks[chunk, blocks_of.CHUNK_WORD_LENGTH])
    start, stop = off[row], off[row + 1]
    for i in range(words.shape[0] if mode == ALL else leading):
        if i == leading:
            continue
        found = False
        for p in range(start, stop):
            found = found or held[p] == words[i]
        if found != (mode == ALL):
            return False
    return True


@lean_kernel
def _span(low: Any, high: Any, corner: Any, steps: Any, level: Any) -> Any:
    """Return the columns (or rows) of two bounds; no bound is beyond the border."""
    shift = FINEST - level
    first = np.int64(-1) if low == -np.inf else fine(low, corner, steps) >> shift
    last = np.int64(1) << level if high == np.inf else fine(high, corner, steps) >> shift
    return first, last


@lean_kernel
def bounds_in(region: Any, frame: Any, level: Any, bounds: Any) -> None:
    """Find the columns and rows of a region's bounds in a grid, or in a block."""
    bounds[0], bounds[1] = _span(region[WEST], region[EAST], frame[0], frame[2], level)
    bounds[2], bounds[3] = _span(region[SOUTH], region[NORTH], frame[1], frame[3], level)


@lean_kernel
def probe(
    segment: Any, span: Any, grid: Any, region: Any, first: Any, stop: Any, words: Any, leading: Any, mode: Any, need: Any,
    chunks: Any, shift: Any, oldest: Any, counting: Any, out: Any, found: Any, info: Any,
) -> Any:  # fmt: skip
    """Append the ranks of a word's objects in a segment; return how many there are now, -1 where there is no room.

    `span` are the columns and rows of the region's bounds, `need` bits that signatures must have. With `counting` nothing is
    written.
    """
    level = grid & 15
    starts = ints_at(segment[_STARTS], segment[segments_of.START_LENGTH])
    records = ints_at(segment[_RECORDS], 4 * segment[segments_of.RECORD_LENGTH])
    places = singles_at(segment[_RECORDS], 4 * segment[segments_of.RECORD_LENGTH])
    base = segment[segments_of.FIRST]
    whole = base >= first and segment[segments_of.STOP] <= stop
    left, right, lower, upper = span[0], span[1], span[2], span[3]
    last = (np.int64(1) << level) - 1
    rectangle = region[CIRCLE] == 0.0
    for row in range(max(lower, 0), min(upper, last) + 1):
        cell = (grid >> 4) + (row << level)
        begin, end = starts[cell + max(left, 0)], starts[cell + min(right, last) + 1]
        if begin == end:
            continue
        if not counting and found + end - begin > out.shape[0]:
            info[NEEDED] = found + end - begin
            return np.int64(-1)
        inner, beyond = end, end
        if rectangle and lower < row < upper and right - left > 1:
            inner, beyond = starts[cell + left + 1], starts[cell + right]
        for part in range(3):  # before, in and behind the cells that are inside
            p = begin if part == 0 else (inner if part == 1 else beyond)
            until = inner if part == 0 else (beyond if part == 1 else end)
            if part == 1 and whole and mode == ONE:
                if not counting:
                    for q in range(p, until):
                        out[found + q - p] = base + records[4 * q + 2]
                found += until - p
                continue
            info[EXAMINED] += until - p
            for q in range(p, until):
                if records[4 * q + 3] & need != need:
                    continue
                rank = base + records[4 * q + 2]
                if rank < first or rank >= stop:
                    continue
                if part != 1 and not decided(places[4 * q], places[4 * q + 1], rank, region, chunks, shift, oldest):
                    continue
                if mode == ONE or fits(rank, records[4 * q + 3], words, leading, mode, chunks, shift, oldest):
                    if not counting:
                        out[found] = rank
                    found += 1
    return found


@lean_kernel
def probe_open(
    open_: Any, region: Any, first: Any, stop: Any, words: Any, leading: Any, mode: Any, chunks: Any, shift: Any, oldest: Any,
    counting: Any, out: Any, found: Any, info: Any,
) -> Any:  # fmt: skip
    """Append the ranks of a word's objects in the open chunk, the newest first."""
    head, before, owner, base = open_
    chunk = (base - oldest) >> shift
    x, y = (
        doubles_at(chunks[chunk, blocks_of.CHUNK_X], np.int64(1) << shift),
        doubles_at(chunks[chunk, blocks_of.CHUNK_Y], np.int64(1) << shift),
    )
    p = head[words[leading]] if words[leading] < head.shape[0] else np.int32(-1)
    while p >= 0:
        row = owner[p]
        p = before[p]
        info[EXAMINED] += 1
        rank = base + row
        if rank < first:
            break
        if rank >= stop or not inside(x[row], y[row], region):
            continue
        if mode == ONE or fits(rank, np.int32(-1), words, leading, mode, chunks, shift, oldest):
            if not counting:
                if found >= out.shape[0]:
                    info[NEEDED] = found + 1
                    return np.int64(-1)
                out[found] = rank
            found += 1
    return found


@lean_kernel
def lead(segments: Any, frames: Any, word: Any, first: Any, stop: Any, region: Any, grids: Any, spans: Any) -> None:
    """Find a word's grid in every segment that counts, -1 elsewhere, and ask for the memory that a probe will read.

    `spans` are then the columns and rows of the region's bounds in each of these grids.
    """
    for g in range(segments.shape[0]):
        if segments[g, segments_of.FIRST] < stop and segments[g, segments_of.STOP] > first:
            prefetch(
                longs_at(segments[g, segments_of.DIRECTORY], segments[g, segments_of.DIRECTORY_LENGTH]), 2 * (word >> 6)
            )
    for g in range(segments.shape[0]):
        grids[g] = -1
        if segments[g, segments_of.FIRST] < stop and segments[g, segments_of.STOP] > first:
            index = longs_at(segments[g, segments_of.DIRECTORY], segments[g, segments_of.DIRECTORY_LENGTH])
            grids[g] = entry_of(index, word)
            if grids[g] >= 0:
                prefetch(longs_at(segments[g, segments_of.ENTRIES], segments[g, segments_of.ENTRY_LENGTH]), grids[g])
    for g in range(segments.shape[0]):
        if grids[g] >= 0:
            grids[g] = longs_at(segments[g, segments_of.ENTRIES], segments[g, segments_of.ENTRY_LENGTH])[grids[g]]
            bounds_in(region, frames[g], grids[g] & 15, spans[g])
    for stage in range(2):
        for g in range(segments.shape[0]):
            if grids[g] < 0:
                continue
            level = grids[g] & 15
            last = (np.int64(1) << level) - 1
            starts = ints_at(segments[g, _STARTS], segments[g, segments_of.START_LENGTH])
            records = ints_at(segments[g, _RECORDS], 4 * segments[g, segments_of.RECORD_LENGTH])
            left, right = max(spans[g, 0], 0), min(spans[g, 1], last) + 1
            lower = max(spans[g, 2], 0)
            for row in range(lower, min(spans[g, 3], last, lower + AHEAD - 1) + 1):
                cell = (grids[g] >> 4) + (row << level)
                if stage == 0:
                    prefetch(starts, cell + left)
                    prefetch(starts, cell + right)
                else:
                    begin, end = np.int64(starts[cell + left]), np.int64(starts[cell + right])
                    for p in range(begin, min(end, begin + POSTINGS_AHEAD), A_LINE):
                        prefetch(records, 4 * p)


@lean_kernel
def order_words(any_: Any, words: Any, uses: Any, chosen: Any) -> Any:
    """Choose the words that lead to objects, the rarest first; return how many, -1 where nothing can match.

    A word that no object has is -1.
    """
    count = 0
    for i in range(words.shape[0]):
        if words[i] < 0:
            if not any_:
                return -1
            continue
        j = count
        while j > 0 and uses[chosen[j - 1]] > uses[words[i]]:
            chosen[j] = chosen[j - 1]
            j -= 1
        chosen[j] = words[i]
        count += 1
    return -1 if words.shape[0] > 0 and count == 0 else count


@lean_kernel
def _encloses(region: Any, frame: Any, level: Any, column: Any, row: Any, cells: Any, bounds: Any) -> Any:
    """Tell whether a node of a block is outside of a region (0), inside (1), or across its border (2).

    The node has so many cells to a side; `bounds` are the columns and rows of the region's bounds.
    """
    left, lower = column * cells, row * cells
    right, upper = left + cells - 1, lower + cells - 1
    if left > bounds[1] or right < bounds[0] or lower > bounds[3] or upper < bounds[2]:
        return 0
    if region[CIRCLE] == 0.0:
        return 1 if left > bounds[0] and right < bounds[1] and lower > bounds[2] and upper < bounds[3] else 2
    last = (np.int64(1) << level) - 1
    if left == 0 or lower == 0 or right == last or upper == last:
        return 2
    unit = np.float64(np.int64(1) << (FINEST - level))
    west, south = frame[0] + left * unit / frame[2], frame[1] + lower * unit / frame[3]
    east, north = frame[0] + (right + 1) * unit / frame[2], frame[1] + (upper + 1) * unit / frame[3]
    dx = max(abs(west - region[CENTRE_X]), abs(east - region[CENTRE_X]))
    dy = max(abs(south - region[CENTRE_Y]), abs(north - region[CENTRE_Y]))
    return 1 if dx * dx + dy * dy <= region[INNER] else 2


@lean_kernel
def next_run(
    stack: Any, depth: Any, starts: Any, level: Any, region: Any, frame: Any, bounds: Any, most: Any, few: Any
) -> Any:
    """Go on with a walk down the quadtree of a block, to the next node that is inside of a region, or small.

    It has at most `most` objects, and at most `few` where it is not inside. Returns what waits on the stack now, the node's
    first object and the end, whether it is inside (1) or not (2), and its place among all nodes; the end is -1 where the walk
    is over. A walk begins with one node of zeros on the stack.
    """
    while depth > 0:
        depth -= 1
        at, column, row = stack[depth, 0], stack[depth, 1], stack[depth, 2]
        width = level - at
        node = z_code(column, row)
        begin, end = starts[node << (2 * width)], starts[(node + 1) << (2 * width)]
        side = _encloses(region, frame, level, column, row, np.int64(1) << width, bounds) if begin < end else 0
        if side == 0:
            continue
        if (side == 1 and end - begin <= most) or at == level or end - begin <= few:
            return depth, begin, end, side, node_offset(at) + node
        for quarter in range(4):
            stack[depth, 0], stack[depth, 1] = at + 1, 2 * column + (quarter & 1)
            stack[depth, 2] = 2 * row + (quarter >> 1)
            depth += 1
    return depth, np.int32(-1), np.int32(-1), 0, np.int64(0)


@lean_kernel
def probe_block(
    block: Any, frame: Any, region: Any, first: Any, stop: Any, chunks: Any, shift: Any, oldest: Any, stack: Any, bounds: Any,
    out: Any, found: Any, info: Any,
) -> Any:  # fmt: skip
    """Append the ranks of a block's objects inside of a region; return how many there are now, -1 where there is no room."""
    level, base = block[blocks_of.LEVEL], block[blocks_of.FIRST]
    starts = ints_at(block[blocks_of.STARTS], block[blocks_of.START_LENGTH])
    records = ints_at(block[blocks_of.RECORDS], 4 * block[blocks_of.RECORD_LENGTH])
    places = singles_at(block[blocks_of.RECORDS], 4 * block[blocks_of.RECORD_LENGTH])
    whole = base >= first and block[blocks_of.STOP] <= stop
    bounds_in(region, frame, level, bounds)
    stack[0, :] = 0
    depth = np.int64(1)
    while True:
        depth, begin, end, side, _ = next_run(stack, depth, starts, level, region, frame, bounds, stop - first, FEW)
        if end < 0:
            return found
        if found + end - begin > out.shape[0]:
            info[NEEDED] = found + end - begin
            return np.int64(-1)
        if side == 1 and whole:
            for p in range(begin, end):
                out[found + p - begin] = base + records[4 * p + 2]
            found += end - begin
            continue
        info[EXAMINED] += end - begin
        for p in range(begin, end):
            rank = base + records[4 * p + 2]
            if rank < first or rank >= stop:
                continue
            if side == 1 or decided(places[4 * p], places[4 * p + 1], rank, region, chunks, shift, oldest):
                out[found] = rank
                found += 1


@lean_kernel
def scan_open(
    base: Any, newest: Any, region: Any, first: Any, stop: Any, chunks: Any, shift: Any, oldest: Any, out: Any, found: Any,
    info: Any,
) -> Any:  # fmt: skip
    """Append the ranks of the open chunk's objects inside of a region; return how many there are now, -1 without room."""
    chunk = (base - oldest) >> shift
    begin, end = max(first, base), min(stop, newest)
    if begin < end and found + end - begin > out.shape[0]:
        info[NEEDED] = found + end - begin
        return np.int64(-1)
    info[EXAMINED] += max(end - begin, 0)
    x, y = (
        doubles_at(chunks[chunk, blocks_of.CHUNK_X], np.int64(1) << shift),
        doubles_at(chunks[chunk, blocks_of.CHUNK_Y], np.int64(1) << shift),
    )
    for rank in range(begin, end):
        if inside(x[rank - base], y[rank - base], region):
            out[found] = rank
            found += 1
    return found


@kernel
def _everything(
    blocks: Any, frames: Any, open_: Any, newest: Any, region: Any, first: Any, stop: Any, chunks: Any, shift: Any, oldest: Any,
    out: Any, found: Any, info: Any,
) -> Any:  # fmt: skip
    """Append the ranks of all objects inside of a region, whatever words they have."""
    stack, bounds = np.empty((4 * FINEST, 3), np.int64), np.empty(4, np.int64)
    for b in range(blocks.shape[0]):
        if blocks[b, blocks_of.FIRST] < stop and blocks[b, blocks_of.STOP] > first:
            found = probe_block(
                blocks[b], frames[b], region, first, stop, chunks, shift, oldest, stack, bounds, out, found, info
            )
            if found < 0:
                return found
    return scan_open(open_[3], newest, region, first, stop, chunks, shift, oldest, out, found, info)


@kernel
def srq(begin: Any, asks: Any, store: Any, uses: Any, off: Any, out: Any, info: Any) -> Any:
    """Answer questions from `begin` on; return the first that is not answered, for which there is no room."""
    kinds, shape, any_, word_off, words, firsts, stops = asks
    segments, segment_frames, blocks, block_frames, chunks, shift, oldest, open_, newest, corner, error = store
    region, grids, spans = (
        np.empty(REGION_SIZE),
        np.empty(segments.shape[0], np.int64),
        np.empty((segments.shape[0], 4), np.int64),
    )
    for q in range(begin, firsts.shape[0]):
        asked = words[word_off[q] : word_off[q + 1]]
        chosen = np.empty(asked.shape[0], np.int64)
        count = order_words(any_[q], asked, uses, chosen)
        found, first, stop = off[q], firsts[q], stops[q]
        if count < 0 or first >= stop:
            off[q + 1] = found
            continue
        chosen = chosen[:count]
        read_region(kinds[q], shape[q], corner, error, region)
        if count == 0:
            found = _everything(
                blocks, block_frames, open_, newest, region, first, stop, chunks, shift, oldest, out, found, info
            )
        need = np.int32(0)
        mode = ONE if count == 1 else (ANY if any_[q] else ALL)
        if mode == ALL:
            for i in range(1, count):
                need |= signature_bit(chosen[i])
        for leading in range(min(count, 1) if mode == ALL else count):
            if chosen[leading] < open_[0].shape[0]:
                prefetch(open_[0], chosen[leading])
            lead(segments, segment_frames, chosen[leading], first, stop, region, grids, spans)
            for g in range(segments.shape[0]):
                if grids[g] >= 0 and found >= 0:
                    found = probe(
                        segments[g], spans[g], grids[g], region, first, stop, chosen, leading,
                        ONE if leading == 0 and mode == ANY else mode, need, chunks, shift, oldest, False, out, found, info,
                    )  # fmt: skip
            if found >= 0:
                found = probe_open(
                    open_, region, first, stop, chosen, leading, mode, chunks, shift, oldest, False, out, found, info
                )
            if found < 0:
                break
        if found < 0:
            return q
        off[q + 1] = found
    return firsts.shape[0]
