"""Objects from files: JSONL, CSV and Parquet as one stream of columnar chunks.

Records that cannot be used become rejects with a reason and stop nothing; a file that cannot be used at all raises
`InputError`. Many readers can share one input: all of them agree on what is accepted, and each encodes the keywords of
its own part only, which is where the time goes.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from streams.batches import OP_DELETE, ObjectBatch, RejectBatch
from streams.columns import Ids, Ints, Offsets
from streams.errors import DeclarationError
from streams.files.file_blocks import DEFAULT_LIMITS, ReadLimits, as_paths, check_readable, file_kind, read_records
from streams.files.object_columns import ObjectColumns
from streams.files.object_csv import csv_objects, read_header
from streams.files.object_form import PLAIN_FORM, ObjectForm
from streams.files.object_json import json_objects, keys_of
from streams.files.object_parquet import parquet_objects
from streams.geometry import Rect
from streams.vocabulary import Encoder

__all__ = ["NOT_DYNAMIC", "SHARE_RUN", "ObjectChunk", "chunk_of", "read_objects", "reject_late"]

#: Readers that share an input take turns of this many records.
SHARE_RUN = 512

NOT_DYNAMIC = 'op is "delete", but the objects of this topology have no state to delete; expected upsert'

Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class ObjectChunk:
    """A stretch of the input.

    Attributes:
        batch: the accepted objects; `seq` is the place of an object among all accepted ones, in input order.
        rejects: the records of this reader's part that cannot be used.
        records: how many records of the input it stands for.
        mine: which objects of the batch belong to this reader's part; the others have no keywords here.
        record: the number of each object's record in the whole input, rejected ones counted too.
    """

    batch: ObjectBatch
    rejects: RejectBatch
    records: int
    mine: Flags
    record: Ints


@dataclass(frozen=True, slots=True, eq=False)
class _Stretch:
    """Records of one file as they were read: how many, their columns (None: skipped), and where each stood."""

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
    watermark: int | None = None,
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
        watermark: the largest `ts` among the records before, for the same reader.
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
    return _read(names, space, encoder, chunk_rows, skip, first, watermark, reader, dynamic, words, limits, form)


def _read(
    names: list[str],
    space: Rect,
    encoder: Encoder,
    rows: int,
    skip: int,
    first: int,
    watermark: int | None,
    reader: tuple[int, int],
    dynamic: bool,
    words: int | None,
    limits: ReadLimits,
    form: ObjectForm,
) -> Iterator[ObjectChunk]:
    record = 0
    for path in names:
        for stretch in _stretches(path, rows, max(skip - record, 0), space, limits, form):
            if stretch.columns is not None:
                if not dynamic:
                    stretch.columns.objections.note(stretch.columns.op == OP_DELETE, lambda _row: NOT_DYNAMIC)
                if words is not None:
                    stretch.columns.keywords.note_unnumbered(stretch.columns.objections, words)
                watermark = reject_late(stretch.columns, watermark)
                chunk = chunk_of(
                    stretch.path, stretch.columns, stretch.line, (record, first), reader, encoder, form.row_ids
                )
                first += len(chunk.batch)
                yield chunk
            record += stretch.records


def _stretches(
    path: str, rows: int, skip: int, space: Rect, limits: ReadLimits, form: ObjectForm
) -> Iterator[_Stretch]:
    """Yield the records of one file, of any format; the first `skip` without columns."""
    kind = file_kind(path)
    if kind.format == "parquet":
        number = 1
        for records, columns in parquet_objects(path, rows, skip, space, limits, form):
            yield _Stretch(path, records, columns, np.arange(number, number + records))
            number += records
        return
    blocks = read_records(path, kind.compression, quoted=kind.format == "csv", rows=rows, limits=limits)
    header, block = read_header(path, blocks, limits, form) if kind.format == "csv" else (None, None)
    block = next(blocks, None) if block is None else block
    keys = keys_of(path, block, form) if block is not None and header is None else None
    while block is not None:
        passed = min(skip, len(block))
        skip -= passed
        if passed:
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


def reject_late(columns: ObjectColumns, watermark: int | None) -> int | None:
    """Note the objects that are older than an accepted one before them; return the new watermark."""
    good = np.flatnonzero(~columns.objections.bad)
    if len(good) == 0:
        return watermark
    ts = columns.ts[good]
    latest = np.maximum.accumulate(ts if watermark is None else np.maximum(ts, watermark))
    late = np.zeros(len(columns), np.bool_)
    late[good] = ts < latest
    if late.any():
        before = np.zeros(len(columns), np.int64)
        before[good] = latest
        columns.objections.note(
            late,
            lambda row: (
                f"ts {columns.ts[row]} is older than {before[row]}, which came before; expected non-decreasing ts"
            ),
        )
    return int(latest[-1])


def chunk_of(
    path: str,
    columns: ObjectColumns,
    line: Ints,
    place: tuple[int, int],
    reader: tuple[int, int],
    encoder: Encoder,
    row_ids: bool,
) -> ObjectChunk:
    """Make a chunk of records that begin at a place: the number of the first record, the seq of the first object."""
    index, readers = reader
    record = np.arange(place[0], place[0] + len(columns))
    owned = (record // SHARE_RUN) % readers == index
    objections = columns.objections
    rejected = [row for row in sorted(objections.reasons) if owned[row]]
    rejects = RejectBatch.of(path, line[rejected].tolist(), [objections.reasons[row] for row in rejected])
    rows = np.flatnonzero(~objections.bad)
    mine = owned[rows]
    off, kw = _encoded(columns, rows, mine, encoder)
    given = Ids("int", record) if row_ids else columns.ids
    batch = ObjectBatch(
        seq=np.arange(place[1], place[1] + len(rows)),
        ts=columns.ts[rows],
        x=columns.x[rows],
        y=columns.y[rows],
        op=columns.op[rows],
        kw_off=off,
        kw=kw,
        ids=given if len(rows) == len(columns) else given.take(rows),
    )
    return ObjectChunk(batch, rejects, len(columns), mine, record[rows])


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
