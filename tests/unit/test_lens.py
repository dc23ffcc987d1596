"""What tasks show of their work: bounded samples that are true, and every plan that was in force."""

import random
from collections import Counter

import numpy as np
import pytest
from adaptive_inputs import adaptive_topology, restless
from range_inputs import lines_of, write_inputs
from view_inputs import Recorder

from operators.operator import Emitter, Inputs
from streams.batches import ObjectBatch
from streams.columns import Ids
from streams.geometry import Rect
from topology import run
from topology.lens import (
    EPOCHS_AT_ONCE,
    EPOCHS_PER_S,
    MOST_OBJECTS,
    PARTS,
    PLACES,
    PLAN,
    SWITCHED,
    Lens,
    Shutter,
)

SPACE = Rect(-10.0, 0.0, 30.0, 20.0)


def objects(x, y, first=0):
    """A batch of objects at these places."""
    n = len(x)
    return ObjectBatch(
        seq=np.arange(first, first + n), ts=np.zeros(n, np.int64), x=np.asarray(x, float), y=np.asarray(y, float),
        op=np.zeros(n, np.uint8), kw_off=np.zeros(n + 1, np.int32), kw=np.empty(0, np.int64),
        ids=Ids("int", np.arange(n)),
    )  # fmt: skip


class Source:
    """What a lens takes for a spout."""

    def next_epoch(self):
        """Have a name."""


@pytest.mark.parametrize("rows", [1, MOST_OBJECTS, MOST_OBJECTS + 1, 100_000])
def test_lens_shows_a_bounded_sample_of_objects_where_they_are(rows):
    """However many there are, at most so many places, each that of an object, with the true count."""
    rng = np.random.default_rng(rows)
    batch = objects(rng.uniform(-10, 30, rows), rng.uniform(0, 20, rows))
    emit = Emitter({"objects": ()})
    emit.batch(batch, "objects")
    (event,) = Lens(SPACE, Source()).look(3, Inputs(), emit)
    places = np.frombuffer(event["places"], "<u2").reshape(-1, 2) / PARTS
    assert (event["event"], event["what"], event["count"]) == (PLACES, "objects", rows)
    assert len(places) == min(rows, MOST_OBJECTS)
    x, y = places[:, 0] * 40 - 10, places[:, 1] * 20
    near = (abs(batch.x[:, None] - x) < 40 / PARTS) & (abs(batch.y[:, None] - y) < 20 / PARTS)
    assert near.any(0).all()


def test_lens_shows_other_rows_in_other_epochs():
    """A stream in which every so many objects are alike is not shown by these alone."""
    batch = objects(np.linspace(-10, 30, 6_400), np.zeros(6_400))
    shown = set()
    for epoch in range(20):
        emit = Emitter({"objects": ()})
        emit.batch(batch, "objects")
        (event,) = Lens(SPACE, Source()).look(epoch, Inputs(), emit)
        shown.update(np.frombuffer(event["places"], "<u2")[::2].tolist())
    assert len(shown) > 10 * MOST_OBJECTS


def test_watched_run_gives_the_same_results_and_shows_alerts_where_objects_are(tmp_path):
    """To watch changes nothing; places of alerts are places of objects."""
    topology = adaptive_topology(*write_inputs(tmp_path, 3, objects=200), balancer=restless("random", 3))
    recorder = Recorder()
    watched, alone = run(topology, watcher=recorder), run(topology)
    assert Counter(map(str, lines_of(watched))) == Counter(map(str, lines_of(alone)))
    seen = {"objects": set(), "alerts": set()}
    for _, event in recorder.events:
        if event["event"] == PLACES:
            seen[event["what"]].update(map(tuple, np.frombuffer(event["places"], "<u2").reshape(-1, 2).tolist()))
    assert seen["alerts"]
    assert seen["alerts"] <= seen["objects"]


@pytest.mark.parametrize("partitioner", ["kd", "qt-tree", "text", "hash"])
def test_watcher_knows_every_plan_that_was_in_force(tmp_path, partitioner):
    """Plans that are followed change by change have the versions that the moves of the summary name."""
    topology = adaptive_topology(
        *write_inputs(tmp_path, 5, objects=300), partitioner={"kind": partitioner}, balancer=restless("random", 5)
    )
    recorder = Recorder()
    run(topology, watcher=recorder)
    switched = [event["event"] for _, event in recorder.events].count(SWITCHED)
    assert switched > 2
    assert recorder.plans == list(range(2, switched + 2))
    moved = {event["version"] for _, event in recorder.events if event["event"] == "rebalanced"}
    assert moved <= set(recorder.plans)
    assert recorder.plan.known


def test_watcher_is_told_of_a_kill_and_of_the_plan_that_the_run_goes_back_to(tmp_path):
    """The results are those of a run without, and the plan that is shown then was in force in that epoch before, too."""
    seed = random.Random(1).randrange(100)
    topology = adaptive_topology(
        *write_inputs(tmp_path, 7, objects=300), balancer=restless("random", seed),
        checkpoint={"directory": str(tmp_path / "saved"), "epochs": 8},
    )  # fmt: skip
    recorder = Recorder(kill_after=30)
    outcome = run(topology, watcher=recorder)
    assert [fault.task for fault in recorder.faults_struck] == ["evaluator[1]"]
    (start,) = recorder.backs
    assert 0 < start <= 30
    assert recorder.totals[1]["objects"] < outcome.summary["objects"]
    again = next(
        place for place, (epoch, event) in enumerate(recorder.events) if epoch == start and event["event"] == PLAN
    )
    told = recorder.events[again][1]["version"]
    in_force = 1 + sum(event["event"] == SWITCHED for epoch, event in recorder.events[:again] if epoch <= start)
    assert told == in_force
    assert recorder.plan.known
    assert Counter(map(str, lines_of(outcome))) == Counter(map(str, lines_of(run(topology))))


def test_shutter_shows_all_epochs_while_they_are_few_and_so_many_a_second_where_they_fly_by():
    """Its cost follows the clock, not the stream; whoever asks of an epoch again is told the same."""
    now = 0.0
    shutter = Shutter(lambda: now)
    shown = 0
    for epoch in range(10_000):  # ten seconds at a thousand epochs a second
        now = epoch / 1_000
        told = shutter(epoch)
        assert shutter(epoch) == told
        shown += told
    assert EPOCHS_AT_ONCE + 9 * EPOCHS_PER_S <= shown <= EPOCHS_AT_ONCE + 10 * EPOCHS_PER_S
    for epoch in range(10_000, 10_100):  # and ten a second
        now += 0.1
        assert shutter(epoch)
