"""Results with chosen columns of their objects: lines, and the files that they are in.

A match gets ``"columns": {...}``; a list gets ``"columns": [{...}, ...]``, one for each of its objects. In Parquet a match has
them as columns of the table, and each object of a list as fields beside its value. An object that is in no file (an injected
one) has none.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from streams.errors import InputError
from streams.files.file_blocks import file_kind
from streams.files.file_bytes import read_bytes
from streams.files.line_files import LineFile
from streams.files.object_lookup import Columns

__all__ = ["include_in_file", "objects_in", "with_columns"]

Line = dict[str, Any]
Lookup = Callable[[set[str]], Mapping[str, Columns]]


def objects_in(line: Mapping[str, Any]) -> list[Any]:
    """Return the identifiers of the objects in a line."""
    if "object" in line:
        return [line["object"]]
    return [item[0] if isinstance(item, list) else item for item in line.get("objects", ())]


def with_columns(line: Line, found: Mapping[str, Columns]) -> Line:
    """Return a line with the columns of its objects; one without objects as it is."""
    if "object" in line:
        return {**line, "columns": dict(found.get(str(line["object"]), {}))}
    if "objects" in line:
        return {**line, "columns": [dict(found.get(str(one), {})) for one in objects_in(line)]}
    return line


def include_in_file(path: Path, lookup: Lookup) -> None:
    """Rewrite a file of results with the columns that `lookup` has for the objects in it, in one step at the end."""
    draft = path.with_name(f".{path.name}.draft{''.join(path.suffixes)}")
    try:
        if path.suffix == ".parquet":
            _rewrite_table(path, draft, lookup)
        else:
            wanted = {str(one) for line in _lines(path) for one in objects_in(line)}
            _rewrite_lines(path, draft, lookup(wanted))
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def _lines(path: Path) -> Iterator[Line]:
    rest = b""
    for data in read_bytes(str(path), file_kind(str(path), ("jsonl",)).compression):
        *whole, rest = (rest + data).split(b"\n")
        yield from map(json.loads, whole)


def _rewrite_lines(path: Path, draft: Path, found: Mapping[str, Columns]) -> None:
    file = LineFile(draft)
    for line in _lines(path):
        text = json.dumps(with_columns(line, found), ensure_ascii=False, separators=(",", ":"))
        file.append(text.encode() + b"\n")
    file.close()


def _rewrite_table(path: Path, draft: Path, lookup: Lookup) -> None:
    with pq.ParquetFile(path) as file:
        groups = range(file.num_row_groups)
        wanted = {one for group in groups for one in _table_objects(file.read_row_group(group))}
        found = lookup(wanted)
        names = list(dict.fromkeys(name for columns in found.values() for name in columns))
        if clash := [name for name in names if name in file.schema_arrow.names or name in ("id", "value")]:
            raise InputError(f"{path} has a column '{clash[0]}' of its own; include others, or write JSON lines")
        kinds = {name: _type([columns.get(name) for columns in found.values()]) for name in names}
        writer: Any = None
        for table in (file.read_row_group(group) for group in groups):
            made = _joined(table, found, kinds)
            writer = writer or pq.ParquetWriter(draft, made.schema, compression="zstd")
            writer.write_table(made)
        if writer is None:
            pq.write_table(file.read(), draft)
        else:
            writer.close()


def _table_objects(table: pa.Table) -> Iterable[str]:
    yield from (one for one in table["object"].to_pylist() if one is not None)
    yield from (item["id"] for items in table["objects"].to_pylist() for item in items or ())


def _type(values: list[Any]) -> Any:
    """Return the Arrow type that takes all values; text where none does."""
    try:
        kind = pa.array(values).type
    except (pa.ArrowException, TypeError):
        return pa.string()
    return pa.string() if pa.types.is_null(kind) else kind


def _joined(table: pa.Table, found: Mapping[str, Columns], kinds: Mapping[str, Any]) -> pa.Table:
    def cell(one: str | None, name: str) -> Any:
        value = found.get(one, {}).get(name) if one is not None else None
        return value if value is None or kinds[name] != pa.string() else str(value)

    items = pa.list_(pa.struct([("id", pa.string()), ("value", pa.float64()), *kinds.items()]))
    lists = [
        None if row is None else [{**item, **{name: cell(item["id"], name) for name in kinds}} for item in row]
        for row in table["objects"].to_pylist()
    ]
    made = table.set_column(table.column_names.index("objects"), "objects", pa.array(lists, items))
    for name, kind in kinds.items():
        made = made.append_column(name, pa.array([cell(one, name) for one in table["object"].to_pylist()], kind))
    return made
