"""Lines that are appended to a file, plain or compressed, and that can be taken up again where a checkpoint was taken.

A compressed file is a row of members (gzip) or frames (zstd), one for each stretch between two checkpoints: every reader
takes them as one, and a file can be cut between them as a plain one can be cut anywhere.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa

from streams.errors import InputError, RunError

__all__ = ["LineFile", "open_at", "writing"]

_BUFFER_BYTES = 1 << 20
_COMPRESSIONS = {".gz": "gzip", ".zst": "zstd"}


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn what the system says into an error of ours."""
    try:
        yield
    except OSError as error:
        raise RunError(f"cannot write {path}: {error.strerror or error}; make room or name another file") from error


def open_at(path: Path, position: int | None) -> BinaryIO:
    """Open a file afresh, or cut it to a length and go on there."""
    try:
        if position is None:
            return open(path, "wb", buffering=_BUFFER_BYTES)  # closed by its owner
        file = open(path, "r+b", buffering=_BUFFER_BYTES)  # noqa: SIM115
    except FileNotFoundError as error:
        expected = (
            "check the folder" if position is None else f"the checkpoint has {position} bytes of it: bring it back"
        )
        raise InputError(f"cannot write {path}: {error.strerror}; {expected}") from error
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}; check the folder and its owner") from error
    size = file.seek(0, os.SEEK_END)
    if size < position:
        file.close()
        raise InputError(
            f"{path} has {size} bytes, but the checkpoint was taken at {position}; "
            "it was changed since, so start afresh or bring the file back"
        )
    file.truncate(position)
    file.seek(position)
    return file


class LineFile:
    """Bytes that are appended to a file, compressed by its ending (``.gz``, ``.zst``)."""

    def __init__(self, path: str | os.PathLike[str], position: int | None = None) -> None:
        self.path = Path(path)
        self._compression = _COMPRESSIONS.get(self.path.suffix.lower())
        self._file = open_at(self.path, position)
        self._member: Any = None

    def append(self, data: bytes | memoryview) -> None:
        """Write bytes."""
        with writing(self.path):
            if self._compression is None:
                self._file.write(data)
            elif data:
                self._compressor().write(data)

    def _compressor(self) -> Any:
        if self._member is None:
            under = pa.PythonFile(_Borrowed(self._file), mode="w")
            self._member = pa.CompressedOutputStream(under, self._compression)
        return self._member

    def position(self, durable: bool) -> int:
        """Return the file's length, after handing all to the system, and to the disk if it must be durable."""
        with writing(self.path):
            self._end_member()
            self._file.flush()
            if durable:
                os.fsync(self._file.fileno())
            return self._file.tell()

    def _end_member(self) -> None:
        member, self._member = self._member, None
        if member is not None:
            member.close()

    def close(self) -> None:
        """Finish the file."""
        with writing(self.path):
            try:
                if self._compression and self._file.tell() == 0:
                    self._compressor()  # a compressed file of nothing has a member too
                self._end_member()
            finally:
                self._file.close()


class _Borrowed:
    """A file that stays open when the stream above it is closed."""

    closed = False

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def write(self, data: bytes) -> int:
        return self._file.write(data)

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        """Leave the file to its owner."""
