"""A run that is killed at any moment and resumed leaves the files, results and counters of one that was not."""

import random

import pytest
from crashes import collected, counted, killed_run, saving_inputs, saving_topology, written
from range_inputs import lines_of

from streams.comparison import compare
from streams.result_files import read_results
from topology import run
from topology.verification import oracle_of


@pytest.mark.parametrize("seed", range(40))
def test_killed_run_goes_on_exactly(tmp_path, seed, monkeypatch):
    """A seed picks sizes, formats, intervals and two moments to be killed at; all that is written is as without."""
    monkeypatch.setattr("streams.result_parquet.GROUP_ROWS", 20)
    rng = random.Random(seed)
    options = {
        "results": rng.choice(["results.jsonl", "results.jsonl.gz", "results.parquet"]),
        "kind": rng.choice([None, "kd", "text"]),
        "broadcast": rng.choice(["objects", "queries"]),
        "spouts": rng.choice([1, 2]),
        "routers": rng.choice([1, 2]),
        "evaluators": rng.choice([1, 3]),
        "checkpoint": rng.choice(
            [{"epochs": rng.choice([1, 2, 5])}, {"seconds": 1e-9}, {"epochs": 3, "seconds": 1e-9}]
        ),
        "max_pending": rng.choice([1, 4, 8]),
    }
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    for folder in (whole, cut):
        folder.mkdir()
        saving_inputs(folder, seed)
    expected = run(saving_topology(whole, **options))
    topology = saving_topology(cut, **options)
    resume = None
    for _ in range(2):
        torn = rng.choice([b"", b'{"query":"q1","ts":', b"\x1f\x8b"])
        killed = killed_run(topology, cut, rng.randrange(0, 12), torn=torn, resume=resume, seed=seed)
        resume = cut / "checkpoints" if killed else None
    outcome = run(topology, resume=resume)
    assert written(cut, options["results"]) == written(whole, options["results"])
    assert collected(outcome) == collected(expected)
    assert counted(outcome.summary) == counted(expected.summary)
    assert len(collected(outcome)) > 30


@pytest.mark.parametrize("seed", range(20))
def test_killed_run_goes_on_in_the_middle_of_a_rebalancing(tmp_path, seed):
    """Queries on their way between evaluators, orders and summaries of keywords are part of the state."""
    rng = random.Random(seed)
    options = {"kind": "kd", "balanced": True, "evaluators": rng.choice([2, 4])}
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    for folder in (whole, cut):
        folder.mkdir()
        saving_inputs(folder, seed)
    expected = run(saving_topology(whole, **options, checkpoint={"epochs": 1}))
    topology = saving_topology(cut, **options, checkpoint={"epochs": rng.choice([1, 2, 3])})
    killed_run(topology, cut, rng.randrange(2, 12), torn=b"{", seed=seed)
    outcome = run(topology, resume=cut / "checkpoints", scheduler_seed=seed + 1, delays=True)
    assert written(cut) == written(whole)
    assert collected(outcome) == collected(expected)
    assert expected.summary["rebalances"]
    assert outcome.summary["rebalances"]


@pytest.mark.parametrize("seed", range(60))
def test_killed_run_goes_on_with_another_parallelism(tmp_path, seed):
    """More or fewer spouts, routers and evaluators, by any plan or none, with load moving or not: the oracle's results."""
    rng = random.Random(seed)
    kind = rng.choice([None, "kd", "text", "qt-tree"])
    options = {"kind": kind, "broadcast": rng.choice(["objects", "queries"])}
    if rng.random() < 0.4:
        options = {"kind": "kd", "balanced": True}

    def sizes():
        return {name: rng.choice([1, 2, 3, 5]) for name in ("spouts", "routers", "evaluators")}

    folder = tmp_path / "run"
    folder.mkdir()
    saving_inputs(folder, seed)
    hotspot = {"kind": "rate", "strength": 1.5, "start": 5, "duration": 9}
    inject = [hotspot] if rng.random() < 0.3 else []
    resume = None
    for _ in range(3):
        topology = saving_topology(folder, **options, **sizes(), checkpoint={"epochs": 2}, inject=inject)
        killed = killed_run(topology, folder, rng.randrange(0, 9), torn=b"{", resume=resume, seed=seed)
        resume = folder / "checkpoints" if killed else None
    last = saving_topology(folder, **options, **sizes(), inject=inject)
    outcome = run(last, resume=resume)
    oracle = oracle_of(last)
    assert compare(oracle, read_results(folder / "out" / "results.jsonl")).ok
    assert compare(oracle, lines_of(outcome)).ok
    assert outcome.summary["objects"] == len(oracle.objects)
    assert outcome.summary["rejected"] == len((folder / "out" / "rejects.jsonl").read_text().splitlines()) == 8
