"""Parquet files put together from row groups that are encoded already.

A row group is a stretch of bytes, and a few numbers that say where its columns begin in it. So groups can be made by whoever
makes them fastest, and a group that was written into a file of its own goes into another one as it is.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from streams.files.parquet_thrift import Value, integer, listed, long, short, struct, text

__all__ = [
    "CODECS",
    "DELTA_BINARY_PACKED",
    "KINDS",
    "PLAIN",
    "RLE",
    "RLE_DICTIONARY",
    "Bounds",
    "Column",
    "Group",
    "GroupFile",
    "groups_of",
    "leaves_of",
]  # fmt: skip

_MAGIC = b"PAR1"
_VERSION = 2

#: Numbers of the format: physical types, encodings, compressions, kinds of repetition, older names of logical types.
KINDS = {pa.int64(): 2, pa.float64(): 5, pa.string(): 6}
PLAIN, RLE, DELTA_BINARY_PACKED, RLE_DICTIONARY = 0, 3, 5, 8
_PHYSICAL = {"INT64": 2, "DOUBLE": 5, "BYTE_ARRAY": 6}
_ENCODINGS = {
    "PLAIN": PLAIN, "PLAIN_DICTIONARY": 2, "RLE": RLE, "BIT_PACKED": 4, "DELTA_BINARY_PACKED": DELTA_BINARY_PACKED,
    "RLE_DICTIONARY": RLE_DICTIONARY,
}  # fmt: skip
CODECS = {"UNCOMPRESSED": 0, "SNAPPY": 1, "ZSTD": 6}
_REQUIRED, _OPTIONAL, _REPEATED = 0, 1, 2
_UTF8, _LIST = 0, 3

_EMPTY = struct({})
_TEXTS, _LISTS = struct({1: _EMPTY}), struct({3: _EMPTY})


#: The least and the greatest value of a column, as the format has them.
Bounds = tuple[bytes, bytes]


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a row group: where its pages are, and what is said of them.

    Attributes:
        path: its place in the schema.
        kind: of its values, by `KINDS`.
        encodings: all that its pages have.
        codec: how they are compressed, by `CODECS`.
        values: how many, nulls and empty lists included.
        raw: bytes of its pages with their headers, decompressed.
        size: bytes of its pages as they are.
        data: where its first page of data begins in the group.
        dictionary: where that of its dictionary does, where there is one.
        bounds: its least and its greatest value; None: not said.
        nulls: how many of its values are null; None: not said.
    """

    path: str
    kind: int
    encodings: tuple[int, ...]
    codec: int
    values: int
    raw: int
    size: int
    data: int
    dictionary: int | None = None
    bounds: Bounds | None = None
    nulls: int | None = None


@dataclass(frozen=True, slots=True)
class Group:
    """A row group: its rows, its columns, and its bytes, in pieces."""

    rows: int
    columns: tuple[Column, ...]
    pieces: tuple[Any, ...]


def groups_of(source: Any) -> Iterator[Group]:
    """Yield the row groups of a Parquet file, which is open for reading as Arrow knows it."""
    meta = pq.read_metadata(source)
    for number in range(meta.num_row_groups):
        group = meta.row_group(number)
        chunks = [group.column(place) for place in range(group.num_columns)]
        first = min(_begin(chunk) for chunk in chunks)
        size = max(_begin(chunk) + chunk.total_compressed_size for chunk in chunks) - first
        source.seek(first)
        yield Group(group.num_rows, tuple(_column(chunk, first) for chunk in chunks), (source.read(size),))


def _begin(chunk: Any) -> int:
    return int(chunk.dictionary_page_offset if chunk.has_dictionary_page else chunk.data_page_offset)


def _column(chunk: Any, first: int) -> Column:
    said = chunk.statistics if chunk.is_stats_set else None
    bounds = (_bytes(said.min_raw), _bytes(said.max_raw)) if said is not None and said.has_min_max else None
    return Column(
        path=chunk.path_in_schema,
        kind=_PHYSICAL[chunk.physical_type],
        encodings=tuple(_ENCODINGS[name] for name in chunk.encodings),
        codec=CODECS[chunk.compression],
        values=chunk.num_values,
        raw=chunk.total_uncompressed_size,
        size=chunk.total_compressed_size,
        data=chunk.data_page_offset - first,
        dictionary=chunk.dictionary_page_offset - first if chunk.has_dictionary_page else None,
        bounds=bounds,
        nulls=said.null_count if said is not None and said.has_null_count else None,
    )


def _bytes(value: Any) -> bytes:
    return value.to_bytes(8, "little", signed=True) if isinstance(value, int) else bytes(value)


class GroupFile:
    """A Parquet file that row groups are appended to; it can be read once it is closed."""

    def __init__(self, path: str | os.PathLike[str], schema: pa.Schema) -> None:
        self._file: BinaryIO = open(Path(path), "wb")  # noqa: SIM115  # closed below
        self._schema = schema
        self._groups: list[Value] = []
        self._rows = 0
        self._size = self._file.write(_MAGIC)

    def append(self, group: Group) -> None:
        """Write a row group."""
        place = self._size
        for piece in group.pieces:
            self._size += self._file.write(piece)
        self._groups.append(_row_group(group, place, len(self._groups)))
        self._rows += group.rows

    def close(self, *, durable: bool = False) -> None:
        """Write the footer; with `durable`, wait until all is on the disk."""
        leaves = sum(1 for field in self._schema for _ in leaves_of(field))
        footer = struct(
            {
                1: integer(_VERSION),
                2: listed(list(_elements(self._schema))),
                3: long(self._rows),
                4: listed(self._groups),
                6: text("waterspout"),
                7: listed([struct({1: _EMPTY})] * leaves),
            }
        )[1]
        self._file.write(footer + len(footer).to_bytes(4, "little") + _MAGIC)
        if durable:
            self._file.flush()
            os.fsync(self._file.fileno())
        self._file.close()


def _row_group(group: Group, place: int, number: int) -> Value:
    return struct(
        {
            1: listed([_chunk(column, place) for column in group.columns]),
            2: long(sum(column.raw for column in group.columns)),
            3: long(group.rows),
            5: long(place),
            6: long(sum(column.size for column in group.columns)),
            7: short(number) if number < 1 << 15 else None,
        }
    )


def _chunk(column: Column, place: int) -> Value:
    bounds, dictionary = column.bounds, column.dictionary
    said = {
        3: None if column.nulls is None else long(column.nulls),
        5: None if bounds is None else text(bounds[1]),
        6: None if bounds is None else text(bounds[0]),
    }
    meta = struct(
        {
            1: integer(column.kind),
            2: listed([integer(encoding) for encoding in column.encodings]),
            3: listed([text(name) for name in column.path.split(".")]),
            4: integer(column.codec),
            5: long(column.values),
            6: long(column.raw),
            7: long(column.size),
            9: long(place + column.data),
            11: None if dictionary is None else long(place + dictionary),
            12: struct(said) if any(said.values()) else None,
        }
    )
    return struct({2: long(0), 3: meta})


def _elements(schema: pa.Schema) -> Iterator[Value]:
    """Yield the elements of a schema of texts, integers, doubles, and lists of structs of these, each of which may be null."""
    yield struct({3: integer(_REQUIRED), 4: text("schema"), 5: integer(len(schema))})
    for field in schema:
        yield from _element(field.name, field.type)


def _element(name: str, kind: Any) -> Iterator[Value]:
    head = {3: integer(_OPTIONAL), 4: text(name)}
    if pa.types.is_list(kind):
        yield struct({**head, 5: integer(1), 6: integer(_LIST), 10: _LISTS})
        yield struct({3: integer(_REPEATED), 4: text("list"), 5: integer(1)})
        yield from _element("element", kind.value_type)
    elif pa.types.is_struct(kind):
        yield struct({**head, 5: integer(kind.num_fields)})
        for field in kind:
            yield from _element(field.name, field.type)
    else:
        texts = {6: integer(_UTF8), 10: _TEXTS} if pa.types.is_string(kind) else {}
        yield struct({1: integer(KINDS[kind]), **head, **texts})


def leaves_of(field: Any) -> Iterator[tuple[str, Any, bool]]:
    """Yield the columns that a field of a table is in a file: path, type, and whether it is in a list."""
    if pa.types.is_list(field.type):
        inner = field.type.value_type
        for path, kind, _ in leaves_of(pa.field("list.element", inner)):
            yield f"{field.name}.{path}", kind, True
    elif pa.types.is_struct(field.type):
        for part in field.type:
            for path, kind, repeated in leaves_of(part):
                yield f"{field.name}.{path}", kind, repeated
    else:
        yield field.name, field.type.value_type if pa.types.is_dictionary(field.type) else field.type, False
