"""Changes of plans: every kind moves, stays whole, and its successor is what its difference makes of it."""

import dataclasses
from typing import ClassVar

import numpy as np
import pytest
from hostile import damaged
from hypothesis import given, settings
from hypothesis import strategies as st

from partitioners import PARTITIONERS, FineGrid, HashPlan, ReplicatePlan, build_plan
from partitioners.columns import Points, Regions
from partitioners.costs.statistics import ObjectSample, QuerySample, Statistics
from partitioners.plans.frames import FRAME_HEAD, digest
from partitioners.plans.plan import pack, plan_fields, successor
from partitioners.plans.plan_change import change_between, changed, pack_change, unpack_change
from partitioners.plans.random_changes import random_change
from streams.columns import sorted_rows
from streams.errors import InputError
from streams.geometry import Rect

SPACE = Rect(0.0, 0.0, 1.0, 1.0)


def _words(rng, rows):
    row = np.repeat(np.arange(rows), rng.integers(0, 4, rows))
    return sorted_rows(row, rng.integers(0, 12, len(row)), rows)


def _statistics(seed):
    rng = np.random.default_rng(seed)
    objects = ObjectSample(rng.random(60), rng.random(60), *_words(rng, 60))
    low = rng.random((2, 40))
    high = low + rng.random((2, 40)) * 0.3
    kw_off, kw = _words(rng, 40)
    queries = QuerySample(
        number=np.sort(rng.choice(200, 40, replace=False)), type=rng.integers(0, 4, 40).astype(np.uint8),
        continuous=np.ones(40, bool), match_any=rng.random(40) < 0.5, min_x=low[0], min_y=low[1], max_x=high[0],
        max_y=high[1], at_x=low[0], at_y=low[1], k=np.ones(40, np.int32), alpha=np.full(40, 0.5), life_ms=np.full(40, 9.0),
        kw_off=kw_off, kw=kw,
    )  # fmt: skip
    return Statistics(FineGrid(SPACE, 8, 8), objects, queries)


PLANS = {name: {workers: build_plan(name, _statistics(3), workers) for workers in (1, 4)} for name in PARTITIONERS}


def _same(one, two):
    """Compare plans bit by bit, with all that was worked out of their fields."""
    assert pack(one) == pack(two)
    for entry in dataclasses.fields(one):
        a, b = getattr(one, entry.name), getattr(two, entry.name)
        if isinstance(a, np.ndarray):
            assert a.dtype == b.dtype
            assert not b.flags.writeable
            assert np.array_equal(a, b, equal_nan=a.dtype.kind == "f")


def _routes(plan, seed):
    rng = np.random.default_rng(seed)
    points = Points.of(rng.random(40), rng.random(40), *_words(rng, 40))
    low = rng.random((2, 40))
    bounds = low[0], low[1], low[0] + 0.2, low[1] + 0.2
    regions = Regions.of(bounds, *_words(rng, 40), rng.random(40) < 0.5, rng.permutation(210)[:40])
    return [part.tolist() for routes in (plan.route_points(points), plan.route_regions(regions)) for part in routes]


@pytest.mark.parametrize("name", PARTITIONERS)
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_plan_is_what_its_difference_makes_of_the_one_before(name, seed):
    """Through bytes and back, a change makes the next version bit for bit, and it routes alike."""
    rng = np.random.default_rng(seed)
    plan = PLANS[name][4]
    for _ in range(3):
        following = random_change(plan, rng)
        if following is None:
            assert name == "replicate"
            return
        following.check()
        assert following.version == plan.version + 1
        moves_only = not hasattr(plan, "divided") and name not in ("hash", "kop", "sop", "dkm-sks")
        assert not moves_only or not np.array_equal(following.unit_worker, plan.unit_worker)
        again = changed(plan, unpack_change(pack_change(change_between(plan, following))))
        assert type(again) is type(plan)
        _same(following, again)
        assert _routes(following, seed) == _routes(again, seed)
        # What a plan takes over from the one before is what it would have worked out by itself.
        fresh = type(plan)(workers=plan.workers, version=following.version, **plan_fields(following))
        assert _routes(fresh, seed) == _routes(following, seed)
        plan = following


@pytest.mark.parametrize("name", PARTITIONERS)
def test_plan_of_one_worker_cannot_move(name):
    """Where there is nobody to move anything to, there is no random change."""
    assert random_change(PLANS[name][1], np.random.default_rng(1)) is None


@pytest.mark.parametrize("name", [name for name in PARTITIONERS if name != "replicate"])
def test_plan_moves_the_units_that_it_is_told_to(name):
    """Units named have their new workers, all others keep theirs, and the plan before is untouched."""
    plan = PLANS[name][4]
    before = plan.unit_worker.copy()
    unit = len(before) - 1
    moved = plan.with_units([unit], [(before[unit] + 1) % 4])
    assert moved.unit_worker[unit] == (before[unit] + 1) % 4
    assert moved.unit_worker[:-1].tolist() == before[:-1].tolist()
    assert plan.unit_worker.tolist() == before.tolist()
    assert (moved.version, moved.workers, moved.space) == (plan.version + 1, 4, plan.space)


@pytest.mark.parametrize(
    ("units", "workers", "why"),
    [
        ([0, 0], [1, 2], "more than once"),
        ([-1], [0], "'units' has -1"),
        ([10**6], [0], "'units' has 1000000"),
        ([0], [4], "'workers' has 4"),
        ([0], [0, 1], "1 units and 2 workers"),
        ([0.5], [1], "whole numbers"),
    ],
)
def test_plan_refuses_moves_that_it_cannot_make(units, workers, why):
    """A unit that does not exist, or twice, and a worker that does not exist are told."""
    with pytest.raises(InputError, match=why):
        PLANS["kd"][4].with_units(units, workers)


def test_replicate_plan_has_no_units():
    """A plan that keeps queries everywhere has nothing to move."""
    plan = ReplicatePlan(SPACE, 3)
    assert len(plan.unit_worker) == 0
    with pytest.raises(InputError, match="'units' has 0"):
        plan.with_units([0], [1])


@pytest.mark.parametrize("workers", [1, 3, 7, 1025])
def test_hash_plan_is_the_remainder_until_a_slot_moves(workers):
    """DSkype's Equation 14 for any number of workers; a moved slot takes its numbers with it and no others."""
    plan, number = HashPlan(SPACE, workers), np.arange(5000)
    at = np.zeros(5000)
    regions = Regions.of((at, at, at, at), number=number)
    assert plan.route_regions(regions)[1].tolist() == (number % workers).tolist()
    slots = len(plan.unit_worker)
    moved = plan.with_units([1], [workers - 1]).route_regions(regions)[1]
    assert moved.tolist() == np.where(number % slots == 1, workers - 1, number % workers).tolist()


@pytest.mark.parametrize("name", ["hash", "dkm-sks", "kop"])
def test_subscriptions_move_by_number_known_or_not(name):
    """Subscriptions named have their new workers from then on, also after another move; others stay."""
    plan = PLANS[name][4]
    number = np.arange(220)
    at = np.zeros(220)
    regions = Regions.of((at, at, at, at), number=number)
    before = plan.route_regions(regions)[1]
    moving, to = np.array([219, 3, 4, 100]), np.array([1, 2, 3, 0])
    moved = plan.with_moved(moving, to).with_moved([4], [1])
    expected = before.copy()
    expected[moving] = to
    expected[4] = 1
    assert moved.route_regions(regions)[1].tolist() == expected.tolist()
    assert plan.route_regions(regions)[1].tolist() == before.tolist()
    injected = plan.with_moved([-1, -5], [2, 3])  # injected queries have such numbers
    at = np.zeros(3)
    assert injected.route_regions(Regions.of((at, at, at, at), number=[-5, -1, 4]))[1].tolist() == [3, 2, before[4]]
    assert plan.with_moved([-5], [3]).with_moved([-1], [1]).number[:2].tolist() == [-5, -1]


def test_change_of_few_subscriptions_is_small():
    """A thousand moves among hundreds of thousands take some bytes a move, also of subscriptions that were not known."""
    count, rng = 300_000, np.random.default_rng(2)
    known = HashPlan(SPACE, 8).with_moved(np.arange(count) * 2, rng.integers(0, 8, count))
    some = rng.choice(count, 1000, replace=False) * 2
    for numbers in (some, some + 1, some + 2 * count):
        following = known.with_moved(numbers, rng.integers(0, 8, 1000))
        packed = pack_change(change_between(known, following))
        assert len(packed) < 33_000
        _same(following, changed(known, unpack_change(packed)))
    assert len(pack_change(change_between(known, known.with_units([5], [0])))) < 400


def test_change_travels_whole_where_everything_differs():
    """Rows that went away, and arrays of other sizes, are sent as they are."""
    plan = PLANS["kd"][4]
    one = np.array([[0, 0, 7, 7]], np.int32)
    following = successor(
        plan, boxes=one, part_off=[0, 1], part_worker=[2], range_off=[0, 0], cost=np.array([np.nan]),
        part_base=[0], part_start=plan.part_start[:1],
    )  # fmt: skip
    change = change_between(plan, following)
    parts = {"part_off", "part_worker", "part_base", "part_start", "cost"}
    assert {"boxes", "range_off", *parts} == set(change.arrays)
    _same(following, changed(plan, unpack_change(pack_change(change))))


def test_change_fits_one_version_of_one_plan_only():
    """Another version, another plan of the same version and another kind are refused, in both directions."""
    plan = PLANS["kd"][4]
    following = plan.with_units([0], [3])
    change = change_between(plan, following)
    for other in (
        following,
        plan.with_units([0], [2]),
        PLANS["hash"][4],
        successor(plan, version=1, cost=plan.cost + 1),
    ):
        with pytest.raises(InputError, match="does not fit"):
            changed(other, change)
    for old, new in ((following, plan), (plan, plan), (plan, PLANS["hash"][4]), (plan, PLANS["kd"][1])):
        with pytest.raises(InputError, match="cannot follow"):
            change_between(old, new)


def test_change_leads_to_a_later_version():
    """Whoever wrote it: a plan is known by its version."""
    plan = PLANS["hash"][4]
    change = change_between(plan, plan.with_units([0], [3]))
    for after in (plan.version, 0, -3):
        with pytest.raises(InputError, match="versions ascend"):
            changed(plan, dataclasses.replace(change, after=after))


def test_change_keeps_the_sign_of_zero():
    """Values are compared by their bits: the next change is made from, and fits, the very same plan everywhere."""
    plan = PLANS["dkm-sks"][4]
    zeros = [np.where(np.arange(4) == 0, value, plan.load) for value in (0.0, -0.0)]
    plain = successor(plan, load=zeros[0])
    signed = successor(plain, load=zeros[1])
    _same(changed(plain, unpack_change(pack_change(change_between(plain, signed)))), signed)


@dataclasses.dataclass(frozen=True)
class TrustingPlan:
    """A plan of somebody else, which looks at itself only when it is asked to."""

    kind: ClassVar = "trusting"

    space: Rect = SPACE
    workers: int = 2
    offset: int = 0
    version: int = 1

    def check(self):
        if self.offset < 0:
            raise InputError(f"offset = {self.offset}, expected 0 or more")


def test_change_makes_a_plan_that_is_checked():
    """Also where the kind of plan does not do so by itself."""
    plan = TrustingPlan()
    assert changed(plan, change_between(plan, successor(plan, offset=3))).offset == 3
    with pytest.raises(InputError, match="makes no plan: offset = -1"):
        changed(plan, change_between(plan, successor(plan, offset=-1)))


OLD = {name: PLANS[name][4] for name in ("kd", "dkm-sks", "qt-tree", "keyword-first", "hash")}
CHANGES = {
    name: pack_change(change_between(plan, random_change(plan, np.random.default_rng(4)))) for name, plan in OLD.items()
}


@pytest.mark.parametrize("name", OLD)
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_hostile_changes_are_refused_or_make_a_plan(name, data):
    """Any bytes as a change, also behind a checksum that fits, are an `InputError`, or make a plan in order."""
    good = CHANGES[name]
    head = good[: FRAME_HEAD - 32]
    body = data.draw(damaged(good[FRAME_HEAD:]))
    for raw in (data.draw(damaged(good)), head + digest(head, body) + body):
        refused = ""
        try:
            changed(OLD[name], unpack_change(raw, "c.diff")).check()
        except InputError as error:
            refused = str(error)
        assert len(refused) < 1_000


@pytest.mark.parametrize(
    "wrong",
    [
        lambda old: {"place": np.array([-1])},
        lambda old: {"place": np.array([len(old)])},
        lambda old: {"place": np.array([1, 0]), "value": np.zeros(2, np.int32)},
        lambda old: {"place": np.array([1, 1]), "value": np.zeros(2, np.int32)},
        lambda old: {"inserted": np.array([1, 0]), "rows": np.zeros(2, np.int32)},
        lambda old: {"inserted": np.array([len(old) + 1]), "rows": np.zeros(1, np.int32)},
        lambda old: {"inserted": np.array([-1]), "rows": np.zeros(1, np.int32)},
        lambda old: {"rows": np.zeros((2, 2), np.int32)},
        lambda old: {"value": np.zeros(7, np.int32)},
        lambda old: {"value": np.zeros(1)},
    ],
)
def test_change_with_impossible_places_is_refused(wrong):
    """Places outside of the array, out of order, and values that do not fit them reach no array."""
    plan = PLANS["qt-tree"][4]
    change = change_between(plan, plan.with_units([0], [(plan.unit_worker[0] + 1) % 4]))
    part = dataclasses.replace(change.parts["leaf_worker"], **wrong(plan.leaf_worker))
    with pytest.raises(InputError, match="'leaf_worker'"):
        changed(plan, dataclasses.replace(change, parts={"leaf_worker": part}))


def test_keyword_first_plan_with_other_boxes_routes_by_them():
    """A successor takes over what was worked out of its boxes only where they are the same."""
    plan = PLANS["keyword-first"][4]
    boxes = plan.boxes.copy()
    low, high = np.flatnonzero(boxes[:, 0] == 0)[0], np.flatnonzero(boxes[:, 0] > 0)[0]
    boxes[[low, high]] = boxes[[high, low]]
    if plan.box_off[1] <= max(low, high):
        pytest.skip("the first part is one box")
    swapped = successor(plan, boxes=boxes)
    fresh = type(plan)(workers=plan.workers, version=2, **plan_fields(swapped))
    assert _routes(swapped, 1) == _routes(fresh, 1)
    assert _routes(swapped, 1) != _routes(plan, 1)
    assert plan.with_units([0], [3]).tilings == plan.tilings
    assert PLANS["kop"][4].with_units([0], [3]).initial is PLANS["kop"][4].initial


def test_change_of_a_field_that_is_none_is_refused():
    """A change cannot name fields that a plan does not have, nor turn one into something else."""
    plan = PLANS["kd"][4]
    change = change_between(plan, plan.with_units([0], [3]))
    for values in ({"near": None}, {"boxes": 3}, {"anchored": 1}, {"version": 9}, {"workers": 9}):
        with pytest.raises(InputError, match="a change"):
            changed(plan, dataclasses.replace(change, values=values))
    with pytest.raises(InputError, match="makes no plan"):
        changed(plan, dataclasses.replace(change, values={"columns": 10**9}))
