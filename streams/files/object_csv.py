"""Objects from CSV with a header."""

import csv
import re
from collections.abc import Sequence
from dataclasses import dataclass
from shlex import quote
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from streams.errors import InputError, listed
from streams.files.field_texts import cut_texts
from streams.files.file_blocks import ReadLimits, RecordBlock, is_utf8
from streams.files.file_bytes import encoding_hint
from streams.files.keyword_columns import KeywordColumns
from streams.files.object_columns import Location, ObjectColumns, settle
from streams.files.object_fields import number_texts, operation_field, row_field, row_times, time_field, written_ids
from streams.files.object_form import PLAIN_FORM, ObjectForm
from streams.files.object_tables import TableColumns, find_columns
from streams.files.objections import Objections, shown
from streams.files.record_kernels import cut_fields
from streams.files.remedies import separator_remedy
from streams.geometry import Rect

__all__ = ["CsvHeader", "csv_objects", "read_header"]

#: What is no name of a column.
_NUMBER = re.compile(r"-?[0-9]+\.[0-9]+|-?[0-9]{6,}|[0-9]{4}-[0-9]{2}-[0-9]{2}.*")


@dataclass(frozen=True, slots=True)
class CsvHeader:
    """All columns of a file in order, those that are read, and what is said of them."""

    columns: tuple[str, ...]
    used: TableColumns
    form: ObjectForm


def read_header(
    path: str, first: RecordBlock | None, limits: ReadLimits, form: ObjectForm = PLAIN_FORM
) -> tuple[CsvHeader, RecordBlock | None]:
    """Take the header off the first block of a file; return it and the rest of the block."""
    if first is None:
        raise InputError(f"{path} is empty; expected a header such as id,ts,x,y,text in its first line")
    line = first.record(0)
    if not first.too_long[0] and not is_utf8(line):
        hint = encoding_hint(line)
        said = (
            f"{path} has no readable header in line {first.line[0]}: not {form.text.encoding.upper()}; if the file is in "
            f'another encoding ({hint}?), declare it, as in encoding = "latin-1"'
        )
        # As latin-1, bytes that are ASCII are what they are in most encodings, but not in UTF-16.
        separated = None if hint == "utf-16" else _other_separator(path, _names(line.decode("latin-1")) or (), form)
        raise InputError(f"{said}; it also {separated}" if separated else said)
    names = None if first.too_long[0] or first.unclosed else _names(line.decode())
    if names is None:
        raise InputError(
            f"{path} has no readable header in line {first.line[0]}; expected one such as id,ts,x,y,text, in UTF-8, "
            f"of at most {limits.line_bytes:,} bytes, ending with a line feed"
        )
    if separated := _other_separator(path, names, form):
        raise InputError(f"{path} {separated}")
    try:
        used = find_columns(path, names, ("keywords", "text"), limits.columns, form)
    except InputError:
        if (problem := _no_header(path, names)) is not None:
            raise InputError(problem) from None
        raise
    return CsvHeader(names, used, form), (first.tail(1) if len(first) > 1 else None)


def _no_header(path: str, names: Sequence[str]) -> str | None:
    """Say what to do where the first line is none of names: a comment, or a record; None where it may be."""
    if names[0].startswith("#") and len(names) == 1:
        return f"{path} begins with a comment; take it off: grep -v '^#' {quote(path)} > plain.csv"
    if not any(_NUMBER.fullmatch(name) for name in names):
        return None
    return (
        f"{path} begins with a record, not with a header; put the names of its {len(names)} columns before it, as in: "
        f"(echo id,ts,lon,lat,text; cat {quote(path)}) > headed.csv"
    )


def _other_separator(path: str, names: Sequence[str], form: ObjectForm) -> str | None:
    """Say what separates fields where it is no comma, and what to do; None where a header shows nothing of the sort."""
    others = [one for one in ";\t|" if one in names[0]] if len(names) == 1 else []
    if not others:
        return None
    remedy = separator_remedy(path, others[0], "latin-1" if form.text.is_utf8 else form.text.encoding)
    return f"has fields that are separated by {others[0]!r}, expected commas; {remedy}"


def _names(header: str) -> tuple[str, ...] | None:
    """Return the names in a header, or None for one that the csv module does not take."""
    try:
        return tuple(name.strip() for name in next(csv.reader([header])))
    except csv.Error:  # a carriage return in the middle, a name without end
        return None


def csv_objects(block: RecordBlock, header: CsvHeader, space: Rect, limits: ReadLimits) -> ObjectColumns:
    """Read a block of records."""
    rows = len(block)
    objections = Objections(rows)
    texts = header.used.fields(dict(zip(header.used.names, _columns(block, header, limits, objections), strict=True)))
    geographic = np.full(rows, header.used.x == "lon")
    words = texts.get("keywords")
    if words is not None:
        _note_arrays(words, objections)
    return settle(
        row_field(rows) if header.form.row_ids else written_ids(texts["id"]),
        row_times(rows) if header.form.row_times else time_field(_or_null(texts["ts"]), header.form.times),
        Location(number_texts(texts[header.used.x]), number_texts(texts[header.used.y]), geographic),
        operation_field(_or_null(texts["op"]) if "op" in texts else None, rows),
        KeywordColumns.of(
            rows,
            lists=None if words is None else pc.utf8_split_whitespace(_or_null(words)),
            texts=texts.get("text"),
        ),
        space, limits, objections,
    )  # fmt: skip


def _note_arrays(words: Any, objections: Objections) -> None:
    """Note keywords that are a JSON array: cut at its spaces, they would be words that nobody asks for."""
    arrays = pc.match_substring_regex(words, r"^\s*\[.*\]\s*$").fill_null(False)
    if pc.any(arrays, min_count=0).as_py():
        objections.note(
            arrays.to_numpy(zero_copy_only=False),
            lambda row: (
                f"keywords is {shown(words[row].as_py())}, expected words separated by spaces, not a JSON array"
            ),
        )


def _or_null(texts: Any) -> Any:
    """Return texts with null for an empty one."""
    empty = pc.equal(pc.binary_length(texts), 0)
    return pc.if_else(empty, pa.scalar(None, pa.string()), texts) if pc.any(empty, min_count=0).as_py() else texts


def _columns(block: RecordBlock, header: CsvHeader, limits: ReadLimits, objections: Objections) -> list[Any]:
    """Cut the records and return the used columns as Arrow strings; a record with an objection is empty."""
    rows = len(block)
    slot_of = np.full(len(header.columns), -1, np.int64)
    for slot, name in enumerate(header.used.names):
        slot_of[header.columns.index(name)] = slot
    shape = (len(header.used.names), rows)
    begins, ends, written = np.zeros(shape, np.int64), np.zeros(shape, np.int64), np.zeros(shape, np.uint8)
    counts = np.zeros(rows, np.int64)
    cut_fields(block.data, block.start, block.stop, slot_of, begins, ends, written, counts)
    objections.note(
        block.too_long, lambda row: f"a record of {block.size[row]} bytes, longer than the limit of {limits.line_bytes}"
    )
    objections.note(_last(rows, block.unclosed), lambda _: "a quote is opened and not closed before the file ends")
    objections.note(block.not_utf8(), lambda _: header.form.text.unreadable)
    expected, named = len(header.columns), listed(header.columns)
    objections.note(counts != expected, lambda row: f"{counts[row]} fields, expected {expected} ({named})")
    ends[:, objections.bad] = begins[:, objections.bad]
    written[:, objections.bad] = 0
    return [cut_texts(block.data, *field) for field in zip(begins, ends, written, strict=True)]


def _last(rows: int, flag: bool) -> NDArray[np.bool_]:
    flags = np.zeros(rows, np.bool_)
    flags[-1:] = flag
    return flags
