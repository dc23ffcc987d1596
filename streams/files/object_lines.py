"""The objects of a block of JSON lines, as columns, where the lines are plain.

What the kernel writes (`streams.files.object_kernels`) becomes fields here. Lines that are not plain are left to whoever reads
JSON; what is wrong with a value is for `streams.files.object_columns`, as with every other reader.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from streams.batches import OP_DELETE, OP_UPSERT
from streams.columns import Ids, Offsets
from streams.files.file_blocks import RecordBlock
from streams.files.keyword_columns import KeywordColumns
from streams.files.object_columns import Location
from streams.files.object_fields import Field, pick, row_field, row_times, stamped_field, time_field
from streams.files.object_form import ObjectForm
from streams.files.object_kernels import (
    DELETES,
    HAS,
    ID,
    IGNORED,
    KEYWORDS,
    LAT,
    LON,
    OP,
    TEXT,
    TEXTS,
    TEXTS_AT,
    TS,
    UNREAD,
    WORDS_AT,
    X,
    Y,
    scan_objects,
)
from streams.timestamps import MAX_TS, ticks_to_ms

__all__ = ["ObjectLines"]

Flags = NDArray[np.bool_]

_FIELDS = {
    "id": ID, "ts": TS, "x": X, "y": Y, "lon": LON, "lat": LAT, "keywords": KEYWORDS, "text": TEXT, "op": OP,
    "keyword_ids": UNREAD,
}  # fmt: skip

#: So many members of a line are remembered by their order.
_ORDERED = 32

Names = tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]]


@lru_cache(maxsize=64)
def _names(sources: tuple[tuple[str, str], ...], row_ids: bool, row_times: bool) -> Names:
    """Return the keys of fields one after the other, where each starts and ends, and which field it is of."""
    keys = [source.encode("utf-8", "surrogatepass") for _, source in sources]
    ignored = {"id": row_ids, "ts": row_times}
    fields = [IGNORED if ignored.get(name) else _FIELDS[name] for name, _ in sources]
    off = np.cumsum([0, *map(len, keys)], dtype=np.int64)
    return np.frombuffer(b"".join(keys), np.uint8), off, np.array(fields, np.int64)


class ObjectLines:
    """The plain lines of a block, field by field.

    Attributes:
        plain: which lines are plain; the columns have these alone.
    """

    def __init__(self, block: RecordBlock, sources: Mapping[str, tuple[str, ...]], form: ObjectForm) -> None:
        """Read the lines of a block; no field may be under more than one key, or inside of another."""
        lines, room = len(block), len(block.data)
        named = tuple((name, source) for name, keys in sources.items() for source in keys)
        self._form = form
        self.plain: Flags = np.empty(lines, np.bool_)
        self._kinds, self._integers = np.zeros((2, 2), np.int64), np.empty((4, lines), np.int64)
        self._numbers = np.empty((4, lines), np.float64)
        self._off, self._out = np.zeros((3, lines + 1), np.int32), np.empty((4, room), np.uint8)
        self._list_off, self._word_off = np.zeros(lines + 1, np.int32), np.empty(room // 3 + 2, np.int32)
        self._word_off[0] = 0
        self._rows, self._common, self._some = scan_objects(
            block.data, block.start, block.stop, *_names(named, form.row_ids, form.row_times),
            np.full(_ORDERED, -1, np.int64), self.plain, self._kinds, self._integers, self._numbers, self._off, self._out,
            self._list_off, self._word_off,
        )  # fmt: skip

    def __len__(self) -> int:
        return self._rows

    def _missing(self, field: int) -> Flags:
        """Tell which objects have no such field, or a null there."""
        if self._common >> field & 1:
            return np.zeros(self._rows, np.bool_)
        return np.asarray(self._integers[HAS, : self._rows] & 1 << field == 0)

    def _sound(self) -> Flags:
        return np.zeros(self._rows, np.bool_)

    def ids(self) -> Field:
        """Return the identifiers; an empty text is none."""
        if self._form.row_ids:
            return row_field(self._rows)
        if self._kinds[0, ID] != TEXTS:
            return Field(Ids("int", self._integers[ID, : self._rows]), self._missing(ID), self._sound(), _nothing)
        off = self._off[ID, : self._rows + 1]
        return Field(Ids("text", _texts(off, self._out[ID])), off[1:] == off[:-1], self._sound(), _nothing)

    def times(self) -> Field:
        """Return the times."""
        if self._form.row_times:
            return row_times(self._rows)
        missing = self._missing(TS)
        if self._kinds[0, TS] == TEXTS:
            found = time_field(_texts(self._off[TS, : self._rows + 1], self._out[TS], missing), self._form.times)
        elif self._form.times.pattern is not None:
            found = time_field(pa.array(self._integers[TS, : self._rows], mask=missing), self._form.times)
        else:
            ticks = self._integers[TS, : self._rows]
            ts = ticks_to_ms(ticks, self._form.times.unit)
            found = Field(ts, missing, (ts <= -MAX_TS) | (ts >= MAX_TS), lambda row: ticks[row].item())
        return stamped_field(found) if self._form.stamped else found

    def _coordinate(self, field: int) -> Field:
        return Field(self._numbers[field - X, : self._rows], self._missing(field), self._sound(), _nothing)

    def places(self) -> Location:
        """Return the places: what is not x, y is lon, lat."""
        x, y = self._coordinate(X), self._coordinate(Y)
        if self._common & (1 << X | 1 << Y):
            return Location(x, y, self._sound())
        named = ~(x.missing & y.missing)
        return Location(pick(x, self._coordinate(LON), named), pick(y, self._coordinate(LAT), named), ~named)

    def operations(self) -> Field:
        """Return what is to be done."""
        deletes = self._integers[DELETES, : self._rows]
        return Field(np.where(deletes, OP_DELETE, OP_UPSERT).astype(np.uint8), self._sound(), self._sound(), _nothing)

    def keywords(self) -> KeywordColumns:
        """Return the keywords: words, or a text to be cut into them."""
        lists = texts = None
        if self._some >> KEYWORDS & 1:
            off = self._list_off[: self._rows + 1]
            words = _texts(self._word_off[: off[-1] + 1], self._out[WORDS_AT])
            mask = None if self._common >> KEYWORDS & 1 else pa.array(self._missing(KEYWORDS))
            lists = pa.ListArray.from_arrays(pa.array(off), words, mask=mask)
        if self._some >> TEXT & 1:
            texts = _texts(self._off[TEXTS_AT, : self._rows + 1], self._out[TEXTS_AT], self._missing(TEXT))
        return KeywordColumns.of(self._rows, None, lists, texts)


def _texts(off: Offsets, out: NDArray[np.uint8], missing: Flags | None = None) -> Any:
    """Return texts as an Arrow column, nulls where they are missing."""
    valid = None
    if missing is not None and missing.any():
        valid = pa.py_buffer(np.packbits(~missing, bitorder="little"))
    return pa.StringArray.from_buffers(len(off) - 1, pa.py_buffer(off), pa.py_buffer(out[: off[-1]]), valid)


def _nothing(_: int) -> None:
    return None
