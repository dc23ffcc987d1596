"""Leaves of QT-trees that are split and merged: valid trees, routes that stay, and places where something changed."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_plan_changes import PLANS, _words

from partitioners.columns import Points, Regions
from partitioners.plans import moved_places as module
from partitioners.plans.moved_places import moved_places
from partitioners.plans.plan import pack, successor, unpack
from partitioners.plans.plan_change import change_between, changed
from partitioners.plans.qt_adjustment import (
    AskedWords,
    leaf_boxes,
    mergeable,
    merged,
    quartered,
    split_by_space,
    split_by_text,
)
from partitioners.plans.qt_tree import LEAF, TEXTUAL
from partitioners.plans.random_changes import random_change
from streams.errors import InputError

TREES = ("qt-tree", "quadtree", "text-tree")
ASKED = replace(AskedWords.none(), words=np.array([2, 5, 7]), shares=np.full((3, 2), 0.2), weight=np.array([0.5, 0.1]))


def _regions(seed, count=200):
    """Rectangles and points, many at the borders of quarters, some outside of the space."""
    rng = np.random.default_rng(seed)
    low = rng.integers(-4, 36, (2, count)) / 32
    high = low + rng.choice([0.0, 1 / 32, 0.1, 0.5], (2, count))
    return np.stack([low[0], low[1], high[0], high[1]])


def _rows(csr):
    return [csr[1][a:b].tolist() for a, b in itertools.pairwise(csr[0])]


def _points(seed):
    rng = np.random.default_rng(seed)
    return Points.of(rng.integers(-2, 34, 300) / 32, rng.random(300), *_words(rng, 300))


@pytest.mark.parametrize("name", TREES)
@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    bound=st.sampled_from([("_MOST_BOXES", 64), ("_MOST_BOXES", 1), ("_MOST_LEAVES", 2)]),
)
def test_moved_places_of_trees_hold_every_query_whose_workers_change(name, seed, bound):
    """Whatever is split, merged and moved: what touches none of the boxes has the same workers."""
    rng = np.random.default_rng(seed)
    old = PLANS[name][4]
    for _ in range(int(rng.integers(0, 6))):
        old = random_change(old, rng)
    new = old
    for _ in range(int(rng.integers(1, 4))):
        new = random_change(new, rng)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, *bound)
        module._places_of_leaves.cache_clear()
        boxes = moved_places(old, new)
    shape = _regions(seed)
    before, after = (_rows(plan.route_regions(Regions.of(tuple(shape)))) for plan in (old, new))
    touched = np.zeros(shape.shape[1], np.bool_)
    for box in boxes:
        touched |= (shape[:2] <= box[2:, None]).all(0) & (shape[2:] >= box[:2, None]).all(0)
    assert {row for row, (a, b) in enumerate(zip(before, after, strict=True)) if a != b} <= set(np.flatnonzero(touched))


@pytest.mark.parametrize("name", TREES)
@pytest.mark.parametrize("by_text", [False, True])
def test_split_divides_one_leaf_and_a_merge_undoes_it(name, by_text):
    """Others keep numbers, boxes and routes; pieces cover the leaf; merged again it is the tree of before."""
    plan = PLANS[name][4]
    leaf = int(plan.leaf_cost.argmax())
    made = split_by_text(plan, leaf, ASKED) if by_text else split_by_space(plan, leaf)
    made.check()
    pieces = [leaf, *range(plan.leaves, plan.leaves + 3)]
    untouched = np.delete(np.arange(plan.leaves), leaf)
    assert made.leaf_box[untouched].tolist() == plan.leaf_box[untouched].tolist()
    assert made.leaf_cost.sum() == pytest.approx(plan.leaf_cost.sum())
    assert np.array_equal(made.leaf_box, leaf_boxes(made, plan.space.as_tuple()))
    assert (made.leaf_worker[pieces] == plan.leaf_worker[leaf]).all()
    points, regions = _points(1), Regions.of(tuple(_regions(1)))
    before, after = plan.leaves_of_points(points), made.leaves_of_points(points)
    assert np.isin(after[before == leaf], pieces).all()
    assert (after[before != leaf] == before[before != leaf]).all()
    for one, other in zip(_rows(plan.leaves_of_regions(regions)), _rows(made.leaves_of_regions(regions)), strict=True):
        assert (leaf in one) == bool(set(other) & set(pieces))
        assert set(one) - {leaf} == set(other) - set(pieces)
        assert not by_text or leaf not in one or set(pieces) <= set(other)
    node = int(np.flatnonzero(made.child == len(plan.split))[0])
    assert node in mergeable(made)
    again, place = merged(made, node)
    assert place.tolist() == [*range(plan.leaves), leaf, leaf, leaf]
    assert pack(successor(again, version=1, leaf_cost=plan.leaf_cost)) == pack(plan)
    for following in (made, again):
        assert pack(unpack(pack(following))) == pack(following)
        older = plan if following is made else made
        assert pack(changed(older, change_between(older, following))) == pack(following)


def test_leaf_that_is_split_by_text_begins_without_keyword_lists():
    """No objects are fetched for it; objects whose words nobody asks for are spread over all pieces."""
    plan = PLANS["quadtree"][4]
    made = split_by_text(plan, 0, ASKED)
    assert (made.split == TEXTUAL).sum() == 1
    assert not made.bits.any()
    assert not made.held.any()
    assert not made.objects.any()
    assert made.reads_words
    box = made.leaf_box[0]
    rng = np.random.default_rng(1)
    points = Points.of(*(rng.uniform(box[axis], box[axis + 2], 200) for axis in (0, 1)))
    assert (np.bincount(made.leaves_of_points(points), minlength=made.leaves)[[0, -3, -2, -1]] > 20).all()


def test_moved_places_are_those_of_leaves_with_another_worker():
    """A split alone moves nothing; then the pieces that were given away, and no others."""
    plan = PLANS["quadtree"][4]
    made = split_by_space(plan, 3)
    assert moved_places(plan, made).shape == (0, 4)
    given_away = made.with_units([made.leaves - 1], [(made.leaf_worker[3] + 1) % 4])
    finite = np.where(np.isinf(moved_places(plan, given_away)), 0.0, moved_places(plan, given_away))
    assert np.where(finite == 0.0, made.leaf_box[-1], finite).tolist() == [made.leaf_box[-1].tolist()]
    assert moved_places(plan, PLANS["kd"][4]) is None


def test_leaf_that_is_divided_by_text_and_then_by_place_leaves_its_box_to_others():
    """The box of the textual node stays with its other children, with the same workers; quarters within it have come."""
    textual = split_by_text(PLANS["quadtree"][4], 0, ASKED)
    leaves = textual.leaves
    old = textual.with_units([0, leaves - 3, leaves - 2, leaves - 1], np.array([0, 1, 0, 1]))
    new = split_by_space(old, leaves - 1)
    new = new.with_units([new.leaves - 1], [3])
    x, y = new.leaf_box[-1].reshape(2, 2).mean(0)
    before, after = (
        plan.route_regions(Regions.of(tuple(np.array([[x], [y], [x], [y]]))))[1].tolist() for plan in (old, new)
    )
    assert (before, after) == ([0, 1], [0, 1, 3])
    assert any(a < x < c and b < y < d for a, b, c, d in moved_places(old, new).tolist())


def test_adjustments_that_make_no_tree_are_refused():
    """A leaf that there is not, words out of order, a node whose children are no leaves, a leaf too small to quarter."""
    plan = PLANS["quadtree"][4]
    with pytest.raises(InputError, match="has no leaf 99999"):
        split_by_space(plan, 99_999)
    with pytest.raises(InputError, match="do not ascend"):
        split_by_text(plan, 0, replace(ASKED, words=np.array([7, 5, 2])))
    with pytest.raises(InputError, match="node 0 of a QT-tree cannot be merged"):
        merged(plan, 0)
    assert (plan.split[plan.child[0] : plan.child[0] + 4] != LEAF).any()
    while quartered(tuple(plan.leaf_box[0].tolist()), plan.space.as_tuple()) is not None:
        plan = split_by_space(plan, 0)
    assert plan.leaf_box[0, 2] - plan.leaf_box[0, 0] == 2.0**-40
    with pytest.raises(InputError, match="leaf 0 of a QT-tree is too small to be quartered"):
        split_by_space(plan, 0)
