"""Matches on their way into a file: hits, and where the identifiers of their queries stand.

Nothing is spelled out a match at a time. What a line says of the object is made once for all queries that it matches, what it
says of the query once for all objects; a kernel puts lines together from these.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from streams.byte_copies import SLACK, copied, padded
from streams.columns import Ids, Ints
from streams.files.json_text import json_ids, plain_ids
from streams.kernel import lean_kernel
from streams.prefetch import prefetch
from streams.result_batches import HitBatch

__all__ = ["IdTable", "NamedHits"]

Bytes = NDArray[np.uint8]
Offsets = NDArray[np.int32]
Codes = NDArray[np.int32]
Texts = tuple[Offsets, Bytes]

#: Lines are made by so many bytes at a time: they stay in the cache until they are written.
BLOCK_BYTES = 1 << 20
_QUERY: Bytes = padded(np.frombuffer(b'{"query":', np.uint8))
#: Names that are looked up together, so that the processor waits for many at once; and how far ahead one in a row is asked for.
_TOGETHER, _AHEAD = 32, 24
#: Bytes of a row of names that are no longer than this less one; longer ones are read where they stand.
WIDTHS = (16, 32, 48)


class IdTable:
    """Identifiers by place; their texts, as JSON has them and as they are, are made when they are first asked for."""

    __slots__ = ("_json", "_plain", "_rows", "ids")

    def __init__(self, ids: Ids) -> None:
        self.ids = ids
        self._json: Texts | None = None
        self._plain: Texts | None = None
        self._rows: tuple[Bytes, int] | None = None

    def json(self) -> Texts:
        """Return where each JSON text begins, and the last one ends, and the texts."""
        if self._json is None:
            self._json = _buffers(json_ids(self.ids))
        return self._json

    def plain(self) -> Texts:
        """Return the same of identifiers as they are, integers as their digits."""
        if self._plain is None:
            self._plain = _buffers(plain_ids(self.ids))
        return self._plain

    def rows(self) -> tuple[Bytes, int]:
        """Return identifiers as they are, in rows whose last byte is the length, and the width of a row; 0: some are too long.

        So a name that is looked up is one miss of the cache: where it begins is known, and its length comes with it.
        """
        if self._rows is None:
            off, text = _buffers(plain_ids(self.ids))
            longest = int(np.diff(off).max(initial=0))
            width = next((width for width in WIDTHS if longest < width), 0)
            rows = np.empty(width * len(self.ids) + SLACK, np.uint8)
            if width:
                _lay_out(off, text, width, rows)
            self._rows = rows, width
        return self._rows


@dataclass(frozen=True, slots=True, eq=False)
class NamedHits:
    """Hits with the place of each query's identifier, in the first table or, counted on from its end, in the second."""

    hits: HitBatch
    place: Ints
    tables: tuple[IdTable, IdTable]

    def __len__(self) -> int:
        return len(self.place)

    def lines(self) -> Iterator[memoryview]:
        """Yield results as JSON lines, some of them at a time; what is yielded is overwritten by the next."""
        hits, (first, second) = self.hits, [table.json() for table in self.tables]
        tails = _buffers(
            pc.binary_join_element_wise(
                ',"ts":', pa.array(hits.ts).cast(pa.string()), ',"object":', json_ids(hits.ids), "}\n", ""
            )
        )
        line = len(_QUERY) - SLACK + max(_longest(first), _longest(second)) + _longest(tails)
        out = np.empty(max(BLOCK_BYTES, _TOGETHER * line) + SLACK, np.uint8)
        off, place, names = (
            hits.off.astype(np.int64),
            np.ascontiguousarray(self.place),
            np.empty((3, _TOGETHER), np.int64),
        )
        row, done = 0, 0
        while done < len(place):
            row, done, used = _write_lines(
                row, done, off, place, len(self.tables[0].ids), *first, *second, *tails, _QUERY, line, names, out
            )
            yield out[:used].data

    def parts(self, codes: Codes, rows: int) -> Iterator[tuple[Any, Ints, Codes]]:
        """Yield identifiers of queries as Arrow strings, times and objects' codes, of so many matches at a time."""
        ts, code = np.empty(len(self), np.int64), np.empty(len(self), np.int32)
        _spread(self.hits.off, self.hits.ts, codes, ts, code)
        for start in range(0, len(self), rows):
            part = slice(start, start + rows)
            yield self._queries(self.place[part]), ts[part], code[part]

    def _queries(self, place: Ints) -> Any:
        split, place = len(self.tables[0].ids), np.ascontiguousarray(place)
        off = np.empty(len(place) + 1, np.int32)
        (rows, width), (more_rows, more_width) = (table.rows() for table in self.tables)
        if width and more_width:
            text = np.empty(max(width, more_width) * len(place) + SLACK, np.uint8)
            _gather_rows(place, split, rows, width, more_rows, more_width, off, text)
            return pa.StringArray.from_buffers(len(place), pa.py_buffer(off), pa.py_buffer(text))
        first, second = (table.plain() for table in self.tables)
        text = np.empty(_measure(place, split, first[0], second[0], off) + SLACK, np.uint8)
        _gather(place, split, *first, *second, off, np.empty((3, _TOGETHER), np.int64), text)
        return pa.StringArray.from_buffers(len(place), pa.py_buffer(off), pa.py_buffer(text))


def _buffers(texts: Any) -> tuple[Offsets, Bytes]:
    """Return offsets and bytes, with slack, of an Arrow column of strings, as arrays that kernels are compiled for."""
    if not len(texts):
        return np.zeros(1, np.int32), padded(np.empty(0, np.uint8))
    _, offsets, data = texts.buffers()
    off = np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + len(texts) + 1]
    text = np.frombuffer(data, np.uint8)[off[0] : off[-1]] if data is not None else np.empty(0, np.uint8)
    return off - off[0], padded(text)


def _longest(texts: Texts) -> int:
    return int(np.diff(texts[0]).max(initial=0))


@lean_kernel
def _look_up(
    place: Ints, done: Any, some: Any, split: int, first_off: Offsets, first: Bytes, second_off: Offsets, second: Bytes,
    names: Ints,
) -> None:  # fmt: skip
    """Write start, length and first byte of the next names.

    All starts are read, then all first bytes: so the processor asks memory for many at a time, which it does not do while
    it copies.
    """
    for k in range(some):
        p = place[done + k]
        if p < split:
            names[0, k], names[1, k] = first_off[p], np.int64(first_off[p + 1]) - first_off[p]
        else:
            p -= split
            names[0, k], names[1, k] = second_off[p], np.int64(second_off[p + 1]) - second_off[p]
    for k in range(some):
        if names[1, k] > 0:
            names[2, k] = first[names[0, k]] if place[done + k] < split else second[names[0, k]]


@lean_kernel
def _write_lines(
    row: Any, done: Any, off: Ints, place: Ints, split: int, first_off: Offsets, first: Bytes, second_off: Offsets,
    second: Bytes, tail_off: Offsets, tail: Bytes, query: Bytes, line: int, names: Ints, out: Bytes,
) -> tuple[Any, Any, Any]:  # fmt: skip
    """Write lines from a match on, while `_TOGETHER` of the longest fit; return row and match behind them, and the bytes."""
    at = np.int64(0)
    while done < place.shape[0] and at + _TOGETHER * line + SLACK <= out.shape[0]:
        some = min(_TOGETHER, place.shape[0] - done)
        _look_up(place, done, some, split, first_off, first, second_off, second, names)
        for k in range(some):
            while off[row + 1] <= done + k:
                row += 1
            at = copied(query, 0, query.shape[0] - SLACK, out, at)
            if place[done + k] < split:
                at = copied(first, names[0, k], names[1, k], out, at)
            else:
                at = copied(second, names[0, k], names[1, k], out, at)
            at = copied(tail, np.int64(tail_off[row]), np.int64(tail_off[row + 1]) - tail_off[row], out, at)
        done += some
    return row, done, at


@lean_kernel
def _measure(place: Ints, split: int, first_off: Offsets, second_off: Offsets, off: Offsets) -> Any:
    """Write where each text is to begin, and return the bytes of all."""
    at = np.int64(0)
    for i in range(place.shape[0]):
        off[i] = at
        p = place[i]
        at += first_off[p + 1] - first_off[p] if p < split else second_off[p - split + 1] - second_off[p - split]
    off[place.shape[0]] = at
    return at


@lean_kernel
def _gather(
    place: Ints, split: int, first_off: Offsets, first: Bytes, second_off: Offsets, second: Bytes, off: Offsets,
    names: Ints, out: Bytes,
) -> None:  # fmt: skip
    for done in range(0, place.shape[0], _TOGETHER):
        some = min(_TOGETHER, place.shape[0] - done)
        _look_up(place, done, some, split, first_off, first, second_off, second, names)
        for k in range(some):
            if place[done + k] < split:
                copied(first, names[0, k], names[1, k], out, off[done + k])
            else:
                copied(second, names[0, k], names[1, k], out, off[done + k])


@lean_kernel
def _spread(off: Offsets, ts: Ints, codes: Codes, all_ts: Ints, all_codes: Codes) -> None:
    """Write time and code of each object once for each of its matches."""
    for row in range(off.shape[0] - 1):
        for i in range(off[row], off[row + 1]):
            all_ts[i] = ts[row]
            all_codes[i] = codes[row]


@lean_kernel
def _lay_out(off: Offsets, text: Bytes, width: int, rows: Bytes) -> None:
    """Write texts that are shorter than a row each into one, with the length behind."""
    for i in range(off.shape[0] - 1):
        copied(text, np.int64(off[i]), np.int64(off[i + 1]) - off[i], rows, i * width)
        rows[(i + 1) * width - 1] = off[i + 1] - off[i]


@lean_kernel
def _gather_rows(
    place: Ints, split: int, first: Bytes, width: int, second: Bytes, more_width: int, off: Offsets, out: Bytes
) -> None:
    """Write the texts of some rows one behind the other, and where each begins."""
    at = np.int64(0)
    for i in range(place.shape[0]):
        if i + _AHEAD < place.shape[0]:
            coming = place[i + _AHEAD]
            if coming < split:
                prefetch(first, coming * width)
            else:
                prefetch(second, (coming - split) * more_width)
        off[i] = at
        p = place[i]
        if p < split:
            at = copied(first, p * width, np.int64(first[(p + 1) * width - 1]), out, at)
        else:
            row = (p - split) * more_width
            at = copied(second, row, np.int64(second[row + more_width - 1]), out, at)
    off[place.shape[0]] = at
