"""Sinks that write files: results as JSON lines or Parquet, rejects as JSON lines.

A sink opens its file when it is first needed, not when it is made: one that goes on from a checkpoint must find what is there.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from operators.needs import Need
from operators.operator import Bolt, Emitter, Epoch, Inputs, State, TaskContext
from operators.sinks.sink import NamingSink
from streams.batches import HitBatch, RejectBatch
from streams.errors import RunError
from streams.files.result_files import JsonlWriter, RejectsWriter, result_lines
from streams.files.result_lines import RESULT_SCHEMA
from streams.files.result_parquet import ParquetParts, ParquetWriter

__all__ = ["JsonlSink", "ParquetSink", "RejectsSink"]

STDOUT = "-"


def _folder_problem(path: Path) -> Iterator[tuple[str, str]]:
    if path.is_dir():
        yield "path", f"{path}: is a folder; give the path of a file"
    elif not path.absolute().parent.is_dir():
        yield "path", f"{path}: the folder {path.parent} does not exist"


class WritingSink(NamingSink):
    """As its base, for files: hits are not spelled out a match at a time."""

    def take(self, batch: Any) -> None:
        """Write the results of a batch."""
        self.write(self._names.located(batch) if isinstance(batch, HitBatch) else self._names.named(batch))


@dataclass
class JsonlSink(WritingSink):
    """Writes results as JSON lines.

    Options:
        path: the file, by its ending compressed or not; ``-`` is the standard output of the program that started the run.
    """

    single: ClassVar = True

    path: Path

    def check(self, _settings: Any, _parallelism: int) -> Iterator[tuple[str, str]]:
        """Yield (key, what is wrong) for a file that cannot be written."""
        yield from _folder_problem(self.path)

    def open(self, context: TaskContext) -> None:
        """Start without a file."""
        super().open(context)
        self._to_stdout = self.path.name == STDOUT
        self._writer: JsonlWriter | None = None

    def _file(self) -> JsonlWriter:
        if self._writer is None:
            self._writer = JsonlWriter(self.path)
        return self._writer

    def execute_epoch(self, epoch: Epoch, inputs: Inputs, emit: Emitter) -> None:
        """Take the results of an epoch; the first opens the file, whether it has any or not."""
        if not self._to_stdout:
            self._file()
        super().execute_epoch(epoch, inputs, emit)

    def write(self, batch: Any) -> None:
        """Write a batch."""
        if self._to_stdout:
            self._context.output(result_lines(batch))
        else:
            self._file().write(batch)

    def snapshot(self) -> State:
        """Return how long the file is, once all of that is on the disk; what went to standard output is gone."""
        position = {} if self._to_stdout else {"position": self._file().position(durable=True)}
        return {**super().snapshot(), **position}

    def restore(self, state: State) -> None:
        """Cut off what was written later, and go on."""
        super().restore(state)
        if not self._to_stdout:
            self._writer = JsonlWriter(self.path, state["position"])

    def close(self) -> None:
        """Close the file."""
        if self._writer is not None:
            self._writer.close()


@dataclass
class ParquetSink(WritingSink):
    """Writes results as Parquet; in a run with checkpoints by parts, which the end of the run joins.

    Options:
        path: the file.
    """

    single: ClassVar = True
    takes_fields: ClassVar = tuple(RESULT_SCHEMA.names)

    path: Path

    def check(self, _settings: Any, _parallelism: int) -> Iterator[tuple[str, str]]:
        """Yield (key, what is wrong) for a file that cannot be written."""
        yield from _folder_problem(self.path)

    def open(self, context: TaskContext) -> None:
        """Start without a file."""
        super().open(context)
        self._writer: ParquetWriter | ParquetParts | None = None

    def _file(self) -> ParquetWriter | ParquetParts:
        if self._writer is None:
            self._writer = ParquetParts(self.path) if self._context.checkpoints else ParquetWriter(self.path)
        return self._writer

    def execute_epoch(self, epoch: Epoch, inputs: Inputs, emit: Emitter) -> None:
        """Take the results of an epoch; the first opens the file, whether it has any or not."""
        self._file()
        super().execute_epoch(epoch, inputs, emit)

    def write(self, batch: Any) -> None:
        """Write a batch."""
        self._file().write(batch)

    def snapshot(self) -> State:
        """Return how many row groups are on the disk, and the rows that wait for the next."""
        file = self._file()
        if isinstance(file, ParquetWriter):
            raise RunError(
                f"{self.path} is written in one go and cannot be taken up again; declare [topology.checkpoint]"
            )
        return {**super().snapshot(), **file.snapshot()}

    def restore(self, state: State) -> None:
        """Drop what was written later, and go on."""
        super().restore(state)
        self._writer = ParquetParts(self.path, state)

    def close(self) -> None:
        """Finish the file."""
        if self._writer is not None:
            self._writer.close()


@dataclass
class RejectsSink(Bolt):
    """Writes records that could not be used, with their line and the reason, as JSON lines.

    Options:
        path: the file.
    """

    single: ClassVar = True
    reads: ClassVar = {"rejects": Need(required=True)}

    path: Path

    def check(self, _settings: Any, _parallelism: int) -> Iterator[tuple[str, str]]:
        """Yield (key, what is wrong) for a file that cannot be written."""
        yield from _folder_problem(self.path)

    def open(self, context: TaskContext) -> None:
        """Start without a file."""
        self._writer: RejectsWriter | None = None

    def _file(self) -> RejectsWriter:
        if self._writer is None:
            self._writer = RejectsWriter(self.path)
        return self._writer

    def execute_epoch(self, epoch: Epoch, inputs: Inputs, emit: Emitter) -> None:
        """Write the rejects of an epoch."""
        file = self._file()
        for arrival in inputs.arrivals:
            assert isinstance(arrival.batch, RejectBatch)
            file.write(arrival.batch)

    def snapshot(self) -> State:
        """Return how long the file is, once all of that is on the disk."""
        return {"position": self._file().position(durable=True)}

    def restore(self, state: State) -> None:
        """Cut off what was written later, and go on."""
        self._writer = RejectsWriter(self.path, state["position"])

    def close(self) -> None:
        """Close the file."""
        if self._writer is not None:
            self._writer.close()
