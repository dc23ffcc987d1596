"""Where checkpoints are kept: a folder, or anything that Arrow's file systems reach by a URL.

A store knows names and bytes only. A write is atomic where the place allows it (a folder: a file of another name first, then a
rename; an object store: the object appears when it is complete); elsewhere the checksums of a checkpoint find what is torn.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any, Protocol

from streams.errors import InputError

__all__ = ["ArrowStore", "FolderStore", "Store", "StoreError", "open_store", "same_place"]

_PARTIAL = ".partial"


class StoreError(InputError):
    """A store cannot be read or written: mend the place, or name another one."""


class Store(Protocol):
    """A flat space of names with one level of folders: ``000000012/manifest.json``."""

    url: str

    def write(self, name: str, data: bytes | memoryview) -> None:
        """Write a file, whole or not at all, and durably; one of that name is replaced."""

    def read(self, name: str, most: int) -> bytes:
        """Return a file's bytes; raise `StoreError` if there is none, or if it has more than `most`."""

    def folders(self) -> list[str]:
        """Return the names of all folders, in no particular order."""

    def remove(self, folder: str) -> None:
        """Remove a folder and all in it; one that is not there is no error."""


@contextmanager
def _told(what: str, where: str) -> Iterator[None]:
    """Turn what a file system says into an error of ours."""
    try:
        yield
    except OSError as error:
        raise StoreError(
            f"cannot {what} {where}: {error.strerror or error}; check the place and its permissions"
        ) from error


def _bounded(size: int, most: int, where: str) -> None:
    if size > most:
        raise StoreError(f"{where} has {size:,} bytes, more than it may have ({most:,})")


class FolderStore:
    """A folder of this machine."""

    def __init__(self, folder: Path) -> None:
        self.url = str(folder)
        self._root = folder

    def write(self, name: str, data: bytes | memoryview) -> None:
        """Write a file beside, bring it to the disk, and give it its name."""
        path = self._root / name
        partial = path.with_name(path.name + _PARTIAL)
        with _told("write", str(path)):
            path.parent.mkdir(parents=True, exist_ok=True)
            with open(partial, "wb") as file:
                file.write(data)
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

    def folders(self) -> list[str]:
        """Return the names of all folders."""
        with _told("list", self.url):
            return [path.name for path in self._root.iterdir() if path.is_dir()] if self._root.is_dir() else []

    def remove(self, folder: str) -> None:
        """Remove a folder and all in it."""
        with _told("remove", str(self._root / folder)):
            if (self._root / folder).is_dir():
                shutil.rmtree(self._root / folder)


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
        self.url = url
        self._filesystem = filesystem
        self._root = PurePosixPath(root)

    def write(self, name: str, data: bytes | memoryview) -> None:
        """Write a file."""
        path = self._root / name
        with _told("write", f"{self.url}/{name}"):
            self._filesystem.create_dir(str(path.parent), recursive=True)
            with self._filesystem.open_output_stream(str(path), compression=None) as stream:
                stream.write(data)

    def read(self, name: str, most: int) -> bytes:
        """Return a file's bytes."""
        where = f"{self.url}/{name}"
        with _told("read", where), self._filesystem.open_input_file(str(self._root / name)) as file:
            _bounded(file.size(), most, where)
            data: bytes = file.read()
        return data

    def folders(self) -> list[str]:
        """Return the names of all folders."""
        from pyarrow.fs import FileSelector, FileType

        with _told("list", self.url):
            found = self._filesystem.get_file_info(FileSelector(str(self._root), allow_not_found=True))
        return [info.base_name for info in found if info.type == FileType.Directory]

    def remove(self, folder: str) -> None:
        """Remove a folder and all in it."""
        from pyarrow.fs import FileType

        path = str(self._root / folder)
        with _told("remove", f"{self.url}/{folder}"):
            if self._filesystem.get_file_info(path).type == FileType.Directory:
                self._filesystem.delete_dir(path)


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
