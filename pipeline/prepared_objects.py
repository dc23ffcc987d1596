"""Clean records to the files of objects of a prepared data set: words numbered, rows in time order, times made steady."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.task_files import write_by_tasks
from pipeline.words import separated
from streams.vocabulary import Encoder, Vocabulary

__all__ = ["ROWS_A_FILE", "steady_timestamps", "write_in_order"]

#: Objects in one Parquet file: large enough to read fast, small enough to sort in memory.
ROWS_A_FILE = 250_000


def write_in_order(
    spark: Any,
    usable: Any,
    words: Sequence[str],
    order: Sequence[str],
    rows: int,
    id_type: str,
    keep_text: bool,
    out: Path,
) -> list[tuple[str, int]]:
    """Sort clean records by time and, within a time, by place in the input; number their words; write them.

    Returns the files and their rows. Words are numbered after the sort, because Spark computes what it sorts twice: once
    to find the ranges.
    """
    files = max(1, -(-rows // ROWS_A_FILE))
    text = ["text"] if keep_text else []
    place = [name for name in order if name != "ts"]
    picked = usable.selectExpr(f"cast(id as {id_type}) id", "ts", "x", "y", "words", *text, *place)
    ranged = picked.repartitionByRange(files, *order).sortWithinPartitions(*order).drop(*place)
    columns = [("id", pa.int64() if id_type == "bigint" else pa.string()), ("ts", pa.int64()), ("x", pa.float64())]
    columns += [("y", pa.float64()), ("keyword_ids", pa.list_(pa.int64()))]
    schema = pa.schema(columns + [("text", pa.string())] * keep_text)
    written = write_by_tasks(ranged, _numbering(spark, words), schema, out)
    # Partitions are ranges of time; those without rows leave gaps in the numbers, which are closed.
    names = [f"part-{number:05d}.parquet" for number in range(len(written))]
    for (old, _), new in zip(written, names, strict=True):
        (out / old).rename(out / new)
    return [(name, rows) for name, (_, rows) in zip(names, written, strict=True)]


def _numbering(spark: Any, words: Sequence[str]) -> Any:
    """Return a function that replaces words by their ids in batches, for Spark's workers."""
    shared = spark.sparkContext.broadcast(list(words))

    def number(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        encoder = Encoder(Vocabulary(tuple(shared.value), np.zeros(len(shared.value), np.int64), 0))
        for batch in batches:
            at = batch.schema.get_field_index("words")
            off, ids = encoder.lists(separated(batch.column(at)))
            lists = pa.ListArray.from_arrays(pa.array(off), pa.array(ids, pa.int64()))
            yield pa.RecordBatch.from_arrays(
                [lists if i == at else column for i, column in enumerate(batch.columns)],
                ["keyword_ids" if name == "words" else name for name in batch.schema.names],
            )

    return number


def steady_timestamps(spark: Any, folder: Path, files: Sequence[tuple[str, int]], rate: float) -> tuple[int, int]:
    """Replace the timestamps by a steady rate from 0 on, each file by itself in parallel; return the first and the last.

    The n-th object has the time floor(n * 1000 / rate) ms.
    """
    starts = np.cumsum([0] + [rows for _, rows in files])
    jobs = [(str(folder / name), int(start)) for (name, _), start in zip(files, starts, strict=False)]

    def retime(job: tuple[str, int]) -> None:
        path, start = job
        table = pq.read_table(path)
        number = np.arange(start, start + table.num_rows)
        ts = pa.array(np.floor(number * (1000.0 / rate)).astype(np.int64))
        at = table.schema.get_field_index("ts")
        pq.write_table(table.set_column(at, "ts", ts), path + ".draft")
        Path(path + ".draft").replace(path)

    spark.sparkContext.parallelize(jobs, len(jobs)).foreach(retime)
    return 0, int(np.floor((int(starts[-1]) - 1) * (1000.0 / rate)))
