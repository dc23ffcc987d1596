"""A log on disk: frames that are appended to segments, each with its length and checksum, and read by their positions.

A position is the number of bytes of the log before a frame, over all segments that there ever were; a segment's file is named
by the position at which it starts. So a reader in another process follows by position alone, old segments go by being deleted,
and what a crash has torn off at the end is found and cut off by whoever writes next. One process writes at a time, which a
lock on the folder sees to.

Where the machine itself goes down, the end of a log that was not on the disk is gone, though others may know its positions. So
that none of them ever names something else, a writer that is told so (`leaping`) begins a segment far behind: at the next
multiple of `LEAP`, where no other segment begins.
"""

import contextlib
import fcntl
import os
import struct
import time
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO

from streams.errors import InputError, RunError

__all__ = ["ExpiredError", "Frame", "LogReader", "LogWriter", "first_position", "held_lock", "kept_from", "trim"]

#: A frame is its length, the checksum of its bytes, and these.
_HEAD = struct.Struct("<II")
_ENDING = ".log"
_DIGITS = 20
_LOCK = "lock"

#: Who has the log open, since which start of the machine; or that it was closed with everything on the disk.
_OPENED, _CLOSED = "opened", "closed"
_BOOT = Path("/proc/sys/kernel/random/boot_id")

#: Positions behind a loss begin at a multiple of this: 1 TiB, which no log grows by between two starts of a machine.
LEAP = 1 << 40

#: Beyond this a segment is closed and the next one begun.
SEGMENT_BYTES = 64 << 20

#: The largest frame; a length beyond it is damage, not a frame.
FRAME_BYTES = 1 << 30

#: How long a writer waits for another one, which was ended a moment ago, to be gone.
LOCK_SECONDS = 10.0


class ExpiredError(InputError):
    """The log does not reach back to a position any more, or has lost it."""

    def __init__(self, position: int, first: int) -> None:
        super().__init__(f"position {position} is not in the log any more, which begins at {first}")
        self.args = (position, first)
        self.position, self.first = position, first


@dataclass(frozen=True, slots=True)
class Frame:
    """A frame of a log: where it begins, where the next one does, and its bytes."""

    position: int
    end: int
    data: bytearray


def _segments(folder: Path) -> list[int]:
    """Return where the segments of a log start, in order."""
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return []
    found = (name.removesuffix(_ENDING) for name in names if name.endswith(_ENDING))
    return sorted(int(name) for name in found if name.isascii() and name.isdigit())


def _path(folder: Path, start: int) -> Path:
    return folder / f"{start:0{_DIGITS}}{_ENDING}"


def first_position(folder: Path) -> int:
    """Return the first position that is still there; 0 for a log that has not begun."""
    return next(iter(_segments(folder)), 0)


def kept_from(folder: Path, most_bytes: int) -> int:
    """Return from where on the newest so many bytes are, rounded down to the start of a segment."""
    size = 0
    for start in reversed(_segments(folder)):
        size += _path(folder, start).stat().st_size
        if size >= most_bytes:
            return start
    return 0


def trim(folder: Path, position: int) -> int:
    """Delete the segments that end at a position or before it, but never the last one; return how many bytes that were."""
    freed = 0
    for start, after in pairwise(_segments(folder)):
        if after > position:
            break
        freed += _path(folder, start).stat().st_size
        _path(folder, start).unlink(missing_ok=True)
    return freed


def _leap_from(position: int) -> int:
    """Return where a log goes on that has lost what was behind a position."""
    return (position // LEAP + 1) * LEAP


class LogReader:
    """Reads frames from a position on, as far as they are whole; what another process appends is there at the next call."""

    def __init__(self, folder: Path, position: int = 0) -> None:
        self._folder = folder
        self._file: BinaryIO | None = None
        self._start = 0
        self.position = position

    def read(self, most_bytes: int = SEGMENT_BYTES) -> list[Frame]:
        """Return the next frames: about so many bytes of them, at least one where there is one."""
        frames: list[Frame] = []
        size = 0
        while size < most_bytes and (frame := self._next()) is not None:
            frames.append(frame)
            size += len(frame.data)
        return frames

    def __iter__(self) -> Iterator[Frame]:
        """Yield all frames that there are by now."""
        while (frame := self._next()) is not None:
            yield frame

    def seek(self, position: int) -> None:
        """Go on at a position."""
        self.position = position
        self.close()

    def _next(self) -> Frame | None:
        if self._file is None and not self._open():
            return None
        assert self._file is not None
        head = self._file.read(_HEAD.size)
        if len(head) == _HEAD.size:
            length, checksum = _HEAD.unpack(head)
            if (data := self._body(length)) is not None and zlib.crc32(data) == checksum:
                begin, self.position = self.position, self.position + _HEAD.size + length
                return Frame(begin, self.position, data)
        return self._at_end(torn=bool(head))

    def _body(self, length: int) -> bytearray | None:
        """Return the bytes of a frame, where they are there: in memory of their own, so that arrays over it are plain ones."""
        assert self._file is not None
        left = os.fstat(self._file.fileno()).st_size - self._file.tell()
        if length > min(left, FRAME_BYTES):
            return None
        data = bytearray(length)
        return data if self._file.readinto(data) == length else None  # type: ignore[attr-defined]

    def _at_end(self, torn: bool) -> Frame | None:
        """Go on with the next segment where this one is finished; else stay in front of what is not there yet."""
        assert self._file is not None
        if self.position > self._start and _path(self._folder, self.position).exists():
            self.close()
            return self._next()
        if not torn and _path(self._folder, _leap_from(self.position)).exists():
            self.seek(_leap_from(self.position))
            return self._next()
        later = [start for start in _segments(self._folder) if start > self._start] if torn else []
        if later and later[0] > self.position:
            raise InputError(
                f"{_path(self._folder, self._start)} is damaged at byte {self.position - self._start}, though the log goes on "
                "behind it; bring the file back from a copy, or start with an empty state folder"
            )
        self._file.seek(self.position - self._start)
        return None

    def _open(self) -> bool:
        starts = _segments(self._folder)
        if not starts:
            return False
        if self.position < starts[0]:
            raise ExpiredError(self.position, starts[0])
        self._start = max(start for start in starts if start <= self.position)
        try:
            self._file = open(_path(self._folder, self._start), "rb")  # noqa: SIM115  # closed by `close`
        except FileNotFoundError:  # it went between the two
            raise ExpiredError(self.position, first_position(self._folder)) from None
        later = [start for start in starts if start > self._start]
        if later and self.position > self._start + os.fstat(self._file.fileno()).st_size:
            self.close()
            raise ExpiredError(self.position, later[0])
        self._file.seek(self.position - self._start)
        return True

    def close(self) -> None:
        """Close the file; the next read opens it again."""
        if self._file is not None:
            self._file.close()
            self._file = None


class LogWriter:
    """Appends frames. What is not whole at the end, because a writer before was ended in the middle, is cut off first.

    Args:
        leaping: whether positions may be known of what is not on the disk yet, so that none must be used twice.

    Attributes:
        position: the end of the log.
    """

    def __init__(self, folder: Path, *, segment_bytes: int = SEGMENT_BYTES, leaping: bool = False) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder, self._segment_bytes = folder, segment_bytes
        self._lock = _locked(folder / _LOCK)
        starts = _segments(folder) or [0]
        self._start = starts[-1]
        reader = LogReader(folder, self._start)
        for _ in reader:
            pass
        self.position = reader.position
        reader.close()
        self._file = open(_path(folder, self._start), "ab")  # noqa: SIM115  # closed by `close`
        self._file.truncate(self.position - self._start)
        self._leaping = leaping
        if leaping:
            if self.position and _went_down(folder):
                self.position = _leap_from(self.position)
                self._roll()
            (folder / _OPENED).write_text(_boot())

    def append(self, buffers: Iterable[bytes | memoryview]) -> int:
        """Append a frame, and return where it begins; it is with the system when `flush` or `sync` has returned."""
        parts = list(buffers)
        length, checksum = sum(map(len, parts)), 0
        if length > FRAME_BYTES:
            raise RunError(f"a frame of {length:,} bytes is more than a log takes ({FRAME_BYTES:,})")
        for part in parts:
            checksum = zlib.crc32(part, checksum)
        begin = self.position
        if begin - self._start >= self._segment_bytes:
            self._roll()
        self._file.write(_HEAD.pack(length, checksum))
        for part in parts:
            self._file.write(part)
        self.position += _HEAD.size + length
        return begin

    def _roll(self) -> None:
        self.sync()
        self._file.close()
        self._start = self.position
        self._file = open(_path(self._folder, self._start), "ab")  # noqa: SIM115
        folder = os.open(self._folder, os.O_RDONLY)
        try:
            os.fsync(folder)  # the new name must be as durable as what is written under it
        finally:
            os.close(folder)

    def flush(self) -> None:
        """Hand everything to the system, so that readers see it."""
        self._file.flush()

    def sync(self) -> None:
        """Return when everything is on the disk."""
        self._file.flush()
        os.fdatasync(self._file.fileno())

    def close(self) -> None:
        """Close the log and let others write it."""
        if self._leaping:
            self.sync()
            (self._folder / _OPENED).write_text(_CLOSED)
        self._file.close()
        os.close(self._lock)


def _boot() -> str:
    """Return what tells one start of the machine from another; nothing where that cannot be known."""
    try:
        return _BOOT.read_text().strip()
    except OSError:
        return ""


def _went_down(folder: Path) -> bool:
    """Tell whether the machine may have gone down while a log was open."""
    try:
        opened = (folder / _OPENED).read_text()
    except OSError:
        return True
    return opened != _CLOSED and (not opened or opened != _boot())


@contextlib.contextmanager
def held_lock(path: Path) -> Iterator[None]:
    """Hold the lock of a folder; raise where another process has it and keeps it."""
    descriptor = _locked(path)
    try:
        yield
    finally:
        os.close(descriptor)


def _locked(path: Path) -> int:
    """Return a descriptor that holds the lock of a folder; raise where another process has it and keeps it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    until = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > until:
                os.close(descriptor)
                raise InputError(
                    f"{path.parent} is written by another process; end that one, or name another state folder"
                ) from None
            time.sleep(0.02)
        else:
            return descriptor
