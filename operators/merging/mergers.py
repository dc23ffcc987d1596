"""Mergers: bolts that put the partial answers to a query together, and pass a list on when it has changed.

They read what evaluators know (``rankings``, ``counts``) with the grouping ``fields`` by number, so a query has one merger,
whatever evaluators it moves between. Here, and nowhere else, is decided whether a list differs from the last one sent.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from operators.evaluation.handover import BOUND_FIELDS
from operators.merging.fingerprints import Fingerprints
from operators.merging.keyed_rows import KeyedRows
from operators.merging.lists import fingerprints, summed, united
from operators.merging.nearest_union import NearestUnion
from operators.needs import Need
from operators.operator import Bolt, Emitter, Epoch, Inputs, State, TaskContext
from operators.redistribution import Division
from streams.batches import TYPE_KNN, TYPE_TERMS, PrintBatch, RankedBatch, TupleBatch, batch_fields
from streams.columns import Ints, distinct
from streams.errors import RunError
from streams.files.prepared import load_vocabulary

__all__ = ["RankedMerger", "TermsMerger"]

#: The key of a partial list is the number of its query, shifted, and its evaluator.
_SHIFT = 16

_BY_QUERY = Need(("fields",), "the lists of one query would reach several mergers", feedback=False, required=True)


@dataclass
class RankedMerger(Bolt):
    """Unites rankings: of standing queries the newest list of each evaluator, of instants those of one epoch.

    The nearest of standing queries are what was ever sent (`NearestUnion`): evaluators may send only what is new.

    Where somebody reads ``radii``, the distance of the kth object of a `knn` query is sent whenever its list has changed:
    evaluators need not look at what is farther away (SSTD, Section 6.3).

    Options:
        first_seen: of equal scores the object that was seen first comes first (dynamic objects), not the newest; one that has
            been deleted and comes again is the same in a list.
    """

    outputs: ClassVar = {"results": batch_fields(RankedBatch), "radii": BOUND_FIELDS}
    addressed: ClassVar = frozenset()
    reads: ClassVar = {"rankings": _BY_QUERY}

    #: What it reads by fields are lists of queries, by number.
    merges_by_number: ClassVar = True

    #: Where nobody reads more of what it passes on than how many lists there are, fingerprints of these will do.
    takes_prints: ClassVar = frozenset({"rankings"})

    first_seen: bool = False

    def check(self, _settings: Any, component: Any) -> Iterator[tuple[str, str]]:
        """Yield what would bring the lists of one query to several mergers."""
        for item in component.inputs:
            if item.grouping == "fields" and item.stream in self.reads and tuple(item.fields) != ("number",):
                yield "inputs", f"the lists of '{item.component}' belong together by query; set fields = ['number']"

    def open(self, context: TaskContext) -> None:
        """Start with no list."""
        self._context = context
        self._one_home = context.plan is not None and context.plan.single_home
        #: Whether lists of the nearest come in parts, which stay true: evaluators decide by the same.
        self._grows = not self._one_home and not self.first_seen
        self._partial = KeyedRows(RankedBatch.empty())
        self._nearest = NearestUnion()
        self._said = Fingerprints()
        self._sends_radii = False

    def execute_epoch(self, epoch: Epoch, inputs: Inputs, emit: Emitter) -> None:
        """Merge what has changed, and pass on what is other than before."""
        if not inputs.arrivals:
            return
        # Lists that evaluators held back for a move come in the final epoch, after which nobody reads radii.
        self._sends_radii = "radii" in self._context.targets and not epoch.final
        arrived: list[tuple[int, Any]] = [(arrival.task, arrival.batch) for arrival in inputs.arrivals]
        if printed := [batch for _, batch in arrived if isinstance(batch, PrintBatch)]:
            self._compare(PrintBatch.concat(printed), emit)
            arrived = [(task, batch) for task, batch in arrived if not isinstance(batch, PrintBatch)]
        if not arrived:
            return
        if self._one_home and self._pass_on([batch for _, batch in arrived], emit):
            return
        lists = RankedBatch.concat([batch for _, batch in arrived])
        sender = np.repeat([task for task, _ in arrived], [len(batch) for _, batch in arrived])
        if lists.instant.any():
            emit.batch(self._at_once(lists.where(lists.instant)), "results")
            if lists.instant.all():
                return
        self._standing(lists, sender, emit)

    def _standing(self, lists: RankedBatch, sender: Ints, emit: Emitter) -> None:
        """Merge the lists of standing queries, and forget those of which one says that they have ended."""
        standing = ~lists.instant
        if self._grows:
            nearest = standing & (lists.type == TYPE_KNN) & (lists.k > 0)
            if nearest.any():
                self._emit(self._unsaid(self._nearest.enter(lists.where(nearest))), emit)
                standing &= ~nearest
            if len(self._nearest):
                notes = standing & (lists.k < 0)
                standing[notes] = ~self._nearest.holds(lists.number[notes])
        # A list that is part of another's now is withdrawn before new ones are entered: its evaluator may have one again.
        replaced = np.flatnonzero(standing & (lists.k < 0))
        self._partial.remove((lists.number[replaced] << _SHIFT) | (-1 - lists.k[replaced]))
        fresh = np.flatnonzero(standing & (lists.k > 0))
        if self._one_home:
            # The newest list of a query is all there is to know of it.
            _, newest = np.unique(lists.number[fresh][::-1], return_index=True)
            self._send_changed(self._whole(lists.take(fresh[::-1][newest])), emit)
        elif len(come := np.flatnonzero(standing & (lists.k != 0))):
            self._keep(lists.take(fresh), sender[fresh])
            self._send_changed(self._united(lists.number[come], lists.ts[come]), emit)
        self._forget(np.unique(lists.number[standing & (lists.k == 0)]))

    def _pass_on(self, batches: Sequence[RankedBatch], emit: Emitter) -> bool:
        """Pass lists on as they came where each query has one home and sends one list, as nearly always; else return False.

        What says that queries have ended comes in batches of its own.
        """
        ending = [not batch.k.any() and not batch.instant.any() for batch in batches]
        lists = [batch for batch, ends in zip(batches, ending, strict=True) if not ends]
        if not _each_once(lists):
            return False
        for batch in lists:
            self._send_changed(self._whole(batch), emit)
        for batch, ends in zip(batches, ending, strict=True):
            if ends:
                self._forget(batch.number)
        return True

    def _compare(self, prints: PrintBatch, emit: Emitter) -> None:
        """Pass on the prints of lists that are others than the last; the newest one of a query is all that counts."""
        if len(distinct(prints.number)) < len(prints):
            _, newest = np.unique(prints.number[::-1], return_index=True)
            prints = prints.take(len(prints) - 1 - newest)
        changed = prints.where(self._said.exchange(prints.number, prints.print))
        if len(changed):
            emit.batch(changed, "results")

    def _keep(self, lists: RankedBatch, evaluator: Ints) -> None:
        """Take the newest lists of evaluators; an empty one is kept no longer."""
        keys = (lists.number << _SHIFT) | evaluator
        empty = np.diff(lists.off) == 0
        self._partial.remove(keys[empty])
        self._partial.put(keys[~empty], lists.take(np.flatnonzero(~empty)))

    def _at_once(self, lists: RankedBatch) -> RankedBatch:
        """Merge the answers to instants: all evaluators answer one in the same epoch."""
        lists = lists.take(np.lexsort((lists.number, lists.ts)))
        other = np.ones(len(lists), np.bool_)
        other[1:] = (lists.number[1:] != lists.number[:-1]) | (lists.ts[1:] != lists.ts[:-1])
        place = np.cumsum(other) - 1
        refused = np.unique(place[lists.k < 0])
        if len(refused):
            self._context.count("answers_refused", len(refused))
            lists = lists.take(np.flatnonzero(~np.isin(place, refused)))
            return self._at_once(lists) if len(lists) else lists
        return self._merged(place, lists, int(place[-1]) + 1)

    def _merged(self, place: Ints, lists: RankedBatch, answers: int) -> RankedBatch:
        return united(place, lists, answers, first_seen=self.first_seen)

    def _whole(self, lists: RankedBatch) -> RankedBatch:
        """Return lists that need no others to be whole, as they are passed on."""
        return lists

    def _united(self, touched: Ints, times: Ints) -> RankedBatch:
        """Return the lists of queries from what all evaluators have sent of them.

        What has just come of them is as of some times, also where nothing is left of it: no list is older than that.
        """
        numbers, place = np.unique(touched, return_inverse=True)
        newest = np.full(len(numbers), np.iinfo(np.int64).min)
        np.maximum.at(newest, place, times)
        self._last_ts = max(self._last_ts, int(times.max()))
        place, _, lists = self._partial.between(numbers << _SHIFT, (numbers + 1) << _SHIFT)
        filled, place = np.unique(place, return_inverse=True)
        merged = self._merged(place, lists, len(filled))
        empty = RankedBatch.without_items(np.delete(numbers, filled), 1, self._last_ts)
        return RankedBatch.concat([replace(merged, ts=np.maximum(merged.ts, newest[filled])), empty])

    def _send_changed(self, lists: RankedBatch, emit: Emitter) -> None:
        new = self._said.exchange(lists.number, fingerprints(lists, by_id=self.first_seen))
        if not new.any():
            return
        self._emit(lists if new.all() else lists.take(np.flatnonzero(new)), emit)

    def _unsaid(self, lists: RankedBatch) -> RankedBatch:
        """Return lists without those that were passed on before a run went on with queries that have several homes."""
        if not len(self._said):
            return lists
        new = self._said.exchange(lists.number, fingerprints(lists))
        self._said.remove(lists.number)
        return lists.take(np.flatnonzero(new))

    def _emit(self, lists: RankedBatch, emit: Emitter) -> None:
        """Pass lists on, and to evaluators how far those of the nearest reach."""
        if not len(lists):
            return
        emit.batch(lists, "results")
        whole = np.flatnonzero((lists.type == TYPE_KNN) & (np.diff(lists.off) == lists.k))
        if self._sends_radii and len(whole):
            radius = lists.value[lists.off[whole + 1] - 1]
            emit.batch(TupleBatch(BOUND_FIELDS, (lists.number[whole], radius)), "radii")

    _last_ts: int = np.iinfo(np.int64).min

    def _forget(self, numbers: Ints) -> None:
        """Forget queries that have ended."""
        if not len(numbers):
            return
        self._said.remove(numbers)
        self._nearest.remove(numbers)
        _, keys, _ = self._partial.between(numbers << _SHIFT, (numbers + 1) << _SHIFT)
        self._partial.remove(keys)

    def snapshot(self) -> State:
        """Return all lists, and what was said of them."""
        return {
            "partial": self._partial.snapshot(), "nearest": self._nearest.snapshot(), "said": self._said.snapshot(),
            "last_ts": self._last_ts,
        }  # fmt: skip

    def restore(self, state: State) -> None:
        """Take over a snapshot."""
        self._partial.restore(state["partial"])
        self._nearest.restore(state["nearest"])
        self._said.restore(state["said"])
        self._last_ts = state["last_ts"]
        if not self._grows:  # with fewer evaluators a query may have one home where it had several
            lists = self._nearest.snapshot()
            self._said.exchange(lists.number, fingerprints(lists))
            self._nearest.remove(lists.number)

    @classmethod
    def redistribute(cls, states: Sequence[State], division: Division) -> list[State]:
        """All know what was said of all queries, and the nearest; other lists come anew where evaluators are others."""
        whole, nearest = KeyedRows(RankedBatch.empty()), NearestUnion()
        said = Fingerprints()
        for state in states:
            nearest.enter(state["nearest"])
            said.exchange(state["said"]["numbers"], state["said"]["prints"])
            if not division.replanned:
                whole.put(state["partial"]["keys"], state["partial"]["rows"])
        last_ts = max(state["last_ts"] for state in states)
        divided = {
            "partial": whole.snapshot(), "nearest": nearest.snapshot(), "said": said.snapshot(), "last_ts": last_ts
        }  # fmt: skip
        return [divided] * division.tasks


def _each_once(batches: Sequence[RankedBatch]) -> bool:
    """Tell whether there are only lists of standing queries, and one of each query."""
    if any(batch.instant.any() or (batch.k <= 0).any() for batch in batches):
        return False
    numbers = np.concatenate([np.empty(0, np.int64), *(batch.number for batch in batches)])
    return len(distinct(numbers)) == len(numbers)


@dataclass
class TermsMerger(RankedMerger):
    """Adds up counts of terms, and names the terms; it also reads the stream ``words`` of the spouts, with ``all``."""

    reads: ClassVar = {
        "counts": _BY_QUERY,
        "words": Need(("all",), "some mergers would lack the words of their terms", feedback=False),
    }

    def open(self, context: TaskContext) -> None:
        """Start with the words of the vocabulary."""
        super().open(context)
        self._grows = False
        self._vocabulary = None if context.vocabulary is None else load_vocabulary(context.vocabulary)
        self._words: dict[int, str] = {}

    def execute_epoch(self, epoch: Epoch, inputs: Inputs, emit: Emitter) -> None:
        """Learn new words, then merge."""
        for batch in inputs.batches("words"):
            self._words.update(batch.rows())
        lists = tuple(arrival for arrival in inputs.arrivals if arrival.stream != "words")
        super().execute_epoch(epoch, Inputs(lists), emit)

    def _merged(self, place: Ints, lists: RankedBatch, answers: int) -> RankedBatch:
        if (lists.type != TYPE_TERMS).any():
            raise RunError("a merger of terms got lists of another kind; put a 'ranked-merger' behind their evaluators")
        return summed(place, lists, answers, lambda terms: [self._word(term) for term in terms.tolist()])

    def _whole(self, lists: RankedBatch) -> RankedBatch:
        return self._merged(np.arange(len(lists)), lists, len(lists)) if len(lists) else lists

    def _word(self, term: int) -> str:
        if term in self._words:
            return self._words[term]
        if self._vocabulary is not None and 0 <= term < len(self._vocabulary):
            return self._vocabulary.words[term]
        raise RunError(f"the term {term} has no word; let the merger read the stream 'words' of the spout of objects")

    def snapshot(self) -> State:
        """Return the words too."""
        return {**super().snapshot(), "words": [list(pair) for pair in sorted(self._words.items())]}

    def restore(self, state: State) -> None:
        """Take over a snapshot."""
        super().restore(state)
        self._words = {term: word for term, word in state["words"]}  # noqa: C416

    @classmethod
    def redistribute(cls, states: Sequence[State], division: Division) -> list[State]:
        """All know all words."""
        words = {term: word for state in states for term, word in state["words"]}
        listed = [list(pair) for pair in sorted(words.items())]
        return [{**state, "words": listed} for state in super().redistribute(states, division)]
