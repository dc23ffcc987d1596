"""The policy `sstd`: loads by Equation 2, PM, FM and FG, and what is asked, split, merged and moved."""

from dataclasses import replace

import msgpack
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.synthetic_stream import registrations, synthetic_objects
from operators.balancing.policy import Ask, Change, View, settings_of
from operators.balancing.registry import policy_of
from operators.balancing.sstd import followed_queries
from operators.balancing.sstd.adjustment import Draft, adjusted
from operators.balancing.sstd.leaf_counts import LeafCounts, LeafReport, leaves_from_batch, leaves_to_batch
from operators.balancing.sstd.policy import SSTD, SstdSettings
from operators.balancing.sstd.query_cells import Cells, Located, quadtree
from operators.balancing.sstd.reallocation import all_workers, lopsided, two_workers
from operators.balancing.statistics import StatisticsRequest, make_reporter
from operators.indexes import Cost
from partitioners import FineGrid, HashPlan
from partitioners.builders.kd_decomposition import kd_plan
from partitioners.costs.allocation import karmarkar_karp, loads
from partitioners.costs.query_distribution import CRQ, SRQ, QueryDistribution, workload
from partitioners.costs.statistics import QuerySample
from partitioners.plans.qt_adjustment import AskedWords, mergeable, split_by_space, split_by_text
from partitioners.plans.qt_tree import LEAF, TEXTUAL, QtTreePlan
from streams.batches import TYPE_KNN, QueryBatch
from streams.errors import DeclarationError
from streams.geometry import REGION_NONE, Rect

SPACE = Rect(0.0, 0.0, 1.0, 1.0)


def root(workers=3):
    """A tree of one leaf."""
    none = np.empty(0)
    return QtTreePlan(
        space=SPACE, workers=workers, split=[LEAF], child=[0], middle=[[0.0, 0.0]], leaf=[0], text=[-1], word_off=[0],
        word=np.empty(0, np.int64), shares=none.reshape(0, 2), bits=np.empty(0, np.uint8), held=none.reshape(0, 4, 2),
        objects=none.reshape(0, 4), weight=none.reshape(0, 2), lengths=none.reshape(0, 2, 2, 9), leaf_worker=[0],
        leaf_cost=[1.0], leaf_box=[list(SPACE.as_tuple())],
    )  # fmt: skip


#: Seven leaves: three quarters, and four quarters of the first; the workers of the paper's example, from 0.
SEVEN = split_by_space(split_by_space(root(), 0), 0).with_units(np.arange(7), [0, 0, 1, 0, 1, 2, 2])


def counts(arriving, queries=1.0):
    """Leaves with so many objects a report and so many CRQ each."""
    made = LeafCounts.none(len(arriving))
    made.queries[:, CRQ] = queries
    return replace(made, arriving=np.asarray(arriving, float), kept=64 * np.asarray(arriving, float)).by_equation()


def view(arriving, *, plan=SEVEN, queries=1.0, cost=None, answers=None, state=None, **given):
    whole = counts(arriving, queries)
    reports = [
        LeafReport(w, plan.version, int(cost[w] if cost else 1), rows, whole.take(rows))
        for w in range(plan.workers)
        for rows in [np.flatnonzero(plan.unit_worker == w)]
    ]
    return View(plan, reports, SstdSettings(**{"reports": 1, "doubt": 0.0, **given}), answers or {}, state)


def decided(*args, **given):
    return SSTD.decide(view(*args, **given))[0]


def worker_loads(arriving, plan, queries=1.0):
    return loads(counts(arriving, queries).load, plan.unit_worker, plan.workers)


# --- Equation 2 ---


def test_loads_are_equation_2_times_the_number_of_queries():
    """Counts of queries say the same as probabilities times how many there are, for continuous and snapshot queries."""
    box = (0.0, 0.0, 0.5, 0.5)
    shape = np.array([[0.1, 0.1, 0.2, 0.2], [0.4, 0.4, 0.9, 0.9], [0.6, 0.6, 0.9, 0.9], [0.0, 0.0, 1.0, 1.0]])
    queries = registrations(np.arange(4), shape, np.zeros(5, np.int32), np.empty(0, np.int64))
    queries = replace(queries, continuous=np.array([True, True, True, False]), end=queries.ts + 100)
    sample = QuerySample.of_batch(queries, SPACE, "euclidean", 100.0, None)
    distribution = QueryDistribution.of(sample)
    region = distribution.statistics(distribution.overlapping(box, np.arange(4)))
    objects, rate = 30.0, 30.0 / 100.0
    made = counts([30.0], 2.0)
    made.queries[0, SRQ] = 1.0
    made = replace(made, kept=np.array([objects]), covered=np.ones((1, 2)))
    expected = 4 * workload(distribution.prior, region, objects, rate, (0.0, 0.0))
    assert made.load[0] == pytest.approx(expected)


def test_reports_come_back_as_they_were_sent():
    """A worker without leaves reports too; several reports may stand in one batch."""
    sent = LeafReport(1, 4, 90, np.array([2, 5]), counts([3.0, 4.0], 2.0))
    none = LeafReport(0, 4, 7, np.empty(0, np.int64), LeafCounts.none(0))
    for report in (sent, none):
        (found,) = leaves_from_batch(leaves_to_batch(report))
        assert (found.worker, found.version, found.cost) == (report.worker, report.version, report.cost)
        assert found.leaf.tolist() == report.leaf.tolist()
        assert found.counts.load.tolist() == report.counts.load.tolist()


# --- PM and FM ---


def test_reallocation_moves_what_the_paper_says():
    """Section 5.2: of the ways to give three subsets to three workers, the one with the fewest queries moved is taken."""
    load = np.array([4.0, 2.0, 8.0, 5.0, 11.0, 1.0, 8.0])  # X1 = {P1, P3, P6}, X2 = {P2, P5}, X3 = {P4, P7}
    standing = np.array([10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0])
    assert sorted(map(set, _subsets(karmarkar_karp(load, 3))), key=min) == [{0, 2, 5}, {1, 4}, {3, 6}]
    held = np.zeros((7, 3))
    held[np.arange(7), SEVEN.unit_worker] = standing
    worker = all_workers(load, held, SEVEN.unit_worker, 3)
    # X1 stays with P1, P3 or P6 (10, 30 or 60 queries), X2 with P2 or P5 (20, 50), X3 with P4 or P7 (40, 70).
    assert worker.tolist() == [2, 1, 2, 0, 1, 2, 0]
    moved = standing[worker != SEVEN.unit_worker].sum()
    assert moved == 280.0 - (60 + 50 + 40)


def _subsets(worker):
    return [np.flatnonzero(worker == w).tolist() for w in np.unique(worker)]


def test_pm_touches_two_workers():
    """Only leaves of the most and the least loaded worker change hands."""
    load = np.array([9.0, 5.0, 3.0, 4.0, 5.0, 1.0, 1.0])
    held = np.zeros((7, 3))
    held[np.arange(7), SEVEN.unit_worker] = 1.0
    worker = two_workers(load, held, SEVEN.unit_worker, 3)
    assert worker[[2, 4]].tolist() == [1, 1]
    assert sorted(loads(load, worker, 3).tolist()) == [8.0, 10.0, 10.0]


@settings(max_examples=60, deadline=None)
@given(data=st.data(), workers=st.integers(2, 5), leaves=st.integers(1, 30))
def test_reallocation_allocates_every_leaf_and_never_makes_two_workers_worse(data, workers, leaves):
    """PM leaves the larger of two loads no larger; FM and PM give leaves to workers that there are."""
    load = np.array(data.draw(st.lists(st.integers(0, 50), min_size=leaves, max_size=leaves)), float)
    worker = np.array(data.draw(st.lists(st.integers(0, workers - 1), min_size=leaves, max_size=leaves)), np.int32)
    held = np.zeros((leaves, workers))
    held[np.arange(leaves), worker] = 1.0
    for shuffle in (two_workers, all_workers):
        found = shuffle(load, held, worker, workers)
        assert ((found >= 0) & (found < workers)).all()
    before = loads(load, worker, workers)
    changed = np.flatnonzero(two_workers(load, held, worker, workers) != worker)
    assert set(worker[changed].tolist()) <= {int(before.argmax()), int(before.argmin())}


# --- decisions ---


def test_nothing_moves_while_load_is_even():
    """Definition 4: L_max / L_min of at most lambda is no imbalance, nor is no load at all."""
    assert decided([1, 1, 2, 1, 1, 2, 1]) is None
    assert decided([0] * 7) is None
    assert lopsided(np.array([0.0, 3.0])) == np.inf


def test_chance_is_no_imbalance():
    """Five objects more than another worker say nothing; a thousand times as many do, and so do many reports of the five."""
    few, many = [5, 5, 5, 5, 5, 5, 0], [5000, 5000, 5000, 5000, 5000, 5000, 0]
    assert decided(few, doubt=3.0) is None
    assert decided(many, doubt=3.0).steps[0].kind == "pm"
    assert decided(few, doubt=0.0).steps[0].kind == "pm"
    state, decisions = None, []
    for _ in range(3):
        decision, state = SSTD.decide(view(few, doubt=2.0, remembered=30, state=state))
        decisions.append(decision)
    assert decisions[:2] == [None, None]
    assert decisions[2].steps[0].kind == "pm"


def test_loads_are_uneven_beyond_chance():
    """What is left of L_max / L_min where both may be off: never below 1, infinite where nobody else has anything."""
    assert lopsided(np.array([10.0, 20.0]), np.array([1.0, 2.0])) == pytest.approx(18 / 11)
    assert lopsided(np.array([10.0, 11.0]), np.array([1.0, 1.0])) == 1.0
    assert lopsided(np.array([0.0, 3.0]), np.array([0.0, 1.0])) == np.inf
    assert lopsided(np.array([0.0, 3.0]), np.array([0.0, 4.0])) == 1.0


def test_a_small_gain_is_not_worth_a_move():
    """Where balance cannot be reached, the largest load must shrink by the share that is asked for."""
    hard = [3, 6, 7, 11, 2, 9, 11]
    assert decided(hard, methods="pm", gain=0.0) is not None
    assert decided(hard, methods="pm", gain=0.9) is None
    for wrong in ({"gain": 1.5}, {"gain": -0.1}, {"doubt": -1.0}, {"remembered": 0}):
        with pytest.raises(DeclarationError, match=next(iter(wrong))):
            SstdSettings(**wrong)


def test_methods_are_tried_in_order():
    """PM where it is enough; FM where it is not; and each alone where it is chosen."""
    simple = decided([5, 5, 5, 5, 5, 5, 0])
    assert [step.kind for step in simple.steps] == ["pm"]
    assert simple.steps[0].workers == {0, 2}
    assert "L_max / L_min was 3.00, above lambda 1.25" in simple.steps[0].why
    hard = [3, 6, 7, 11, 2, 9, 11]
    both = decided(hard)
    assert [step.kind for step in both.steps] == ["fm"]
    assert worker_loads(hard, both.plan).max() < worker_loads(hard, SEVEN).max()
    alone = decided(hard, methods="pm")
    assert [step.kind for step in alone.steps] == ["pm"]


def test_counts_are_means_of_reports_under_one_plan():
    """Nothing is decided before there are so many; a plan that is new begins anew."""
    uneven = [5, 5, 5, 5, 5, 5, 0]
    decision, state = SSTD.decide(view(uneven, reports=2))
    assert decision is None
    other = SEVEN.with_units([0], [1])
    later = state
    for _ in range(2):  # the first is passed over, while what has moved is dropped
        decision, later = SSTD.decide(view(uneven, plan=other, reports=2, state=later))
        assert decision is None
    assert isinstance(SSTD.decide(view(uneven, plan=other, reports=2, state=later))[0], Change)
    assert SSTD.decide(view(uneven, reports=2, state=state))[0].steps[0].kind == "pm"


def test_measured_loads_are_scaled_to_work():
    """Leaves that Equation 2 thinks even are not where one worker did three times the work of the others."""
    even = [1, 1, 2, 1, 1, 1, 2]
    assert decided(even, cost=[90, 30, 30]) is None
    moved = decided(even, cost=[90, 30, 30], measured=True)
    assert isinstance(moved, Change)


def test_nothing_is_done_that_makes_matters_no_better():
    """One leaf that is all the load, and of which nothing is known, stays where it is; it is not asked for again at once."""
    decision, state = SSTD.decide(view([50, 0, 0, 0, 0, 0, 0]))
    assert isinstance(decision, Ask)
    assert sorted(decision.questions) == [0, 1, 2]
    assert state is None  # the answer finds what was known before the question
    empty = quadtree_of([50, 0, 0, 0, 0, 0, 0], SEVEN, at=(0.9, 0.9), cells=1)
    decision, state = SSTD.decide(view([50, 0, 0, 0, 0, 0, 0], answers={0: empty}, epsilon=0.0, operations=1))
    assert decision is None or decision.steps[0].kind == "fg"
    assert state["rest"] == 8
    again, state = SSTD.decide(view([50, 0, 0, 0, 0, 0, 0], state=state))
    assert not isinstance(again, Ask)
    assert state["rest"] == 7


# --- FG ---


def quadtree_of(arriving, plan, *, at=None, cells=64, seed=1, worker=None):
    """Make the answer of one worker with objects at random, or all at one place, and small queries all over."""
    rng = np.random.default_rng(seed)
    leaves = np.flatnonzero(plan.unit_worker == worker) if worker is not None else np.arange(len(plan.unit_worker))
    boxes = plan.leaf_box[leaves]
    row = np.repeat(np.arange(len(leaves)), np.minimum(np.asarray(arriving, int)[leaves] * 4, 400))
    x, y = (rng.uniform(boxes[row, axis], boxes[row, axis + 2]) for axis in (0, 1))
    if at is not None:
        x, y = np.full(len(row), at[0]), np.full(len(row), at[1])
    low = rng.random((60, 2))
    bounds = np.hstack([low, low + 0.02])
    located = Located(x, y, row, np.ones(len(row)), bounds, np.full(60, CRQ), np.ones(60))
    nothing = QueryDistribution.of(QuerySample.of_batch(QueryBatch.empty(), SPACE, "euclidean", 0.0, None))
    regions = [nothing.statistics(np.empty(0, np.int64))] * len(leaves)
    known = counts(np.asarray(arriving, float)[leaves], 8.0)
    return quadtree(leaves, boxes, SPACE.as_tuple(), known, located, regions, cells).answer()


def test_quadtree_counts_what_is_in_its_cells():
    """Shares of objects and queries of quarters are those of a count by hand; the cell of most work is quartered."""
    x, y = np.array([0.1, 0.2, 0.9, 0.3]), np.array([0.1, 0.2, 0.9, 0.1])
    bounds = np.array([[0.1, 0.1, 0.6, 0.2], [0.8, 0.8, 0.9, 0.9]])
    located = Located(
        x, y, np.zeros(4, int), np.array([1.0, 1.0, 4.0, 1.0]), bounds, np.array([CRQ, SRQ]), np.array([2.0, 1.0])
    )
    plan = root()
    nothing = QueryDistribution.of(QuerySample.of_batch(QueryBatch.empty(), SPACE, "euclidean", 0.0, None))
    known = counts([4.0])
    answer = quadtree(
        np.array([0]), plan.leaf_box, SPACE.as_tuple(), known, located, [nothing.statistics(np.empty(0, np.int64))], 5
    ).answer()
    cells = Cells.of(answer)
    assert cells.parent.tolist() == [-1, 0, 0, 0, 0]
    assert cells.objects.tolist() == [1.0, 0.75, 0.0, 0.0, 0.25]
    assert cells.queries[:, CRQ].tolist() == [2.0, 2.0, 2.0, 0.0, 0.0]
    assert cells.queries[:, SRQ].tolist() == [1.0, 0.0, 0.0, 0.0, 1.0]
    assert cells.pairs.tolist() == [1.75, 1.0, 0.0, 0.0, 4.0]
    assert cells.totals.tolist() == [1.0, 0, 0, 2.0, 0, 0]


def test_fg_splits_the_dearest_leaf_and_merges_cheap_ones():
    """Where a leaf is most of the load, it is quartered, cheap leaves are merged, and then load can be even."""
    arriving = [100, 1, 1, 1, 1, 1, 1]
    change = decided(arriving, queries=8.0, answers={0: quadtree_of(arriving, SEVEN)})
    assert isinstance(change, Change)
    kinds = [step.kind for step in change.steps]
    assert kinds[0] == "fg"
    assert "split" in kinds
    assert "leaf 0 of load 800 by space: h-hat" in next(step.why for step in change.steps if step.kind == "split")
    change.plan.check()
    assert change.plan.version == SEVEN.version + 1
    load = loads(change.plan.leaf_cost, change.plan.unit_worker, 3)
    assert load.max() < 0.6 * 802
    assert change.step(0, 1).kind == "fg"


def test_fg_splits_by_text_where_space_does_not_help():
    """Objects at one point are divided by text, and so is a leaf whose queries overlap all of its quarters (Equation 3)."""
    arriving = [100, 0, 0, 0, 0, 0, 0]
    point = Draft.of(SEVEN, counts(arriving, 8.0), np.zeros((7, 3)), [Cells.of(quadtree_of(arriving, SEVEN, at=(0.1, 0.1)))],
                     by_equation=True)  # fmt: skip
    made = point.split(0, 1.0)
    assert (made.plan.split == TEXTUAL).sum() == 1
    assert "by text: no quarters are known that share its load" in made.changes[0][2]
    assert made.counts.load[[0, 7, 8, 9]].tolist() == [200.0] * 4
    spread = Draft.of(SEVEN, counts(arriving, 8.0), np.zeros((7, 3)), [Cells.of(quadtree_of(arriving, SEVEN))],
                      by_equation=True)  # fmt: skip
    assert (spread.split(0, 0.01).plan.split == TEXTUAL).sum() == 1
    assert (spread.split(0, 1.0).plan.split == TEXTUAL).sum() == 0
    assert spread.split(1, 1.0) is None


@settings(max_examples=25, deadline=None)
@given(
    arriving=st.lists(st.integers(0, 60), min_size=7, max_size=7),
    seed=st.integers(0, 99),
    epsilon=st.sampled_from([0.0, 0.4, 1.0]),
    measured=st.booleans(),
)
def test_adjusted_trees_are_valid_and_know_their_leaves(arriving, seed, epsilon, measured):
    """Whatever is split and merged: a tree that checks, with one row of counts a leaf, all objects, and all boxes its own."""
    answer = Cells.of(quadtree_of(arriving, SEVEN, seed=seed))
    held = np.zeros((7, 3))
    held[np.arange(7), SEVEN.unit_worker] = 8.0
    draft = Draft.of(SEVEN, counts(arriving, 8.0), held, [answer], by_equation=not measured)
    made = adjusted(draft, 1.1, epsilon, 19, 12)
    made.plan.check()
    assert made.plan.leaves <= 19
    assert {len(made.counts), len(made.held), len(made.cell)} == {made.plan.leaves}
    assert made.counts.arriving.sum() == pytest.approx(sum(arriving))
    assert not np.isnan(made.counts.load).any()
    for node in mergeable(made.plan).tolist():
        after = made.merge(node)
        after.plan.check()
        assert len(after.counts) == after.plan.leaves == made.plan.leaves - 3
        assert after.counts.arriving.sum() == pytest.approx(sum(arriving))


# --- what evaluators count ---


class Core:
    """Range and knn queries that are held, and snapshot queries that were asked."""

    def __init__(self, held, asked=None):
        self.held, self._asked = held, asked

    def numbers(self):
        return self.held.number

    def queries(self, numbers):
        return self.held.take(np.flatnonzero(np.isin(self.held.number, numbers)))

    def cost(self):
        return Cost(0, 40, 0)

    def asked(self):
        return QueryBatch.empty() if self._asked is None else self._asked

    def bounds(self, numbers):
        return np.where(numbers == 3, 0.1, np.nan)


def ranges(rects, numbers=None):
    shape = np.array(rects, float).reshape(-1, 4)
    number = np.arange(len(shape)) if numbers is None else np.array(numbers)
    return registrations(number, shape, np.zeros(len(shape) + 1, np.int32), np.empty(0, np.int64))


def objects(x, y):
    return replace(synthetic_objects(len(x), 1), x=np.asarray(x, float), y=np.asarray(y, float))


def test_evaluators_count_objects_and_queries_by_leaf():
    """Objects since the last report, queries that live by the leaves that they overlap, snapshot queries once."""
    held = ranges([[0.1, 0.1, 0.2, 0.2], [0.0, 0.0, 1.0, 1.0], [0.6, 0.1, 0.7, 0.2]])
    near = replace(
        ranges([[0.9, 0.9, 0, 0], [0.1, 0.1, 0, 0]], [3, 4]), type=np.full(2, TYPE_KNN, np.uint8),
        region=np.full(2, REGION_NONE, np.uint8), k=np.ones(2, np.int32),
    )  # fmt: skip
    asked = replace(ranges([[0.05, 0.05, 0.1, 0.1]]), continuous=np.array([False]))
    core = Core(QueryBatch.concat([held, near]), asked)
    reporter = make_reporter(StatisticsRequest("leaves", {"cells": 32, "pairs": True}), 0, core)
    plan = SEVEN.with_units(np.arange(7), [0, 1, 0, 1, 1, 1, 0])
    reporter.saw(plan, objects([0.1, 0.1, 0.1, 0.6], [0.1, 0.15, 0.3, 0.7]))
    (report,) = leaves_from_batch(reporter.report(plan))
    assert (report.worker, report.cost, report.leaf.tolist()) == (0, 40, [0, 2, 6])
    assert plan.leaf_box[[0, 2, 6]].tolist() == [[0, 0, 0.25, 0.25], [0, 0.5, 0.5, 1.0], [0.25, 0.25, 0.5, 0.5]]
    assert report.counts.arriving.tolist() == [2.0, 0.0, 0.0]
    assert report.counts.queries[:, CRQ].tolist() == [2.0, 1.0, 1.0]
    assert report.counts.queries[:, 4].tolist() == [
        1.0,
        1.0,
        1.0,
    ]  # the ball of one knn query is far, that of the other open
    assert report.counts.queries[:, SRQ].tolist() == [1.0, 0.0, 0.0]
    assert report.counts.pairs[0] == 3.0  # two range queries and an open ball
    core.held = core.held.take(np.array([1, 3, 4]))
    reporter.saw(plan, objects([0.3], [0.3]))
    (report,) = leaves_from_batch(reporter.report(plan))
    assert report.counts.arriving.tolist() == [0.0, 0.0, 1.0]
    assert report.counts.queries[:, CRQ].tolist() == [1.0, 1.0, 1.0]
    answer = reporter.answer(plan, "quadtree")
    assert msgpack.unpackb(msgpack.packb(answer)) == answer  # it travels between processes
    cells = Cells.of(answer)
    assert cells.leaf[:3].tolist() == [0, 2, 6]
    assert len(cells.leaf) <= 32
    again = make_reporter(StatisticsRequest("leaves", {"pairs": True}), 0, core)
    again.restore(reporter.snapshot())
    for one in (reporter, again):
        one.saw(plan, objects([0.1], [0.1]))
    assert [c.tolist() for c in reporter.report(plan).columns] == [c.tolist() for c in again.report(plan).columns]


def test_a_worker_without_leaves_reports_what_it_was_asked():
    """Its leaves have moved away; questions about what came before still come."""
    core = Core(ranges([]), replace(ranges([[0.05, 0.05, 0.1, 0.1]]), continuous=np.array([False])))
    (report,) = leaves_from_batch(make_reporter(StatisticsRequest("leaves"), 1, core).report(root(1)))
    assert report.leaf.tolist() == []


def test_evaluators_follow_a_part_of_very_many_queries(monkeypatch):
    """Each of those that are followed stands for several; what is counted stays about the same."""
    monkeypatch.setattr(followed_queries, "_FOLLOWED", 100)
    core = Core(ranges([[0.1, 0.1, 0.2, 0.2]] * 250))
    reporter = make_reporter(StatisticsRequest("leaves"), 0, core)
    (report,) = leaves_from_batch(reporter.report(root(1)))
    assert report.counts.queries[0, CRQ] == pytest.approx(250, abs=3)
    assert len(reporter._followed.number) <= 100


def test_objects_of_learning_routers_count_for_a_leaf_of_the_worker():
    """Where the plan's keyword lists say another worker's leaf, one of this worker's at the place is taken."""
    plan = split_by_text(root(2), 0, AskedWords.none()).with_units([0, 1], [1, 1])
    reporter = make_reporter(StatisticsRequest("leaves"), 0, Core(ranges([])))
    rng = np.random.default_rng(1)
    reporter.saw(plan, objects(rng.random(40), rng.random(40)))
    (report,) = leaves_from_batch(reporter.report(plan))
    assert report.leaf.tolist() == [2, 3]
    assert report.counts.arriving.sum() == 40.0
    assert (report.counts.arriving > 5).all()


# --- settings and plans ---


def test_policy_is_for_places():
    """Trees and plain partitions of space; plans that divide numbers or keywords are refused."""
    assert policy_of("sstd") is SSTD
    assert SSTD.objection(SEVEN) is None
    assert SSTD.objection(kd_plan(FineGrid(SPACE, 8, 8), np.ones((8, 8)), 2, pieces=4)) is None
    assert "units of this plan (kind 'hash') are something else" in SSTD.objection(HashPlan(SPACE, 2))
    assert settings_of(SSTD, {"threshold": 2, "methods": "pm, fm"}).chosen == ("pm", "fm")
    for bad, why in (
        ({"methods": "pmm"}, "did you mean 'pm'"),
        ({"epsilon": 2.0}, "expected 0 to 1"),
        ({"cells": 0}, "1 or more"),
    ):
        with pytest.raises(DeclarationError, match=why):
            settings_of(SSTD, bad)


def test_boxes_of_a_grid_move_like_leaves():
    """Partitions of a grid are leaves that cannot be split: PM and FM move them, FG is never asked for."""
    plan = kd_plan(FineGrid(SPACE, 8, 8), np.ones((8, 8)), 2, pieces=4)
    hot = np.where(plan.unit_worker == 0, 9, 1)
    change = decided(hot, plan=plan)
    assert change.steps[0].kind == "pm"
    assert lopsided(worker_loads(hot, change.plan)) <= 1.25
    assert decided([50, 0, 0, 0, 0, 0, 0, 0], plan=plan) is None
