"""One file of a checkpoint: written and read in pieces, so that nobody needs memory for a state twice."""

import hashlib
from collections.abc import Callable, Iterator
from typing import Any

from streams.codec import Buffers, size_of
from streams.errors import CodecError, InputError
from streams.state import Part, read_state
from topology.checkpoints.manifest import MAX_FILE_BYTES, SavedFile
from topology.checkpoints.store import Store, StoredFile, StoreError

__all__ = ["check_file", "read_file", "write_file"]

_CHECKED_BYTES = 1 << 22


def write_file(
    store: Store, folder: str, name: str, pieces: Buffers, most: int = MAX_FILE_BYTES, *, reuse: bool = True
) -> SavedFile:
    """Write pieces of bytes as one file; without `reuse`, each is forgotten as soon as it is written."""
    size = size_of(pieces)
    if size > most:
        raise StoreError(
            f"{name} has {size:,} bytes, more than a checkpoint may hold ({most:,}); use more tasks, or raise "
            "topology.limits.state_bytes"
        )
    digest = hashlib.sha256()

    def digested() -> Iterator[bytes | memoryview]:
        left = list(reversed(pieces))
        if not reuse:
            pieces.clear()
        while left:
            piece = left.pop()
            digest.update(piece)
            yield piece

    store.write(f"{folder}/{name}", digested())
    return SavedFile(name, size, digest.hexdigest())


class _Checked:
    """Reads a file and sees that it is the one that was written."""

    def __init__(self, stored: StoredFile, file: SavedFile, most: int) -> None:
        if stored.size != file.size:
            raise InputError(f"{file.name} has {stored.size} bytes, expected {file.size}: it is torn")
        if stored.size > most:
            raise InputError(f"{file.name} has {stored.size:,} bytes, more than topology.limits.state_bytes ({most:,})")
        self._stored, self._file = stored, file
        self._digest = hashlib.sha256()

    def read(self, size: int) -> bytes:
        data = self._stored.read(size)
        self._digest.update(data)
        return data

    def finish(self) -> None:
        """Read what is left, and raise unless all was as it was written."""
        while self.read(_CHECKED_BYTES):
            pass
        if self._digest.hexdigest() != self._file.checksum:
            raise InputError(f"{self._file.name} is damaged: its checksum differs")


def read_file(
    store: Store, folder: str, file: SavedFile, most: int, part_of: Callable[[str], Part] | None = None
) -> Any:
    """Return the state in a file; raise `InputError` where it is not the one that was written."""
    with store.opened(f"{folder}/{file.name}") as stored:
        checked = _Checked(stored, file, most)
        try:
            state = read_state(checked.read, file.size, *([part_of] if part_of is not None else []))
        except CodecError as error:
            checked.finish()  # damage is the reason then, not the release that wrote it
            raise InputError(f"{file.name}: {error}") from error
        checked.finish()
    return state


def check_file(store: Store, folder: str, file: SavedFile, most: int) -> None:
    """Raise `InputError` where a file is not the one that was written; nothing of it is kept."""
    with store.opened(f"{folder}/{file.name}") as stored:
        _Checked(stored, file, most).finish()
