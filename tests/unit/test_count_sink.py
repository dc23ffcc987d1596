"""What is sent to a sink that only counts."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from operators_for_tests import Numbers

from operators.merging.mergers import RankedMerger
from operators.operator import Bolt
from operators.sinks.sink import CountSink
from streams.batches import CountBatch, HitBatch, TupleBatch
from streams.columns import Ids
from streams.result_batches import counted
from topology import TopologyBuilder, extended_topology
from topology.local_runtime import LocalRuntime
from topology.wiring import wire

CONF = Path(__file__).parents[2] / "conf"

SEEN = []


class Witness(CountSink):
    """Counts, and looks at what it is sent."""

    def execute_epoch(self, epoch, inputs, emit):
        SEEN.extend(type(arrival.batch) for arrival in inputs.arrivals)
        super().execute_epoch(epoch, inputs, emit)


class Plain(Witness):
    """The same, and says that nothing but counts need come."""

    counts_only = True


class Reader(Bolt):
    """Reads everything."""


class Prying(RankedMerger):
    """A merger that somebody has changed."""


class Everywhere:
    """A grouping of one's own."""

    def prepare(self, context):
        """Need nothing."""

    def choose(self, batch):
        """Read a column that only lists have."""
        return np.zeros(len(batch.ts), np.int64)


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


def lists_counted(**bolts):
    """Return which streams of evaluator and merger are counted in a variant of the shipped DkM-SKS."""
    wiring = wire(extended_topology(CONF / "dkm.toml", {"bolt": bolts}, check=False))
    return wiring.counted("evaluator"), wiring.counted("merger")


RESULTS = {"component": "merger", "stream": "results", "grouping": "global"}
READERS = {
    "a sink that counts": ({}, True),
    "one by query": ({"sink": {"inputs": [{**RESULTS, "grouping": "fields", "fields": ["number"]}]}}, True),
    "one by another field": ({"sink": {"inputs": [{**RESULTS, "grouping": "fields", "fields": ["ts"]}]}}, False),
    "a grouping of one's own": (
        {"sink": {"inputs": [{**RESULTS, "grouping": "custom", "using": f"{__name__}:Everywhere"}]}},
        False,
    ),
    "a sink that writes": ({"sink": {"operator": "collect"}}, False),
    "another reader beside it": ({"reader": {"operator": f"{__name__}:Reader", "inputs": [RESULTS]}}, False),
}


@pytest.mark.parametrize("readers", READERS)
def test_lists_are_counted_where_nobody_reads_them(readers):
    """Evaluators need not copy lists whose readers, behind the mergers, look at nothing of them."""
    bolts, counted_only = READERS[readers]
    of_evaluator, of_merger = lists_counted(**bolts)
    assert ("rankings" in of_evaluator, "results" in of_merger) == (counted_only, counted_only)


def test_lists_are_not_counted_where_a_merger_may_read_them():
    """A merger derived from ours may look at lists, and one whose radii somebody reads does."""
    of_evaluator, of_merger = lists_counted(merger={"operator": f"{__name__}:Prying"})
    assert ("rankings" in of_evaluator, "results" in of_merger) == (False, True)
    radii = {"component": "merger", "stream": "radii", "grouping": "global"}
    assert "rankings" not in lists_counted(reader={"operator": f"{__name__}:Reader", "inputs": [radii]})[0]
