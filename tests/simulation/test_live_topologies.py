"""A topology that follows a journal is killed at any moment: what its log of results holds in the end is the oracle's, once."""

import dataclasses
import json
import random
from pathlib import Path

import numpy as np
import pytest
from crashes import KilledError, written_at_once
from fault_simulation import TOPOLOGIES

from operators.sinks.published import unpack_results
from operators.spouts.injected_input import whole_objects, whole_queries
from operators.spouts.journal import JournalEntry, pack_entry
from partitioners.plans.plan import save as save_plan
from streams.batches import TupleBatch
from streams.comparison import compare, explain
from streams.segment_log import LogReader, LogWriter
from streams.vocabulary import Encoder
from topology import run
from topology.declaration import CheckpointSettings
from topology.input_files import read_input, vocabulary_of
from topology.live import live_topology
from topology.plan_request import is_automatic, needs_plan
from topology.planning import plan_of
from topology.verification import oracle_of


def entries_of(topology, rng):
    """Yield the input of a topology as entries of a journal, in order of time, cut where a seed says."""
    encoder = Encoder(vocabulary_of(topology), track_words=True)
    chunks = read_input(topology, encoder)
    objects, queries = whole_objects(chunks[0]), whole_queries(chunks[1])
    words = encoder.new_words()
    order = sorted(
        [(int(ts), 0, row) for row, ts in enumerate(queries.ts)]
        + [(int(ts), 1, row) for row, ts in enumerate(objects.ts)]
    )
    first = True
    while order:
        kind, size = order[0][1], rng.randrange(1, 12)
        some = []
        while order and order[0][1] == kind and len(some) < size:
            some.append(order.pop(0))
        rows = np.array([row for _, _, row in some])
        batches = {"queries": queries.take(rows)} if kind == 0 else {"objects": objects.take(rows)}
        if kind == 0:
            batches["bodies"] = [b"{}"] * len(rows)
        if first and words:
            batches["words"] = TupleBatch.of(("id", "word"), words)
        first = False
        yield JournalEntry(some[-1][0], 0, 0, None, **batches)
        if rng.random() < 0.1:
            yield JournalEntry(
                some[-1][0], 0, 0, None, about="rebalance"
            )  # of those without a balancer nobody reads it
        if not order:
            yield JournalEntry(some[-1][0] + 1, 0, 0, None)


def live(topology, folder, rng):
    """Return the topology with a journal and a log in place of its files, and with a plan."""
    found = live_topology(topology, folder / "journal", folder / "log", folder / "saved")
    settings = dataclasses.replace(
        found.settings, checkpoint=CheckpointSettings(str(folder / "saved"), epochs=rng.choice([2, 3, 7]))
    )
    if needs_plan(found) and is_automatic(found):
        save_plan(plan_of(topology), folder / "plan")
        settings = dataclasses.replace(settings, plan=str(folder / "plan"))
    return dataclasses.replace(found, settings=settings, faults=())


class Feed:
    """Appends to the journal while the run goes on, kills it at some epoch, and stops it when all is done."""

    def __init__(self, folder, entries, rng):
        self.entries, self._rng = entries, rng
        self._writer = LogWriter(folder / "journal")
        self.kill_at = None
        self._quiet = 0

    def begin(self, kill_at):
        self.kill_at, self._quiet = kill_at, 0

    def add(self, count):
        for _ in range(min(count, len(self.entries))):
            self._writer.append(pack_entry(self.entries.pop(0)))
        self._writer.flush()

    def progress(self, progress):
        self.add(self._rng.choice([0, 1, 1, 3]))
        self._quiet = self._quiet + 1 if not self.entries else 0
        if self.kill_at is not None and progress.epochs >= self.kill_at:
            raise KilledError

    def done(self):
        return self._quiet > 150  # epochs are small, and all of the journal must be read


def lines_in(folder):
    return [
        json.loads(line) for frame in LogReader(folder / "log") for line in unpack_results(frame).lines.splitlines()
    ]


NAMES = ("replicated", "adaptive", "dkm", "questions", "terms", "feeds", "zones", "couriers")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("seed", range(3))
def test_results_of_a_killed_run_are_in_the_log_once(tmp_path: Path, name, seed):
    """Killed twice, with a torn frame at the end, and fed at another pace each time: all results, and none twice."""
    rng = random.Random(f"{name}{seed}")
    topology = TOPOLOGIES[name](tmp_path, seed)
    (tmp_path / "journal").mkdir()
    following = live(topology, tmp_path, rng)
    feed = Feed(tmp_path, list(entries_of(topology, rng)), rng)
    feed.add(rng.choice([1, 5, 50]))
    resume = None
    for kill_at in (rng.randrange(2, 12), rng.randrange(8, 25), None):
        feed.begin(kill_at)
        try:
            with written_at_once():
                run(
                    following,
                    on_progress=feed.progress,
                    should_stop=feed.done,
                    resume=resume,
                    wait=lambda _seconds: None,
                )
        except KilledError:
            resume = tmp_path / "saved"
            if segments := sorted((tmp_path / "log").glob("*.log")):
                with open(segments[-1], "ab") as file:
                    file.write(rng.choice([b"", b"\x10\0\0\0", b"\x10\0\0\0abcd1234"]))
    found = lines_in(tmp_path)
    comparison = compare(oracle_of(topology), found)
    assert comparison.ok, explain(comparison)
    assert found or name == "zones"
