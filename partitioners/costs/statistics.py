"""What builders are given: bounded samples of objects and queries, and counts by fine-grid cell.

The offline plane aggregates in Spark and hands over these arrays; without it, `Statistics.of_batches` takes them from a
sample at the start of the input. Nothing here reads files or draws random numbers.
"""

from dataclasses import dataclass, field, fields

import numpy as np
from numpy.typing import NDArray

from partitioners.columns import Floats, Ints, Offsets
from partitioners.costs.initial_objects import InitialObjects
from partitioners.costs.subscription_costs import ball_rects
from partitioners.grids.fine_grid import DEFAULT_SIDE, FineGrid
from streams.batches import FOREVER, OP_REGISTER, OP_UPSERT, TYPE_KNN, TYPE_TOPK, ObjectBatch, QueryBatch
from streams.columns import csr_take
from streams.errors import InputError
from streams.geometry import REGION_NONE, Metric, Rect, boxed, region_bounds
from streams.vocabulary import Vocabulary

__all__ = ["MAX_SAMPLE_ROWS", "ObjectSample", "QuerySample", "Statistics", "thinned"]

#: The largest sample that a builder accepts, in rows: a bound on its memory and time.
MAX_SAMPLE_ROWS = 10_000_000


@dataclass(frozen=True, slots=True, eq=False)
class ObjectSample:
    """A sample of objects: places, keywords, and the length of time it was drawn over."""

    x: Floats
    y: Floats
    kw_off: Offsets
    kw: Ints
    span_ms: float = 1.0

    def __len__(self) -> int:
        return len(self.x)

    def take(self, rows: NDArray[np.integer]) -> "ObjectSample":
        """Return these rows; the rate of arrival shrinks with the sample."""
        kw_off, kw = csr_take(self.kw_off, self.kw, rows)
        return ObjectSample(self.x[rows], self.y[rows], kw_off, kw, self.span_ms)


@dataclass(frozen=True, slots=True, eq=False)
class QuerySample:
    """A sample of queries.

    The bounds contain every place where an object can matter: the region, or for a kNN query the box around its ball
    B(s). `life_ms` is how long a continuous query lives, `type` is as in `streams.batches`.
    """

    number: Ints
    type: NDArray[np.uint8]
    continuous: NDArray[np.bool_]
    match_any: NDArray[np.bool_]
    min_x: Floats
    min_y: Floats
    max_x: Floats
    max_y: Floats
    at_x: Floats
    at_y: Floats
    k: NDArray[np.int32]
    alpha: Floats
    life_ms: Floats
    kw_off: Offsets
    kw: Ints

    def __len__(self) -> int:
        return len(self.number)

    def take(self, rows: NDArray[np.integer]) -> "QuerySample":
        """Return these rows."""
        kw_off, kw = csr_take(self.kw_off, self.kw, rows)
        plain = {f.name: getattr(self, f.name)[rows] for f in fields(self) if f.name not in ("kw_off", "kw")}
        return QuerySample(**plain, kw_off=kw_off, kw=kw)

    @classmethod
    def of_batch(
        cls, queries: QueryBatch, space: Rect, metric: Metric, span_ms: float, initial: InitialObjects | None
    ) -> "QuerySample":
        """Take registrations as a sample.

        The bounds of a kNN query are those of its ball among the objects at hand (DkM-SKS, Section 3.2), within the space.
        Balls are measured in coordinates also where the metric is haversine: they weigh costs and never decide where a
        query goes. A query without an end lives for `span_ms`, as long as the objects at hand.
        """
        bounds = np.stack(region_bounds(queries.region, queries.shape, space, metric), axis=1)
        rectangle = boxed(queries.region)
        at_x = np.where(rectangle, bounds[:, 0] / 2 + bounds[:, 2] / 2, queries.shape[:, 0])
        at_y = np.where(rectangle, bounds[:, 1] / 2 + bounds[:, 3] / 2, queries.shape[:, 1])
        match_any = queries.match_any | (queries.type == TYPE_TOPK)
        near = np.flatnonzero((queries.type == TYPE_KNN) & (queries.region == REGION_NONE))
        if initial is not None and len(near):
            words = csr_take(queries.kw_off, queries.kw, near)
            radius = initial.kth_distances(at_x[near], at_y[near], *words, queries.k[near], match_any[near])
            bounds[near] = ball_rects(at_x[near], at_y[near], radius, space)
        life = np.where(queries.end == FOREVER, span_ms, np.minimum(queries.end - queries.ts, 2.0**53))
        low_x, low_y, high_x, high_y = (np.ascontiguousarray(bounds[:, edge]) for edge in range(4))
        return cls(
            queries.target, queries.type, queries.continuous, match_any, low_x, low_y, high_x, high_y, at_x, at_y,
            queries.k, queries.alpha, life.astype(np.float64), queries.kw_off, queries.kw,
        )  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class Statistics:
    """All that a builder may look at; each says what it needs.

    Tables by cell (rows x columns of `grid`) may come from the full data; where they are missing they are counted in
    the samples. `cell_cost` is Tornado's Equation 1, `cell_objects` and `cell_queries` count places.
    """

    grid: FineGrid
    objects: ObjectSample
    queries: QuerySample
    vocabulary: Vocabulary = field(default_factory=Vocabulary)
    cell_cost: Floats | None = None
    cell_objects: Floats | None = None
    cell_queries: Floats | None = None

    def __post_init__(self) -> None:
        for name in ("cell_cost", "cell_objects", "cell_queries"):
            table = getattr(self, name)
            if table is not None and table.shape != (self.grid.rows, self.grid.columns):
                raise InputError(
                    f"'{name}' is a table of {table.shape}, expected {self.grid.rows} rows of {self.grid.columns} columns"
                )
        if max(len(self.objects), len(self.queries)) > MAX_SAMPLE_ROWS:
            raise InputError(f"a sample has more than {MAX_SAMPLE_ROWS:,} rows; draw a smaller one")

    @property
    def space(self) -> Rect:
        """The space that is to be divided."""
        return self.grid.space

    def objects_by_cell(self) -> Floats:
        """Return the number of objects in each cell."""
        return self.grid.counts(self.objects.x, self.objects.y) if self.cell_objects is None else self.cell_objects

    def queries_by_cell(self) -> Floats:
        """Return the number of queries whose place is in each cell."""
        return (
            self.grid.counts(self.queries.at_x, self.queries.at_y) if self.cell_queries is None else self.cell_queries
        )

    @classmethod
    def of_batches(
        cls,
        objects: ObjectBatch,
        queries: QueryBatch,
        space: Rect,
        *,
        metric: Metric = "euclidean",
        side: int = DEFAULT_SIDE,
        vocabulary: Vocabulary | None = None,
    ) -> "Statistics":
        """Take statistics from batches: upserted objects and registered queries."""
        objects = objects.take(np.flatnonzero(objects.op == OP_UPSERT))
        queries = queries.take(np.flatnonzero(queries.op == OP_REGISTER))
        span = float(objects.ts[-1] - objects.ts[0]) if len(objects) else 0.0
        sample = ObjectSample(objects.x, objects.y, objects.kw_off, objects.kw, max(span, 1.0))
        near = bool((queries.type == TYPE_KNN).any())
        initial = InitialObjects.of(sample.x, sample.y, sample.kw_off, sample.kw) if near else None
        asked = QuerySample.of_batch(queries, space, metric, sample.span_ms, initial)
        return cls(FineGrid(space, side, side), sample, asked, vocabulary or Vocabulary())


def thinned(rows: int, at_most: int) -> Ints:
    """Return evenly spaced rows, at most so many: a sample of a sample that can be repeated."""
    return np.arange(rows) if rows <= at_most else np.arange(at_most) * rows // at_most
