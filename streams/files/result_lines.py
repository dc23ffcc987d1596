"""Results and rejects as the lines of their files, and results as the rows of a Parquet table."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from streams.batches import (
    DETECTS,
    QUERY_TYPES,
    TYPE_RANGE,
    TYPE_TERMS,
    AnswerBatch,
    EventBatch,
    MatchBatch,
    RejectBatch,
    TupleBatch,
)
from streams.columns import Offsets
from streams.errors import RunError
from streams.files.json_text import json_ids, plain_ids
from streams.files.named_hits import NamedHits

__all__ = ["RESULT_SCHEMA", "WRITTEN_SCHEMA", "reject_lines", "result_lines", "result_tables", "written_table"]

#: How many rows are made into text at a time: Arrow counts the bytes of a column with 32 bits.
_ROWS_AT_A_TIME = 1 << 20

#: So few matches, as an epoch of a live stream has them, are written row by row: Arrow's calls would cost more.
FEW_ROWS = 32

Rows = TypeVar("Rows", MatchBatch, EventBatch, RejectBatch)

_ITEMS = pa.list_(pa.struct([("id", pa.string()), ("value", pa.float64())]))
_TERMS = pa.list_(pa.struct([("term", pa.string()), ("count", pa.int64())]))

#: The columns of a results file in Parquet; identifiers are strings there, also those that were integers.
RESULT_SCHEMA = pa.schema(
    {
        "query": pa.string(),
        "ts": pa.int64(),
        "type": pa.string(),
        "object": pa.string(),
        "detect": pa.string(),
        "objects": _ITEMS,
        "terms": _TERMS,
    }
)

#: The same as it is written: what repeats is a dictionary and numbers of it, as in the file. Queries hardly repeat in a stretch
#: of results, where many match an object.
WRITTEN_SCHEMA = pa.schema(
    [
        pa.field(field.name, pa.dictionary(pa.int32(), pa.string()))
        if field.type == pa.string() and field.name != "query"
        else field
        for field in RESULT_SCHEMA
    ]
)


def result_lines(batch: MatchBatch | EventBatch | AnswerBatch | TupleBatch | NamedHits) -> bytes:
    """Return results as JSON lines: one for each match or event, one for each answer, one for each tuple of a bolt."""
    if isinstance(batch, TupleBatch):
        return _tuple_lines(batch)
    if isinstance(batch, NamedHits):
        return b"".join(map(bytes, batch.lines()))
    if isinstance(batch, AnswerBatch):
        return _answer_lines(batch)
    if isinstance(batch, EventBatch):
        words = pa.array([f'"{word}"' for word in DETECTS])
        return b"".join(
            _lines(
                {
                    "query": json_ids(part.query),
                    "ts": _integers(part.ts),
                    "object": json_ids(part.object),
                    "detect": words.take(pa.array(part.detect)),
                }
            )
            for part in _parts(batch)
        )
    if len(batch) <= FEW_ROWS:
        rows = zip(batch.query.json_texts(), batch.ts.tolist(), batch.object.json_texts(), strict=True)
        return "".join(f'{{"query":{query},"ts":{ts},"object":{one}}}\n' for query, ts, one in rows).encode()
    return b"".join(
        _lines({"query": json_ids(part.query), "ts": _integers(part.ts), "object": json_ids(part.object)})
        for part in _parts(batch)
    )


def reject_lines(batch: RejectBatch) -> bytes:
    """Return rejects as JSON lines: source, line, reason."""
    return b"".join(
        _lines({"source": json_ids(part.source), "line": _integers(part.line), "reason": json_ids(part.reason)})
        for part in _parts(batch)
    )


def _parts(batch: Rows) -> Iterator[Rows]:
    return (batch.slice(at, at + _ROWS_AT_A_TIME) for at in range(0, len(batch), _ROWS_AT_A_TIME))


def _integers(values: Any) -> Any:
    return pa.array(values).cast(pa.string())


def _lines(columns: Mapping[str, Any]) -> bytes:
    """Return a JSON object a row from columns of JSON texts; the texts of an Arrow column are one buffer already."""
    pieces: list[Any] = []
    for name, column in columns.items():
        pieces += [f'{"," if pieces else "{"}"{name}":', column]
    return _joined(*pieces, "}\n")


def _joined(*pieces: Any) -> bytes:
    """Return the texts of rows, each made of pieces, one after the other."""
    lines = pc.binary_join_element_wise(*pieces, "")
    _, offsets, data = lines.buffers()
    first, last = np.frombuffer(offsets, np.int32)[[lines.offset, lines.offset + len(lines)]]
    return bytes(memoryview(data)[first:last])


def _answer_lines(batch: AnswerBatch) -> bytes:
    if not len(batch):
        return b""
    _check_finite(batch)
    terms = batch.type == TYPE_TERMS
    lists = pa.ListArray.from_arrays(pa.array(batch.off), _items(batch))
    field = pa.array([',"objects":[', ',"terms":[']).take(pa.array(terms.astype(np.int8)))
    return _joined(
        '{"query":', json_ids(batch.query), ',"ts":', _integers(batch.ts), field, pc.binary_join(lists, ","), "]}\n"
    )


def _items(batch: AnswerBatch) -> Any:
    """Return the items of answers as JSON texts; a float is written as shortly as it can be read back."""
    kind = np.repeat(batch.type, np.diff(batch.off))
    names, listed = json_ids(batch.item), kind != TYPE_RANGE
    if not listed.any():
        return names
    values = pa.array(list(map(repr, batch.value.tolist())), pa.string())
    if (counts := kind == TYPE_TERMS).any():
        values = pc.if_else(pa.array(counts), _integers(np.where(counts, batch.value, 0.0).astype(np.int64)), values)
    pairs = pc.binary_join_element_wise("[", names, ",", values, "]", "")
    return pairs if listed.all() else pc.if_else(pa.array(listed), pairs, names)


def _tuple_lines(batch: TupleBatch) -> bytes:
    """Return tuples as JSON objects by the names of their fields."""
    try:
        rows = [
            json.dumps(dict(zip(batch.fields, row, strict=True)), ensure_ascii=False, allow_nan=False)
            for row in batch.rows()
        ]
    except (TypeError, ValueError) as error:
        raise RunError(f"a tuple of {', '.join(batch.fields)} cannot be written as JSON: {error}") from None
    return "".join(f"{row}\n" for row in rows).encode()


def _check_finite(batch: AnswerBatch) -> None:
    """Refuse values that JSON cannot write."""
    if not np.isfinite(batch.value).all():
        row = int(np.searchsorted(batch.off, np.argmin(np.isfinite(batch.value)), "right")) - 1
        query = batch.query.slice(row, row + 1).to_list()[0]
        raise RunError(
            f"the answer to query {query!r} has a value that is not finite; use a smaller space or metric units"
        )


def result_tables(batch: MatchBatch | EventBatch | AnswerBatch | TupleBatch | NamedHits) -> Iterator[pa.Table]:
    """Yield results as rows of `WRITTEN_SCHEMA`, of which tuples have some columns as fields; what a row lacks is null."""
    if isinstance(batch, TupleBatch):
        yield written_table(_tuple_table(batch))
        return
    if isinstance(batch, NamedHits):
        code, objects = batch.hits.ids.codes()
        codes, names = code.astype(np.int32), plain_ids(objects)
        kind = pa.array([QUERY_TYPES[TYPE_RANGE]])
        for query, ts, one in batch.parts(codes, _ROWS_AT_A_TIME):
            yield _table(
                {
                    "query": query,
                    "ts": pa.array(ts),
                    "type": pa.DictionaryArray.from_arrays(pa.array(np.zeros(len(ts), np.int32)), kind),
                    "object": pa.DictionaryArray.from_arrays(pa.array(one), names),
                }
            )
        return
    columns = {"query": plain_ids(batch.query), "ts": pa.array(batch.ts)}
    if isinstance(batch, AnswerBatch):
        columns |= _answer_columns(batch)
    else:
        kind = pa.repeat(pa.scalar(QUERY_TYPES[TYPE_RANGE]), len(batch))
        columns |= {"type": kind, "object": plain_ids(batch.object)}
    if isinstance(batch, EventBatch):
        columns["detect"] = pa.array(DETECTS).take(pa.array(batch.detect))
    yield _table(columns)


def _table(columns: Mapping[str, Any]) -> pa.Table:
    """Return a table of some columns; the others are null."""
    rows = len(columns["ts"])
    given = {field.name: columns.get(field.name, pa.nulls(rows, field.type)) for field in WRITTEN_SCHEMA}
    return written_table(pa.table(given))


def written_table(table: pa.Table) -> pa.Table:
    """Return rows of `RESULT_SCHEMA` as rows of `WRITTEN_SCHEMA`."""
    for place, field in enumerate(WRITTEN_SCHEMA):
        if pa.types.is_dictionary(field.type) and table.schema.field(place).type != field.type:
            table = table.set_column(place, field, table.column(place).dictionary_encode())
    return table


def _tuple_table(batch: TupleBatch) -> pa.Table:
    named: dict[str, list[Any]] = {name: [] for name in batch.fields}
    for row in batch.rows():
        for name, value in zip(batch.fields, row, strict=True):
            text = RESULT_SCHEMA.field(name).type == pa.string() and value is not None
            named[name].append(str(value) if text else value)
    try:
        columns = [
            pa.array(named[field.name], field.type) if field.name in named else pa.nulls(len(batch), field.type)
            for field in RESULT_SCHEMA
        ]
    except (pa.ArrowException, TypeError) as error:
        raise RunError(f"a tuple of {', '.join(batch.fields)} is no row of a results table: {error}") from None
    return pa.table(columns, schema=RESULT_SCHEMA)


def _answer_columns(batch: AnswerBatch) -> dict[str, Any]:
    _check_finite(batch)
    names, terms = plain_ids(batch.item), batch.type == TYPE_TERMS
    values = pa.array(batch.value, mask=np.repeat(batch.type == TYPE_RANGE, np.diff(batch.off)))
    objects = pa.StructArray.from_arrays([names, values], fields=list(_ITEMS.value_type))
    counts = pa.StructArray.from_arrays([names, pa.array(batch.value.astype(np.int64))], fields=list(_TERMS.value_type))
    return {
        "type": pa.array(QUERY_TYPES).take(pa.array(batch.type)),
        "objects": _lists(batch.off, objects, ~terms),
        "terms": _lists(batch.off, counts, terms),
    }


def _lists(off: Offsets, values: Any, chosen: NDArray[np.bool_]) -> Any:
    """Make lists of the values for the chosen rows; the others have none."""
    sizes = np.diff(off)
    kept = values.filter(pa.array(np.repeat(chosen, sizes)))
    new_off = np.concatenate([np.zeros(1, np.int32), np.cumsum(np.where(chosen, sizes, 0), dtype=np.int32)])
    bounds = pa.array(new_off, mask=np.append(~chosen, False))  # a null bound is a null list
    return pa.ListArray.from_arrays(bounds, kept)
