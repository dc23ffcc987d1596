"""The stream of DSkype's experiments: whatever the mechanism, and whether it is balanced or not, the lists are the same."""

from dataclasses import replace
from typing import ClassVar

import numpy as np
import pytest

from benchmarks.dskype import MECHANISMS, Measured
from benchmarks.dskype_stream import BURST, DskypeSpout, DskypeStream, dskype_topology, plan_of_start
from benchmarks.observed import observed
from operators import Bolt
from operators.needs import SINK_READS
from topology import run
from topology.references import reference_of

STREAM = DskypeStream(200, window=300, epochs=6, messages=50, k=3)


class KeepSink(Bolt):
    """Keeps the lists of a run."""

    reads: ClassVar = SINK_READS
    kept: ClassVar = []

    def execute_epoch(self, epoch, inputs, emit):
        self.kept.extend(arrival.batch for arrival in inputs.arrivals)


def last_lists(kind, stream, folder, **options):
    """Return the last list of each subscription."""
    topology = dskype_topology(plan_of_start(kind, stream, 4), stream, folder, prefix=MECHANISMS[kind], **options)
    reference = reference_of(KeepSink)
    sink = replace(topology.component("sink"), operator=reference, classes={reference: KeepSink})
    KeepSink.kept.clear()
    run(replace(topology, components=tuple(sink if c.name == "sink" else c for c in topology.components)))
    lists = {}
    for batch in KeepSink.kept:
        for row, number in enumerate(batch.number.tolist()):
            lists[number] = batch.seq[batch.off[row] : batch.off[row + 1]].tolist()
    return lists


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """The lists under the simplest mechanism."""
    return last_lists("hash", STREAM, tmp_path_factory.mktemp("hash"))


@pytest.mark.parametrize("kind", [kind for kind in MECHANISMS if kind != "hash"])
def test_mechanisms_have_the_same_lists(kind, expected, tmp_path):
    """A figure about one of them is a figure about the same answers."""
    assert last_lists(kind, STREAM, tmp_path) == expected
    assert len(expected) > 150
    assert max(map(max, filter(None, expected.values()))) >= STREAM.window  # not of the window's filling alone


def messages_of(stream):
    """Return all messages of a stream."""

    class Context:
        def count(self, *_args):
            """Count nothing."""

    spout = DskypeSpout(stream)
    spout.open(Context())
    return spout._messages


@pytest.mark.parametrize("burst", [False, True])
def test_hotspots_leave_messages_where_they_were_in_the_input(burst):
    """From its epoch on messages are condensed or have one word more; they keep their numbers."""
    plain, hot = messages_of(STREAM), messages_of(replace(STREAM, hot=2, burst=burst))
    begin = STREAM.window + 2 * STREAM.messages
    assert hot.seq.tolist() == plain.seq.tolist()
    assert np.array_equal(hot.x[:begin], plain.x[:begin])
    if burst:
        has = np.array([BURST in hot.kw[hot.kw_off[i] : hot.kw_off[i + 1]] for i in range(begin, len(hot))])
        assert 0.4 < has.mean() < 0.7
    else:
        assert np.allclose(hot.x[begin:], 0.5 + 0.4 * (plain.x[begin:] - 0.5))


def test_tables_2_and_5_hold_in_small(tmp_path):
    """Hashing sends every message everywhere and holds a subscription once; keywords send less and hold more."""
    found = {}
    for kind in ("hash", "keyword", "prefix"):
        plan = plan_of_start(kind, STREAM, 4)
        seen = observed(dskype_topology(plan, STREAM, tmp_path, prefix=MECHANISMS[kind]))
        found[kind] = Measured.of(seen, STREAM, 4)
    assert (found["hash"].communication, found["hash"].replication) == (4.0, 1.0)
    assert found["keyword"].communication < 4
    assert 1 < found["prefix"].replication <= found["keyword"].replication <= 5
    assert found["prefix"].stored >= found["prefix"].replication
