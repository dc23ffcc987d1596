"""What is sent to a sink that only counts."""

from collections import Counter

import numpy as np
import pytest
from operators_for_tests import Numbers

from operators.sinks.sink import CountSink
from streams.batches import CountBatch, HitBatch, TupleBatch
from streams.columns import Ids
from streams.result_batches import counted
from topology import TopologyBuilder
from topology.local_runtime import LocalRuntime
from topology.wiring import wire

SEEN = []


class Witness(CountSink):
    """Counts, and looks at what it is sent."""

    def execute_epoch(self, epoch, inputs, emit):
        SEEN.extend(type(arrival.batch) for arrival in inputs.arrivals)
        super().execute_epoch(epoch, inputs, emit)


class Plain(Witness):
    """The same, and says that nothing but counts need come."""

    counts_only = True


@pytest.mark.parametrize(("sink", "kind"), [(Plain, CountBatch), (Witness, TupleBatch)])
def test_counting_sink_is_sent_counts_and_one_derived_from_it_whole_batches(sink, kind):
    """Results and tuples are counted alike; a class that does not say that it only counts may read everything."""
    SEEN.clear()
    builder = TopologyBuilder("counted")
    builder.spout("numbers", Numbers, count=95, size=10)
    builder.bolt("sink", sink, parallelism=2).shuffle("numbers")
    counts = Counter()
    LocalRuntime(wire(builder.build()), on_report=lambda report: counts.update(report.counts)).run()
    assert {counts[name] for name in ("results", "emitted", "transferred", "executed", "to:sink")} == {95}
    assert set(SEEN) == {kind}


def test_counts_of_hits_are_matches_by_object():
    """An object with three queries has three results, one without has none."""
    hits = HitBatch(
        np.arange(3), np.arange(3), Ids("int", np.arange(3)), np.array([0, 3, 3, 4], np.int32), np.arange(4)
    )
    batch = counted(hits)
    assert (len(batch), batch.results, batch.count.tolist()) == (3, hits.results, [3, 0, 1])
    assert counted(hits.slice(1, 3)).count.tolist() == [0, 1]
