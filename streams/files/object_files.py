"""Objects from files: JSONL, CSV and Parquet as one stream of columnar chunks.

Records that cannot be used become rejects with a reason and stop nothing; a file that cannot be used at all raises
`InputError`. Many readers can share one input: all of them agree on what is accepted, and each encodes the keywords of
its own part only, which is where the time goes.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from streams.batches import OP_DELETE, ObjectBatch, RejectBatch
from streams.columns import Ids, Ints, Offsets
from streams.errors import DeclarationError, InputError
from streams.files.file_blocks import DEFAULT_LIMITS, ReadLimits, as_paths, check_readable, file_kind, read_records
from streams.files.keyword_columns import KeywordKind
from streams.files.object_columns import ObjectColumns
from streams.files.object_csv import CsvHeader, csv_objects, read_header
from streams.files.object_form import PLAIN_FORM, ObjectForm
from streams.files.object_json import JsonKeys, json_objects, keys_of
from streams.files.object_order import ObjectOrder
from streams.files.object_parquet import parquet_objects
from streams.geometry import Rect
from streams.vocabulary import Encoder

__all__ = ["NOT_DYNAMIC", "SHARE_RUN", "ObjectChunk", "chunk_of", "has_longitudes", "keyword_kind", "read_objects"]

#: Readers that share an input take turns of this many records.
SHARE_RUN = 512

NOT_DYNAMIC = 'op is "delete", but the objects of this topology have no state to delete; expected upsert'

#: By so many objects it is told what they are like; where none of these can be used, by so many at a time.
_FIRST_ROWS, _MORE_ROWS = 64, 65_536

Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class ObjectChunk:
    """A stretch of the input.

    Attributes:
        batch: the accepted objects; `seq` is the place of an object among all accepted ones, in input order.
        rejects: the records of this reader's part that cannot be used.
        records: how many records of the input it stands for; where it has no objects either, nothing more has come yet.
        refused: how many of them cannot be used, of all readers' parts.
        mine: which objects of the batch belong to this reader's part; the others have no keywords here.
        record: the number of each object's record in the whole input, rejected ones counted too.
    """

    batch: ObjectBatch
    rejects: RejectBatch
    records: int
    refused: int
    mine: Flags
    record: Ints


_NOTHING = ObjectChunk(
    ObjectBatch.empty(), RejectBatch.of("", [], []), 0, 0, np.empty(0, np.bool_), np.empty(0, np.int64)
)


@dataclass(frozen=True, slots=True, eq=False)
class _Stretch:
    """Records of one file as they were read: how many, their columns (None: skipped, or none yet), and where each stood."""

    path: str
    records: int
    columns: ObjectColumns | None
    line: Ints


def read_objects(
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    space: Rect,
    encoder: Encoder,
    chunk_rows: int = 65_536,
    skip: int = 0,
    first: int = 0,
    order: ObjectOrder | None = None,
    reader: tuple[int, int] = (0, 1),
    dynamic: bool = True,
    words: int | None = None,
    limits: ReadLimits = DEFAULT_LIMITS,
    form: ObjectForm = PLAIN_FORM,
) -> Iterator[ObjectChunk]:
    """Read files one after the other as one stream of objects.

    Args:
        paths: one file or many; their endings say what they are.
        space: objects outside of it are rejected.
        encoder: turns keywords and texts into ids.
        chunk_rows: how many records a chunk stands for at most.
        skip: go on after this many records, as a reader does that was restored.
        first: how many objects were accepted among the records before, for the same reader.
        order: what remembers times, and objects that wait for others, from the records before, for the same reader.
        reader: (i, n) makes this reader i of n.
        dynamic: whether objects have a current state that a record may delete; otherwise deletions are rejected.
        words: keywords that come as numbers must be of this many words, or hashes; None takes any.
        limits: what a record may be at most.
        form: how the files spell objects.
    """
    if chunk_rows < 1 or skip < 0 or first < 0 or not 0 <= reader[0] < reader[1]:
        raise DeclarationError(
            f"cannot read objects with chunk_rows {chunk_rows}, skip {skip}, first {first}, reader {reader}; "
            "expected at least one row, nothing negative, and a reader (i, n) with 0 <= i < n"
        )
    names = as_paths(paths)
    for path in names:
        file_kind(path)
        check_readable(path)
    _check_followed(names[-1:], form)
    order = ObjectOrder(form.lateness_ms, limits.reordered) if order is None else order
    return _read(names, space, encoder, chunk_rows, skip, first, order, reader, dynamic, words, limits, form)


def keyword_kind(paths: Sequence[str | os.PathLike[str]], space: Rect, form: ObjectForm) -> KeywordKind | None:
    """Tell what the first objects of some files have: texts, given keywords, or prepared ids; None where nothing tells."""
    for columns in _first_columns(paths, space, form):
        if columns is None:
            return None  # nothing has come yet
        if (found := columns.keywords.kind) is not None:
            return found
    return None


def has_longitudes(paths: Sequence[str | os.PathLike[str]], space: Rect, form: ObjectForm) -> bool | None:
    """Tell whether the first objects of some files name their places lon, lat; None where no object can tell."""
    for columns in _first_columns(paths, space, form):
        if columns is None:
            return None  # nothing has come yet
        if not columns.objections.bad.all():
            return columns.geographic
    return None


def _first_columns(
    paths: Sequence[str | os.PathLike[str]], space: Rect, form: ObjectForm
) -> Iterator[ObjectColumns | None]:
    """Yield the first few records of each file, then the others, many at a time; None where nothing more has come yet."""
    for path in as_paths(paths):
        first = next(_stretches(path, _FIRST_ROWS, 0, space, DEFAULT_LIMITS, form), None)
        if first is None:
            continue
        yield first.columns
        for stretch in _stretches(path, _MORE_ROWS, first.records, space, DEFAULT_LIMITS, form):
            if stretch.columns is not None or not stretch.records:  # else those that were looked at
                yield stretch.columns


def _check_followed(last: list[str], form: ObjectForm) -> None:
    """Raise `InputError` for a last file that cannot grow."""
    for path in last if form.text.follow else ():
        kind = file_kind(path)
        if kind.format == "parquet" or kind.compression:
            raise InputError(
                f"{path} cannot be followed: only plain CSV and JSONL files grow record by record; set follow = false"
            )


def _read(
    names: list[str],
    space: Rect,
    encoder: Encoder,
    rows: int,
    skip: int,
    first: int,
    order: ObjectOrder,
    reader: tuple[int, int],
    dynamic: bool,
    words: int | None,
    limits: ReadLimits,
    form: ObjectForm,
) -> Iterator[ObjectChunk]:
    while order.certain:  # it was when the reader was restored
        passed = _passed(_NOTHING, *order.next(rows), first)
        first += len(passed.batch)
        yield passed
    record = 0
    for place, path in enumerate(names):
        text = form.text if place == len(names) - 1 else replace(form.text, follow=False)
        for stretch in _stretches(path, rows, max(skip - record, 0), space, limits, replace(form, text=text)):
            if (columns := stretch.columns) is not None:
                if form.row_times:
                    columns = replace(columns, ts=np.arange(record, record + stretch.records))
                if not dynamic:
                    columns.objections.note(columns.op == OP_DELETE, lambda _row: NOT_DYNAMIC)
                if words is not None:
                    columns.keywords.note_unnumbered(columns.objections, words)
                order.judge(columns)
                chunk = chunk_of(stretch.path, columns, stretch.line, record, reader, encoder, form.row_ids)
                for passed in _in_order(chunk, order, rows, first):
                    first += len(passed.batch)
                    yield passed
            elif stretch.records == 0:
                yield _NOTHING
            record += stretch.records
    while order.waiting:
        passed = _passed(_NOTHING, *order.next(rows, ended=True), first)
        first += len(passed.batch)
        yield passed


def _in_order(chunk: ObjectChunk, order: ObjectOrder, rows: int, first: int) -> Iterator[ObjectChunk]:
    """Yield a chunk with the objects whose place is certain by now instead of its own; further ones where they are many."""
    if not order.lateness_ms:
        yield _passed(chunk, chunk.batch, chunk.mine, first)
        return
    order.add(chunk.batch, chunk.mine)
    while chunk.records or order.certain:
        passed = _passed(chunk, *order.next(rows), first)
        first += len(passed.batch)
        yield passed
        chunk = _NOTHING


def _passed(chunk: ObjectChunk, batch: ObjectBatch, mine: Flags, first: int) -> ObjectChunk:
    """Return a chunk that passes these objects on, numbered from `first`; until then `seq` is the number of the record."""
    numbered = replace(batch, seq=np.arange(first, first + len(batch)))
    return replace(chunk, batch=numbered, mine=mine, record=batch.seq)


def _stretches(
    path: str, rows: int, skip: int, space: Rect, limits: ReadLimits, form: ObjectForm
) -> Iterator[_Stretch]:
    """Yield the records of one file, of any format; the first `skip` without columns.

    Of a file that is followed, a stretch without records says that nothing more has come yet.
    """
    kind = file_kind(path)
    if kind.format == "parquet":
        number = 1
        for records, columns in parquet_objects(path, rows, skip, space, limits, form):
            yield _Stretch(path, records, columns, np.arange(number, number + records))
            number += records
        return
    blocks = read_records(path, kind.compression, quoted=kind.format == "csv", rows=rows, limits=limits, form=form.text)
    header: CsvHeader | None = None
    keys: JsonKeys | None = None
    block = next(blocks, None)
    while block is not None and not len(block):
        yield _Stretch(path, 0, None, block.line)
        block = next(blocks, None)
    if kind.format == "csv":
        header, block = read_header(path, block, limits, form)
        block = next(blocks, None) if block is None else block
    elif block is not None:
        keys = keys_of(path, block, form)
    while block is not None:
        passed = min(skip, len(block))
        skip -= passed
        if passed or not len(block):
            yield _Stretch(path, passed, None, block.line[:passed])
        if passed < len(block):
            block = block.tail(passed)
            if header is not None:
                read = csv_objects(block, header, space, limits)
            else:
                assert keys is not None  # made with the first block
                read = json_objects(block, keys, space, limits)
            yield _Stretch(path, len(block), read, block.line)
        block = next(blocks, None)


def chunk_of(
    path: str,
    columns: ObjectColumns,
    line: Ints,
    first: int,
    reader: tuple[int, int],
    encoder: Encoder,
    row_ids: bool,
) -> ObjectChunk:
    """Make a chunk of records that are numbered from `first` on; `seq` is the number of an object's record."""
    index, readers = reader
    record = np.arange(first, first + len(columns))
    owned = (record // SHARE_RUN) % readers == index
    objections = columns.objections
    rejected = np.flatnonzero(objections.bad & owned)
    reasons = list(map(objections.reasons.__getitem__, rejected.tolist()))
    rejects = RejectBatch.of(path, line[rejected], reasons)
    rows = np.flatnonzero(~objections.bad)
    mine = owned[rows]
    off, kw = _encoded(columns, rows, mine, encoder)
    given = Ids("int", record) if row_ids else columns.ids
    batch = ObjectBatch(
        seq=record[rows],
        ts=columns.ts[rows],
        x=columns.x[rows],
        y=columns.y[rows],
        op=columns.op[rows],
        kw_off=off,
        kw=kw,
        ids=given if len(rows) == len(columns) else given.take(rows),
    )
    return ObjectChunk(batch, rejects, len(columns), len(columns) - len(rows), mine, record[rows])


def _encoded(columns: ObjectColumns, rows: Ints, mine: Flags, encoder: Encoder) -> tuple[Offsets, Ints]:
    """Encode the keywords of the rows that are mine; the others get none."""
    chosen = rows[mine]
    keywords = columns.keywords if len(chosen) == len(columns) else columns.keywords.take(chosen)
    off, kw = keywords.encode(encoder)
    if mine.all():
        return off, kw
    sizes = np.zeros(len(rows), np.int32)
    sizes[mine] = np.diff(off)
    return np.concatenate([np.zeros(1, np.int32), np.cumsum(sizes, dtype=np.int32)]), kw
