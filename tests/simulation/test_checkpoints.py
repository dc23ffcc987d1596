"""A run that is killed at any moment and resumed leaves the files, results and counters of one that was not."""

import json
import random
from pathlib import Path

import pytest
import structlog
from crashes import collected, counted, killed_run, saving_inputs, saving_topology, written, written_at_once
from range_inputs import lines_of

from streams.comparison import compare
from streams.errors import DeclarationError, InputError, RunError
from streams.files.result_files import read_results
from topology import run
from topology.checkpoints import FolderStore, StoreError
from topology.verification import oracle_of


@pytest.mark.parametrize("seed", range(20))
def test_killed_run_goes_on_exactly(tmp_path, seed, monkeypatch):
    """A seed picks sizes, formats, intervals and two moments to be killed at; all that is written is as without."""
    monkeypatch.setattr("streams.files.result_parquet.GROUP_ROWS", 20)
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
    assert len(collected(outcome)) > 3


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


@pytest.mark.parametrize("seed", range(20))
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
    assert sum(one["count"] for one in outcome.summary["reject_reasons"]) == 8


@pytest.fixture
def folder(tmp_path):
    """A folder with inputs."""
    made = tmp_path / "run"
    made.mkdir()
    saving_inputs(made, 3)
    return made


def assert_right(folder, topology, outcome):
    """What was written and what was collected are the oracle's results."""
    oracle = oracle_of(topology)
    assert compare(oracle, read_results(folder / "out" / "results.jsonl")).ok
    assert compare(oracle, lines_of(outcome)).ok
    assert len(oracle.matches().object) > 10


@pytest.mark.parametrize("seed", range(20))
def test_run_killed_while_it_writes_a_checkpoint_goes_on_from_the_one_before(tmp_path, seed):
    """After any number of bytes: what is half written does not count, and goes when the next one is in place."""
    rng = random.Random(seed)
    folder = tmp_path / "run"
    folder.mkdir()
    saving_inputs(folder, seed)
    topology = saving_topology(folder, checkpoint={"epochs": 1, "keep": 2}, max_pending=1)
    begun = 0
    resume = None
    for _ in range(3):
        killed = killed_run(topology, folder, 99, most_bytes=rng.randrange(80_000, 400_000), resume=resume, seed=seed)
        begun += len(list((folder / "checkpoints").glob("*/*.partial")))
        resume = folder / "checkpoints" if killed else None
    outcome = run(topology, resume=resume)
    assert_right(folder, topology, outcome)
    assert begun > 0
    assert len(list((folder / "checkpoints").glob("0*"))) <= 2


@pytest.mark.parametrize("seed", range(12))
def test_damaged_checkpoint_is_passed_over_and_the_one_before_is_exact(tmp_path, seed):
    """A byte changed, a file cut or gone in the newest: a warning names it, and the run goes on from the one before."""
    rng = random.Random(seed)
    folder = tmp_path / "run"
    folder.mkdir()
    saving_inputs(folder, seed)
    topology = saving_topology(folder, checkpoint={"epochs": 1}, max_pending=1)
    assert killed_run(topology, folder, 8, seed=seed)
    *_, before, newest = sorted((folder / "checkpoints").glob("0*"))
    epoch = json.loads((before / "manifest.json").read_text())["checkpoint"]["epoch"]
    damaged = rng.choice(sorted(newest.iterdir()))
    data = damaged.read_bytes()
    at = rng.randrange(len(data))
    how = rng.choice(["flip", "cut", "remove"])
    if how == "flip":
        damaged.write_bytes(data[:at] + bytes([data[at] ^ 255]) + data[at + 1 :])
    elif how == "cut":
        damaged.write_bytes(data[:at])
    else:
        damaged.unlink()
    with structlog.testing.capture_logs() as logs:
        outcome = run(topology, resume=folder / "checkpoints")
    passed = [log for log in logs if log["event"] == "checkpoint_passed_over"]
    assert [Path(log["checkpoint"]).name for log in passed] == [newest.name]
    assert damaged.name in passed[0]["reason"]
    assert [log["epoch"] for log in logs if log["event"] == "run_resumed"] == [epoch + 1]
    assert_right(folder, topology, outcome)


@pytest.mark.parametrize("place", ["file", "memory"])
def test_run_goes_on_from_a_url(folder, place):
    """Checkpoints may be anywhere that fsspec reaches."""
    url = f"file://{folder}/checkpoints" if place == "file" else f"memory://{folder.name}/checkpoints"
    topology = saving_topology(folder, checkpoint={"directory": url, "epochs": 1})
    assert killed_run(topology, folder, 5)
    assert_right(folder, topology, run(topology, resume=url))


@pytest.mark.parametrize("results", ["results.jsonl", "results.parquet"])
def test_stopped_and_finished_runs_go_on_too(folder, results, monkeypatch):
    """A run that was stopped has finished its files; one that goes on takes back what came after the checkpoint."""
    monkeypatch.setattr("streams.files.result_parquet.GROUP_ROWS", 20)
    topology = saving_topology(folder, results=results, checkpoint={"epochs": 1}, max_pending=1)
    seen = []
    first = run(topology, on_progress=seen.append, should_stop=lambda: len(seen) >= 6)
    assert first.summary["objects"] < 80
    for _ in range(2):  # the second time after a run that has come to its end
        outcome = run(topology, resume=folder / "checkpoints")
        assert compare(oracle_of(topology), lines_of(outcome)).ok
        found = [tuple(map(str, line.values())) for line in read_results(folder / "out" / results)]
        assert sorted(found) == sorted(tuple(map(str, line.values())) for line in lines_of(outcome))


def test_new_run_in_a_used_folder_is_the_one_that_goes_on(folder):
    """A run saves its start, so that a checkpoint of a run before is never taken for its own."""
    topology = saving_topology(folder, checkpoint={"epochs": 4}, evaluators=4)
    run(topology)
    other = saving_topology(folder, checkpoint={"epochs": 1000}, evaluators=1)
    assert killed_run(other, folder, 3)
    with structlog.testing.capture_logs() as logs:
        outcome = run(other, resume=folder / "checkpoints")
    assert [log["epoch"] for log in logs if log["event"] == "run_resumed"] == [0]
    assert_right(folder, other, outcome)


def test_run_that_goes_on_elsewhere_saves_its_start_there(tmp_path, folder):
    """Checkpoints of the rest may go to another folder, which then can be gone on from at once."""
    assert killed_run(saving_topology(folder, checkpoint={"epochs": 2}, max_pending=2), folder, 7)
    elsewhere = {"directory": str(folder / "elsewhere"), "epochs": 1000}
    moved = saving_topology(folder, checkpoint=elsewhere, max_pending=2)
    assert killed_run(moved, folder, 2, resume=folder / "checkpoints")
    with structlog.testing.capture_logs() as logs:
        outcome = run(moved, resume=folder / "elsewhere")
    assert logs[0]["epoch"] > 0
    assert_right(folder, moved, outcome)


def test_input_that_has_become_shorter_is_refused(folder):
    """A run cannot go on behind records that are not there any more."""
    topology = saving_topology(folder, checkpoint={"epochs": 1})
    assert killed_run(topology, folder, 5)
    (folder / "objects.jsonl").write_text("", "utf-8")
    with pytest.raises(InputError, match=r"objects\.jsonl has 0 bytes, but had \d+ at the checkpoint"):
        run(topology, resume=folder / "checkpoints")


def test_another_topology_is_refused_with_what_differs(folder):
    """What results depend on must be the same; how it is run need not be."""
    assert killed_run(saving_topology(folder), folder, 5)
    for changes, told in (
        ({"seed": 5}, r"topology\.seed is 5, it was 0"),
        ({"kind": "kd"}, r"bolt\.router\.operator is 'plan-router', it was 'broadcast-router'"),
        ({"results": "other.jsonl"}, r"bolt\.sink\.options\.path is .*other\.jsonl', it was .*results\.jsonl'"),
        ({"inject": [{"kind": "rate", "strength": 2.0}]}, r"inject\.0 is .*rate.*, it was not there"),
    ):
        with pytest.raises(DeclarationError, match=f"is of another topology.*{told}"):
            run(saving_topology(folder, **changes), resume=folder / "checkpoints")
    fine = saving_topology(
        folder, max_pending=2, checkpoint={"seconds": 60.0, "keep": 1}, limits={"collected": 999_999}
    )
    assert_right(folder, fine, run(fine, resume=folder / "checkpoints"))


class Lost(FolderStore):
    """A store that is gone after so many writes."""

    left = 30

    def write(self, name, data):
        type(self).left -= 1
        if self.left < 0:
            raise StoreError(f"cannot write {name}: the network is down")
        super().write(name, data)


@pytest.mark.parametrize("on_failure", ["stop", "skip"])
def test_lost_store_stops_the_run_or_is_passed_over(folder, monkeypatch, on_failure):
    """As configured; either way the results so far are right, and the last checkpoint is good."""
    monkeypatch.setattr("topology.checkpoints.store.FolderStore", Lost)
    monkeypatch.setattr(Lost, "left", 30)
    topology = saving_topology(folder, checkpoint={"epochs": 1, "on_failure": on_failure}, max_pending=1)
    with written_at_once():
        if on_failure == "stop":
            with pytest.raises(RunError, match=r"the checkpoint of epoch .* the network is down"):
                run(topology)
        else:
            assert_right(folder, topology, run(topology))
    monkeypatch.undo()
    assert_right(folder, topology, run(topology, resume=folder / "checkpoints"))
