"""A sink for those who wait: results go to a log that another process follows, and are there once whatever happens.

All results of an epoch are one frame, which is there whole or not at all. After the run has gone back to a checkpoint the log
is not cut, because somebody may have seen what is in it: the sink reads what it had published behind the checkpoint, and
leaves out what comes again. What a replayed epoch finds follows from the journal alone, but epochs may be cut in other places
the second time; so matches are known by their object's place in the input, lists by query and time.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from operators.operator import Emitter, Epoch, Inputs, State, TaskContext
from operators.redistribution import Division
from operators.sinks.published import Published, ResultFrame, pack_results, unpack_results
from operators.sinks.sink import NamingSink, results_in
from streams.batches import CrossingBatch, HitBatch, RankedBatch
from streams.files.result_files import result_lines
from streams.segment_log import LogReader, LogWriter

__all__ = ["ResultsLogSink"]


@dataclass
class ResultsLogSink(NamingSink):
    """Appends results to a log, under positions that stay.

    Options:
        path: the folder of the log.
        segment_bytes: a file of the log is closed beyond this.
    """

    single: ClassVar = True
    adjustable: ClassVar = frozenset({"path", "segment_bytes"})  # a log may be moved

    path: Path
    segment_bytes: int = 64 << 20

    def open(self, context: TaskContext) -> None:
        """Start without a log: one that goes on from a checkpoint must find what is there."""
        super().open(context)
        self._log: LogWriter | None = None
        self._published = Published()

    def _writer(self) -> LogWriter:
        if self._log is None:
            self._log = LogWriter(self.path, segment_bytes=self.segment_bytes, leaping=True)
        return self._log

    def execute_epoch(self, epoch: Epoch, inputs: Inputs, emit: Emitter) -> None:
        """Append the results of an epoch, as one frame, without those that are in the log already."""
        lines: list[bytes] = []
        numbers: list[Any] = []
        frame = ResultFrame()
        for batch in self.results_of(epoch, inputs):
            self._context.count("results", results_in(batch))
            fresh = self._published.without(batch)
            if results_in(fresh):
                lines.append(result_lines(self._names.named(fresh)))
                numbers.append(_numbers(fresh))
                frame = frame.noting(fresh)
        if lines:
            self._writer().append(pack_results(frame, b"".join(lines), np.concatenate(numbers)))
            self._writer().flush()

    def snapshot(self) -> State:
        """Return how long the log is, once all of that is on the disk."""
        self._writer().sync()
        return {**super().snapshot(), "position": self._writer().position, "published": self._published.snapshot()}

    def restore(self, state: State) -> None:
        """Go on behind what is there, and learn what was published since the checkpoint."""
        super().restore(state)
        self._published.restore(state["published"])
        self._writer()  # cuts off what is torn, and keeps any other writer away
        reader = LogReader(self.path, state["position"])
        for frame in reader:
            self._published.add(unpack_results(frame))
        reader.close()

    def close(self) -> None:
        """Close the log."""
        if self._log is not None:
            self._log.close()
            self._log = None

    @classmethod
    def redistribute(cls, states: Sequence[State], division: Division) -> list[State]:
        """There is one task only."""
        return list(states)


def _numbers(batch: Any) -> Any:
    """Return the query number of each line that a batch becomes."""
    if isinstance(batch, HitBatch | CrossingBatch | RankedBatch):
        return batch.number
    return np.full(results_in(batch), -1, np.int64)
