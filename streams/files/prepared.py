"""A prepared data set: what the offline pipeline writes once and the online plane reads without Spark.

manifest.json        what is in the folder; written last, so a folder without it is unfinished
objects/*.parquet    id, ts, x, y, keyword_ids (and text, where it was kept), in time order, in order of file name
vocabulary.parquet   word, df: the most frequent word first, ties in alphabetical order; a word's place is its id
rejects.jsonl        records that could not be used, with their reasons
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from streams.errors import DeclarationError, InputError, brief
from streams.geometry import Rect
from streams.vocabulary import Vocabulary

__all__ = [
    "FORMAT",
    "MANIFEST",
    "OBJECTS",
    "REJECTS",
    "VERSION",
    "VOCABULARY",
    "Manifest",
    "ObjectFile",
    "homes_of",
    "is_prepared",
    "load_manifest",
    "load_vocabulary",
    "object_paths",
    "same_words",
    "save_manifest",
    "shared_vocabulary",
    "with_prepared_files",
]

#: The largest manifest, and the most words of a vocabulary, that are read.
MAX_MANIFEST_BYTES = 64 << 20
MAX_WORDS = 50_000_000

FORMAT = "waterspout prepared data"
VERSION = 1

MANIFEST, OBJECTS, VOCABULARY, REJECTS = "manifest.json", "objects", "vocabulary.parquet", "rejects.jsonl"


@dataclass(frozen=True, slots=True)
class ObjectFile:
    """One Parquet file of objects, by its path inside the folder, and how many it holds."""

    path: str
    rows: int


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a prepared data set holds.

    Attributes:
        rows: the number of objects.
        keywords: the sum of the objects' numbers of keywords.
        space: the rectangle that contains all objects.
        first_ts: the smallest timestamp, in milliseconds.
        last_ts: the largest.
        words: the number of words in the vocabulary.
        id_type: ``int64`` or ``string``.
        text: whether the objects keep their text.
        synthetic_rate: objects a second of the timestamps that were made, or None where they are the source's own.
        rejects: for each reason, the number of records that were rejected for it.
        files: the files of objects, in time order.
        geographic: places are longitudes and latitudes.
    """

    rows: int
    keywords: int
    space: Rect
    first_ts: int
    last_ts: int
    words: int
    id_type: Literal["int64", "string"]
    text: bool
    synthetic_rate: float | None
    rejects: Mapping[str, int]
    files: tuple[ObjectFile, ...]
    geographic: bool = False

    @property
    def rejected(self) -> int:
        """The number of records that could not be used."""
        return sum(self.rejects.values())


def save_manifest(folder: Path, manifest: Manifest) -> None:
    """Write the manifest, under another name first, so that it is there whole or not at all."""
    fields = asdict(manifest) | {"space": list(manifest.space.as_tuple())}
    draft = folder / f".{MANIFEST}.draft"
    draft.write_text(json.dumps({"format": FORMAT, "version": VERSION, **fields}, indent=2) + "\n", encoding="utf-8")
    draft.replace(folder / MANIFEST)


def load_manifest(folder: str | Path) -> Manifest:
    """Read the manifest of a prepared data set.

    Raises:
        InputError: there is none, it is of another version, or it says something impossible.
    """
    path = Path(folder) / MANIFEST
    try:
        with path.open("rb") as file:
            text = file.read(MAX_MANIFEST_BYTES + 1)
        if len(text) > MAX_MANIFEST_BYTES:
            raise InputError(f"{path} has more than {MAX_MANIFEST_BYTES:,} bytes, which no manifest has")
        found = json.loads(text.decode())
    except (FileNotFoundError, NotADirectoryError) as error:
        raise InputError(
            f"{folder} has no {MANIFEST}, so it is no prepared data set, or preparing it did not finish; "
            "make one with: waterspout prepare INPUT... --out DIR"
        ) from error
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path} cannot be read as JSON ({error}); prepare the data set again") from error
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise InputError(f"{path} is not the manifest of a prepared data set: its 'format' is not '{FORMAT}'")
    if found.get("version") != VERSION:
        raise InputError(
            f"{path} has version {brief(found.get('version'))}, but this program reads version {VERSION}; "
            "prepare the data set again"
        )
    try:
        return _manifest(found)
    except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError, DeclarationError) as error:
        raise InputError(f"{path} is damaged ({brief(error)}); prepare the data set again") from error


def _manifest(found: Mapping[str, Any]) -> Manifest:
    """Make a manifest from its JSON, every field with its type checked."""
    if found["id_type"] not in ("int64", "string"):
        raise ValueError(f"id_type {brief(found['id_type'])}")
    rate = found["synthetic_rate"]
    return Manifest(
        rows=int(found["rows"]),
        keywords=int(found["keywords"]),
        space=Rect(*map(float, found["space"])),
        first_ts=int(found["first_ts"]),
        last_ts=int(found["last_ts"]),
        words=int(found["words"]),
        id_type=found["id_type"],
        text=bool(found["text"]),
        synthetic_rate=None if rate is None else float(rate),
        rejects={str(reason): int(count) for reason, count in found["rejects"].items()},
        files=tuple(ObjectFile(_inner(str(file["path"])), int(file["rows"])) for file in found["files"]),
        geographic=bool(found.get("geographic", False)),
    )


def _inner(path: str) -> str:
    """Return a path that stays inside of the folder; a manifest may come from somebody else."""
    parts = Path(path).parts
    if not parts or Path(path).is_absolute() or ".." in parts or "\0" in path:
        raise ValueError(f"{brief(path)} is no file of the folder")
    return path


def object_paths(folder: str | Path) -> list[Path]:
    """Return the files of objects in time order, each of which is there."""
    paths = [Path(folder) / file.path for file in load_manifest(folder).files]
    for path in paths:
        if not path.is_file():
            raise InputError(f"{path} is named in {MANIFEST} but is missing; prepare the data set again")
    return paths


def is_prepared(path: Path) -> bool:
    """Tell whether a path is the folder of a prepared data set."""
    return (path / MANIFEST).is_file()


def with_prepared_files(paths: Iterable[Path]) -> list[Path]:
    """Return files, with the files of objects in place of each prepared data set."""
    return [file for path in paths for file in (object_paths(path) if is_prepared(path) else [path])]


def homes_of(paths: Sequence[Path]) -> list[Path | None]:
    """Return for each path the prepared data set that it is, or that it is a file of objects of; None for neither."""
    found: list[Path | None] = []
    files: dict[Path, set[Path]] = {}
    for path in paths:
        folders = [path] if path.is_dir() else list(path.absolute().parents[:2])
        home = next((folder for folder in folders if is_prepared(folder)), None)
        if home is not None and home != path:
            if home not in files:
                files[home] = _files(home)
            home = home if path.resolve() in files[home] else None
        found.append(home)
    return found


def _files(folder: Path) -> set[Path]:
    """Return the files of objects of a prepared data set; a folder beside which something else has a manifest has none."""
    try:
        return {(folder / file.path).resolve() for file in load_manifest(folder).files}
    except InputError:
        return set()


def same_words(one: Path, other: Path) -> bool:
    """Tell whether two prepared data sets number the same words alike."""
    if one.resolve() == other.resolve():
        return True
    if load_manifest(one).words != load_manifest(other).words:
        return False
    first, second = (_words(folder / VOCABULARY, load_manifest(folder).words)["word"] for folder in (one, other))
    return bool(first.equals(second))


def load_vocabulary(folder: str | Path) -> Vocabulary:
    """Read the vocabulary of a prepared data set, with the document frequencies that idf needs.

    Raises:
        InputError: the data set is unfinished, or its vocabulary is missing, damaged or not the manifest's.
    """
    manifest = load_manifest(folder)
    path = Path(folder) / VOCABULARY
    try:
        table = _words(path, manifest.words)
    except (OSError, ValueError, pa.ArrowException) as error:
        raise InputError(f"{path} cannot be read ({str(error)[:200]}); prepare the data set again") from error
    return Vocabulary(tuple(table["word"].to_pylist()), table["df"].to_numpy(), manifest.rows)


@lru_cache(maxsize=4)
def _loaded(folder: str, _identity: tuple[int, ...]) -> Vocabulary:
    return load_vocabulary(folder)


_LOADING = Lock()


def shared_vocabulary(folder: str | Path | None) -> Vocabulary:
    """Return the vocabulary of a prepared data set, the same value to all who ask in this process; an empty one for None.

    Words and frequencies may be hundreds of megabytes, and every task that reads texts or scores objects needs them. A data
    set that was prepared again under the same name is another one: its manifest is another file.
    """
    if folder is None:
        return Vocabulary()
    path = Path(folder).resolve()
    try:
        found = (path / MANIFEST).stat()
    except OSError:
        return load_vocabulary(folder)  # says what is missing
    with _LOADING:  # two threads would both read it
        return _loaded(str(path), (found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size))


def _words(path: Path, expected: int) -> pa.Table:
    """Return words and document frequencies, once it is known that there are as many as expected, none missing or twice."""
    with pq.ParquetFile(path) as file:
        if file.metadata.num_rows != expected or expected > MAX_WORDS:
            found = file.metadata.num_rows
            raise InputError(
                f"{path} has {found} words, but {MANIFEST} says {expected} (at most {MAX_WORDS:,}); "
                "prepare the data set again"
            )
        table = file.read(columns=["word", "df"]).cast(pa.schema({"word": pa.string(), "df": pa.int64()}))
    if table["word"].null_count or table["df"].null_count or len(table["word"].unique()) != expected:
        raise InputError(
            f"{path} has words or frequencies that are missing, or a word twice; prepare the data set again"
        )
    table.validate(full=True)
    return table
