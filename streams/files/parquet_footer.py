"""What a Parquet file says of its columns in its last bytes: how many values each has in a row group, and in how many bytes.

pyarrow tells the same, but ends the process where a damaged footer contradicts itself. So these few numbers are read
here, from Thrift's compact protocol, before Arrow opens the file:

    struct   fields, each a byte (step of the field's number << 4 | type) and a value; a byte 0 ends it
    integer  zigzag, seven bits a byte, the lowest first
    text     its length (not zigzag), then its bytes
    list     a byte (length << 4 | type), or 15 as length and then the length (not zigzag); then the values
"""

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from streams.errors import InputError

__all__ = ["MAX_FOOTER_BYTES", "StoredColumn", "stored_columns"]

#: The largest footer that is looked at.
MAX_FOOTER_BYTES = 64 << 20

_TAIL = struct.Struct("<I4s")
_MAGIC = b"PAR1"
_MOST_DEPTH = 64

#: Types of the protocol.
_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _TEXT, _LIST, _SET, _MAP, _STRUCT = range(1, 13)

#: Numbers of the fields that are wanted: of the file, of a row group, of a column's place, and of the column.
_ROW_GROUPS, _COLUMNS, _COLUMN, _TYPE, _PATH, _VALUES, _BYTES = 4, 1, 3, 1, 3, 5, 6
_BYTE_ARRAY = 6


@dataclass(slots=True)
class StoredColumn:
    """A column of a row group as it is stored: its path, whether it holds texts, its values, and their bytes."""

    group: int
    path: str = ""
    texts: bool = False
    values: int = 0
    size: int = 0


def stored_columns(path: str) -> list[StoredColumn]:
    """Return the columns of all row groups of a file; raise `InputError` for one that is no whole Parquet file."""
    with open(path, "rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(size - _TAIL.size, 0))
        tail = file.read(_TAIL.size)
        length, magic = _TAIL.unpack(tail) if len(tail) == _TAIL.size else (0, b"")
        if magic != _MAGIC or length > size - _TAIL.size:
            raise InputError(f"{path} cannot be read as Parquet: it has no footer; it is damaged or something else")
        if length > MAX_FOOTER_BYTES:
            raise InputError(
                f"{path} has a footer of {length:,} bytes, more than {MAX_FOOTER_BYTES:,}; write fewer groups"
            )
        file.seek(size - _TAIL.size - length)
        data = file.read(length)
    try:
        return list(_Footer(data).columns())
    except (IndexError, ValueError) as error:
        raise InputError(
            f"{path} cannot be read as Parquet: its footer makes no sense; it is damaged or something else"
        ) from error


class _Footer:
    """A cursor in the bytes of a footer."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def columns(self) -> Iterator[StoredColumn]:
        """Yield what is said of each column, row group after row group."""
        for number, kind in self._fields():
            if (number, kind) != (_ROW_GROUPS, _LIST):
                self._skip(kind)
                continue
            for group in range(self._items(_STRUCT)):
                for inner, inner_kind in self._fields():
                    if (inner, inner_kind) != (_COLUMNS, _LIST):
                        self._skip(inner_kind)
                        continue
                    for _ in range(self._items(_STRUCT)):
                        yield self._column(group)

    def _column(self, group: int) -> StoredColumn:
        found = StoredColumn(group)
        for number, kind in self._fields():
            if (number, kind) != (_COLUMN, _STRUCT):
                self._skip(kind)
                continue
            for inner, inner_kind in self._fields():
                if (inner, inner_kind) == (_TYPE, _I32):
                    found.texts = self._integer() == _BYTE_ARRAY
                elif (inner, inner_kind) == (_PATH, _LIST):
                    found.path = ".".join(self._text().decode() for _ in range(self._items(_TEXT)))
                elif (inner, inner_kind) == (_VALUES, _I64):
                    found.values = self._integer()
                elif (inner, inner_kind) == (_BYTES, _I64):
                    found.size = self._integer()
                else:
                    self._skip(inner_kind)
        return found

    def _fields(self) -> Iterator[tuple[int, int]]:
        """Yield number and type of each field of a struct; the caller takes or skips the value in between."""
        number = 0
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else self._integer()
            yield number, head & 15

    def _byte(self) -> int:
        byte = self._data[self._at]
        self._at += 1
        return byte

    def _size(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7
            if shift > 63:
                raise ValueError("an integer without end")

    def _integer(self) -> int:
        value = self._size()
        return value >> 1 ^ -(value & 1)

    def _text(self) -> bytes:
        size = self._size()
        if size > len(self._data) - self._at:
            raise ValueError("a text beyond the end")
        self._at += size
        return self._data[self._at - size : self._at]

    def _list(self) -> tuple[int, int]:
        head = self._byte()
        size = head >> 4 if head >> 4 < 15 else self._size()
        if size > len(self._data) - self._at:
            raise ValueError("a list beyond the end")
        return size, head & 15

    def _items(self, expected: int) -> int:
        size, kind = self._list()
        if size and kind != expected:
            raise ValueError("a list of something else")
        return size

    def _skip(self, kind: int, depth: int = 0) -> None:
        if depth > _MOST_DEPTH:
            raise ValueError("nested too deep")
        if kind in (_I16, _I32, _I64):
            self._size()
        elif kind == _TEXT:
            self._text()
        elif kind in (_BYTE, _DOUBLE):
            self._at += 1 if kind == _BYTE else 8
        elif kind in (_LIST, _SET):
            size, inner = self._list()
            for _ in range(size):
                self._skip(_BYTE if inner in (_TRUE, _FALSE) else inner, depth + 1)
        elif kind == _STRUCT:
            for _, inner in self._fields():
                self._skip(inner, depth + 1)
        elif kind not in (_TRUE, _FALSE):
            raise ValueError("a type that footers do not have")
