"""The current states of objects that move and change: who they are, since when they are there, where, and their keywords.

An object has a slot, a small number that is used again after a deletion. A batch of records is looked at first (`compare`),
so that whoever keeps something of the old states can take it out, and then entered (`apply`). An object that changes several
times in a batch has its last state only.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from operators.indexes.core.growth import grown
from operators.indexes.core.standing_queries import plain
from operators.indexes.core.word_lines import LINE_BYTES, WordLines
from operators.indexes.core.words import Words
from operators.indexes.dynamic.dynamic_index import Floats, Slots
from operators.indexes.dynamic.object_names import ObjectNames
from operators.indexes.dynamic.object_rows import COUNT, NORM, X, Y
from operators.indexes.topk.topk_index import Messages
from streams.batches import OP_DELETE, OP_UPSERT, ObjectBatch
from streams.columns import Ints
from streams.scoring import norms
from streams.vocabulary import Vocabulary

__all__ = ["Changes", "ObjectTable"]


@dataclass(frozen=True, slots=True, eq=False)
class Changes:
    """What a batch of records does, each object once.

    Attributes:
        leaving: the objects whose states end.
        deleted: those of them that end altogether.
        arriving: the objects that have a new state.
        rows: the records that say so.
        first_seen: the place in the input order where each of these was seen first.
    """

    leaving: Slots
    deleted: Slots
    arriving: Slots
    rows: Ints
    first_seen: Ints


class ObjectTable:
    """Objects by slot.

    Attributes:
        first_seen: of equal scores the object with the smaller one is better.
        words: the keywords of all states, and how many have each.
        idf: by word.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self.words = Words()
        self._lines = WordLines(COUNT)
        self.idf: Floats = np.empty(0)
        self.first_seen: Ints = np.empty(0, np.int64)
        self._names = ObjectNames()
        self.held, self.slots_of, self.ids = self._names.held, self._names.slots_of, self._names.ids

    def __len__(self) -> int:
        return len(self._names)

    @property
    def top(self) -> int:
        """Slots that were ever used."""
        return self._names.top

    @property
    def lines(self) -> Floats:
        """A row a slot, float64; see `object_rows`. They are replaced when they grow."""
        return self._lines.lines

    @property
    def parts(self) -> Slots:
        """The same bytes as int32."""
        return self._lines.parts

    @property
    def long(self) -> Slots:
        """The words of states with many."""
        return self._lines.long

    @property
    def nbytes(self) -> int:
        """Bytes in use; identifiers, and the look-up by them, are counted as 100 bytes each."""
        words = self._lines.pool_bytes + 8 * self.words.top + self.words.nbytes
        return (LINE_BYTES + 8) * self.top + words + 100 * len(self)

    # --- records ------------------------------------------------------------------------------------------------------

    def compare(self, objects: ObjectBatch) -> Changes:
        """Return what records, in the order of the input, do to the states; no state is another one yet.

        Deleting what is not there does nothing. An object that is deleted and comes again has a new place in the order.
        """
        slots = self.slots_of(objects.ids)
        if np.all(objects.op == OP_UPSERT) and np.all(slots >= 0):  # all go on: the last state of each counts
            arriving, ends = np.unique(slots[::-1], return_index=True)
            return Changes(arriving, arriving[:0], arriving, len(slots) - 1 - ends, self.first_seen[arriving])
        return self._compare_each(objects)

    def _compare_each(self, objects: ObjectBatch) -> Changes:
        """Compare record by record, where objects come or go."""
        last: dict[
            int | str, tuple[int, int]
        ] = {}  # the row of the last state, -1 for none, and when it was seen first
        seen = self.first_seen
        for row, (name, op, seq) in enumerate(
            zip(objects.ids.to_list(), objects.op.tolist(), objects.seq.tolist(), strict=True)
        ):
            if op == OP_DELETE:
                last[name] = (-1, 0)
                continue
            before = last.get(name)
            if before is None:
                slot = self._names.slot_of(name)
                last[name] = (row, seq if slot is None else int(seen[slot]))
            else:
                last[name] = (row, seq if before[0] < 0 else before[1])
        leaving, deleted, arriving, rows, first = [], [], [], [], []
        for name, (row, since) in last.items():
            slot = self._names.slot_of(name)
            if slot is not None:
                leaving.append(slot)
            if row >= 0:
                arriving.append(self._reserved(name) if slot is None else slot)
                rows.append(row)
                first.append(since)
            elif slot is not None:
                deleted.append(slot)
        return Changes(
            np.array(leaving, np.int32), np.array(deleted, np.int32), np.array(arriving, np.int32),
            np.array(rows, np.int64), np.array(first, np.int64),
        )  # fmt: skip

    def _reserved(self, name: int | str) -> int:
        """Return a slot for an object that has none."""
        slot = self._names.reserve(name)
        if slot >= len(self.lines):
            self._grow(2 * slot + 66)
        self.parts[slot, COUNT] = 0
        return slot

    def _grow(self, room: int) -> None:
        self._lines.grow(room)
        self.first_seen = grown(self.first_seen, room)

    def apply(self, objects: ObjectBatch, changes: Changes) -> Messages:
        """Put new states in the place of old ones; return those, a row for each that arrives."""
        old = self._lines.forget(changes.leaving)
        self.parts[changes.leaving, COUNT] = 0
        states = objects.take(changes.rows)
        messages = self._write(states, changes.arriving, changes.first_seen)
        self.words.release(old)  # not before: a word that comes again keeps its number
        self._names.release(changes.deleted.tolist())
        return messages

    def _write(self, states: ObjectBatch, slots: Slots, first_seen: Ints) -> Messages:
        off, kw = plain(states.kw_off, np.int32), plain(states.kw, np.int64)
        words = self.words.number(kw)
        if self.words.top > len(self.idf):
            self.idf = grown(self.idf, 2 * self.words.top)
        idf, norm = self.vocabulary.idf(kw), norms(off, kw, self.vocabulary)
        self.idf[words] = idf
        lines = self.lines
        lines[slots, X], lines[slots, Y], lines[slots, NORM] = states.x, states.y, norm
        self.first_seen[slots] = first_seen
        self._lines.write(slots, off, words, self.held)
        return Messages(first_seen, states.x, states.y, off, kw, idf / np.repeat(norm, np.diff(off)))

    # --- what is there ------------------------------------------------------------------------------------------------

    def words_of(self, slots: Slots) -> tuple[Slots, Slots]:
        """Return the words of states as ragged rows, ids of keywords ascending."""
        return self._lines.words_of(slots)

    def states(self, slots: Slots) -> Messages:
        """Return states, with the unit weight of each keyword; their `seq` are where the objects were seen first."""
        off, words = self.words_of(slots)
        weight = self.idf[words] / np.repeat(self.lines[slots, NORM], np.diff(off))
        x, y = self.lines[slots, X], self.lines[slots, Y]
        return Messages(self.first_seen[slots], x, y, off, self.words.raw[words], weight)

    def snapshot(self) -> dict[str, Any]:
        """Return all objects as records, in the order in which they were seen first."""
        slots = self.held()
        slots = slots[np.argsort(self.first_seen[slots])]
        states, count = self.states(slots), len(slots)
        return {
            "objects": ObjectBatch(
                seq=states.seq, ts=np.zeros(count, np.int64), x=states.x, y=states.y,
                op=np.full(count, OP_UPSERT, np.uint8), kw_off=states.kw_off, kw=states.kw, ids=self.ids(slots),
            )
        }  # fmt: skip

    def restore(self, state: dict[str, Any]) -> None:
        """Become the table that made a snapshot; slots may be others."""
        self.__init__(self.vocabulary)  # type: ignore[misc]
        self.apply(state["objects"], self.compare(state["objects"]))
