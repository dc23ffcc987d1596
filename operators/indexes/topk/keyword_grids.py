"""The messages of a window by keyword, norm and place: the default message index.

Each keyword has a grid of its own, as fine as its number of messages is worth, over the place where most of them are; one with
few messages has a list. A message is filed under each of its keywords, in a class by the norm of its part up to the keyword:
the larger it is, the farther away the message may be and still be wanted. A cell is a ring, because messages leave in the
order in which they came. `keyword_grid_search` says why a search looks at so little of it.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from operators.indexes.core.growth import grown
from operators.indexes.core.standing_queries import plain
from operators.indexes.core.words import Words
from operators.indexes.topk import keyword_grid_kernels as kernels
from operators.indexes.topk import keyword_grid_search as searching
from operators.indexes.topk.globe_answers import near_requests, scored_answers
from operators.indexes.topk.keyword_grid_scan import ENOUGH, OUTCOME_SIZE, PARTS, SEEN, TOP
from operators.indexes.topk.topk_index import Answers, Messages, Requests
from streams.columns import Ints
from streams.geometry import EARTH_RADIUS_M, Metric, Rect, max_distance

__all__ = ["KeywordGrids"]

Floats = NDArray[np.float64]
Slots = NDArray[np.int32]
Singles = NDArray[np.float32]

#: Messages that are added before grids are looked at again.
TOGETHER = 4096
#: Parts of a keyword's messages outside of its grid on each side, and below its norm of reference.
OUTSIDE, REFERENCE = 0.01, 0.8
#: Rooms that are not worth giving back.
SMALLEST = 1 << 16
#: Bounds are sums of a few float32, each off by 2^-24 at most.
SLACK = 1.5e-6


class KeywordGrids:
    """Grids of messages by keyword, for both metrics."""

    def __init__(self, space: Rect, metric: Metric = "euclidean") -> None:
        self._space, self._metric = space, metric
        self._dims = 2 if metric == "euclidean" else 3
        self._frame = _frame(space, metric)
        self._words = Words()
        self._longest = 0
        self._clear()

    def _clear(self) -> None:
        self._log: Floats = np.zeros(1024)
        self._directory: Slots = np.full((0, 4), -1, np.int32)
        self._cells: Slots = np.empty((1024, 4), np.int32)
        self._posts: Singles = np.empty((1024, self._dims + 4), np.float32)
        self._free: Ints = np.full(kernels.FREE_SIZE, -1, np.int64)
        self._state: Ints = np.zeros(kernels.STATE_SIZE, np.int64)
        self._place: Slots = np.empty(0, np.int32)

    @property
    def _logs(self) -> Any:
        return self._log, self._log.view(np.int64), self._log.view(np.int32)

    @property
    def _grids(self) -> Any:
        cells, posts, directory = self._cells, self._posts, self._directory
        return directory, directory.view(np.float32), cells, cells.view(np.float64), posts, posts.view(np.int32)

    @property
    def nbytes(self) -> int:
        """Bytes in use."""
        cells, posts = (
            16 * int(self._state[kernels.CELLS_TOP]),
            4 * (self._dims + 4) * int(self._state[kernels.POSTS_TOP]),
        )
        return self._log.nbytes + self._directory.nbytes + self._place.nbytes + cells + posts + self._words.nbytes

    # --- messages come and go ----------------------------------------------------------------------------------------

    def add(self, messages: Messages) -> None:
        """Take in messages."""
        for start in range(0, len(messages), TOGETHER):
            part = slice(start, min(start + TOGETHER, len(messages)))
            kw_off = plain(messages.kw_off[part.start : part.stop + 1], np.int32)
            of_words = slice(int(kw_off[0]), int(kw_off[-1]))
            words = self._words.number(plain(messages.kw[of_words], np.int64))
            x, y = plain(messages.x[part], np.float64), plain(messages.y[part], np.float64)
            weights = plain(messages.weight[of_words], np.float64)
            self._add(x, y, plain(messages.seq[part], np.int64), kw_off - kw_off[0], words, weights)

    def _add(self, x: Floats, y: Floats, seq: Ints, off: Slots, words: Slots, weights: Floats) -> None:
        self._longest = max(self._longest, int(np.diff(off).max(initial=0)))
        self._reserve(4 * len(x) + (3 * len(words) + len(x)) // 2 + 1)
        outgrown, crossed = np.empty(len(words), np.int32), np.zeros(1, np.int64)
        at = self._coordinates(x, y)
        begin = 0
        while True:
            begin = kernels.add(
                begin, x, y, seq, off, words, weights, at, self._frame, *self._logs, *self._grids, self._free, self._state,
                outgrown, crossed,
            )  # fmt: skip
            if begin == len(x):
                break
            self._grow()
        self._regrid(outgrown[: crossed[0]])

    def drop(self, first: int) -> None:
        """Forget messages with ``seq < first``."""
        released = np.empty(max(SMALLEST, self._longest), np.int32)
        while True:
            outgrown, crossed = np.empty(len(released), np.int32), np.zeros(1, np.int64)
            count = kernels.drop(
                first,
                self._dims,
                self._frame,
                *self._logs,
                *self._grids,
                self._free,
                self._state,
                outgrown,
                crossed,
                released,
            )
            self._words.release(released[:count])
            self._regrid(outgrown[: crossed[0]])
            state = self._state
            if (
                state[kernels.TAIL] == state[kernels.HEAD]
                or self._log.view(np.int64)[(state[kernels.TAIL] + 2) & (len(self._log) - 1)] >= first
            ):
                break
        self._shrink()

    def _coordinates(self, x: Floats, y: Floats) -> Singles:
        """Return places such that the straight line between two is at most their distance, in units of the largest."""
        space, far = self._space, self._frame[kernels.FAR]
        if self._metric == "euclidean":
            return np.column_stack([(x - space.min_x) / far, (y - space.min_y) / far]).astype(np.float32)
        middle = _unit_vectors(np.array([(space.min_x + space.max_x) / 2]), np.array([(space.min_y + space.max_y) / 2]))
        return np.asarray((_unit_vectors(x, y) - middle) * (EARTH_RADIUS_M / far), np.float32)

    # --- room --------------------------------------------------------------------------------------------------------

    def _reserve(self, more: int) -> None:
        """Make room in the log, the directory and among the places of words."""
        tail, head = int(self._state[kernels.TAIL]), int(self._state[kernels.HEAD])
        if head - tail + more > len(self._log):
            log = np.zeros(1 << (2 * (head - tail + more)).bit_length())
            held = np.arange(tail, head)
            log[held & (len(log) - 1)] = self._log[held & (len(self._log) - 1)]
            self._log = log
        known, top = len(self._directory), self._words.top
        if top > known:
            self._directory, self._place = grown(self._directory, top + top // 2), grown(self._place, top + top // 2)
            self._directory[known:, kernels.START] = -1
            self._place[known:] = -1

    def _grow(self) -> None:
        """Make room for more cells or postings."""
        state = self._state
        cells, posts = int(state[kernels.CELLS_TOP]), int(state[kernels.POSTS_TOP])
        if cells + state[kernels.NEED_CELLS] > len(self._cells):
            self._cells = grown(self._cells, 3 * cells // 2 + int(state[kernels.NEED_CELLS]) + 1024)
        if posts + state[kernels.NEED_POSTS] > len(self._posts):
            self._posts = grown(self._posts, 3 * posts // 2 + int(state[kernels.NEED_POSTS]) + 1024)
        state[kernels.NEED_CELLS] = state[kernels.NEED_POSTS] = 0

    def _shrink(self) -> None:
        """Build everything anew where most of it is of no use any more."""
        state = self._state
        postings, used = int(state[kernels.POSTINGS]), int(state[kernels.HEAD] - state[kernels.TAIL])
        tops = max(int(state[kernels.POSTS_TOP]), int(state[kernels.CELLS_TOP]))
        if tops <= 4 * postings + SMALLEST and len(self._log) <= 16 * used + SMALLEST:
            return
        count = int(state[kernels.MESSAGES])
        x, y, seq, off = np.empty(count), np.empty(count), np.empty(count, np.int64), np.empty(count + 1, np.int32)
        words, weights = np.empty(postings, np.int32), np.empty(postings)
        kernels.unroll(*self._logs, state, x, y, seq, off, words, weights)
        self._clear()
        for start in range(0, count, TOGETHER):
            stop = min(start + TOGETHER, count)
            part = slice(int(off[start]), int(off[stop]))
            columns = x[start:stop], y[start:stop], seq[start:stop], off[start : stop + 1] - off[start]
            self._add(*columns, words[part], weights[part])

    # --- grids -------------------------------------------------------------------------------------------------------

    def _regrid(self, words: Slots) -> None:
        """Lay out anew the words whose number of postings does not fit their grid."""
        for word in np.unique(words).tolist():
            start, level, count, _ = self._directory[word].tolist()
            if start >= 0 and (count > kernels.too_many(level) or count < kernels.too_few(level)):
                self._lay_out(word, count, _level(count))

    def _lay_out(self, word: int, count: int, level: int) -> None:
        dims, state = self._dims, self._state
        places = np.empty((count, dims + 4), np.int32)
        kernels.take_out(
            word, dims, self._directory, self._cells, self._posts.view(np.int32), self._free, state, places
        )
        position = places[:, dims + kernels.POSITION].astype(np.int64)
        places = places[np.argsort((position - state[kernels.TAIL]) & kernels.NAMES)]
        taken: Singles = places.view(np.float32)
        norm = np.hypot(taken[:, dims + kernels.WEIGHT], taken[:, dims + kernels.BELOW])
        reference = np.float32(np.partition(norm, int(REFERENCE * (count - 1)))[int(REFERENCE * (count - 1))])
        mask = len(self._log) - 1
        frame = self._frame
        low_u, per_u = _spread((self._log[position & mask] - frame[0]) * frame[2], 1 << level)
        low_v, per_v = _spread((self._log[(position + 1) & mask] - frame[1]) * frame[3], 1 << level)
        span = np.array([low_u, low_v, per_u, per_v])
        while not kernels.lay_out(
            word, level, reference, span, taken, places, dims, self._frame, self._log, *self._grids, self._free, state
        ):
            self._grow()

    # --- searches ----------------------------------------------------------------------------------------------------

    def search(self, requests: Requests) -> Answers:
        """Answer requests."""
        answers, at = self._search(requests)
        if self._metric == "euclidean" or not len(requests):
            return answers
        far = float(self._frame[kernels.FAR])
        found, at = self._search(near_requests(requests, answers, far, int(self._state[kernels.MESSAGES])))
        text = np.empty((len(at), 3))
        words = self._words.find(plain(requests.kw, np.int64))
        here = self._coordinates(requests.x, requests.y)
        searching.texts(
            found.off, at, plain(requests.kw_off, np.int32), words, plain(requests.weight, np.float64), here, self._place,
            self._logs, text,
        )  # fmt: skip
        return scored_answers(requests, found, text, far, answers.examined + found.examined)

    def _search(self, requests: Requests) -> tuple[Answers, Ints]:
        """Return what is found, and the positions of the messages."""
        count, held = len(requests), int(self._state[kernels.MESSAGES])
        if not held:
            return _nothing(count), np.empty(0, np.int64)
        words = self._words.find(plain(requests.kw, np.int64))
        asks = (
            *(plain(column, np.float64) for column in (requests.x, requests.y, requests.alpha)),
            plain(requests.kw_off, np.int32), plain(requests.weight, np.float64), plain(requests.least, np.int32),
            plain(requests.most, np.int32), plain(requests.bound, np.float64), plain(requests.ratio, np.float64),
            plain(requests.first, np.int64), plain(requests.stop, np.int64),
        )  # fmt: skip
        most = np.minimum(requests.most, held + 1)
        longest = int(most.max(initial=1))
        outcome = np.zeros(OUTCOME_SIZE, np.int64)
        chosen = np.empty(held + 9 * kernels.CLASSES, np.int32)
        lot = (
            np.empty(ENOUGH, np.int32), np.empty(ENOUGH, np.float32), np.empty(ENOUGH, np.int32), np.empty(PARTS, np.int32),
        )  # fmt: skip
        work = np.empty(longest + 1), np.empty(longest, np.int64), lot, chosen, outcome
        here, off, floor = self._coordinates(requests.x, requests.y), np.zeros(count + 1, np.int64), np.empty(count)
        room = int(np.minimum(most, 256).sum(dtype=np.int64)) + longest
        score_of, seq, at = np.empty(room), np.empty(room, np.int64), np.empty(room, np.int64)
        begin = 0
        while True:
            out = off, score_of, seq, at, floor
            begin = searching.search(
                begin, asks, words, here, held, self._frame, self._logs, self._grids, self._place, work, out
            )
            top = int(outcome[TOP])
            if begin == count:
                return Answers(off, seq[:top], score_of[:top], floor, int(outcome[SEEN])), at[:top]
            room = 2 * len(at) + longest
            score_of, seq, at = grown(score_of, room), grown(seq, room), grown(at, room)


def _frame(space: Rect, metric: Metric) -> Floats:
    """Return what kernels know of the space: see `keyword_grid_search`."""
    wide, high, far = space.max_x - space.min_x, space.max_y - space.min_y, max_distance(space, metric)
    frame = np.zeros(kernels.FRAME_SIZE)
    frame[:4] = space.min_x, space.min_y, 1.0 / wide, 1.0 / high
    frame[kernels.FAR] = far
    if metric == "euclidean":
        frame[kernels.ACROSS], frame[kernels.UPWARD], frame[kernels.SLACK] = far / wide, far / high, SLACK
        return frame
    # No place is farther from the middle than half the space across and up, nor than the other side of the globe.
    largest = min(np.radians(wide + high) / 2, 2.0) * EARTH_RADIUS_M / far
    frame[kernels.ACROSS :] = 1.0, 1.0, SLACK * (1.0 + largest), EARTH_RADIUS_M
    return frame


def _unit_vectors(x: Floats, y: Floats) -> Floats:
    lon, lat = np.radians(x), np.radians(y)
    return np.column_stack([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)])


def _level(count: int) -> int:
    """Return the level of the grid for a word with so many postings."""
    if count <= kernels.SHORT:
        return 0
    level = round(math.log2(count / (kernels.CLASSES * kernels.CELL)) / 2)
    return min(max(level, 1), kernels.MOST_LEVELS)


def _spread(values: Floats, side: int) -> tuple[float, float]:
    """Return where most values begin, and cells to the unit if they are divided into so many."""
    ends = int(OUTSIDE * (len(values) - 1)), len(values) - 1 - int(OUTSIDE * (len(values) - 1))
    low, high = np.partition(values, ends)[list(ends)]
    return float(low), float(side / max(high - low, 1e-12))


def _nothing(count: int) -> Answers:
    empty = np.empty(0)
    return Answers(np.zeros(count + 1, np.int64), empty.astype(np.int64), empty, np.full(count, -np.inf), 0)
