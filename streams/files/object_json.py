"""Objects from JSON lines."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa

from streams.files import json_blocks
from streams.files.file_blocks import ReadLimits, RecordBlock
from streams.files.json_blocks import Repeated, first_types, is_unicode, load_few, load_line, parse_run, parse_runs
from streams.files.keyword_columns import KeywordColumns
from streams.files.object_columns import Location, ObjectColumns, settle
from streams.files.object_fields import (
    Field,
    id_field,
    id_values,
    number_field,
    number_values,
    operation_field,
    pick,
    row_field,
    row_times,
    stamped_field,
    time_field,
    time_values,
)
from streams.files.object_form import ObjectForm, reached
from streams.files.object_lines import ObjectLines
from streams.files.object_tables import joined_texts
from streams.files.objections import Objections, shown
from streams.geometry import Rect

__all__ = ["JsonKeys", "json_objects", "keys_of", "record_objects"]

_SCHEMA = {
    "id": pa.int64(), "ts": pa.int64(), "x": pa.float64(), "y": pa.float64(), "lon": pa.float64(), "lat": pa.float64(),
    "keyword_ids": pa.list_(pa.int64()), "keywords": pa.list_(pa.string()), "text": pa.string(), "op": pa.string(),
}  # fmt: skip
_INT64 = range(-(2**63), 2**63)
_NOTHING = type(None)


@dataclass(frozen=True, slots=True)
class JsonKeys:
    """Which keys of a record have which field, and what is said of them."""

    sources: Mapping[str, tuple[str, ...]]
    form: ObjectForm

    @property
    def nested(self) -> bool:
        """Whether a field is inside of another, where Arrow does not look for it."""
        return any("." in source for source in self.fields)

    @property
    def fields(self) -> dict[str, str]:
        """The field that each key is for."""
        return {source: name for name, sources in self.sources.items() for source in sources}

    @property
    def single(self) -> bool:
        """Whether no field is under several keys."""
        return all(len(sources) < 2 for sources in self.sources.values())

    @property
    def plain(self) -> bool:
        """Whether every field has its own name."""
        return all(sources == (name,) for name, sources in self.sources.items())


def keys_of(path: str, first: RecordBlock, form: ObjectForm) -> JsonKeys:
    """Tell by the first line of a file which keys have which field; one that it does not have is known by its own name."""
    record = "" if first.too_long[0] else load_line(first.record(0))
    found = form.sources(path, list(record) if isinstance(record, dict) else [])
    taken = {source for sources in found.values() for source in sources}
    return JsonKeys({name: found.get(name, () if name in taken else (name,)) for name in _SCHEMA}, form)


def json_objects(block: RecordBlock, keys: JsonKeys, space: Rect, limits: ReadLimits) -> ObjectColumns:
    """Read a block of lines: by a kernel where they are plain, at once where that can be trusted, else line by line.

    The result is the same.
    """
    if keys.nested:
        return _exact(block, 0, len(block), keys, space, limits)
    if not keys.single or block.not_utf8().any():
        return _parsed(block, keys, space, limits)
    lines = ObjectLines(block, keys.sources, keys.form)
    if not len(lines):
        return _parsed(block, keys, space, limits)
    plain = settle(
        lines.ids(), lines.times(), lines.places(), lines.operations(), lines.keywords(), space, limits,
        Objections(len(lines)),
    )  # fmt: skip
    if len(lines) == len(block):
        return plain
    rest = np.flatnonzero(~lines.plain)
    both = ObjectColumns.concat([plain, _parsed(block.take(rest), keys, space, limits)])
    return both.take(np.argsort(np.concatenate([np.flatnonzero(lines.plain), rest])))


def _parsed(block: RecordBlock, keys: JsonKeys, space: Rect, limits: ReadLimits) -> ObjectColumns:
    """Read lines that may be any JSON, or none."""
    at_once = _few if len(block) <= json_blocks.FEW_LINES else _fast
    parts = parse_runs(
        block,
        lambda first, stop: at_once(block, first, stop, keys, space, limits),
        lambda first, stop: _exact(block, first, stop, keys, space, limits),
    )
    return ObjectColumns.concat(parts)


def _fast(
    block: RecordBlock, first: int, stop: int, keys: JsonKeys, space: Rect, limits: ReadLimits
) -> ObjectColumns | None:
    if len(keys.sources["ts"]) > 1:
        return None  # parts of times may be of any type, of which only texts are put together
    types = {source: _SCHEMA[name] for source, name in keys.fields.items()}
    mixed = tuple(source for name in ("id", "ts") for source in keys.sources[name])
    table = parse_run(block, first, stop, pa.schema({**types, **first_types(block, first, mixed)}))
    if table is None:
        return None
    rows = stop - first

    def field(name: str) -> Any:
        columns = [table.column(source).combine_chunks() for source in keys.sources[name]]
        return joined_texts(columns) if columns else pa.nulls(rows, _SCHEMA[name])

    column = {name: field(name) for name in _SCHEMA}
    x, y, lon, lat = (number_field(column[name]) for name in ("x", "y", "lon", "lat"))
    plain = ~(x.missing & y.missing)
    return settle(
        row_field(rows) if keys.form.row_ids else id_field(column["id"]),
        row_times(rows) if keys.form.row_times else _times(time_field(column["ts"], keys.form.times), keys.form),
        Location(pick(x, lon, plain), pick(y, lat, plain), ~plain),
        operation_field(column["op"], len(plain)),
        KeywordColumns.of(len(plain), column["keyword_ids"], column["keywords"], column["text"]),
        space, limits, Objections(len(plain)),
    )  # fmt: skip


def _few(
    block: RecordBlock, first: int, stop: int, keys: JsonKeys, space: Rect, limits: ReadLimits
) -> ObjectColumns | None:
    records = load_few(block, first, stop)
    if records is None:
        return None
    if not keys.plain:
        records = [_named(record, keys) for record in records]
    return record_objects(records, Objections(len(records)), keys.form, space, limits)


def _named(record: Mapping[str, Any], keys: JsonKeys) -> dict[str, Any]:
    """Return the fields of a record by their own names; the rest of it may be large."""
    return {name: _value(record, sources) for name, sources in keys.sources.items()}


def _times(field: Field, form: ObjectForm) -> Field:
    return stamped_field(field) if form.stamped else field


def _exact(block: RecordBlock, first: int, stop: int, keys: JsonKeys, space: Rect, limits: ReadLimits) -> ObjectColumns:
    rows, known = stop - first, keys.fields
    objections = Objections(rows)
    records: list[dict[str, Any]] = []
    for row in range(rows):
        if block.too_long[first + row]:
            size = block.size[first + row]
            objections.note_row(row, f"a line of {size} bytes, longer than the limit of {limits.line_bytes}")
            records.append({})
            continue
        record = load_line(block.record(first + row), keys.form.text)
        if isinstance(record, str):
            objections.note_row(row, record)
            record = {}
        elif isinstance(record, Repeated) and (twice := record.fields & known.keys()):
            objections.note_row(row, f"field '{min(twice)}' is given more than once")
        records.append(_named(record, keys))

    return record_objects(records, objections, keys.form, space, limits)


def record_objects(
    records: Sequence[Mapping[str, Any]], objections: Objections, form: ObjectForm, space: Rect, limits: ReadLimits
) -> ObjectColumns:
    """Check records one by one, as Python values by the names of fields; those with an objection may be empty."""
    rows = len(records)
    there = set().union(*records)
    column = {name: _column(records, name) if name in there else [None] * rows for name in _SCHEMA}
    operations = _texts(objections, "op", column["op"])
    ids = _lists(objections, "keyword_ids", column["keyword_ids"])
    words = _lists(objections, "keywords", column["keywords"])
    texts = _texts(objections, "text", column["text"])
    x, y, lon, lat = (number_values(column[name]) for name in ("x", "y", "lon", "lat"))
    plain = ~(x.missing & y.missing)
    return settle(
        row_field(rows) if form.row_ids else id_values(column["id"], is_unicode),
        row_times(rows) if form.row_times else _times(time_values(column["ts"], form.times), form),
        Location(x, y, ~plain) if plain.all() else Location(pick(x, lon, plain), pick(y, lat, plain), ~plain),
        operation_field(operations, rows),
        KeywordColumns.of(rows, ids, words, texts),
        space, limits, objections,
    )  # fmt: skip


def _column(records: Sequence[Mapping[str, Any]], name: str) -> list[Any]:
    """Return a field of all records, None where one has it not."""
    try:
        return list(map(itemgetter(name), records))
    except KeyError:
        return [record.get(name) for record in records]


def _value(record: Mapping[str, Any], sources: Sequence[str]) -> Any:
    """Return what a record has under some keys: several texts as one, and what is no text as it is."""
    found = [value for source in sources if (value := reached(record, source)) is not None]
    if len(found) < 2:
        return found[0] if found else None
    strange = [value for value in found if not isinstance(value, str)]
    return strange[0] if strange else " ".join(found)


def _texts(objections: Objections, name: str, values: list[Any]) -> Any:
    """Return a column of strings, None where there are none; note what is no string."""
    kinds = set(map(type, values))
    if kinds <= {_NOTHING}:
        return None
    if not (kinds == {str} and all(map(str.isascii, values))):
        values = [_text(objections, row, name, value) for row, value in enumerate(values)]
    return pa.array(values, pa.string())


def _text(objections: Objections, row: int, name: str, value: Any) -> str | None:
    """Return a string or nothing; note anything else."""
    if value is None or (isinstance(value, str) and is_unicode(value)):
        return value
    objections.note_row(row, f"{name} is {shown(value)}, expected a string")
    return None


def _lists(objections: Objections, name: str, values: list[Any]) -> Any:
    """Return a column of lists, None where there are none; note what is none."""
    kinds = set(map(type, values))
    if kinds <= {_NOTHING}:
        return None
    if kinds != {list} or not _plain_items(name, list(chain.from_iterable(values))):
        values = [_list(objections, row, name, value) for row, value in enumerate(values)]
    return pa.array(values, _SCHEMA[name])


def _plain_items(name: str, items: list[Any]) -> bool:
    """Tell whether all items of lists are what these are made of, as far as that is quickly told."""
    kinds = set(map(type, items))
    if name == "keywords":
        return kinds == {str} and all(map(str.isascii, items))
    return kinds == {int} and min(items) in _INT64 and max(items) in _INT64


def _list(objections: Objections, row: int, name: str, value: Any) -> list[Any] | None:
    """Return a list of words or of ids (with nulls, which are judged later) or nothing; note anything else."""
    if value is None:
        return None
    what = "an array of strings" if name == "keywords" else "an array of integers"
    if not isinstance(value, list):
        objections.note_row(row, f"{name} is {shown(value)}, expected {what}")
        return None
    for place, item in enumerate(value):
        word = name == "keywords" and isinstance(item, str) and is_unicode(item)
        number = name == "keyword_ids" and type(item) is int and item in _INT64
        if item is not None and not word and not number:
            objections.note_row(row, f"{name}[{place}] is {shown(item)}, expected {what}")
            return None
    return value
