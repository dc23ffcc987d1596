"""Range topologies give the oracle's results under any schedule, cut, parallelism, index and restart."""

import random

import pytest
from range_inputs import assert_exact, assert_exact_after_restart, range_topology, write_inputs, write_lines

from topology import run


@pytest.mark.parametrize("seed", range(40))
def test_range_results_equal_the_oracle(tmp_path, seed):
    """A seed picks input, schedule, delays, epoch sizes, parallelism, index and who is broadcast."""
    rng = random.Random(seed)
    objects, queries = write_inputs(tmp_path, seed, rng.choice([0, 1, 60]), rng.choice([0, 1, 40]))
    epoch = {"objects": rng.choice([1, 2, 7, 100]), "queries": rng.choice([1, 3, 100])}
    if rng.random() < 0.3:
        epoch["ms"] = rng.choice([1, 5])
    topology = range_topology(
        objects,
        queries,
        index=rng.choice(["kag", "brute"]),
        spouts=rng.choice([1, 1, 2]),
        routers=rng.choice([1, 2]),
        evaluators=rng.choice([1, 4]),
        broadcast=rng.choice(["objects", "queries"]),
        epoch=epoch,
        max_pending=rng.choice([1, 3, 8]),
    )
    assert_exact(topology, scheduler_seed=seed, delays=True)


def test_inputs_of_the_simulation_have_matches(tmp_path):
    """The random inputs are not so poor that nothing could go wrong."""
    oracle = assert_exact(range_topology(*write_inputs(tmp_path, 1)))
    assert len(oracle.matches().object) > 30


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("cut", [1, 3, 6])
def test_range_topology_goes_on_from_a_snapshot(tmp_path, seed, cut):
    """Stop between epochs, pack every task's state, go on in fresh tasks: the oracle's results, none lost, none twice."""
    topology = range_topology(*write_inputs(tmp_path, seed), spouts=2, epoch={"objects": 7, "queries": 5})
    assert_exact_after_restart(topology, cut, seed)


def test_queries_by_the_thousand_at_one_time_are_spread_over_epochs(tmp_path):
    """Registrations with one timestamp do not make one huge epoch: objects wait until all are delivered."""
    queries = [
        {"op": "register", "id": i, "ts": 5, "type": "range", "region": {"rect": [0, 0, 1, 1]}} for i in range(1000)
    ]
    things = [{"id": i, "ts": ts, "x": 0.5, "y": 0.5, "keywords": []} for i, ts in enumerate([4, 5, 6])]
    topology = range_topology(
        write_lines(tmp_path / "o.jsonl", things),
        write_lines(tmp_path / "q.jsonl", queries),
        epoch={"objects": 10, "queries": 100},
    )
    assert_exact(topology)
    outcome = run(topology)
    assert outcome.summary["results"] == 2000
    assert outcome.summary["epochs"] > 10


def test_query_that_no_operator_answers_is_rejected_and_counted(tmp_path):
    """A knn query in a topology for range queries is a counted reject; the others are answered."""
    objects, _ = write_inputs(tmp_path, 1)
    queries = write_lines(
        tmp_path / "mixed.jsonl",
        [
            {"op": "register", "id": "near", "ts": 0, "type": "knn", "at": [0.5, 0.5], "k": 3},
            {"op": "register", "id": "all", "ts": 0, "type": "range", "region": {"rect": [0, 0, 1, 1]}},
        ],
    )
    summary = run(range_topology(objects, queries)).summary
    assert (summary["queries"], summary["rejected"], summary["results"]) == (1, 1, 60)


def test_deletions_are_rejected_where_objects_have_no_state(tmp_path):
    """A record that deletes is no object of a stream of events: it is rejected and matches nothing."""
    _, queries = write_inputs(tmp_path, 1)
    everywhere = {"op": "register", "id": "all", "ts": 0, "type": "range", "region": {"rect": [0, 0, 1, 1]}}
    things = [
        {"id": i, "ts": i, "x": 0.5, "y": 0.5, "keywords": [], "op": op} for i, op in enumerate(["upsert", "delete"])
    ]
    topology = range_topology(write_lines(tmp_path / "o.jsonl", things), write_lines(queries, [everywhere]))
    summary = run(topology).summary
    assert (summary["objects"], summary["rejected"], summary["results"]) == (1, 1, 1)
    assert_exact(topology)


def test_summary_adds_up(tmp_path):
    """Every object reaches every evaluator once, every query one of them, and the counters say so."""
    topology = range_topology(*write_inputs(tmp_path, 3), evaluators=4)
    summary = run(topology).summary
    assert summary["objects"] == 60
    assert [e["objects"] for e in summary["evaluators"]] == [60] * 4
    assert sum(e["queries"] for e in summary["evaluators"]) == summary["queries"]
    assert summary["communication"] == 4.0
    assert summary["replication"] == 1.0
    assert 0.25 <= summary["parallel_efficiency"] <= 1.0
    assert summary["imbalance"]["peak"] >= 1.0
