"""Cost models against their definitions, object by object."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partitioners import FineGrid, ObjectSample, QuerySample
from partitioners.builders.keyword_partition import loose_prefixes
from partitioners.costs.cell_costs import cell_costs, cell_costs_of_pairs
from partitioners.costs.initial_objects import InitialObjects
from partitioners.costs.query_distribution import MAX_LENGTH, covered_share
from partitioners.costs.rect_index import RectIndex
from partitioners.costs.subscription_costs import hybrid_costs, keyword_costs, space_costs
from partitioners.plans.qt_routing import split_by_text
from streams.columns import sorted_rows
from streams.geometry import Rect

SPACE = Rect(0.0, 0.0, 1.0, 1.0)
seeds = st.integers(0, 2**32 - 1)


def _keywords(rng, count, most=4, words=6):
    row = np.repeat(np.arange(count), rng.integers(0, most + 1, count))
    return sorted_rows(row, rng.integers(0, words, len(row)), count)


def _places(rng, count):
    return rng.integers(0, 9, count) / 8, rng.integers(0, 9, count) / 8


def _objects(rng, count):
    return ObjectSample(*_places(rng, count), *_keywords(rng, count))


def _queries(rng, count):
    x, y = _places(rng, count)
    half = rng.integers(0, 5, count) / 16
    kw_off, kw = _keywords(rng, count, 3)
    ones = np.ones(count)
    return QuerySample(
        np.arange(count), np.zeros(count, np.uint8), ones > 0, rng.random(count) < 0.5, x - half, y - half, x + half,
        y + half, x, y, np.ones(count, np.int32), ones / 2, ones, kw_off, kw,
    )  # fmt: skip


def _row(off, kw, row):
    return set(kw[off[row] : off[row + 1]].tolist())


@settings(max_examples=60, deadline=None)
@given(seed=seeds, here=st.booleans())
def test_cell_costs_are_equation_1(seed, here):
    """A cell costs, for each object in it, the queries that share a keyword and (here) reach the cell."""
    rng = np.random.default_rng(seed)
    grid, o, q = FineGrid(SPACE, 5, 3), _objects(rng, 20), _queries(rng, 15)
    cell = grid.cells_of(o.x, o.y)
    low, high = grid.cells_of(q.min_x, q.min_y), grid.cells_of(q.max_x, q.max_y)
    expected = np.zeros(15)
    for i in range(20):
        for j in range(15):
            wanted = _row(q.kw_off, q.kw, j)
            reaches = (low[j] % 5 <= cell[i] % 5 <= high[j] % 5) and (low[j] // 5 <= cell[i] // 5 <= high[j] // 5)
            if (not wanted or wanted & _row(o.kw_off, o.kw, i)) and (reaches or not here):
                expected[cell[i]] += 1
    assert cell_costs(grid, o, q, here=here).ravel().tolist() == expected.tolist()


@settings(max_examples=60, deadline=None)
@given(seed=seeds, here=st.booleans())
def test_cell_costs_of_pairs_agree_where_queries_have_one_keyword(seed, here):
    """Counts by cell and keyword give Equation 1 exactly when no query can be met twice."""
    rng = np.random.default_rng(seed)
    grid, o, q = FineGrid(SPACE, 4, 4), _objects(rng, 20), _queries(rng, 15)
    q = q.take(np.flatnonzero(np.diff(q.kw_off) == 1))
    object_cell = np.repeat(grid.cells_of(o.x, o.y), np.diff(o.kw_off))
    query_cell, query_kw = None, q.kw
    if here:
        low, high = grid.cells_of(q.min_x, q.min_y), grid.cells_of(q.max_x, q.max_y)
        reached = [
            [y * 4 + x for y in range(a // 4, b // 4 + 1) for x in range(a % 4, b % 4 + 1)]
            for a, b in zip(low.tolist(), high.tolist(), strict=True)
        ]
        query_cell = np.array([c for cells in reached for c in cells], np.int64)
        query_kw = np.repeat(q.kw, [len(cells) for cells in reached])
    found = cell_costs_of_pairs(16, object_cell, o.kw, np.ones(len(o.kw)), query_kw, np.ones(len(query_kw)), query_cell)
    assert found.tolist() == cell_costs(grid, o, q, here=here).ravel().tolist()


@settings(max_examples=80, deadline=None)
@given(seed=seeds, count=st.integers(0, 60))
def test_initial_objects_count_as_defined(seed, count):
    """P(lambda), |O_R| and |O_{R,lambda}| equal a count of all objects, borders included."""
    rng = np.random.default_rng(seed)
    x, y = _places(rng, count)
    kw_off, kw = _keywords(rng, count)
    initial = InitialObjects.of(x, y, kw_off, kw)
    corners = np.sort(rng.integers(-1, 10, (20, 2, 2)) / 8, axis=1)
    rects = corners.reshape(20, 4)
    rects[0] = [-np.inf, -np.inf, np.inf, np.inf]
    inside = [(x >= a) & (y >= b) & (x <= c) & (y <= d) for a, b, c, d in rects]
    has = [np.array([word in _row(kw_off, kw, i) for i in range(count)], bool) for word in range(7)]
    total = max(count, 1)
    assert initial.frequencies(np.arange(7)).tolist() == [h.sum() / total for h in has]
    assert (space_costs(initial, rects) * total).round().tolist() == [i.sum() for i in inside]
    rect, word = np.repeat(np.arange(20), 7), np.tile(np.arange(7), 20)
    expected = [(inside[r] & has[w]).sum() for r, w in zip(rect, word, strict=True)]
    assert initial.counts_within(rects, rect, word).tolist() == expected


@settings(max_examples=80, deadline=None)
@given(seed=seeds, count=st.integers(0, 80))
def test_ball_radius_is_the_kth_distance(seed, count):
    """B(s) reaches to the kth nearest matching object, or everywhere when fewer match."""
    rng = np.random.default_rng(seed)
    x, y = rng.random(count).round(2), rng.random(count).round(2)
    kw_off, kw = _keywords(rng, count)
    at_x, at_y = rng.random(15) * 1.4 - 0.2, rng.random(15) * 1.4 - 0.2
    q_off, q_kw = _keywords(rng, 15, 3)
    k, match_any = rng.integers(1, 6, 15), rng.random(15) < 0.5
    found = InitialObjects.of(x, y, kw_off, kw).kth_distances(at_x, at_y, q_off, q_kw, k, match_any)
    for s in range(15):
        wanted = _row(q_off, q_kw, s)
        far = []
        for i in range(count):
            has = _row(kw_off, kw, i)
            if not wanted or (wanted & has if match_any[s] else wanted <= has):
                far.append(math.sqrt((x[i] - at_x[s]) ** 2 + (y[i] - at_y[s]) ** 2))
        far.sort()
        assert found[s] == pytest.approx(far[k[s] - 1] if len(far) >= k[s] else math.inf, rel=1e-12, abs=1e-12)


@settings(max_examples=30, deadline=None)
@given(seed=seeds, spread=st.sampled_from([1.0, 0.01, 0.0]))
def test_lists_with_grids_of_their_own_answer_as_a_look_at_all_objects(seed, spread):
    """Counts and kth distances of thousands of objects, crowded or at one place, asked from near and far."""
    rng = np.random.default_rng(seed)
    x, y = (np.where(rng.random(3000) < 0.7, 0.3 + spread * rng.random(3000), rng.random(3000)).round(3) for _ in "xy")
    word = rng.integers(0, 4, 3000) ** 2  # 0, 1, 4, 9
    initial = InitialObjects.of(x, y, np.arange(3001, dtype=np.int32), word)
    assert initial.side.max() > 20
    rects = np.sort(rng.random((40, 2, 2)).round(3) * 1.4 - 0.2, axis=1).reshape(40, 4)
    rects[:4] = [[-1, -1, 2, 2], [0.3, 0.3, 0.3, 0.3], [0.3, -1, 0.31, 2], [-1, 0.3, 2, 0.31]]
    inside = [(x >= a) & (y >= b) & (x <= c) & (y <= d) for a, b, c, d in rects]
    asked = np.array([0, 1, 4, 9, 5])
    found = initial.counts_within(rects, np.repeat(np.arange(40), 5), np.tile(asked, 40)).reshape(40, 5)
    assert found.tolist() == [[int((one & (word == w)).sum()) for w in asked] for one in inside]
    assert initial.counts_within(rects, np.arange(40), None).tolist() == [int(one.sum()) for one in inside]
    at_x, at_y, k = rng.random(40) * 3 - 1, rng.random(40) * 3 - 1, rng.integers(1, 30, 40)
    first = rng.integers(0, 4, 40)
    q_kw = np.stack([asked[first], asked[first + 1]], axis=1)
    radius = initial.kth_distances(at_x, at_y, np.arange(0, 81, 2), q_kw.ravel(), k, np.ones(40, np.bool_))
    for s in range(40):
        far = np.sort(np.hypot(x - at_x[s], y - at_y[s])[np.isin(word, q_kw[s])])
        assert radius[s] == pytest.approx(far[k[s] - 1], rel=1e-12, abs=1e-12)


@settings(max_examples=60, deadline=None)
@given(seed=seeds)
def test_subscription_costs_are_equations_1_and_5(seed):
    """C(s) adds up, over keywords, the share of objects that have it (within R)."""
    rng = np.random.default_rng(seed)
    o = _objects(rng, 30)
    initial = InitialObjects.of(o.x, o.y, o.kw_off, o.kw)
    q_off, q_kw = _keywords(rng, 12)
    rects = np.sort(rng.integers(0, 9, (4, 2, 2)) / 8, axis=1).reshape(4, 4)
    rect_of = rng.integers(0, 4, 12)
    by_word, by_both = keyword_costs(initial, q_off, q_kw), hybrid_costs(initial, rects, rect_of, q_off, q_kw)
    for s in range(12):
        words = _row(q_off, q_kw, s)
        a, b, c, d = rects[rect_of[s]]
        inside = [i for i in range(30) if a <= o.x[i] <= c and b <= o.y[i] <= d]
        have = [_row(o.kw_off, o.kw, i) for i in range(30)]
        everywhere = sum(w in h for w in words for h in have) / 30 if words else 1.0
        within = sum(w in have[i] for w in words for i in inside) / 30 if words else len(inside) / 30
        assert by_word[s] == pytest.approx(everywhere)
        assert by_both[s] == pytest.approx(within)


def _first_of_largest_overlap(rects, new):
    """Look at all rectangles, as Equation 7 is written; -1 where none touches."""
    found = []
    for a, b, c, d in new:
        wide = np.minimum(rects[:, 2], c) - np.maximum(rects[:, 0], a)
        high = np.minimum(rects[:, 3], d) - np.maximum(rects[:, 1], b)
        area = np.where((wide >= 0) & (high >= 0), wide * high, -1.0)
        found.append(int(area.argmax()) if len(area) and area.max() >= 0 else -1)
    return found


@settings(max_examples=60, deadline=None)
@given(seed=seeds, count=st.integers(0, 700), grain=st.sampled_from([4, 8, 1000]))
def test_nearest_rectangle_overlaps_most(seed, count, grain):
    """Equation 7 picks the first rectangle of the largest overlap, none where none touches; sizes from a point to the space."""
    rng = np.random.default_rng(seed)

    def rects_of(rows):
        centre, half = rng.integers(0, grain + 1, (rows, 2)) / grain, 2.0 ** -rng.integers(0, 12, (rows, 1))
        half = half * (rng.random((rows, 1)) < 0.9) * rng.choice([1.0, 0.5, 3.0], (rows, 2))
        return np.hstack([np.clip(centre - half, 0, 1), np.clip(centre + half, 0, 1)])

    rects, new = rects_of(count), rects_of(30)
    index = RectIndex.of(rects)
    assert index.overlapping_most(new).tolist() == _first_of_largest_overlap(rects, new)
    assert index.overlapping_most(new + 2.0).tolist() == [-1] * 30


@settings(max_examples=100, deadline=None)
@given(seed=seeds, bound=st.sampled_from(["sum", "norm"]))
def test_loose_prefix_never_hides_a_message_that_counts(seed, bound):
    """A message that reaches the kth score shares a keyword with the prefix, wherever it is."""
    rng = np.random.default_rng(seed)
    rows = 10
    kw_off, kw = _keywords(rng, rows, 5, 8)
    idf = rng.random(8) + 0.1
    alpha, k_score = rng.random(rows).round(1), rng.random(rows)

    def unit(words):
        length = math.sqrt(sum(idf[w] ** 2 for w in words))
        return {w: idf[w] / length for w in words}

    weights = np.array([unit(_row(kw_off, kw, s))[w] for s in range(rows) for w in sorted(_row(kw_off, kw, s))])
    off, kept = loose_prefixes(kw_off, kw, weights.reshape(-1), k_score, alpha, bound=bound)
    for s in range(rows):
        words, prefix = _row(kw_off, kw, s), _row(off, kept, s)
        assert prefix <= words
        for _ in range(10):
            message = unit(set(rng.integers(0, 8, 3).tolist()))
            if not words & set(message):
                continue
            cosine = sum(unit(words)[w] * message[w] for w in words & set(message))
            if alpha[s] + (1 - alpha[s]) * cosine >= k_score[s]:
                assert prefix & set(message)


@settings(max_examples=60, deadline=None)
@given(seed=seeds)
def test_text_split_takes_the_smallest_increment(seed):
    """Every object goes to the child whose workload grows least, ties to the child of fewest objects."""
    rng = np.random.default_rng(seed)
    kw_off, kw = _keywords(rng, 25)
    shares = rng.random((2, 6))
    shares /= shares.sum(axis=1, keepdims=True)
    lengths = rng.random((2, 2, MAX_LENGTH + 1))
    lengths /= lengths.sum(axis=(1, 2), keepdims=True)
    weight = rng.random(2) * (rng.random(2) < 0.8)
    place = np.where(rng.random(len(kw)) < 0.2, -1, kw)
    child, bits, held, objects = split_by_text(kw_off.astype(np.int64), place, shares, weight, lengths)
    lists, counts = [set() for _ in range(4)], [0] * 4

    def work(words, count):
        h = shares[:, sorted(words)].sum(axis=1)
        return sum(weight[t] * covered_share(h[t], lengths[t]) * count for t in (0, 1))

    for i in range(25):
        words = {int(w) for w in place[kw_off[i] : kw_off[i + 1]] if w >= 0}
        grown = [work(lists[c] | words, counts[c] + 1) - work(lists[c], counts[c]) for c in range(4)]
        assert grown[child[i]] == pytest.approx(min(grown), abs=1e-9)
        lists[child[i]] |= words
        counts[child[i]] += 1
    assert objects.tolist() == counts
    for c in range(4):
        assert {w for w in range(6) if bits[w] >> c & 1} == lists[c]
        assert held[c] == pytest.approx(shares[:, sorted(lists[c])].sum(axis=1))


@pytest.mark.parametrize("line", ["x", "y", "both"])
def test_many_objects_on_a_line_or_at_a_point_are_counted_and_found(line):
    """The grid of their list has no width: questions from either side, and from beyond, get what there is."""
    count = 300
    along = np.linspace(0.25, 0.75, count)
    x = np.full(count, 0.5) if line in ("x", "both") else along
    y = np.full(count, 0.5) if line in ("y", "both") else along
    o = InitialObjects.of(x, y, np.arange(count + 1, dtype=np.int32), np.zeros(count, np.int64))
    at = np.array([[0.1, 0.1], [0.5, 0.5], [0.9, 0.6], [0.6, 0.9]])
    k = np.array([1, 40, 300, 300])
    found = o.kth_distances(
        at[:, 0], at[:, 1], np.arange(5, dtype=np.int32), np.zeros(4, np.int64), k, np.ones(4, np.bool_)
    )
    apart = np.sort(np.hypot(at[:, :1] - x, at[:, 1:] - y), axis=1)
    assert found.tolist() == pytest.approx(apart[np.arange(4), k - 1].tolist())
    rects = np.array([[0.0, 0.0, 1.0, 0.6], [0.0, 0.3, 0.6, 1.0], [0.5, 0.4, 0.9, 0.6], [0.6, 0.6, 0.9, 0.9]])
    inside = [int(((a <= x) & (x <= c) & (b <= y) & (y <= d)).sum()) for a, b, c, d in rects.tolist()]
    assert o.counts_within(rects, np.arange(4), None).tolist() == inside
