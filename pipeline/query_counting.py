"""Counting queries and objects by cell of SSTD's quadtree J, on Spark."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from partitioners.costs.query_distribution import SKQ, SRQ
from pipeline.prepared_rows import numbered_rows, source_objects
from pipeline.quadtree_counts import Notes, noted, tree_grid
from pipeline.query_statistics import DEFAULT_DEPTH, KEYWORD, LENGTH, QUERIES, WINDOW, QueryStatistics
from streams.batches import TYPE_KNN, TYPE_RANGE, TYPE_TERMS, TYPE_TOPK
from streams.columns import Ints, csr_take
from streams.geometry import Rect

__all__ = ["count_queries"]

#: Snapshot kinds by query type; continuous ones are three further. A scored top-k query is counted as a kNN query.
_SNAPSHOT = {TYPE_RANGE: 0, TYPE_KNN: 1, TYPE_TOPK: 1, TYPE_TERMS: 2}

_COUNT_DDL = "cell bigint, below boolean, what int, kind int, key bigint, n bigint"

#: Pairs of query and cell that a worker holds at a time.
_MAX_NOTES = 4_000_000


def count_queries(
    spark: Any, data: str | Path, queries: Any, space: Rect, depth: int = DEFAULT_DEPTH
) -> QueryStatistics:
    """Count the queries of a query table (`pipeline.query_tables`) and the objects of a data set by cell.

    Only counts reach the driver: one for each cell and keyword that occurs in a query there.
    """

    def count(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield from _counted(batch, space, depth)

    usable = queries.where("reason is null")
    sums = usable.mapInArrow(count, _COUNT_DDL).groupBy("cell", "below", "what", "kind", "key").sum("n")
    table = (
        sums.withColumnRenamed("sum(n)", "n")
        .toArrow()
        .sort_by([(name, "ascending") for name in ("cell", "below", "what", "kind", "key")])
    )
    columns = {name: table[name].to_numpy() for name in ("cell", "below", "what", "kind", "key", "n")}
    kinds = usable.groupBy("type", "continuous").count().collect()  # at most eight rows
    totals = np.zeros(6, np.int64)
    for row in kinds:
        totals[_SNAPSHOT[row["type"]] + 3 * row["continuous"]] += row["count"]
    objects, span = _objects(spark, data, space, depth)
    return QueryStatistics(
        space=space,
        depth=depth,
        totals=totals,
        rejected=queries.where("reason is not null").count(),
        objects=objects,
        span_ms=span,
        cell=columns["cell"].astype(np.int64),
        below=columns["below"].astype(np.bool_),
        what=columns["what"].astype(np.int64),
        kind=columns["kind"].astype(np.int64),
        key=columns["key"].astype(np.int64),
        count=columns["n"].astype(np.int64),
    )


def _counted(batch: pa.RecordBatch, space: Rect, depth: int) -> Iterator[pa.RecordBatch]:
    """Count a batch of queries, in pieces whose notes fit in memory."""
    bounds = [batch[name].to_numpy(zero_copy_only=False) for name in ("min_x", "min_y", "max_x", "max_y")]
    if len(bounds[0]) == 0:
        return
    grid = tree_grid(space, depth)
    low, high = grid.cells_of(bounds[0], bounds[1]), grid.cells_of(bounds[2], bounds[3])
    size = (high % grid.columns - low % grid.columns + 1) * (high // grid.columns - low // grid.columns + 1)
    piece = np.cumsum(size) // _MAX_NOTES
    for start in np.flatnonzero(np.diff(piece, prepend=-1)).tolist():
        stop = int(np.searchsorted(piece, piece[start], side="right"))
        yield _counts(batch.slice(start, stop - start), noted(space, depth, *(b[start:stop] for b in bounds)))


def _counts(batch: pa.RecordBatch, notes: Notes) -> pa.RecordBatch:
    kind = np.array([_SNAPSHOT[t] for t in range(4)])[batch["type"].to_numpy(zero_copy_only=False)]
    continuous = batch["continuous"].to_numpy(zero_copy_only=False)
    kind = np.where(continuous, kind + 3, kind)
    window = batch["window_ms"].to_numpy(zero_copy_only=False)
    life = batch["life_ms"].to_numpy(zero_copy_only=False)
    places = pa.table({"x": batch["at_x"], "y": batch["at_y"], "keyword_ids": batch["keyword_ids"]})
    lists = source_objects(places)
    length = np.diff(lists.kw_off).astype(np.int64)
    q = notes.query
    worded = np.flatnonzero(np.isin(kind[q], (SRQ, SKQ)))
    kw_off, kw = csr_take(lists.kw_off, lists.kw, q[worded])
    word_note = np.repeat(worded, np.diff(kw_off))
    whole = np.arange(len(q))
    parts = [
        (whole, QUERIES, np.zeros(len(q), np.int64)),
        (word_note, KEYWORD, kw),
        (worded, LENGTH, length[q[worded]]),
        (whole, WINDOW, np.where(continuous, life, window).astype(np.int64)[q]),
    ]
    note = np.concatenate([rows for rows, _, _ in parts])
    table = pa.table(
        {
            "cell": notes.cell[note],
            "below": notes.below[note],
            "what": np.concatenate([np.full(len(rows), what, np.int32) for rows, what, _ in parts]),
            "kind": kind[q][note].astype(np.int32),
            "key": np.concatenate([keys for _, _, keys in parts]),
        }
    )
    grouped = table.group_by(table.column_names).aggregate([([], "count_all")]).combine_chunks()
    return grouped.rename_columns([*table.column_names, "n"]).to_batches()[0]


def _objects(spark: Any, data: str | Path, space: Rect, depth: int) -> tuple[Ints, int]:
    """Return all objects of a data set by cell of the deepest level, and the time that they arrived over."""
    grid = tree_grid(space, depth)

    def count(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            x, y = (batch[name].to_numpy(zero_copy_only=False) for name in ("x", "y"))
            ts = batch["ts"].to_numpy(zero_copy_only=False)
            cells, times = np.unique(grid.cells_of(x, y), return_counts=True)
            span = [pa.array(np.full(len(cells), edge)) for edge in (ts.min(), ts.max())] if len(ts) else []
            if len(ts):
                columns = [pa.array(cells), pa.array(times.astype(np.int64)), *span]
                yield pa.RecordBatch.from_arrays(columns, ["cell", "n", "first", "last"])

    counted = numbered_rows(spark, data).mapInArrow(count, "cell bigint, n bigint, first bigint, last bigint")
    table = counted.groupBy("cell").agg({"n": "sum", "first": "min", "last": "max"}).toArrow()  # one row a cell
    objects = np.zeros(grid.cells, np.int64)
    objects[table["cell"].to_numpy()] = table["sum(n)"].to_numpy()
    span = int(table["max(last)"].to_numpy().max() - table["min(first)"].to_numpy().min()) if table.num_rows else 0
    return objects.reshape(grid.rows, grid.columns), max(span, 1)
