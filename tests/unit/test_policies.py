"""Policies behind one seam: settings, objections, what the random one changes, and the balancer's rounds by hand."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from adaptive_inputs import PARTITIONERS, adaptive_topology
from range_inputs import CONF, write_inputs

from operators.balancing import balancer as module
from operators.balancing.balancer import Balancer
from operators.balancing.dkm.policy import DkmSettings
from operators.balancing.load_watch import IMPATIENT
from operators.balancing.orders import loaded_plan, orders_of
from operators.balancing.policy import Ask, Change, Policy, Step, View, settings_of
from operators.balancing.random_policy import RANDOM, RandomSettings
from operators.balancing.registry import POLICIES, policy_of
from operators.balancing.statistics import CostReporter, StatisticsRequest
from operators.evaluation.evaluator import REPLY_FIELDS
from operators.indexes import Cost
from operators.operator import Arrival, Emitter, Epoch, Inputs, TaskContext
from partitioners import ReplicatePlan
from partitioners.plans.plan import pack
from streams.batches import TupleBatch
from streams.errors import DeclarationError
from streams.geometry import Rect
from streams.state import pack_state, unpack_state
from topology import load_topology
from topology.planning import plan_of
from topology.validation import make_operator

SPACE = Rect(0.0, 0.0, 1.0, 1.0)


@pytest.fixture(scope="module")
def plans(tmp_path_factory):
    """A plan of every kind, by partitioner."""
    inputs = write_inputs(tmp_path_factory.mktemp("inputs"), 3)
    return {
        kind: plan_of(adaptive_topology(*inputs, evaluators=3, partitioner={"kind": kind, "side": 4}))
        for kind in PARTITIONERS
    }


@pytest.mark.parametrize(
    ("policy", "given", "message"),
    [
        (
            "tornado",
            {"treshold": 1.2},
            r"'tornado' has no setting 'treshold' \(did you mean 'threshold'\?\); it has: beta,",
        ),
        ("none", {"beta": 1.0}, "'none' has no setting 'beta'; it has none"),
        ("tornado", {"threshold": "high"}, "setting 'threshold' of policy 'tornado' is 'high', expected a number"),
        ("tornado", {"operations": 1.5}, "is 1.5, expected a whole number"),
        ("tornado", {"operations": True}, "is True, expected a whole number"),
        ("random", {"units": 2.0}, "units = 2.0, expected a share from 0 to 1"),
        ("random", {"seed": -1}, "seed = -1, expected 0 or more"),
    ],
)
def test_settings_that_a_policy_does_not_have_are_refused(policy, given, message):
    """The error names policy and setting, and says where it stands."""
    with pytest.raises(DeclarationError, match=message) as caught:
        settings_of(policy_of(policy), given)
    assert caught.value.path == ("settings", *given)


def test_settings_are_the_policys_own():
    """What is not given has its default; a whole number will do for any number."""
    settings = settings_of(policy_of("tornado"), {"threshold": 2, "beta": 0.5})
    assert (settings.threshold, settings.beta, settings.gain) == (2, 0.5, 0.02)
    assert settings_of(RANDOM, {"seed": 3}) == RandomSettings(seed=3)


@pytest.mark.parametrize("name", ["tornado", "tornado-paper", "tornado-centralised"])
def test_policies_object_to_plans_that_they_cannot_change(plans, name):
    """Tornado moves borders, so it refuses plans without any when the run starts; the random one takes all."""
    objection = policy_of(name).objection
    assert objection(plans["kd"]) is None
    assert "grid plan" in objection(plans["hash"])
    with pytest.raises(
        DeclarationError, match=f"the policy '{name}' cannot change this plan: it moves borders"
    ) as caught:
        Balancer(name).open(TaskContext("balancer", 0, 1, SPACE, plan=plans["hash"]))
    assert caught.value.path == ("policy",)
    assert all(RANDOM.objection(plan) is None for plan in plans.values())


@pytest.mark.parametrize("kind", PARTITIONERS)
@pytest.mark.parametrize("units", [0.0, 1.0])
def test_random_policy_changes_every_kind_of_plan(plans, kind, units):
    """Every seed changes the plan, to a next version within its workers; the same view always gives the same change.

    One that gave no change would give none ever after, and the plan would stand still for the rest of a run.
    """
    plan = plans[kind]
    for seed in range(40):
        view = View(plan, [], RandomSettings(seed=seed, units=units))
        decision, memory = RANDOM.decide(view)
        assert memory is None
        assert (decision is None) == isinstance(plan, ReplicatePlan), seed
        if decision is None:
            continue
        again = RANDOM.decide(view)[0]
        assert (decision.plan.kind, decision.plan.version, decision.plan.workers) == (plan.kind, plan.version + 1, 3)
        assert pack(decision.plan) == pack(again.plan)
        worker = getattr(decision.plan, "unit_worker", np.empty(0))
        assert not len(worker) or 0 <= worker.min() <= worker.max() < 3


def test_change_names_the_step_that_brought_two_workers_together():
    """Both of them if any step has both, else the giver's, else the first."""
    steps = (Step("a", frozenset({0, 1})), Step("b", frozenset({1, 2})), Step("c", frozenset({3, 4})))
    change = Change(None, steps)
    assert [change.step(*pair).kind for pair in ((2, 1), (0, 1), (3, 0), (9, 8))] == ["b", "a", "c", "a"]


OWN = """
from dataclasses import replace

from operators.balancing.random_policy import RANDOM

POLICY = replace(RANDOM, name="own")
BLIND = replace(RANDOM, statistics="cost")
"""


def test_policies_of_others_are_found_by_module():
    """As operators are; what is no policy is refused, with the key."""
    assert policy_of("operators.balancing.random_policy:RANDOM") is RANDOM
    for reference, said in (
        (
            "operators.balancing.random_policy:NOPE",
            "cannot load 'operators.balancing.random_policy:NOPE': operators.balancing.random_policy has no 'NOPE'",
        ),
        ("nowhere.at.all:POLICY", "cannot load 'nowhere.at.all:POLICY': ModuleNotFoundError"),
        ("operators.balancing.random_policy:RandomSettings", "is a type, expected a Policy"),
        ("own", "'module:NAME' or 'file.py:NAME'"),
    ):
        with pytest.raises(DeclarationError) as refused:
            policy_of(reference)
        assert said in refused.value.text
        assert refused.value.path == ("policy",)


def test_policies_of_others_are_found_by_file(tmp_path):
    """A file beside the topology, also where that is extended by one in another folder."""
    (tmp_path / "below").mkdir()
    (tmp_path / "own.py").write_text(OWN, "utf-8")
    upper, lower = tmp_path / "upper.toml", tmp_path / "below" / "lower.toml"
    upper.write_text(f'extends = "{CONF / "tornado.toml"}"\n[bolt.balancer]\npolicy = "own.py:POLICY"\n', "utf-8")
    lower.write_text('extends = "../upper.toml"\n', "utf-8")
    for path in (upper, lower):
        topology = load_topology(path, check=False)
        assert make_operator(topology.component("balancer"), topology)._policy.name == "own"
    blind = load_topology(upper, ["bolt.balancer.policy=own.py:BLIND"], check=False)
    with pytest.raises(DeclarationError, match=r"reads the statistics 'cost' \(did you mean 'costs'\?\)"):
        make_operator(blind.component("balancer"), blind)


# --- the balancer, by hand --------------------------------------------------------------------------------------------


def _decide(view):
    """Ask worker 1 first, then change the plan; remember how often."""
    if not view.answers:
        return Ask({1: ["where", 7]}), "not to be remembered while asking"
    assert view.answers == {1: 42}
    plan = RANDOM.decide(View(view.plan, [], RandomSettings(units=1.0)))[0].plan
    return Change(plan, (Step("swap", frozenset({0, 1}), "because of 42"),)), (view.state or 0) + 1


CURIOUS = Policy("curious", "asks, then changes", "costs", RandomSettings, _decide)


class Balanced:
    """A balancer and what it did, which may be stopped and restored between any two epochs."""

    def __init__(self, plan, monkeypatch, policy=CURIOUS):
        monkeypatch.setattr(module, "policy_of", lambda _name: policy)
        self.plan, self.events, self.counts = plan, [], {}
        self.balancer = self._opened()

    def _opened(self):
        made = Balancer("curious")
        made.open(TaskContext("balancer", 0, 1, SPACE, plan=self.plan, event=self.events.append, count=self._count,
                              epoch_feedback=2))  # fmt: skip
        return made

    def _count(self, name, by):
        self.counts[name] = self.counts.get(name, 0) + by

    def restart(self):
        state = unpack_state(pack_state(self.balancer.snapshot()))
        self.balancer = self._opened()
        self.balancer.restore(state)

    def epoch(self, number, *, reports=(), replies=(), final=False, ordered=False):
        order = [Arrival("live", "rebalance", 0, TupleBatch.of(("ts",), [(7,)]))] if ordered else []
        came = [Arrival("evaluator", "statistics", n, report) for n, report in enumerate(reports)]
        came += [Arrival("evaluator", "replies", r[1], TupleBatch.of(REPLY_FIELDS, [r])) for r in replies]
        emit = Emitter(Balancer.outputs)
        self.balancer.execute_epoch(Epoch(number, final=final), Inputs((*came, *order)), emit)
        return [(o.kind, o.worker, o.payload) for o in orders_of(emit.batches("orders"))]


def reports_of(plan, cost=5, workers=3):
    core = SimpleNamespace(cost=lambda: Cost(0, cost, 0), numbers=lambda: np.arange(4))
    return [CostReporter(worker, core, {}, "euclidean").report(plan) for worker in range(workers)]


def round_of(plan, monkeypatch, restart_after=None):
    """Go through a whole round; return all orders by epoch, and the events."""
    balanced = Balanced(plan, monkeypatch)
    epochs = [
        {"reports": reports_of(plan)},
        {},
        {"replies": [("answer", 1, 42)]},
        {"replies": [("sent", 0, [(1, 3)]), ("sent", 2, [])]},
        {"reports": reports_of(plan)},
        {"replies": [("sent", 1, [(2, 1), (0, 2)])]},
        {"reports": reports_of(plan)},
    ]
    orders = []
    for number, one in enumerate(epochs):
        orders.append(balanced.epoch(number, **one))
        if number == restart_after:
            balanced.restart()
    return orders, balanced.events, balanced


@pytest.mark.parametrize("restart_after", [None, 0, 1, 2, 3, 4, 5])
def test_balancer_leads_a_round_and_is_restored_in_any_phase(plans, monkeypatch, restart_after):
    """Ask, prepare when answered, switch when all have sent; stopped after any epoch it decides the same again."""
    orders, events, balanced = round_of(plans["kd"], monkeypatch, restart_after)
    kinds = [[(kind, worker) for kind, worker, _ in one] for one in orders]
    assert kinds == [[("ask", 1)], [], [("prepare", -1)], [], [], [("switch", -1)], []]
    assert orders[0][0][2] == ["where", 7]
    assert orders[2] == round_of(plans["kd"], monkeypatch)[0][2]
    assert events[0] == {"event": "rebalancing", "version": 2}
    shared = {"event": "rebalanced", "version": 2, "epoch": 7, "kind": "swap", "why": "because of 42"}
    assert events[1:] == [
        {**shared, "from": 0, "to": 1, "queries_moved": 3},
        {**shared, "from": 1, "to": 0, "queries_moved": 2},
        {**shared, "from": 1, "to": 2, "queries_moved": 1},
    ]
    state = balanced.balancer.snapshot()
    assert (state["phase"], state["memory"], state["next"]) == ("watching", 1, None)
    assert balanced.counts["rebalances"] == 1


@pytest.mark.parametrize("restart", [False, True])
def test_an_ordered_round_waits_for_nothing(plans, monkeypatch, restart):
    """An order changes what makes a policy wait, for one round; also for a balancer that is restored before it."""
    seen = []

    def decide(view):
        seen.append((view.settings.patience, view.settings.threshold))
        return None, None

    patient = Policy("patient", "waits", "costs", DkmSettings, decide, impatient=IMPATIENT)
    balanced = Balanced(plans["kd"], monkeypatch, policy=patient)
    balanced.epoch(0, reports=reports_of(plans["kd"]))
    balanced.epoch(1, ordered=True)
    if restart:
        balanced.restart()
    balanced.epoch(2, reports=reports_of(plans["kd"]))
    balanced.epoch(3, reports=reports_of(plans["kd"]))
    usual = (DkmSettings().patience, DkmSettings().threshold)
    assert seen == [usual, (1, 1.0), usual]


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
def test_settings_of_an_ordered_round_are_valid(policy):
    """What a policy says of such a round are settings that it has, and takes."""
    replace(policy.settings(), **policy.impatient)


def test_balancer_tells_of_each_round_what_moved_in_it(plans, monkeypatch):
    """What evaluators sent in the round before is not told again."""
    balanced = round_of(plans["kd"], monkeypatch)[2]
    plan = loaded_plan(balanced.balancer.snapshot()["plan"])
    balanced.events.clear()
    for number, one in enumerate(
        [{"reports": reports_of(plan)}, {"replies": [("answer", 1, 42)]},
         {"replies": [("sent", 0, []), ("sent", 1, []), ("sent", 2, [(1, 9)])]}], 7
    ):  # fmt: skip
        balanced.epoch(number, **one)
    moved = [(e["from"], e["to"], e["queries_moved"]) for e in balanced.events if e["event"] == "rebalanced"]
    assert moved == [(2, 1, 9)]


def test_balancer_waits_for_reports_of_all_under_its_plan(plans, monkeypatch):
    """Reports of some, of another plan, without any work, or in the final epoch lead to nothing."""
    plan = plans["kd"]
    balanced = Balanced(plan, monkeypatch)
    other = RANDOM.decide(View(plan, [], RandomSettings(units=1.0)))[0].plan
    assert balanced.epoch(0, reports=reports_of(plan, workers=2)) == []
    assert balanced.epoch(1, reports=reports_of(other)) == []
    assert balanced.epoch(2, reports=reports_of(plan, cost=0)) == []
    assert balanced.epoch(3, reports=reports_of(plan), final=True) == []
    assert [kind for kind, *_ in balanced.epoch(4, reports=reports_of(plan))] == ["ask"]


def test_balancer_with_other_evaluators_starts_afresh(plans, monkeypatch):
    """An empty state is that of a balancer that has not begun."""
    balanced = Balanced(plans["kd"], monkeypatch)
    balanced.balancer.restore({})
    assert [kind for kind, *_ in balanced.epoch(0, reports=reports_of(plans["kd"]))] == ["ask"]


@pytest.mark.parametrize(
    ("policy", "given", "request_"),
    [
        ("tornado", {"knots": 7}, StatisticsRequest("partitions", {"knots": 7})),
        ("tornado-centralised", {"knots": 7}, StatisticsRequest("cells", {"knots": 7})),
        ("random", {}, StatisticsRequest("costs", {})),
    ],
)
def test_balancer_asks_evaluators_for_what_its_policy_reads(policy, given, request_):
    """The kind of statistics and how fine they are follow from the policy and its settings."""
    assert Balancer(policy, given).asks == request_
