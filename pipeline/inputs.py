"""Raw files as Spark sees them: which there are, what columns they have, and their records as one table.

Files are found and looked into through Hadoop's file systems, so a path may be local or anything that Spark reads.
"""

import csv
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from streams.errors import DeclarationError, InputError, did_you_mean

__all__ = ["ColumnNames", "InputFile", "RawColumns", "find_inputs", "resolve_columns"]

FileKind = Literal["csv", "jsonl", "parquet"]

#: Endings that name a format; compressed text has one of the second after it.
ENDINGS: Mapping[str, FileKind] = {".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet"}
COMPRESSIONS = (".gz", ".zst", ".bz2")

#: How much of the start of a file is looked at for its header or its first records.
_HEAD_BYTES = 1 << 16

#: A bound on the number of files of one call; a million small files should be joined first.
MAX_FILES = 100_000


@dataclass(frozen=True, slots=True)
class InputFile:
    """One file: where it is, its format, and the columns found at its start (none: nothing could be told).

    `path` is what Spark is given, `uri` is the name that Spark gives back for its records (with escapes).
    """

    path: str
    uri: str
    kind: FileKind
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ColumnNames:
    """The user's names of the columns; None takes the contract's name where the data has it."""

    id: str | None = None
    ts: str | None = None
    lon: str | None = None
    lat: str | None = None
    x: str | None = None
    y: str | None = None
    text: str | None = None
    keywords: str | None = None

    def __post_init__(self) -> None:
        if (self.lon or self.lat) and (self.x or self.y):
            raise DeclarationError("columns are named for both lon, lat and x, y; name one pair")
        if self.text and self.keywords:
            raise DeclarationError("columns are named for both text and keywords; name one of them")


@dataclass(frozen=True, slots=True)
class RawColumns:
    """The columns that are read: `ts` may be missing; `words` holds a text, or keywords where `listed`.

    `latin` tells that bytes were read as Latin-1 characters.
    """

    id: str
    ts: str | None
    x: str
    y: str
    words: str
    geographic: bool
    listed: bool
    latin: bool = False

    def names(self) -> list[str]:
        """Return the columns that are there, each once."""
        return list(dict.fromkeys(name for name in (self.id, self.ts, self.x, self.y, self.words) if name))


def find_inputs(spark: Any, inputs: Sequence[str]) -> list[InputFile]:
    """Return the files of paths, folders and patterns, in order of their names, each with its columns.

    Raises:
        InputError: a path that is not there, an ending that names no format, a file that Spark would skip, or one whose
            start cannot be read.
    """
    if not inputs:
        raise InputError("no input: name at least one CSV, JSONL or Parquet file, or a folder of them")
    found: dict[str, Any] = {}
    for name in inputs:
        for status in _statuses(spark, str(name)):
            found[status.getPath().toString()] = status
    if len(found) > MAX_FILES:
        raise InputError(f"{len(found)} input files; expected at most {MAX_FILES}: join small files first")
    return [_looked_at(spark, path, found[path]) for path in sorted(found)]


def _statuses(spark: Any, name: str) -> list[Any]:
    """Return the statuses of the files that a path, a folder or a pattern names."""
    path = spark._jvm.org.apache.hadoop.fs.Path(name)
    try:
        system = path.getFileSystem(spark._jsc.hadoopConfiguration())
        path = system.makeQualified(path)
        if system.exists(path):
            status = system.getFileStatus(path)
            if not status.isDirectory():
                return [status]
            inside = [s for s in system.listStatus(path) if s.isFile() and not _hidden(s.getPath().getName())]
        else:
            inside = [s for s in system.globStatus(path) or () if s.isFile()]
    except Exception as error:  # py4j wraps whatever the file system throws
        raise InputError(f"{name} cannot be looked at: {first_line(error)}") from error
    if not inside:
        raise InputError(f"{name} names no file; expected a CSV, JSONL or Parquet file, a folder of them, or a pattern")
    return inside


def _hidden(name: str) -> bool:
    return name.startswith(("_", "."))


def kind_of(name: str) -> FileKind:
    """Return the format that a file's ending names."""
    base = name.lower()
    for ending in COMPRESSIONS:
        base = base.removesuffix(ending)
    for ending, kind in ENDINGS.items():
        if base.endswith(ending) and (kind != "parquet" or base == name.lower()):
            return kind
    raise InputError(
        f"{name} has an ending that names no format; expected {', '.join(ENDINGS)}, "
        f"text also with {', '.join(COMPRESSIONS)} after it"
    )


def _looked_at(spark: Any, path: str, status: Any) -> InputFile:
    name = status.getPath().getName()
    uri = re.sub(r"^file:/+", "file:/", status.getPath().toUri().toString())  # as Spark writes local ones
    kind = kind_of(name)
    if _hidden(name):
        raise InputError(f"{path} starts with '_' or '.', and Spark skips such files; rename it")
    if kind == "parquet":
        return InputFile(path, uri, kind, ())
    head = _head(spark, path, status.getPath())
    if head[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise InputError(f"{path} is UTF-16; convert it to UTF-8")
    return InputFile(path, uri, kind, _header(path, head) if kind == "csv" else _keys(head))


def _head(spark: Any, name: str, path: Any) -> bytes:
    """Return the first bytes of a file, decompressed."""
    conf = spark._jsc.hadoopConfiguration()
    jvm = spark._jvm
    try:
        stream = path.getFileSystem(conf).open(path)
        try:
            codec = jvm.org.apache.hadoop.io.compress.CompressionCodecFactory(conf).getCodec(path)
            if codec is not None:
                stream = codec.createInputStream(stream)
            return bytes(stream.readNBytes(_HEAD_BYTES))
        finally:
            stream.close()
    except Exception as error:
        raise InputError(f"{name} cannot be read: {first_line(error)}") from error


def _header(path: str, head: bytes) -> tuple[str, ...]:
    if not head.strip():
        raise InputError(f"{path} is empty; expected a header row with the names of the columns")
    first = next(csv.reader(head.decode("utf-8", "replace").removeprefix("\ufeff").lstrip().splitlines()))
    names = tuple(name.strip() for name in first)
    if len({name.lower() for name in names}) < len(names):
        raise InputError(f"{path} has a column name twice in its header (case does not count): {', '.join(names)}")
    return names


def _keys(head: bytes) -> tuple[str, ...]:
    """Return the keys of the JSON objects among the first lines; a line cut off at the end is no object."""
    keys: dict[str, None] = {}
    for line in head.splitlines():
        try:
            record = json.loads(line)
        except ValueError:
            continue
        if isinstance(record, dict):
            keys.update(dict.fromkeys(record))
    return tuple(keys)


def resolve_columns(columns: Iterable[str], names: ColumnNames, where: str) -> RawColumns:
    """Decide which column is which.

    Raises:
        InputError: one that is needed, or that the user named, is not there.
    """
    there = list(columns)

    def pick(field: str, named: str | None, *defaults: str, needed: bool = True) -> str | None:
        found = named or next((name for name in defaults if name in there), None)
        if found is None and needed:
            expected = " or ".join(f"'{name}'" for name in defaults)
            raise InputError(_missing(where, expected, field, defaults[0], there))
        if found is not None and found not in there:
            raise InputError(_missing(where, f"'{found}'", field, found, there))
        return found

    planar = bool(names.x or names.y) or (not (names.lon or names.lat) and "lon" not in there and "x" in there)
    words = pick("keywords" if names.keywords else "text", names.text or names.keywords, "text", "keywords")
    pair = (("x", names.x), ("y", names.y)) if planar else (("lon", names.lon), ("lat", names.lat))
    (x, y) = (pick(field, named, field) for field, named in pair)
    identity = pick("id", names.id, "id")
    ts = pick("ts", names.ts, "ts", needed=False)
    if identity is None or x is None or y is None or words is None:
        raise InputError(f"{where} lacks a column")  # pick raised before; this tells the type checker
    listed = words == names.keywords or (names.text is None and words == "keywords")
    return RawColumns(identity, ts, x, y, words, geographic=not planar, listed=listed)


def _missing(where: str, expected: str, field: str, nearest_to: str, there: list[str]) -> str:
    have = ", ".join(there) or "no columns"
    return (
        f"{where} has no column {expected}; it has {have}{did_you_mean(nearest_to, there)}. "
        f"Name the column that holds it with {field}=..."
    )


def first_line(error: BaseException) -> str:
    """Return what an error says in a line: of Java's the innermost cause, of a Python worker's its last line."""
    text = str(error).strip()
    if "thrown from the Python worker" in text:
        return text.splitlines()[-1]
    causes = re.findall(r"Caused by: [\w.$]+: ([^\n]+)", text)
    if causes:
        return str(causes[-1]).strip()
    line = (text.splitlines() or [type(error).__name__])[0]
    return re.sub(r"^An error occurred while calling [^:]+:?\s*", "", line) or type(error).__name__


def grouped(files: Sequence[InputFile]) -> list[tuple[FileKind, tuple[str, ...], list[str]]]:
    """Return files of one format and, for CSV, one header together: Spark reads such a group as one table."""
    groups: dict[tuple[FileKind, tuple[str, ...]], list[str]] = {}
    for file in files:
        groups.setdefault((file.kind, file.columns if file.kind == "csv" else ()), []).append(file.path)
    return [(kind, columns, paths) for (kind, columns), paths in groups.items()]
