"""Row groups of matches, and of what fences report: columns that are texts and times, or nothing at all.

Arrow looks at every row of every column, also of those that are null throughout, and once more for each level of a list. Here
such a column is a few bytes, what repeats from row to row is a run, and only the names of queries are looked at one by one.
These hardly repeat, and are most of a file and most of the work: they are written as they are, and compressed by what is fast.
Times are written as differences, everything else by its number in a dictionary, and compressed by what is small.
"""

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from streams.byte_copies import SLACK
from streams.columns import Ints, Offsets
from streams.files.parquet_groups import (
    CODECS,
    DELTA_BINARY_PACKED,
    KINDS,
    PLAIN,
    RLE,
    RLE_DICTIONARY,
    Bounds,
    Column,
    Group,
    leaves_of,
)
from streams.files.parquet_kernels import (
    BLOCK,
    BLOCK_BYTES,
    EIGHT_BYTES,
    HEADER_BYTES,
    number_anew,
    pack_integers,
    pack_numbers,
    plain_texts,
)
from streams.files.parquet_thrift import integer, struct, varint

__all__ = ["match_group"]

Bytes = NDArray[np.uint8]

#: Rows of a page.
PAGE_ROWS = 1 << 17
#: The column, beside that of times, whose bounds are said; longer ones than so many bytes are not.
_BOUNDED, _LONGEST_BOUND = "object", 4_096
_DATA_PAGE, _DICTIONARY_PAGE = 0, 2
_COMPRESSIONS = {"SNAPPY": pa.Codec("snappy"), "ZSTD": pa.Codec("zstd", 1)}


@dataclass(frozen=True, slots=True)
class _Page:
    """A page before it is compressed: its values, and how they are encoded."""

    values: int
    encoding: int
    body: bytes | Bytes
    dictionary: bool = False


def match_group(table: pa.Table) -> Group | None:
    """Return the rows of a table as a row group; None where a column has lists, or nulls beside other values."""
    made = _Columns()
    for field, column in zip(table.schema, table.columns, strict=True):
        if column.null_count == len(column):
            for path, kind, repeated in leaves_of(field):
                levels = _level(0, len(column)) * (1 + repeated)
                made.add(path, kind, [_Page(len(column), PLAIN, levels)], "UNCOMPRESSED")
        elif column.null_count or column.num_chunks != 1 or pa.types.is_list(field.type):
            return None
        elif pa.types.is_dictionary(field.type):
            _add_repeated(made, field.name, column.chunk(0))
        elif pa.types.is_string(field.type):
            made.add(field.name, field.type, _text_pages(column.chunk(0)), "SNAPPY")
        else:
            values = column.chunk(0).to_numpy()
            least, most = (int(one).to_bytes(8, "little", signed=True) for one in (values.min(), values.max()))
            made.add(field.name, field.type, _integer_pages(values), "ZSTD", (least, most))
    return Group(table.num_rows, tuple(made.columns), tuple(made.pieces))


class _Columns:
    """Columns of a row group, one behind the other."""

    def __init__(self) -> None:
        self.columns: list[Column] = []
        self.pieces: list[Any] = []
        self._size = 0

    def add(self, path: str, kind: Any, pages: Iterable[_Page], codec: str, bounds: Bounds | None = None) -> None:
        """Add the pages of a column; that of its dictionary, if there is one, is the first."""
        places, raw, values, encodings = [], 0, 0, {RLE}
        for page in pages:
            body = _COMPRESSIONS[codec].compress(page.body) if codec in _COMPRESSIONS else page.body
            head = _header(page, len(body))
            places.append((self._size, page.dictionary))
            encodings.add(page.encoding)
            values += 0 if page.dictionary else page.values
            raw += len(head) + len(page.body)
            self._size += len(head) + len(body)
            self.pieces += [head, body]
        begin, dictionary = places[0]
        self.columns.append(
            Column(
                path=path, kind=KINDS[kind], encodings=tuple(sorted(encodings)), codec=CODECS[codec], values=values,
                raw=raw, size=self._size - begin, data=places[1][0] if dictionary else begin,
                dictionary=begin if dictionary else None, bounds=bounds, nulls=None if bounds is None else 0,
            )
        )  # fmt: skip


def _header(page: _Page, size: int) -> bytes:
    kind, said = _DATA_PAGE, {1: integer(page.values), 2: integer(page.encoding), 3: integer(RLE), 4: integer(RLE)}
    if page.dictionary:
        kind, said = _DICTIONARY_PAGE, {1: integer(page.values), 2: integer(page.encoding)}
    field = 7 if page.dictionary else 5
    return struct({1: integer(kind), 2: integer(len(page.body)), 3: integer(size), field: struct(said)})[1]


def _level(level: int, rows: int) -> bytes:
    """Return the levels, of definition or of repetition, of rows that have the same."""
    run = varint(rows << 1) + bytes([level])
    return len(run).to_bytes(4, "little") + run


def _pages(rows: int) -> Iterator[tuple[int, int, bytes]]:
    """Yield first and last row (exclusive) of each page, and the levels of its rows."""
    for first in range(0, rows, PAGE_ROWS):
        stop = min(first + PAGE_ROWS, rows)
        yield first, stop, _level(1, stop - first)


def _body(levels: bytes, room: int, write: Callable[[Bytes], int]) -> Bytes:
    """Return levels with what `write` writes behind them into so much room."""
    out = np.empty(len(levels) + room, np.uint8)
    out[: len(levels)] = np.frombuffer(levels, np.uint8)
    return out[: len(levels) + write(out[len(levels) :])]


def _text_pages(texts: pa.StringArray) -> Iterator[_Page]:
    off, text = _text_buffers(texts)
    for first, stop, levels in _pages(len(texts)):
        yield _Page(stop - first, PLAIN, _plain(levels, off[first : stop + 1], text))


def _plain(levels: bytes, off: Offsets, text: Bytes) -> Bytes:
    room = int(off[-1]) - int(off[0]) + 4 * (len(off) - 1) + SLACK
    return _body(levels, room, functools.partial(plain_texts, off, text))


def _text_buffers(texts: pa.StringArray) -> tuple[Offsets, Bytes]:
    """Return where each text begins, and the last one ends, and the texts."""
    _, offsets, data = texts.buffers()
    off = np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + len(texts) + 1]
    return off, np.frombuffer(b"" if data is None else data, np.uint8)


def _integer_pages(values: Ints) -> Iterator[_Page]:
    block = np.empty(BLOCK, np.int64)
    for first, stop, levels in _pages(len(values)):
        room, some = HEADER_BYTES + -(-(stop - first) // BLOCK) * BLOCK_BYTES, values[first:stop]
        body = _body(levels, room, functools.partial(pack_integers, some, block))
        yield _Page(stop - first, DELTA_BINARY_PACKED, body)


def _add_repeated(made: _Columns, name: str, column: pa.DictionaryArray) -> None:
    """Add a column of numbers of a dictionary, of which those values stay that are used, as they come."""
    codes, known = column.indices.to_numpy(), len(column.dictionary)
    numbers, found, values = np.full(known, -1, np.int32), np.empty(known, np.int32), np.empty(len(codes), np.int32)
    count = number_anew(codes, numbers, found, values)
    used = column.dictionary.take(pa.array(found[:count]))
    dictionary = _Page(count, PLAIN, _plain(b"", *_text_buffers(used)), dictionary=True)
    pages = itertools.chain([dictionary], _number_pages(values, count))
    made.add(name, used.type, pages, "ZSTD", _bounds(used) if name == _BOUNDED else None)


def _number_pages(numbers: NDArray[np.int32], count: int) -> Iterator[_Page]:
    width = max((count - 1).bit_length(), 1)
    for first, stop, levels in _pages(len(numbers)):
        room, some = (-(-(stop - first) // 8) + 1) * (width + EIGHT_BYTES), numbers[first:stop]
        body = _body(levels, room, functools.partial(pack_numbers, some, width))
        yield _Page(stop - first, RLE_DICTIONARY, body)


def _bounds(texts: pa.StringArray) -> Bounds | None:
    found = pc.min_max(texts).as_py()
    least, most = found["min"].encode(), found["max"].encode()
    return (least, most) if max(len(least), len(most)) <= _LONGEST_BOUND else None
