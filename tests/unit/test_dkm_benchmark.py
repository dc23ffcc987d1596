"""The stream of DkM-SKS's experiments: however it is loaded, the lists are the same."""

from dataclasses import replace
from typing import ClassVar

import numpy as np

from benchmarks.dkm_stream import DkmStream, subscriptions
from benchmarks.dkm_topology import ALGORITHMS, dkm_topology, plan_of_start
from operators import Bolt
from operators.needs import SINK_READS
from topology import run
from topology.references import reference_of

STREAM = DkmStream(600, initial=2_000, stamps=5, objects=40, changes=7)


class KeepSink(Bolt):
    """Keeps the lists of a run."""

    reads: ClassVar = SINK_READS
    kept: ClassVar = []

    def execute_epoch(self, epoch, inputs, emit):
        self.kept.extend(arrival.batch for arrival in inputs.arrivals)


def last_lists(stream, folder, name="waterspout"):
    """Return the last list of each query, and how many lists were passed on."""
    algorithm = ALGORITHMS[name]
    topology = dkm_topology(algorithm, stream, plan_of_start(algorithm, stream, 2), folder)
    reference = reference_of(KeepSink)
    sink = replace(topology.component("sink"), operator=reference, classes={reference: KeepSink})
    KeepSink.kept.clear()
    run(replace(topology, components=tuple(sink if c.name == "sink" else c for c in topology.components)))
    lists = {}
    for batch in KeepSink.kept:
        for row, number in enumerate(batch.number.tolist()):
            part = slice(batch.off[row], batch.off[row + 1])
            lists[number] = (batch.seq[part].tolist(), batch.value[part].tolist())
    return lists, sum(map(len, KeepSink.kept))


def test_lists_are_the_same_however_subscriptions_are_loaded(tmp_path):
    """With balls that are known before O_init comes, or without; and as another index has them."""
    plain = last_lists(STREAM, tmp_path)
    assert last_lists(replace(STREAM, bound=True), tmp_path) == plain
    assert last_lists(STREAM, tmp_path, "kop") == plain
    lists, sent = plain
    assert 500 < len(lists) <= 635  # some words no object has
    assert sent > len(lists)
    assert max(max(seq, default=0) for seq, _ in lists.values()) > STREAM.initial  # objects of time-stamps are in them


def test_subscriptions_are_the_same_in_any_pieces():
    """Blocks are made as they are asked for."""
    whole = subscriptions(STREAM, 0, 10_000)
    parts = [subscriptions(STREAM, start, start + 250) for start in range(0, 600, 250)]
    assert len(whole) == 600
    assert np.array_equal(whole.kw, np.concatenate([part.kw for part in parts]))
    assert np.array_equal(whole.number, np.concatenate([part.number for part in parts]))
