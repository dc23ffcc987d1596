"""IGPT: Skype's own subscription index (Section 5), with individual and group pruning.

A quadtree divides subscriptions by place; each leaf has an inverted file, whose lists are divided into groups of similar alpha
and ordered by threshold within a group. A message goes through all leaves, keyword by keyword from the rarest on (Algorithm 1).

Where the paper is not exact it is mended, see `igpt_kernels.disseminate`; scores are computed from scratch when candidates are
verified. Every technique can be switched off, to measure what it is worth: `ipt` is the paper's name for individual pruning
alone.

Costs: a message looks at every leaf, and looks every keyword up in those that are near enough. A new threshold moves the
postings of a subscription within their groups. What comes and goes has its leaf laid out anew, when it is next read.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from operators.indexes.core.growth import grown
from operators.indexes.topk import igpt_kernels as kernels
from operators.indexes.topk.frame import frame_of
from operators.indexes.topk.quad_cells import Leaf, QuadCells
from operators.indexes.topk.scored_pairs import KnownMessages, Verifier, known_messages
from operators.indexes.topk.scored_table import ALPHA, COUNT, ScoredTable, X, Y
from operators.indexes.topk.topk_index import Hits, Messages, joined_hits
from streams.errors import DeclarationError

__all__ = ["Igpt", "ipt"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Slots = NDArray[np.int32]

#: Candidates that are verified together.
CANDIDATES = 1 << 18
#: Everything is filed anew when there are so many times more, or fewer, subscriptions than the groups of alpha were made for.
REGROUPED, LEAST = 4, 256
#: A leaf is laid out anew when more than one in so many of its subscriptions has another threshold.
FEW = 8


@dataclass(slots=True, eq=False)
class _File:
    """The inverted file of a leaf; see `igpt_kernels`."""

    words: Slots
    word_groups: Slots
    groups: Slots
    group_of: Slots
    postings: Floats
    who: Slots
    lowest: float

    @property
    def nbytes(self) -> int:
        arrays = (self.words, self.word_groups, self.groups, self.group_of, self.postings, self.who)
        return sum(array.nbytes for array in arrays)


class Igpt:
    """Subscriptions by leaf, keyword and group.

    Options:
        most: subscriptions of a leaf.
        groups: groups of alpha.
        prefix, refined: location-aware prefixes (Lemma 3), with the largest weight of the message (Theorem 1).
        inner, outer: bounds on distances by cells (Definitions 6 and 7).
        unseen: the bound on keywords to come (Theorem 2).
        skip: skips whole groups (Theorem 3).
        early: stops within groups (Theorem 4).
        cells: skips whole leaves (Lemma 6).
    """

    def __init__(
        self, table: ScoredTable, *, most: int = 1000, groups: int = 10, prefix: bool = True, refined: bool = True,
        inner: bool = True, outer: bool = True, unseen: bool = True, skip: bool = True, early: bool = True, cells: bool = True,
    ) -> None:  # fmt: skip
        if most < 1 or groups < 1:
            raise DeclarationError(f"most = {most} and groups = {groups}, expected at least 1")
        self._table, self._most, self._groups = table, most, groups
        self._verifier = Verifier(table)
        self._frame = frame_of(table.space, table.metric)
        switches = (prefix, refined, inner, outer, unseen, skip, early, cells)
        self._use = sum(1 << bit for bit, switch in enumerate(switches) if switch)
        self._spots: Floats = np.empty((0, 2))
        self._start()

    def _start(self) -> None:
        self._cells = QuadCells(self._most)
        self._files: list[_File | None] = [None]
        self._edges: Floats = np.empty(0)
        self._grouped = self._held = 0

    @property
    def nbytes(self) -> int:
        """Bytes in use."""
        files = sum(file.nbytes for file in self._files if file is not None)
        return self._cells.nbytes + self._verifier.nbytes + files + 16 * self._table.roster.top

    def add(self, slots: Slots) -> None:
        """Put subscriptions into leaves."""
        lines = self._table.lines
        if len(lines) > len(self._spots):
            self._spots = grown(self._spots, len(lines))
        self._spots[slots] = self._frame.spots(lines[slots, X], lines[slots, Y])
        self._held += len(slots)
        if self._held > REGROUPED * self._grouped:
            held = np.concatenate([*(leaf.slots for leaf in self._cells.leaves), slots])
            self._regroup(held)
        else:
            self._forget(self._cells.add(slots, self._spots[slots], self._spots))

    def _regroup(self, slots: Slots) -> None:
        """File everything anew, with groups of about the same size (Section 5.2.1)."""
        self._start()
        self._held, self._grouped = len(slots), max(len(slots), LEAST)
        shares = np.arange(1, self._groups) / self._groups
        if len(slots):
            self._edges = np.quantile(self._table.lines[slots, ALPHA], shares)
            self._forget(self._cells.add(slots, self._spots[slots], self._spots))

    def _forget(self, leaves: set[int]) -> None:
        self._files += [None] * (len(self._cells.leaves) - len(self._files))
        for number in leaves:
            self._files[number] = None

    def discard(self, slots: Slots) -> None:
        """Take subscriptions out of leaves."""
        self._forget(self._cells.discard(slots, self._spots[slots]))
        self._held -= len(slots)
        if self._grouped > max(REGROUPED * self._held, LEAST):
            self._regroup(np.concatenate([leaf.slots for leaf in self._cells.leaves]))

    def retune(self, slots: Slots) -> None:
        """Move postings within their groups."""
        where = self._cells.locate(self._spots[slots])
        order = np.argsort(where, kind="stable")
        leaves, first = np.unique(where[order], return_index=True)
        table = self._table
        for number, part in zip(leaves.tolist(), np.split(slots[order], first[1:]), strict=True):
            leaf, file = self._cells.leaves[number], self._files[number]
            if file is None or len(part) * FEW > len(leaf.slots):
                self._files[number] = None
                continue
            by_slot = np.argsort(leaf.slots)
            rank = by_slot[np.searchsorted(leaf.slots, part, sorter=by_slot)].astype(np.int32)
            kernels.retune(
                rank, leaf.slots, table.lines, table.parts, table.long, file.words, file.word_groups, file.groups,
                file.group_of, file.postings, file.who,
            )  # fmt: skip
            file.lowest = kernels.lowest(leaf.slots, table.lines)

    def _file(self, leaf: Leaf) -> _File:
        """Lay out the inverted file of a leaf."""
        table, slots = self._table, leaf.slots
        count = int(table.parts[slots, COUNT].sum())
        postings, who = np.empty((count, kernels.WIDTH)), np.empty(count, np.int32)
        words = np.empty(count, np.int32)
        kernels.describe(
            slots, self._spots, *leaf.low, leaf.side, self._frame.diagonal, table.lines, table.parts, table.long, table.idf,
            postings, who, words,
        )  # fmt: skip
        group_of = np.searchsorted(self._edges, table.lines[slots, ALPHA], side="right").astype(np.int32)
        group = group_of[who]
        order = np.lexsort((postings[:, kernels.K_STAR], group, words))
        postings, who, words, group = postings[order], who[order], words[order], group[order]
        begins = np.flatnonzero(np.diff(words, prepend=-1) | np.diff(group, prepend=-1))
        groups = np.column_stack([group[begins], begins, np.append(begins[1:], count)]).astype(np.int32)
        first = np.flatnonzero(np.diff(words[begins], prepend=-1))
        kernels.all_tails(postings, groups)
        word_groups = np.append(first, len(begins)).astype(np.int32)
        return _File(
            words[begins][first], word_groups, groups, group_of, postings, who, kernels.lowest(slots, table.lines)
        )

    def probe(self, messages: Messages) -> Hits:
        """Return what messages enter, leaf by leaf."""
        known = known_messages(messages, self._table)
        spots = self._frame.spots(known.x, known.y)
        sums, mosts = np.empty(len(known.weights)), np.empty(len(known.weights))
        kernels.message_sums(known.off, known.weights, sums, mosts)
        tally = np.zeros(2, np.int64)
        lots = self._candidates(known, spots, sums, mosts, tally)
        hits = joined_hits([self._verifier.hits(lot, known) for lot in lots])
        return Hits(hits.row, hits.slot, hits.score, int(tally[1]), hits.looked)

    def _candidates(
        self, known: KnownMessages, spots: Floats, sums: Floats, mosts: Floats, tally: Ints
    ) -> Iterator[Ints]:
        """Yield candidates, in lots that may be verified together."""
        largest = max((len(leaf.slots) for leaf in self._cells.leaves), default=0)
        out = np.empty(max(CANDIDATES, 2 * largest), np.int64)
        used, skips = 0, np.zeros(self._groups, np.int64)
        for number, leaf in enumerate(self._cells.leaves):
            if not len(leaf.slots):
                continue
            file = self._files[number] = self._files[number] or self._file(leaf)
            size = len(leaf.slots)
            seen, partial, skipped_at = np.zeros(size, np.int64), np.empty(size), np.zeros(size, np.int64)
            first = 0
            while first < len(known):
                first = int(kernels.disseminate(
                    first, spots, known.off, known.words, sums, mosts, known.weights, self._use, *leaf.low, leaf.side,
                    self._frame.diagonal, file.lowest, leaf.slots, file.words, file.word_groups, file.groups,
                    file.postings, file.who, seen, partial, skipped_at, skips, out[used:], tally,
                ))  # fmt: skip
                used += int(tally[0])
                if first < len(known) or len(out) - used < largest:
                    yield out[:used]
                    used = 0
        yield out[:used]


def ipt(table: ScoredTable, *, most: int = 1000, groups: int = 10) -> Igpt:
    """Make an index with individual pruning alone: IPT (Section 8.1.2)."""
    return Igpt(table, most=most, groups=groups, skip=False, early=False, cells=False)
