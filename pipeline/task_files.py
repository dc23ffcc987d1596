"""Parquet files that Python tasks write themselves, one each.

What a task has as Arrow columns goes to its file directly. Handing it back to Spark would turn every value into a row and
back, which for lists costs more than all the rest. A file takes its name when it is complete, so a task that is tried again
replaces what it wrote before.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

__all__ = ["write_by_tasks"]

#: Rows that are written together.
_GROUP_ROWS = 131_072

_WRITTEN = "file string, n bigint"


def write_by_tasks(table: Any, made: Any, schema: pa.Schema, folder: Path) -> list[tuple[str, int]]:
    """Apply a function of Arrow batches to a Spark table and write what it gives to `folder`, a file a partition.

    Returns the names of the files, in order of the partitions, and their rows; an empty partition has no file. The folder
    must be one that all workers see.
    """
    folder.mkdir(parents=True, exist_ok=True)
    target = str(folder)

    def write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        task = TaskContext.get()
        assert task is not None  # Spark runs this in a task
        name = f"part-{task.partitionId():05d}.parquet"
        rows = _write(made(iter(batches)), schema, Path(target, name), f".{name}-{task.taskAttemptId()}")
        if rows:
            yield pa.RecordBatch.from_arrays([pa.array([name]), pa.array([rows], pa.int64())], ["file", "n"])

    found = table.mapInArrow(write, _WRITTEN).collect()  # one row a task
    return sorted((row["file"], row["n"]) for row in found)


def _write(batches: Iterator[pa.RecordBatch], schema: pa.Schema, path: Path, draft_name: str) -> int:
    draft = path.with_name(draft_name)
    rows = 0
    try:
        with pq.ParquetWriter(draft, schema) as writer:
            held: list[pa.RecordBatch] = []
            waiting = 0
            for batch in batches:
                held.append(batch)
                waiting += batch.num_rows
                if waiting >= _GROUP_ROWS:
                    writer.write_table(pa.Table.from_batches(held, schema))
                    rows, held, waiting = rows + waiting, [], 0
            if waiting:
                writer.write_table(pa.Table.from_batches(held, schema))
                rows += waiting
        if rows:
            draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
    return rows
