"""Raw records as one Spark table, whatever their format, with the raw bytes of what is text.

Spark's readers replace bytes that are not UTF-8 and tell nobody. CSV is therefore read as Latin-1, which maps every byte
to one character, and turned back to bytes in Python; JSON is read as lines whose bytes Spark leaves alone and can judge.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pipeline.inputs import ColumnNames, InputFile, RawColumns, first_line, grouped, resolve_columns, union
from streams.errors import InputError

__all__ = ["raw_records"]

#: The columns of a raw record, as `pipeline.cleaning.Cleaner` reads them.
_FIELDS = ("id", "id_kind", "ts", "x", "y", "words", "broken", "valid", "path", "block", "place")


def raw_records(spark: Any, files: Sequence[InputFile], names: ColumnNames) -> list[tuple[RawColumns, Any]]:
    """Return the records of all files, as one table for each way in which columns are found and read.

    Tables are kept apart by whether their words are listed or a text, and by type, because one batch has one type.
    """
    tables: dict[tuple[bool, bool, bool, str], list[Any]] = {}
    columns_of: dict[tuple[bool, bool, bool, str], RawColumns] = {}
    for kind, header, paths in grouped(files):
        if kind == "csv":
            columns, table = _csv(spark, header, paths, names)
        elif kind == "jsonl":
            keys = dict.fromkeys(key for file in files if file.kind == "jsonl" for key in file.columns)
            columns, table = _jsonl(spark, tuple(keys), paths, names)
        else:
            columns, table = _parquet(spark, paths, names)
        key = (columns.listed, columns.geographic, columns.latin, str(table.schema.simpleString()))
        tables.setdefault(key, []).append(table)
        columns_of[key] = columns
    return [(columns_of[key], union(parts)) for key, parts in tables.items()]


def _csv(spark: Any, header: tuple[str, ...], paths: list[str], names: ColumnNames) -> tuple[RawColumns, Any]:
    columns = replace(resolve_columns(header, names, _some(paths)), latin=True)
    literal = [_literal(path) for path in paths]
    broken = _unused("broken", header)
    fields = ", ".join(f"{_quoted(name)} string" for name in (*header, broken))
    table = (
        spark.read.schema(fields)
        .options(header=True, encoding="ISO-8859-1", escape='"', mode="PERMISSIVE", columnNameOfCorruptRecord=broken)
        .option("multiLine", _has_quoted_newlines(spark, literal))
        .csv(literal)
    )

    def raw(name: str | None) -> str:
        return f"cast({_quoted(name)} as binary)" if name else "cast(null as binary)"

    return columns, table.selectExpr(
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


def _has_quoted_newlines(spark: Any, paths: list[str]) -> bool:
    """Tell whether a record of CSV goes over a line's end: then some line has an odd number of quotes.

    Such files must be read whole by one task each; all others are split over the tasks.
    """
    quotes = "(length(value) - length(replace(value, '\"', '')))"
    return bool(spark.read.option("encoding", "ISO-8859-1").text(paths).where(f"{quotes} % 2 = 1").take(1))


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
