"""The IR-tree: an R-tree of messages, each node with an inverted file (Cong, Jensen and Wu; Skype's experiments, Section 8.1).

For each word, a node knows which of its children have it, and the largest weight of it below each of them (a child's "pseudo
document"). With the child's box that bounds the score of everything below it, and a search looks at nodes from the best bound
on (`ir_tree_search`). Messages come and go one by one.

Costs: a message is filed once for each word in each node above it, as far as words do not meet others there, so a window takes
several times the memory of `keyword-grids`; common words have large weights everywhere, so bounds near the root say little.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from operators.indexes.core.growth import grown
from operators.indexes.core.standing_queries import plain
from operators.indexes.core.words import Words
from operators.indexes.topk import ir_tree_files as files
from operators.indexes.topk import ir_tree_kernels as kernels
from operators.indexes.topk import ir_tree_search as searching
from operators.indexes.topk.globe_answers import near_requests, scored_answers
from operators.indexes.topk.topk_index import Answers, Messages, Requests
from streams.columns import Ints
from streams.errors import DeclarationError
from streams.geometry import EARTH_RADIUS_M, Metric, Rect, max_distance

__all__ = ["IrTree"]

Floats = NDArray[np.float64]
Slots = NDArray[np.int32]

#: Rows of arrays that are not worth giving back, and of those that a search begins with.
SMALLEST, ENOUGH = 1 << 14, 4096
#: Places of the hash to an entry when it is made anew.
ROOMY = 2.2


class IrTree:
    """An R-tree of messages with inverted files, for both metrics; on the globe it is one of unit vectors.

    Args:
        space: where messages and subscriptions are.
        metric: how far they are from each other.
        fanout: how many children a node may have.
    """

    def __init__(self, space: Rect, metric: Metric = "euclidean", fanout: int = 32) -> None:
        if fanout < 5:  # so that no inner node is left with a single child by a split
            raise DeclarationError(f"an IR-tree with nodes of {fanout} children; expected at least 5")
        self._metric, self._far, self._fanout = metric, max_distance(space, metric), fanout
        self._globe = 0.0 if metric == "euclidean" else EARTH_RADIUS_M
        self._dims = 2 if metric == "euclidean" else 3
        self._words = Words()
        self._longest = 0
        self._clear()

    def _clear(self) -> None:
        dims = self._dims
        self._places: Floats = np.empty((64, 2))
        self._log: tuple[Floats, Ints, Slots, Slots] = (
            np.empty((64, dims)), np.empty((64, 2), np.int64), np.empty((64, 3), np.int32), np.empty(64, np.int32)
        )  # fmt: skip
        self._tree: tuple[Any, ...] = (
            np.empty((16, files.NODE_WIDTH), np.int32), np.empty((16, 2 * dims)), np.empty((16, self._fanout + 1), np.int32)
        )  # fmt: skip
        self._files: tuple[Slots, Slots, Slots, Floats] = (
            np.empty((64, files.ENTRY_WIDTH), np.int32), np.full(128, -1, np.int32), np.empty((64, 2), np.int32), np.empty(64)
        )  # fmt: skip
        self._state: Ints = np.zeros(files.STATE_SIZE, np.int64)
        self._state[[kind + files.FREE for kind in (files.ENTRIES, files.LANES, files.NODES)]] = self._state[
            files.ROOT
        ] = -1

    def __len__(self) -> int:
        return int(self._state[files.HEAD] - self._state[files.TAIL])

    @property
    def nbytes(self) -> int:
        """Bytes in use."""
        state, log = self._state, (self._places, *self._log)
        node = 4 * files.NODE_WIDTH + 16 * self._dims + 4 * (self._fanout + 1)
        tops = state[[kind + files.TOP for kind in (files.NODES, files.ENTRIES, files.LANES)]]
        pools = int(tops @ (node, 4 * files.ENTRY_WIDTH, 16))
        return pools + sum(array.nbytes for array in log) + self._files[1].nbytes + self._words.nbytes

    # --- messages come and go ----------------------------------------------------------------------------------------

    def add(self, messages: Messages) -> None:
        """Take in messages."""
        if not len(messages):
            return
        off = plain(messages.kw_off - messages.kw_off[0], np.int32)
        of_words = slice(int(messages.kw_off[0]), int(messages.kw_off[-1]))
        words = self._words.number(plain(messages.kw[of_words], np.int64))
        x, y = plain(messages.x, np.float64), plain(messages.y, np.float64)
        weights = plain(messages.weight[of_words], np.float64)
        self._add(np.column_stack([x, y]), plain(messages.seq, np.int64), off, words, weights)

    def _add(self, places: Floats, seq: Ints, off: Slots, words: Slots, weights: Floats) -> None:
        self._longest = max(self._longest, int(np.diff(off).max()))
        self._reserve(len(seq), len(words))
        at = np.arange(self._state[files.HEAD], self._state[files.HEAD] + len(seq))
        self._places[at & (len(self._places) - 1)] = places
        points, begin = self._points(places[:, 0], places[:, 1]), 0
        while True:
            begin = kernels.add(
                begin, points, seq, off, words, weights, self._log, self._tree, self._files, self._state
            )
            if begin == len(seq):
                return
            self._grow(int(off[begin + 1] - off[begin]))

    def drop(self, first: int) -> None:
        """Forget messages with ``seq < first``."""
        released = np.empty(max(ENOUGH, self._longest), np.int32)
        before = -1
        while before != self._state[files.TAIL]:
            before = int(self._state[files.TAIL])
            count = kernels.drop(first, released, self._log, self._tree, self._files, self._state)
            self._words.release(released[:count])
        self._shrink()

    def _points(self, x: Floats, y: Floats) -> Floats:
        """Return coordinates in the tree."""
        if self._metric == "euclidean":
            return np.column_stack([x, y])
        lon, lat = np.radians(x), np.radians(y)
        return np.column_stack([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)])

    # --- room --------------------------------------------------------------------------------------------------------

    def _reserve(self, messages: int, words: int) -> None:
        """Make room in the log."""
        state = self._state
        held = np.arange(state[files.TAIL], state[files.HEAD])
        points, seqs, homes, ring = self._log
        if len(held) + messages > len(points):
            room = 1 << (len(held) + messages).bit_length()
            self._places, points, seqs, homes = (
                _relaid(column, held, room) for column in (self._places, points, seqs, homes)
            )
        said = np.arange(state[files.WORD_TAIL], state[files.WORD_HEAD])
        if len(said) + words > len(ring):
            ring = _relaid(ring, said, 1 << (len(said) + words).bit_length())
        self._log = points, seqs, homes, ring

    def _grow(self, longest: int) -> None:
        """Make room for the next message, whatever it splits."""
        nodes, boxes, children = self._tree
        entries, table, lanes, weights = self._files
        state = self._state
        levels = int(nodes[state[files.ROOT], files.LEVEL]) + 3
        if state[files.NODES] + levels > len(nodes):
            self._tree = tuple(grown(array, 2 * len(nodes) + levels) for array in (nodes, boxes, children))
        # No node has more words than the root.
        more = levels * (3 * longest + 2 * int(nodes[state[files.ROOT], files.FILES]) + 4)
        if state[files.ENTRIES] + more > len(entries):
            entries = grown(entries, 3 * len(entries) // 2 + more)
        if state[files.LANES] + more > len(lanes):
            lanes, weights = (grown(array, 3 * len(lanes) // 2 + more) for array in (lanes, weights))
        if state[files.ENTRIES] + more > kernels.FULLEST * len(table):
            table = np.full(int(ROOMY * (state[files.ENTRIES] + more)), -1, np.int32)
            files.rehash(entries, int(state[files.ENTRIES + files.TOP]), table)
        self._files = entries, table, lanes, weights

    def _shrink(self) -> None:
        """Build everything anew where most of it is of no use any more."""
        state, held = self._state, len(self)
        words = int(state[files.WORD_HEAD] - state[files.WORD_TAIL])
        rows = max(int(state[kind + files.TOP]) for kind in (files.ENTRIES, files.LANES))
        used = max(int(state[files.ENTRIES]), int(state[files.LANES]))
        if rows <= 4 * used + SMALLEST and max(len(self._places) - 8 * held, len(self._log[3]) - 8 * words) <= SMALLEST:
            return
        seq, off = np.empty(held, np.int64), np.zeros(held + 1, np.int32)
        said, weights = np.empty(words, np.int32), np.empty(words)
        kernels.unroll(self._log, self._files, state, seq, off, said, weights)
        at = np.arange(state[files.TAIL], state[files.HEAD])
        places = self._places[at & (len(self._places) - 1)]
        self._clear()
        if held:
            self._add(places, seq, off, said, weights)

    # --- searches ----------------------------------------------------------------------------------------------------

    def search(self, requests: Requests) -> Answers:
        """Answer requests."""
        answers, at = self._search(requests)
        if self._metric == "euclidean" or not len(requests):
            return answers
        found, at = self._search(near_requests(requests, answers, self._far, len(self)))
        text = np.empty(len(at))
        words = self._words.find(plain(requests.kw, np.int64))
        word_off, weights = plain(requests.kw_off, np.int32), plain(requests.weight, np.float64)
        searching.texts(found.off, at, word_off, words, weights, self._log, self._files, text)
        known = np.column_stack([self._places[at & (len(self._places) - 1)], text])
        return scored_answers(requests, found, known, self._far, answers.examined + found.examined)

    def _search(self, requests: Requests) -> tuple[Answers, Ints]:
        """Return what is found, and the names of the messages."""
        count = len(requests)
        off, floor = np.zeros(count + 1, np.int64), np.full(count, -np.inf)
        score, seq, at = np.empty(ENOUGH), np.empty(ENOUGH, np.int64), np.empty(ENOUGH, np.int64)
        if not len(self):
            return Answers(off, seq[:0], score[:0], floor, 0), at[:0]
        asks = (
            plain(requests.alpha, np.float64), plain(requests.kw_off, np.int32), plain(requests.weight, np.float64),
            plain(requests.least, np.int32), plain(requests.most, np.int32), plain(requests.bound, np.float64),
            plain(requests.ratio, np.float64), plain(requests.first, np.int64), plain(requests.stop, np.int64),
        )  # fmt: skip
        words, here = self._words.find(plain(requests.kw, np.int64)), self._points(requests.x, requests.y)
        heap: Any = (np.empty(ENOUGH), np.empty(ENOUGH, np.int64), np.empty(ENOUGH, np.int32))
        outcome = np.zeros(searching.OUTCOME_SIZE, np.int64)
        begin = 0
        while True:
            begin = searching.search(
                begin, asks, words, here, self._globe, self._far, self._log, self._tree, self._files, self._state, heap,
                (off, score, seq, at, floor), outcome,
            )  # fmt: skip
            top = int(outcome[searching.TOP])
            if begin == count:
                return Answers(off, seq[:top], score[:top], floor, int(outcome[searching.SEEN])), at[:top]
            score, seq, at = (grown(column, 2 * len(column)) for column in (score, seq, at))
            heap = tuple(grown(column, 2 * len(column)) for column in heap)


def _relaid(ring: Any, positions: Ints, room: int) -> Any:
    """Return a larger ring with the same at these positions; both are a power of two long."""
    larger = np.empty((room, *ring.shape[1:]), ring.dtype)
    larger[positions & (room - 1)] = ring[positions & (len(ring) - 1)]
    return larger
