"""Results and rejects to files: JSON lines, plain or compressed, and Parquet.

A plain file of JSON lines can be taken up again: a checkpoint keeps its `position`, and a writer that starts there cuts
off whatever was written later.
"""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from streams.batches import AnswerBatch, MatchBatch, RejectBatch
from streams.errors import DeclarationError, InputError, RunError
from streams.file_blocks import check_readable, file_kind, read_records
from streams.result_lines import RESULT_SCHEMA, reject_lines, result_lines, result_table

__all__ = [
    "JsonlWriter",
    "ParquetWriter",
    "RejectsWriter",
    "ResultWriter",
    "open_results",
    "read_results",
    "result_lines",
]

_BUFFER_BYTES = 1 << 20

#: A row group of a Parquet file is written when so many rows or bytes wait for it.
_GROUP_ROWS, _GROUP_BYTES = 1 << 17, 64 << 20

ResultBatch = MatchBatch | AnswerBatch


class ResultWriter(Protocol):
    """Where results go."""

    def write(self, batch: ResultBatch) -> None:
        """Write a batch of results."""

    def close(self) -> None:
        """Finish the file."""


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Turn what the system says into an error of ours."""
    try:
        yield
    except OSError as error:
        raise RunError(f"cannot write {path}: {error.strerror or error}; make room or name another file") from error


class _LineFile:
    """Bytes that are appended to a file, compressed by its ending (``.gz``, ``.zst``)."""

    def __init__(self, path: str | os.PathLike[str], position: int | None) -> None:
        self.path = Path(path)
        self.compression = {".gz": "gzip", ".zst": "zstd"}.get(self.path.suffix.lower())
        if position is not None and self.compression:
            raise DeclarationError(
                f"{path} is compressed and cannot be taken up again at a checkpoint; write plain .jsonl and compress it later"
            )
        try:
            self._file: Any = self._open(position)
        except OSError as error:
            raise InputError(
                f"cannot write {path}: {error.strerror or error}; check the folder and its owner"
            ) from error
        self._position = position or 0

    def _open(self, position: int | None) -> BinaryIO | Any:
        if self.compression:
            return pa.output_stream(str(self.path), compression=self.compression)
        if position is None:
            return open(self.path, "wb", buffering=_BUFFER_BYTES)  # closed by close()
        file = open(self.path, "r+b", buffering=_BUFFER_BYTES)  # noqa: SIM115
        size = file.seek(0, os.SEEK_END)
        if size < position:
            file.close()
            raise InputError(
                f"{self.path} has {size} bytes, but the checkpoint was taken at {position}; "
                "it was changed since, so start afresh or bring the file back"
            )
        file.truncate(position)
        file.seek(position)
        return file

    def append(self, data: bytes) -> None:
        """Write bytes."""
        with _writing(self.path):
            self._file.write(data)
        self._position += len(data)

    def position(self, durable: bool) -> int:
        """Return the number of bytes so far, after handing them to the system, and to the disk if they must be durable."""
        with _writing(self.path):
            self._file.flush()
            if durable and not self.compression:
                os.fsync(self._file.fileno())
        return self._position

    def close(self) -> None:
        """Finish the file."""
        with _writing(self.path):
            self._file.close()


class JsonlWriter:
    """Writes results as JSON lines.

    Args:
        path: the file; ``.gz`` or ``.zst`` at its end compresses it.
        position: take the file up again at this length (plain files only); None starts afresh.
    """

    def __init__(self, path: str | os.PathLike[str], position: int | None = None) -> None:
        self._file = _LineFile(path, position)

    def write(self, batch: ResultBatch) -> None:
        """Write a batch of results."""
        self._file.append(result_lines(batch))

    def position(self, *, durable: bool = False) -> int:
        """Return the length of what was written, before compression; it is with the system, or on the disk if `durable`."""
        return self._file.position(durable)

    def close(self) -> None:
        """Finish the file."""
        self._file.close()


class RejectsWriter:
    """Writes rejects as JSON lines: source, line, reason; arguments as for `JsonlWriter`."""

    def __init__(self, path: str | os.PathLike[str], position: int | None = None) -> None:
        self._file = _LineFile(path, position)

    def write(self, batch: RejectBatch) -> None:
        """Write a batch of rejects."""
        self._file.append(reject_lines(batch))

    def position(self, *, durable: bool = False) -> int:
        """Return the length of what was written, as `JsonlWriter.position` does."""
        return self._file.position(durable)

    def close(self) -> None:
        """Finish the file."""
        self._file.close()


class ParquetWriter:
    """Writes results as Parquet (`RESULT_SCHEMA`), a row group at a time; the file can be read once it is closed."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)
        try:
            self._file: Any = pq.ParquetWriter(str(path), RESULT_SCHEMA, compression="zstd")
        except OSError as error:
            raise InputError(
                f"cannot write {path}: {error.strerror or error}; check the folder and its owner"
            ) from error
        self._waiting: list[pa.Table] = []
        self._rows = self._bytes = 0

    def write(self, batch: ResultBatch) -> None:
        """Write a batch of results, or keep it until a row group is full."""
        table = result_table(batch)
        self._waiting.append(table)
        self._rows += table.num_rows
        self._bytes += table.nbytes
        if self._rows >= _GROUP_ROWS or self._bytes >= _GROUP_BYTES:
            self._flush()

    def _flush(self) -> None:
        if self._rows:
            with _writing(self._path):
                self._file.write_table(pa.concat_tables(self._waiting))
        self._waiting, self._rows, self._bytes = [], 0, 0

    def close(self) -> None:
        """Write what waits, and the footer."""
        self._flush()
        with _writing(self._path):
            self._file.close()


def open_results(path: str | os.PathLike[str]) -> ResultWriter:
    """Open a results file for writing, in the format that its ending says."""
    kind = file_kind(os.fspath(path), ("jsonl", "parquet"))
    return ParquetWriter(path) if kind.format == "parquet" else JsonlWriter(path)


def read_results(path: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """Read a whole results file of either format as the objects of its lines; meant for tests and small files."""
    name = os.fspath(path)
    kind = file_kind(name, ("jsonl", "parquet"))
    if kind.format == "jsonl":
        blocks = read_records(name, kind.compression, quoted=False, rows=1 << 16)
        return [json.loads(block.record(row)) for block in blocks for row in range(len(block))]
    check_readable(name)
    return [_line(row) for row in pq.read_table(name, schema=RESULT_SCHEMA).to_pylist()]


def _line(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row of Parquet as a line of JSON has it."""
    line = {"query": row["query"], "ts": row["ts"]}
    if row["object"] is not None:
        return line | {"object": row["object"]}
    if row["terms"] is not None:
        return line | {"terms": [[item["term"], item["count"]] for item in row["terms"]]}
    listed = [item["id"] if item["value"] is None else [item["id"], item["value"]] for item in row["objects"]]
    return line | {"objects": listed}
