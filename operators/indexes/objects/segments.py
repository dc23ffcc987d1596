"""Kept objects in segments that are merged as they age: the default object index.

New objects stand in an open chunk. A full chunk becomes a small segment (postings in a grid for each word) and a small block
(objects by cell). Small ones are merged into middle ones, whose blocks also have heads, and middle segments into large ones;
middle blocks stay.
A question looks at a few dozen of them. Merging goes on in steps: each call of `add` does as much of it as its objects
are worth, what is being merged stays in use until the result replaces it, and no call waits for a merge to end.

The columns decide, in float64, and are kept once, in `ObjectLog`. On the globe kernels find what is in the box around a
circle, and the distances of `streams.geometry` decide out here, because a kernel's sine may differ in the last bit.
"""

from collections.abc import Generator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from operators.indexes.core.growth import grown
from operators.indexes.core.standing_queries import plain
from operators.indexes.objects import nearest_kernels, probe_kernels, term_kernels
from operators.indexes.objects.block_kernels import FIELDS as BLOCK_FIELDS
from operators.indexes.objects.kept_parts import restored, saved
from operators.indexes.objects.object_index import Counts, Found, Kept, Nearest, Requests, kept_of
from operators.indexes.objects.object_log import Chunk, ObjectLog
from operators.indexes.objects.segment_kernels import FIELDS as SEGMENT_FIELDS
from operators.indexes.objects.segment_parts import (
    Block,
    Scratch,
    Segment,
    built_segment,
    frame_around,
    frame_of,
    merged_block,
    merged_segment,
)  # fmt: skip
from streams.batches import ObjectBatch
from streams.columns import Ints, csr_concat, csr_take
from streams.errors import DeclarationError
from streams.geometry import EARTH_RADIUS_M, REGION_CIRCLE, REGION_NONE, Metric, Rect, distance, region_bounds

__all__ = ["Segments"]

Floats = NDArray[np.float64]

#: Postings that are merged for each posting that comes: merges need about five.
WORK = 12
#: Two float32 coordinates are off by this, as a part of the largest coordinate.
SINGLE_ERROR = 3e-7
#: Half of the way around the earth, and a little.
FARTHEST_M = 3.15 * EARTH_RADIUS_M

Merge = Generator[int, None, None]


class Segments:
    """Segments of keyword grids, and blocks for questions without keywords, for both metrics.

    Options:
        chunk: objects of a small segment.
        middle: small segments that make a middle one.
        large: middle segments that make a large one.
    """

    def __init__(
        self, space: Rect, metric: Metric = "euclidean", chunk: int = 8192, middle: int = 16, large: int = 8
    ) -> None:
        if min(chunk, middle, large) < 2:
            raise DeclarationError(
                f"segments of {chunk} objects, merged by {middle} and {large}: expected numbers from 2 on"
            )
        self._space, self._metric = space, metric
        self._fan = middle, large
        self._corner = np.array([space.min_x, space.min_y])
        self._far = max(space.max_x - space.min_x, space.max_y - space.min_y)
        self._log = ObjectLog(chunk)
        self._scratch = Scratch()
        self._small: list[tuple[Segment, Block]] = []
        self._middle: list[Segment] = []
        self._large: list[Segment] = []
        self._blocks: list[Block] = []
        self._merges: list[Merge | None] = [None, None]
        self._store: Any = None

    def __len__(self) -> int:
        return len(self._log)

    @property
    def nbytes(self) -> int:
        """Bytes in use; what a merge under way has written is counted when it is done."""
        small = sum(segment.nbytes + block.nbytes for segment, block in self._small)
        rest = sum(part.nbytes for part in (*self._middle, *self._large)) + sum(block.nbytes for block in self._blocks)
        return self._log.nbytes + self._scratch.nbytes + small + rest

    # --- objects come and go -----------------------------------------------------------------------------------------

    def add(self, objects: ObjectBatch) -> None:
        """Take in objects, and merge as much as they are worth."""
        kept = kept_of(objects, self._log.last)
        self._append(kept)
        self._work(WORK * (len(kept.kw) + len(kept)))

    def _append(self, kept: Kept) -> None:
        if not len(kept):
            return
        reach = max(
            float(np.abs(column - low).max()) for column, low in zip((kept.x, kept.y), self._corner, strict=True)
        )
        self._far = max(self._far, reach)
        for chunk in self._log.append(kept):
            self._seal(chunk)
        self._store = None

    def _seal(self, chunk: Chunk) -> None:
        words = self._log.words.top
        self._scratch.reserve(words)
        frame = frame_of([chunk], self._corner)
        segment = built_segment(chunk, self._corner, frame, self._scratch, words)
        making = merged_block([chunk], self._corner, frame, self._scratch, headed=False)
        self._small.append((segment, _result(making)))

    def drop(self, first: int) -> None:
        """Forget objects; what holds none but such is given back at once, the rest of it with its segment."""
        self._log.drop(first)
        oldest = self._log.rank(self._log.first)
        self._small = [pair for pair in self._small if pair[0].stop > oldest]
        self._middle = [part for part in self._middle if part.stop > oldest]
        self._large = [part for part in self._large if part.stop > oldest]
        self._blocks = [part for part in self._blocks if part.stop > oldest]
        self._store = None

    def kept(self, first: int, stop: int) -> Kept:
        """Return objects as they came."""
        return self._log.kept(first, stop)

    # --- merging -----------------------------------------------------------------------------------------------------

    def tend(self, most: int) -> bool:
        """Merge about so many postings; tell whether more is left to do."""
        return self._work(most)

    def _work(self, budget: int) -> bool:
        """Go on with merges, the small ones first, and count down words that have left."""
        while budget > 0:
            done = self._step() or self._log.release()
            if not done:
                return False
            budget -= done
        return True

    def _step(self) -> int:
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
        first = (pairs[0][0].first - self._log.oldest) // self._log.size
        chunks = self._log.chunks[first : first + len(pairs)]
        frame, words = frame_of(chunks, self._corner), self._log.words.top
        self._scratch.reserve(words)
        segment = yield from merged_segment([segment for segment, _ in pairs], frame, words)
        block = yield from merged_block(chunks, self._corner, frame, self._scratch, headed=True)
        held = [pair for pair in self._small if pair[0].stop > segment.stop]
        if len(held) < len(self._small):  # else all of it was dropped meanwhile
            self._small = held
            self._middle.append(segment)
            self._blocks.append(block)
            self._store = None

    def _merge_middle(self) -> Merge:
        """Merge the oldest middle segments into a large one."""
        parts = self._middle[: self._fan[1]]
        frame = frame_around([part.frame for part in parts])
        segment = yield from merged_segment(parts, frame, self._log.words.top)
        held = [part for part in self._middle if part.stop > segment.stop]
        if len(held) < len(self._middle):
            self._middle = held
            self._large.append(segment)
            self._store = None

    # --- questions ---------------------------------------------------------------------------------------------------

    def _tables(self) -> Any:
        """Return what kernels read; it is put together once for each change."""
        if self._store is None:
            segments = [*self._large, *self._middle, *(segment for segment, _ in self._small)]
            blocks = [*self._blocks, *(block for _, block in self._small)]
            log = self._log
            self._store = (
                *_table(segments, SEGMENT_FIELDS), *_table(blocks, BLOCK_FIELDS), log.table, log.size, log.oldest,
                log.chains, log.newest, self._corner, SINGLE_ERROR * self._far,
            )  # fmt: skip
        return self._store

    def _asks(self, requests: Requests) -> Any:
        """Return what kernels are asked: on the globe a circle is the box around it."""
        region, shape = requests.region, plain(requests.shape, np.float64)
        box = np.column_stack(region_bounds(region, shape, self._space, self._metric))
        box[region == REGION_NONE] = -np.inf, -np.inf, np.inf, np.inf
        circle = (region == REGION_CIRCLE) & (self._metric == "euclidean")
        words = self._log.words.find(plain(requests.kw, np.int64))
        ranks = self._log.ranks(np.concatenate([requests.first, requests.stop]))
        return (
            circle, box, shape, plain(requests.match_any, np.bool_), plain(requests.kw_off, np.int32), words,
            ranks[: len(requests)], ranks[len(requests) :],
        )  # fmt: skip

    def _range(self, requests: Requests) -> tuple[Ints, Ints, int]:
        """Return ragged rows of ranks, and how many were examined."""
        asks, store, count = self._asks(requests), self._tables(), len(requests)
        off, out, info = np.zeros(count + 1, np.int64), np.empty(max(1024, 64 * count), np.int64), np.zeros(2, np.int64)
        begin = 0
        while True:
            begin = probe_kernels.srq(begin, asks, store, self._log.words.uses, off, out, info)
            if begin == count:
                break
            out = grown(out, 2 * int(info[probe_kernels.NEEDED]))
        ranks = out[: off[-1]]
        if self._metric == "haversine" and (requests.region == REGION_CIRCLE).any():
            off, ranks = self._in_circles(requests, off, ranks)
        return off, ranks, int(info[probe_kernels.EXAMINED])

    def _in_circles(self, requests: Requests, off: Ints, ranks: Ints) -> tuple[Ints, Ints]:
        """Keep what is in circles, where a region is one."""
        row = np.repeat(np.arange(len(requests)), np.diff(off))
        _, x, y = self._log.places(ranks)
        far = distance(x, y, requests.shape[row, 0], requests.shape[row, 1], self._metric)
        inside = (far <= requests.shape[row, 2]) | (requests.region[row] != REGION_CIRCLE)
        return _off(row[inside], len(requests)), ranks[inside]

    def srq(self, requests: Requests) -> Found:
        """Return what is in regions."""
        off, ranks, examined = self._range(requests)
        return Found(off, self._log.seqs(ranks), examined)

    def skq(self, requests: Requests) -> Nearest:
        """Return what is nearest to places."""
        if self._metric == "haversine":
            return self._nearest_on_globe(requests)
        k = np.minimum(requests.k, len(self)).astype(np.int32)
        off, info = np.zeros(len(requests) + 1, np.int64), np.zeros(2, np.int64)
        room = int(np.maximum(k, 0).sum())
        ranks, distances = np.empty(room, np.int64), np.empty(room)
        nearest_kernels.skq(
            self._asks(requests), k, plain(requests.reach, np.float64), self._tables(), self._log.words.uses, len(self), off,
            ranks, distances, info,
        )  # fmt: skip
        return Nearest(off, self._log.seqs(ranks[: off[-1]]), distances[: off[-1]], int(info[probe_kernels.EXAMINED]))

    def _nearest_on_globe(self, requests: Requests) -> Nearest:
        """Look at circles that grow until each has k objects, or cannot grow."""
        lists: list[tuple[Ints, Floats]] = [(np.empty(0, np.int64), np.empty(0))] * len(requests)
        waiting, examined = np.flatnonzero(requests.k > 0), 0
        radius = np.minimum(requests.reach, self._first_radius(requests))
        while len(waiting):
            asked = requests.take(waiting)
            circles = np.column_stack([asked.shape[:, :2], radius[waiting], np.zeros(len(waiting))])
            kind = np.full(len(waiting), REGION_CIRCLE, np.uint8)
            around = Requests(
                kind, circles, asked.match_any, asked.first, asked.stop, asked.k, asked.reach, asked.kw_off, asked.kw
            )
            off, ranks, seen = self._range(around)
            examined += seen
            row = np.repeat(np.arange(len(waiting)), np.diff(off))
            seq, x, y = self._log.places(ranks)
            far = distance(x, y, circles[row, 0], circles[row, 1], self._metric)
            enough = (np.diff(off) >= asked.k) | (radius[waiting] >= np.minimum(asked.reach, FARTHEST_M))
            for i in np.flatnonzero(enough).tolist():
                part = slice(int(off[i]), int(off[i + 1]))
                order = np.lexsort((seq[part], far[part]))[: int(asked.k[i])]
                lists[int(waiting[i])] = seq[part][order], far[part][order]
            waiting = waiting[~enough]
            radius[waiting] = np.minimum(radius[waiting] * 4.0, requests.reach[waiting])
        off = np.zeros(len(requests) + 1, np.int64)
        np.cumsum([len(seq) for seq, _ in lists], out=off[1:])
        return Nearest(
            off,
            np.concatenate([np.empty(0, np.int64), *(seq for seq, _ in lists)]),
            np.concatenate([np.empty(0), *(far for _, far in lists)]),
            examined,
        )

    def _first_radius(self, requests: Requests) -> Floats:
        """Return radii within which k matches would be, were they spread evenly over the space."""
        wide = np.radians(self._space.max_x - self._space.min_x) * EARTH_RADIUS_M
        high = np.radians(self._space.max_y - self._space.min_y) * EARTH_RADIUS_M
        words = self._log.words.find(plain(requests.kw, np.int64))
        uses = np.append(self._log.words.uses, 0)[words]
        matches = np.full(len(requests), max(len(self), 1), np.float64)
        for row in np.flatnonzero(np.diff(requests.kw_off)).tolist():
            part = uses[requests.kw_off[row] : requests.kw_off[row + 1]]
            matches[row] = max(int(part.max() if requests.match_any[row] else part.min()), 1)
        return np.asarray(np.maximum(np.sqrt(wide * high * requests.k / matches), 1.0))

    def stq(self, requests: Requests) -> Counts:
        """Return how often terms occur in regions."""
        # Heads know nothing of conditions: what has keywords, or is a circle on the globe, is found first and counted then.
        apart = np.diff(requests.kw_off) > 0
        if self._metric == "haversine":
            apart |= requests.region == REGION_CIRCLE
        if not apart.any() or apart.all():
            return self._counted(requests, bool(apart.any()))
        groups = np.flatnonzero(~apart), np.flatnonzero(apart)
        parts = [self._counted(requests.take(rows), bool(apart[rows[0]])) for rows in groups]
        rows = np.argsort(np.concatenate(groups))
        off, terms = csr_concat([(part.off.astype(np.int32), part.term) for part in parts])
        _, counts = csr_concat([(part.off.astype(np.int32), part.count) for part in parts])
        rest = np.concatenate([part.rest for part in parts])
        taken, ordered = csr_take(off, terms, rows)
        examined = sum(part.examined for part in parts)
        return Counts(taken.astype(np.int64), ordered, csr_take(off, counts, rows)[1], rest[rows], examined)

    def _counted(self, requests: Requests, apart: bool) -> Counts:
        """Count terms in blocks, or apart from them, where objects are found first."""
        count, k = len(requests), plain(requests.k, np.int32)
        self._scratch.reserve(self._log.words.top)
        scratch = self._scratch.counted, self._scratch.named, self._scratch.met
        off, rest, info = np.zeros(count + 1, np.int64), np.zeros(count, np.int64), np.zeros(2, np.int64)
        terms, counts = np.empty(1024, np.int64), np.empty(1024, np.int64)
        found = self._range(requests) if apart else (off, terms, 0)
        asks, store, begin = self._asks(requests), self._tables(), 0
        while True:
            out = off, terms, counts, rest, info
            if apart:
                begin = term_kernels.count_ranks(begin, found[0], found[1], k, store, scratch, *out)
            else:
                begin = term_kernels.stq(begin, asks, k, store, scratch, *out)
            if begin == count:
                break
            room = 2 * int(info[probe_kernels.NEEDED])
            terms, counts = grown(terms, room), grown(counts, room)
        examined = found[2] + int(info[probe_kernels.EXAMINED])
        return Counts(*self._listed(off, terms, counts), rest, examined)

    def _listed(self, off: Ints, terms: Ints, counts: Ints) -> tuple[Ints, Ints, Ints]:
        """Return lists in their order, words as keyword ids."""
        row = np.repeat(np.arange(len(off) - 1), np.diff(off))
        ids, count = self._log.words.raw[terms[: off[-1]]], counts[: off[-1]]
        order = np.lexsort((ids, -count, row))
        return off, ids[order], count[order]

    # --- state -------------------------------------------------------------------------------------------------------

    def snapshot(self) -> dict[str, Any]:
        """Return the objects, full chunks as parts; segments are built from them again."""
        return saved(*self._log.saved(), self._log.first, self._log.last)

    def restore(self, state: dict[str, Any]) -> None:
        """Take over a snapshot."""
        for chunk in restored(state):
            self._append(chunk)
            self._work(WORK * len(chunk.kw))
        self._log.last = state["last"]
        self.drop(state["first"])


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


def _off(row: Ints, rows: int) -> Ints:
    off = np.zeros(rows + 1, np.int64)
    np.cumsum(np.bincount(row, minlength=rows), out=off[1:])
    return off
