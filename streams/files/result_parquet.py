"""Results as Parquet: straight into one file, or by parts that survive a crash.

Matches and events are encoded by kernels of ours (`streams.files.match_groups`), lists by Arrow; a file has row groups of both.

A Parquet file cannot be cut and taken up again, because what makes it readable stands at its end. A run that takes checkpoints
therefore keeps each full row group in a file of its own, in a folder beside the results, and joins them when it ends;
rows that wait for a group to fill up are part of the checkpoint. The joined file is the one that a run without
checkpoints writes: the same row groups, byte for byte.
"""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from streams.batches import AnswerBatch, EventBatch, MatchBatch, TupleBatch
from streams.errors import InputError
from streams.files.line_files import writing
from streams.files.match_groups import match_group
from streams.files.named_hits import NamedHits
from streams.files.parquet_groups import Group, GroupFile, groups_of
from streams.files.result_lines import RESULT_SCHEMA, result_tables, written_table

__all__ = ["ParquetParts", "ParquetWriter"]

#: A row group of a Parquet file is written when so many rows or bytes wait for it.
GROUP_ROWS, GROUP_BYTES = 1 << 17, 64 << 20

#: Columns as Parquet has them.
_LEAVES = (
    *("query", "ts", "type", "object", "detect"),
    *("objects.list.element.id", "objects.list.element.value", "terms.list.element.term", "terms.list.element.count"),
)

#: How Arrow writes columns. Readers are not told of our dictionaries: to them these are strings. Bounds of the names of
#: queries would be of no use, as a group has names of all sorts; so would those of a column with hardly more than one value.
_LAYOUT: dict[str, Any] = {
    "compression": {leaf: "snappy" if leaf == "query" else "zstd" for leaf in _LEAVES},
    "use_dictionary": ["type", "object", "detect", "objects.list.element.id", "terms.list.element.term"],
    "column_encoding": {"ts": "DELTA_BINARY_PACKED"},
    "write_statistics": ["ts", "object"],
    "dictionary_pagesize_limit": GROUP_BYTES,
    "write_batch_size": 1 << 14,
    "store_schema": False,
}


def _encoded(table: pa.Table) -> Group:
    """Return rows as a row group."""
    found = match_group(table)
    if found is not None:
        return found
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, row_group_size=table.num_rows, **_LAYOUT)
    return next(groups_of(pa.BufferReader(sink.getvalue())))


class _Waiting:
    """Rows that wait until a row group is full."""

    def __init__(self) -> None:
        self._tables: list[pa.Table] = []
        self._rows = self._bytes = 0

    def add(self, table: pa.Table) -> bool:
        """Take rows; return whether they fill a group."""
        self._tables.append(table)
        self._rows += table.num_rows
        self._bytes += table.nbytes
        return self._rows >= GROUP_ROWS or self._bytes >= GROUP_BYTES

    def take(self) -> Any:
        """Hand all rows over as one table; None where there are none."""
        tables, rows = self._tables, self._rows
        self._tables, self._rows, self._bytes = [], 0, 0
        return pa.concat_tables(tables).unify_dictionaries().combine_chunks() if rows else None

    def pack(self) -> bytes:
        """Return the rows as an Arrow stream, and keep them."""
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, RESULT_SCHEMA) as stream:
            for table in self._tables:
                stream.write_table(table.cast(RESULT_SCHEMA))
        packed: bytes = sink.getvalue().to_pybytes()
        return packed

    def unpack(self, packed: bytes) -> None:
        """Take over rows that were packed."""
        with pa.ipc.open_stream(packed) as stream:
            self.add(written_table(stream.read_all()))


class ParquetWriter:
    """Writes results as Parquet (`RESULT_SCHEMA`), a row group at a time; the file can be read once it is closed."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)
        self._file = _new_file(self._path)
        self._waiting = _Waiting()

    def write(self, batch: MatchBatch | EventBatch | AnswerBatch | TupleBatch | NamedHits) -> None:
        """Write a batch of results, or keep it until a row group is full."""
        for table in result_tables(batch):
            if self._waiting.add(table):
                self._flush()

    def _flush(self) -> None:
        table = self._waiting.take()
        if table is not None:
            group = _encoded(table)
            with writing(self._path):
                self._file.append(group)

    def close(self) -> None:
        """Write what waits, and the footer."""
        self._flush()
        with writing(self._path):
            self._file.close()


class ParquetParts:
    """Writes results as Parquet, and can go on from a checkpoint.

    Args:
        path: the file that there is in the end; its parts are in the folder of that name with ``.parts`` behind.
        state: what `snapshot` returned, to go on from there; None starts afresh.
    """

    def __init__(self, path: str | os.PathLike[str], state: dict[str, Any] | None = None) -> None:
        self._path = Path(path)
        self._folder = self._path.with_name(self._path.name + ".parts")
        self._waiting = _Waiting()
        self._groups = 0
        if state is None:
            self._start()
        else:
            self._go_on(state["groups"])
            self._waiting.unpack(state["waiting"])

    def _part(self, group: int) -> Path:
        return self._folder / f"{group:08}.parquet"

    def _start(self) -> None:
        try:
            self._path.unlink(missing_ok=True)
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder.mkdir()
        except OSError as error:
            raise InputError(
                f"cannot write {self._path}: {error.strerror or error}; check the folder and its owner"
            ) from error

    def _go_on(self, groups: int) -> None:
        """Keep the row groups that the checkpoint counts, and nothing that was written later.

        A run that ended has joined its parts: then the groups are taken out of the file.
        """
        if not all(self._part(group).is_file() for group in range(groups)):
            self._split(groups)
        with writing(self._folder):
            self._folder.mkdir(exist_ok=True)
            for later in set(self._folder.iterdir()) - {self._part(group) for group in range(groups)}:
                later.unlink()
        self._groups = groups

    def _split(self, groups: int) -> None:
        try:
            with pa.OSFile(str(self._path)) as file:
                found = pq.read_metadata(file).num_row_groups
                if found >= groups:
                    self._folder.mkdir(exist_ok=True)
                    for number, group in zip(range(groups), groups_of(file), strict=False):
                        self._write_part(number, group)
        except (OSError, pa.ArrowException) as error:
            raise InputError(
                f"{self._folder}: parts of {self._path.name} that the checkpoint counts ({groups}) are missing; "
                f"bring the folder back, or start afresh ({error})"
            ) from error
        if found < groups:
            raise InputError(
                f"{self._path} has {found} row groups, but the checkpoint was taken after {groups}; "
                "it was changed since, so start afresh or bring the file back"
            )

    def _write_part(self, number: int, group: Group) -> None:
        partial = self._folder / "partial"
        with writing(partial):
            file = GroupFile(partial, RESULT_SCHEMA)
            file.append(group)
            file.close(durable=True)
            partial.replace(self._part(number))

    def write(self, batch: MatchBatch | EventBatch | AnswerBatch | TupleBatch | NamedHits) -> None:
        """Write a batch of results, or keep it until a row group is full."""
        for table in result_tables(batch):
            if self._waiting.add(table):
                self._write_part(self._groups, _encoded(self._waiting.take()))
                self._groups += 1

    def snapshot(self) -> dict[str, Any]:
        """Return how many row groups are on the disk, and the rows that wait."""
        return {"groups": self._groups, "waiting": self._waiting.pack()}

    def close(self) -> None:
        """Join all parts into the file that was asked for; only when that is complete, do they go."""
        partial = self._folder / "partial"
        joined = _new_file(partial)
        with writing(self._path):
            for group in self._all_groups():
                joined.append(group)
            joined.close()
            partial.replace(self._path)
            shutil.rmtree(self._folder)

    def _all_groups(self) -> Iterator[Group]:
        for number in range(self._groups):
            with pa.OSFile(str(self._part(number))) as part:
                yield from groups_of(part)
        rest = self._waiting.take()
        if rest is not None:
            yield _encoded(rest)


def _new_file(path: Path) -> GroupFile:
    try:
        return GroupFile(path, RESULT_SCHEMA)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}; check the folder and its owner") from error
