"""The stream of SSTD's experiments: whatever the global index, and whether load moves or not, answers are the same."""

from dataclasses import replace
from typing import ClassVar

import numpy as np
import pytest

from benchmarks.observed import observed
from benchmarks.sstd_stream import (
    DATA,
    TICK,
    Questions,
    SstdSpout,
    SstdStream,
    asked_questions,
    sstd_objects,
    standing_questions,
)
from benchmarks.sstd_topology import INDEXES, latency_ms, plan_of_start, sstd_topology, two_cores_ms
from benchmarks.tornado_topology import SPACE
from operators import Bolt, TaskContext
from operators.needs import SINK_READS
from streams.batches import TYPE_KNN, HitBatch, ObjectBatch
from topology import run
from topology.references import reference_of

STREAM = SstdStream(
    600,
    standing=tuple(Questions(kind, 60, area=0.01) for kind in ("crq", "ckq", "ctq")),
    asked=tuple(Questions(kind, 12, area=0.01) for kind in ("srq", "skq", "stq")),
    an_epoch=2,
    epochs=25,
    batch=40,
)


class KeepSink(Bolt):
    """Keeps the answers of a run: what was found for whom, and when."""

    reads: ClassVar = SINK_READS
    hits: ClassVar = set()
    lists: ClassVar = {}

    def execute_epoch(self, epoch, inputs, emit):
        for arrival in inputs.arrivals:
            batch = arrival.batch
            if isinstance(batch, HitBatch):
                owner = np.repeat(batch.seq, np.diff(batch.off))
                self.hits.update(zip(owner.tolist(), batch.number.tolist(), strict=True))
                continue
            for row, number in enumerate(batch.number.tolist()):
                part, lasting = slice(batch.off[row], batch.off[row + 1]), not batch.instant[row]
                found = sorted(zip(batch.value[part].tolist(), batch.seq[part].tolist(), strict=True))
                self.lists[number, None if lasting else int(batch.ts[row])] = found


def answers(stream, name, folder, policy=None):
    """Return the matches, and the lists by query and instant; of lists that change the last."""
    plan = plan_of_start(INDEXES[name], stream, 3)
    topology = sstd_topology(INDEXES[name], stream, plan, folder, policy)
    reference = reference_of(KeepSink)
    sink = replace(topology.component("sink"), operator=reference, classes={reference: KeepSink})
    KeepSink.hits.clear()
    KeepSink.lists.clear()
    outcome = run(replace(topology, components=tuple(sink if c.name == "sink" else c for c in topology.components)))
    return (set(KeepSink.hits), dict(KeepSink.lists)), outcome.summary


def test_answers_are_the_same_under_every_plan(tmp_path):
    """All six kinds of questions, under two global indexes, one of them with a plan that changes all the time."""
    expected, _ = answers(STREAM, "qt-tree", tmp_path)
    moving, summary = answers(STREAM, "quadtree", tmp_path, {"policy": "random"})
    assert moving == expected
    assert sum(move["queries_moved"] for move in summary["rebalances"]) > 0
    hits, lists = expected
    assert len(hits) > 20
    standing, asked = standing_questions(STREAM), asked_questions(STREAM, 180)
    assert {number for number, at in lists if at is not None} >= set(asked.number.tolist())
    assert {number for number, at in lists if at is None} <= set(standing.number[standing.type == TYPE_KNN].tolist())
    assert all(lists[180 + row, STREAM.begin * TICK] == plain_look(asked, row) for row in range(STREAM.an_epoch))


def plain_look(asked, row):
    """Return what a range question of the first epoch finds among all objects that are there by then."""
    later = sstd_objects(STREAM.data, STREAM.lasting * STREAM.batch, STREAM.seed, 1).slice(0, STREAM.batch)
    objects = ObjectBatch.concat([sstd_objects(STREAM.data, STREAM.kept, STREAM.seed, 0), later])
    a, b, c, d = asked.shape[row]
    inside = (objects.x >= a) & (objects.x <= c) & (objects.y >= b) & (objects.y <= d)
    has = (objects.kw.reshape(len(objects), -1) == asked.kw[asked.kw_off[row]]).any(1)
    return [(0.0, seq) for seq in np.flatnonzero(inside & has).tolist()]


def test_insertions_come_to_the_centre():
    """Objects in their share, from their epoch on; queries all of them."""
    spout = SstdSpout(replace(STREAM, insert="objects", calm=5, inserted=0.5))
    spout.open(TaskContext("source", 0, 1, SPACE))
    near = (abs(spout._later.x - 0.5) <= 0.025) & (abs(spout._later.y - 0.5) <= 0.025)
    assert near[: 5 * STREAM.batch].mean() < 0.1
    assert 0.4 < near[5 * STREAM.batch :].mean() < 0.6


@pytest.mark.parametrize("data", DATA)
def test_places_are_distributed_as_their_name_says(data):
    """Tweets in spots, uniform places in all quarters alike, the others around the centre."""
    objects = sstd_objects(data, 4_000, 1, 0)
    cells = np.bincount(
        (objects.x * 8).astype(int).clip(0, 7) * 8 + (objects.y * 8).astype(int).clip(0, 7), minlength=64
    )
    busiest = cells.max() / len(objects)
    assert {"tw": 0.05 < busiest < 0.3, "uni": busiest < 0.03, "gau": busiest > 0.2}[data]


def test_times_are_those_of_the_busiest_tasks(tmp_path):
    """A path takes no more than all tasks and no less than the slowest; two cores take at least half."""
    stream = replace(STREAM, standing=(), asked=STREAM.asked[:1])
    plan = plan_of_start(INDEXES["quadtree"], stream, 2)
    seen = observed(sstd_topology(INDEXES["quadtree"], stream, plan, tmp_path))
    path, total, slowest = latency_ms(seen), seen.busy_ms.sum(1), seen.busy_ms.max(1)
    assert (path <= total + 1e-9).all()
    assert (path >= slowest).all()
    assert np.allclose(two_cores_ms(seen.busy_ms), np.maximum(total / 2, slowest))
    assert seen.cost[stream.epochs_of(0)].sum() > 0
