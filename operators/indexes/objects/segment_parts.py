"""The immutable pieces of the index of segments, and how they are made: at once from a chunk, or in steps from several."""

from collections.abc import Generator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from operators.indexes.core.growth import grown
from operators.indexes.objects import block_kernels, segment_kernels
from operators.indexes.objects.object_log import Chunk
from operators.indexes.objects.word_scratch import WordScratch
from streams.columns import Ints

__all__ = ["Block", "Segment", "built_segment", "frame_around", "frame_of", "merged_block", "merged_segment"]

Floats = NDArray[np.float64]
Slots = NDArray[np.int32]

#: Parts of the objects outside of a frame, on each side.
OUTSIDE = 0.005
#: Objects whose places tell where a frame is, of each chunk.
SAMPLED = 1024
#: Postings of one step of work, objects, and chunks.
STEP, STEP_OBJECTS, STEP_CHUNKS = 1 << 15, 1 << 13, 8
#: Entries of heads that there is room for at first, for each object.
ROOM = 4
#: Bytes that are touched in one step of work: the largest page that a system gives at once. The smallest one.
TOUCHED, PAGE = 1 << 21, 1 << 12


@dataclass(frozen=True, slots=True, eq=False)
class Segment:
    """Postings of consecutive objects; see `segment_kernels`."""

    first: int
    stop: int
    frame: Floats
    records: Slots
    starts: Slots
    directory: Ints
    entries: Ints

    def row(self) -> Ints:
        """Return its row in the table that kernels read."""
        row = np.array([self.first, self.stop, *(0,) * (segment_kernels.FIELDS - 2)])
        for field, array in (
            (segment_kernels.RECORDS, self.records), (segment_kernels.STARTS, self.starts),
            (segment_kernels.DIRECTORY, self.directory), (segment_kernels.ENTRIES, self.entries),
        ):  # fmt: skip
            row[field], row[field + 1] = array.ctypes.data, len(array)
        return row

    @property
    def nbytes(self) -> int:
        """Bytes in use."""
        return self.records.nbytes + self.starts.nbytes + self.directory.nbytes + self.entries.nbytes


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Consecutive objects by cell; see `block_kernels`."""

    first: int
    stop: int
    frame: Floats
    level: int
    records: Slots
    words: Slots
    starts: Slots
    nodes: Slots
    tops: Slots
    heads: Slots
    tails: Slots

    def row(self) -> Ints:
        """Return its row in the table that kernels read."""
        row = np.zeros(block_kernels.FIELDS, np.int64)
        row[:2] = self.first, self.stop
        for field, array in (
            (block_kernels.RECORDS, self.records), (block_kernels.WORDS, self.words), (block_kernels.STARTS, self.starts),
            (block_kernels.NODES, self.nodes), (block_kernels.HEADS, self.heads), (block_kernels.TAILS, self.tails),
        ):  # fmt: skip
            row[field], row[field + 1] = array.ctypes.data, len(array)
        row[block_kernels.LEVEL], row[block_kernels.TOPS] = self.level, self.tops.ctypes.data
        return row

    @property
    def nbytes(self) -> int:
        """Bytes in use."""
        arrays = self.records, self.words, self.starts, self.nodes, self.tops, self.heads, self.tails
        return sum(array.nbytes for array in arrays)


# --- frames -----------------------------------------------------------------------------------------------------------


def frame_of(chunks: Sequence[Chunk], corner: Floats) -> Floats:
    """Return a frame that holds nearly all objects: its corner, and fine steps to the unit on both axes."""
    lows, steps = [], []
    for axis, name in enumerate(("x", "y")):
        sample = np.concatenate([getattr(chunk, name)[:: max(len(chunk.x) // SAMPLED, 1)] for chunk in chunks])
        ends = int(OUTSIDE * (len(sample) - 1)), len(sample) - 1 - int(OUTSIDE * (len(sample) - 1))
        low, high = np.partition(sample, ends)[list(ends)] - corner[axis]
        lows.append(low)
        steps.append(_steps(low, high))
    return np.array([*lows, *steps])


def frame_around(frames: Sequence[Floats]) -> Floats:
    """Return a frame that holds several."""
    sides = (1 << segment_kernels.FINEST) / np.maximum([frame[2:] for frame in frames], 1e-300)
    lows = np.array([frame[:2] for frame in frames])
    low, high = lows.min(axis=0), (lows + np.where(sides < 1e300, sides, 0.0)).max(axis=0)
    return np.array([*low, *(_steps(a, b) for a, b in zip(low, high, strict=True))])


def _steps(low: float, high: float) -> float:
    """Return fine steps to the unit, 0 where there is no extent."""
    steps = (1 << segment_kernels.FINEST) / (high - low) if high > low else 0.0
    return float(steps) if steps < 1e280 else 0.0


# --- making -----------------------------------------------------------------------------------------------------------


def built_segment(chunk: Chunk, corner: Floats, frame: Floats, scratch: WordScratch, words: int) -> Segment:
    """Make a segment of one chunk."""
    postings = len(chunk.words)
    records, starts = np.empty((postings, 4), np.int32), np.empty(segment_kernels.MOST_CELLS * postings + 2, np.int32)
    directory, entries = np.zeros(2 * ((words + 63) // 64), np.int64), np.empty(min(words, postings), np.int64)
    cells, known = segment_kernels.build(
        chunk.x, chunk.y, chunk.off, chunk.words, corner, frame, scratch.counted[:words], scratch.place, records,
        records.view(np.float32), starts, directory, entries,
    )  # fmt: skip
    stop = chunk.first + len(chunk.x)
    return Segment(chunk.first, stop, frame, records, starts[: cells + 1].copy(), directory, entries[:known].copy())


def merged_segment(parts: Sequence[Segment], frame: Floats, words: int) -> Generator[int, None, Segment]:
    """Merge segments in steps: yield how many postings each has merged, and return the segment."""
    postings = sum(len(part.records) for part in parts)
    # What is never written is address space, not memory: no need to count cells and words first.
    records, starts = np.empty((postings, 4), np.int32), np.empty(segment_kernels.MOST_CELLS * postings + 2, np.int32)
    directory, entries = np.zeros(2 * ((words + 63) // 64), np.int64), np.empty(min(words, postings), np.int64)
    table, state = np.array([part.row() for part in parts]), np.zeros(segment_kernels.STATE_SIZE, np.int64)
    starts[0] = 0
    while state[segment_kernels.WORD] < words:
        yield segment_kernels.merge(table, frame, state, words, STEP, records, starts, directory, entries)
    return Segment(
        parts[0].first,
        parts[-1].stop,
        frame,
        records,
        starts[: state[segment_kernels.CELLS] + 1],
        directory,
        entries[: state[segment_kernels.KNOWN]],
    )


def merged_block(
    chunks: Sequence[Chunk], corner: Floats, frame: Floats, scratch: WordScratch, *, headed: bool
) -> Generator[int, None, Block]:
    """Make a block of chunks of one size in steps: yield how many words each has read, and return the block."""
    size, count = len(chunks[0].x), len(chunks) * len(chunks[0].x)
    level = 0
    while (1 << (2 * level)) < count and level < segment_kernels.FINEST - 1:
        level += 1
    table = np.array([chunk.row() for chunk in chunks])
    records, starts = np.empty((count, 4), np.int32), np.zeros((1 << (2 * level)) + 2, np.int32)
    words = np.empty(sum(len(chunk.words) for chunk in chunks), np.int32)
    yield from _touched(starts)
    yield from _touched(records)
    for writing in (False, True):
        for start in range(0, len(chunks), STEP_CHUNKS):
            stop = min(start + STEP_CHUNKS, len(chunks))
            block_kernels.arrange(
                table, start, stop, size, corner, frame, level, writing, starts, records, records.view(np.float32)
            )
            yield (stop - start) * size
        if not writing:
            np.cumsum(starts[1:], out=starts[1:])
    for start in range(0, count, STEP_OBJECTS):
        stop = min(start + STEP_OBJECTS, count)
        block_kernels.copy_words(table, size, start, stop, records, words)
        yield len(words) // -(-count // STEP_OBJECTS)
    starts = starts[: (1 << (2 * level)) + 1]
    none = np.empty(0, np.int32)
    heads = none, np.zeros(1, np.int32), np.empty((0, 2), np.int32), none
    if headed:
        heads = yield from _heads(level, records, words, starts, scratch)
    return Block(chunks[0].first, chunks[0].first + count, frame, level, records, words, starts, *heads)


def _touched(array: Slots) -> Generator[int, None, None]:
    """Touch an array that will be written all over, in steps: a system that has to find memory takes milliseconds a page."""
    memory = array.reshape(-1).view(np.uint8)
    for start in range(0, len(memory), TOUCHED):
        memory[start : start + TOUCHED : PAGE] = 0
        yield STEP


def _heads(
    level: int, records: Slots, words: Slots, starts: Slots, scratch: WordScratch
) -> Generator[int, None, tuple[Slots, Slots, Slots, Slots]]:
    deepest = max(level - 1, 0)
    most = (deepest + 1) * (len(records) // block_kernels.HEADED) + 1
    nodes = np.empty(block_kernels.node_offset(deepest + 1), np.int32)
    tops, tails = np.zeros(most + 1, np.int32), np.empty(most, np.int32)
    # Room that is never written is address space, not memory; to grow would be a pause.
    heads, shares = np.empty((ROOM * len(records), 2), np.int32), np.empty(block_kernels.LARGEST + 1, np.int64)
    state = np.zeros(3, np.int64)
    while state[0] <= deepest:
        done = block_kernels.head_nodes(
            level, deepest, records, words, starts, state, STEP, scratch.counted, scratch.met, shares, nodes, tops, heads,
            tails,
        )  # fmt: skip
        if done < 0:
            heads = grown(heads, 2 * len(heads))
        else:
            yield done // 4
    made = int(state[2])
    return nodes, tops[: made + 1].copy(), heads[: tops[made]], tails[:made].copy()
