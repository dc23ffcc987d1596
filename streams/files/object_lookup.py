"""Chosen columns of some objects, looked up in their files once it is known which objects are wanted.

Results name objects by their identifiers. What else a file has of these is read again at the end, so that a run carries no text
around, however few of its objects match.
"""

import csv
import io
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from streams.errors import InputError, listed
from streams.files.file_blocks import file_kind
from streams.files.file_bytes import read_bytes
from streams.files.object_form import ObjectForm, reached

__all__ = ["Columns", "check_columns", "columns_of"]

Columns = Mapping[str, Any]

#: Fields that are numbers whatever a file writes.
_NUMBERS = ("x", "y", "lon", "lat")


def columns_of(
    paths: Sequence[Path], form: ObjectForm, wanted: Collection[str], names: Sequence[str], *, last: bool = False
) -> dict[str, Columns]:
    """Return the columns of these names for the objects with these identifiers, as texts.

    A name is a column of the file, or a field under whatever name the file has it.

    Args:
        paths: the files of the objects.
        form: how they spell them.
        wanted: the identifiers.
        names: of the columns.
        last: of records with one identifier, take the last that has any of the columns.

    Raises:
        InputError: a file has no such column; or two records have one of the identifiers, unless the last will do.
    """
    found: dict[str, Columns] = {}
    number = 0
    for path in paths:
        sources: Mapping[str, tuple[str, ...]] | None = None
        for record in _records(path, form):
            if sources is None:
                sources = _sources(str(path), list(record), form, names)
            key = str(number) if form.row_ids else str(_value(record, "id", sources["id"]))
            number += 1
            if key in wanted:
                if key in found and not last:
                    raise InputError(
                        f"{path}: the id {key} occurs twice, so its columns cannot be told apart; leave include out"
                    )
                columns = {name: _value(record, name, sources[name]) for name in names}
                if not last or any(value is not None for value in columns.values()):
                    found[key] = columns
    return found


def check_columns(paths: Sequence[Path], form: ObjectForm, names: Sequence[str]) -> None:
    """Raise `InputError` where the first record of a file has no such column."""
    for path in paths:
        if (first := next(iter(_records(path, form)), None)) is not None:
            _sources(str(path), list(first), form, names)


def _sources(path: str, there: list[str], form: ObjectForm, names: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return the columns for each name, and for the identifier."""
    known = form.sources(path, there)
    chosen = {"id": known.get("id", ("id",))}
    for name in names:
        if name not in there and name not in known:
            raise InputError(f"{path} has no column '{name}' to include; it has {listed(there)}")
        chosen[name] = (name,) if name in there else known[name]
    return chosen


def _value(record: Mapping[str, Any], name: str, sources: Sequence[str]) -> Any:
    values = [value for source in sources if (value := reached(record, source)) is not None]
    if len(values) > 1:
        return " ".join(map(str, values))
    value = values[0] if values else None
    if name in _NUMBERS and isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            return value
    return value


def _records(path: Path, form: ObjectForm) -> Iterator[Mapping[str, Any]]:
    """Yield the records of a file as dictionaries; lines that are none count, as readers count them, and are empty."""
    kind = file_kind(str(path))
    if kind.format == "parquet":
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches():
                yield from batch.to_pylist()
        return
    data = (piece for piece in read_bytes(str(path), kind.compression, form.text) if piece)
    text = io.TextIOWrapper(io.BufferedReader(_Pieces(data)), encoding="utf-8", errors="replace", newline="")
    if kind.format == "csv":
        rows = (row for row in csv.reader(text) if row)
        header = [name.strip() for name in next(rows, [])]
        for row in rows:
            yield dict(zip(header, row, strict=False))
        return
    for line in text:
        if line.strip():
            yield _parsed(line)


def _parsed(line: str) -> Mapping[str, Any]:
    try:
        record = json.loads(line)
    except ValueError:
        return {}
    return record if isinstance(record, dict) else {}


class _Pieces(io.RawIOBase):
    """Bytes that come in pieces, as a file."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces, self._rest = pieces, b""

    def readable(self) -> bool:
        """Say that there is something to read."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer as far as the next piece goes."""
        if not self._rest:
            self._rest = next(self._pieces, b"")
        size = min(len(buffer), len(self._rest))
        buffer[:size], self._rest = self._rest[:size], self._rest[size:]
        return size
