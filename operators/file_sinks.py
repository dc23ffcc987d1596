"""Sinks that write files: results as JSON lines or Parquet, rejects as JSON lines."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from operators.operator import Bolt, Emitter, Epoch, Inputs, State, TaskContext
from operators.sinks import Sink
from streams.batches import RejectBatch
from streams.result_files import JsonlWriter, ParquetWriter, RejectsWriter, result_lines

__all__ = ["JsonlSink", "ParquetSink", "RejectsSink"]

STDOUT = "-"


def _folder_problem(path: Path) -> Iterator[tuple[str, str]]:
    if path.is_dir():
        yield "path", f"{path}: is a folder; give the path of a file"
    elif not path.absolute().parent.is_dir():
        yield "path", f"{path}: the folder {path.parent} does not exist"


@dataclass
class JsonlSink(Sink):
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
        """Open the file."""
        super().open(context)
        self._writer = None if self.path.name == STDOUT else JsonlWriter(self.path)

    def write(self, batch: Any) -> None:
        """Write a batch."""
        if self._writer is None:
            self._context.output(result_lines(batch))
        else:
            self._writer.write(batch)

    def snapshot(self) -> State:
        """Return how long the file is."""
        return {"position": self._writer.position() if self._writer else 0}

    def close(self) -> None:
        """Close the file."""
        if self._writer is not None:
            self._writer.close()


@dataclass
class ParquetSink(Sink):
    """Writes results as Parquet.

    Options:
        path: the file.
    """

    single: ClassVar = True

    path: Path

    def check(self, _settings: Any, _parallelism: int) -> Iterator[tuple[str, str]]:
        """Yield (key, what is wrong) for a file that cannot be written."""
        yield from _folder_problem(self.path)

    def open(self, context: TaskContext) -> None:
        """Open the file."""
        super().open(context)
        self._writer = ParquetWriter(self.path)

    def write(self, batch: Any) -> None:
        """Write a batch."""
        self._writer.write(batch)

    def close(self) -> None:
        """Write the footer."""
        self._writer.close()


@dataclass
class RejectsSink(Bolt):
    """Writes records that could not be used, with their line and the reason, as JSON lines.

    Options:
        path: the file.
    """

    single: ClassVar = True

    path: Path

    def check(self, _settings: Any, _parallelism: int) -> Iterator[tuple[str, str]]:
        """Yield (key, what is wrong) for a file that cannot be written."""
        yield from _folder_problem(self.path)

    def open(self, context: TaskContext) -> None:
        """Open the file."""
        self._writer = RejectsWriter(self.path)

    def execute_epoch(self, epoch: Epoch, inputs: Inputs, emit: Emitter) -> None:
        """Write the rejects of an epoch."""
        for arrival in inputs.arrivals:
            assert isinstance(arrival.batch, RejectBatch)
            self._writer.write(arrival.batch)

    def close(self) -> None:
        """Close the file."""
        self._writer.close()
