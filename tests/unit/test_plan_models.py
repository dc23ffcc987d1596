"""Cost models and builders on cases that can be followed by hand."""

from dataclasses import replace

import numpy as np
import pytest

from partitioners import (
    PARTITIONERS,
    AssignmentPlan,
    FineGrid,
    ObjectSample,
    QuerySample,
    Statistics,
    build_plan,
    loads,
    loose_prefixes,
)
from partitioners.builders.dkm_sks import Subscriptions, Subsets, subscription_assignment, subscription_partitioning
from partitioners.columns import Points, Regions
from partitioners.costs.cell_costs import cost_variance, largest_cost, node_cost, text_similarity, worker_load
from partitioners.costs.initial_objects import InitialObjects
from partitioners.costs.query_distribution import (
    MAX_LENGTH,
    QueryDistribution,
    RegionStatistics,
    covered_share,
    spatial_discrepancy,
    split_by_discrepancy,
    workload,
)
from partitioners.costs.statistics import thinned
from partitioners.plans.broadcast import HashPlan
from partitioners.plans.grid_plan import keyword_ranges
from partitioners.plans.qt_tree import SPATIAL, TEXTUAL
from streams.batches import TYPE_KNN, TYPE_RANGE, TYPE_TERMS, ObjectBatch, QueryBatch
from streams.columns import Ids, sorted_rows
from streams.errors import DeclarationError, InputError
from streams.geometry import Rect

SPACE = Rect(0.0, 0.0, 1.0, 1.0)


def _ragged(rows):
    row = np.repeat(np.arange(len(rows)), [len(r) for r in rows]).astype(np.int64)
    return sorted_rows(row, np.array([w for r in rows for w in r], np.int64), len(rows))


def _objects(places, words):
    places = np.array(places, float).reshape(-1, 2)
    return ObjectSample(places[:, 0], places[:, 1], *_ragged(words), span_ms=1000.0)


def _queries(boxes, words, kind=TYPE_RANGE, continuous=True, match_any=False, k=1):
    boxes = np.array(boxes, float).reshape(-1, 4)
    count = len(boxes)
    ones = np.ones(count)
    return QuerySample(
        np.arange(count), np.broadcast_to(np.array(kind, np.uint8), count), np.full(count, continuous),
        np.full(count, match_any), *boxes.T, (boxes[:, 0] + boxes[:, 2]) / 2, (boxes[:, 1] + boxes[:, 3]) / 2,
        np.full(count, k, np.int32), ones / 2, ones * 100, *_ragged(words),
    )  # fmt: skip


def _statistics(objects, queries, side=16):
    return Statistics(FineGrid(SPACE, side, side), objects, queries)


def test_loose_prefix_of_the_papers_example():
    """Example 8 of DSkype: a threshold of 0.5 leaves two of four keywords, the rarest (here the highest ids)."""
    kw_off, kw = np.array([0, 4], np.int32), np.array([10, 11, 12, 13])
    weights = np.array([0.1, 0.3, 0.5, 0.6])
    off, kept = loose_prefixes(kw_off, kw, weights, np.array([0.8]), np.array([0.6]), bound="sum")
    assert (off.tolist(), kept.tolist()) == ([0, 2], [12, 13])


def test_loose_prefix_keeps_all_without_a_score_and_for_pure_distance():
    """With alpha 1, or before k results are known, every keyword counts."""
    kw_off, kw, weights = np.array([0, 2, 4], np.int32), np.array([1, 2, 1, 2]), np.full(4, 0.7)
    _, kept = loose_prefixes(kw_off, kw, weights, np.array([0.0, 0.99]), np.array([0.5, 1.0]))
    assert kept.tolist() == [1, 2, 1, 2]
    with pytest.raises(DeclarationError, match="'sum' or 'norm'"):
        loose_prefixes(kw_off, kw, weights, np.zeros(2), np.zeros(2), bound="max")
    with pytest.raises(DeclarationError, match="a weight for each keyword"):
        loose_prefixes(kw_off, kw, weights[:2], np.zeros(2), np.zeros(2))


def test_node_cost_and_variance_are_equations_15_to_17():
    """N times the share of messages; the mean square distance from the mean."""
    assert node_cost([4, 2], [5, 10], 20).tolist() == [1.0, 1.0]
    assert cost_variance(np.array([1.0, 3.0])) == 1.0
    assert largest_cost(np.array([1.0, 3.0])) == 3.0
    assert largest_cost(np.empty(0)) == 0.0


def test_ps2stream_load_and_similarity():
    """c1 |O||Q| + c2 |O| + c3 |Q| + c4 |Qd|, and the cosine of keyword counts."""
    assert worker_load(3, 4, 5, (2, 10, 100, 1000)) == 2 * 12 + 30 + 400 + 5000
    assert text_similarity(np.array([1, 1, 2]), np.array([1, 1, 2])) == pytest.approx(1.0)
    assert text_similarity(np.array([1]), np.array([2])) == 0.0
    assert text_similarity(np.array([1, 2]), np.array([1])) == pytest.approx(0.5**0.5)
    assert text_similarity(np.empty(0, int), np.array([1])) == 0.0


def test_covered_share_is_equation_1_and_its_form_for_any():
    """Two keywords, each covered with 1/2: all with 1/4, any with 3/4; no keywords always."""
    lengths = np.zeros((2, MAX_LENGTH + 1))
    lengths[0, 2] = 1.0
    assert covered_share(0.5, lengths) == 0.25
    assert covered_share(0.5, lengths[::-1]) == 0.75
    empty = np.zeros((2, MAX_LENGTH + 1))
    empty[:, 0] = [0.25, 0.75]
    assert covered_share(0.0, empty) == 1.0


def test_workload_is_the_sum_of_six_terms():
    """Equation 2, each term with its own share and factor."""
    lengths = np.zeros((2, 2, MAX_LENGTH + 1))
    lengths[:, 0, 1] = 1.0
    region = RegionStatistics(
        np.array([0.5, 0.4, 0.3, 0.2, 0.1, 0.05]), np.empty(0, np.int64), np.empty((2, 0)), lengths,
        np.array([10.0, 20.0, 30.0]),
    )  # fmt: skip
    prior = np.array([0.1, 0.2, 0.3, 0.15, 0.15, 0.1])
    expected = (
        0.1 * 0.5 * 0.6 * 100
        + 0.2 * 0.4 * 0.7 * 100
        + 0.3 * 0.3 * 100
        + 0.15 * 0.2 * 10 * 2
        + 0.15 * 0.1 * 20 * 2
        + 0.1 * 0.05 * 30 * 2
    )
    assert workload(prior, region, 100, 2.0, (0.6, 0.7)) == pytest.approx(expected)


def test_query_distribution_counts_types_words_lengths_and_lives():
    """The statistics of a region come from the queries that overlap it, by type."""
    boxes = [(0, 0, 0.4, 0.4), (0, 0, 1, 1), (0.6, 0.6, 1, 1), (0, 0, 1, 1)]
    words = [[1, 2], [1], [], [3]]
    q = _queries(boxes, words, kind=[TYPE_RANGE, TYPE_RANGE, TYPE_TERMS, TYPE_KNN], continuous=False)
    j = QueryDistribution.of(q)
    assert j.prior.tolist() == [0.5, 0.25, 0.25, 0, 0, 0]
    rows = j.overlapping((0.0, 0.0, 0.5, 0.5), np.arange(4))
    assert rows.tolist() == [0, 1, 3]
    region = j.statistics(rows)
    assert region.overlap.tolist() == [1, 1, 0, 0, 0, 0]
    assert region.words.tolist() == [1, 2, 3]
    assert region.shares == pytest.approx(np.array([[2 / 3, 1 / 3, 0], [0, 0, 1]]))
    assert region.lengths[0, 0, :3].tolist() == [0, 0.5, 0.5]
    later = QueryDistribution.of(_queries(boxes, words))
    assert later.statistics(np.arange(2)).life_ms.tolist() == [100, 0, 0]
    assert j.overlapping((0.4, 0.4, 0.6, 0.6), np.arange(4)).tolist() == [0, 1, 2, 3]


def test_split_rule_is_equation_3():
    """Queries that touch few children call for a spatial split."""
    parent = np.ones(6) / 2
    apart, alike = np.ones((4, 6)) / 8, np.ones((4, 6)) / 2
    assert spatial_discrepancy(parent, apart) == pytest.approx(0.25)
    assert spatial_discrepancy(parent, alike) == pytest.approx(1.0)
    assert spatial_discrepancy(np.zeros(6), alike) == 0.0
    assert split_by_discrepancy(0.25, 0.3) == "spatial"
    assert split_by_discrepancy(0.31, 0.3) == "textual"


def test_qt_tree_divides_by_text_where_space_tells_nothing_apart():
    """Queries over the whole space with one of four words: text separates the objects, space cannot."""
    rng = np.random.default_rng(3)
    objects = _objects(rng.random((200, 2)), [[i % 4] for i in range(200)])
    queries = _queries([(0, 0, 1, 1)] * 4, [[0], [1], [2], [3]], continuous=False)
    plan = build_plan("qt-tree", _statistics(objects, queries), 4, leaves=4)
    assert plan.split[0] == TEXTUAL
    leaf = plan.leaves_of_points(Points.of(objects.x, objects.y, objects.kw_off, objects.kw))
    assert [len(set(leaf[objects.kw == w])) for w in range(4)] == [1, 1, 1, 1]
    assert len(set(leaf.tolist())) == 4
    assert sorted(plan.leaf_worker.tolist()) == [0, 1, 2, 3]


def test_qt_tree_divides_by_space_where_queries_are_small():
    """Small continuous queries without text: quarters separate them."""
    rng = np.random.default_rng(3)
    places = rng.random((200, 2)) * 0.9
    objects = _objects(places, [[0]] * 200)
    queries = _queries(np.hstack([places[:40], places[:40] + 0.02]), [[]] * 40)
    plan = build_plan("qt-tree", _statistics(objects, queries), 3, leaves=10)
    assert set(plan.split.tolist()) == {0, SPATIAL}
    assert plan.leaves == 10
    middle_x, middle_y = plan.middle[0]
    assert (middle_x, middle_y) == (0.5, 0.5)
    assert loads(plan.leaf_cost, plan.leaf_worker, 3).sum() == pytest.approx(plan.leaf_cost.sum())


def test_qt_tree_counts_objects_on_a_middle_line_where_it_routes_them():
    """Objects exactly on the middle belong to the upper quarters: these get the cost, and the objects."""
    objects = _objects([(0.5, 0.5)] * 60 + [(0.5, 0.2)] * 30 + [(0.2, 0.2)] * 10, [[0]] * 100)
    plan = build_plan("quadtree", _statistics(objects, _queries([(0, 0, 1, 1)] * 5, [[0]] * 5)), 4, leaves=4)
    leaf = plan.leaves_of_points(Points.of(np.array([0.5, 0.5, 0.2, 0.2]), np.array([0.5, 0.2, 0.2, 0.5])))
    assert np.argsort(-plan.leaf_cost[leaf]).tolist() == [0, 1, 2, 3]
    assert plan.leaf_cost[leaf[3]] == 0.0


def test_qt_tree_without_queries_balances_objects():
    """No query at all: leaves cost what objects they have."""
    rng = np.random.default_rng(3)
    objects = _objects(rng.random((400, 2)), [[0]] * 400)
    plan = build_plan("qt-tree", _statistics(objects, _queries([], [])), 4, leaves=64)
    load = loads(plan.leaf_cost, plan.leaf_worker, 4)
    assert load.max() <= 1.05 * load.mean()


def test_qt_tree_terminates_on_objects_at_one_place():
    """Objects that no quarter separates are divided by text or left alone."""
    objects = _objects([(0.3, 0.3)] * 50, [[i % 3] for i in range(50)])
    for method in ("both", "spatial", "textual"):
        plan = build_plan(
            "qt-tree", _statistics(objects, _queries([(0, 0, 1, 1)] * 2, [[0], []])), 2, leaves=500, method=method
        )
        assert plan.leaves <= 502
        plan.check()


def test_kdt_tree_divides_by_text_where_objects_and_queries_differ():
    """Objects speak of words that few queries ask for: one box, keywords divided among workers."""
    rng = np.random.default_rng(4)
    objects = _objects(rng.random((300, 2)), [[int(rng.integers(0, 5)), 50 + i % 8] for i in range(300)])
    queries = _queries([(0, 0, 1, 1)] * 80, [[50 + i % 8] for i in range(80)])
    plan = build_plan("kdt-tree", _statistics(objects, queries), 4)
    assert len(plan.boxes) == 1
    assert not plan.meets_once
    bounds = queries.min_x, queries.min_y, queries.max_x, queries.max_y
    off, worker = plan.route_regions(Regions.of(bounds, queries.kw_off, queries.kw, queries.match_any))
    assert np.diff(off).tolist() == [1] * 80
    assert np.bincount(worker, minlength=4).tolist() == [20, 20, 20, 20]


def test_kdt_tree_files_a_query_for_any_keyword_under_each_of_them():
    """A query that wants any of its words is kept at the parts of all of them, and costs more than one that wants all."""
    rng = np.random.default_rng(4)
    objects = _objects(rng.random((300, 2)), [[int(rng.integers(0, 5)), 50 + i % 8, 90 + i % 8] for i in range(300)])
    words = [[50 + i % 8, 90 + i * 3 % 8] for i in range(80)]
    cost = {
        match_any: build_plan(
            "kdt-tree", _statistics(objects, _queries([(0, 0, 1, 1)] * 80, words, match_any=match_any)), 4
        ).cost.sum()
        for match_any in (True, False)
    }
    assert cost[True] > 1.3 * cost[False]


def test_kdt_tree_divides_by_space_where_texts_agree():
    """Objects and queries of the same words: boxes only, so that every object has one worker."""
    rng = np.random.default_rng(4)
    places = rng.random((300, 2))
    objects = _objects(places, [[i % 3] for i in range(300)])
    queries = _queries(np.hstack([places - 0.01, places + 0.01]), [[i % 3] for i in range(300)])
    plan = build_plan("kdt-tree", _statistics(objects, queries), 4)
    assert plan.meets_once
    load = loads(plan.cost, plan.part_worker, 4)
    assert load.max() <= 1.2 * load.min()


def test_kd_plan_literal_and_local_costs_differ():
    """Where all queries are in a corner, the local reading cuts there and the literal one cuts by objects."""
    rng = np.random.default_rng(5)
    objects = _objects(rng.random((400, 2)), [[0]] * 400)
    queries = _queries([(0, 0, 0.2, 0.2)] * 5, [[0]] * 5)
    statistics = _statistics(objects, queries)
    local = build_plan("kd", statistics, 4, object_share=0.0)
    literal = build_plan("kd", statistics, 4, literal=True, object_share=0.0)
    assert (local.boxes[:, :2] < 4).all()
    assert not (literal.boxes[:, :2] < 4).all()
    assert local.cost.max() <= 1.3 * local.cost.mean()
    assert literal.cost.max() <= 1.2 * literal.cost.mean()
    given = Statistics(statistics.grid, objects, queries, cell_cost=np.ones((16, 16)))
    assert build_plan("kd", given, 4, object_share=0.0).cost.tolist() == [64.0] * 4


def test_kd_plan_also_shares_out_the_objects_themselves():
    """The larger their share of the cost, the more evenly objects are divided; the cost in all stays the same."""
    rng = np.random.default_rng(6)
    objects = _objects(rng.random((2_000, 2)), [[0]] * 2_000)
    statistics = _statistics(objects, _queries([(0, 0, 0.2, 0.2)] * 5, [[0]] * 5))
    plans = [build_plan("kd", statistics, 4, object_share=share) for share in (0.0, 0.5, 1.0)]
    points = Points.of(objects.x, objects.y)
    most = [np.bincount(plan.route_points(points)[1], minlength=4).max() for plan in plans]
    assert most[0] > most[1] > most[2]
    assert most[2] < 1.1 * 2_000 / 4
    assert np.ptp([plan.cost.sum() for plan in plans]) < 1e-6 * plans[0].cost.sum()
    with pytest.raises(DeclarationError, match=r"object_share = 1\.5, expected a share from 0 to 1"):
        build_plan("kd", statistics, 4, object_share=1.5)


def test_dkm_sks_divides_near_subscriptions_and_spreads_them():
    """Subsets keep subscriptions of one corner together; the assignment spreads each subset over workers."""
    rng = np.random.default_rng(6)
    objects = _objects(rng.random((400, 2)), [[i % 2] for i in range(400)])
    centre = np.array([(0.2, 0.2), (0.8, 0.8)])[np.arange(40) % 2] + rng.normal(0, 0.02, (40, 2))
    queries = _queries(np.hstack([centre, centre]), [[i % 2] for i in range(40)], kind=TYPE_KNN, match_any=True, k=2)
    statistics = _statistics(objects, queries)
    initial = InitialObjects.of(objects.x, objects.y, objects.kw_off, objects.kw)
    subscriptions = Subscriptions.of(statistics, initial)
    subsets = subscription_partitioning(initial, subscriptions, SPACE, 2, 0)
    assert sorted(map(tuple, (sorted(s.tolist()) for s in subsets))) == [tuple(range(0, 40, 2)), tuple(range(1, 40, 2))]
    worker, costs, load, rects = subscription_assignment(initial, subscriptions, subsets, 4)
    assert len(rects) == 2
    for rows in subsets:
        assert np.bincount(worker[rows], minlength=4).min() >= 3
    assert load.tolist() == pytest.approx(loads(costs, worker, 4).tolist())


def test_dkm_sks_assigns_the_dearest_subset_first():
    """Algorithm 3 step by step: dear subsets first, in each the dear subscriptions first, each to the least loaded worker."""
    rng = np.random.default_rng(8)
    objects = _objects(rng.random((300, 2)), [[i % 2, 2 + i % 5] for i in range(300)])
    places = rng.random((30, 2))
    queries = _queries(np.hstack([places, places]), [[i % 2, 2 + i % 7] for i in range(30)], kind=TYPE_KNN, k=4)
    initial = InitialObjects.of(objects.x, objects.y, objects.kw_off, objects.kw)
    subscriptions = Subscriptions.of(_statistics(objects, queries), initial)
    parts = [np.arange(3), np.arange(3, 21), np.arange(21, 30)]
    subsets = Subsets.of(parts)
    costs = subscriptions.costs(initial, subsets, subscriptions.enclosing(subsets))
    dearest = sorted(range(3), key=lambda which: -costs[parts[which]].sum())
    assert dearest != [0, 1, 2]
    expected, load = np.empty(30, int), np.zeros(4)
    for row in (row for which in dearest for row in sorted(parts[which], key=lambda row: -costs[row])):
        expected[row] = load.argmin()
        load[expected[row]] += costs[row]
    worker, costs_found, loads_found, _ = subscription_assignment(initial, subscriptions, subsets, 4)
    assert worker.tolist() == expected.tolist()
    assert costs_found.tolist() == costs.tolist()
    assert np.allclose(loads_found, load)


def test_dkm_sks_divides_small_subsets_by_cost_when_that_is_no_dearer():
    """Balls that cover everything make space useless: subsets of at most gamma_2 are divided by the greedy algorithm."""
    objects = _objects([(0.5, 0.5)], [[0]])
    boxes = [(x, x, x, x) for x in (0.1, 0.2, 0.3, 0.9)]
    queries = _queries(boxes, [[0]] * 4, kind=TYPE_KNN, match_any=True, k=3)
    statistics = _statistics(objects, queries)
    initial = InitialObjects.of(objects.x, objects.y, objects.kw_off, objects.kw)
    subscriptions = Subscriptions.of(statistics, initial)
    assert subscriptions.ball.tolist() == [[0, 0, 1, 1]] * 4
    by_cost = subscription_partitioning(initial, subscriptions, SPACE, 2, 20)
    assert sorted(map(len, by_cost)) == [1, 1, 1, 1]
    by_space = subscription_partitioning(initial, subscriptions, SPACE, 2, 0)
    assert sorted(map(len, by_space)) == [1, 3]


ASSIGNING = ("kop", "sop", "dkm-sks", "ps2stream")


def test_sop_prices_a_subscription_by_the_share_of_objects_in_its_subset():
    """Equation 3 shared out: two subsets of two, one around nine objects of ten, one around the tenth."""
    objects = _objects([(0.2, 0.2)] * 9 + [(0.8, 0.8)], [[0]] * 10)
    corners = [(x, x, x, x) for x in (0.1, 0.2, 0.8, 0.8)]
    queries = _queries(corners, [[0]] * 4, kind=TYPE_KNN, match_any=True, k=1)
    plan = build_plan("sop", _statistics(objects, queries), 2, subsets_a_worker=1)
    assert plan.cost.tolist() == pytest.approx([0.9, 0.9, 0.1, 0.1])
    assert plan.assigned.tolist() == [0, 0, 1, 1]
    assert plan.load.tolist() == pytest.approx([1.8, 0.2])


def test_ps2stream_divides_by_place_and_counts_subscriptions():
    """Crowds of subscriptions in two corners go to two workers; every one costs the same, whatever objects do."""
    rng = np.random.default_rng(9)
    objects = _objects(rng.random((300, 2)), [[i % 3] for i in range(300)])
    centre = np.array([(0.2, 0.2), (0.8, 0.8)])[np.arange(80) % 2] + rng.uniform(-0.02, 0.02, (80, 2))
    queries = _queries(np.hstack([centre, centre]), [[i % 3] for i in range(80)], kind=TYPE_KNN, match_any=True)
    plan = build_plan("ps2stream", _statistics(objects, queries), 2)
    assert len(set(plan.assigned[::2].tolist())) == len(set(plan.assigned[1::2].tolist())) == 1
    assert plan.load.tolist() == [40.0, 40.0]
    new = _queries([(0.2, 0.2, 0.2, 0.2)] * 2, [[0], []], kind=TYPE_KNN)
    assert plan.costs(new.at_x, new.at_y, new.kw_off, new.kw, new.k, new.match_any).tolist() == [1.0, 1.0]


@pytest.mark.parametrize("name", ASSIGNING)
def test_assignment_knows_what_its_subscriptions_cost(name):
    """C(w) is the sum over the worker's subscriptions, before and after some of them move; strangers are not priced."""
    rng = np.random.default_rng(3)
    objects = _objects(rng.random((200, 2)), [[i % 4] for i in range(200)])
    places = rng.random((50, 2))
    queries = _queries(np.hstack([places, places]), [[i % 5] for i in range(50)], kind=TYPE_KNN, match_any=True, k=3)
    plan = build_plan(name, _statistics(objects, queries), 3)
    later = plan.with_moved([4, 77, -6, 9], [2, 2, 0, 1]).with_units([1, 2], [1, 1])
    assert later.number.tolist() == [-6, *range(50), 77]
    assert np.isnan(later.cost[[0, 51]]).all()
    assert later.cost[1:51].tolist() == plan.cost.tolist()
    for one in (plan, later):
        known = loads(np.nan_to_num(one.cost), one.assigned, 3)
        assert one.load.tolist() == pytest.approx(known.tolist(), abs=1e-6)
    assert later.assigned[[5, 10, 51, 0, 1, 2]].tolist() == [2, 1, 2, 0, 1, 1]


def test_tables_of_subscriptions_ascend_and_name_workers():
    """Otherwise a look-up would miss some of them, or send them nowhere."""
    table = {"number": np.array([1, 5]), "assigned": np.array([0, 1])}
    assigned = build_plan("kop", _statistics(_objects([], []), _queries(np.empty((0, 4)), [])), 2)
    for plan in (HashPlan(Rect(0, 0, 1, 1), 2), replace(assigned, cost=np.empty(0, np.float32))):
        replace(plan, **table)
        for wrong in ({"number": np.array([5, 1])}, {"number": np.array([1, 1])}, {"number": np.array([1, 5, 6])}):
            with pytest.raises(InputError, match=r"one worker for each subscription .* in ascending order of numbers"):
                replace(plan, **table | wrong)
        with pytest.raises(InputError, match="assigned"):
            replace(plan, **table | {"assigned": np.array([0, 2])})


@pytest.mark.parametrize("name", ASSIGNING)
@pytest.mark.parametrize(("objects", "queries", "workers"), [(0, 10, 3), (20, 2, 5), (0, 0, 2), (20, 0, 1)])
def test_assignment_without_objects_or_with_more_workers_than_subscriptions(name, objects, queries, workers):
    """No object says what a subscription costs: they are spread by number; workers without a subscription stay idle."""
    rng = np.random.default_rng(3)
    places = rng.random((queries, 2))
    statistics = _statistics(
        _objects(rng.random((objects, 2)), [[0]] * objects),
        _queries(np.hstack([places, places]), [[0]] * queries, kind=TYPE_KNN, match_any=True),
    )
    plan = build_plan(name, statistics, workers)
    held = np.bincount(plan.assigned, minlength=workers)
    assert held.sum() == queries
    if name in ("kop", "dkm-sks"):
        assert held.max() <= -(-queries // workers)
    new = _queries([(0.5, 0.5, 0.5, 0.5)] * 2, [[0], [7]], kind=TYPE_KNN, match_any=True)
    costs = plan.costs(new.at_x, new.at_y, new.kw_off, new.kw, new.k, new.match_any)
    assert np.isfinite(costs).all()


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("dkm-sks", {"subsets_a_worker": 0}, "at least 1 subset a worker"),
        ("dkm-sks", {"hybrid_at_most": -1}, "of at least 0"),
        ("sop", {"subsets_a_worker": 0}, "at least 1 subset a worker"),
        ("ps2stream", {"balance": 0.5}, "a balance of at least 1"),
    ],
)
def test_assignment_refuses_parameters_that_make_no_subsets(name, options, said):
    """gamma_1, gamma_2, theta and sigma have a least value, which the error says."""
    statistics = _statistics(_objects([(0.5, 0.5)], [[0]]), _queries([(0, 0, 1, 1)], [[0]]))
    with pytest.raises(DeclarationError, match=said):
        build_plan(name, statistics, 2, **options)


@pytest.mark.parametrize("name", ["kop", "sop", "dkm-sks"])
def test_assignment_prices_and_places_new_subscriptions(name):
    """A later subscription costs what the model says and goes to the least loaded worker."""
    rng = np.random.default_rng(7)
    objects = _objects(rng.random((300, 2)), [[i % 5] for i in range(300)])
    centre = rng.random((60, 2))
    queries = _queries(np.hstack([centre, centre]), [[i % 5] for i in range(60)], kind=TYPE_KNN, match_any=True, k=4)
    plan = build_plan(name, _statistics(objects, queries), 3)
    assert isinstance(plan, AssignmentPlan)
    assert np.bincount(plan.assigned, minlength=3).min() > 5
    new = _queries([(0.5, 0.5, 0.5, 0.5)] * 3, [[1], [1, 2], []], kind=TYPE_KNN, match_any=True, k=4)
    costs = plan.costs(new.at_x, new.at_y, new.kw_off, new.kw, new.k, new.match_any)
    assert (costs > 0).all()
    if name == "kop":
        assert costs == pytest.approx([0.2, 0.4, 1.0])
    worker, load = plan.assign(costs, plan.load)
    assert worker[0] == int(plan.load.argmin())
    assert load.sum() == pytest.approx(plan.load.sum() + costs.sum())


def test_assignment_refuses_two_workers_for_one_subscription():
    """Numbers must be distinct, and the cost model one of three."""
    objects = _objects([(0.5, 0.5)], [[0]])
    statistics = _statistics(objects, _queries([(0, 0, 1, 1)] * 2, [[0], [0]]))
    with pytest.raises(InputError, match="did you mean 'hybrid'"):
        AssignmentPlan.of(statistics, 2, "hybrd", np.array([0, 1]), np.zeros(2))
    with pytest.raises(InputError, match=r"expected 0\.\.1"):
        AssignmentPlan.of(statistics, 2, "space", np.array([0, 2]), np.zeros(2))
    with pytest.raises(InputError, match="3 loads"):
        AssignmentPlan.of(statistics, 2, "space", np.array([0, 1]), np.zeros(3))


def test_keyword_ranges_keep_gaps_for_the_hash():
    """A table of keywords becomes ranges; what is between them goes by hash."""
    start, part = keyword_ranges(np.array([2, 3, 4, 7, 9]), np.array([0, 0, 1, 1, 0]))
    assert start.tolist() == [2, 4, 5, 7, 8, 9, 10]
    assert part.tolist() == [0, 1, -1, 1, -1, 0, -1]


def test_build_plan_names_the_nearest_partitioner_and_option():
    """Typos, wrong types and impossible numbers are errors that say what is right."""
    statistics = _statistics(_objects([(0.5, 0.5)], [[0]]), _queries([], []))
    with pytest.raises(DeclarationError, match="did you mean 'qt-tree'"):
        build_plan("qt-treee", statistics, 2)
    with pytest.raises(DeclarationError, match="did you mean 'leaves'"):
        build_plan("qt-tree", statistics, 2, leavs=8)
    with pytest.raises(DeclarationError, match="it has no option"):
        build_plan("hash", statistics, 2, leaves=8)
    with pytest.raises(DeclarationError, match="expected a whole number"):
        build_plan("qt-tree", statistics, 2, leaves="8")
    with pytest.raises(DeclarationError, match="expected a number"):
        build_plan("kdt-tree", statistics, 2, balance=True)
    with pytest.raises(DeclarationError, match="did you mean 'spatial'"):
        build_plan("qt-tree", statistics, 2, method="spatal")
    with pytest.raises(DeclarationError, match="0 workers"):
        build_plan("kd", statistics, 0)
    with pytest.raises(DeclarationError, match="a divisor of 4"):
        build_plan("spatial-first", statistics, 4, boxes=3)
    assert build_plan("keyword-first", statistics, 4, ranges=2).workers == 4
    assert PARTITIONERS["qt-tree"].options() == {"leaves": None, "method": "both"}


def test_statistics_come_from_registrations_and_upserts_only():
    """Deletes and unregistrations are no part of a sample; kNN queries get the box of their ball."""
    rows = np.arange(4)
    objects = ObjectBatch(
        rows, rows * 10, np.array([0.1, 0.2, 0.9, 0.9]), np.full(4, 0.5), np.array([0, 0, 0, 1], np.uint8),
        np.arange(5, dtype=np.int32), np.zeros(4, np.int64), Ids("int", rows),
    )  # fmt: skip
    queries = QueryBatch(
        number=rows[:2], target=rows[:2], op=np.array([0, 1], np.uint8), ts=np.zeros(2, np.int64),
        end=np.array([50, 50]), type=np.full(2, TYPE_KNN, np.uint8), continuous=np.ones(2, np.bool_),
        match_any=np.ones(2, np.bool_), region=np.zeros(2, np.uint8), shape=np.array([[0.1, 0.5, 0, 0]] * 2),
        k=np.full(2, 2, np.int32), alpha=np.zeros(2), window=np.full(2, -1), slide=np.zeros(2, np.int64),
        detect=np.zeros(2, np.uint8), kw_off=np.arange(3, dtype=np.int32), kw=np.zeros(2, np.int64), ids=Ids("int", rows[:2]),
    )  # fmt: skip
    made = Statistics.of_batches(objects, queries, SPACE, side=4)
    assert (len(made.objects), len(made.queries), made.objects.span_ms) == (3, 1, 20.0)
    assert (made.queries.min_x[0], made.queries.max_x[0]) == pytest.approx((0.0, 0.2))
    assert made.queries.life_ms.tolist() == [50.0]
    assert made.objects_by_cell().sum() == 3
    assert made.queries_by_cell()[2, 0] == 1
    with pytest.raises(InputError, match="4 rows of 4 columns"):
        Statistics(made.grid, made.objects, made.queries, cell_cost=np.zeros((2, 2)))


def test_thinned_rows_are_spread_over_all():
    """A thinned sample is evenly spaced and keeps all rows where they are few."""
    assert thinned(5, 9).tolist() == [0, 1, 2, 3, 4]
    assert thinned(10, 4).tolist() == [0, 2, 5, 7]


def test_fine_grid_refuses_impossible_sizes():
    """A grid has at least one cell and a bound."""
    for columns, rows in ((0, 1), (1, -1), (10**6, 10**6)):
        with pytest.raises(DeclarationError, match="fine grid"):
            FineGrid(SPACE, columns, rows)
    boxes = FineGrid(Rect(-1, 0, 3, 2), 4, 4).boxes(np.array([[1, 0, 2, 1], [0, 0, 3, 3]]))
    assert boxes.tolist() == [[0.0, 0.0, 2.0, 1.0], [-1.0, 0.0, 3.0, 2.0]]
