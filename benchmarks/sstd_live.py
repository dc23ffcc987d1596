"""SSTD's questions while objects arrive by the clock: from the moment a question is due until its answer is at the sink.

Whoever asks does not wait for the answer to the question before, so a question that comes while another is answered waits too
(an open loop). An epoch has what is due when it begins. Event time is the clock of the machine in microseconds, which all its
processes share: an answer carries when it was asked.
"""

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.sstd_stream import Questions, SstdSpout, SstdStream
from benchmarks.sstd_topology import INDEXES, plan_of_start, sstd_topology
from operators import Bolt, Emitter, Epoch, Inputs, TaskContext
from streams.batches import RankedBatch
from streams.columns import Ids
from topology import Topology, run
from topology.references import reference_of

__all__ = ["Answers", "LatencySink", "LiveSpout", "live_answers"]

Floats = NDArray[np.float64]

#: Objects/s, and questions/s.
RATE, ASKED = 50_000.0, 200.0
#: An epoch is at least so long; so many objects are in one at most, should it be behind.
LEAST_S, MOST = 0.002, 20_000
#: Tasks of each component: an evaluator for each core, one of all others, because every task has fixed work in an epoch.
TASKS = {"router": 1, "evaluator": 2, "merger": 1, "terms": 1}
#: Questions of each kind that are not measured: kernels are loaded by them.
COLD = 50
KINDS = ("srq", "skq")
#: Objects of an epoch with one of these.
A_WARM_EPOCH = 250


@dataclass(frozen=True, slots=True, eq=False)
class Answers:
    """Milliseconds of each question, by kind."""

    ms: Mapping[str, Floats]

    def percentile(self, kind: str, percent: float) -> float:
        """Return the latency that so many percent do not exceed."""
        return float(np.percentile(self.ms[kind], percent))


@dataclass
class LiveSpout(SstdSpout):
    """Emits what is kept, then objects and questions when they are due.

    Options:
        rate: objects a second.
        cold: so many questions are asked before the clock begins.
    """

    rate: float = RATE
    cold: int = 0

    def open(self, context: TaskContext) -> None:
        """Make all of it."""
        super().open(context)
        self._begun = self._last = 0.0
        self._objects_sent = self._questions_sent = 0

    def next_epoch(self, epoch: Epoch, inputs: Inputs, emit: Emitter) -> bool:
        """Emit what has come since the last epoch."""
        if epoch.number < self.stream.begin:
            return super().next_epoch(epoch, inputs, emit)
        if self._questions_sent < self.cold:
            return self._warm(emit)
        if not self._begun:
            self._begun = self._last = time.monotonic()
        time.sleep(max(self._last + LEAST_S - time.monotonic(), 0.0))
        now = self._last = time.monotonic()
        emit.watermark = _micros(now) + 1
        first = self._questions_sent
        upto = min(self.cold + int((now - self._begun) * ASKED), len(self._asked))
        if upto > first:
            questions = self._asked.slice(first, upto)
            ts = np.array([_micros(self._begun + (place + 1 - self.cold) / ASKED) for place in range(first, upto)])
            emit.batch(replace(questions, ts=ts, end=ts + 1), "queries")
            self._context.count("queries", len(questions))
            self._questions_sent = upto
        due = self.cold * A_WARM_EPOCH + int((now - self._begun) * self.rate)
        self._send(min(due - self._objects_sent, MOST), now, emit)
        return upto < len(self._asked) and not epoch.final

    def _warm(self, emit: Emitter) -> bool:
        """Ask the next question, not by the clock: whoever is asked first loads kernels."""
        now = time.monotonic()
        emit.watermark, ts = _micros(now) + 1, np.array([_micros(now)])
        place = self._questions_sent
        emit.batch(replace(self._asked.slice(place, place + 1), ts=ts, end=ts + 1), "queries")
        self._questions_sent += 1
        self._send(A_WARM_EPOCH, now, emit)
        return True

    def _send(self, count: int, now: float, emit: Emitter) -> None:
        """Emit the next objects."""
        if count <= 0:
            return
        begin = self._objects_sent
        seq = self.stream.kept + np.arange(begin, begin + count)
        some = self._later.take(np.arange(begin, begin + count) % len(self._later))
        emit.batch(replace(some, seq=seq, ts=np.full(count, _micros(now)), ids=Ids("int", seq)), "objects")
        self._context.count("objects", count)
        self._objects_sent += count


def _micros(seconds: float) -> int:
    return int(seconds * 1e6)


@dataclass
class LatencySink(Bolt):
    """Notes how long answers took, and writes it down at the end.

    Options:
        path: the file: a row of number and microseconds for each answer.
    """

    path: str

    def open(self, context: TaskContext) -> None:
        """Start with none."""
        self._context = context
        self._seen: list[NDArray[np.int64]] = []

    def execute_epoch(self, epoch: Epoch, inputs: Inputs, emit: Emitter) -> None:
        """Compare the time of each answer with now."""
        now = _micros(time.monotonic())
        for arrival in inputs.arrivals:
            if isinstance(arrival.batch, RankedBatch) and len(arrival.batch):
                self._seen.append(np.column_stack([arrival.batch.number, now - arrival.batch.ts]))
                self._context.count("results", len(arrival.batch))

    def finish(self, emit: Emitter) -> None:
        """Write."""
        np.save(self.path, np.concatenate([np.empty((0, 2), np.int64), *self._seen]))


def live_topology(stream: SstdStream, rate: float, folder: Path) -> Topology:
    """Declare SSTD over a stream by the clock, one epoch at a time, so that none waits for another."""
    index = INDEXES["qt-tree"]
    found = sstd_topology(index, stream, plan_of_start(index, stream, TASKS["evaluator"]), folder)
    classes: dict[str, tuple[type[Any], dict[str, Any]]] = {
        "source": (LiveSpout, {"stream": asdict(stream), "rate": rate, "cold": COLD * len(KINDS)}),
        "sink": (LatencySink, {"path": str(folder / "latency.npy")}),
    }
    components = []
    for one in found.components:
        if one.name in classes:
            kind, options = classes[one.name]
            name = reference_of(kind)
            one = replace(one, operator=name, options=options, classes={name: kind})
        components.append(replace(one, parallelism=TASKS.get(one.name, one.parallelism)))
    return replace(found, components=tuple(components), settings=replace(found.settings, max_pending=1))


def live_answers(kept: int, count: int, seed: int, folder: Path, runtime: str, rate: float = RATE) -> Answers:
    """Ask questions of each kind, `count` of each, while objects arrive at a rate."""
    asked = tuple(Questions(kind, number) for number in (COLD, count) for kind in KINDS)
    stream = SstdStream(kept, asked=asked, epochs=1, batch=100_000, seed=seed)
    stream = replace(stream, an_epoch=sum(one.count for one in asked))
    run(live_topology(stream, rate, folder), runtime=runtime)
    number, micros = np.load(folder / "latency.npy").T
    measured = number >= COLD * len(KINDS)
    place = (number - COLD * len(KINDS)) // count
    return Answers({kind: micros[measured & (place == at)] / 1e3 for at, kind in enumerate(KINDS)})
