"""One suite over all partitioners: whatever the statistics, objects meet the queries that they match."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partitioners import (
    PARTITIONERS,
    FineGrid,
    Statistics,
    build_plan,
    first_meeting,
    load,
    route_objects,
    route_queries,
    save,
)
from partitioners.columns import Points
from partitioners.plans.random_changes import random_change
from streams.batches import (
    FOREVER,
    TYPE_KNN,
    TYPE_RANGE,
    TYPE_TERMS,
    TYPE_TOPK,
    ObjectBatch,
    QueryBatch,
)
from streams.columns import Ids, sorted_rows
from streams.geometry import REGION_CIRCLE, REGION_NONE, REGION_RECT, Rect, inside_region
from streams.vocabulary import UNSEEN_BASE, Vocabulary

WORDS = np.array([0, 1, 2, 3, 4, 5, 6, 7, UNSEEN_BASE + 3, UNSEEN_BASE + 10**15])
#: Multiples of 1/8 are borders of most grids that are tried; the odd numbers are between.
LATTICE = np.concatenate([np.arange(9) / 8, np.array([1 / 3, 0.1, 0.7, np.nextafter(0.5, 0), np.nextafter(1.0, 0)])])

worlds = st.builds(
    lambda seed, objects, queries, workers, side, wide: (seed, objects, queries, workers, side, wide),
    st.integers(0, 2**32 - 1),
    st.integers(0, 40),
    st.integers(0, 30),
    st.integers(1, 6),
    st.integers(1, 9),
    st.booleans(),
)


def _space(wide):
    return Rect(-180.0, -90.0, 180.0, 90.0) if wide else Rect(0.0, 0.0, 1.0, 1.0)


def _places(rng, space, count):
    x = space.min_x + rng.choice(LATTICE, count) * (space.max_x - space.min_x)
    y = space.min_y + rng.choice(LATTICE, count) * (space.max_y - space.min_y)
    return np.minimum(x, space.max_x), np.minimum(y, space.max_y)


def _keywords(rng, count, most):
    lengths = rng.integers(0, most + 1, count)
    row = np.repeat(np.arange(count), lengths)
    return sorted_rows(row, rng.choice(WORDS, len(row)), count)


def _objects(rng, space, count):
    x, y = _places(rng, space, count)
    kw_off, kw = _keywords(rng, count, 4)
    rows = np.arange(count)
    return ObjectBatch(rows, rows * 5, x, y, np.zeros(count, np.uint8), kw_off, kw, Ids("int", rows))


def _queries(rng, space, count, first=0):
    kind = rng.choice([TYPE_RANGE, TYPE_KNN, TYPE_TOPK, TYPE_TERMS], count).astype(np.uint8)
    regional = (kind == TYPE_RANGE) | (kind == TYPE_TERMS)
    region = np.where(regional, rng.choice([REGION_RECT, REGION_CIRCLE], count), REGION_NONE).astype(np.uint8)
    x, y = _places(rng, space, count)
    x2, y2 = _places(rng, space, count)
    rect = np.stack([np.minimum(x, x2), np.minimum(y, y2), np.maximum(x, x2), np.maximum(y, y2)], axis=1)
    radius = rng.choice(LATTICE, count) * (space.max_x - space.min_x)
    circle = np.stack([x, y, radius, np.zeros(count)], axis=1)
    shape = np.where((region == REGION_RECT)[:, None], rect, circle)
    kw_off, kw = _keywords(rng, count, 3)
    number = np.arange(first, first + count)
    return QueryBatch(
        number=number, target=number, op=np.zeros(count, np.uint8), ts=np.zeros(count, np.int64),
        end=np.where(rng.random(count) < 0.5, FOREVER, 700), type=kind, continuous=rng.random(count) < 0.5,
        match_any=rng.random(count) < 0.5, region=region, shape=shape, k=rng.integers(1, 4, count).astype(np.int32),
        alpha=rng.random(count), window=np.full(count, -1), slide=np.zeros(count, np.int64),
        detect=np.zeros(count, np.uint8), kw_off=kw_off, kw=kw, ids=Ids("int", number),
    )  # fmt: skip


def _statistics(rng, space, objects, queries, side):
    known = Vocabulary(tuple("abcdefgh"), np.arange(8, 0, -1), 20) if rng.random() < 0.5 else Vocabulary()
    made = Statistics.of_batches(
        _objects(rng, space, objects), _queries(rng, space, queries), space, side=8, vocabulary=known
    )
    return dataclasses.replace(made, grid=FineGrid(space, side, int(rng.integers(1, 9))))


def _matches(objects, queries):
    """Find all matching pairs by definition."""
    pairs = []
    for q in range(len(queries)):
        inside = inside_region(objects.x, objects.y, int(queries.region[q]), tuple(queries.shape[q]))
        wanted = set(queries.kw[queries.kw_off[q] : queries.kw_off[q + 1]].tolist())
        any_will_do = bool(queries.match_any[q]) or queries.type[q] == TYPE_TOPK
        for o in np.flatnonzero(inside):
            has = set(objects.kw[objects.kw_off[o] : objects.kw_off[o + 1]].tolist())
            if not wanted or (wanted & has if any_will_do else wanted <= has):
                pairs.append((o, q))
    return pairs


def _row(routes, row):
    return routes[1][routes[0][row] : routes[0][row + 1]].tolist()


@pytest.mark.parametrize("name", PARTITIONERS)
@settings(max_examples=40, deadline=None)
@given(world=worlds)
def test_partitioner_brings_matching_pairs_together(name, world):
    """Every object meets every query that it matches at some worker, at one only where the plan says so."""
    seed, objects, queries, workers, side, wide = world
    rng, space = np.random.default_rng(seed), _space(wide)
    plan = build_plan(name, _statistics(rng, space, objects, queries, side), workers)
    flow, asked = _objects(rng, space, 30), _queries(rng, space, 25, first=int(rng.integers(0, 40)))
    to, at = route_objects(plan, flow), route_queries(plan, asked)
    pairs = _matches(flow, asked)
    for o, q in pairs:
        both = set(_row(to, o)) & set(_row(at, q))
        assert both
        assert not plan.meets_once or len(both) == 1
    rows = np.array(pairs, np.int64).reshape(-1, 2)
    first = first_meeting(to, at, rows[:, 0], rows[:, 1])
    assert first.tolist() == [min(set(_row(to, o)) & set(_row(at, q))) for o, q in pairs]


@pytest.mark.parametrize("name", PARTITIONERS)
@settings(max_examples=25, deadline=None)
@given(world=worlds, changes=st.integers(1, 12))
def test_changed_plan_brings_matching_pairs_together(name, world, changes):
    """Whatever was cut, merged and moved: pairs meet, once where the plan says so, and a query keeps one home if it had one."""
    seed, objects, queries, workers, side, wide = world
    rng, space = np.random.default_rng(seed), _space(wide)
    first = plan = build_plan(name, _statistics(rng, space, objects, queries, side), max(workers, 2))
    flow, asked = _objects(rng, space, 30), _queries(rng, space, 25, first=int(rng.integers(0, 40)))
    for _ in range(changes):
        plan = random_change(plan, rng) or plan
    assert plan.single_home == first.single_home
    to, at = route_objects(plan, flow), route_queries(plan, asked)
    assert not plan.single_home or (np.diff(at[0]) == 1).all()
    for o, q in _matches(flow, asked):
        both = set(_row(to, o)) & set(_row(at, q))
        assert both
        assert not plan.meets_once or len(both) == 1


@pytest.mark.parametrize("name", PARTITIONERS)
@settings(max_examples=15, deadline=None)
@given(world=worlds)
def test_partitioner_names_distinct_existing_workers_for_every_row(name, world):
    """No object and no query is left without a worker, and rows of workers ascend."""
    seed, objects, queries, workers, side, wide = world
    rng, space = np.random.default_rng(seed), _space(wide)
    plan = build_plan(name, _statistics(rng, space, objects, queries, side), workers)
    flow, asked = _objects(rng, space, 20), _queries(rng, space, 20)
    for off, worker in (route_objects(plan, flow), route_queries(plan, asked)):
        assert off[0] == 0
        assert off[-1] == len(worker)
        assert (np.diff(off) >= 1).all()
        for row in range(len(off) - 1):
            found = _row((off, worker), row)
            assert found == sorted(set(found))
            assert set(found) <= set(range(workers))


def _worded(objects, queries, rng):
    """Return the same rows with other keywords."""
    kw_off, kw = _keywords(rng, len(objects), 4)
    asked_off, asked = _keywords(rng, len(queries), 3)
    return dataclasses.replace(objects, kw_off=kw_off, kw=kw), dataclasses.replace(
        queries, kw_off=asked_off, kw=asked, match_any=~queries.match_any
    )


@pytest.mark.parametrize("name", PARTITIONERS)
@settings(max_examples=15, deadline=None)
@given(world=worlds)
def test_partitioner_reads_words_and_has_one_home_where_it_says_so(name, world):
    """Where a plan says that it reads no words, rows with others are routed alike; where it says one home, there is one."""
    seed, objects, queries, workers, side, wide = world
    rng, space = np.random.default_rng(seed), _space(wide)
    plan = build_plan(name, _statistics(rng, space, objects, queries, side), workers)
    flow, asked = _objects(rng, space, 20), _queries(rng, space, 20)
    other_flow, other_asked = _worded(flow, asked, rng)
    at = route_queries(plan, asked)
    if not plan.reads_words:
        worded = Points.of(flow.x, flow.y, other_flow.kw_off, other_flow.kw)
        assert np.array_equal(plan.route_points(worded)[1], route_objects(plan, flow)[1])
        assert np.array_equal(route_queries(plan, other_asked)[1], at[1])
    if plan.single_home:
        assert np.diff(at[0]).tolist() == [1] * 20
    assert (name in ("hash", "location", "ps2stream", "kop", "sop", "dkm-sks")) <= (
        plan.single_home and not plan.reads_words
    )


@pytest.mark.parametrize("name", PARTITIONERS)
def test_partitioner_survives_a_round_trip_through_a_file(name, tmp_path):
    """A loaded plan has the same arrays and routes alike."""
    rng, space = np.random.default_rng(5), _space(False)
    plan = build_plan(name, _statistics(rng, space, 60, 40, 8), 4)
    save(plan, tmp_path / "a.plan")
    again = load(tmp_path / "a.plan")
    assert type(again) is type(plan)
    assert (again.kind, again.version, again.workers, again.space) == (plan.kind, 1, 4, space)
    for entry in dataclasses.fields(plan):
        value = getattr(plan, entry.name)
        if isinstance(value, np.ndarray):
            assert value.dtype == getattr(again, entry.name).dtype
            assert np.array_equal(value, getattr(again, entry.name))
            assert not getattr(again, entry.name).flags.writeable
    flow, asked = _objects(rng, space, 50), _queries(rng, space, 50)
    for one, two in (
        (route_objects(plan, flow), route_objects(again, flow)),
        (route_queries(plan, asked), route_queries(again, asked)),
    ):
        assert np.array_equal(one[0], two[0])
        assert np.array_equal(one[1], two[1])


@pytest.mark.parametrize("name", PARTITIONERS)
def test_partitioner_is_deterministic_and_independent_of_the_batch(name):
    """Two builds agree, and a row is routed alike alone and in company."""
    rng, space = np.random.default_rng(9), _space(True)
    statistics = _statistics(rng, space, 50, 40, 7)
    one, two = build_plan(name, statistics, 5), build_plan(name, statistics, 5)
    flow, asked = _objects(rng, space, 40), _queries(rng, space, 40)
    to, at = route_objects(one, flow), route_queries(one, asked)
    assert np.array_equal(to[1], route_objects(two, flow)[1])
    assert np.array_equal(at[1], route_queries(two, asked)[1])
    for row in range(40):
        assert route_objects(two, flow.slice(row, row + 1))[1].tolist() == _row(to, row)
        assert route_queries(two, asked.slice(row, row + 1))[1].tolist() == _row(at, row)


@pytest.mark.parametrize("name", PARTITIONERS)
def test_partitioner_routes_no_rows_to_nobody(name):
    """Empty batches are routed to empty rows."""
    rng, space = np.random.default_rng(1), _space(False)
    plan = build_plan(name, _statistics(rng, space, 10, 10, 4), 3)
    for off, worker in (route_objects(plan, ObjectBatch.empty()), route_queries(plan, QueryBatch.empty())):
        assert off.tolist() == [0]
        assert len(worker) == 0
