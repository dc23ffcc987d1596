"""What tasks know of the input's time, and of its queries' names, whatever the epochs cut through."""

import random
from collections import Counter
from functools import partial
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from operators_for_tests import Witness
from range_inputs import random_objects, random_queries, write_inputs, write_lines

from operators.spouts import file_spouts, read_ahead
from streams.batches import FOREVER
from streams.files.prepared import VOCABULARY, Manifest, save_manifest
from streams.geometry import Rect
from streams.window import Window
from topology import TopologyBuilder
from topology.local_runtime import LocalRuntime
from topology.task import Task
from topology.wiring import wire


def watched(objects, queries, *, spouts=1, tasks=1, epoch=None, limit=None, inject=(), dynamic=False, **settings):
    """Return a topology whose only bolt witnesses all input."""
    builder = TopologyBuilder("time", epoch=epoch or {"objects": 3, "queries": 2}, **settings)
    only = {"limit": limit} if limit else {}
    builder.spout("objects", "object-file", path=objects, parallelism=spouts, dynamic=dynamic, **only)
    builder.spout("queries", "query-file", path=queries, parallelism=spouts)
    builder.bolt("witness", Witness, parallelism=tasks).global_("objects", "objects").global_("queries", "queries")
    for one in inject:
        builder.inject(**one)
    return builder.build()


def witnessed(topology, seed=0):
    """Run a topology and return what its first witness saw, epoch by epoch."""
    seen = []

    def on_report(report):
        seen.extend((report.task, output) for output in report.outputs)

    LocalRuntime(wire(topology), seed=seed, delays=True, on_report=on_report).run()
    first = min(task for task, _ in seen)
    return [epoch for task, epoch in seen if task == first]


@pytest.mark.parametrize("seed", range(40))
def test_watermark_is_above_a_time_exactly_when_that_time_is_complete(tmp_path, seed):
    """With epochs that cut inside a timestamp: above t if and only if no object or operation up to t is still to come."""
    rng = random.Random(seed)
    topology = watched(
        *write_inputs(tmp_path, seed, last_ts=rng.choice([3, 25])),
        spouts=rng.choice([1, 3]),
        epoch={"objects": rng.choice([1, 4, 50]), "queries": rng.choice([1, 3, 50])}
        | ({"ms": rng.choice([1, 5])} if rng.random() < 0.4 else {}),
    )
    epochs = witnessed(topology, seed)
    times = [[ts for _, ts in epoch["objects"]] + [ts for *_, ts in epoch["operations"]] for epoch in epochs]
    last = max(map(max, filter(None, times)))
    for i, epoch in enumerate(epochs):
        to_come = [ts for later in times[i + 1 :] for ts in later]
        assert epoch["watermark"] == min(to_come, default=last + 1)


def test_watermark_passes_the_last_object_and_the_last_operation(tmp_path):
    """At the end of the input it is just past all of it, whichever of the two inputs ends last, a limit or not."""
    objects = [{"id": i, "ts": ts, "x": 0.5, "y": 0.5, "keywords": []} for i, ts in enumerate([3, 7, 7, 7, 9])]
    query = {"op": "register", "type": "range", "region": {"rect": [0, 0, 1, 1]}}
    for times, limit, expected in (([0, 4], None, 10), ([0, 40, 40, 40], None, 41), ([0], 2, 8), ([], None, 10)):
        queries = [query | {"id": i, "ts": ts} for i, ts in enumerate(times)]
        topology = watched(
            write_lines(tmp_path / "o.jsonl", objects), write_lines(tmp_path / "q.jsonl", queries), limit=limit
        )
        assert witnessed(topology)[-1]["watermark"] == expected


def test_watermark_waits_while_only_bad_records_come(tmp_path):
    """What follows a stretch of rejects is not known yet, so the time of the last object stays open."""
    good, bad = {"id": 1, "ts": 5, "x": 0, "y": 0, "text": ""}, {"id": 2}
    objects = write_lines(tmp_path / "o.jsonl", [good, *[bad] * 100, good])
    with (
        mock.patch.object(read_ahead, "MOST_REFUSED", 10),
        mock.patch.object(file_spouts, "SMALLEST_CHUNK", 5),
        mock.patch.object(file_spouts, "LARGEST_CHUNK", 5),
    ):
        epochs = witnessed(watched(objects, write_lines(tmp_path / "q.jsonl", [])))
    first, second = (i for i, epoch in enumerate(epochs) if epoch["objects"])
    assert second - first > 1
    assert {epoch["watermark"] for epoch in epochs[first:second]} == {5}
    assert epochs[-1]["watermark"] == 6


@pytest.mark.parametrize("spouts", [1, 3])
def test_names_come_with_the_operations_to_every_task(tmp_path, spouts):
    """Number, identifier and end of each registration and unregistration, in its own epoch, injected ones included."""
    rng = random.Random(5)
    inject = [{"kind": "queries", "region": [0, 0, 1, 1], "start": 0, "duration": 20, "strength": 9}]
    topology = watched(
        write_lines(tmp_path / "o.jsonl", random_objects(rng, 60, 25)),
        write_lines(tmp_path / "q.jsonl", random_queries(rng, 40, 25)),
        spouts=spouts,
        tasks=2,
        inject=inject,
    )
    epochs = witnessed(topology)
    for epoch in epochs:
        assert sorted(epoch["names"], key=str) == sorted([row[:3] for row in epoch["operations"]], key=str)
    names = [row for epoch in epochs for row in epoch["names"]]
    assert any(end == FOREVER for _, _, end in names)
    assert any(number < 0 for number, *_ in names)
    assert len(names) > len({number for number, *_ in names})  # unregistrations name the registration that they end


def test_names_are_not_counted_as_tuples(tmp_path):
    """What is emitted, sent and executed is counted as if nobody read names."""
    objects, queries = write_inputs(tmp_path, 3)
    counts = Counter()
    topology = watched(objects, queries)
    LocalRuntime(wire(topology), on_report=lambda report: counts.update(report.counts)).run()
    tuples = 60 + len(queries.read_text().splitlines())
    assert {counts[name] for name in ("emitted", "transferred", "executed", "to:witness")} == {tuples}


@pytest.mark.parametrize("dynamic", [False, True])
def test_tasks_know_window_dynamic_objects_and_word_statistics(tmp_path, dynamic):
    """Every task's context has them; the statistics are read once and are the same value for all tasks."""
    manifest = Manifest(
        rows=30, keywords=4, space=Rect(0, 0, 1, 1), first_ts=0, last_ts=9, words=1, id_type="int64", text=False,
        synthetic_rate=None, rejects={}, files=(),
    )  # fmt: skip
    pq.write_table(pa.table({"word": ["ape"], "df": [7]}), tmp_path / VOCABULARY)
    save_manifest(tmp_path, manifest)
    topology = watched(
        *write_inputs(tmp_path, 3), tasks=2, dynamic=dynamic, vocabulary=str(tmp_path), window={"objects": 9}
    )
    wiring = wire(topology)
    contexts = [task.operator.context for task in map(partial(Task, wiring), wiring.tasks_of("witness"))]
    assert len({id(context.word_statistics) for context in contexts}) == 1
    assert (contexts[0].word_statistics.documents, contexts[0].word_statistics.df.tolist()) == (30, [7])
    assert [context.window for context in contexts] == [Window(objects=9)] * 2
    assert [context.dynamic for context in contexts] == [dynamic] * 2
