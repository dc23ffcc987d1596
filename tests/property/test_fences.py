"""Fences against the oracle, epoch by epoch, however the input is cut and whoever is awake for a query."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from inputs import SPACES, streams_of_objects, streams_of_operations
from plain_records import object_batch, query_batch

from operators.evaluation.fence_core import FenceCore
from operators.indexes.fences.fences import Fences
from streams.batches import DETECTS, OP_REGISTER, CrossingBatch
from streams.oracle import Oracle
from streams.vocabulary import Encoder


def epochs_of(objects, queries, cuts):
    """Yield records and operations of each epoch with its watermark: operations come no later than objects of their time."""
    cuts = sorted({min(cut, len(objects)) for cut in cuts} | {0, len(objects)})
    last = max([int(batch.ts[-1]) for batch in (objects, queries) if len(batch)])
    done = 0
    for start, stop in zip([0, *cuts], [*cuts, len(objects)], strict=True):
        part = objects.slice(start, stop)
        until = int(part.ts[-1]) if len(part) else -1
        upto = int(np.searchsorted(queries.ts, until, side="right")) if stop < len(objects) else len(queries)
        operations, done = queries.slice(done, max(done, upto)), max(done, upto)
        waiting = [int(batch.ts[at]) for batch, at in ((objects, stop), (queries, done)) if at < len(batch)]
        yield part, operations, min([*waiting, last + 1])


@settings(deadline=None, max_examples=150)
@given(data=st.data(), index=st.sampled_from(["kag", "brute"]))
def test_fences_report_what_the_oracle_says(data, index):
    """Two cores see all records; each query is awake at one of them, and may be taken by the other between any two epochs."""
    objects = data.draw(streams_of_objects("euclidean", dynamic=True))
    operations = data.draw(streams_of_operations("euclidean", ["fence"]))
    if not operations:
        return
    encoder = Encoder()
    objects, queries = object_batch(objects, encoder), query_batch(operations, encoder)
    oracle = Oracle(objects, queries, space=SPACES["euclidean"], dynamic=True)
    cores = [FenceCore(Fences(index, SPACES["euclidean"], "euclidean")) for _ in range(2)]
    found = [CrossingBatch.empty()]
    for part, ops, watermark in epochs_of(objects, queries, data.draw(st.lists(st.integers(0, 25), max_size=6))):
        new = ops.where(ops.op == OP_REGISTER)
        gone = ops.where(ops.op != OP_REGISTER)
        held = cores[0].numbers()
        moving = held[np.array(data.draw(st.lists(st.booleans(), min_size=len(held), max_size=len(held))), np.bool_)]
        asleep = [np.isin(moving, core._index.asleep()) for core in cores]
        for core, sleeps in zip(cores, asleep, strict=True):
            core.hush(moving[~sleeps])
            core.wake(moving[sleeps])
        for place, core in enumerate(cores):
            core.insert(new)
            core.hush(new.number[new.number % 2 == place])
            core.set_end(gone.target, gone.end)
            reports = core.take(part).hits if len(part) else None, core.settle(watermark - 1, watermark).hits
            found.extend(hits for hits in reports if hits is not None)
        ended = [core.ended(watermark) for core in cores]
        assert ended[0].tolist() == ended[1].tolist()
        for core in cores:
            core.remove(ended[0])
        if data.draw(st.booleans()):
            for core in cores:
                core.restore(core.snapshot())
    events = CrossingBatch.concat(found)
    lines = sorted(
        zip(events.number.tolist(), events.ts.tolist(), events.ids.to_list(), events.detect.tolist(), strict=True),
        key=str,
    )
    expected = []
    for q in oracle.registrations:
        right = oracle.crossings(q)
        names = [oracle.object_ids[row] for row in right.object.tolist()]
        expected += zip([q.number] * len(names), right.ts.tolist(), names, right.detect.tolist(), strict=True)
    assert lines == sorted(expected, key=str)
    assert all(0 <= detect < len(DETECTS) for *_, detect in lines)
