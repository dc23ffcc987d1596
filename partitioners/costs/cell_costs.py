"""Cost models of the papers that look at cells, boxes and keyword ranges, as pure functions.

SSTD's model by query type is in `partitioners.costs.query_distribution`, that of DkM-SKS in `partitioners.builders.dkm_sks`.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from partitioners.columns import Floats, Ints, Offsets, column
from partitioners.costs.statistics import ObjectSample, QuerySample
from partitioners.grids.fine_grid import FineGrid
from streams.columns import csr_take
from streams.kernel import kernel

__all__ = [
    "cell_costs",
    "cell_costs_of_pairs",
    "cost_variance",
    "largest_cost",
    "node_cost",
    "text_similarity",
    "worker_load",
]

#: Lists of queries are kept by block of cells, so that an object looks at those of its surroundings.
_MAX_BLOCKS_A_SIDE = 64


def cell_costs(grid: FineGrid, objects: ObjectSample, queries: QuerySample, *, here: bool = True) -> Floats:
    """Return Tornado's Equation 1 by cell: the sum over its objects l of q_l, the queries that share a keyword with l.

    The paper counts queries wherever they are (`here=False`). A query that does not reach a cell is never stored with
    it, so by default only those count whose bounds overlap the cell: that is the work an evaluator really has, and
    it grows with the density of both. A query without keywords counts for every object.
    """
    low, high = grid.cells_of(queries.min_x, queries.min_y), grid.cells_of(queries.max_x, queries.max_y)
    step, blocks, row = (
        _blocks(grid, low, high) if here else (max(grid.columns, grid.rows), 0 * low, np.arange(len(low)))
    )
    cell = grid.cells_of(objects.x, objects.y)
    words = np.unique(queries.kw)
    # A list for each block of cells and keyword; the queries without keywords are one keyword more.
    lengths = np.maximum(np.diff(queries.kw_off), 1)[row]
    plain = (np.diff(queries.kw_off) == 0)[row]
    _, kw = csr_take(queries.kw_off, queries.kw, row)
    word = np.full(int(lengths.sum()), len(words), np.int64)
    word[~np.repeat(plain, lengths)] = np.searchsorted(words, kw)
    key = np.repeat(blocks, lengths) * (len(words) + 1) + word
    order = np.argsort(key, kind="stable")
    keys, starts = np.unique(key[order], return_index=True)
    block = cell // grid.columns // step * grid.columns + cell % grid.columns // step
    asked = np.searchsorted(words, objects.kw)
    asked = np.where(np.append(words, -1)[asked] == objects.kw, asked, -1)
    lists = _places(keys, np.repeat(block, np.diff(objects.kw_off)) * (len(words) + 1) + asked)
    found: Floats = _cell_costs(
        cell, column(objects.kw_off, np.int32), column(np.where(asked < 0, -1, lists), np.int64),
        column(_places(keys, block * (len(words) + 1) + len(words)), np.int64),
        column(np.append(starts, len(key)), np.int64), column(np.repeat(row, lengths)[order], np.int64),
        low, high, grid.columns, grid.cells, here,
    )  # fmt: skip
    return found.reshape(grid.rows, grid.columns)


def _places(keys: Ints, wanted: Ints) -> Ints:
    """Return the place of each wanted key among ascending keys, -1 where it is not there."""
    place = np.searchsorted(keys, wanted)
    return np.where(np.append(keys, -1)[place] == wanted, place, -1).astype(np.int64)


def _blocks(grid: FineGrid, low: Ints, high: Ints) -> tuple[int, Ints, Ints]:
    """Return a size of blocks of cells, and the (block, query) pairs of overlap.

    Blocks are as small as the queries allow: at most four pairs a query on average.
    """
    step = max(1, max(grid.columns, grid.rows) // _MAX_BLOCKS_A_SIDE)
    while True:
        x0, x1 = low % grid.columns // step, high % grid.columns // step
        y0, y1 = low // grid.columns // step, high // grid.columns // step
        wide = np.maximum(x1 - x0 + 1, 0)
        pairs = wide * np.maximum(y1 - y0 + 1, 0)
        if pairs.sum() <= 4 * len(low) or step >= max(grid.columns, grid.rows):
            break
        step *= 2
    row = np.repeat(np.arange(len(low)), pairs)
    nth = np.arange(len(row)) - np.repeat(np.cumsum(pairs) - pairs, pairs)
    return (
        step,
        (y0[row] + nth // np.maximum(wide, 1)[row]) * grid.columns + x0[row] + nth % np.maximum(wide, 1)[row],
        row,
    )


@kernel
def _cell_costs(
    cell: Ints,
    kw_off: Offsets,
    lists: Ints,
    plain: Ints,
    list_off: Ints,
    posting: Ints,
    low: Ints,
    high: Ints,
    columns: int,
    cells: int,
    here: bool,
) -> Floats:
    """Count distinct queries in the lists of each object's keywords and in its list of queries without keywords."""
    out = np.zeros(cells)
    stamp = np.full(len(low), -1, np.int64)
    for i in range(len(cell)):
        x, y = cell[i] % columns, cell[i] // columns
        for j in range(kw_off[i], kw_off[i + 1] + 1):
            which = lists[j] if j < kw_off[i + 1] else plain[i]
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
