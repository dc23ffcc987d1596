"""Results and rejects to files: JSON lines, plain or compressed, and Parquet.

A file of JSON lines can be taken up again: a checkpoint keeps its `position`, and a writer that starts there cuts off
whatever was written later. `streams.files.result_parquet` does the same for Parquet.
"""

import json
import os
from typing import Any, Protocol

import pyarrow.parquet as pq

from streams.batches import AnswerBatch, EventBatch, MatchBatch, RejectBatch
from streams.files.file_blocks import check_readable, file_kind, read_records
from streams.files.line_files import LineFile
from streams.files.named_hits import NamedHits
from streams.files.result_lines import RESULT_SCHEMA, reject_lines, result_lines
from streams.files.result_parquet import ParquetWriter

__all__ = [
    "JsonlWriter",
    "ParquetWriter",
    "RejectsWriter",
    "ResultWriter",
    "open_results",
    "read_results",
    "result_lines",
]

ResultBatch = MatchBatch | EventBatch | AnswerBatch | NamedHits


class ResultWriter(Protocol):
    """Where results go."""

    def write(self, batch: ResultBatch) -> None:
        """Write a batch of results."""

    def close(self) -> None:
        """Finish the file."""


class JsonlWriter:
    """Writes results as JSON lines.

    Args:
        path: the file; ``.gz`` or ``.zst`` at its end compresses it.
        position: take the file up again at this length; None starts afresh.
    """

    def __init__(self, path: str | os.PathLike[str], position: int | None = None) -> None:
        self._file = LineFile(path, position)

    def write(self, batch: ResultBatch) -> None:
        """Write a batch of results."""
        if isinstance(batch, NamedHits):
            for lines in batch.lines():
                self._file.append(lines)
        else:
            self._file.append(result_lines(batch))

    def position(self, *, durable: bool = False) -> int:
        """Return the length of the file, which is with the system, or on the disk if `durable`."""
        return self._file.position(durable)

    def close(self) -> None:
        """Finish the file."""
        self._file.close()


class RejectsWriter:
    """Writes rejects as JSON lines: source, line, reason; arguments as for `JsonlWriter`."""

    def __init__(self, path: str | os.PathLike[str], position: int | None = None) -> None:
        self._file = LineFile(path, position)

    def write(self, batch: RejectBatch) -> None:
        """Write a batch of rejects."""
        self._file.append(reject_lines(batch))

    def position(self, *, durable: bool = False) -> int:
        """Return the length of the file, as `JsonlWriter.position` does."""
        return self._file.position(durable)

    def close(self) -> None:
        """Finish the file."""
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
        return line | {"object": row["object"]} | ({} if row["detect"] is None else {"detect": row["detect"]})
    if row["terms"] is not None:
        return line | {"terms": [[item["term"], item["count"]] for item in row["terms"]]}
    listed = [item["id"] if item["value"] is None else [item["id"], item["value"]] for item in row["objects"]]
    return line | {"objects": listed}
