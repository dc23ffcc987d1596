"""Where checkpoints are kept: a folder, or anything that Arrow's file systems reach by a URL.

A store knows names and bytes only. A write is atomic where the place allows it (a folder: a file of another name first, then a
rename; an object store: the object appears when it is complete); elsewhere the checksums of a checkpoint find what is torn.
"""

import os
import secrets
import shutil
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import Any, Protocol

from streams.errors import InputError

__all__ = ["ArrowStore", "Data", "FolderStore", "Store", "StoreError", "StoredFile", "open_store", "same_place"]

_PARTIAL = ".partial"

#: What is written into a file: all of it, or pieces that follow each other.
Data = bytes | memoryview | Iterable[bytes | memoryview]


class StoreError(InputError):
    """A store cannot be read or written: mend the place, or name another one."""


class StoredFile:
    """A file that is being read: its size, and its bytes in pieces.

    Attributes:
        size: the number of its bytes.
    """

    def __init__(self, file: Any, size: int, where: str) -> None:
        self.size = size
        self._file = file
        self._where = where

    def read(self, size: int) -> bytes:
        """Return the next so many bytes, fewer only at the end."""
        with _told("read", self._where):
            data: bytes = self._file.read(size)
        return data


class Store(Protocol):
    """A flat space of names with one level of folders: ``000000012/manifest.json``.

    Attributes:
        url: its name for people.
        place: what `open_store` finds it by in any process of this machine, whatever folder that works in.
    """

    url: str
    place: str

    def write(self, name: str, data: Data) -> None:
        """Write a file, whole or not at all, and durably; one of that name is replaced."""

    def read(self, name: str, most: int) -> bytes:
        """Return a file's bytes; raise `StoreError` if there is none, or if it has more than `most`."""

    def opened(self, name: str) -> AbstractContextManager[StoredFile]:
        """Read a file piece by piece; raise `StoreError` if there is none."""

    def folders(self) -> list[str]:
        """Return the names of all folders, in no particular order."""

    def sizes(self, folder: str) -> dict[str, int]:
        """Return the files of a folder with their sizes; none where there is no such folder."""

    def sync(self) -> None:
        """See to it that no folder which was written into is lost with the power."""

    def remove(self, name: str) -> None:
        """Remove a file, or a folder and all in it; one that is not there is no error."""


@contextmanager
def _told(what: str, where: str) -> Iterator[None]:
    """Turn what a file system says into an error of ours."""
    try:
        yield
    except OSError as error:
        raise StoreError(
            f"cannot {what} {where}: {error.strerror or error}; check the place and its permissions"
        ) from error


def _pieces(data: Data) -> Iterable[bytes | memoryview]:
    return [data] if isinstance(data, bytes | memoryview) else data


def _bounded(size: int, most: int, where: str) -> None:
    if size > most:
        raise StoreError(f"{where} has {size:,} bytes, more than it may have ({most:,})")


class FolderStore:
    """A folder of this machine."""

    def __init__(self, folder: Path) -> None:
        self.url = str(folder)
        self.place = str(folder.resolve())
        self._root = folder

    def write(self, name: str, data: Data) -> None:
        """Write a file beside, bring it to the disk, and give it its name; others may write one of that name meanwhile."""
        path = self._root / name
        partial = path.with_name(f"{path.name}.{secrets.token_hex(4)}{_PARTIAL}")
        with _told("write", str(path)):
            path.parent.mkdir(parents=True, exist_ok=True)
            with open(partial, "wb") as file:
                for piece in _pieces(data):
                    file.write(piece)
                file.flush()
                os.fsync(file.fileno())
            partial.replace(path)
            _sync_folder(path.parent)

    def read(self, name: str, most: int) -> bytes:
        """Return a file's bytes."""
        path = self._root / name
        with _told("read", str(path)):
            _bounded(path.stat().st_size, most, str(path))
            return path.read_bytes()

    @contextmanager
    def opened(self, name: str) -> Iterator[StoredFile]:
        """Read a file piece by piece."""
        path = self._root / name
        with _told("read", str(path)):
            file = open(path, "rb")  # noqa: SIM115  # closed below; what is done with its bytes is told by others
        with file:
            yield StoredFile(file, os.fstat(file.fileno()).st_size, str(path))

    def folders(self) -> list[str]:
        """Return the names of all folders."""
        with _told("list", self.url):
            return [path.name for path in self._root.iterdir() if path.is_dir()] if self._root.is_dir() else []

    def sizes(self, folder: str) -> dict[str, int]:
        """Return the files of a folder with their sizes."""
        found = {}
        with _told("list", f"{self.url}/{folder}"), suppress(FileNotFoundError):
            for entry in os.scandir(self._root / folder):
                with suppress(FileNotFoundError):  # one that another process is just naming
                    found[entry.name] = entry.stat().st_size
        return found

    def sync(self) -> None:
        """Bring the names of folders to the disk."""
        with _told("write", self.url):
            _sync_folder(self._root)

    def remove(self, name: str) -> None:
        """Remove a file, or a folder and all in it."""
        path = self._root / name
        with _told("remove", str(path)):
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    """Bring a new name to the disk; systems that cannot open folders need not."""
    if hasattr(os, "O_DIRECTORY"):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


class ArrowStore:
    """A folder on a file system of Arrow (`pyarrow.fs`): object stores, HDFS, and all of fsspec where that is installed."""

    def __init__(self, filesystem: Any, root: str, url: str) -> None:
        self.url = self.place = url
        self._filesystem = filesystem
        self._root = PurePosixPath(root)

    def write(self, name: str, data: Data) -> None:
        """Write a file."""
        path = self._root / name
        with _told("write", f"{self.url}/{name}"):
            self._filesystem.create_dir(str(path.parent), recursive=True)
            with self._filesystem.open_output_stream(str(path), compression=None) as stream:
                for piece in _pieces(data):
                    stream.write(piece)

    def read(self, name: str, most: int) -> bytes:
        """Return a file's bytes."""
        where = f"{self.url}/{name}"
        with _told("read", where), self._filesystem.open_input_file(str(self._root / name)) as file:
            _bounded(file.size(), most, where)
            data: bytes = file.read()
        return data

    @contextmanager
    def opened(self, name: str) -> Iterator[StoredFile]:
        """Read a file piece by piece."""
        where = f"{self.url}/{name}"
        with _told("read", where):
            file = self._filesystem.open_input_file(str(self._root / name))
        with file:
            yield StoredFile(file, file.size(), where)

    def folders(self) -> list[str]:
        """Return the names of all folders."""
        from pyarrow.fs import FileType

        return [info.base_name for info in self._listed("") if info.type == FileType.Directory]

    def sizes(self, folder: str) -> dict[str, int]:
        """Return the files of a folder with their sizes."""
        from pyarrow.fs import FileType

        return {info.base_name: info.size for info in self._listed(folder) if info.type == FileType.File}

    def _listed(self, folder: str) -> list[Any]:
        from pyarrow.fs import FileSelector

        with _told("list", f"{self.url}/{folder}".rstrip("/")):
            selected = FileSelector(str(self._root / folder), allow_not_found=True)
            found: list[Any] = self._filesystem.get_file_info(selected)
        return found

    def sync(self) -> None:
        """Do nothing: these have no folders that could be lost, or see to it themselves."""

    def remove(self, name: str) -> None:
        """Remove a file, or a folder and all in it."""
        from pyarrow.fs import FileType

        path = str(self._root / name)
        with _told("remove", f"{self.url}/{name}"):
            kind = self._filesystem.get_file_info(path).type
            if kind == FileType.Directory:
                self._filesystem.delete_dir(path)
            elif kind == FileType.File:
                self._filesystem.delete_file(path)


def open_store(place: str, base: Path | None = None) -> Store:
    """Return the store at a URL, or in a folder, which is relative to `base`."""
    if "://" not in place:
        return FolderStore((base or Path()) / place)
    from fsspec.core import url_to_fs  # these take a while to load, and few need them
    from pyarrow.fs import FSSpecHandler, PyFileSystem

    try:
        filesystem, root = url_to_fs(place)
    except (OSError, ValueError, ImportError) as error:
        raise StoreError(
            f"cannot use '{place}' for checkpoints: {error}; expected a folder, or a URL that fsspec knows, such as "
            "s3://bucket/folder"
        ) from error
    return ArrowStore(PyFileSystem(FSSpecHandler(filesystem)), root, place.rstrip("/"))


def same_place(one: str, other: str) -> bool:
    """Tell whether two stores are one, by their `url`."""
    if "://" in one or "://" in other:
        return one == other
    return Path(one).resolve() == Path(other).resolve()
