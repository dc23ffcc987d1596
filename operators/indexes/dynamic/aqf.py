"""AQF: the affected queries finder of the paper (Sections IV and V).

A query is filed into every cell of a grid that its *influential circle* reaches: no object outside of it can enter the query's
list. The queries of a cell are divided into groups of similar D~, by quantiles, and a new state goes through the groups of its
cell; one whose largest possible similarity of texts is below its threshold is skipped as a whole (Theorem 1).

What the paper leaves open: a kScore that falls makes the circle larger and the threshold of its groups lower, so the query is
filed into the cells that the circle has come to reach, and the bounds of its groups follow at once. A kScore that rises only
makes bounds wider than they must be: the least of a group is found anew now and then, and circles that are much too large are
drawn anew.

Costs: a query is in most cells where its alpha is small. A new state looks at every group of its cell, and all queries of those
that are not skipped are verified. A lower threshold costs a look at every cell.
"""

import numpy as np
from numpy.typing import NDArray

from operators.indexes.core.growth import grown
from operators.indexes.dynamic import aqf_kernels as kernels
from operators.indexes.dynamic.block_lists import LENGTH
from operators.indexes.dynamic.object_grid import cells_of
from operators.indexes.topk.buffer_blocks import BLOCK_CLASSES, TOP
from operators.indexes.topk.frame import frame_of
from operators.indexes.topk.igpt_kernels import LEAST as LEAST_TEXT
from operators.indexes.topk.scored_pairs import Verifier, known_messages
from operators.indexes.topk.scored_table import ALPHA, COUNT, ScoredTable, X, Y
from operators.indexes.topk.topk_index import Hits, Messages, joined_hits
from streams.errors import DeclarationError

__all__ = ["Aqf"]

Floats = NDArray[np.float64]
Slots = NDArray[np.int32]

#: Candidates that are verified together.
CANDIDATES = 1 << 18
#: Everything is filed anew when there are so many times more, or fewer, queries than the groups were made for.
REGROUPED, LEAST = 4, 256
#: Queries whose D~ tell where groups begin and end.
SAMPLED = 1000
#: A circle is drawn for a kScore that is lower by this; it is drawn anew when the kScore is higher by that.
AHEAD, SHRUNK = 0.005, 0.03
#: Places for words in the maxwts of a group, powers of two.
FEWEST_PLACES, MOST_PLACES = 16, 4096


class Aqf:
    """Queries by cell and group.

    Options:
        n: cells to a side; what the cost model says for half a million objects, if it is not given.
        groups: groups of a cell.
    """

    def __init__(self, table: ScoredTable, *, n: int = 14, groups: int = 16) -> None:
        if n < 1 or groups < 1:
            raise DeclarationError(f"n = {n} and groups = {groups}, expected at least 1")
        self._table, self._n, self._groups = table, n, groups
        self._verifier = Verifier(table)
        self._frame = frame_of(table.space, table.metric)
        self._spots: Floats = np.empty((0, 2))
        self._reach: Floats = np.empty(0)
        self._start(np.empty(0, np.int32))

    @property
    def nbytes(self) -> int:
        """Bytes in use."""
        bounds = self._heads.nbytes + self._bounds.nbytes + self._maxwts.nbytes + self._edges.nbytes
        return int(bounds + 4 * int(self._blocks[TOP]) + 24 * self._table.roster.top + self._verifier.nbytes)

    def _start(self, slots: Slots) -> None:
        """Make empty groups that suit these queries."""
        count = self._n**2 * self._groups
        self._held, self._grouped = 0, max(len(slots), LEAST)
        words = 2 * int(self._table.parts[slots, COUNT].sum()) // self._groups
        places = min(MOST_PLACES, max(FEWEST_PLACES, 1 << words.bit_length()))
        self._heads = np.zeros((count, 4), np.int64)
        self._bounds = np.empty((count, 2))
        self._bounds[:, kernels.K_LEAST], self._bounds[:, kernels.D_MOST] = np.inf, -np.inf
        self._maxwts = np.zeros((count, places), np.float32)
        self._edges = self._quantiles(slots)
        self._pool: Slots = np.empty(64, np.int32)
        self._free, self._blocks = np.full(BLOCK_CLASSES, -1, np.int64), np.zeros(3, np.int64)
        self._reach[:] = np.inf

    def _quantiles(self, slots: Slots) -> Floats:
        """Return where groups end, by cell."""
        if not len(slots) or self._groups == 1:
            return np.zeros((self._n**2, self._groups - 1))
        some = slots[:: max(1, len(slots) // SAMPLED)]
        alpha = self._table.lines[some, ALPHA]
        low, side = np.arange(self._n) / self._n, 1 / self._n
        apart = [np.maximum(np.maximum(low[:, None] - at, at - low[:, None] - side), 0) for at in self._spots[some].T]
        near = 1 - np.hypot(apart[0][None], apart[1][:, None]) / self._frame.diagonal
        d_tilde = (alpha / np.maximum(1 - alpha, LEAST_TEXT) * np.maximum(near, 0)).reshape(self._n**2, -1)
        shares = np.arange(1, self._groups) / self._groups
        return np.ascontiguousarray(np.quantile(d_tilde, shares, axis=1).T)

    def _columns(self) -> kernels.Groups:
        table = self._table
        return kernels.Groups(
            self._heads, self._bounds, self._maxwts, self._edges, self._reach, self._spots, table.lines, table.parts,
            table.long, table.idf,
        )  # fmt: skip

    def add(self, slots: Slots) -> None:
        """Draw the circles of queries."""
        lines = self._table.lines
        if len(lines) > len(self._reach):
            had = len(self._reach)
            self._spots, self._reach = grown(self._spots, len(lines)), grown(self._reach, len(lines))
            self._reach[had:] = np.inf
        self._spots[slots] = self._frame.spots(lines[slots, X], lines[slots, Y])
        if self._held + len(slots) > REGROUPED * self._grouped:
            slots = np.concatenate([self._filed(), slots])
            self._start(slots)
        self._file(slots)
        self._held += len(slots)

    def _filed(self) -> Slots:
        return np.flatnonzero(self._reach < np.inf).astype(np.int32)

    def _file(self, slots: Slots) -> None:
        kscores = self._table.theta[slots] - AHEAD
        self._pool = kernels.file(
            slots, kscores, self._n, self._frame.diagonal, self._columns(), self._pool, self._free, self._blocks
        )

    def _unfile(self, slots: Slots) -> None:
        kernels.unfile(slots, self._n, self._frame.diagonal, self._columns(), self._pool)

    def discard(self, slots: Slots) -> None:
        """Forget queries."""
        self._unfile(slots)
        self._held -= len(slots)
        if self._grouped > max(REGROUPED * self._held, LEAST):
            left = self._filed()
            self._start(left)
            self._file(left)
            self._held = len(left)

    def retune(self, slots: Slots) -> None:
        """Draw the circles of queries anew where the kScore has fallen below theirs, or is far above it."""
        theta, reach = self._table.theta[slots], self._reach[slots]
        shrunk = slots[theta > reach + SHRUNK]
        self._unfile(shrunk)
        self._file(np.concatenate([shrunk, slots[theta < reach]]))

    def probe(self, messages: Messages) -> Hits:
        """Return what messages enter."""
        known = known_messages(messages, self._table)
        cells = cells_of(self._frame.spots(known.x, known.y), self._n)
        out = np.empty(max(CANDIDATES, int(self._heads[:, LENGTH].max(initial=0))), np.int64)
        found, first, tally = [], 0, np.zeros(3, np.int64)
        groups = self._columns()
        while first < len(known) * self._groups:
            first = int(
                kernels.probe(first, cells, known.off, known.words, known.weights, groups, self._pool, out, tally)
            )
            found.append(self._verifier.hits(out[: tally[0]], known))
        return joined_hits(found) if found else self._verifier.hits(out[:0], known)
