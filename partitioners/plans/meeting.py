"""Where an object and a query meet, and which of the workers reports when there are several.

A plan that divides keywords may bring a matching pair together more than once (a query that wants any of two keywords,
an object that has both). The rule is the same everywhere and needs no message: of the workers that got both, the
first reports. A worker finds out by routing the two once more, for matches only.
"""

import numpy as np
from numpy.typing import NDArray

from partitioners.columns import Csr, Ints, Points, Regions, Workers, check_range, column, kernel
from partitioners.plans.plan import Plan
from streams.batches import TYPE_TOPK, ObjectBatch, QueryBatch
from streams.geometry import REGION_RECT, Metric, region_bounds

__all__ = ["first_meeting", "route_objects", "route_queries", "united"]


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
    low_x, low_y, high_x, high_y = region_bounds(queries.region, queries.shape, plan.space, metric)
    at_x, at_y = _middle(queries, low_x, high_x, 0), _middle(queries, low_y, high_y, 1)
    bounds = low_x, low_y, high_x, high_y
    if not plan.reads_words:
        return plan.route_regions(Regions.of(bounds, number=queries.target, at=(at_x, at_y)))
    match_any = queries.match_any | (queries.type == TYPE_TOPK)
    return plan.route_regions(
        Regions.of(bounds, queries.kw_off, queries.kw, match_any, number=queries.target, at=(at_x, at_y))
    )


def _middle(queries: QueryBatch, low: NDArray[np.float64], high: NDArray[np.float64], axis: int) -> NDArray[np.float64]:
    rectangle = queries.region == REGION_RECT
    return np.where(rectangle, low / 2 + high / 2, queries.shape[:, axis])


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
