"""Files as blocks of records: endings, physical lines, and a bound on what is held in memory.

Text files (JSONL, CSV) are read a few MiB at a time and cut into records by a kernel. A record that is longer than the
limit is measured but not kept: it comes as a record without bytes, for the caller to reject.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from streams.columns import Ints
from streams.errors import InputError, did_you_mean
from streams.files.file_bytes import BYTE_ORDER_MARK, PLAIN_BYTES, ByteForm, check_readable, read_bytes
from streams.files.read_limits import DEFAULT_LIMITS, ReadLimits
from streams.files.record_kernels import AT, AT_FIELD, BEGIN, BLANK, FIRST_LINE, IN_QUOTES, STATE, cut_records
from streams.files.remedies import REMEDIES, compression_of

__all__ = [
    "DEFAULT_LIMITS",
    "FileKind",
    "Format",
    "ReadLimits",
    "RecordBlock",
    "as_paths",
    "check_readable",
    "cut_records_of",
    "file_kind",
    "is_utf8",
    "read_records",
]

Format = Literal["jsonl", "csv", "parquet"]
_FORMATS: dict[str, Format] = {".jsonl": "jsonl", ".ndjson": "jsonl", ".csv": "csv", ".parquet": "parquet"}


@dataclass(frozen=True, slots=True)
class FileKind:
    """What a file's ending says: its format, and how it is compressed (None: not at all)."""

    format: Format
    compression: str | None


@dataclass(frozen=True, slots=True, eq=False)
class RecordBlock:
    """Some records of a text file, one after the other.

    Attributes:
        data: the bytes from the first record to the last, as an array.
        start: where each record starts in `data`.
        stop: where it ends, without its line end; an over-long record has no bytes.
        line: the physical line on which each record starts, from 1 on.
        size: the length of each record in bytes, also of an over-long one.
        too_long: which records are longer than the limit.
        unclosed: whether the last record ends with the file inside of quotes.
    """

    data: NDArray[np.uint8]
    start: Ints
    stop: Ints
    line: Ints
    size: Ints
    too_long: NDArray[np.bool_]
    unclosed: bool

    def __len__(self) -> int:
        return len(self.start)

    def tail(self, first: int) -> "RecordBlock":
        """Return the block without its first records; at least one must remain."""
        base = int(self.start[first])
        return RecordBlock(
            self.data[base:], self.start[first:] - base, self.stop[first:] - base, self.line[first:],
            self.size[first:], self.too_long[first:], self.unclosed,
        )  # fmt: skip

    def take(self, rows: Ints) -> "RecordBlock":
        """Return some of the records, one after the other."""
        sizes = self.stop[rows] - self.start[rows]
        start = np.cumsum(sizes + 1) - sizes - 1
        data = np.frombuffer(b"\n".join(map(self.record, rows.tolist())), np.uint8)
        return RecordBlock(
            data, start, start + sizes, self.line[rows], self.size[rows], self.too_long[rows], self.unclosed
        )

    def record(self, row: int) -> bytes:
        """Return the bytes of one record."""
        return self.data[self.start[row] : self.stop[row]].tobytes()

    def not_utf8(self) -> NDArray[np.bool_]:
        """Tell which records are not UTF-8."""
        wrong = np.zeros(len(self), np.bool_)
        if len(self.data) == 0 or self.data.max() < 128 or is_utf8(self.data.tobytes()):
            return wrong
        for row in range(len(self)):
            wrong[row] = not is_utf8(self.record(row))
        return wrong


_NONE = np.empty(0, np.int64)
_NOTHING = RecordBlock(np.empty(0, np.uint8), _NONE, _NONE, _NONE, _NONE, np.empty(0, np.bool_), False)


def is_utf8(data: bytes) -> bool:
    """Tell whether bytes are UTF-8."""
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def as_paths(paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> list[str]:
    """Return one path or many as a list of strings."""
    many = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    return [os.fspath(path) for path in many]


def file_kind(path: str, formats: Sequence[Format] = ("jsonl", "csv", "parquet")) -> FileKind:
    """Tell format and compression by a file's ending; raise `InputError` where it names none of these formats."""
    endings = [ending.lower() for ending in Path(path).suffixes]
    compression = compression_of(path)
    ending = (endings[:-1] if compression else endings)[-1:]
    found = _FORMATS.get(ending[0]) if ending else None
    known = [known for known, name in _FORMATS.items() if name in formats]
    if found is None or found not in formats:
        if ending and found is None and (remedy := REMEDIES.get(ending[0])) is not None:
            raise InputError(f"{path} ends in '{ending[0]}': {remedy(path)}")
        shown = f"ends in '{ending[0]}'{did_you_mean(ending[0], known)}" if ending else "has no ending"
        raise InputError(f"{path} {shown}; expected {', '.join(known)}, for text also with .gz or .zst behind it")
    if found == "parquet" and compression:
        raise InputError(f"{path}: Parquet is compressed inside and is not read through {endings[-1]}; decompress it")
    return FileKind(found, compression)


def read_records(
    path: str,
    compression: str | None,
    *,
    quoted: bool,
    rows: int,
    limits: ReadLimits = DEFAULT_LIMITS,
    form: ByteForm = PLAIN_BYTES,
) -> Iterator[RecordBlock]:
    """Yield the records of a text file in blocks of at most `rows`; with `quoted`, as CSV has them.

    Of a file that is followed, a block without records says that nothing more has come yet.
    """
    cutter = _Cutter(quoted, rows, limits.line_bytes)
    for data in read_bytes(path, compression, form):
        if data:
            yield from cutter.feed(data)
        else:
            yield _NOTHING
    yield from cutter.finish()


def cut_records_of(data: bytes, *, limits: ReadLimits = DEFAULT_LIMITS) -> Iterator[RecordBlock]:
    """Yield the records of lines that are in memory, in as few blocks as there can be."""
    cutter = _Cutter(False, data.count(b"\n") + 1, limits.line_bytes)
    whole = data if data.endswith(b"\n") else data + b"\n"  # else the last line would be a block of its own
    yield from cutter.feed(whole.removeprefix(BYTE_ORDER_MARK))
    yield from cutter.finish()


class _Cutter:
    """Cuts bytes that come in pieces into records, and holds at most one unfinished record."""

    def __init__(self, quoted: bool, rows: int, limit: int) -> None:
        self._quoted = quoted
        self._rows = rows
        self._limit = limit
        self._rest = b""
        self._dropped = 0  # bytes of an over-long record that are gone already
        self._dropped_line = 0
        self._cursor = np.array([0, 0, AT_FIELD, 1, 1, 1], np.int64)

    def feed(self, data: bytes) -> Iterator[RecordBlock]:
        """Yield the records that end in this piece."""
        whole = self._rest + data if self._rest else data
        array = np.frombuffer(whole, np.uint8)
        while True:
            block = self._cut(array)
            if len(block) == 0:
                break
            yield block
            if self._cursor[AT] == len(array):
                break
        cursor = self._cursor
        begin = int(cursor[BEGIN])
        self._rest = whole[begin:]
        if len(self._rest) > self._limit + 1:  # one more for a carriage return, which may belong to the line's end
            self._dropped += len(self._rest) - 1
            self._dropped_line = int(cursor[FIRST_LINE])
            self._rest = self._rest[-1:]
        cursor[BEGIN], cursor[AT] = 0, len(self._rest)

    def _cut(self, data: NDArray[np.uint8]) -> RecordBlock:
        starts, stops, lines = (np.empty(self._rows, np.int64) for _ in range(3))
        count = cut_records(data, self._quoted, self._cursor, starts, stops, lines)
        start, stop, line = starts[:count], stops[:count], lines[:count]
        size = stop - start
        if self._dropped and self._cursor[FIRST_LINE] != self._dropped_line:
            if count and line[0] == self._dropped_line:  # else it was white space
                size[0] += self._dropped
            self._dropped = 0
        too_long = size > self._limit
        base, end = (int(start[0]), int(stop[-1])) if count else (0, 0)
        start = start - base
        return RecordBlock(data[base:end], start, np.where(too_long, start, stop - base), line, size, too_long, False)

    def finish(self) -> Iterator[RecordBlock]:
        """Yield the last record where the file does not end with a line feed."""
        cursor = self._cursor
        if cursor[BLANK]:
            return
        rest = self._rest.removesuffix(b"\r") if cursor[STATE] != IN_QUOTES else self._rest
        size = self._dropped + len(rest)
        too_long = size > self._limit
        yield RecordBlock(
            np.frombuffer(rest, np.uint8),
            np.zeros(1, np.int64),
            np.array([0 if too_long else len(rest)], np.int64),
            cursor[FIRST_LINE : FIRST_LINE + 1].copy(),
            np.array([size], np.int64),
            np.array([too_long]),
            bool(cursor[STATE] == IN_QUOTES),
        )
