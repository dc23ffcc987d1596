"""Whatever moves between evaluators, and whenever: the oracle's results, none lost, none twice."""

import os
import random

import pytest
from adaptive_inputs import adaptive_topology, random_adaptive_topology
from range_inputs import assert_exact, assert_exact_after_restart, lines_of, write_inputs

from partitioners.plans.plan import save
from streams.comparison import compare
from topology import run
from topology.planning import plan_of
from topology.verification import oracle_of

#: More of them for a longer search: WATERSPOUT_SEEDS=5000 pytest tests/simulation/test_rebalancing.py
SEEDS = int(os.environ.get("WATERSPOUT_SEEDS", "60"))
BATCH = 20


@pytest.mark.parametrize("first", range(0, SEEDS, BATCH))
def test_rebalancing_is_exact_under_any_schedule(tmp_path, first):
    """Random plans, operations, hotspots, lags and schedules, while queries come, end and are withdrawn."""
    for seed in range(first, min(first + BATCH, SEEDS)):
        folder = tmp_path / str(seed)
        folder.mkdir()
        try:
            assert_exact(random_adaptive_topology(folder, seed), scheduler_seed=seed, delays=True)
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error}") from error


@pytest.mark.parametrize("kind", ["text", "keyword", "prefix", "spatial-first", "keyword-first", "kdt-tree"])
def test_rebalancing_is_exact_where_keywords_are_divided(tmp_path, kind):
    """A pair that meets at several evaluators is reported by one of them, whichever plan is in force."""
    for seed in range(8):
        folder = tmp_path / str(seed)
        folder.mkdir()
        inputs = write_inputs(folder, seed, objects=120, queries=60)
        topology = adaptive_topology(
            *inputs, partitioner={"kind": kind, "side": 4}, balancer={"seed": seed, "units": 1.0}, feedback=1 + seed % 3
        )
        assert_exact(topology, scheduler_seed=seed, delays=True)


@pytest.mark.parametrize("cut", [3, 6, 9, 12])
def test_rebalancing_goes_on_after_a_restart(tmp_path, cut):
    """Plans, summaries and queries on their way are part of the state, in the middle of any step of a round."""
    inputs = write_inputs(tmp_path, cut, objects=120, queries=80)
    balancer = {"seed": cut}
    for feedback, chunk in ((1, 3), (2, 1)):
        assert_exact_after_restart(adaptive_topology(*inputs, feedback=feedback, chunk=chunk, balancer=balancer), cut)


@pytest.mark.parametrize("policy", ["tornado", "tornado-paper", "tornado-centralised", "random"])
def test_each_policy_moves_queries_and_stays_exact(tmp_path, policy):
    """A hotspot makes every policy act, and the summary tells what was moved."""
    topology = adaptive_topology(
        *write_inputs(tmp_path, 11, objects=400, queries=200, last_ts=60), policy=policy, evaluators=5,
        epoch={"objects": 20, "queries": 100}, balancer={} if policy == "random" else {"beta": 0.01},
        inject=[{"kind": "condense", "at": [0.2, 0.2], "strength": 0.3, "start": 10}],
    )  # fmt: skip
    outcome = run(topology, scheduler_seed=2, delays=True)
    comparison = compare(oracle_of(topology), lines_of(outcome))
    assert comparison.ok, comparison
    moved = outcome.summary["rebalances"]
    assert moved
    assert sum(one["queries_moved"] for one in moved) > 0
    assert all(one["from"] != one["to"] and one["epoch"] > 0 for one in moved)
    assert policy == "random" or any("C_r" in one["why"] for one in moved)


def test_the_same_statistics_give_the_same_moves(tmp_path):
    """Costs are counts of work, so a run can be replayed: another schedule moves the same queries."""
    topology = random_adaptive_topology(tmp_path, 5, policy="tornado")
    told = []
    for seed in range(3):
        summary = run(topology, scheduler_seed=seed, delays=True).summary
        told.append([{key: value for key, value in one.items() if key != "ms"} for one in summary["rebalances"]])
    assert told[0] == told[1] == told[2]


def test_summaries_withhold_objects_that_nobody_asks_for(tmp_path):
    """An object whose words miss the summary of its evaluator is not sent, and nothing is missing for it."""
    rng = random.Random(4)
    objects, queries = write_inputs(tmp_path, 4, objects=200, queries=6)
    topology = adaptive_topology(objects, queries, policy="none", routers=3, partitioner={"side": rng.choice([8, 16])})
    assert_exact(topology)
    summary = run(topology).summary
    withheld = sum(task.get("withheld", 0) for task in summary["tasks"])
    assert withheld > 0
    assert sum(one["objects"] for one in summary["evaluators"]) == summary["objects"] - withheld


@pytest.mark.parametrize("policy", ["tornado", "tornado-centralised"])
def test_rebalancing_counts_over_the_cells_of_a_plan_of_a_larger_space(tmp_path, policy):
    """A plan may cover more than the topology's space: loads are of its cells, borders move, and nothing is lost."""
    inputs = write_inputs(tmp_path, 11, objects=400, queries=200, last_ts=60)
    wide = adaptive_topology(*inputs, evaluators=5, space=[-1.0, -0.5, 1.0, 2.5])
    save(plan_of(wide), tmp_path / "wide.plan")
    topology = adaptive_topology(
        *inputs, plan=str(tmp_path / "wide.plan"), policy=policy, evaluators=5,
        epoch={"objects": 20, "queries": 100}, balancer={"beta": 0.01},
        inject=[{"kind": "condense", "at": [0.2, 0.2], "strength": 0.3, "start": 10}],
    )  # fmt: skip
    assert_exact(topology)
    assert sum(one["queries_moved"] for one in run(topology).summary["rebalances"]) > 0
