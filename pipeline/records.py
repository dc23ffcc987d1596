"""Raw records as one Spark table, whatever their format, with the raw bytes of what is text.

Spark's readers replace bytes that are not UTF-8 and tell nobody. CSV and JSON are therefore read as lines, whose bytes
Spark leaves alone. CSV whose records go over lines is read by Spark's reader as Latin-1, which maps every byte to one
character, and turned back to bytes in Python.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pipeline.inputs import ColumnNames, InputFile, RawColumns, first_line, grouped, resolve_columns
from streams.errors import InputError

__all__ = ["RawTable", "raw_records"]

#: The columns of a raw record, as `pipeline.cleaning.Cleaner` reads them.
_FIELDS = ("id", "id_kind", "ts", "x", "y", "words", "broken", "valid", "path", "block", "place")


@dataclass(frozen=True, slots=True, eq=False)
class RawTable:
    """Records of some files: a Spark table, and how its columns are to be read.

    Where there is a `header`, the table has lines of CSV for `pipeline.csv_lines`; `whole` makes the table that Spark's
    reader takes from the same files, for records that go over the end of a line.
    """

    columns: RawColumns
    table: Any
    header: tuple[str, ...] = ()
    whole: Callable[[], "RawTable"] | None = None


def raw_records(spark: Any, files: Sequence[InputFile], names: ColumnNames) -> list[RawTable]:
    """Return the records of all files, a table for each format and header."""
    found = []
    for kind, header, paths in grouped(files):
        if kind == "csv":
            found.append(_csv_lines(spark, header, paths, names))
        elif kind == "jsonl":
            keys = dict.fromkeys(key for file in files if file.kind == "jsonl" for key in file.columns)
            found.append(RawTable(*_jsonl(spark, tuple(keys), paths, names)))
        else:
            found.append(RawTable(*_parquet(spark, paths, names)))
    return found


def _csv_lines(spark: Any, header: tuple[str, ...], paths: list[str], names: ColumnNames) -> RawTable:
    columns = resolve_columns(header, names, _some(paths))
    lines = spark.read.text([_literal(path) for path in paths]).where("trim(value) <> ''")
    table = lines.selectExpr("cast(value as binary) line", *_PLACE)
    return RawTable(columns, table, header, lambda: _csv(spark, header, paths, columns))


def _csv(spark: Any, header: tuple[str, ...], paths: list[str], columns: RawColumns) -> RawTable:
    """Read CSV with Spark's reader, each file whole by one task, so that quotes may hold the end of a line."""
    broken = _unused("broken", header)
    fields = ", ".join(f"{_quoted(name)} string" for name in (*header, broken))
    table = (
        spark.read.schema(fields)
        .options(header=True, encoding="ISO-8859-1", escape='"', mode="PERMISSIVE", columnNameOfCorruptRecord=broken)
        .option("multiLine", True)
        .csv([_literal(path) for path in paths])
    )

    def raw(name: str | None) -> str:
        return f"cast({_quoted(name)} as binary)" if name else "cast(null as binary)"

    picked = table.selectExpr(
        f"{raw(columns.id)} id",
        "cast(null as string) id_kind",
        f"{raw(columns.ts)} ts",
        f"{raw(columns.x)} x",
        f"{raw(columns.y)} y",
        f"{raw(columns.words)} words",
        f"{raw(broken)} broken",
        "true valid",
        *_PLACE,
    )
    return RawTable(replace(columns, latin=True), picked)


def _jsonl(spark: Any, keys: tuple[str, ...], paths: list[str], names: ColumnNames) -> tuple[RawColumns, Any]:
    known = keys or ("id", "ts", "lon", "lat", "text")
    columns = resolve_columns(known, names, _some(paths))
    kinds = {columns.id: "variant", columns.words: "array<string>" if columns.listed else "string"}
    broken = _unused("broken", columns.names())
    fields = ", ".join(f"{_quoted(name)} {kinds.get(name, 'string')}" for name in [*columns.names(), broken])
    lines = spark.read.text([_literal(path) for path in paths])
    parsed = lines.selectExpr(
        f"from_json(value, '{fields.replace(chr(39), chr(92) + chr(39))}', "
        f"map('mode', 'PERMISSIVE', 'columnNameOfCorruptRecord', '{broken}')) record",
        "is_valid_utf8(value) valid",
        "value",
        *_PLACE,
    )

    def field(name: str | None) -> str:
        return f"cast(record.{_quoted(name)} as binary)" if name else "cast(null as binary)"

    kind = f"schema_of_variant(record.{_quoted(columns.id)})"
    words = f"record.{_quoted(columns.words)}" if columns.listed else field(columns.words)
    table = parsed.selectExpr(
        f"cast(cast(record.{_quoted(columns.id)} as string) as binary) id",
        f"case {kind} when 'BIGINT' then 'number' when 'STRING' then 'text' when 'VOID' then null "
        f"else if({kind} is null, 'text', 'other') end id_kind",
        f"{field(columns.ts)} ts",
        f"{field(columns.x)} x",
        f"{field(columns.y)} y",
        f"{words} words",
        f"if(record is null, cast(value as binary), {field(broken)}) broken",
        "valid",
        "path",
        "block",
        "place",
        "trim(value) = '' blank",
    )
    # Numbered before blank lines go, so that a record's number is its line.
    return columns, table.where("not blank").select(*_FIELDS)


def _parquet(spark: Any, paths: list[str], names: ColumnNames) -> tuple[RawColumns, Any]:
    try:
        table = spark.read.option("mergeSchema", True).parquet(*[_literal(path) for path in paths])
    except Exception as error:
        raise InputError(f"{_some(paths)} cannot be read as Parquet: {first_line(error)}") from error
    columns = resolve_columns(table.columns, names, _some(paths))
    types = dict(table.dtypes)

    def typed(name: str | None, field: str) -> str:
        if name is None:
            return "cast(null as binary)"
        found, quoted = types[name], _quoted(name)
        if found in ("string", "binary"):
            return f"cast({quoted} as binary)"
        if field in ("id", "ts") and found in ("tinyint", "smallint", "int", "bigint"):
            return f"encode(cast({quoted} as string), 'UTF-8')"
        if field == "ts" and found in ("timestamp", "timestamp_ntz", "date"):
            return f"encode(cast(unix_millis(cast({quoted} as timestamp)) as string), 'UTF-8')"
        if field in ("x", "y") and re.match(r"(tinyint|smallint|int|bigint|float|double|decimal)", found):
            return f"cast({quoted} as double)"
        if field == "words" and columns.listed and found == "array<string>":
            return quoted
        raise InputError(
            f"{_some(paths)}: column '{name}' has type {found}, which cannot be {field}; expected {_EXPECTED[field]}"
        )

    number = types[columns.id] not in ("string", "binary")
    return columns, table.selectExpr(
        f"{typed(columns.id, 'id')} id",
        f"'{'number' if number else 'text'}' id_kind",
        f"{typed(columns.ts, 'ts')} ts",
        f"{typed(columns.x, 'x')} x",
        f"{typed(columns.y, 'y')} y",
        f"{typed(columns.words, 'words')} words",
        "cast(null as binary) broken",
        "true valid",
        *_PLACE,
    )


_EXPECTED = {
    "id": "an integer or a string",
    "ts": "integer milliseconds, a timestamp or a string",
    "x": "a number or a string",
    "y": "a number or a string",
    "words": "a string, or an array of strings for keywords",
}

_PLACE = (
    "_metadata.file_path path",
    "_metadata.file_block_start block",
    "monotonically_increasing_id() place",
)


def _quoted(name: str | None) -> str:
    return "`" + (name or "").replace("`", "``") + "`"


def _unused(name: str, taken: Sequence[str]) -> str:
    """Return a name that no column has (names are compared as Spark does, without case)."""
    lower = {other.lower() for other in taken}
    while name in lower:
        name += "_"
    return name


def _literal(path: str) -> str:
    """Return a path that Spark takes as it is and not as a pattern."""
    return re.sub(r"([\[\]{}*?\\])", r"\\\1", path)


def _some(paths: list[str]) -> str:
    return paths[0] if len(paths) == 1 else f"{paths[0]} (and {len(paths) - 1} more)"
