"""The place of an object in the input order: 0, 1, 2, ... over all that is accepted or injected, however it is read."""

import json
import random
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from operators.operator import Emitter, Epoch, Inputs, TaskContext
from operators.redistribution import Division
from operators.spouts import file_spouts, read_ahead
from operators.spouts.file_spouts import ObjectFileSpout
from operators.spouts.injected_input import injected_objects, whole_objects
from streams.batches import ObjectBatch
from streams.files import object_files
from streams.files.object_files import read_objects
from streams.files.object_form import ObjectForm
from streams.files.object_order import ObjectOrder
from streams.files.read_limits import DEFAULT_LIMITS, ReadLimits
from streams.geometry import Rect
from streams.injection import Injection
from streams.state import pack_state, unpack_state
from streams.vocabulary import Encoder

SPACE = Rect(0.0, 0.0, 1.0, 1.0)
COLUMNS = ("seq", "ts", "x", "y", "op", "kw_off", "kw")

INJECTIONS = [
    Injection("condense", at=(0.2, 0.2), strength=0.5, share=0.5),
    Injection("objects", region=Rect(0.5, 0.5, 1.0, 1.0), strength=1.5, start=2, seed=3),
    Injection("rate", strength=2.0, share=0.4, seed=5),
    Injection("keyword", keyword="fire", share=0.5, seed=7),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder for files that examples overwrite."""
    return tmp_path_factory.mktemp("order")


def write(path, rng, count, disorder=0):
    """Write objects, in time order or later by so much, among them records of every kind that is refused."""
    now = 0
    lines = []
    for i in range(count):
        now += rng.randrange(2)
        ts = max(now - rng.randrange(disorder + 1), 0)
        good = {"id": i, "ts": ts, "x": rng.random(), "y": rng.random(), "keywords": rng.sample(["a", "b", "c"], 2)}
        lines.append(rng.choice([good, good, good, good | {"x": 7}, good | {"ts": -1}, {"id": i}]))
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


class Readers:
    """Spouts of objects that share one input, driven epoch by epoch."""

    def __init__(self, path, injections, epoch_objects, parallelism, lateness_ms=0, limits=DEFAULT_LIMITS):
        self.path, self.injections, self.epoch_objects = path, injections, epoch_objects
        self.lateness_ms, self.limits = lateness_ms, limits
        self.open(parallelism)

    def open(self, parallelism):
        self.spouts = [ObjectFileSpout(path=self.path, lateness_ms=self.lateness_ms) for _ in range(parallelism)]
        for index, spout in enumerate(self.spouts):
            spout.open(
                TaskContext(
                    "objects",
                    index,
                    parallelism,
                    SPACE,
                    epoch_objects=self.epoch_objects,
                    injections=self.injections,
                    limits=self.limits,
                )
            )

    def restart(self, parallelism):
        """Go on in fresh spouts, as many as are asked for, with what was saved."""
        states = [unpack_state(pack_state(spout.snapshot())) for spout in self.spouts]
        if parallelism != len(states):
            states = ObjectFileSpout.redistribute(states, Division("objects", parallelism))
        self.open(parallelism)
        for spout, state in zip(self.spouts, states, strict=True):
            spout.restore(unpack_state(pack_state(state)))

    def epoch(self, number):
        """Return what the spouts emit together, in their order, and whether there is more."""
        parts, more = [], []
        for spout in self.spouts:
            emit = Emitter(ObjectFileSpout.outputs)
            more.append(spout.next_epoch(Epoch(number), Inputs(), emit))
            parts += emit.batches("objects")
        assert len(set(more)) == 1
        return parts, more[0]


@settings(max_examples=150, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    chosen=st.lists(st.sampled_from(INJECTIONS), max_size=3),
    parallelism=st.integers(1, 3),
    chunk=st.sampled_from([1, 3, 50]),
    epoch_objects=st.sampled_from([1, 4, 30]),
    restarts=st.dictionaries(st.integers(1, 12), st.integers(1, 3), max_size=3),
    disorder=st.sampled_from([0, 0, 3, 9]),
    lateness_ms=st.sampled_from([0, 1, 5]),
    reordered=st.sampled_from([1, 4, 1000]),
)
def test_seq_is_dense_and_the_same_however_the_input_is_read(
    folder, seed, chosen, parallelism, chunk, epoch_objects, restarts, disorder, lateness_ms, reordered
):
    """Rejects, disorder, injections, chunks, readers and restarts: all objects emitted are range(n), those of the oracle."""
    path = folder / "objects.jsonl"
    write(path, random.Random(seed), 40, disorder)
    injections = tuple(chosen)
    limits, form = ReadLimits(reordered=reordered), ObjectForm(lateness_ms=lateness_ms)
    chunks = list(read_objects(path, space=SPACE, encoder=Encoder(), limits=limits, form=form))
    assert all(len(one.batch) + one.refused == one.records for one in chunks) or lateness_ms
    whole = whole_objects(injected_objects(chunks, injections, SPACE, Encoder()))
    assert (np.diff(whole.ts) >= 0).all()
    assert whole.seq.tolist() == list(range(len(whole)))
    assert len(set(whole.ids.to_list())) == len(whole)
    with (
        mock.patch.object(file_spouts, "SMALLEST_CHUNK", chunk),
        mock.patch.object(file_spouts, "LARGEST_CHUNK", chunk),
        mock.patch.object(object_files, "SHARE_RUN", 2),
        mock.patch.object(read_ahead, "MOST_REFUSED", 3),
    ):
        readers = Readers(path, injections, epoch_objects, parallelism, lateness_ms, limits)
        parts, more, number = [ObjectBatch.empty()], True, 0
        while more:
            emitted, more = readers.epoch(number)
            parts += emitted
            number += 1
            if number in restarts:
                readers.restart(restarts[number])
    found = ObjectBatch.concat(parts)
    found = found.take(np.argsort(found.seq, kind="stable"))
    for name in COLUMNS:
        assert getattr(found, name).tolist() == getattr(whole, name).tolist(), name
    assert found.ids == whole.ids


@settings(max_examples=200, deadline=None)
@given(
    times=st.lists(st.integers(0, 30), max_size=30),
    lateness_ms=st.integers(1, 12),
    reordered=st.sampled_from([1, 2, 5, 100]),
    chunk_rows=st.sampled_from([1, 3, 7, 100]),
)
def test_what_is_accepted_and_in_which_order_is_as_defined_record_by_record(
    folder, times, lateness_ms, reordered, chunk_rows
):
    """An object waits for one that is newer by the lateness, or for so many that come behind it; older ones are rejects."""
    path = folder / "late.csv"
    path.write_text("id,ts,x,y,text\n" + "".join(f"{i},{ts},0,0,a\n" for i, ts in enumerate(times)))
    accepted, refused = [], []
    for i, ts in enumerate(times):
        newest = max((at for at, _ in accepted), default=ts)
        waited = max((at for at, _ in accepted[:-reordered]), default=newest - lateness_ms)
        if ts < max(newest - lateness_ms, waited):
            refused.append(i)
        else:
            accepted.append((ts, i))
    chunks = list(
        read_objects(
            path,
            space=SPACE,
            encoder=Encoder(),
            chunk_rows=chunk_rows,
            limits=ReadLimits(reordered=reordered),
            form=ObjectForm(lateness_ms=lateness_ms),
        )
    )
    whole = whole_objects(chunks)
    assert list(zip(whole.ts.tolist(), whole.ids.to_list(), strict=True)) == sorted(accepted)
    assert whole.seq.tolist() == list(range(len(accepted)))
    assert [line - 2 for one in chunks for line in one.rejects.line.tolist()] == refused
    assert [record for one in chunks for record in one.record.tolist()] == [i for _, i in sorted(accepted)]


def test_objects_wait_for_a_bounded_number_of_others(folder):
    """However late objects may be, no more than the limit wait, and one is passed on for each that comes."""
    path = folder / "many.csv"
    path.write_text("id,ts,x,y,text\n" + "".join(f"{i},{i},0,0,a\n" for i in range(50)))
    order = ObjectOrder(10**9, most=7)
    chunks = read_objects(
        path, space=SPACE, encoder=Encoder(), chunk_rows=1, order=order, form=ObjectForm(lateness_ms=10**9)
    )
    waiting = [(order.waiting, len(one.batch)) for one in chunks]
    assert [held for held, _ in waiting[:50]] == [1, 2, 3, 4, 5, 6, 7] + [7] * 43
    assert [passed for _, passed in waiting[7:50]] == [1] * 43


def test_injections_do_to_a_record_what_they_do_without_the_rejects(folder):
    """Which object is touched depends on its record's number and the seed alone, not on what was refused before it."""
    rng = random.Random(1)
    write(folder / "a.jsonl", rng, 60)
    lines = (folder / "a.jsonl").read_text().splitlines()
    (folder / "b.jsonl").write_text("\n".join(["refused"] * 20 + lines[20:]) + "\n")
    injected = []
    for name in ("a.jsonl", "b.jsonl"):
        chunks = list(read_objects(folder / name, space=SPACE, encoder=Encoder()))
        assert sum(len(chunk.rejects) for chunk in chunks) > 0
        batch = whole_objects(injected_objects(chunks, INJECTIONS, SPACE, Encoder()))
        injected.append({i: (x, y) for i, x, y in zip(batch.ids.to_list(), batch.x, batch.y, strict=True)})
    assert {i: place for i, place in injected[0].items() if i in injected[1]} == injected[1]
