"""Units that are cut and merged: nothing changes for what they do not hold, and a plan tells which units hold what."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_plan_changes import PLANS, SPACE, _routes, _words

from partitioners import FineGrid, GridPlan
from partitioners.columns import Points, Regions
from partitioners.plans.divisible import COLUMN, FIRST_WORD, KEYWORD, LAST_WORD, NO_WORD, ROW, Cut
from partitioners.plans.plan import plan_fields, successor
from partitioners.plans.random_changes import random_change
from streams.errors import InputError

DIVISIBLE = ("kd", "uniform", "text", "location", "keyword", "prefix", "spatial-first", "keyword-first", "kdt-tree")


def _regions(rng, count=60):
    low = rng.random((2, count))
    bounds = low[0], low[1], low[0] + 0.2, low[1] + 0.2
    return Regions.of(bounds, *_words(rng, count), rng.random(count) < 0.5)


def _cut(plan, rng):
    """Cut a unit somewhere that words and places of these tests lie on both sides of, if it can be cut."""
    unit = int(rng.integers(len(plan.unit_worker)))
    rooms = plan.room(unit)
    if not rooms:
        return None
    axis, low, high, _ = rooms[int(rng.integers(len(rooms)))]
    if axis == KEYWORD:
        high = min(high, max(low, 12))
    return plan.divided(Cut(unit, axis, int(rng.integers(low, high, endpoint=True)))), unit


def _rows(csr):
    off, values = csr
    return [values[a:b].tolist() for a, b in itertools.pairwise(off)]


@pytest.mark.parametrize("name", DIVISIBLE)
@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_cuts_and_merges_change_no_route_until_something_moves(name, seed):
    """However often units are cut and merged, all objects and queries go where they went; and all can be merged back."""
    rng = np.random.default_rng(seed)
    first = plan = PLANS[name][4]
    for _ in range(6):
        made = _cut(plan, rng)
        plan = plan if made is None else made[0].plan
        if (pairs := plan.mergeable()) and rng.random() < 0.3:
            plan = plan.merged(*pairs[int(rng.integers(len(pairs)))])
        assert _routes(plan, seed) == _routes(first, seed)
        assert plan.cost.sum() == pytest.approx(first.cost.sum())
        fresh = type(plan)(workers=plan.workers, version=plan.version, **plan_fields(plan))
        assert _routes(fresh, seed) == _routes(first, seed)


@pytest.mark.parametrize("name", DIVISIBLE)
@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_piece_that_moves_takes_its_queries_along_and_no_others(name, seed):
    """What was cut off goes to its new worker with all that is filed there; other queries keep their workers."""
    rng = np.random.default_rng(seed)
    plan = PLANS[name][4]
    for _ in range(3):
        plan = random_change(plan, rng)
    if (made := _cut(plan, rng)) is None:
        return
    divided, unit = made
    assert divided.plan.unit_worker[divided.unit] == plan.unit_worker[unit]
    assert divided.origin[divided.unit] == unit
    assert np.array_equal(divided.plan.unit_worker, plan.unit_worker[divided.origin])
    taker = int((plan.unit_worker[unit] + 1) % plan.workers)
    moved = divided.plan.with_units([divided.unit], [taker])
    regions = _regions(rng)
    filed = moved.filed(regions)
    concerned = set(filed.row[filed.unit == divided.unit].tolist())
    before, after = (_rows(one.route_regions(regions)) for one in (plan, moved))
    for row in range(len(regions)):
        assert taker in after[row] if row in concerned else after[row] == before[row]


@pytest.mark.parametrize("name", DIVISIBLE)
@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_units_of_queries_are_those_that_bring_them_to_workers(name, seed):
    """The workers of the units of a query are its workers; its keywords are those it is filed under, one unit for each."""
    rng = np.random.default_rng(seed)
    plan = PLANS[name][4]
    for _ in range(4):
        plan = random_change(plan, rng)
    regions = _regions(rng)
    filed = plan.filed(regions)
    routes = _rows(plan.route_regions(regions))
    keys = list(zip(filed.row.tolist(), filed.unit.tolist(), filed.word.tolist(), strict=True))
    assert keys == sorted(set(keys))
    for row in range(len(regions)):
        mine = filed.row == row
        assert sorted(set(plan.unit_worker[filed.unit[mine]].tolist())) == routes[row]
        words = regions.kw[regions.kw_off[row] : regions.kw_off[row + 1]].tolist()
        wanted = words if regions.match_any[row] else words[-1:]
        assert set(filed.word[mine].tolist()) == set(wanted or [NO_WORD])


@pytest.mark.parametrize("name", ["location", "keyword", "prefix", "spatial-first", "keyword-first"])
@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_keywords_lead_to_the_workers_of_their_units(name, seed):
    """Each keyword of a query that wants any leads to the worker of its unit, and objects that have it go there too."""
    rng = np.random.default_rng(seed)
    plan = PLANS[name][4]
    for _ in range(4):
        plan = random_change(plan, rng)
    drawn = _regions(rng)
    regions = Regions.of(drawn.bounds, drawn.kw_off, drawn.kw, np.ones(len(drawn), np.bool_))
    workers, filed = plan.keyword_workers(regions), plan.filed(regions)
    leads = {
        (row, word): plan.unit_worker[unit] for row, unit, word in zip(filed.row, filed.unit, filed.word, strict=True)
    }
    row = np.repeat(np.arange(len(regions)), np.diff(regions.kw_off))
    assert workers.tolist() == [leads[key] for key in zip(row, regions.kw, strict=True)]
    for i in range(0, len(row), 7):
        seen = plan.route_points(Points.of(*rng.random((2, 1)), np.array([0, 1]), regions.kw[[i]]))[1]
        assert workers[i] in seen


@pytest.mark.parametrize("name", DIVISIBLE)
def test_room_says_where_a_unit_can_be_cut(name):
    """Its first and last places work, those beside them do not, and neither does an axis that is not named."""
    plan = PLANS[name][4]
    for unit in range(len(plan.unit_worker)):
        rooms = plan.room(unit)
        for axis, low, high, adds in rooms:
            for at in (low, high):
                assert len(plan.divided(Cut(unit, axis, at)).plan.unit_worker) == len(plan.unit_worker) + adds
            for at in (low - 1, *([high + 1] if high < LAST_WORD else [])):
                with pytest.raises(InputError, match="cannot be cut at"):
                    plan.divided(Cut(unit, axis, at))
        for axis in {COLUMN, ROW, KEYWORD, 3} - {axis for axis, *_ in rooms}:
            with pytest.raises(InputError, match="cannot be cut at"):
                plan.divided(Cut(unit, axis, 1))
    with pytest.raises(InputError, match="there is no unit"):
        plan.room(len(plan.unit_worker))


def test_cut_by_keyword_takes_hashed_words_along():
    """Words that no range names are spread as before; of those of the unit, the cut and what is above go."""
    plan = PLANS["text"][4]
    words = np.arange(400)
    at = np.zeros(400)
    regions = Regions.of((at, at, at, at), np.arange(401), words)
    before = plan.route_regions(regions)[1]
    cut = int(words[before == 2][20])
    divided = plan.divided(Cut(2, KEYWORD, cut))
    after = divided.plan.with_units([divided.unit], [0]).route_regions(regions)[1]
    assert after.tolist() == np.where((before == 2) & (words >= cut), 0, before).tolist()
    alone = divided.plan.divided(Cut(divided.unit, KEYWORD, cut + 1)).plan
    assert alone.part_start.tolist() == [FIRST_WORD] * 3 + [cut, cut + 1, FIRST_WORD]
    assert alone.room(3) == []
    assert alone.mergeable() == [(2, 3), (3, 4)]


def test_boxes_divided_alike_merge_with_all_their_parts():
    """As long as each part has the same worker in both; the box is one again, and so are the parts."""
    plan = PLANS["spatial-first"][4]
    cut = plan.divided(Cut(0, COLUMN, 2))
    parts = int(plan.part_off[1])
    assert len(cut.plan.unit_worker) == len(plan.unit_worker) + parts
    again = cut.plan.merged(0, cut.unit)
    assert _routes(again, 3) == _routes(plan, 3)
    assert again.boxes.tolist() == plan.boxes.tolist()
    other = cut.plan.with_units([cut.unit], [3])
    assert (0, cut.unit) not in other.mergeable()
    with pytest.raises(InputError, match="not divided alike"):
        other.merged(0, cut.unit)


def test_units_of_other_workers_boxes_or_words_do_not_merge():
    """Neighbours by keyword need one worker and one base part, boxes one rectangle."""
    boxes = np.array([[0, 0, 1, 3], [2, 0, 3, 1], [2, 2, 3, 3]])
    plan = GridPlan.of_boxes(FineGrid(SPACE, 4, 4), boxes, np.array([0, 1, 1]), 2)
    assert plan.mergeable() == [(1, 2)]
    assert plan.merged(2, 1).boxes.tolist() == [[0, 0, 1, 3], [2, 0, 3, 3]]
    with pytest.raises(InputError, match="make no box"):
        plan.with_units([0], [1]).merged(0, 1)
    text = PLANS["text"][4].with_units([1], [0])
    assert text.mergeable() == []
    with pytest.raises(InputError, match="no neighbours of one worker by keyword"):
        text.merged(0, 1)
    hybrid = PLANS["keyword-first"][4]
    with pytest.raises(InputError, match="cannot be merged"):
        hybrid.merged(0, 1)
    with pytest.raises(InputError, match="not divided alike"):
        hybrid.merged(0, int(hybrid.box_off[1]))


def test_plan_with_one_home_for_queries_is_cut_by_place_only():
    """A merger takes the newest list of a query for all there is; so a query must not get a second home in mid-run."""
    assert {axis for axis, *_ in PLANS["location"][4].room(0)} == {COLUMN, ROW}
    one_part = PLANS["keyword-first"][4]
    alone = type(one_part)(
        space=SPACE, workers=2, columns=4, rows=4, range_start=[], range_part=[], box_off=[0, 1], boxes=[[0, 0, 3, 3]],
        box_worker=[0], cost=[1.0],
    )  # fmt: skip
    assert alone.single_home
    assert {axis for axis, *_ in alone.room(0)} == {COLUMN, ROW}


@pytest.mark.parametrize(
    ("name", "wrong", "why"),
    [
        ("text", {"part_base": [0, 1, 2]}, "a base part and a first keyword for each"),
        ("text", {"part_base": [0, 1, 3, 3]}, "not in the order of their base parts"),
        ("text", {"part_base": [1, 1, 2, 3]}, "not in the order of their base parts"),
        ("text", {"part_base": [0, 1, 1, 2]}, "do not ascend"),
        ("text", {"part_start": [FIRST_WORD, FIRST_WORD, 3, FIRST_WORD]}, "do not ascend"),
        ("keyword-first", {"part_base": [0, 2]}, "not in the order of their base parts"),
        ("keyword-first", {"part_start": [FIRST_WORD, 4]}, "do not ascend"),
    ],
)
def test_plan_with_impossible_parts_is_refused(name, wrong, why):
    """Kernels look parts up by base parts and first keywords, and check no bounds."""
    with pytest.raises(InputError, match=why):
        successor(PLANS[name][4], **wrong)


def test_range_of_a_base_part_that_is_none_is_refused():
    """Parts that were cut off are no base parts: ranges cannot name them."""
    plan = PLANS["spatial-first"][4].divided(Cut(0, KEYWORD, 5)).plan
    last = plan.range_part.copy()
    last[0] = 2
    with pytest.raises(InputError, match="a part that its box does not have"):
        successor(plan, range_part=last)
    hybrid = PLANS["keyword-first"][4].divided(Cut(0, KEYWORD, 5)).plan
    last = hybrid.range_part.copy()
    last[0] = 2
    with pytest.raises(InputError, match="range_part"):
        successor(hybrid, range_part=last)
