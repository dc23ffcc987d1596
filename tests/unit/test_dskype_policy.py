"""The policy `dskype`: what units cost, where they are cut, who gets what, and what is merged again."""

from dataclasses import replace

import msgpack
import numpy as np
import pytest
from latest_queries import latest_topology, write_latest_inputs

from operators.balancing.dskype.draft import Draft
from operators.balancing.dskype.policy import DSKYPE, DskypeSettings
from operators.balancing.dskype.unit_costs import Cuts, UnitCosts, Work, unit_costs
from operators.balancing.policy import Ask, Change, View, settings_of
from operators.balancing.registry import policy_of
from operators.balancing.statistics import STATISTICS, CostReport, StatisticsRequest, make_reporter
from operators.evaluation.range_core import RangeCore
from operators.indexes import Cost
from partitioners import FineGrid, GridPlan, HashPlan, KeywordFirstPlan
from partitioners.columns import Regions
from partitioners.plans.divisible import COLUMN, FIRST_WORD, KEYWORD, ROW, Cut
from streams.batches import TYPE_KNN
from streams.errors import DeclarationError
from streams.geometry import REGION_NONE, Rect
from topology import run

SPACE = Rect(0.0, 0.0, 1.0, 1.0)
GRID = FineGrid(SPACE, 8, 8)
#: Four columns of boxes, two of them worker 0's.
LOCATION = GridPlan.of_boxes(
    GRID, np.array([[0, 0, 1, 7], [2, 0, 3, 7], [4, 0, 5, 7], [6, 0, 7, 7]]), np.array([0, 0, 1, 2]), 3, anchored=True
)
#: Keywords by hundreds, in one box.
KEYWORDS = GridPlan.of_parts(
    GRID,
    np.array([[0, 0, 7, 7]]),
    [(np.array([0, 100, 200]), np.array([0, 1, 2]), np.array([0, 1, 2]))],
    3,
    anchored=True,
)


def view(costs, *, answers=None, state=None, plan=LOCATION, **given):
    reports = [CostReport(worker, plan.version, cost) for worker, cost in enumerate(costs)]
    return View(plan, reports, DskypeSettings(**{"reports": 1, **given}), answers or {}, state)


def answer(units, cuts=()):
    """Make an answer of (unit, cost, queries) and (unit, axis, units added, at, cost above, queries above)."""
    unit, cost, queries = zip(*units, strict=True)
    rows = np.array(list(cuts), np.float64).reshape(-1, 6).T
    columns = Cuts(*(rows[i].astype(np.int64) for i in range(4)), rows[4], rows[5])
    return UnitCosts(np.array(unit), np.array(cost, np.float64), np.array(queries, np.float64), columns).answer()


def decided(costs, answers, **given):
    decision, _ = DSKYPE.decide(view(costs, answers=answers, **given))
    return decision


def queries(x, y, words, *, match_any=True):
    """Queries at places, with any of some keywords."""
    off = np.cumsum([0, *map(len, words)])
    at = np.asarray(x, float), np.asarray(y, float)
    everywhere = (np.zeros(len(words)), np.zeros(len(words)), np.ones(len(words)), np.ones(len(words)))
    flat = np.array([w for row in words for w in row], np.int64)
    return Regions.of(everywhere, off, flat, np.full(len(words), match_any), at=at)


def costs_of(plan, worker, regions, cost):
    cell = plan.grid.cells_of(regions.at_x, regions.at_y)
    work = Work(np.arange(len(cost)), np.full(len(cost), -1), np.asarray(cost, float))
    return unit_costs(plan, worker, plan.filed(regions), cell, work, np.ones(len(regions)))


# --- what an evaluator answers ---


def test_query_counts_for_the_first_of_its_units_and_keywords():
    """One in several units of a worker counts once, where its most frequent keyword is; those of others not at all."""
    plan = KEYWORDS.divided(Cut(0, KEYWORD, 50)).plan
    regions = queries([0.5] * 4, [0.5] * 4, [[10, 60], [60, 70], [120], [20, 210]])
    found = costs_of(plan, 0, regions, [1, 10, 100, 1000])
    assert found.unit.tolist() == [0, 1]
    assert found.cost.tolist() == [1001.0, 10.0]
    assert found.queries.tolist() == [2.0, 1.0]
    by_word = (found.cuts.unit == 0) & (found.cuts.axis == KEYWORD)
    assert found.cuts.at[by_word].tolist() == [20]
    assert found.cuts.cost[by_word].tolist() == [1000.0]
    assert costs_of(plan, 2, regions, [1, 10, 100, 1000]).cost.tolist() == [1000.0]


def test_work_that_is_known_by_keyword_counts_for_its_unit():
    """What was done for a keyword is its unit's; for a keyword of another worker, or an unknown one, the first of the query."""
    plan = KEYWORDS.divided(Cut(0, KEYWORD, 50)).plan
    regions = queries([0.5] * 2, [0.5] * 2, [[10, 60, 120], [120]])
    work = Work(np.array([0, 0, 0, 0, 1]), np.array([10, 60, 120, -1, 120]), np.array([1.0, 10.0, 100.0, 1000.0, 1e4]))
    cell = plan.grid.cells_of(regions.at_x, regions.at_y)
    found = unit_costs(plan, 0, plan.filed(regions), cell, work, np.ones(2))
    assert found.cost.tolist() == [1101.0, 10.0]
    assert found.queries.tolist() == [1.0, 0.0]


def test_answers_travel():
    """What an evaluator answers is plain values, and is read as it was, where it is empty too."""
    plan = KEYWORDS.divided(Cut(0, KEYWORD, 50)).plan
    for words in ([[10, 60], [60, 70]], []):
        found = costs_of(plan, 0, queries([0.5] * len(words), [0.5] * len(words), words), [1.0] * len(words))
        again = UnitCosts.of(msgpack.unpackb(msgpack.packb(found.answer())))
        for one, other in ((found, again), (found.cuts, again.cuts)):
            for name in [name for name in one.__slots__ if name != "cuts"]:
                assert getattr(other, name).dtype == getattr(one, name).dtype, name
                assert getattr(other, name).tolist() == getattr(one, name).tolist()


def test_cuts_are_along_columns_and_rows_of_the_places():
    """What is above a cut are the queries of its column or row and beyond; a cut that takes off all or nothing is none."""
    regions = queries([0.01, 0.02, 0.2, 0.2], [0.1, 0.3, 0.3, 0.9], [[]] * 4)
    cuts = costs_of(LOCATION, 0, regions, [1, 2, 4, 8]).cuts
    assert cuts.unit.tolist() == [0] * 3
    assert cuts.axis.tolist() == [COLUMN, ROW, ROW]
    assert cuts.at.tolist() == [1, 2, 7]
    assert cuts.cost.tolist() == [12.0, 14.0, 8.0]
    assert cuts.queries.tolist() == [2.0, 3.0, 1.0]
    assert (cuts.adds == 1).all()


def test_cuts_say_how_many_units_they_make():
    """Within a box that is divided by keyword, cutting by place divides all parts; the other way round in the hybrid."""
    regions = queries([0.1, 0.9], [0.1, 0.9], [[10], [20]])
    cuts = costs_of(KEYWORDS, 0, regions, [1, 1]).cuts
    assert dict(zip(cuts.axis.tolist(), cuts.adds.tolist(), strict=True)) == {KEYWORD: 1, COLUMN: 3, ROW: 3}
    hybrid = KeywordFirstPlan(
        space=SPACE, workers=2, columns=8, rows=8, range_start=[0, 100], range_part=[0, 1], box_off=[0, 2, 3],
        boxes=[[0, 0, 6, 7], [7, 0, 7, 7], [0, 0, 7, 7]], box_worker=[0, 1, 1], cost=np.ones(3),
    )  # fmt: skip
    cuts = costs_of(hybrid, 0, queries([0.1, 0.8], [0.1, 0.9], [[10], [20]]), [1, 1]).cuts
    assert dict(zip(cuts.axis.tolist(), cuts.adds.tolist(), strict=True)) == {KEYWORD: 2, COLUMN: 1, ROW: 1}


def test_few_of_many_cuts_are_named_with_both_sides_of_a_hot_keyword():
    """Of thousands of keywords some dozens are named; one that is half of the load can be cut off on both sides."""
    words = [[w] for w in range(100)]
    cost = np.ones(100)
    cost[40] = 99.0
    cuts = costs_of(KEYWORDS, 0, queries([0.5] * 100, [0.5] * 100, words), cost).cuts
    at = cuts.at[cuts.axis == KEYWORD].tolist()
    assert len(at) <= 64
    assert {40, 41} <= set(at)
    assert cuts.cost[cuts.at == 40].tolist() == [158.0]
    assert cuts.cost[cuts.at == 41].tolist() == [59.0]


class Core:
    """Seven queries in a row, of which three have caused work."""

    def numbers(self):
        return np.arange(7)

    def cost(self):
        return Cost(0, 40, 0)

    def weights(self):
        return self.found

    found = (np.array([2, 3, 5]), np.array([1.0, 2.0, 5.0]))

    def queries(self, numbers):
        return KNN.take(numbers)


def _knn(count):
    from benchmarks.synthetic_stream import registrations

    shape = np.zeros((count, 4))
    shape[:, 0], shape[:, 1] = (np.arange(count) + 0.5) / count / 2, 0.5
    plain = registrations(np.arange(count), shape, np.zeros(count + 1, np.int32), np.empty(0, np.int64))
    return replace(plain, region=np.full(count, REGION_NONE, np.uint8), type=np.full(count, TYPE_KNN, np.uint8))


KNN = _knn(7)


def test_evaluators_scale_what_units_cost_to_what_they_reported():
    """Recent work tells how the reported cost is divided; queries without work are counted, and cost nothing."""
    core = Core()
    reporter = make_reporter(StatisticsRequest("units"), 0, core)
    assert STATISTICS["units"].read(reporter.report(LOCATION)) == [CostReport(0, 1, 40)]
    found = UnitCosts.of(reporter.answer(LOCATION, 800.0))
    assert found.unit.tolist() == [0, 1]
    assert found.cost.tolist() == [100.0, 700.0]  # the first three queries are in the first box
    assert found.queries.tolist() == [3.0, 4.0]
    core.found = (np.empty(0, np.int64), np.empty(0))
    assert UnitCosts.of(reporter.answer(LOCATION, 800.0)).cost.tolist() == [0.0, 0.0]


# --- when, and to whom ---


def test_dskype_asks_those_that_stay_above_the_threshold():
    """Nobody while load is even, or uneven once; then who is clearly above the mean, for what it reported."""
    state = None
    for costs in ([100, 110, 100], [100, 200, 100], [100, 100, 100], [100, 200, 100]):
        decision, state = DSKYPE.decide(view(costs, state=state, patience=2))
        assert decision is None
    decision, _ = DSKYPE.decide(view([300, 200, 95], state=state, patience=2))
    assert isinstance(decision, Ask)
    assert decision.questions == {0: 300.0}


def test_dskype_moves_a_whole_unit_where_one_fits():
    """To who has least to do; nothing is cut, though a cut would fit better."""
    decision = decided([400, 200, 100], {0: answer([(0, 120, 9), (1, 280, 9)], [(1, ROW, 1, 4, 133, 1)])})
    assert isinstance(decision, Change)
    assert decision.plan.unit_worker.tolist() == [2, 0, 1, 2]
    assert (decision.plan.version, [step.kind for step in decision.steps]) == (2, ["move"])
    assert decision.steps[0].workers == {0, 2}
    assert "0 had 400 and 2 had 100, with a mean of 233" in decision.steps[0].why


def test_dskype_cuts_off_what_fits_with_the_fewest_queries():
    """From above or from below a cut; of those that fit, the one for which fewest queries move."""
    cuts = [(0, ROW, 1, 3, 130, 40), (0, ROW, 1, 5, 250, 75), (0, COLUMN, 1, 1, 30, 1)]
    decision = decided([400, 200, 100], {0: answer([(0, 380, 80), (1, 20, 9)], cuts)}, operations=1)
    # 130 above row 3 with 40 queries, or 130 below row 5 with 5 of them.
    assert decision.plan.boxes.tolist()[0] == [0, 0, 1, 4]
    assert decision.plan.boxes.tolist()[4] == [0, 5, 1, 7]
    assert decision.plan.unit_worker.tolist() == [2, 0, 1, 2, 0]
    assert decision.steps[0].kind == "split"
    assert "of unit 0 what is below row 5, about 5 queries of cost 130" in decision.steps[0].why


def test_dskype_cuts_along_an_axis_that_suits_the_unit_first():
    """A cut by place through a box of keywords divides all parts: only where no keyword will do."""
    both = [(0, ROW, 3, 4, 130, 1), (0, KEYWORD, 1, 50, 130, 30)]
    decision = decided([400, 200, 100], {0: answer([(0, 400, 80)], both)}, plan=KEYWORDS)
    assert decision.plan.part_start.tolist() == [FIRST_WORD, 50, FIRST_WORD, FIRST_WORD]
    assert decision.plan.unit_worker.tolist() == [0, 2, 1, 2]
    hot = [(0, ROW, 3, 4, 130, 1), (0, KEYWORD, 1, 50, 20, 30)]
    decision = decided([400, 200, 100], {0: answer([(0, 400, 80)], hot)}, plan=KEYWORDS)
    assert len(decision.plan.boxes) == 2
    assert decision.plan.unit_worker.tolist() == [0, 1, 2, 2, 1, 2]


def test_dskype_cuts_by_keyword_before_it_cuts_by_place():
    """Objects of a range that is cut by place go to both workers; a unit that fits is better than either."""
    by_place, by_word = (0, ROW, 1, 32, 130, 1), (0, KEYWORD, 1, 1, 130, 30)
    plan = _plan("keyword")
    for cuts, units in (([by_place, by_word], 2), ([by_place], 1)):
        decision = decided([400, 200, 100, 233], {0: answer([(0, 400, 80)], cuts)}, plan=plan, operations=1)
        assert len(decision.plan.unit_worker) == 5
        assert len(np.unique(decision.plan.part_start[:2])) == units


def test_dskype_cuts_one_unit_several_times_in_a_round():
    """One worker that has everything gives a piece to each of the others; pieces of pieces are numbered anew."""
    cuts = [(1, ROW, 1, 1, 800, 80), (1, ROW, 1, 3, 600, 60), (1, ROW, 1, 6, 300, 10)]
    plan = LOCATION.with_units([0, 2], [1, 1])  # the second box is worker 0's
    decision = decided([900, 0, 0], {0: answer([(1, 900, 90)], cuts)}, plan=plan)
    rows = decision.plan.boxes[decision.plan.boxes[:, 0] == 2][:, [1, 3]].tolist()
    assert sorted(rows) == [[0, 2], [3, 5], [6, 7]]
    workers = decision.plan.unit_worker[decision.plan.boxes[:, 0] == 2].tolist()
    assert sorted(workers) == [0, 1, 2]
    assert sum(step.kind == "split" for step in decision.steps) == 2


def test_draft_forgets_what_a_cut_makes_unknown():
    """Parts beside one that is cut by place are in both halves: how much of them is where, nobody knows."""
    parts = np.array([0, 0, 2], np.int32)
    plan = GridPlan.of_parts(
        GRID, np.array([[0, 0, 7, 7]]), [(np.array([0, 100, 200]), np.array([0, 1, 2]), parts)], 3, anchored=True
    )
    made = answer(
        [(0, 300, 30), (1, 90, 9)],
        [(0, ROW, 3, 2, 250, 25), (0, ROW, 3, 4, 100, 5), (0, COLUMN, 3, 2, 50, 5), (1, KEYWORD, 1, 150, 10, 1)],
    )
    draft = Draft.of(plan, np.array([390.0, 0.0, 0.0]), [UnitCosts.of(made)])
    option = next(o for o in draft.cuts_of(0) if o.cut == Cut(0, ROW, 4) and o.above)
    after = draft.taken(option, 1)
    assert after.plan.unit_worker.tolist() == [0, 0, 2, 1, 0, 2]
    assert after.load.tolist() == [290.0, 100.0, 0.0]
    assert after.cost[[0, 3]].tolist() == [200.0, 100.0]
    assert np.isnan(after.cost[[1, 2, 4, 5]]).all()
    assert [(o.cut, o.cost, o.queries) for o in after.cuts_of(0)] == [
        (Cut(0, ROW, 2), 150.0, 20.0),
        (Cut(0, ROW, 2), 50.0, 5.0),
    ]
    below = draft.taken(next(o for o in draft.cuts_of(0) if o.cut == Cut(0, ROW, 2) and not o.above), 1)
    assert below.plan.unit_worker.tolist() == [1, 0, 2, 0, 0, 2]
    assert [(o.cut, o.cost, o.queries) for o in below.cuts_of(0)] == [
        (Cut(3, ROW, 4), 100.0, 5.0),
        (Cut(3, ROW, 4), 150.0, 20.0),
    ]


def test_dskype_does_nothing_that_makes_matters_no_better():
    """A unit that is all the load of its worker, and cannot be cut, stays where it is; nobody is asked again at once."""
    decision, state = DSKYPE.decide(
        view([100, 400, 100], answers={1: answer([(2, 400, 1)])}, patience=2, state={"costs": [], "above": 1})
    )
    assert decision is None
    assert state["above"] == 0


def test_dskype_takes_the_best_there_is_where_nothing_fits():
    """Half of what should move is better than nothing, and more than that, as long as the larger of both loads shrinks."""
    small = decided([400, 200, 100], {0: answer([(0, 400, 9)], [(0, ROW, 1, 4, 60, 1), (0, ROW, 1, 5, 30, 1)])})
    assert small.plan.boxes[0].tolist() == [0, 0, 1, 3]
    assert "cost 60" in small.steps[0].why
    large = decided([400, 300, 200], {0: answer([(0, 400, 9)], [(0, ROW, 1, 4, 150, 1), (0, ROW, 1, 6, 4, 1)])})
    assert "cost 150" in large.steps[0].why


def test_dskype_makes_so_many_operations_and_units_at_most():
    """Settings bound what a round does, and what comes of all rounds."""
    cuts = [(1, ROW, 1, row, 100 * (8 - row), 8 - row) for row in range(1, 8)]
    plan = LOCATION.with_units([0, 2], [1, 1])
    asked = {0: answer([(1, 800, 8)], cuts)}
    assert len([s for s in decided([800, 0, 0], asked, plan=plan, operations=1).steps if s.kind != "merge"]) == 1
    assert decided([800, 0, 0], asked, plan=plan, units=1) is None


def test_dskype_merges_neighbours_of_idle_workers_and_where_there_are_many():
    """Units of one worker that make a box are one again: no query moves by it."""
    plan = LOCATION.with_units([1, 2, 3], [1, 1, 2])
    plan = plan.divided(Cut(0, ROW, 4)).plan  # two halves, of worker 0
    asked = {0: answer([(0, 150, 9), (4, 250, 9)])}
    calm = decided([400, 150, 150], asked, plan=plan)
    assert [step.kind for step in calm.steps] == ["move"]
    idle = decided([400, 50, 150], asked, plan=plan)
    assert [step.kind for step in idle.steps] == ["move", "merge"]
    assert sorted(map(tuple, idle.plan.boxes[idle.plan.unit_worker == 1].tolist()))[-1] == (2, 0, 5, 7)
    many = decided([400, 150, 150], asked, plan=plan, units=2)
    assert [step.kind for step in many.steps] == ["move", "merge"]
    assert "5 units of at most 6" in many.steps[1].why
    assert many.plan.version == plan.version + 1


class Drift:
    """Subscriptions with work for each of their keywords, which a hotspot changes; evaluators that count, and a balancer."""

    def __init__(self, seed, plan, count=4_000):
        rng = self.rng = np.random.default_rng(seed)
        words = [np.unique(rng.zipf(1.4, 3) % 300).tolist() for _ in range(count)]
        self.regions = queries(rng.random(count), rng.random(count), words)
        self.row = np.repeat(np.arange(count), np.diff(self.regions.kw_off))
        self.base = rng.pareto(2.5, len(self.row)) + 0.1
        self.plan, self.state, self.rate, self.moved = plan, None, self.base, 0

    def heat(self, middle):
        """Let objects crowd around a place."""
        near = np.hypot(self.regions.at_x - middle, self.regions.at_y - middle) < 0.1
        self.rate = self.base * np.where(near, 30.0, 1.0)[self.row]

    def burst(self, word):
        """Let objects have one word."""
        self.rate = self.base * np.where(self.regions.kw == word, 30.0, 1.0)

    def loads(self, rate):
        """Return the work of each worker, and which of its queries it is for."""
        filed = self.plan.filed(self.regions)
        place = np.searchsorted(self.row * 1_000 + self.regions.kw, filed.row * 1_000 + filed.word)
        worker = self.plan.unit_worker[filed.unit]
        return np.bincount(worker, rate[place], minlength=self.plan.workers), worker, filed.row, rate[place]

    def efficiency(self):
        load = self.loads(self.rate)[0]
        return load.mean() / load.max()

    def round(self):
        """Report counts with some noise, and do what the policy says."""
        load, worker, row, rate = self.loads(self.rng.poisson(self.rate * 20).astype(float))
        answers = {}
        while True:
            given = view(load.astype(int).tolist(), plan=self.plan, answers=answers, state=self.state, reports=2)
            decision, state = DSKYPE.decide(given)
            if not isinstance(decision, Ask):
                break
            for one, whole in decision.questions.items():
                weight = np.bincount(row[worker == one], rate[worker == one], minlength=len(self.regions))
                answers[one] = costs_of(self.plan, one, self.regions, weight * whole / weight.sum()).answer()
        self.state = state
        if isinstance(decision, Change):
            before, after = (one.route_regions(self.regions) for one in (self.plan, decision.plan))
            if [c.tolist() for c in before] != [c.tolist() for c in after]:
                self.moved += 1
            self.plan = decision.plan


def _plan(kind):
    if kind == "location":
        return GridPlan.of_boxes(
            FineGrid(SPACE, 64, 64),
            np.array([[16 * i, 0, 16 * i + 15, 63] for i in range(4)]),
            np.arange(4),
            4,
            anchored=True,
        )
    halves = [[0, 0, 31, 63], [32, 0, 63, 63]]
    if kind == "spatial-first":
        words = [(np.array([0, 8]), np.arange(2), np.arange(2) + 2 * number) for number in range(2)]
        return GridPlan.of_parts(FineGrid(SPACE, 64, 64), np.array(halves), words, 4, anchored=True)
    of_words = ([0, 2, 8, 40], np.arange(4), np.arange(5), [[0, 0, 63, 63]] * 4)
    of_both = ([0, 8], np.arange(2), [0, 2, 4], halves * 2)
    start, part, off, boxes = of_words if kind == "keyword" else of_both
    return KeywordFirstPlan(
        space=SPACE, workers=4, columns=64, rows=64, range_start=start, range_part=part, box_off=off, boxes=boxes,
        box_worker=np.arange(4), cost=np.ones(4),
    )  # fmt: skip


@pytest.mark.parametrize("kind", ["location", "keyword", "spatial-first", "keyword-first"])
@pytest.mark.parametrize("seed", range(3))
def test_efficiency_recovers_from_hotspots_of_places_and_of_words(kind, seed):
    """Wherever the load drifts to, it is even again after some reports, comes to rest, and units stay bounded."""
    drift, hit = Drift(seed, _plan(kind)), []
    for change in (lambda: drift.heat(0.2), lambda: drift.burst(1), lambda: drift.heat(0.8), lambda: drift.burst(4)):
        change()
        hit.append(drift.efficiency())
        for _ in range(12):
            drift.round()
        assert drift.efficiency() > 0.85, (kind, hit, drift.efficiency())
        assert len(drift.plan.unit_worker) <= 16 * 4
    assert min(hit) < 0.6
    rest = drift.plan.version
    for _ in range(10):
        drift.round()
    assert drift.plan.version <= rest + 1


# --- plans, cores, settings ---


def test_dskype_says_which_plans_it_cannot_change(tmp_path):
    """Those without places and ranges, and those that divide objects by place; and why."""
    for plan in (LOCATION, KEYWORDS, _plan("keyword-first")):
        assert DSKYPE.objection(plan) is None
    assert "'dkm' moves single subscriptions" in DSKYPE.objection(HashPlan(SPACE, 2))
    assert "'tornado' moves the borders" in DSKYPE.objection(replace(LOCATION, anchored=False))
    tree = latest_topology(*write_latest_inputs(tmp_path, 1), partitioner="qt-tree", policy="dskype")
    with pytest.raises(
        DeclarationError, match=r"cannot change this plan: it cuts and merges places .* 'qt-tree' has none"
    ):
        run(tree)
    assert "weigh single queries" in STATISTICS["units"].lacks(RangeCore)


@pytest.mark.parametrize("name", ["threshold", "reports", "patience", "operations", "units"])
def test_dskype_refuses_settings_that_make_no_sense(name):
    """With the key and what is expected."""
    with pytest.raises(DeclarationError, match=f"{name} = 0.*, expected 1 or more"):
        settings_of(policy_of("dskype"), {name: 0})
