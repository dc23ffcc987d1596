"""The fields of query operations in a block of JSON lines, as columns.

What the kernels find (`streams.files.query_kernels`) becomes arrays here, a field at a time. Only lines that are plain have
fields; the others are for `streams.files.json_blocks.load_line`.
"""

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from streams.batches import QUERY_TYPES
from streams.columns import Ids, Ints
from streams.files.field_texts import cut_texts
from streams.files.file_blocks import RecordBlock
from streams.files.query_kernels import (
    ABSENT,
    FALSE,
    INTEGER,
    LIST,
    NUMBER,
    OBJECT,
    TEXT,
    TRUE,
    find_values,
    list_items,
    list_numbers,
    read_integers,
    scan_lines,
)
from streams.timestamps import MAX_TS, read_times

__all__ = ["FIELDS", "UNSET", "QueryLines"]

Flags = NDArray[np.bool_]
Floats = NDArray[np.float64]

#: What stands for the size of a list, or the place of a word, that a line does not have.
UNSET = -1

#: The fields of a line in the order in which users write them, and the kinds of value that each may have.
FIELDS: dict[str, tuple[int, ...]] = {
    "op": (TEXT,), "id": (TEXT, INTEGER), "ts": (TEXT, INTEGER), "type": (TEXT,), "continuous": (TRUE, FALSE),
    "region": (OBJECT,), "at": (LIST,), "k": (INTEGER,), "alpha": (INTEGER, NUMBER), "keywords": (LIST,),
    "match": (TEXT,), "window": (INTEGER,), "slide": (INTEGER,), "ttl": (INTEGER,), "detect": (LIST,),
}  # fmt: skip
_SHAPES: dict[str, tuple[int, ...]] = {"rect": (LIST,), "circle": (LIST,)}
_CHOICES = {"op": ("register", "unregister"), "type": QUERY_TYPES, "match": ("all", "any")}

_SLOTS = [*FIELDS, *_SHAPES]
_ALLOWED = np.array([sum(1 << kind for kind in (ABSENT, *kinds)) for kinds in (FIELDS | _SHAPES).values()], np.int64)
_TEXTS = ("keywords", "detect")
_OF_TEXTS = np.array([name in _TEXTS for name in _SLOTS], np.bool_)
_WORD_LIST = [*_SLOTS, *(word for words in _CHOICES.values() for word in words)]
_WORDS = np.frombuffer("".join(_WORD_LIST).encode(), np.uint8)
_WORD_OFF = np.concatenate([[0], np.cumsum([len(word) for word in _WORD_LIST])]).astype(np.int64)


class QueryLines:
    """The plain lines of a block, field by field.

    Attributes:
        plain: which lines are plain; the columns of the others say that nothing is given.
    """

    def __init__(self, block: RecordBlock) -> None:
        shape = (len(_SLOTS), len(block))
        self._data = block.data
        self._kinds = np.zeros(shape, np.uint8)
        self._begins, self._ends, self._counts = (np.zeros(shape, np.int64) for _ in range(3))
        self.plain: Flags = np.zeros(len(block), np.bool_)
        scan_lines(
            block.data, block.start, block.stop, _WORDS, _WORD_OFF, len(FIELDS), len(_SLOTS), _ALLOWED, _OF_TEXTS,
            self._kinds, self._begins, self._ends, self._counts, self.plain,
        )  # fmt: skip
        self.plain &= ~block.not_utf8()
        self._kinds[:, ~self.plain] = ABSENT

    def __len__(self) -> int:
        return len(self.plain)

    def _field(self, name: str) -> tuple[Any, Any, Any]:
        slot = _SLOTS.index(name)
        return self._begins[slot], self._ends[slot], self._kinds[slot]

    def given(self, name: str) -> Flags:
        """Tell which lines have a field, and not a null there."""
        return np.asarray(self._kinds[_SLOTS.index(name)] != ABSENT)

    def choices(self, name: str) -> Ints:
        """Return which of its words a field says, by place; `UNSET` for any other."""
        first = _WORD_LIST.index(_CHOICES[name][0], len(_SLOTS))
        found = np.empty(len(self), np.int64)
        find_values(self._data, *self._field(name), _WORDS, _WORD_OFF, first, first + len(_CHOICES[name]), found)
        return found

    def flags(self, name: str, default: bool) -> Flags:
        """Return what a field of true or false says."""
        kinds = self._kinds[_SLOTS.index(name)]
        return np.asarray(kinds != FALSE if default else kinds == TRUE)

    def integers(self, name: str) -> tuple[Ints, Flags]:
        """Return the integers of a field, 0 where there is none, and which of them were read."""
        values, fits = np.empty(len(self), np.int64), np.ones(len(self), np.bool_)
        read_integers(self._data, *self._field(name), values, fits)
        return values, fits

    def floats(self, name: str) -> Floats:
        """Return the numbers of a field, NaN where there is none."""
        begins, ends, kinds = self._field(name)
        rows = np.flatnonzero(kinds)
        numbers = np.full(len(self), np.nan)
        numbers[rows] = _floats(self._data, begins[rows], ends[rows])
        return numbers

    def times(self) -> tuple[Ints, Flags]:
        """Return the milliseconds of `ts` and which of them could be read."""
        begins, ends, kinds = self._field("ts")
        ts, fits = self.integers("ts")
        fine = fits & (kinds == INTEGER) & (ts > -MAX_TS) & (ts < MAX_TS)
        texts = np.flatnonzero(kinds == TEXT)
        if len(texts):
            ts[texts], fine[texts] = read_times(cut_texts(self._data, begins[texts], ends[texts]))
        return ts, fine

    def sizes(self, name: str) -> Ints:
        """Return the length of each list, `UNSET` where there is none."""
        slot = _SLOTS.index(name)
        return np.where(self._kinds[slot] == LIST, self._counts[slot], UNSET)

    def numbers(self, name: str, width: int) -> Floats:
        """Return the numbers of lists of this width, NaN in all others."""
        begins, ends, kinds = self._field(name)
        numbers, missed = np.full((len(self), width), np.nan), np.zeros(len(self), np.bool_)
        list_numbers(self._data, begins, ends, kinds, self._counts[_SLOTS.index(name)], numbers, missed)
        for row in np.flatnonzero(missed).tolist():  # more digits, or a larger power of ten, than a kernel decides
            numbers[row] = list(map(float, self._data[begins[row] : ends[row]].tobytes().split(b",")))
        return numbers

    def texts(self, name: str) -> pa.ListArray:
        """Return the words that each line lists in a field; none where it is not given."""
        off = np.zeros(len(self) + 1, np.int32)
        np.cumsum(np.maximum(self.sizes(name), 0), out=off[1:])
        return pa.ListArray.from_arrays(pa.array(off), cut_texts(self._data, *self._items(name)))

    def _items(self, name: str) -> tuple[Ints, Ints]:
        count = int(np.maximum(self.sizes(name), 0).sum())
        begins, ends = np.empty(count, np.int64), np.empty(count, np.int64)
        list_items(self._data, *self._field(name), name in _TEXTS, begins, ends)
        return begins, ends

    def named(self, most_bytes: int) -> Flags:
        """Tell which lines have an id: a string that is neither empty nor too long, or an integer of few digits."""
        begins, ends, kinds = self._field("id")
        fits = (ends > begins) & (ends - begins <= most_bytes)
        return np.asarray((kinds != ABSENT) & fits & ((kinds == TEXT) | self.integers("id")[1]))

    def ids(self, rows: Ints) -> Ids:
        """Return the ids of lines that have one."""
        begins, ends, kinds = (column[rows] for column in self._field("id"))
        texts = kinds == TEXT
        if texts.all():
            return Ids("text", cut_texts(self._data, begins, ends))
        if not texts.any():
            return Ids("int", self.integers("id")[0][rows])
        return Ids("json", cut_texts(self._data, begins - texts, ends + texts))  # as written, in their quotes


def _floats(data: Any, begins: Ints, ends: Ints) -> Floats:
    return np.asarray(cut_texts(data, begins, ends).cast(pa.float64()).to_numpy(zero_copy_only=False))
