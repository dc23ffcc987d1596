"""Objects from a spout of one's own: plain tuples or dictionaries with the fields of a record become columns.

Shipped routers and evaluators read columns. Between them and a spout that emits tuples on its stream ``objects``, the task of
the spout does what a reader of files does: it checks records, encodes keywords, and numbers what it accepts.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from operators.operator import State, TaskContext
from streams.batches import OP_DELETE, ObjectBatch, RejectBatch, TupleBatch
from streams.files.object_form import FIELDS, PLAIN_FORM
from streams.files.object_json import record_objects
from streams.files.object_order import ObjectOrder
from streams.files.objections import Objections
from streams.reject_reasons import REASON, reason_counts
from streams.vocabulary import Encoder

__all__ = ["OBJECTS_STREAM", "TupleObjects", "missing_fields"]

#: The stream on which routers and evaluators expect objects.
OBJECTS_STREAM = "objects"


def missing_fields(fields: Sequence[str]) -> str | None:
    """Say what tuples lack to be objects; None where they have what it takes."""
    there = set(fields)
    if "ids" in there:
        return None  # columns, as shipped spouts emit them
    for needed, what in (
        ((("id",),), "id"),
        ((("ts",),), "ts"),
        ((("x", "y"), ("lon", "lat")), "x and y, or lon and lat"),
        ((("text",), ("keywords",), ("keyword_ids",)), "text or keywords"),
    ):
        if not any(there.issuperset(names) for names in needed):
            return what
    return None


class TupleObjects:
    """Makes columns of what one task of a spout emits.

    Attributes:
        last: the time of the last object, None before the first.
    """

    def __init__(self, context: TaskContext) -> None:
        self._context = context
        self._encoder = Encoder(context.word_statistics, remember=context.limits.words)
        self._order = ObjectOrder()
        self._count = self._records = 0

    @property
    def last(self) -> int | None:
        """Return the time of the newest object, None before the first."""
        return self._order.watermark

    def columns(self, tuples: TupleBatch) -> ObjectBatch:
        """Return the tuples that are objects; the others are counted with their reasons."""
        context = self._context
        rows = tuples.rows()
        names = [name for name in tuples.fields if name in FIELDS]
        places = [tuples.fields.index(name) for name in names]
        records: list[Mapping[str, Any]] = [
            {name: _plain(row[place]) for name, place in zip(names, places, strict=True)} for row in rows
        ]
        found = record_objects(records, Objections(len(rows)), PLAIN_FORM, context.space, context.limits)
        if not context.dynamic:
            found.objections.note(
                found.op == OP_DELETE,
                lambda _: "op is delete, but the objects of this topology have no state to delete",
            )
        self._order.judge(found)
        good = np.flatnonzero(~found.objections.bad)
        off, kw = found.keywords.take(good).encode(self._encoder)
        self._tell_rejects(found.objections)
        first, step = self._count, context.parallelism
        self._count += len(good)
        self._records += len(rows)
        context.count("objects", len(good))
        return ObjectBatch(
            seq=(first + np.arange(len(good))) * step + context.index,
            ts=found.ts[good],
            x=found.x[good],
            y=found.y[good],
            op=found.op[good],
            kw_off=off,
            kw=kw,
            ids=found.ids.take(good),
        )

    def _tell_rejects(self, objections: Objections) -> None:
        if not objections.reasons:
            return
        rows = sorted(objections.reasons)
        rejects = RejectBatch.of(
            self._context.name, [self._records + row for row in rows], [objections.reasons[row] for row in rows]
        )
        self._context.count("rejected", len(rejects))
        self._context.count("objects_rejected", len(rejects))
        for reason, count in reason_counts(rejects).items():
            self._context.count(f"{REASON}{reason}", count)

    def snapshot(self) -> State:
        """Return how many objects there were, and what later ones are judged by."""
        return {"count": self._count, "records": self._records, "order": self._order.snapshot()}

    def restore(self, state: State) -> None:
        """Take over a snapshot."""
        self._count, self._records = state["count"], state["records"]
        self._order.restore(state["order"])


def _plain(value: Any) -> Any:
    """Return a value as JSON would have it: a tuple is a list."""
    return list(value) if isinstance(value, tuple) else value
