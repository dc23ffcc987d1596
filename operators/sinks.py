"""Where results end: counted, collected, or (in `file_sinks`) written to a file.

Results of one query may come from several evaluators in one epoch; a sink puts them into the order of time.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from operators.operator import Bolt, Emitter, Epoch, Inputs, TaskContext
from streams.batches import Batch

__all__ = ["CollectSink", "CountSink", "Sink"]


def in_time_order(inputs: Inputs) -> Iterator[Batch]:
    """Yield one batch of each type, sorted by time where it has one."""
    by_type: dict[type[Any], list[Any]] = {}
    for arrival in inputs.arrivals:
        by_type.setdefault(type(arrival.batch), []).append(arrival.batch)
    for cls, batches in by_type.items():
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
