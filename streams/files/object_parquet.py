"""Objects from Parquet, also from a prepared data set with keyword ids."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from streams.columns import Ints
from streams.errors import InputError
from streams.files.file_blocks import ReadLimits, check_readable, is_utf8
from streams.files.keyword_columns import KeywordColumns
from streams.files.object_columns import Location, ObjectColumns, settle
from streams.files.object_fields import Field, id_field, number_field, operation_field, row_field, row_times, time_field
from streams.files.object_form import PLAIN_FORM, ObjectForm
from streams.files.object_tables import TableColumns, find_columns
from streams.files.objections import Objections
from streams.files.parquet_footer import stored_columns
from streams.files.parquet_sizes import check_row_groups, encoded_columns, in_pieces, row_bytes, without
from streams.geometry import Rect
from streams.timestamps import MAX_TS, PLAIN_TIMES, TimeForm, local_to_ms, ticks_to_ms

__all__ = ["parquet_objects"]

_is = pa.types

#: The columns that may hold texts, of any size.
_TEXTS = ("id", "ts", "op", "text", "keywords")


def _is_text(kind: Any) -> bool:
    return bool(_is.is_string(kind) or _is.is_large_string(kind) or _is.is_string_view(kind))


def _is_list(kind: Any, of: Any) -> bool:
    return bool((_is.is_list(kind) or _is.is_large_list(kind)) and of(_plain(kind.value_type)))


def _plain(kind: Any) -> Any:
    return kind.value_type if _is.is_dictionary(kind) else kind


#: For each column: which types it may have, and what a message calls them.
_TYPES: dict[str, tuple[Any, str]] = {
    "id": (lambda kind: _is.is_integer(kind) or _is_text(kind), "an integer or a string"),
    "ts": (
        lambda kind: _is.is_integer(kind) or _is.is_timestamp(kind) or _is.is_date(kind) or _is_text(kind),
        "int64 (milliseconds), a timestamp or a string",
    ),
    "op": (_is_text, "a string"),
    "text": (_is_text, "a string"),
    "keywords": (lambda kind: _is_list(kind, _is_text), "a list of strings"),
    "keyword_ids": (lambda kind: _is_list(kind, _is.is_integer), "a list of int64"),
}
_COORDINATE = (lambda kind: _is.is_floating(kind) or _is.is_integer(kind) or _is.is_decimal(kind), "a double")


def parquet_objects(
    path: str, rows: int, skip: int, space: Rect, limits: ReadLimits, form: ObjectForm = PLAIN_FORM
) -> Iterator[tuple[int, ObjectColumns | None]]:
    """Yield the objects of a file in blocks of at most `rows`, after the first `skip`.

    Each item is the number of records it stands for and their columns; None are the columns of skipped records, whose
    row groups are not read.
    """
    check_readable(path)
    try:
        stored = stored_columns(path)
        with pq.ParquetFile(
            path,
            memory_map=True,
            read_dictionary=encoded_columns(stored, [column.path.partition(".")[0] for column in stored]),
        ) as file:
            used = find_columns(
                path, file.schema_arrow.names, ("keyword_ids", "keywords", "text"), limits.columns, form
            )
            _check_types(path, file.schema_arrow, used)
            check_row_groups(path, stored, used.names, limits.row_group_values)
            groups = [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)]
            skip = min(skip, sum(groups))
            if skip:
                yield skip, None
            while groups and skip >= groups[0]:
                skip -= groups.pop(0)
            wanted = range(file.num_row_groups - len(groups), file.num_row_groups)
            for batch in file.iter_batches(rows, list(wanted), list(used.names), use_threads=True):
                fresh = batch.slice(skip)
                skip -= len(batch) - len(fresh)
                for piece in _pieces(fresh, used, limits):
                    yield len(piece.batch), _settled(piece, used, space, limits, form)
    except (pa.ArrowException, OSError, ValueError, LookupError, MemoryError) as error:
        reason = str(error)[:200] or type(error).__name__
        raise InputError(f"{path} cannot be read as Parquet: {reason}; it is damaged or something else") from error


def _check_types(path: str, schema: Any, used: TableColumns) -> None:
    for name, field in used.field_of.items():
        fits, expected = _TYPES.get(field, _COORDINATE)
        kind = schema.field(name).type
        if not fits(_plain(kind)):
            raise InputError(f"{path} has column '{name}' of type {kind}, expected {expected}; write it as that")
        if field == "ts" and len(used.sources[field]) > 1 and not _is_text(_plain(kind)):
            raise InputError(
                f"{path} has column '{name}' of type {kind}; a date and a time of day are put together where both are strings: "
                "write them as one column"
            )


@dataclass(frozen=True, slots=True, eq=False)
class _Piece:
    """Some rows of a batch, and for each column of texts how large its rows are."""

    batch: Any
    sizes: Mapping[str, Ints]


def _pieces(batch: Any, used: TableColumns, limits: ReadLimits) -> Iterator[_Piece]:
    """Cut a batch into pieces that can be decoded; rows that are too large do not count, for they are not."""
    sizes = {name: row_bytes(batch.column(name)) for name, field in used.field_of.items() if field in _TEXTS}
    total = np.zeros(len(batch), np.int64)
    for size in sizes.values():
        total += np.where(size > limits.line_bytes, 0, size)
    for first, stop in in_pieces(batch, total) if len(batch) else ():
        yield _Piece(batch.slice(first, stop - first), {name: size[first:stop] for name, size in sizes.items()})


def _settled(piece: _Piece, used: TableColumns, space: Rect, limits: ReadLimits, form: ObjectForm) -> ObjectColumns:
    batch, rows, most = piece.batch, len(piece.batch), limits.line_bytes
    objections = Objections(rows)
    kept = {name: batch.column(name) for name in used.names}
    for name, size in piece.sizes.items():
        large = size > most
        for row in np.flatnonzero(large).tolist():
            objections.note_row(row, f"{name} of {size[row]} bytes, longer than the limit of {most}")
        kept[name] = without(kept[name], large) if large.any() else kept[name]
    field_of = used.field_of
    column = used.fields(
        {name: _column(values, field_of[name], form.times, objections) for name, values in kept.items()}
    )
    return settle(
        row_field(rows) if form.row_ids else id_field(column["id"]),
        row_times(rows) if form.row_times else _times(column["ts"], form),
        Location(number_field(column[used.x]), number_field(column[used.y]), np.full(rows, used.x == "lon")),
        operation_field(column.get("op"), rows),
        KeywordColumns.of(rows, column.get("keyword_ids"), column.get("keywords"), column.get("text")),
        space, limits, objections,
    )  # fmt: skip


def _times(column: Any, form: ObjectForm) -> Field:
    return time_field(column, form.times if _is_text(column.type) else PLAIN_TIMES)


def _column(column: Any, name: str, times: TimeForm, objections: Objections) -> Any:
    """Bring a column to the one Arrow type that the rest of the readers knows."""
    if _is.is_dictionary(column.type):
        column = column.dictionary_decode()
    kind = column.type
    if _is_text(kind):
        return _utf8(column.cast(pa.string()), name, objections)
    if name == "keyword_ids":
        return column.cast(pa.list_(pa.int64()))
    if name == "keywords":
        return _utf8(column.cast(pa.list_(pa.string())), name, objections)
    if name == "ts":
        return _milliseconds(column, times)
    return column


def _milliseconds(column: Any, times: TimeForm) -> Any:
    if _is.is_date(column.type):
        column = column.cast(pa.timestamp("ms"))
    if not _is.is_timestamp(column.type):
        if times.pattern is not None:
            return column.cast(pa.string())
        most = pa.scalar(MAX_TS, column.type) if _is.is_uint64(column.type) else None
        numbers = (column if most is None else pc.min_element_wise(column, most, skip_nulls=False)).cast(pa.int64())
        return numbers if times.unit == "ms" else _from_ticks(numbers, times.unit)
    return _from_ticks(column.cast(pa.int64()), column.type.unit, times.zone if column.type.tz is None else "UTC")


def _from_ticks(ticks: Any, unit: str, zone: str = "UTC") -> Any:
    ms = local_to_ms(ticks_to_ms(np.asarray(ticks.fill_null(0).to_numpy()), unit), zone)
    return pa.array(ms, mask=ticks.is_null().to_numpy(zero_copy_only=False))


def _utf8(column: Any, name: str, objections: Objections) -> Any:
    """Return texts or lists of texts; rows that are not UTF-8 become null and are noted."""
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        lists = _is.is_list(column.type)
        raw = column.cast(pa.list_(pa.binary()) if lists else pa.binary()).to_pylist()
        fine = [value is None or is_utf8(b"\n".join(filter(None, value)) if lists else value) for value in raw]
        objections.note(~np.array(fine, np.bool_), lambda _: f"{name} is not UTF-8")
        kept = [value if good else None for value, good in zip(raw, fine, strict=True)]
        return pa.array(kept, pa.list_(pa.binary()) if lists else pa.binary()).cast(column.type)
    return column
