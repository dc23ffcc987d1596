"""Input from pipes: copied to files as it comes, so that all who read the input can, and a run can go back in it.

Plans are built from a sample of the input, results are verified with all of it, and a run that lost a task reads it again, but
a pipe can be read once. So what comes out of it is written to a temporary file, which the spout of objects follows. Query
operations are read whole before the run begins: a later line may be of an earlier time than the first object.
"""

import contextlib
import dataclasses
import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from streams.errors import InputError
from streams.files.file_blocks import file_kind
from streams.files.input_paths import end_mark, is_pipe
from streams.files.remedies import REMEDIES
from topology.declaration import Component, Topology

__all__ = ["piped_input"]

_PIECE = 1 << 20

#: Before a run begins it waits for the first byte, and then so long for so many more: plans are built from them.
HEAD_BYTES, HEAD_SECONDS = 4 << 20, 0.5

_POLL_SECONDS = 0.01

#: How files begin that are no text, and what to do about each.
_MAGIC = {
    b"PAR1": "a Parquet file, which cannot be read from a pipe; give its path",
    b"\x1f\x8b": "compressed with gzip; decompress it first, as in gunzip -c FILE |",
    b"\x28\xb5\x2f\xfd": "compressed with zstd; decompress it first, as in zstdcat FILE |",
}


@contextlib.contextmanager
def piped_input(topology: Topology, *, whole: bool = False) -> Iterator[Topology]:
    """Yield the topology with files in place of pipes, for as long as these are needed; `whole` waits for all of the input."""
    spouts = [c for c in topology.components if c.kind == "spout" and _pipe_of(c, topology) is not None]
    if not spouts:
        yield topology
        return
    with tempfile.TemporaryDirectory(prefix="waterspout-") as folder:
        copies = {c.name: _Copy(c, topology, Path(folder)) for c in spouts}
        if sum(copy.is_stdin for copy in copies.values()) > 1:
            raise InputError("standard input can be read once; give the objects or the queries as a file")
        for copy in copies.values():
            copy.begin()
            copy.wait(whole or not copy.followed)
        components = tuple(copies[c.name].replaced(c) if c.name in copies else c for c in topology.components)
        try:
            yield dataclasses.replace(topology, components=components)
        except InputError as error:
            said = str(error)
            for copy in copies.values():
                said = copy.named(said)
            if said == str(error):
                raise
            raise InputError(said) from None
        finally:
            for copy in copies.values():
                copy.leave()


def _pipe_of(component: Component, topology: Topology) -> Path | None:
    """Return the pipe that a spout reads; None for one that reads files."""
    from topology.validation import make_operator

    operator: Any = make_operator(component, topology)
    path = getattr(operator, "path", None)
    return path if hasattr(operator, "piped") and isinstance(path, Path) and is_pipe(path) else None


class _Copy:
    """A pipe, and the file that it is copied to by a thread."""

    def __init__(self, component: Component, topology: Topology, folder: Path) -> None:
        from topology.validation import make_operator

        pipe = _pipe_of(component, topology)
        assert pipe is not None
        operator: Any = make_operator(component, topology)
        self.is_stdin = pipe.name == "-" or str(pipe) == "/dev/stdin"
        self.name = "-" if self.is_stdin else str(pipe)
        self._shown = "standard input" if self.is_stdin else str(pipe)
        self._pipe, self._stem = pipe, folder / component.name
        self.followed = operator.pace == "leads"
        self._formats = operator.formats
        self._most = topology.settings.limits.piped_bytes
        self._path: Path | None = None
        self._copied, self._ended, self._left = 0, False, False
        self._failure: InputError | None = None

    def begin(self) -> None:
        """Copy in the background: a thread that waits for a pipe must not keep a program from its end."""
        threading.Thread(target=self._run, name=f"copy of {self._shown}", daemon=True).start()

    def wait(self, whole: bool) -> None:
        """Wait for what a run needs to begin; raise what has gone wrong by then."""
        since: float | None = None
        while not self._ended:
            if self._copied and not whole:
                since = time.monotonic() if since is None else since
                if self._copied >= HEAD_BYTES or time.monotonic() - since > HEAD_SECONDS:
                    break
            time.sleep(_POLL_SECONDS)
        if self._failure is not None:
            raise self._failure
        if self._path is None:
            raise InputError(f"{self._shown} has ended without a single byte; expected {_names(self._formats)}")

    def replaced(self, component: Component) -> Component:
        """Return a spout that reads the copy."""
        return dataclasses.replace(
            component, options={**component.options, "path": str(self._path), "piped": self.name}
        )

    def named(self, said: str) -> str:
        """Say of a message about the copy, which is gone then, what it is a copy of; commands read the file that was piped."""
        return said.replace(f"< {self._path}", "< FILE").replace(str(self._path), self._shown)

    def leave(self) -> None:
        """Copy no more."""
        self._left = True

    def _run(self) -> None:
        reason = ""
        try:
            self._copy()
        except InputError as error:
            self._failure, reason = error, str(error)
        except OSError as error:
            if not self._left:
                what = error.strerror or error
                reason = f"{self._shown} cannot be copied to {self._path}: {what}; make room there, or set TMPDIR"
                self._failure = InputError(reason)
        if self._path is not None and not self._left:
            with contextlib.suppress(OSError):
                mark = Path(end_mark(self._path))
                draft = mark.with_suffix(".draft")
                draft.write_text(reason, "utf-8")
                draft.replace(mark)
        self._ended = True

    def _opened(self) -> BinaryIO:
        if self.is_stdin:
            return open(os.dup(sys.stdin.fileno()), "rb", buffering=0)  # closed by its reader
        return open(self._pipe, "rb", buffering=0)

    def _copy(self) -> None:
        with self._opened() as source:
            head = source.read(_PIECE)
            while (head and not head.strip()) or 0 < len(head) < 4:
                more = source.read(_PIECE)
                if not more:
                    break
                head += more
            if not head:
                return
            path = Path(f"{self._stem}.{self._format(head)}")
            with path.open("wb", buffering=0) as target:
                self._path = path
                data = head
                while data and not self._left:
                    if self._copied + len(data) > self._most:
                        raise InputError(
                            f"more than {self._most:,} bytes came from {self._shown}; they are kept in {path.parent} while "
                            "the run takes: give a file and follow it, or raise topology.limits.piped_bytes"
                        )
                    target.write(data)
                    self._copied += len(data)
                    data = source.read(_PIECE)

    def _format(self, head: bytes) -> str:
        """Tell CSV from JSON lines: by the pipe's name where it has an ending, else by the first character."""
        for magic, what in _MAGIC.items():
            if head.startswith(magic):
                raise InputError(f"{self._shown} is {what}")
        if self._pipe.suffix:
            return file_kind(str(self._pipe), self._formats).format
        if head.lstrip().startswith(b"["):
            raise InputError(f"{self._shown} is a JSON array: {REMEDIES['.json']('FILE')}")
        found = "jsonl" if head.lstrip().startswith(b"{") else "csv"
        if found not in self._formats:
            raise InputError(f"{self._shown} does not begin with '{{'; expected {_names(self._formats)}")
        return found


def _names(formats: tuple[str, ...]) -> str:
    return " or ".join(
        {"jsonl": "JSON lines", "csv": "CSV with a header"}[name] for name in formats if name != "parquet"
    )
