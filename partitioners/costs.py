"""Cost models of the papers that look at cells, boxes and keyword ranges, as pure functions.

SSTD's model by query type is in `partitioners.query_distribution`, that of DkM-SKS in `partitioners.dkm_sks`.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from partitioners.columns import Floats, Ints, Offsets, column, kernel
from partitioners.fine_grid import FineGrid
from partitioners.statistics import ObjectSample, QuerySample

__all__ = [
    "cell_costs",
    "cell_costs_of_pairs",
    "cost_variance",
    "largest_cost",
    "node_cost",
    "text_similarity",
    "worker_load",
]


def cell_costs(grid: FineGrid, objects: ObjectSample, queries: QuerySample, *, here: bool = True) -> Floats:
    """Return Tornado's Equation 1 by cell: the sum over its objects l of q_l, the queries that share a keyword with l.

    The paper counts queries wherever they are (`here=False`). A query that does not reach a cell is never stored with
    it, so by default only those count whose bounds overlap the cell: that is the work an evaluator really has, and
    it grows with the density of both. A query without keywords counts for every object.
    """
    order = np.argsort(queries.kw, kind="stable")
    words, starts = np.unique(queries.kw[order], return_index=True)
    row = np.repeat(np.arange(len(queries)), np.diff(queries.kw_off))[order]
    plain = np.flatnonzero(np.diff(queries.kw_off) == 0)
    # One more list, of the queries without keywords, that every object consults.
    posting = np.concatenate([row, plain])
    list_off = np.concatenate([starts, [len(row), len(posting)]])
    place = np.searchsorted(words, objects.kw)
    lists = np.where(np.append(words, -1)[place] == objects.kw, place, -1)
    low = grid.cells_of(queries.min_x, queries.min_y)
    high = grid.cells_of(queries.max_x, queries.max_y)
    found: Floats = _cell_costs(
        grid.cells_of(objects.x, objects.y), column(objects.kw_off, np.int32), column(lists, np.int64),
        column(list_off, np.int64), column(posting, np.int64), low, high, grid.columns, grid.cells, here,
    )  # fmt: skip
    return found.reshape(grid.rows, grid.columns)


@kernel
def _cell_costs(
    cell: Ints,
    kw_off: Offsets,
    lists: Ints,
    list_off: Ints,
    posting: Ints,
    low: Ints,
    high: Ints,
    columns: int,
    cells: int,
    here: bool,
) -> Floats:
    out = np.zeros(cells)
    stamp = np.full(len(low), -1, np.int64)
    for i in range(len(cell)):
        x, y = cell[i] % columns, cell[i] // columns
        for j in range(kw_off[i], kw_off[i + 1] + 1):
            which = lists[j] if j < kw_off[i + 1] else len(list_off) - 2
            if which < 0:
                continue
            for p in range(list_off[which], list_off[which + 1]):
                q = posting[p]
                if stamp[q] == i:
                    continue
                stamp[q] = i
                reaches = low[q] % columns <= x <= high[q] % columns and low[q] // columns <= y <= high[q] // columns
                if reaches or not here:
                    out[cell[i]] += 1.0
    return out


def cell_costs_of_pairs(
    cells: int,
    object_cell: Ints,
    object_keyword: Ints,
    object_count: ArrayLike,
    query_keyword: Ints,
    query_count: ArrayLike,
    query_cell: Ints | None = None,
) -> Floats:
    """Estimate Tornado's Equation 1 from counts by (cell, keyword), as a cluster aggregates them.

    With `query_cell`, query counts are by (cell, keyword) as well and only queries that reach the cell count. A query
    that shares several keywords with an object counts once for each, because pairs no longer tell them apart.
    """
    if query_cell is None:
        words, place = np.unique(query_keyword, return_inverse=True)
        totals = np.bincount(place, np.asarray(query_count, np.float64), minlength=len(words))
        key, wanted = words, object_keyword
    else:
        both = np.concatenate([object_keyword, query_keyword])
        _, dense = np.unique(both, return_inverse=True)
        pairs = dense.astype(np.int64) * cells + np.concatenate([object_cell, query_cell])
        key, place = np.unique(pairs[len(object_keyword) :], return_inverse=True)
        totals = np.bincount(place, np.asarray(query_count, np.float64), minlength=len(key))
        wanted = pairs[: len(object_keyword)]
    at = np.searchsorted(key, wanted)
    met = np.where(np.append(key, -1)[at] == wanted, np.append(totals, 0.0)[at], 0.0)
    return np.asarray(np.bincount(object_cell, np.asarray(object_count, np.float64) * met, minlength=cells), np.float64)


def largest_cost(costs: Floats) -> float:
    """Return alpha, the largest cost of a partition: what Tornado's initialisation minimises (Equation 3)."""
    return float(costs.max()) if len(costs) else 0.0


def node_cost(subscriptions: ArrayLike, messages: ArrayLike, all_messages: float) -> Floats:
    """Return C(nd) = N(nd) * p(nd), DSkype's Equation 15, and 16 with N and p of keyword sets.

    p is the share of all messages that reaches the node.
    """
    reached = np.asarray(messages, np.float64) / max(all_messages, 1.0)
    return np.asarray(np.asarray(subscriptions, np.float64) * reached)


def cost_variance(costs: Floats) -> float:
    """Return the variance of costs over bolts, DSkype's Equation 17."""
    return float(np.mean((costs - costs.mean()) ** 2))


def worker_load(
    objects: float, inserted: float, deleted: float = 0.0, weights: tuple[float, float, float, float] = (1, 1, 1, 1)
) -> float:
    """Return PS2Stream's load of a worker: c1 |O||Q_i| + c2 |O| + c3 |Q_i| + c4 |Q_d|.

    Matching, handling an object, inserting and deleting a query, each with its measured weight.
    """
    match, handle, insert, delete = weights
    return match * objects * inserted + handle * objects + insert * inserted + delete * deleted


def text_similarity(left: NDArray[np.integer], right: NDArray[np.integer]) -> float:
    """Return the cosine of the keyword counts of two collections; 0 where one has no keyword (PS2Stream's sim_t)."""
    if len(left) == 0 or len(right) == 0:
        return 0.0
    _, place = np.unique(np.concatenate([left, right]), return_inverse=True)
    count = int(place.max()) + 1
    a = np.bincount(place[: len(left)], minlength=count).astype(np.float64)
    b = np.bincount(place[len(left) :], minlength=count).astype(np.float64)
    return float(a @ b) / float(np.sqrt((a @ a) * (b @ b)))
