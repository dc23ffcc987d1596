"""Query files as a Spark table of columns, with the bounds of what can matter to each query.

Lines are read by `streams.files.query_columns`, so a query means here what it means online. The bounds of a kNN query enclose
its ball B(s): the distance to its kth nearest match in O_init (DkM-SKS, Section 3.2; SSTD's search region, Section 4.1.1).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from partitioners.costs.initial_objects import MAX_INITIAL_OBJECTS, InitialObjects
from partitioners.costs.statistics import QuerySample
from partitioners.costs.subscription_costs import ball_rects
from pipeline.inputs import find_inputs
from pipeline.prepared_rows import numbered_rows, source_objects
from pipeline.split_rows import SplitRows
from streams.batches import FOREVER, OP_REGISTER, TYPE_KNN, TYPE_TOPK, QueryBatch
from streams.errors import DeclarationError, InputError
from streams.files.file_blocks import DEFAULT_LIMITS, RecordBlock
from streams.files.prepared import load_manifest
from streams.files.query_columns import json_queries
from streams.files.query_records import QueryRules
from streams.geometry import REGION_RECT, Metric, Rect, region_bounds
from streams.vocabulary import Encoder, Vocabulary

__all__ = ["INITIAL_OBJECTS", "QUERY_DDL", "QueryReading", "initial_objects", "query_sample", "query_table"]

#: |O_init| of the papers (DkM-SKS, Section 5.1): balls are measured among the first so many objects.
INITIAL_OBJECTS = 1_000_000

QUERY_DDL = (
    "number bigint, type int, continuous boolean, match_any boolean, min_x double, min_y double, max_x double, "
    "max_y double, at_x double, at_y double, k int, alpha double, life_ms double, window_ms bigint, "
    "keyword_ids array<bigint>, reason string"
)


@dataclass(frozen=True, slots=True, eq=False)
class QueryReading:
    """What lines are read with: the space, the words, the time span that a query without an end lives for."""

    space: Rect
    metric: Metric
    span_ms: float
    words: tuple[str, ...]


def initial_objects(spark: Any, data: str | Path, at_most: int = INITIAL_OBJECTS) -> InitialObjects:
    """Return O_init, the first objects of a prepared data set, as postings.

    They are brought to the driver, at most `partitioners.costs.initial_objects.MAX_INITIAL_OBJECTS`, and shared with all
    workers: nearest neighbours are found in all of them at once, and a million objects are about 400 MB of postings.
    """
    if not 1 <= at_most <= MAX_INITIAL_OBJECTS:
        raise DeclarationError(f"O_init of {at_most} objects; expected 1 to {MAX_INITIAL_OBJECTS}")
    table = numbered_rows(spark, data, at_most).toArrow().sort_by("number")
    source = source_objects(table)
    return InitialObjects.of(load_manifest(data).space, source.x, source.y, source.kw_off, source.kw)


def query_table(
    spark: Any, queries: Sequence[str | Path], reading: QueryReading, initial: InitialObjects | None = None
) -> Any:
    """Return the registrations of query files as a table of `QUERY_DDL`; rejected lines have a reason and nothing else.

    `number` is the place of the record in the whole input. Without `initial`, balls are the whole space.
    """
    files = find_inputs(spark, [str(path) for path in queries])
    wrong = [file.path for file in files if file.kind != "jsonl"]
    if wrong:
        raise InputError(f"{wrong[0]} is no query file; expected JSONL")
    lines = spark.read.text([file.path for file in files]).where("trim(value) <> ''")
    splits = lines.selectExpr("_metadata.file_path path", "_metadata.file_block_start block").groupBy("path", "block")
    counts = sorted((row["path"], row["block"], row["count"]) for row in splits.count().collect())  # one row a split
    starts = np.cumsum([0] + [count for _, _, count in counts]).tolist()
    first = {(path, block): start for (path, block, _), start in zip(counts, starts, strict=False)}
    source = {path: i for i, path in enumerate(sorted({path for path, _, _ in counts}))}
    shared = spark.sparkContext.broadcast((reading, initial))

    def read(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        told, objects = shared.value
        encoder = Encoder(Vocabulary(told.words, np.zeros(len(told.words), np.int64), 0))
        rows = SplitRows()
        for batch in batches:
            if not batch.num_rows:
                continue
            paths, blocks = batch["path"].to_pylist(), batch["block"].to_numpy(zero_copy_only=False)
            place = batch["place"].to_numpy(zero_copy_only=False)
            row = rows.rows(np.array([source[path] for path in paths]), blocks, place)
            number = row + np.array([first[key] for key in zip(paths, blocks.tolist(), strict=True)], np.int64)
            yield _columns(batch["line"].to_pylist(), number, told, objects, encoder)

    place = ("_metadata.file_path path", "_metadata.file_block_start block", "monotonically_increasing_id() place")
    return lines.selectExpr("cast(value as binary) line", *place).mapInArrow(read, QUERY_DDL)


def _columns(
    lines: list[bytes],
    number: NDArray[np.int64],
    reading: QueryReading,
    initial: InitialObjects | None,
    encoder: Encoder,
) -> pa.RecordBatch:
    """Read lines to a batch of `QUERY_DDL`."""
    rules = QueryRules(reading.space, reading.metric, DEFAULT_LIMITS.keywords)
    read = json_queries(_block(lines), rules, encoder, DEFAULT_LIMITS.line_bytes)
    rejected = sorted(read.objections.reasons)
    batch = read.batch.take(np.flatnonzero(read.batch.op == OP_REGISTER))
    good = _registrations(batch, reading, initial)
    good["number"] = pa.array(number[batch.number])
    names = [part.split()[0] for part in QUERY_DDL.split(", ")]
    made = pa.table({name: good[name] for name in names if name != "reason"})
    made = made.append_column("reason", pa.nulls(len(batch), pa.string()))
    if rejected:
        bad = pa.table(
            {
                "number": pa.array(number[rejected]),
                "reason": pa.array([read.objections.reasons[row] for row in rejected], pa.string()),
            }
        )
        made = pa.concat_tables([made, bad], promote_options="default")
    return made.combine_chunks().to_batches()[0] if made.num_rows else pa.RecordBatch.from_pylist([], made.schema)


def _block(lines: list[bytes]) -> RecordBlock:
    """Return lines as a block of records, as a reader of files makes them."""
    size = np.array([len(line) for line in lines], np.int64)
    start = np.concatenate([[0], np.cumsum(size + 1)[:-1]])
    return RecordBlock(
        np.frombuffer(b"\n".join(lines), np.uint8),
        start,
        start + size,
        np.arange(1, len(lines) + 1),
        size,
        np.zeros(len(lines), np.bool_),
        False,
    )


def _registrations(batch: QueryBatch, reading: QueryReading, initial: InitialObjects | None) -> dict[str, Any]:
    low_x, low_y, high_x, high_y = region_bounds(batch.region, batch.shape, reading.space, reading.metric)
    rectangle = batch.region == REGION_RECT
    at_x = np.where(rectangle, low_x / 2 + high_x / 2, batch.shape[:, 0])
    at_y = np.where(rectangle, low_y / 2 + high_y / 2, batch.shape[:, 1])
    match_any = batch.match_any | (batch.type == TYPE_TOPK)
    bounds = np.stack([low_x, low_y, high_x, high_y], axis=1)
    near = np.flatnonzero(batch.type == TYPE_KNN)
    if initial is not None and len(near):
        few = batch.take(near)
        radius = initial.kth_distances(at_x[near], at_y[near], few.kw_off, few.kw, few.k, few.match_any)
        bounds[near] = ball_rects(at_x[near], at_y[near], radius, reading.space)
    life = np.where(batch.end == FOREVER, reading.span_ms, np.minimum(batch.end - batch.ts, 2.0**53))
    return {
        "type": pa.array(batch.type.astype(np.int32)),
        "continuous": pa.array(batch.continuous),
        "match_any": pa.array(match_any),
        **{name: pa.array(bounds[:, i]) for i, name in enumerate(("min_x", "min_y", "max_x", "max_y"))},
        "at_x": pa.array(at_x),
        "at_y": pa.array(at_y),
        "k": pa.array(batch.k.astype(np.int32)),
        "alpha": pa.array(batch.alpha),
        "life_ms": pa.array(life.astype(np.float64)),
        "window_ms": pa.array(batch.window),
        "keyword_ids": pa.ListArray.from_arrays(pa.array(batch.kw_off), pa.array(batch.kw)),
    }


def query_sample(table: pa.Table) -> QuerySample:
    """Return collected rows of a query table as the sample that plan builders take."""
    source = source_objects(
        table.select(["keyword_ids"]).append_column("x", table["at_x"]).append_column("y", table["at_y"])
    )

    def column(name: str, kind: Any) -> Any:
        return np.ascontiguousarray(table[name].to_numpy().astype(kind))

    return QuerySample(
        number=column("number", np.int64),
        type=column("type", np.uint8),
        continuous=column("continuous", np.bool_),
        match_any=column("match_any", np.bool_),
        min_x=column("min_x", np.float64),
        min_y=column("min_y", np.float64),
        max_x=column("max_x", np.float64),
        max_y=column("max_y", np.float64),
        at_x=column("at_x", np.float64),
        at_y=column("at_y", np.float64),
        k=column("k", np.int32),
        alpha=column("alpha", np.float64),
        life_ms=column("life_ms", np.float64),
        kw_off=source.kw_off,
        kw=source.kw,
    )
