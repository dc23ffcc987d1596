"""What spouts of files share: the paths that they read, the clock between them, rejects, and what a state must agree with."""

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from operators.operator import Emitter, Inputs, Spout, State, TaskContext
from operators.spouts.read_ahead import ReadAhead
from streams.batches import TupleBatch
from streams.errors import InputError
from streams.files.file_blocks import Format
from streams.files.input_paths import files_of, path_problem
from streams.reject_reasons import REASON, reason_counts

__all__ = ["CLOCK_FIELDS", "NAME_FIELDS", "NEVER", "FileSpout", "paths_of", "tell", "told"]

CLOCK_FIELDS = ("bound", "last")
NAME_FIELDS = ("number", "id", "end")
NEVER = int(np.iinfo(np.int64).min)


def paths_of(path: Path | tuple[Path, ...]) -> list[Path]:
    """Return one path or several as a list."""
    return list(path) if isinstance(path, tuple) else [path]


def tell(emit: Emitter, bound: int, last: int) -> None:
    """Send the other spout how far this one is."""
    columns = (np.array([bound], np.int64), np.array([last], np.int64))
    emit.batch(TupleBatch(CLOCK_FIELDS, columns), "clock")


def told(inputs: Inputs, name: str) -> list[int]:
    """Return how far the other spouts are."""
    return [int(batch.column(name)[-1]) for batch in inputs.batches("clock")]


class FileSpout(Spout):
    """What both spouts do with their read-ahead."""

    timed = True
    addressed: ClassVar = frozenset()
    revives: ClassVar = True  # what it says of the time stays true beyond its end
    takes_prepared: ClassVar = False
    formats: ClassVar[tuple[Format, ...]] = ("jsonl",)
    reads_what: ClassVar[str]
    path: Path | tuple[Path, ...]
    piped: str | None
    _files: list[Path]
    _ahead: ReadAhead[Any]
    _context: TaskContext

    def check(self, _settings: Any, _component: Any) -> Iterator[tuple[str, str]]:
        """Yield (key, what is wrong) for files that are not there."""
        for path in paths_of(self.path):
            if (problem := path_problem(path, self.formats, self.takes_prepared)) is not None:
                yield "path", problem

    def files(self) -> list[Path]:
        """Return the files that are read, one after the other."""
        return files_of(paths_of(self.path), self.formats, self.takes_prepared)

    def _emit_rejects(self, emit: Emitter) -> None:
        for rejects in self._ahead.rejects:
            self._context.count("rejected", len(rejects))
            self._context.count(f"{self.reads_what}_rejected", len(rejects))
            for reason, count in reason_counts(rejects).items():
                self._context.count(f"{REASON}{reason}", count)
            emit.batch(rejects, "rejects")
        self._ahead.rejects.clear()

    def snapshot(self) -> State:
        """Return the position in the files and what was read ahead."""
        return {"ahead": self._ahead.snapshot(), "last": self._last, "sizes": self._sizes()}

    def _sizes(self) -> list[tuple[str, int]]:
        return [(path.name, path.stat().st_size) for path in self._files]

    def _check_sizes(self, saved: Sequence[tuple[str, int]]) -> None:
        """Raise `InputError` where what was read is not there any more; files may have grown, and come behind the others."""
        if self.piped is not None:
            return  # it comes anew
        for (name, then), path in itertools.zip_longest(saved, self._files[: len(saved)], fillvalue=None):  # type: ignore[misc]
            if path is None or path.name != name:
                found = "is not there" if path is None else f"is {path.name}"
                raise InputError(
                    f"the checkpoint was taken of {name}, which {found} now; a run cannot go on behind what it has read: "
                    "bring the files back, or start afresh"
                )
            if (now := path.stat().st_size) < then:
                raise InputError(
                    f"{path} has {now} bytes, but had {then} at the checkpoint; a run cannot go on behind what it has read "
                    "there: bring the file back, or start afresh"
                )

    _last: int = NEVER
