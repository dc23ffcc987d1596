"""Where results end: counted, collected, or (in `file_sinks`) written to a file.

Results of one query may come from several evaluators in one epoch; a sink puts them into the order of time.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, ClassVar

import numpy as np

from operators.operator import Bolt, Emitter, Epoch, Inputs, State, TaskContext
from streams.batches import Batch

__all__ = ["CollectSink", "CountSink", "ListenSink", "SampleSink", "Sink"]


def in_time_order(inputs: Inputs) -> Iterator[Batch]:
    """Yield one batch of each type (of tuples: for each set of fields), sorted by time where it has one."""
    alike: dict[tuple[type[Any], Any], list[Any]] = {}
    for arrival in inputs.arrivals:
        batch = arrival.batch
        alike.setdefault((type(batch), getattr(batch, "fields", None)), []).append(batch)
    for (cls, _), batches in alike.items():
        joined = cls.concat(batches)
        if hasattr(joined, "ts") and (joined.ts[1:] < joined.ts[:-1]).any():
            joined = joined.take(np.argsort(joined.ts, kind="stable"))
        yield joined


class Sink(Bolt):
    """Counts what comes, and passes it on to `write`."""

    def open(self, context: TaskContext) -> None:
        """Remember the counters."""
        self._context = context

    def execute_epoch(self, epoch: Epoch, inputs: Inputs, emit: Emitter) -> None:
        """Take the results of an epoch."""
        for batch in in_time_order(inputs):
            self._context.count("results", len(batch))
            self.write(batch)

    def write(self, batch: Any) -> None:
        """Keep a batch."""


class CountSink(Sink):
    """Counts results, and keeps none."""


class CollectSink(Sink):
    """Hands results to the program that started the run."""

    def write(self, batch: Any) -> None:
        """Hand a batch over."""
        self._context.output(batch)


class ListenSink(CollectSink):
    """As `collect`, next to a sink that counts: what it hears is not counted again."""

    def execute_epoch(self, epoch: Epoch, inputs: Inputs, emit: Emitter) -> None:
        """Hand the results of an epoch over."""
        for batch in in_time_order(inputs):
            self.write(batch)


@dataclass
class SampleSink(Bolt):
    """Keeps a few results, each as likely as any other, and hands them over at the end.

    Options:
        size: how many.
    """

    single: ClassVar = True

    size: int = 10

    def open(self, context: TaskContext) -> None:
        """Start with none."""
        self._context = context
        self._random = np.random.default_rng(context.seed)
        self._kept: list[tuple[float, Any]] = []

    def execute_epoch(self, epoch: Epoch, inputs: Inputs, emit: Emitter) -> None:
        """Give each result a random rank and keep those that rank first."""
        for batch in in_time_order(inputs):
            ranks = self._random.random(len(batch))
            for row in np.argsort(ranks)[: self.size].tolist():
                self._kept.append((float(ranks[row]), batch.slice(row, row + 1)))
            self._kept = sorted(self._kept, key=itemgetter(0))[: self.size]

    def finish(self, emit: Emitter) -> None:
        """Hand the sample over."""
        for _, batch in self._kept:
            self._context.output(batch)

    def snapshot(self) -> State:
        """Return the sample so far and where the random numbers are."""
        return {"kept": list(self._kept), "random": self._random.bit_generator.state}

    def restore(self, state: State) -> None:
        """Go on with the sample."""
        self._kept = list(state["kept"])
        self._random.bit_generator.state = state["random"]
