"""The distribution mechanisms of DSkype (Section 7.3) and its two hybrids (Section 8.2), as plans."""

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partitioners.builders.kd_decomposition import Boxes
from partitioners.builders.keyword_partition import Ragged, Ranking, keyword_partition, loose_prefixes
from partitioners.builders.spatial_partition import spatial_partition
from partitioners.columns import Floats, Ints
from partitioners.costs.statistics import Statistics, thinned
from partitioners.grids.fine_grid import FineGrid
from partitioners.plans.grid_plan import GridPlan, KeywordParts
from partitioners.plans.keyword_first import KeywordFirstPlan
from streams.columns import csr_take
from streams.errors import DeclarationError
from streams.geometry import max_distance

__all__ = [
    "estimated_k_scores",
    "keyword_first_plan",
    "keyword_plan",
    "location_plan",
    "prefix_plan",
    "spatial_first_plan",
    "subscription_prefixes",
    "unit_weights",
]

#: Objects that are compared with each subscription for an estimate of its kth score, and pairs held at a time.
_SCORED_OBJECTS = 2_000
_SCORED_PAIRS = 4_000_000


def location_plan(statistics: Statistics, workers: int) -> GridPlan:
    """Build the location-based method: Algorithm 3 over places of subscriptions and messages."""
    boxes, costs = spatial_partition(statistics.queries_by_cell(), statistics.objects_by_cell(), workers)
    return GridPlan.of_boxes(statistics.grid, boxes, np.arange(len(boxes)), workers, costs, anchored=True)


def keyword_plan(statistics: Statistics, workers: int) -> KeywordFirstPlan:
    """Build the keyword-based method: Algorithm 4 over all keywords of subscriptions."""
    return _ranges_plan(statistics, (statistics.queries.kw_off, statistics.queries.kw), workers)


def prefix_plan(statistics: Statistics, workers: int) -> KeywordFirstPlan:
    """Build the prefix-based method: Algorithm 4 over loose prefixes.

    A router passes `loose_prefixes` of its subscriptions instead of all their keywords.
    """
    return _ranges_plan(statistics, subscription_prefixes(statistics), workers)


def _ranges_plan(statistics: Statistics, filed: Ragged, workers: int) -> KeywordFirstPlan:
    """Give each range of keywords one box: so a word that is too hot for one worker can be cut by place."""
    ranking, messages = _ranked(statistics)
    starts, costs = keyword_partition(ranking.ranks(filed), messages, ranking.size, workers)
    box = [[0, 0, statistics.grid.columns - 1, statistics.grid.rows - 1]]
    costs = np.append(costs, np.zeros(workers - len(costs)))
    everyone = [(np.array(box, np.int32), costs[[worker]], np.array([worker])) for worker in range(workers)]
    return _keyword_first(statistics.grid, workers, ranking.parts(starts, np.arange(workers)), everyone)


def _keyword_first(
    grid: FineGrid, workers: int, ranges: KeywordParts, boxes: list[tuple[Boxes, Floats, Ints]]
) -> KeywordFirstPlan:
    """Make a plan of keyword ranges, and for each the boxes, their costs and their workers."""
    cells, costs, owners = (np.concatenate(parts) for parts in zip(*boxes, strict=True))
    return KeywordFirstPlan(
        space=grid.space, workers=workers, columns=grid.columns, rows=grid.rows, range_start=ranges[0],
        range_part=ranges[1], box_off=np.cumsum([0, *(len(one) for one, _, _ in boxes)]), boxes=cells,
        box_worker=owners, cost=costs,
    )  # fmt: skip


def spatial_first_plan(statistics: Statistics, workers: int, *, boxes: int) -> GridPlan:
    """Build the spatial-first hybrid: so many boxes (l1), each with its own keyword ranges (l2 = workers / l1)."""
    inner = _inner(workers, boxes, "boxes")
    cells, _ = spatial_partition(statistics.queries_by_cell(), statistics.objects_by_cell(), boxes)
    q_box = _boxes_of(statistics.grid, cells, statistics.queries.at_x, statistics.queries.at_y)
    ranking, messages = _ranked(statistics)
    prefixes = ranking.ranks(subscription_prefixes(statistics))
    parts: list[KeywordParts] = []
    costs: list[Floats] = []
    for number in range(len(cells)):
        inside = csr_take(*prefixes, np.flatnonzero(q_box == number))
        starts, cost = keyword_partition(inside, messages, ranking.size, inner)
        parts.append(ranking.parts(starts, np.arange(inner) + number * inner))
        costs.append(np.append(cost, np.zeros(inner - len(cost))))
    return GridPlan.of_parts(statistics.grid, cells, parts, workers, np.concatenate(costs), anchored=True)


def keyword_first_plan(statistics: Statistics, workers: int, *, ranges: int) -> KeywordFirstPlan:
    """Build the keyword-first hybrid: so many keyword ranges (l1), each with its own boxes (l2 = workers / l1)."""
    inner = _inner(workers, ranges, "ranges")
    ranking, messages = _ranked(statistics)
    prefixes = ranking.ranks(subscription_prefixes(statistics))
    o, q = statistics.objects, statistics.queries
    starts, _ = keyword_partition(prefixes, messages, ranking.size, ranges)
    grid = statistics.grid
    boxes = []
    for number, (low, high) in enumerate(pairwise([*starts.tolist(), ranking.size])):
        filed, told = _rows_within(prefixes, low, high), _rows_within(messages, low, high)
        cells, cost = spatial_partition(
            grid.counts(q.at_x[filed], q.at_y[filed]), grid.counts(o.x[told], o.y[told]), inner
        )
        boxes.append((cells, cost, np.arange(len(cells)) + number * inner))
    return _keyword_first(grid, workers, ranking.parts(starts, np.arange(len(starts))), boxes)


def _inner(workers: int, outer: int, name: str) -> int:
    if outer < 1 or workers % outer:
        raise DeclarationError(
            f"a hybrid of {workers} workers cannot have {outer} {name}; choose a divisor of {workers}"
        )
    return workers // outer


def _ranked(statistics: Statistics) -> tuple[Ranking, Ragged]:
    """Return the order of keywords and the messages as ranks."""
    o = statistics.objects
    ranking = Ranking.of(len(statistics.vocabulary), o.kw, statistics.queries.kw)
    return ranking, ranking.ranks((o.kw_off, o.kw))


def _rows_within(rows: Ragged, low: int, high: int) -> Ints:
    inside = np.flatnonzero((rows[1] >= low) & (rows[1] < high))
    return np.unique(np.searchsorted(rows[0], inside, side="right") - 1)


def _boxes_of(grid: FineGrid, boxes: Boxes, x: Floats, y: Floats) -> Ints:
    owner = np.empty((grid.rows, grid.columns), np.int64)
    for number, (x0, y0, x1, y1) in enumerate(boxes.tolist()):
        owner[y0 : y1 + 1, x0 : x1 + 1] = number
    return np.asarray(owner.ravel()[grid.cells_of(x, y)])


def subscription_prefixes(statistics: Statistics) -> Ragged:
    """Return the loose prefixes of the sampled subscriptions, their kth scores estimated from the sampled objects."""
    q = statistics.queries
    weights = unit_weights(q.kw_off, statistics.vocabulary.idf(q.kw))
    return loose_prefixes(q.kw_off, q.kw, weights, estimated_k_scores(statistics), q.alpha)


def unit_weights(kw_off: NDArray[np.integer], idf: Floats) -> Floats:
    """Scale the weights of each row to unit length."""
    row = np.repeat(np.arange(len(kw_off) - 1), np.diff(kw_off))
    norms = np.sqrt(np.bincount(row, idf * idf, minlength=len(kw_off) - 1))
    return np.asarray(idf / norms[row])


def estimated_k_scores(statistics: Statistics) -> Floats:
    """Estimate kScore of each sampled subscription: its kth best score among sampled objects, 0 where fewer match.

    A sample knows fewer good messages than a window of the stream, so the estimate is low and the prefixes long: the plan
    is balanced for a load on the safe side. It only weighs costs; a router uses the true kth scores.
    """
    q = statistics.queries
    o = statistics.objects.take(thinned(len(statistics.objects), _SCORED_OBJECTS))
    scores = np.zeros(len(q))
    if len(o) == 0 or len(q) == 0 or len(q.kw) == 0 or len(o.kw) == 0:
        return scores
    from scipy.sparse import csr_array  # of those who build a plan, not of every worker that starts

    words, place = np.unique(np.concatenate([q.kw, o.kw]), return_inverse=True)
    vectors: list[Any] = [
        csr_array((unit_weights(off, statistics.vocabulary.idf(kw)), at, off), shape=(len(off) - 1, len(words)))
        for off, kw, at in ((q.kw_off, q.kw, place[: len(q.kw)]), (o.kw_off, o.kw, place[len(q.kw) :]))
    ]
    farthest = max_distance(statistics.space)
    step = max(1, _SCORED_PAIRS // len(o))
    for start in range(0, len(q), step):
        some = slice(start, min(start + step, len(q)))
        cosine: Floats = np.asarray((vectors[0][some] @ vectors[1].T).toarray(), np.float64)
        far = np.hypot(q.at_x[some, None] - o.x[None, :], q.at_y[some, None] - o.y[None, :])
        score = q.alpha[some, None] * (1 - far / farthest) + (1 - q.alpha[some, None]) * cosine
        score = np.sort(np.where(cosine > 0, score, 0.0), axis=1)[:, ::-1]
        k = q.k[some]
        enough = (k >= 1) & (k <= score.shape[1])
        scores[some] = np.where(enough, score[np.arange(len(k)), np.where(enough, k - 1, 0)], 0.0)
    return scores
