"""The policy `dkm`: when it asks, what evaluators answer, who gets what."""

import itertools

import msgpack
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from latest_queries import latest_topology, write_latest_inputs
from range_inputs import CONF

from operators.balancing.dkm.policy import DKM, DkmSettings
from operators.balancing.dkm.selection import ENOUGH, fewest
from operators.balancing.policy import Ask, Change, View, settings_of
from operators.balancing.registry import policy_of
from operators.balancing.statistics import STATISTICS, CostReport, StatisticsRequest, make_reporter
from operators.evaluation.range_core import RangeCore
from operators.indexes import Cost
from partitioners import HashPlan
from partitioners.columns import Regions
from streams.errors import DeclarationError
from streams.geometry import Rect
from topology import load_topology, run, validate

SPACE = Rect(0.0, 0.0, 1.0, 1.0)
PLAN = HashPlan(SPACE, 3)


def view(costs, *, answers=None, state=None, plan=PLAN, **given):
    reports = [CostReport(worker, plan.version, cost) for worker, cost in enumerate(costs)]
    return View(plan, reports, DkmSettings(**given), answers or {}, state)


def answer(*pairs):
    return [np.array([number for number, _ in pairs], np.int64), np.array([cost for _, cost in pairs], np.float64)]


# --- what an evaluator gives away ---


def test_fewest_takes_one_that_is_enough_before_many_that_are_more():
    """One of nine is enough for ten; two for twelve; never more than asked for."""
    costs = np.array([1.0, 9.0, 1.0, 5.0, 20.0, 6.0])
    assert fewest(costs, 10.0, 100).tolist() == [1]
    assert sorted(fewest(costs, 12.0, 100).tolist()) == [3, 5]
    assert fewest(costs, 20.0, 100).tolist() == [4]
    assert fewest(costs, 0.5, 100).tolist() == []
    assert fewest(np.empty(0), 3.0, 100).tolist() == []


def test_fewest_is_bounded():
    """Many queries of like cost: no more than so many are named, though they are not enough."""
    assert len(fewest(np.ones(10_000), 5_000.0, 40)) == 40
    assert len(fewest(np.ones(10_000), 30.0, 40)) == 27


@settings(max_examples=300, deadline=None)
@given(costs=st.lists(st.integers(0, 30), max_size=9), amount=st.integers(1, 80), most=st.integers(1, 9))
def test_fewest_never_sheds_more_and_hardly_ever_needs_one_more(costs, amount, most):
    """Against all choices: at most the amount; if some choice is enough, this is, with as few or one more."""
    chosen = fewest(np.array(costs, np.float64), float(amount), most).tolist()
    assert len(set(chosen)) == len(chosen) <= most
    found = sum(costs[row] for row in chosen)
    assert found <= amount
    assert all(costs[row] > 0 for row in chosen)
    choices = [
        (count, total)
        for count in range(1, min(most, len(costs)) + 1)
        for total in [max((sum(c) for c in itertools.combinations(costs, count) if sum(c) <= amount), default=0)]
    ]
    enough = [count for count, total in choices if total >= ENOUGH * amount]
    if found >= ENOUGH * amount:
        assert len(chosen) <= enough[0] + 1
    if enough and enough[0] == 1:
        assert len(chosen) == 1
    best = max((total for _, total in choices), default=0)
    assert found >= best / 2


def test_evaluators_name_dear_queries_in_the_unit_of_what_they_reported():
    """Weights are scaled to the cost that the balancer knows; without recent work there is nothing to name."""

    class Core:
        numbers = staticmethod(lambda: np.arange(3))
        cost = staticmethod(lambda: Cost(0, 40, 0))
        found = (np.array([7, 8, 9]), np.array([1.0, 2.0, 5.0]))

        def weights(self):
            return self.found

    core = Core()
    reporter = make_reporter(StatisticsRequest("weighed"), 1, core)
    assert STATISTICS["weighed"].read(reporter.report(PLAN)) == [CostReport(1, 1, 40)]
    numbers, costs = msgpack.unpackb(msgpack.packb(reporter.answer(PLAN, [300.0, 800.0, 10])))  # it travels
    assert (sorted(numbers), sorted(costs)) == ([7, 8], [100.0, 200.0])
    core.found = (np.empty(0, np.int64), np.empty(0))
    assert reporter.answer(PLAN, [300.0, 800.0, 10]) == [[], []]


# --- when, and to whom ---


def test_dkm_waits_until_costs_stay_uneven():
    """One uneven report is not enough, nor are some with an even one between; then who is above the mean is asked."""
    state, decisions = None, []
    for costs in ([100, 200, 100], [100, 200, 100], [100, 100, 100], [100, 200, 100], [100, 200, 90]):
        decision, state = DKM.decide(view(costs, state=state, reports=1, patience=3))
        decisions.append(decision)
    assert decisions == [None] * 5
    decision, state = DKM.decide(view([100, 200, 95], state=state, reports=1, patience=3, most=10))
    assert isinstance(decision, Ask)
    ((worker, (shed, whole, most)),) = decision.questions.items()
    assert (worker, most) == (1, 10)
    assert (shed, whole) == pytest.approx((200 - 395 / 3, 200.0))


def test_dkm_smooths_over_reports():
    """Loads that take turns are even on the whole: nothing moves."""
    turns = ([130, 100, 70], [100, 70, 130], [70, 130, 100])
    for reports, moves in ((3, False), (1, True)):
        state, decisions = None, []
        for costs in turns * 4:
            decision, state = DKM.decide(view(costs, state=state, reports=reports))
            decisions.append(decision)
        assert any(decision is not None for decision in decisions) == moves


def test_dkm_gives_what_was_named_to_the_least_loaded():
    """The dearest first; each to who has least by then; none that would only change places."""
    first = view([100, 400, 100], patience=1, reports=1)
    asked, _ = DKM.decide(first)
    assert set(asked.questions) == {1}
    answers = {1: answer((11, 90.0), (12, 60.0), (13, 50.0))}
    decision, state = DKM.decide(view([100, 400, 100], patience=1, reports=1, answers=answers))
    assert isinstance(decision, Change)
    at = np.zeros(3)
    route = decision.plan.route_regions(Regions.of((at, at, at, at), number=[11, 12, 13]))[1]
    assert route.tolist() == [0, 2, 2]
    assert state == {"costs": [], "above": 0}
    assert [sorted(step.workers) for step in decision.steps] == [[0, 1], [1, 2]]
    assert "1 had 400" in decision.steps[0].why
    assert "mean of 200" in decision.steps[0].why


def test_dkm_does_not_move_what_makes_matters_no_better():
    """One query that is all the load of its worker stays where it is, and nobody is asked again at once."""
    answers = {1: answer((11, 320.0))}
    decision, state = DKM.decide(
        view([100, 400, 100], reports=1, patience=2, answers=answers, state={"costs": [], "above": 1})
    )
    assert decision is None
    assert state["above"] == 0
    nothing, _ = DKM.decide(view([100, 400, 100], patience=1, reports=1, answers={1: answer()}))
    assert nothing is None


class Drift:
    """Subscriptions with a rate of work each, which a hotspot changes; evaluators that count, and a balancer."""

    def __init__(self, seed, count=2_000, workers=4):
        self.rng = np.random.default_rng(seed)
        self.place, self.base = self.rng.random(count), self.rng.pareto(2.5, count) + 0.1
        self.plan, self.state, self.moved, self.rate = HashPlan(SPACE, workers), None, 0, self.base

    def heat(self, middle):
        """Let objects crowd around a place: what is near has thirty times the work, whoever holds it."""
        self.rate = self.base * np.where(np.abs(self.place - middle) < 0.01, 60.0, 1.0)

    def home(self):
        at = np.zeros(len(self.rate))
        return self.plan.route_regions(Regions.of((at, at, at, at)))[1]

    def efficiency(self):
        load = np.bincount(self.home(), self.rate, minlength=self.plan.workers)
        return load.mean() / load.max()

    def round(self, **given):
        """Report counts with some noise, and do what the policy says."""
        home, answers = self.home(), {}
        counted = self.rng.poisson(self.rate * 20)
        costs = np.bincount(home, counted, minlength=self.plan.workers).astype(int).tolist()
        while True:
            decision, state = DKM.decide(view(costs, plan=self.plan, answers=answers, state=self.state, **given))
            if not isinstance(decision, Ask):
                break
            for worker, (amount, whole, most) in decision.questions.items():
                numbers = np.flatnonzero((home == worker) & (counted > 0))
                weights = counted[numbers] * whole / counted[numbers].sum()
                chosen = fewest(weights, amount, most)
                answers[worker] = [numbers[chosen], weights[chosen]]
        self.state = state
        if isinstance(decision, Change):
            self.moved += int((decision.plan.route_regions(Regions.of((np.zeros(len(home)),) * 4))[1] != home).sum())
            self.plan = decision.plan


@pytest.mark.parametrize("seed", range(8))
def test_efficiency_recovers_when_a_hotspot_wanders(seed):
    """Each time the load drifts it is even again after a few reports, and few subscriptions of two thousand have moved."""
    drift, hit = Drift(seed), []
    for middle in (0.2, 0.5, 0.8):
        drift.heat(middle)
        hit.append(drift.efficiency())
        drift.moved = 0
        for _ in range(12):
            drift.round()
        assert drift.efficiency() > 1 / 1.1, (hit, drift.efficiency())
        assert drift.moved <= 30
    assert min(hit) < 0.85
    rest = drift.plan.version
    for _ in range(20):
        drift.round()
    assert drift.plan.version <= rest + 1  # where the load stays as it is, it comes to rest


def test_dkm_says_which_plans_it_cannot_change(tmp_path):
    """Before the run starts, and so does a core that does not know what its queries cost."""
    assert DKM.objection(PLAN) is None
    inputs = write_latest_inputs(tmp_path, 1)
    grid = latest_topology(*inputs, partitioner="kd", policy="dkm")
    with pytest.raises(
        DeclarationError, match=r"cannot change this plan: it moves single subscriptions, but a plan of the kind"
    ):
        run(grid)
    assert "weigh single queries" in STATISTICS["weighed"].lacks(RangeCore)
    assert STATISTICS["costs"].lacks(RangeCore) is None


def test_dkm_is_refused_where_queries_are_not_weighed():
    """`validate` says so, with the policies that would do."""
    with pytest.raises(
        DeclarationError, match=r"'dkm' decides by 'weighed', which weigh single queries, but RangeCore of"
    ):
        validate(load_topology(CONF / "tornado.toml", ["bolt.balancer.policy=dkm"], check=False))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"threshold": 0.5}, "expected 1 or more"),
        ({"most": 0}, "expected 1 or more"),
        ({"patience": 0}, "expected 1 or more"),
        ({"reports": 0}, "expected 1 or more"),
        ({"treshold": 1.2}, "did you mean 'threshold'"),
    ],
)
def test_dkm_refuses_settings_that_make_no_sense(given, said):
    """With the key and what is expected."""
    with pytest.raises(DeclarationError, match=said):
        settings_of(policy_of("dkm"), given)
