"""Kept objects in segments that are merged as they age: the default object index.

New objects stand in an open chunk. A full chunk becomes a small segment (postings in a grid for each word) and a small block
(objects by cell). Small ones are merged into middle ones, whose blocks also have heads, and middle ones into large ones.
A question looks at a few dozen of them. Merging goes on in steps: each call of `add` does as much of it as its objects
are worth, what is being merged stays in use until the result replaces it, and no call waits for a merge to end.

The columns of the log decide, in float64.
"""

from collections.abc import Generator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from operators.indexes.objects import nearest_kernels, probe_kernels, term_kernels
from operators.indexes.objects.block_kernels import FIELDS as BLOCK_FIELDS
from operators.indexes.objects.object_index import Kept
from operators.indexes.objects.object_log import Chunk, ObjectLog
from operators.indexes.objects.segment_kernels import FIELDS as SEGMENT_FIELDS
from operators.indexes.objects.segment_parts import (
    Block,
    Segment,
    built_segment,
    frame_around,
    frame_of,
    merged_block,
    merged_segment,
)  # fmt: skip
from operators.indexes.objects.word_scratch import WordScratch
from streams.columns import Ints
from streams.errors import DeclarationError
from streams.geometry import Rect

__all__ = ["Segments"]

Floats = NDArray[np.float64]

#: Two float32 coordinates are off by this, as a part of the largest coordinate.
SINGLE_ERROR = 3e-7
Merge = Generator[int, None, None]


class Segments:
    """Segments of keyword grids, and blocks for questions without keywords, for both metrics.

    Options:
        chunk: objects of a small segment.
        middle: small segments that make a middle one.
        large: middle segments that make a large one.
    """

    def __init__(self, space: Rect, chunk: int, middle: int, large: int) -> None:
        if min(middle, large) < 2:
            raise DeclarationError(f"segments are merged by {middle} and {large}, expected numbers from 2 on")
        self._fan = middle, large
        self._corner = np.array([space.min_x, space.min_y])
        self._far = max(space.max_x - space.min_x, space.max_y - space.min_y)
        self.log, self.scratch = ObjectLog(chunk), WordScratch()
        self._small: list[tuple[Segment, Block]] = []
        self._middle: list[Segment] = []
        self._large: list[Segment] = []
        self._blocks: list[Block] = []
        self._merges: list[Merge | None] = [None, None]
        self._store: Any = None

    @property
    def nbytes(self) -> int:
        """Bytes in use; what a merge under way has written is counted when it is done."""
        small = sum(segment.nbytes + block.nbytes for segment, block in self._small)
        rest = sum(part.nbytes for part in (*self._middle, *self._large)) + sum(block.nbytes for block in self._blocks)
        return small + rest

    # --- objects come and go -----------------------------------------------------------------------------------------

    def append(self, kept: Kept) -> None:
        """Take in objects; chunks that they fill become segments."""
        if not len(kept):
            return
        reach = max(
            float(np.abs(column - low).max()) for column, low in zip((kept.x, kept.y), self._corner, strict=True)
        )
        self._far = max(self._far, reach)
        for chunk in self.log.append(kept):
            self._seal(chunk)

    def _seal(self, chunk: Chunk) -> None:
        words = self.log.words.top
        self.scratch.ready(words)
        frame = frame_of([chunk], self._corner)
        segment = built_segment(chunk, self._corner, frame, self.scratch, words)
        making = merged_block([chunk], self._corner, frame, self.scratch, headed=False)
        self._small.append((segment, _result(making)))
        self._store = None

    def drop(self, oldest: int) -> None:
        """Forget what holds only ranks below `oldest`."""
        self._small = [pair for pair in self._small if pair[0].stop > oldest]
        self._middle = [part for part in self._middle if part.stop > oldest]
        self._large = [part for part in self._large if part.stop > oldest]
        self._blocks = [part for part in self._blocks if part.stop > oldest]
        self._store = None

    # --- merging -----------------------------------------------------------------------------------------------------

    def step(self) -> int:
        """Do one step of a merge; return the work that it was, 0 where there is nothing to merge."""
        for tier, waiting in enumerate((len(self._small), len(self._middle))):
            if self._merges[tier] is None and waiting >= self._fan[tier]:
                self._merges[tier] = self._merge_middle() if tier else self._merge_small()
            merge = self._merges[tier]
            if merge is not None:
                try:
                    return max(next(merge), 1)
                except StopIteration:
                    self._merges[tier] = None
                    return 1
        return 0

    def _merge_small(self) -> Merge:
        """Merge the oldest small segments and blocks into a middle one."""
        pairs = self._small[: self._fan[0]]
        first = (pairs[0][0].first - self.log.oldest) // self.log.size
        chunks = self.log.chunks[first : first + len(pairs)]
        frame, words = frame_of(chunks, self._corner), self.log.words.top
        self.scratch.ready(words)
        segment = yield from merged_segment([segment for segment, _ in pairs], frame, words)
        block = yield from merged_block(chunks, self._corner, frame, self.scratch, headed=True)
        held = [pair for pair in self._small if pair[0].stop > segment.stop]
        if len(held) < len(self._small):  # else all of it was dropped meanwhile
            self._small = held
            self._middle.append(segment)
            self._blocks.append(block)
            self._store = None

    def _merge_middle(self) -> Merge:
        """Merge the oldest middle segments and blocks into a large one."""
        parts = self._middle[: self._fan[1]]
        frame = frame_around([part.frame for part in parts])
        first, stop = ((rank - self.log.oldest) // self.log.size for rank in (parts[0].first, parts[-1].stop))
        chunks = self.log.chunks[max(first, 0) : stop]  # of the oldest some may be dropped
        self.scratch.ready(self.log.words.top)
        segment = yield from merged_segment(parts, frame, self.log.words.top)
        block = yield from merged_block(chunks, self._corner, frame, self.scratch, headed=True)
        held = [part for part in self._middle if part.stop > segment.stop]
        if len(held) < len(self._middle):
            self._middle = held
            self._large.append(segment)
            before = [part for part in self._blocks if part.stop <= block.first]
            self._blocks = [*before, block, *(part for part in self._blocks if part.first >= block.stop)]
            self._store = None

    # --- questions ---------------------------------------------------------------------------------------------------

    def _tables(self) -> Any:
        """Return what kernels read; tables of segments and blocks are put together once for each change of these."""
        if self._store is None:
            segments = [*self._large, *self._middle, *(segment for segment, _ in self._small)]
            blocks = [*self._blocks, *(block for _, block in self._small)]
            self._store = (*_table(segments, SEGMENT_FIELDS), *_table(blocks, BLOCK_FIELDS))
        log = self.log
        return (
            *self._store, log.table, log.shift, log.oldest, log.chains, log.newest, self._corner,
            SINGLE_ERROR * self._far,
        )  # fmt: skip

    def srq(self, begin: int, asks: Any, off: Ints, out: Ints, info: Ints) -> int:
        """Write the ranks inside of regions."""
        return int(probe_kernels.srq(begin, asks, self._tables(), self.log.words.uses, off, out, info))

    def skq(self, asks: Any, k: Any, reach: Floats, off: Ints, out: Ints, distances: Floats, info: Ints) -> None:
        """Write the ranks of the k nearest, and their distances."""
        held = self.log.newest - self.log.oldest
        nearest_kernels.skq(asks, k, reach, self._tables(), self.log.words.uses, held, off, out, distances, info)

    def stq(self, begin: int, asks: Any, k: Any, off: Ints, terms: Ints, counts: Ints, rest: Ints, info: Ints) -> int:
        """Write words and counts."""
        scratch = self.scratch.ready(self.log.words.top)
        return int(term_kernels.stq(begin, asks, k, self._tables(), scratch, off, terms, counts, rest, info))


def _result(making: Generator[int, None, Block]) -> Block:
    """Return what a merge makes, all of it now."""
    while True:
        try:
            next(making)
        except StopIteration as end:
            made: Block = end.value
            return made


def _table(parts: Sequence[Segment] | Sequence[Block], fields: int) -> tuple[Ints, Floats]:
    """Return the rows of parts that kernels read, and their frames."""
    rows = np.array([part.row() for part in parts], np.int64).reshape(-1, fields)
    return rows, np.array([part.frame for part in parts], np.float64).reshape(-1, 4)
