"""Lists that nobody reads: their fingerprints travel, and as many results are counted as there would be lines."""

import random
from collections import Counter

import pytest
from knn_inputs import dkm_topology, write_knn_inputs
from range_inputs import GoesBackBehindEachEpoch

from operators.merging.mergers import RankedMerger
from streams.batches import PrintBatch, RankedBatch
from topology import run
from topology.local_runtime import LocalRuntime
from topology.planning import plan_of
from topology.wiring import wire

#: Shipped variants whose subscriptions have one home, wherever it is.
VARIANTS = ("dkm.toml", "dkm-kop.toml", "dkm-sop.toml", "dkm-hash.toml")


def varied(folder, seed, conf, sink):
    """Return a topology that a seed has made, with a sink."""
    rng = random.Random(seed)
    return dkm_topology(
        *write_knn_inputs(folder, seed, objects=150, queries=80), evaluators=rng.choice([2, 4]),
        mergers=rng.choice([1, 3]), piece=rng.choice([1, 20]), seed=seed, conf=conf, sink=sink,
        epoch={"objects": rng.choice([1, 4, 30]), "queries": 20, "feedback": rng.choice([1, 2])},
    )  # fmt: skip


def lines_of(topology):
    """Return how many lists a run writes."""
    return sum(map(len, run(topology).collected))


@pytest.fixture
def sent(monkeypatch):
    """Return the kinds of batches with lists, or with their fingerprints, that mergers are sent."""
    kinds, execute = set(), RankedMerger.execute_epoch

    def watched(self, epoch, inputs, emit):
        batches = [arrival.batch for arrival in inputs.arrivals]
        kinds.update(type(batch) for batch in batches if isinstance(batch, PrintBatch) or len(batch.seq))
        execute(self, epoch, inputs, emit)

    monkeypatch.setattr(RankedMerger, "execute_epoch", watched)
    return kinds


@pytest.mark.parametrize("conf", VARIANTS)
@pytest.mark.parametrize("seed", range(6))
def test_as_many_lists_are_counted_as_there_are_lines(tmp_path, sent, conf, seed):
    """While subscriptions move all the time: a list that has only moved is not counted again, one that has changed is."""
    lines = lines_of(varied(tmp_path, seed, conf, "collect"))
    assert sent == {RankedBatch}
    sent.clear()
    topology, counts = varied(tmp_path, seed, conf, "count"), Counter()
    wiring = wire(topology, plan_of(topology))
    LocalRuntime(wiring, seed=seed, delays=True, on_report=lambda report: counts.update(report.counts)).run()
    assert sent == {PrintBatch}
    assert counts["results"] == counts["to:sink"] == lines > 30


def test_fingerprints_of_lists_are_part_of_the_state_behind_every_epoch(tmp_path, sent):
    """All tasks are made anew behind each epoch, from what they saved; as many lists are counted."""
    lines = lines_of(varied(tmp_path, 3, "dkm.toml", "collect"))
    sent.clear()
    topology, counts = varied(tmp_path, 3, "dkm.toml", "count"), Counter()
    wiring = wire(topology, plan_of(topology))
    forgetful = GoesBackBehindEachEpoch(wiring, 12, [])
    forgetful.on_report = lambda report: counts.update(report.counts)
    forgetful.run()
    assert 0 < counts["results"] < lines
    rest = LocalRuntime(wiring, snapshots=forgetful.states, on_report=lambda report: counts.update(report.counts))
    rest.run()
    assert sent == {PrintBatch}
    assert counts["results"] == lines


def test_who_watches_a_run_sees_lists(tmp_path, sent):
    """Alerts of the live view are where objects of lists are."""
    topology = varied(tmp_path, 1, "dkm.toml", "count")
    LocalRuntime(wire(topology, plan_of(topology), watched=True)).run()
    assert sent == {RankedBatch}
