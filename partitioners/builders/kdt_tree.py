"""PS2Stream's kd^t-tree (Chen et al., ICDE 2017; SSTD, Section 7.1): a k-d tree whose leaves may be divided by text.

Dividing by text pays where objects and queries speak of different things: most objects then touch few of the keywords
that queries are filed under. Dividing by space pays elsewhere. The construction has three steps: find regions of one
or the other kind by the similarity of texts, give each a number of parts so that the total load is least, and cut the
heaviest part further until the workers are balanced.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from partitioners.builders.kd_decomposition import Box
from partitioners.columns import Floats, Ints, Offsets
from partitioners.costs.allocation import greedy, loads
from partitioners.costs.cell_costs import text_similarity, worker_load
from partitioners.costs.statistics import Statistics, thinned
from partitioners.plans.grid_plan import GridPlan, KeywordParts, keyword_ranges
from streams.columns import csr_take
from streams.errors import DeclarationError

__all__ = ["kdt_tree_plan"]

#: A region is cut further only if that lowers the similarity of texts on one side to this share.
_TELLING = 0.9
#: Objects and queries that are counted; larger samples are thinned out.
_COUNTED = 20_000
#: The most parts a worker gets before balancing gives up.
_PARTS_A_WORKER = 8


@dataclass(frozen=True, slots=True, eq=False)
class _Cells:
    """Objects and queries in cells: places, the cells that bounds reach, and the keywords that queries are filed under."""

    place: Ints
    low: Ints
    high: Ints
    object_off: Offsets
    object_kw: Ints
    query_off: Offsets
    query_kw: Ints
    filed_off: Offsets
    filed_kw: Ints

    @classmethod
    def of(cls, statistics: Statistics) -> "_Cells":
        grid, o, q = statistics.grid, statistics.objects, statistics.queries

        def cells(x: Floats, y: Floats) -> Ints:
            number = grid.cells_of(x, y)
            return np.stack([number % grid.columns, number // grid.columns])

        last = np.arange(len(q.kw)) == np.repeat(q.kw_off[1:] - 1, np.diff(q.kw_off))
        filed = last | np.repeat(q.match_any, np.diff(q.kw_off))
        filed_off = np.concatenate([[0], np.cumsum(filed)])[q.kw_off].astype(np.int32)
        return cls(
            cells(o.x, o.y), cells(q.min_x, q.min_y), cells(q.max_x, q.max_y), o.kw_off, o.kw, q.kw_off, q.kw,
            filed_off, q.kw[filed],
        )  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class _Piece:
    """A box with its objects and queries; more than one part means that it is divided by text."""

    box: Box
    objects: Ints
    queries: Ints
    parts: int = 1
    textual: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class _Divided:
    """A piece with its keywords in parts and the load of each part."""

    piece: _Piece
    words: Ints
    part: NDArray[np.int32]
    load: Floats


def kdt_tree_plan(statistics: Statistics, workers: int, *, similarity: float = 0.5, balance: float = 1.2) -> GridPlan:
    """Build a kd^t-tree.

    Args:
        statistics: samples of objects and queries.
        workers: the number of workers.
        similarity: delta; a region whose texts are at most this similar (cosine) is divided by text.
        balance: sigma; parts are cut until the largest load is at most this times the smallest.
    """
    if not 0 <= similarity <= 1 or balance < 1 or workers < 1:
        raise DeclarationError(
            f"a kd^t-tree with similarity {similarity}, balance {balance} for {workers} workers; expected a similarity "
            "between 0 and 1, a balance of at least 1 and at least 1 worker"
        )
    statistics = replace(
        statistics,
        objects=statistics.objects.take(thinned(len(statistics.objects), _COUNTED)),
        queries=statistics.queries.take(thinned(len(statistics.queries), _COUNTED)),
    )
    cells = _Cells.of(statistics)
    regions = _regions(cells, statistics, workers, similarity)
    pieces = _numbered(cells, regions, workers)
    pieces, worker = _balanced(cells, pieces, workers, balance)
    parts: list[KeywordParts] = []
    first = 0
    for divided in pieces:
        own = worker[first : first + len(divided.load)]
        parts.append((*keyword_ranges(divided.words, divided.part), own))
        first += len(own)
    boxes = np.array([divided.piece.box for divided in pieces], np.int32)
    return GridPlan.of_parts(
        statistics.grid, boxes, parts, workers, np.concatenate([divided.load for divided in pieces])
    )


def _similarity(cells: _Cells, piece: _Piece) -> float:
    return text_similarity(
        csr_take(cells.object_off, cells.object_kw, piece.objects)[1],
        csr_take(cells.query_off, cells.query_kw, piece.queries)[1],
    )


def _regions(cells: _Cells, statistics: Statistics, workers: int, similarity: float) -> list[_Piece]:
    """Find regions to divide by text and regions to divide by space."""
    grid = statistics.grid
    whole = (0, 0, grid.columns - 1, grid.rows - 1)
    waiting = [_Piece(whole, np.arange(len(statistics.objects)), np.arange(len(statistics.queries)))]
    found: list[_Piece] = []
    while waiting:
        piece = waiting.pop(0)
        alike = _similarity(cells, piece)
        halves = None
        if alike > similarity and len(waiting) + len(found) + 2 <= workers:
            halves = _cut(cells, piece)
        if halves is not None and min(_similarity(cells, half) for half in halves) <= _TELLING * alike:
            waiting.extend(halves)
        else:
            text = alike <= similarity and len(piece.queries) > 0
            found.append(_Piece(piece.box, piece.objects, piece.queries, textual=text))
    return found


def _cut(cells: _Cells, piece: _Piece) -> tuple[_Piece, _Piece] | None:
    """Cut a box in two where the larger load is least; None for a single cell."""
    best: tuple[float, int, int, int] | None = None
    for axis in (0, 1):
        low, high = piece.box[axis], piece.box[axis + 2]
        size = high - low + 1
        if size == 1:
            continue
        objects = np.cumsum(np.bincount(cells.place[axis, piece.objects] - low, minlength=size))[:-1]
        starts = np.clip(cells.low[axis, piece.queries] - low, 0, size - 1)
        ends = np.clip(cells.high[axis, piece.queries] - low, 0, size - 1)
        left = np.cumsum(np.bincount(starts, minlength=size))[:-1]
        right = len(piece.queries) - np.cumsum(np.bincount(ends, minlength=size))[:-1]
        larger = np.maximum(_load(objects, left), _load(len(piece.objects) - objects, right))
        uneven = np.abs(2 * np.arange(1, size) - size)
        place = int(np.lexsort((uneven, larger))[0])
        choice = (float(larger[place]), int(uneven[place]), axis, low + place)
        best = choice if best is None else min(best, choice)
    if best is None:
        return None
    _, _, axis, last = best
    first_box, second_box = list(piece.box), list(piece.box)
    first_box[axis + 2], second_box[axis] = last, last + 1
    before = cells.place[axis, piece.objects] <= last
    return (
        _Piece(_box(first_box), piece.objects[before], piece.queries[cells.low[axis, piece.queries] <= last]),
        _Piece(_box(second_box), piece.objects[~before], piece.queries[cells.high[axis, piece.queries] > last]),
    )


def _box(edges: list[int]) -> Box:
    return edges[0], edges[1], edges[2], edges[3]


def _load(objects: Ints, queries: Ints) -> Floats:
    """PS2Stream's load of a worker, as `costs.worker_load`, over columns."""
    return np.asarray(objects * queries + objects + queries, np.float64)


def _divided(cells: _Cells, piece: _Piece) -> _Divided:
    """Put the keywords that queries are filed under into parts of like load, and count the load of each part.

    A keyword costs the objects that have it times the queries filed under it. An object counts for every part in
    which it has such a keyword; routers that keep a summary of query keywords drop the rest, as PS2Stream does.
    """
    if not piece.textual or piece.parts == 1:
        load = np.array([worker_load(len(piece.objects), len(piece.queries))])
        return _Divided(piece, np.empty(0, np.int64), np.empty(0, np.int32), load)
    f_off, filed = csr_take(cells.filed_off, cells.filed_kw, piece.queries)
    o_off, kw = csr_take(cells.object_off, cells.object_kw, piece.objects)
    words, queries = np.unique(filed, return_counts=True)
    place = np.searchsorted(words, kw)
    asked = np.append(words, -1)[place] == kw
    objects = np.bincount(place[asked], minlength=len(words))
    part = greedy(_load(objects, queries), piece.parts)
    met = _distinct_rows(o_off, asked, part[place[asked]], piece.parts)
    kept = _distinct_rows(f_off, np.ones(len(filed), np.bool_), part[np.searchsorted(words, filed)], piece.parts)
    plain = int((np.diff(f_off) == 0).sum())
    return _Divided(piece, words, part, _load(met, kept + plain))


def _distinct_rows(off: Offsets, kept: NDArray[np.bool_], part: NDArray[np.int32], parts: int) -> Ints:
    row = np.repeat(np.arange(len(off) - 1), np.diff(off))[kept]
    pairs = np.unique(row * parts + part)
    return np.bincount(pairs % parts, minlength=parts)


def _spreads(cells: _Cells, region: _Piece, most: int) -> list[list[_Divided]]:
    """Divide a region into 1, 2, ... parts: a text region by text, another by space or by text, whichever loads less."""
    pieces = [_divided(cells, _Piece(region.box, region.objects, region.queries))]
    found = []
    for parts in range(1, most + 1):
        by_text = [_divided(cells, _Piece(region.box, region.objects, region.queries, parts, True))]
        if region.textual:
            found.append(by_text)
            continue
        if parts > 1:
            pieces.sort(key=_total)
            halves = _cut(cells, pieces[-1].piece)
            if halves is not None:
                pieces = pieces[:-1] + [_divided(cells, half) for half in halves]
        found.append(min(list(pieces), by_text, key=lambda choice: sum(map(_total, choice))))
    return found


def _total(divided: _Divided) -> float:
    return float(divided.load.sum())


def _numbered(cells: _Cells, regions: list[_Piece], workers: int) -> list[_Divided]:
    """Give each region a number of parts, together as many as workers, so that the total load is least.

    Dynamic programming over regions: `least[n]` is the smallest total load of the regions so far with n parts.
    """
    spare = workers - len(regions)
    options = [_spreads(cells, region, spare + 1) for region in regions]
    totals = np.array([[sum(map(_total, choice)) for choice in region] for region in options])
    least = np.zeros(1)
    chosen: list[Ints] = []
    for row in totals:
        table = least[:, None] + row[None, :]
        sums = np.full(spare + 1, np.inf)
        picks = np.zeros(spare + 1, np.int64)
        for used in range(len(least)):
            for extra in range(spare + 1 - used):
                if table[used, extra] < sums[used + extra]:
                    sums[used + extra], picks[used + extra] = table[used, extra], extra
        least = sums
        chosen.append(picks)
    left = int(np.flatnonzero(np.isfinite(least))[-1])
    found: list[_Divided] = []
    for region, picks in zip(reversed(options), reversed(chosen), strict=True):
        found.extend(region[int(picks[left])])
        left -= int(picks[left])
    return found


def _balanced(
    cells: _Cells, pieces: list[_Divided], workers: int, balance: float
) -> tuple[list[_Divided], NDArray[np.int32]]:
    """Cut the heaviest part until the largest load is at most `balance` times the smallest; keep the best seen."""
    best: tuple[float, list[_Divided], NDArray[np.int32]] | None = None
    while True:
        costs = np.concatenate([divided.load for divided in pieces])
        worker = greedy(costs, workers)
        load = loads(costs, worker, workers)
        if best is None or load.max() < best[0]:
            best = (float(load.max()), pieces, worker)
        if load.max() <= balance * load.min() or len(costs) >= _PARTS_A_WORKER * workers:
            break
        heaviest = max(range(len(pieces)), key=lambda number: float(pieces[number].load.max()))
        finer = _finer(cells, pieces[heaviest])
        if finer is None:
            break
        pieces = pieces[:heaviest] + finer + pieces[heaviest + 1 :]
    return best[1], best[2]


def _finer(cells: _Cells, divided: _Divided) -> list[_Divided] | None:
    """Divide a piece once more, by space or by text, whichever leaves the smaller largest part."""
    piece = divided.piece
    choices = []
    more = _divided(cells, _Piece(piece.box, piece.objects, piece.queries, piece.parts + 1, True))
    if len(more.words) > piece.parts:
        choices.append([more])
    halves = None if piece.parts > 1 else _cut(cells, piece)
    if halves is not None:
        choices.append([_divided(cells, half) for half in halves])
    return min(choices, key=lambda parts: max(float(d.load.max()) for d in parts), default=None)
