"""Query files as a Spark table of columns, with the bounds of what can matter to each query.

Lines are read by `streams.files.query_columns`, so a query means here what it means online. The bounds of a kNN query enclose
its ball B(s): the distance to its kth nearest match in O_init (DkM-SKS, Section 3.2; SSTD's search region, Section 4.1.1).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from partitioners.costs.initial_objects import MAX_INITIAL_OBJECTS, InitialObjects
from partitioners.costs.statistics import QuerySample
from pipeline.inputs import find_inputs
from pipeline.object_view import ObjectView
from pipeline.prepared_rows import numbered_rows, source_objects
from pipeline.split_rows import SplitRows
from streams.batches import OP_REGISTER, QueryBatch
from streams.errors import DeclarationError, InputError
from streams.files.file_blocks import DEFAULT_LIMITS, RecordBlock
from streams.files.prepared import load_manifest
from streams.files.query_columns import json_queries
from streams.files.query_files import KINDS
from streams.files.query_records import QueryRules
from streams.geometry import Metric, Rect
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
    """What lines are read with: the space, the words, the time span that a query without an end lives for.

    `answers` are the kinds of query that are accepted, out of `streams.files.query_files.KINDS`; none: all. With `tokenise`
    keywords are cut into words, as the texts of objects were.
    """

    space: Rect
    metric: Metric
    span_ms: float
    words: tuple[str, ...]
    answers: frozenset[str] | None = None
    tokenise: bool = False


def initial_objects(
    spark: Any, data: str | Path, at_most: int = INITIAL_OBJECTS, view: ObjectView | None = None
) -> InitialObjects:
    """Return O_init, the first objects of a prepared data set (as a topology sees them), as postings.

    They are brought to the driver, at most `partitioners.costs.initial_objects.MAX_INITIAL_OBJECTS`, and shared with all
    workers: nearest neighbours are found in all of them at once, and a million objects are about 400 MB of postings.
    """
    if not 1 <= at_most <= MAX_INITIAL_OBJECTS:
        raise DeclarationError(f"O_init of {at_most} objects; expected 1 to {MAX_INITIAL_OBJECTS}")
    table = numbered_rows(spark, data, at_most).toArrow().sort_by("number")
    view = view or ObjectView(load_manifest(data).space)
    seen = view.seen(source_objects(table))
    return InitialObjects.of(seen.x, seen.y, seen.kw_off, seen.kw)


def query_table(
    spark: Any, queries: Sequence[str | Path], reading: QueryReading, initial: InitialObjects | None = None
) -> Any:
    """Return the registrations of query files as a table of `QUERY_DDL`; rejected lines have a reason and nothing else.

    `number` is the place of the record in the whole input: files are read in the order given, as the spout of queries reads
    them, and those of a folder by name. Without `initial`, balls are the whole space.
    """
    found = [file for path in queries for file in find_inputs(spark, [str(path)])]
    files = list({file.uri: file for file in found}.values())
    wrong = [file.path for file in files if file.kind != "jsonl"]
    if wrong:
        raise InputError(f"{wrong[0]} is no query file; expected JSONL")
    lines = spark.read.text([file.path for file in files]).where("trim(value) <> ''")
    splits = lines.selectExpr("_metadata.file_path path", "_metadata.file_block_start block").groupBy("path", "block")
    source = {file.uri: place for place, file in enumerate(files)}
    counts = [(row["path"], row["block"], row["count"]) for row in splits.count().collect()]  # one row a split
    first = _first_numbers(source, counts)
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


def _first_numbers(source: Mapping[str, int], counts: Iterable[tuple[str, int, int]]) -> dict[tuple[str, int], int]:
    """Return the number of the first record of each split, of which (file, start, records) are given in any order."""
    ordered = sorted(counts, key=lambda split: (source[split[0]], split[1]))
    starts = accumulate((records for _, _, records in ordered), initial=0)
    return {(path, block): start for (path, block, _), start in zip(ordered, starts, strict=False)}


def _columns(
    lines: list[bytes],
    number: NDArray[np.int64],
    reading: QueryReading,
    initial: InitialObjects | None,
    encoder: Encoder,
) -> pa.RecordBatch:
    """Read lines to a batch of `QUERY_DDL`."""
    rules = QueryRules(reading.space, reading.metric, DEFAULT_LIMITS.keywords, tokenise=reading.tokenise)
    read = json_queries(_block(lines), rules, encoder, DEFAULT_LIMITS.line_bytes)
    batch = read.batch.take(np.flatnonzero(read.batch.op == OP_REGISTER))
    if reading.answers is not None:
        answered = np.array([[kind in reading.answers for kind in kinds] for kinds in KINDS])
        kept = answered[batch.type, batch.continuous.astype(np.int64)]
        for row in batch.number[~kept].tolist():
            read.objections.note_row(row, "queries of this kind are not answered by the topology")
        batch = batch.take(np.flatnonzero(kept))
    rejected = sorted(read.objections.reasons)
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
    sample = QuerySample.of_batch(batch, reading.space, reading.metric, reading.span_ms, initial)
    names = ("continuous", "match_any", "min_x", "min_y", "max_x", "max_y", "at_x", "at_y", "alpha", "life_ms")
    return {
        "type": pa.array(sample.type.astype(np.int32)),
        **{name: pa.array(getattr(sample, name)) for name in names},
        "k": pa.array(sample.k.astype(np.int32)),
        "window_ms": pa.array(batch.window),
        "keyword_ids": pa.ListArray.from_arrays(pa.array(sample.kw_off), pa.array(sample.kw)),
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
