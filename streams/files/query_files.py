"""Query operations from JSONL files, as one stream of columnar chunks.

What a record says on its own is read a block at a time (`streams.files.query_columns`). What depends on the records before
it, the order of time and the ids that are taken, is decided here, record by record where a block is not plain.
"""

import os
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from streams.batches import (
    DETECT_ENTER,
    DETECT_EXIT,
    FOREVER,
    NO_WINDOW,
    OP_REGISTER,
    QUERY_TYPES,
    TYPE_RANGE,
    QueryBatch,
    RejectBatch,
)
from streams.errors import DeclarationError
from streams.files.file_blocks import DEFAULT_LIMITS, ReadLimits, as_paths, check_readable, file_kind, read_records
from streams.files.file_bytes import PLAIN_BYTES, ByteForm
from streams.files.objections import Objections
from streams.files.open_queries import OpenQueries
from streams.files.query_columns import json_queries
from streams.files.query_records import QueryRules
from streams.geometry import Metric, Rect
from streams.vocabulary import Encoder

__all__ = ["FENCES", "KINDS", "QueryChunk", "QueryGate", "read_queries"]

#: The kinds of query by type and by whether they are continuous, as operators declare what they answer.
KINDS = tuple((f"snapshot {name}", f"continuous {name}") for name in QUERY_TYPES)

#: What an operator declares to answer that follows objects in and out of regions. Where nobody answers plain continuous range
#: queries besides, those that do not say what to detect are fences too, and detect who enters and who exits.
FENCES = "continuous range (detect)"
_DETECTED = DETECT_ENTER | DETECT_EXIT

#: Of the shipped topologies, those that answer what the quick start does not.
_SHIPPED = {"continuous knn": "conf/dkm.toml", "continuous topk": "conf/skype.toml"}


@dataclass(frozen=True, slots=True, eq=False)
class QueryChunk:
    """A stretch of the input: the accepted operations, the rejected ones, and how many records both are made of."""

    batch: QueryBatch
    rejects: RejectBatch
    records: int

    @property
    def refused(self) -> int:
        """Return how many of them cannot be used."""
        return self.records - len(self.batch)


def read_queries(
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    space: Rect,
    encoder: Encoder,
    open_queries: OpenQueries,
    metric: Metric = "euclidean",
    answers: Collection[str] | None = None,
    kept_ms: int | None = None,
    chunk_rows: int = 65_536,
    skip: int = 0,
    watermark: int | None = None,
    limits: ReadLimits = DEFAULT_LIMITS,
    form: ByteForm = PLAIN_BYTES,
    tokenise: bool = False,
) -> Iterator[QueryChunk]:
    """Read files one after the other as one stream of query operations.

    The `number` of an operation is the index of its record in the whole input.

    Args:
        paths: one file or many.
        space: the place of a query must be inside of it.
        encoder: turns keywords into ids.
        open_queries: knows the ids that are taken, and learns those of this input; after `skip`, those of then.
        metric: how distances are measured.
        answers: the kinds of query to accept, out of `KINDS`; none: all.
        kept_ms: how far back the window of a query that is answered at instants may reach; None: as far as it likes.
        chunk_rows: how many records a chunk stands for at most.
        skip: go on after this many records, as a reader does that was restored.
        watermark: the largest `ts` among the records before, for the same reader.
        limits: what a record may be at most.
        form: what is said of the bytes of the files.
        tokenise: cut keywords into words, as the texts of objects are.
    """
    if chunk_rows < 1 or skip < 0:
        raise DeclarationError(
            f"cannot read queries with chunk_rows {chunk_rows}, skip {skip}; expected 1 or more, 0 or more"
        )
    names = as_paths(paths)
    for path in names:
        file_kind(path, ("jsonl",))
        check_readable(path)
    rules = QueryRules(space, metric, limits.keywords, limits.id_bytes, form, tokenise)
    return _read(names, rules, encoder, QueryGate(open_queries, answers, kept_ms, watermark), chunk_rows, skip, limits)


def _read(
    names: list[str], rules: QueryRules, encoder: Encoder, gate: "QueryGate", rows: int, skip: int, limits: ReadLimits
) -> Iterator[QueryChunk]:
    number = 0
    for path in names:
        kind = file_kind(path, ("jsonl",))
        for block in read_records(path, kind.compression, quoted=False, rows=rows, limits=limits, form=rules.text):
            passed = min(max(skip - number, 0), len(block))
            number += passed
            if passed == len(block):
                continue
            fresh = block.tail(passed)
            read = json_queries(fresh, rules, encoder, limits.line_bytes)
            batch = gate.admit(read.batch, read.objections, number)
            rejected = sorted(read.objections.reasons)
            reasons = [read.objections.reasons[row] for row in rejected]
            yield QueryChunk(batch, RejectBatch.of(path, fresh.line[rejected].tolist(), reasons), len(fresh))
            number += len(fresh)


class QueryGate:
    """Lets operations through in order of time, registrations only of free ids, unregistrations only of taken ones."""

    def __init__(
        self, open_queries: OpenQueries, answers: Collection[str] | None, kept_ms: int | None, watermark: int | None
    ) -> None:
        self._open = open_queries
        self._kept_ms = FOREVER if kept_ms is None else kept_ms
        self.watermark = watermark
        self._answers = sorted(answers) if answers is not None else None
        known = {FENCES, *(kind for kinds in KINDS for kind in kinds)}
        if answers is not None and (unknown := sorted(set(answers) - known)):
            raise DeclarationError(f"'{unknown[0]}' is no kind of query; expected some of {', '.join(sorted(known))}")
        self._answered = np.array([[answers is None or kind in answers for kind in kinds] for kinds in KINDS])
        self._fences = answers is None or FENCES in answers
        self._only_fences = answers is not None and self._fences and not self._answered[TYPE_RANGE, 1]

    def admit(self, batch: QueryBatch, objections: Objections, first: int) -> QueryBatch:
        """Return the operations that are accepted, numbered from `first` on; note the others."""
        rows = batch.number
        plain = (batch.op == OP_REGISTER) & (batch.type == TYPE_RANGE) & batch.continuous & (batch.detect == 0)
        if self._only_fences and plain.any():
            batch = replace(batch, detect=np.where(plain, _DETECTED, batch.detect).astype(np.uint8))
        fence = batch.detect > 0
        answered = self._answered[batch.type, batch.continuous.astype(np.int64)] | (batch.op != OP_REGISTER)
        answered = np.where(fence, self._fences, answered)
        for place in np.flatnonzero(~answered).tolist():
            kind = FENCES if fence[place] else KINDS[batch.type[place]][int(batch.continuous[place])]
            remedy = (
                "; it takes a fence-evaluator, and objects with dynamic = true"
                if fence[place]
                else f"; {_SHIPPED.get(kind, 'conf/sstd.toml')} answers them"
            )
            objections.note_row(
                int(rows[place]), f"{kind} queries are not answered here, only {', '.join(self._answers or ())}{remedy}"
            )
        reached = self._reached(batch, objections)
        batch = batch if (answered & reached).all() else batch.take(np.flatnonzero(answered & reached))
        rows = batch.number
        batch = replace(batch, number=rows + first, target=rows + first)
        if len(batch) == 0 or self._admit_all(batch):
            return batch
        target = batch.target.copy()
        accepted = self._admit_each(batch, rows, target, objections)
        batch = replace(batch, target=target)
        return batch if accepted.all() else batch.take(np.flatnonzero(accepted))

    def _reached(self, batch: QueryBatch, objections: Objections) -> NDArray[np.bool_]:
        """Tell which operations ask for nothing that is older than what is kept; note the others."""
        endless = batch.window == NO_WINDOW
        asks = (batch.op == OP_REGISTER) & batch.at_instants & (self._kept_ms < FOREVER)
        too_far = asks & (endless | (batch.window > self._kept_ms))
        for place in np.flatnonzero(too_far).tolist():
            asked = "there is no window" if endless[place] else f"window is {batch.window[place]} ms"
            # What comes after "expected" is shown where reasons are counted: how far back one can ask.
            reason = f"{asked}, expected at most {self._kept_ms:,} ms: older objects are not kept; ask for less, or keep more"
            objections.note_row(int(batch.number[place]), reason)
        return np.asarray(~too_far, np.bool_)

    def _admit_all(self, batch: QueryBatch) -> bool:
        """Admit a batch of registrations in order of time and of new ids in one go, or nothing."""
        ts = batch.ts
        plain = (batch.op == OP_REGISTER).all() and (ts[1:] >= ts[:-1]).all()
        if not plain or (self.watermark is not None and ts[0] < self.watermark):
            return False
        self._open.make_room(len(batch), int(ts[0]))
        if not self._open.register_all(batch.ids.to_list(), batch.number.tolist(), batch.end.tolist()):
            return False
        self.watermark = int(ts[-1])
        return True

    def _admit_each(
        self, batch: QueryBatch, rows: NDArray[np.int64], target: NDArray[np.int64], objections: Objections
    ) -> NDArray[np.bool_]:
        """Admit operations one after the other; each changes what the next may do."""
        accepted = np.zeros(len(batch), np.bool_)
        columns = (batch.ids.to_list(), batch.op.tolist(), batch.ts.tolist(), batch.end.tolist(), batch.number.tolist())
        for place, (name, op, ts, end, number) in enumerate(zip(*columns, strict=True)):
            reason: int | str | None
            if self.watermark is not None and ts < self.watermark:
                reason = f"ts {ts} is older than {self.watermark}, which came before; expected non-decreasing ts"
            elif op == OP_REGISTER:
                reason = self._open.register(name, number, ts, end)
            else:
                reason = self._open.unregister(name, ts)
                if isinstance(reason, int):
                    target[place], reason = reason, None
            if reason is None:
                accepted[place] = True
                self.watermark = ts
            else:
                objections.note_row(int(rows[place]), str(reason))
        return accepted
