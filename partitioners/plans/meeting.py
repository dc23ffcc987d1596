"""Where an object and a query meet, and which of the workers reports when there are several.

A plan that divides keywords may bring a matching pair together more than once (a query that wants any of two keywords,
an object that has both). The rule is the same everywhere and needs no message: of the workers that got both, the
first reports. A worker finds out by routing the two once more, for matches only.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from partitioners.columns import Csr, Floats, Ints, Points, Regions, Workers, check_range, column
from partitioners.plans.plan import Plan
from streams.batches import TYPE_TOPK, ObjectBatch, QueryBatch
from streams.geometry import Metric, boxed, region_bounds
from streams.kernel import kernel

__all__ = [
    "first_meeting",
    "keywords_to",
    "regions_of",
    "route_objects",
    "route_queries",
    "route_queries_by_both",
    "united",
]


def route_objects(plan: Plan, objects: ObjectBatch) -> Csr:
    """Return the workers that must see each object of a batch."""
    if not plan.reads_words:
        return plan.route_points(Points.of(objects.x, objects.y))
    return plan.route_points(Points.of(objects.x, objects.y, objects.kw_off, objects.kw))


def route_queries(plan: Plan, queries: QueryBatch, metric: Metric = "euclidean") -> Csr:
    """Return the workers that must hold each query of a batch.

    An unregistration goes where its registration went only if it repeats the registration's columns; a router that
    does not keep them sends it to all workers instead. A top-k query wants any of its keywords.
    """
    return plan.route_regions(regions_of(plan, queries, metric))


def route_queries_by_both(
    old: Plan, new: Plan, queries: QueryBatch, metric: Metric, home: Workers | None = None
) -> tuple[Csr, Csr]:
    """Return the workers of queries under two plans; what they look at is worked out once where both look at the same.

    `home` is who holds each query now, as `Regions` has it.
    """
    regions = regions_of(old, queries, metric, home)
    alike = old.space == new.space and old.reads_words == new.reads_words
    return old.route_regions(regions), new.route_regions(regions if alike else regions_of(new, queries, metric, home))


def keywords_to(plan: Plan, queries: QueryBatch, worker: int, metric: Metric) -> NDArray[np.bool_] | None:
    """Tell of each keyword of topk queries whether an object that has it meets them at a worker; None: not to be told apart."""
    workers_of: Callable[[Regions], Workers | None] | None = getattr(plan, "keyword_workers", None)
    if workers_of is None or not plan.reads_words:
        return None
    found = workers_of(regions_of(plan, queries, metric))
    return None if found is None else np.equal(found, worker)


def regions_of(plan: Plan, queries: QueryBatch, metric: Metric, home: Workers | None = None) -> Regions:
    """Return what a plan looks at in queries."""
    bounds = region_bounds(queries.region, queries.shape, plan.space, metric)
    at = _places(queries, bounds)
    if not plan.reads_words:
        return Regions.of(bounds, number=queries.target, at=at, home=home)
    match_any = queries.match_any | (queries.type == TYPE_TOPK)
    return Regions.of(bounds, queries.kw_off, queries.kw, match_any, number=queries.target, at=at, home=home)


def _places(queries: QueryBatch, bounds: tuple[Floats, Floats, Floats, Floats]) -> tuple[Floats | None, Floats | None]:
    """Return where queries are: a box is at its middle, which needs no saying where all are boxes."""
    rectangle = boxed(queries.region)
    if rectangle.all():
        return None, None
    low_x, low_y, high_x, high_y = bounds
    return (
        np.where(rectangle, low_x / 2 + high_x / 2, queries.shape[:, 0]),
        np.where(rectangle, low_y / 2 + high_y / 2, queries.shape[:, 1]),
    )


def first_meeting(objects: Csr, queries: Csr, object_row: Ints, query_row: Ints) -> Workers:
    """Return for each pair of rows the first worker that both are routed to, or -1 where there is none."""
    check_range("object_row", object_row, 0, len(objects[0]) - 1)
    check_range("query_row", query_row, 0, len(queries[0]) - 1)
    found: Workers = _first_meeting(
        column(objects[0], np.int32), column(objects[1], np.int32), column(queries[0], np.int32),
        column(queries[1], np.int32), column(object_row, np.int64), column(query_row, np.int64),
    )  # fmt: skip
    return found


@kernel
def _first_meeting(
    o_off: Workers, o_worker: Workers, q_off: Workers, q_worker: Workers, object_row: Ints, query_row: Ints
) -> Workers:
    out = np.full(len(object_row), -1, np.int32)
    for pair in range(len(object_row)):
        i, i_end = o_off[object_row[pair]], o_off[object_row[pair] + 1]
        j, j_end = q_off[query_row[pair]], q_off[query_row[pair] + 1]
        while i < i_end and j < j_end:
            if o_worker[i] == q_worker[j]:
                out[pair] = o_worker[i]
                break
            if o_worker[i] < q_worker[j]:
                i += 1
            else:
                j += 1
    return out


def united(a: Csr, b: Csr) -> Csr:
    """Return for each row the workers of both, ascending and distinct: while one plan replaces another, queries go to both."""
    found: Csr = _united(*(column(part, np.int32) for part in (*a, *b)))
    return found


@kernel
def _united(a_off: Workers, a: Workers, b_off: Workers, b: Workers) -> Csr:
    off, out = np.zeros(len(a_off), np.int32), np.empty(len(a) + len(b), np.int32)
    top = 0
    for row in range(len(a_off) - 1):
        i, j = a_off[row], b_off[row]
        while i < a_off[row + 1] or j < b_off[row + 1]:
            first = j == b_off[row + 1] or (i < a_off[row + 1] and a[i] <= b[j])
            worker = a[i] if first else b[j]
            i += i < a_off[row + 1] and a[i] == worker
            j += j < b_off[row + 1] and b[j] == worker
            out[top] = worker
            top += 1
        off[row + 1] = top
    return off, out[:top]
