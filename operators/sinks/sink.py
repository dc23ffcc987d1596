"""Where results end: counted, collected, or (in `file_sinks`) written to a file.

Results of one query may come from several evaluators in one epoch; a sink puts them into the order of time.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, ClassVar

import numpy as np

from operators.needs import SINK_READS
from operators.operator import Bolt, Emitter, Epoch, Inputs, State, TaskContext
from operators.redistribution import Division
from operators.sinks.names import Names
from streams.batches import Batch, CrossingBatch, HitBatch

__all__ = ["CollectSink", "CountSink", "ListenSink", "NamingSink", "SampleSink"]

#: The stream on which query spouts send the identifiers of queries.
NAMES_STREAM = "names"


def _in_time_order(inputs: Inputs, names: Names) -> Iterator[Batch]:
    """Yield one batch of each type (of tuples: for each set of fields), sorted by time where it has one."""
    alike: dict[tuple[type[Any], Any], list[Any]] = {}
    for arrival in inputs.arrivals:
        if arrival.stream == NAMES_STREAM:
            continue
        batch = arrival.batch
        alike.setdefault((type(batch), getattr(batch, "fields", None)), []).append(batch)
    for (cls, _), batches in alike.items():
        joined = names.dated(cls.concat(batches))
        if cls is CrossingBatch:  # of one time, too, what an identifier reports has an order
            joined = joined.take(np.lexsort((joined.seq, joined.ts)))
        elif hasattr(joined, "ts") and (joined.ts[1:] < joined.ts[:-1]).any():
            joined = joined.take(np.argsort(joined.ts, kind="stable"))
        yield joined


def results_in(batch: Any) -> int:
    """Return how many results a batch holds."""
    return int(getattr(batch, "results", len(batch)))


def _single(batch: Any, place: int) -> Any:
    """Return one result of a batch as a batch."""
    if not isinstance(batch, HitBatch):
        return batch.slice(place, place + 1)
    row = int(np.searchsorted(batch.off, place, side="right")) - 1
    one = slice(row, row + 1)
    return HitBatch(
        batch.seq[one], batch.ts[one], batch.ids.slice(row, row + 1), np.array([0, 1], np.int32),
        batch.number[place : place + 1],
    )  # fmt: skip


class CountSink(Bolt):
    """Counts results, keeps none, and looks at nothing else of them: so how many there are is all that is sent to it."""

    reads: ClassVar = SINK_READS
    counts_only: ClassVar = True

    def open(self, context: TaskContext) -> None:
        """Remember the counters."""
        self._context = context

    def execute_epoch(self, epoch: Epoch, inputs: Inputs, emit: Emitter) -> None:
        """Count the results of an epoch."""
        for arrival in inputs.arrivals:
            self._context.count("results", results_in(arrival.batch))


class NamingSink(Bolt):
    """Gives results the identifiers of their queries, counts them, and passes them on to `write`."""

    names_results: ClassVar = True
    reads: ClassVar = SINK_READS

    #: Whether the run's results are counted here.
    counts: ClassVar = True

    def open(self, context: TaskContext) -> None:
        """Start without names."""
        self._context = context
        self._names = Names()

    def execute_epoch(self, epoch: Epoch, inputs: Inputs, emit: Emitter) -> None:
        """Take the results of an epoch, in the order of time."""
        for batch in self.results_of(epoch, inputs):
            if self.counts:
                self._context.count("results", results_in(batch))
            self.take(batch)

    def results_of(self, epoch: Epoch, inputs: Inputs) -> Iterator[Batch]:
        """Learn names; return the results of an epoch, in the order of time."""
        self._names.apply(inputs.batches(NAMES_STREAM))
        self._names.drop_ended(epoch)
        return _in_time_order(inputs, self._names)

    def take(self, batch: Any) -> None:
        """Name the results of a batch, and write them."""
        self.write(self._names.named(batch))

    def write(self, batch: Any) -> None:
        """Keep a batch."""

    def snapshot(self) -> State:
        """Return the names."""
        return {"names": self._names.snapshot()}

    def restore(self, state: State) -> None:
        """Take over a snapshot."""
        self._names.restore(state["names"])

    @classmethod
    def redistribute(cls, states: Sequence[State], division: Division) -> list[State]:
        """All tasks know all names."""
        return list(states) if len(states) == division.tasks else [{"names": states[0]["names"]}] * division.tasks


class CollectSink(NamingSink):
    """Hands results to the program that started the run."""

    def write(self, batch: Any) -> None:
        """Hand a batch over."""
        self._context.output(batch)


class ListenSink(CollectSink):
    """As `collect`, next to a sink that counts: what it receives is not counted again."""

    counts: ClassVar = False


@dataclass
class SampleSink(NamingSink):
    """Keeps a few results, each as likely as any other, and hands them over at the end.

    Options:
        size: how many.
    """

    single: ClassVar = True
    counts: ClassVar = False

    size: int = 10

    def open(self, context: TaskContext) -> None:
        """Start with none."""
        super().open(context)
        self._random = np.random.default_rng(context.seed)
        self._kept: list[tuple[float, Any]] = []

    def take(self, batch: Any) -> None:
        """Give each result a random rank and keep those that rank first; only these are named."""
        ranks = self._random.random(results_in(batch))
        last = self._kept[-1][0] if 0 < self.size == len(self._kept) else 1.0
        better = np.flatnonzero(ranks < last)
        for place in better[np.argsort(ranks[better])][: self.size].tolist():
            self._kept.append((float(ranks[place]), self._names.named(_single(batch, place))))
        self._kept = sorted(self._kept, key=itemgetter(0))[: self.size]

    def finish(self, emit: Emitter) -> None:
        """Hand the sample over."""
        for _, batch in self._kept:
            self._context.output(batch)

    def snapshot(self) -> State:
        """Return the sample so far and where the random numbers are."""
        return {**super().snapshot(), "kept": list(self._kept), "random": self._random.bit_generator.state}

    def restore(self, state: State) -> None:
        """Go on with the sample."""
        super().restore(state)
        self._kept = list(state["kept"])
        self._random.bit_generator.state = state["random"]
