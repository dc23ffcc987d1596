"""Partition plans from a prepared data set and query files: Spark aggregates, `partitioners` decides, a file is written.

Plans are decided on the driver over counts by cell, which are of all the data, and over samples of bounded size. Textual
splits (QT-tree, kd^t-tree) and assignments of subscriptions look at objects and queries one by one, so they work on the
samples: by default a million objects, the |O_init| of DkM-SKS, evenly spaced over the time span, and a million queries. A
split decides between halves of at least a thousandth of the data, whose counts in such a sample are off by a few percent
at most, and both samples with 8 keywords each stay below 200 MB.
"""

import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from partitioners.builders.registry import PARTITIONERS
from partitioners.builders.registry import build_plan as build_from
from partitioners.costs.cell_costs import cell_costs
from partitioners.costs.initial_objects import MAX_INITIAL_OBJECTS
from partitioners.costs.statistics import ObjectSample, QuerySample, Statistics, thinned
from partitioners.grids.fine_grid import DEFAULT_SIDE, FineGrid
from partitioners.plans.plan import Plan, save
from pipeline.inputs import find_inputs
from pipeline.object_view import ObjectView
from pipeline.prepared_rows import collected_rows, numbered_rows, source_objects
from pipeline.query_tables import INITIAL_OBJECTS, QUERY_DDL, QueryReading, initial_objects, query_sample, query_table
from pipeline.session import DEFAULT_MASTER, Progress, silent, spark_session
from streams.columns import csr_concat
from streams.errors import DeclarationError, InputError, did_you_mean
from streams.files.prepared import Manifest, load_manifest, load_vocabulary
from streams.geometry import METRICS, Metric, Rect
from streams.tokens import are_tokens
from streams.vocabulary import Vocabulary

__all__ = ["MAX_OBJECTS", "MAX_QUERIES", "BuiltPlan", "Gathered", "build_plan", "gather_statistics"]

#: The default sizes of the samples.
MAX_OBJECTS = 1_000_000
MAX_QUERIES = 1_000_000

#: Pairs of an object and a query with a common keyword that Tornado's Equation 1 is counted over: some seconds of
#: one core. Only the proportions between cells matter, so where there are more, both samples are thinned alike.
_COSTED_PAIRS = 2_000_000_000

#: Objects whose costs a worker counts in one call of the kernel.
_COSTED_OBJECTS = 262_144


@dataclass(frozen=True, slots=True, eq=False)
class Gathered:
    """Statistics for builders, and what they were gathered from."""

    statistics: Statistics
    objects: int
    queries: int
    rejected_queries: int


@dataclass(frozen=True, slots=True, eq=False)
class BuiltPlan:
    """A plan that was written, and what it was built from."""

    plan: Plan
    path: Path
    gathered: Gathered


def build_plan(
    kind: str,
    data: str | Path,
    queries: Sequence[str | Path],
    out: str | Path,
    *,
    workers: int,
    options: Mapping[str, Any] | None = None,
    side: int = DEFAULT_SIDE,
    metric: Metric = "euclidean",
    space: Rect | None = None,
    vocabulary: Vocabulary | None = None,
    answers: frozenset[str] | None = None,
    tokenise: bool | None = None,
    max_objects: int = MAX_OBJECTS,
    max_queries: int = MAX_QUERIES,
    master: str = DEFAULT_MASTER,
    progress: Progress = silent,
) -> BuiltPlan:
    """Build the plan of a partitioner (`partitioners.builders.registry.PARTITIONERS`) and write it to a file.

    Args:
        kind: the partitioner's name.
        data: a prepared data set.
        queries: query files (JSONL) like those that are expected; none balances objects alone.
        out: the plan file.
        workers: how many evaluators the plan distributes to.
        options: the partitioner's own options, such as ``leaves`` (theta) of ``qt-tree``.
        side: cells along each side of the fine grid.
        metric: of the topology; balls of kNN queries are Euclidean in any case.
        space: of the topology; None takes the bounds of the data.
        vocabulary: of the topology, empty where it has none; None takes that of the data.
        answers: the kinds of query that the topology answers; None takes all.
        tokenise: cut keywords of queries into words; None does so where the words of the data are those of texts.
        max_objects: size of the sample of objects.
        max_queries: size of the sample of queries.
        master: any Spark master.
        progress: told of each step.

    Raises:
        DeclarationError: an unknown partitioner or option, or a sample that is too large.
        InputError: data, queries or the plan file cannot be read or written.
    """
    if kind not in PARTITIONERS:
        near = did_you_mean(kind, PARTITIONERS)
        raise DeclarationError(f"unknown partitioner '{kind}'{near}; expected one of {', '.join(PARTITIONERS)}")
    if metric not in METRICS:
        raise DeclarationError(
            f"unknown metric '{metric}'{did_you_mean(metric, METRICS)}; expected {' or '.join(METRICS)}"
        )
    path = Path(out)
    if not path.parent.is_dir():
        raise InputError(f"{path.parent} is no folder to write {path.name} to; make it first")
    load_manifest(data)  # a wrong folder is told before Spark starts
    progress("starting Spark", 0.0)
    spark = spark_session(master)
    options = dict(options or {})
    literal = options.get("literal") is True
    gathered = gather_statistics(
        spark, data, queries, side=side, metric=metric, space=space, vocabulary=vocabulary, answers=answers,
        tokenise=tokenise, max_objects=max_objects, max_queries=max_queries, costs=kind == "kd", literal=literal,
        progress=progress,
    )  # fmt: skip
    progress("deciding splits", 0.8)
    plan = build_from(kind, gathered.statistics, workers, **options)
    save(plan, path)
    progress("done", 1.0)
    return BuiltPlan(plan, path, gathered)


def gather_statistics(
    spark: Any,
    data: str | Path,
    queries: Sequence[str | Path],
    *,
    side: int = DEFAULT_SIDE,
    metric: Metric = "euclidean",
    space: Rect | None = None,
    vocabulary: Vocabulary | None = None,
    answers: frozenset[str] | None = None,
    tokenise: bool | None = None,
    max_objects: int = MAX_OBJECTS,
    max_queries: int = MAX_QUERIES,
    initial: int = INITIAL_OBJECTS,
    costs: bool = False,
    literal: bool = False,
    progress: Progress = silent,
) -> Gathered:
    """Gather what builders look at: samples of objects and queries, and counts by cell of all of both.

    `space`, `vocabulary`, `answers` and `tokenise` are the topology's, so that where the samples hold all, the statistics
    are those that the topology takes from the same input by itself (`topology.planning`); None takes them from the data.
    `costs` counts Tornado's Equation 1 by cell as well (`literal`: with queries wherever they are).
    """
    if not 1 <= max_objects <= MAX_INITIAL_OBJECTS or not 1 <= max_queries <= MAX_INITIAL_OBJECTS:
        raise DeclarationError(
            f"samples of {max_objects} objects and {max_queries} queries; expected 1 to {MAX_INITIAL_OBJECTS} of each"
        )
    manifest = load_manifest(data)
    prepared = load_vocabulary(data)
    seen = prepared if vocabulary is None else vocabulary
    view = ObjectView.of(space or manifest.space, prepared, seen)
    grid = FineGrid(view.space, side, side)
    progress("sampling objects", 0.2)
    sample = _object_sample(spark, data, manifest, view, max_objects)
    progress("reading queries", 0.4)
    cut = are_tokens(prepared.words) if tokenise is None else tokenise
    reading = QueryReading(view.space, metric, sample.span_ms, seen.words, answers, cut)
    found, total, rejected = _queries(spark, data, queries, reading, view, initial, max_queries)
    progress("counting by cell", 0.6)
    statistics = Statistics(
        grid,
        sample,
        found,
        seen,
        cell_cost=_costs(spark, data, view, grid, sample, found, literal)
        if costs and len(sample) and len(found)
        else None,
        # In a sample that is everything, builders count for themselves.
        cell_objects=_cell_objects(spark, data, grid) if manifest.rows > max_objects else None,
    )
    return Gathered(statistics, manifest.rows, total, rejected)


def _object_sample(spark: Any, data: str | Path, manifest: Manifest, view: ObjectView, at_most: int) -> ObjectSample:
    """Return evenly spaced objects, at most so many."""
    source = collected_rows(spark, data, thinned(manifest.rows, at_most))
    return view.seen(source, float(max(manifest.last_ts - manifest.first_ts, 1)))


def _queries(
    spark: Any,
    data: str | Path,
    queries: Sequence[str | Path],
    reading: QueryReading,
    view: ObjectView,
    initial: int,
    at_most: int,
) -> tuple[QuerySample, int, int]:
    """Return a sample of registrations, how many there are, and how many lines were rejected."""
    if not queries:
        return query_sample(_NO_QUERIES.empty_table()), 0, 0
    files = find_inputs(spark, [str(path) for path in queries])
    lines = spark.read.text([file.path for file in files])
    near = not lines.where("instr(value, '\"knn\"') > 0").isEmpty()
    objects = initial_objects(spark, data, initial, view) if near else None
    with tempfile.TemporaryDirectory(prefix="waterspout-queries-") as work:
        query_table(spark, queries, reading, objects).write.parquet(f"{work}/all")
        table = spark.read.schema(QUERY_DDL).parquet(f"{work}/all")
        counts = table.selectExpr("count(*) records", "count(reason) rejected").first()
        rejected, total = counts["rejected"], counts["records"] - counts["rejected"]
        step = max(1, -(-total // at_most))
        usable = table.where(f"reason is null and number % {step} = 0").drop("reason")
        return query_sample(usable.toArrow().cast(_NO_QUERIES).sort_by("number")), total, rejected


_NO_QUERIES = pa.schema(
    [
        ("number", pa.int64()),
        ("type", pa.int32()),
        ("continuous", pa.bool_()),
        ("match_any", pa.bool_()),
        *((name, pa.float64()) for name in ("min_x", "min_y", "max_x", "max_y", "at_x", "at_y")),
        ("k", pa.int32()),
        ("alpha", pa.float64()),
        ("life_ms", pa.float64()),
        ("window_ms", pa.int64()),
        ("keyword_ids", pa.list_(pa.int64())),
    ]
)


def _cell_objects(spark: Any, data: str | Path, grid: FineGrid) -> Any:
    """Return all objects of the space by fine cell (rows x columns)."""

    def count(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            x, y = (batch[name].to_numpy(zero_copy_only=False) for name in ("x", "y"))
            inside = grid.space.contains(x, y)
            x, y = x[inside], y[inside]
            cells, times = np.unique(grid.cells_of(x, y), return_counts=True)
            yield pa.RecordBatch.from_arrays([pa.array(cells), pa.array(times.astype(np.float64))], ["cell", "n"])

    return _summed(numbered_rows(spark, data).mapInArrow(count, "cell bigint, n double"), grid)


def _costs(
    spark: Any,
    data: str | Path,
    view: ObjectView,
    grid: FineGrid,
    objects: ObjectSample,
    queries: QuerySample,
    literal: bool,
) -> Any:
    """Return Tornado's Equation 1 by cell over evenly spaced objects, the work of it shared by all workers."""
    excess = max(_pairs(objects, queries) / _COSTED_PAIRS, 1.0) ** 0.5
    asked = queries.take(thinned(len(queries), max(1, int(len(queries) / excess))))
    shared = spark.sparkContext.broadcast((asked, view))
    step = max(1, round(load_manifest(data).rows * excess / len(objects)))

    def cost(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        asked, view = shared.value
        for part in _joined(batches):
            costs = cell_costs(grid, view.seen(part), asked, here=not literal).ravel()
            cells = np.flatnonzero(costs)
            yield pa.RecordBatch.from_arrays([pa.array(cells), pa.array(costs[cells])], ["cell", "n"])

    rows = numbered_rows(spark, data).where(f"number % {step} = 0")
    # Work goes with pairs, not with bytes: every core gets its part also of a data set that is one small file.
    rows = rows.repartition(spark.sparkContext.defaultParallelism)
    return _summed(rows.mapInArrow(cost, "cell bigint, n double"), grid)


def _pairs(objects: ObjectSample, queries: QuerySample) -> float:
    """Return how many pairs of an object and a query share a keyword, a pair counted once for each it shares."""
    words, of_objects = np.unique(objects.kw, return_counts=True)
    wanted, of_queries = np.unique(queries.kw, return_counts=True)
    _, one, other = np.intersect1d(words, wanted, assume_unique=True, return_indices=True)
    plain = int((np.diff(queries.kw_off) == 0).sum())
    return float(of_objects[one].astype(np.float64) @ of_queries[other]) + float(plain) * len(objects)


def _joined(batches: Iterable[pa.RecordBatch]) -> Iterator[ObjectSample]:
    """Join batches up to a size that is worth a call of the kernel."""
    parts: list[Any] = []
    rows = 0
    for batch in batches:
        parts.append(source_objects(batch))
        rows += len(parts[-1])
        if rows >= _COSTED_OBJECTS:
            yield _sample(parts)
            parts, rows = [], 0
    if parts:
        yield _sample(parts)


def _sample(parts: list[Any]) -> ObjectSample:
    kw_off, kw = csr_concat([(part.kw_off, part.kw) for part in parts])
    return ObjectSample(np.concatenate([p.x for p in parts]), np.concatenate([p.y for p in parts]), kw_off, kw)


def _summed(counts: Any, grid: FineGrid) -> Any:
    """Return sums by cell as a table of rows x columns: at most one row a cell reaches the driver."""
    found = counts.groupBy("cell").sum("n").toArrow()
    table = np.zeros(grid.cells)
    table[found["cell"].to_numpy()] = found["sum(n)"].to_numpy()
    return table.reshape(grid.rows, grid.columns)
