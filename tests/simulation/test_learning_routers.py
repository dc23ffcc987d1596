"""Routers whose keyword lists learn from objects (SSTD, Section 4.2): they drift apart, and results stay exact."""

from dataclasses import replace

import numpy as np
import pytest
from adaptive_inputs import adaptive_topology
from range_inputs import assert_exact, assert_exact_after_restart, write_inputs
from test_plan_routers import planned

from operators.routing.plan_router import PlanRouter
from partitioners import Statistics, build_plan
from partitioners.columns import Points
from partitioners.plans.keyword_lists import KeywordLists
from partitioners.plans.plan import save
from partitioners.plans.qt_routing import split_by_text as divided_by_text
from streams.batches import ObjectBatch, QueryBatch
from streams.errors import DeclarationError
from streams.geometry import Rect
from topology import run
from topology.input_files import read_input
from topology.local_runtime import LocalRuntime
from topology.planning import plan_of
from topology.wiring import wire

SPACE = Rect(0.0, 0.0, 1.0, 1.0)


def _snapshot_statistics(inputs):
    """Statistics of files whose queries are asked once, so that keyword lists have words."""
    objects, queries = read_input(planned(*inputs, "kd"))
    asked = QueryBatch.concat([chunk.batch for chunk in queries])
    asked = replace(asked, continuous=np.zeros(len(asked), np.bool_))
    return Statistics.of_batches(ObjectBatch.concat([chunk.batch for chunk in objects]), asked, SPACE, side=16)


def _plan(tmp_path, inputs, kind="text-tree", workers=3):
    plan = build_plan(kind, _snapshot_statistics(inputs), workers, leaves=13)
    assert len(plan.word)
    save(plan, tmp_path / "qt.plan")
    return plan


def test_learned_lists_are_those_that_a_tree_is_built_with(tmp_path):
    """Routed in their order, objects get the children, and lists the words, that dividing them by text gives."""
    statistics = _snapshot_statistics(write_inputs(tmp_path, 3, objects=200, queries=60))
    plan = build_plan("text-tree", statistics, 2, leaves=4)
    empty = replace(
        plan, bits=np.zeros_like(plan.bits), held=np.zeros_like(plan.held), objects=np.zeros_like(plan.objects)
    )
    lists = KeywordLists(empty)
    some = statistics.objects
    leaves = lists.leaves_of_points(Points.of(some.x, some.y, some.kw_off, some.kw))
    place = np.searchsorted(plan.word, some.kw)
    place = np.where(np.append(plan.word, -1)[place] == some.kw, place, -1)
    child, bits, held, objects = divided_by_text(
        some.kw_off.astype(np.int64), place, np.ascontiguousarray(plan.shares.T), plan.weight[0], plan.lengths[0]
    )
    assert leaves.tolist() == plan.leaf[plan.child[0] + child].tolist()
    assert len(set(leaves.tolist())) == 4
    assert (lists.bits.tolist(), lists.objects.tolist()) == (bits.tolist(), [objects.tolist()])
    assert lists.held[0] == pytest.approx(held)
    assert not empty.bits.any()


@pytest.mark.parametrize(("kind", "seed"), [("text-tree", 0), ("text-tree", 1), ("qt-tree", 5), ("qt-tree", 2)])
def test_routers_that_drift_apart_are_exact(tmp_path, kind, seed):
    """Each of several routers has lists of its own in the end, and every match is reported once."""
    inputs = write_inputs(tmp_path, seed, objects=150, queries=80)
    plan = _plan(tmp_path, inputs, kind)
    topology = planned(*inputs, None, plan=tmp_path / "qt.plan", routers=3, router={"learn": True})
    assert_exact(topology, scheduler_seed=seed, delays=True)
    runtime = LocalRuntime(wire(topology, plan_of(topology)))
    runtime.run()
    learned = [task.snapshot()["lists"] for task in _operators(runtime, PlanRouter)]
    seen = np.sum([lists["objects"] - plan.objects for lists in learned], axis=0)
    assert len(learned) == 3
    assert seen.sum() >= (150 if kind == "text-tree" else 1)
    assert len({lists["objects"].tobytes() + lists["bits"].tobytes() for lists in learned}) == 3


def _operators(runtime, kind):
    return [task.operator for task in runtime._tasks.values() if isinstance(task.operator, kind)]


def test_what_routers_learned_is_part_of_their_state(tmp_path):
    """A run that is cut and goes on gives the same results."""
    inputs = write_inputs(tmp_path, 9, objects=120, queries=80)
    _plan(tmp_path, inputs)
    assert_exact_after_restart(planned(*inputs, None, plan=tmp_path / "qt.plan", router={"learn": True}), 8)


@pytest.mark.parametrize("kind", ["qt-tree", "text-tree"])
def test_plans_that_change_under_learning_routers_are_exact(tmp_path, kind):
    """Leaves are split, merged and moved by lot; with every plan routers take its lists anew."""
    inputs = write_inputs(tmp_path, 4, objects=200, queries=80)
    topology = adaptive_topology(
        *inputs,
        router={"learn": True},
        summary=False,
        balancer={"seed": 2, "units": 1.0},
        partitioner={"kind": kind, "options": {"leaves": 7}},
    )
    assert_exact(topology, scheduler_seed=4)
    assert len(run(topology).summary["rebalances"]) > 3


def test_learning_is_for_trees(tmp_path):
    """Plans without keyword lists have nothing to learn."""
    with pytest.raises(
        DeclarationError, match=r"learn = true is about .*QT-trees, which a plan of the kind 'grid' does not"
    ):
        run(planned(*write_inputs(tmp_path, 1), "kd", router={"learn": True}))
