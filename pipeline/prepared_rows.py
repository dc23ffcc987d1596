"""Rows of a prepared data set in Spark, by their place in time order.

A row's number is the number of rows in the files before its own plus its index in its file: it depends on the data set
alone, so a draw of row numbers names the same objects however Spark divides the work.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pipeline.workloads import SourceObjects
from streams.columns import Ints
from streams.errors import DeclarationError, InputError
from streams.files.prepared import load_manifest, object_paths

__all__ = ["MAX_COLLECTED", "collected_rows", "numbered_rows", "picked_rows", "source_objects"]

#: The most objects that are brought to the driver: with 8 keywords each about 400 MB.
MAX_COLLECTED = 4_000_000


def numbered_rows(spark: Any, data: str | Path, at_most: int | None = None) -> Any:
    """Return number, x, y, ts and keyword_ids of all objects, or of the first `at_most`."""
    manifest = load_manifest(data)
    starts = np.cumsum([0] + [file.rows for file in manifest.files]).tolist()
    # Only files with wanted rows are opened.
    wanted = [i for i, start in enumerate(starts[:-1]) if at_most is None or start < at_most]
    paths = object_paths(data)
    for i in wanted:
        if paths[i].name != f"part-{i:05d}.parquet":
            raise InputError(f"{paths[i]} is not the name of file {i} of a data set; prepare it again")
    # The number in a file's name leads to the rows before it.
    file = "cast(substring(_metadata.file_name, 6, length(_metadata.file_name) - 13) as int)"
    before = f"element_at(array({', '.join(f'{start}L' for start in starts[:-1])}), {file} + 1)"
    table = spark.read.schema("x double, y double, ts bigint, keyword_ids array<bigint>")
    rows = table.parquet(*[str(paths[i]) for i in wanted])
    rows = rows.selectExpr(f"{before} + _metadata.row_index number", "x", "y", "ts", "keyword_ids")
    return rows if at_most is None or at_most >= manifest.rows else rows.where(f"number < {at_most}")


def picked_rows(spark: Any, data: str | Path, rows: Ints) -> Any:
    """Return x, y and keyword_ids of drawn row numbers, each with `pick`, its place in the draw.

    A row may be drawn several times. The draw is shared with all workers: 16 bytes a pick.
    """
    order = np.argsort(rows, kind="stable")
    shared = spark.sparkContext.broadcast((rows[order], order.astype(np.int64)))

    def pick(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        drawn, place = shared.value
        for batch in batches:
            number = batch["number"].to_numpy(zero_copy_only=False)
            low, high = np.searchsorted(drawn, number), np.searchsorted(drawn, number, side="right")
            times = high - low
            if not times.any():
                continue
            here = np.repeat(np.arange(len(number)), times)
            ends = np.cumsum(times)
            within = np.arange(ends[-1]) - np.repeat(ends - times, times)
            picks = place[np.repeat(low, times) + within]
            taken = pa.array(here)
            columns = [pa.array(picks), *(batch[name].take(taken) for name in ("x", "y", "keyword_ids"))]
            yield pa.RecordBatch.from_arrays(columns, ["pick", "x", "y", "keyword_ids"])

    numbered = numbered_rows(spark, data).select("number", "x", "y", "keyword_ids")
    return numbered.mapInArrow(pick, "pick bigint, x double, y double, keyword_ids array<bigint>")


def collected_rows(spark: Any, data: str | Path, rows: Ints) -> SourceObjects:
    """Bring drawn rows to the driver, in the order of the draw; at most `MAX_COLLECTED`."""
    if len(rows) > MAX_COLLECTED:
        raise DeclarationError(f"{len(rows)} objects to collect; expected at most {MAX_COLLECTED}: ask for fewer")
    table = picked_rows(spark, data, rows).toArrow().sort_by("pick")
    return source_objects(table)


def source_objects(table: pa.Table | pa.RecordBatch) -> SourceObjects:
    """Return the columns x, y and keyword_ids as arrays."""
    lists = table.column("keyword_ids")
    lists = lists.combine_chunks() if isinstance(lists, pa.ChunkedArray) else lists
    if isinstance(lists, pa.ChunkedArray):
        lists = pa.concat_arrays(lists.chunks) if lists.num_chunks else pa.array([], pa.list_(pa.int64()))
    lengths = pc.list_value_length(lists).fill_null(0).to_numpy(zero_copy_only=False)
    off = np.zeros(len(lists) + 1, np.int32)
    np.cumsum(lengths, out=off[1:])
    return SourceObjects(
        _floats(table.column("x")), _floats(table.column("y")), off, lists.flatten().to_numpy(zero_copy_only=False)
    )


def _floats(column: Any) -> NDArray[np.float64]:
    if isinstance(column, pa.ChunkedArray):
        return np.asarray(column.to_numpy(), np.float64)
    return np.asarray(column.to_numpy(zero_copy_only=False), np.float64)
