"""Objects that arrive as lines in memory: read as files are, stamped with the time of their arrival where they have none."""

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from streams.batches import OP_DELETE, ObjectBatch, RejectBatch
from streams.columns import Ints
from streams.files.file_blocks import DEFAULT_LIMITS, ReadLimits, cut_records_of
from streams.files.object_columns import ObjectColumns
from streams.files.object_fields import UNSTAMPED
from streams.files.object_files import NOT_DYNAMIC, chunk_of
from streams.files.object_form import ObjectForm
from streams.files.object_json import json_objects, keys_of
from streams.files.object_order import ObjectOrder
from streams.geometry import Rect
from streams.vocabulary import Encoder

__all__ = ["STAMPED_FORM", "ObjectBody", "read_object_body", "too_far_ahead"]

STAMPED_FORM = ObjectForm(stamped=True)


@dataclass(frozen=True, slots=True, eq=False)
class ObjectBody:
    """What came of some lines.

    Attributes:
        batch: the accepted objects, numbered from `first` on.
        rejects: the lines that cannot be used, and why.
        last_given: the last accepted object had a time of its own; it was not stamped.
    """

    batch: ObjectBatch
    rejects: RejectBatch
    last_given: bool


def read_object_body(
    data: bytes,
    *,
    source: str,
    space: Rect,
    encoder: Encoder,
    arrival: int | Ints,
    watermark: int | None = None,
    latest: int | None = None,
    first: int = 0,
    dynamic: bool = False,
    words: int | None = None,
    limits: ReadLimits = DEFAULT_LIMITS,
    form: ObjectForm = STAMPED_FORM,
) -> ObjectBody:
    """Read lines of an objects file; one without a time gets `arrival`, or the time of the object before if that is later.

    Args:
        data: the lines.
        source: what rejects call it.
        space: objects outside of it are rejected.
        encoder: turns keywords and texts into ids.
        arrival: the time of records that have none: of all, or of each line.
        watermark: what is older is late, and rejected.
        latest: what is of a later time is rejected: nothing with a right time could follow it.
        first: the `seq` of the first object.
        dynamic: whether objects have a current state that a record may delete.
        words: keywords that come as numbers must be of this many words, or hashes.
        limits: what a record may be at most.
        form: how the lines spell objects; `stamped`, or every record must have a time.
    """
    batches, rejects, given = [ObjectBatch.empty()], [RejectBatch.empty()], False
    keys, order = None, ObjectOrder(watermark=watermark)
    for block in cut_records_of(data, limits=limits):
        keys = keys or keys_of(source, block, form)
        arrivals = arrival if isinstance(arrival, int) else arrival[block.line - 1]
        found = json_objects(block, keys, space, limits)
        if latest is not None:
            found.objections.note(found.ts > latest, partial(_ahead, found.ts, latest))
        columns, stamped = _stamped(found, arrivals, order.watermark)
        if not dynamic:
            columns.objections.note(columns.op == OP_DELETE, lambda _row: NOT_DYNAMIC)
        if words is not None:
            columns.keywords.note_unnumbered(columns.objections, words)
        order.judge(columns)
        chunk = chunk_of(source, columns, block.line, 0, (0, 1), encoder, form.row_ids)
        count = len(chunk.batch)
        if count:
            given = not stamped[np.flatnonzero(~columns.objections.bad)[-1]]
        batches.append(replace(chunk.batch, seq=np.arange(first, first + count)))
        first += count
        rejects.append(chunk.rejects)
    return ObjectBody(ObjectBatch.concat(batches), RejectBatch.concat(rejects), given)


def _ahead(ts: Ints, latest: int, row: int) -> str:
    return too_far_ahead(int(ts[row]), latest)


def too_far_ahead(ts: int, latest: int) -> str:
    """Say that a time is too far ahead of the clock."""
    return (
        f"ts {ts} is later than {latest}, as far ahead of the clock as a time may be; expected milliseconds since 1970"
    )


def _stamped(
    columns: ObjectColumns, arrival: int | Ints, watermark: int | None
) -> tuple[ObjectColumns, NDArray[np.bool_]]:
    """Give a time to those that have none: of their arrival, but never before that of an accepted object before them."""
    stamped = columns.ts == UNSTAMPED
    if not stamped.any():
        return columns, stamped
    ts = np.where(stamped, arrival if watermark is None else np.maximum(arrival, watermark), columns.ts)
    latest = np.maximum.accumulate(np.where(columns.objections.bad, UNSTAMPED, ts))
    return replace(columns, ts=np.where(stamped, latest, ts)), stamped
