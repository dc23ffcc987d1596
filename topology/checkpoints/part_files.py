"""Parts of states in a store: each is written once, whoever refers to it and however often.

A part's file is named by its bytes. So two processes that write the same part at the same time do no harm, nor
does one that goes on after its place was taken.
"""

import hashlib
import re
import threading
from collections.abc import Callable, Mapping
from typing import Any
from weakref import WeakValueDictionary

from streams.errors import CodecError, InputError
from streams.state import Part, pack_part
from topology.checkpoints.manifest import MAX_FILE_BYTES, PARTS, SavedFile
from topology.checkpoints.state_files import read_file, write_file
from topology.checkpoints.store import Store

__all__ = ["PartError", "PartFiles", "part_name", "parts_in"]

_READABLE = 40
_DIGITS = 32


class PartError(InputError):
    """A part of a checkpoint cannot be read: go on from the checkpoint before."""


def part_name(key: str, checksum: str) -> str:
    """Return the name of a part's file: what is readable of its key, which is any text, and its checksum."""
    readable = re.sub(r"[^a-z0-9]+", "-", key.lower()).strip("-")[:_READABLE]
    return f"{readable}.{checksum[:_DIGITS]}.part"


class PartFiles:
    """The parts that one process writes into a store.

    Attributes:
        written: how many bytes of parts were written so far.
    """

    def __init__(self, store: Store, most: int = MAX_FILE_BYTES) -> None:
        self.written = 0
        self._store, self._most = store, most
        self._known: dict[str, SavedFile] = {}
        self._there: dict[str, int] = {}

    def know(self, parts: Mapping[str, SavedFile]) -> None:
        """Take over which files of this store parts are in, by their keys."""
        self._known.update(parts)

    def look(self) -> None:
        """See which parts are in the store now: before each checkpoint, as those that nobody needed are gone."""
        self._there = self._store.sizes(PARTS)

    def saved(self, part: Part) -> SavedFile:
        """Return the file of a part; it is written unless it is there."""
        known = self._known.get(part.key)
        if known is None or self._there.get(known.name) != known.size:
            self._known[part.key] = known = self._write(part)
            self._there[known.name] = known.size
        return known

    def _write(self, part: Part) -> SavedFile:
        pieces = pack_part(part)
        digest = hashlib.sha256()
        for piece in pieces:
            digest.update(piece)
        name, size = part_name(part.key, digest.hexdigest()), sum(map(len, pieces))
        if self._there.get(name) == size:  # another process was faster
            return SavedFile(name, size, digest.hexdigest())
        self.written += size
        return write_file(self._store, PARTS, name, pieces, self._most)


#: The parts that were read in this process and are still in use, by key and checksum: all tasks share them.
_shared: WeakValueDictionary[tuple[str, str], Part] = WeakValueDictionary()
_sharing = threading.Lock()


def parts_in(store: Store, parts: Mapping[str, SavedFile], most: int) -> Callable[[str], Part]:
    """Return what finds a part of a checkpoint by its key; its value is read when somebody asks for it."""

    def part_of(key: str) -> Part:
        file = parts.get(key)
        if file is None:
            raise CodecError(f"refers to the part {key!r:.100}, which the manifest does not name")
        with _sharing:
            found = _shared.get((key, file.checksum))
            if found is None:
                found = _shared[key, file.checksum] = Part(key, lambda: _loaded(store, file, most))
        return found

    return part_of


def _loaded(store: Store, file: SavedFile, most: int) -> Any:
    try:
        return read_file(store, PARTS, file, most)
    except InputError as error:
        raise PartError(str(error)) from error
