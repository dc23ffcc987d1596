"""Spouts that read files: objects set the time, query operations follow it.

The two send each other how far they are on the stream ``clock``. The spout of queries says up to which time all its
operations are delivered (`bound`); the spout of objects emits only objects up to that time. In turn it announces the time
of the last object that it would emit next; the spout of queries delivers operations up to there in the next epoch. So an
operation is never later than the objects of its time and never early by more than an epoch, and both put a bounded number
of rows into an epoch, however the input is spread over time.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from operators.operator import Emitter, Epoch, Inputs, State, TaskContext
from operators.redistribution import Division
from operators.spouts.file_spout import CLOCK_FIELDS, NAME_FIELDS, NEVER, FileSpout, paths_of, tell, told
from operators.spouts.injected_input import InjectedQueries, injected_objects
from operators.spouts.read_ahead import ReadAhead, merged_parts
from streams.batches import FOREVER, OP_REGISTER, ObjectBatch, QueryBatch, RejectBatch, TupleBatch, batch_fields
from streams.errors import DeclarationError, brief
from streams.files.file_bytes import ByteForm
from streams.files.input_paths import end_mark
from streams.files.object_files import read_objects
from streams.files.object_form import ObjectForm
from streams.files.object_order import ObjectOrder, merged_orders
from streams.files.open_queries import OpenQueries
from streams.files.query_files import read_queries
from streams.timestamps import TimeForm
from streams.vocabulary import Encoder

__all__ = ["ObjectFileSpout", "QueryFileSpout"]

SMALLEST_CHUNK, LARGEST_CHUNK = 4_096, 65_536


def _names(columns: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """Return the declared names of columns, one or several for each field."""
    named: dict[str, tuple[str, ...]] = {}
    for name, given in columns.items():
        sources = tuple(given) if isinstance(given, list | tuple) else (given,)
        if not all(isinstance(source, str) and source for source in sources):
            raise DeclarationError(f"found {brief(given)}, expected the name of a column", ("columns", name))
        named[name] = sources
    return named


@dataclass
class ObjectFileSpout(FileSpout):
    """Reads objects from JSONL, CSV or Parquet files, one after the other, and cuts them into epochs.

    Options:
        path: a file, a folder, a pattern such as ``part-*.csv``, a prepared data set, or a list of these; ``-`` is standard
            input.
        limit: stop after so many objects.
        dynamic: the records are states of objects, which a later record may replace or delete.
        columns: what columns are called, where it is neither as in the contract nor a common name:
            ``{ lon = "east", text = ["title", "body"] }``; ``ts`` may be ``["date", "time"]``.
        id: ``row`` numbers the records, where they have no identifiers.
        ts: ``row`` does the same for times, where they have none: record n is of millisecond n.
        time_unit: what numbers in the column of times count: ``ms``, ``s``, ``us`` or ``ns``.
        time_format: how times are written, where it is neither in numbers nor as ISO 8601, in the letters of Python's strptime:
            ``%m/%d/%Y %I:%M:%S %p``.
        time_zone: of times that name none, such as ``America/Edmonton``.
        lateness_ms: how much older an object may be than the newest one before it; such objects are put in order.
        encoding: what text files are in, where it is not UTF-8: ``latin-1``, ``cp1252``, ``utf-16``.
        follow: go on reading as the (last) file grows, until the run is stopped.
        piped: where the file is a copy of a pipe, the pipe's name; whoever copies it sets this.
    """

    outputs: ClassVar = {
        "objects": batch_fields(ObjectBatch),
        "rejects": batch_fields(RejectBatch),
        "words": ("id", "word"),
        "clock": CLOCK_FIELDS,
    }
    pace: ClassVar = "leads"
    takes_prepared: ClassVar = True
    formats: ClassVar = ("jsonl", "csv", "parquet")
    reads_what: ClassVar = "objects"

    path: Path | tuple[Path, ...]
    limit: int | None = None
    dynamic: bool = False
    columns: Mapping[str, Any] = field(default_factory=dict)
    id: Literal["row"] | None = None
    ts: Literal["row"] | None = None
    time_unit: Literal["ms", "s", "us", "ns"] = "ms"
    time_format: str | None = None
    time_zone: str = "UTC"
    lateness_ms: int = 0
    encoding: str = "utf-8"
    follow: bool = False
    piped: str | None = None

    def __post_init__(self) -> None:
        mark = None if self.piped is None else end_mark(paths_of(self.path)[-1])
        text = ByteForm(self.encoding, self.follow or mark is not None, mark)
        made = (self.id == "row", self.ts == "row")
        times = TimeForm(self.time_unit, self.time_format, self.time_zone)
        if self.limit is not None and self.limit < 1:
            raise DeclarationError(
                f"limit = {brief(self.limit)}, expected at least 1; leave it out to read all objects"
            )
        self.form = ObjectForm(_names(self.columns), *made, times, self.lateness_ms, text)

    def check(self, settings: Any, component: Any) -> Iterator[tuple[str, str]]:
        """Yield (key, what is wrong) for files that are not there, or that several readers would follow."""
        yield from super().check(settings, component)
        if self.form.text.follow and component.parallelism > 1:
            yield (
                "parallelism",
                "one task follows a file, or a pipe: tasks could not agree on what has come; set it to 1",
            )

    def open(self, context: TaskContext) -> None:
        """Open the files."""
        self._context = context
        self._wants_words = bool(context.targets.get("words"))
        self._encoder = Encoder(context.word_statistics, track_words=self._wants_words, remember=context.limits.words)
        self._emitted = 0
        self._files = self.files()
        self._order = ObjectOrder(self.lateness_ms, context.limits.reordered)
        self._ahead = ReadAhead(self._chunks(), ObjectBatch.empty())

    def _chunks(self, skip: int = 0, first: int = 0) -> Iterator[Any]:
        chunks = read_objects(
            self._files,
            space=self._context.space,
            encoder=self._encoder,
            chunk_rows=min(max(self._context.epoch_objects, SMALLEST_CHUNK), LARGEST_CHUNK),
            skip=skip,
            first=first,
            order=self._order,
            reader=(self._context.index, self._context.parallelism),
            dynamic=self.dynamic,
            words=len(self._encoder.vocabulary),
            limits=self._context.limits,
            form=self.form,
        )
        return injected_objects(chunks, self._context.injections, self._context.space, self._encoder, first)

    def next_epoch(self, epoch: Epoch, inputs: Inputs, emit: Emitter) -> bool:
        """Emit the next objects, as far as the queries of their time are delivered."""
        delivered = min(told(inputs, "bound"), default=FOREVER)
        rows = int(np.searchsorted(self._ahead.rows.ts[: self._next_rows()], delivered, side="right"))
        if rows:
            self._last = int(self._ahead.rows.ts[rows - 1])
            self._emitted += rows
            objects = self._ahead.take(rows)
            self._context.count("objects", len(objects))
            emit.batch(objects, "objects")
        coming = self._next_rows()
        self._emit_rejects(emit)
        if self._wants_words and (words := self._encoder.new_words()):
            emit.batch(TupleBatch.of(("id", "word"), words), "words")
        more = coming > 0 or self._reads_on()
        next_time = int(self._ahead.rows.ts[coming - 1]) if coming else self._last if more else FOREVER
        tell(emit, next_time, self._last)
        emit.watermark = self._watermark(more, delivered, told(inputs, "last"))
        return more

    def _watermark(self, more: bool, delivered: int, operations: Sequence[int]) -> int:
        """Return the time before which no record is to come: that of the next one, of objects and operations alike.

        So who reads objects alone agrees with all others on which time is complete: DSkype's message stores do. At the end of
        both it is just past the last of either, so that what is due then is answered, and no further: instants of a query
        without an end would be due for ever.
        """
        if more:
            coming = int(self._ahead.rows.ts[0]) if len(self._ahead.rows) else self._last
            return min(coming, delivered + 1)
        return delivered + 1 if delivered < FOREVER else max([self._last, *operations]) + 1

    def _reads_on(self) -> bool:
        """Tell whether there may be more objects, though none is at hand: so far there were only rejects."""
        return not self._ahead.ended and (self.limit is None or self._emitted < self.limit)

    def _next_rows(self) -> int:
        """Return how many rows the next epoch may have, and see that they are read."""
        wanted = self._context.epoch_objects
        if self.limit is not None:
            wanted = min(wanted, self.limit - self._emitted)
        self._ahead.fill(wanted)
        rows = min(wanted, len(self._ahead.rows))
        if rows and self._context.epoch_ms is not None:
            ts = self._ahead.rows.ts[:rows]
            rows = int(np.searchsorted(ts, ts[0] + self._context.epoch_ms, side="left"))
        return rows

    def snapshot(self) -> State:
        """Return the position in the files and what was read ahead."""
        return {**super().snapshot(), "emitted": self._emitted, "order": self._order.snapshot()}

    def restore(self, state: State) -> None:
        """Go on behind what was read."""
        self._check_sizes(state["sizes"])
        ahead = state["ahead"]
        read = state["emitted"] + len(ahead["rows"])
        self._order.restore(state["order"])
        self._ahead = ReadAhead(self._chunks(ahead["records"], read), ObjectBatch.empty())
        self._ahead.restore(ahead)
        self._last, self._emitted = state["last"], state["emitted"]

    @classmethod
    def redistribute(cls, states: Sequence[State], division: Division) -> list[State]:
        """All tasks have read the same; what was read ahead, each its part of it, is put together for the first one."""
        merged = merged_parts([state["ahead"] for state in states])
        order = merged_orders([state["order"] for state in states])
        first = {**states[0], "ahead": merged, "order": order}
        nothing = {"mine": np.zeros(len(merged["mine"]), np.bool_), "rejects": []}
        other = {
            **first,
            "ahead": {**merged, **nothing},
            "order": {**order, "mine": np.zeros(len(order["mine"]), np.bool_)},
        }
        return [first, *[other] * (division.tasks - 1)]


@dataclass
class QueryFileSpout(FileSpout):
    """Reads query operations from JSONL files, one after the other, and delivers each before the objects of its time.

    Results travel by query number; whoever writes them learns from the stream ``names``, in the epoch of the operations
    themselves, which identifier a number stands for and when the query ends.

    Options:
        path: a file, a folder, a pattern, or a list of these; ``-`` is standard input.
        encoding: what the files are in, where it is not UTF-8.
        keywords: ``text`` cuts keywords into words as texts are, ``given`` takes them whole; by default as the objects have
            them, which is looked up before a run.
        piped: where the file is a copy of a pipe, the pipe's name; whoever copies it sets this.
    """

    outputs: ClassVar = {
        "queries": batch_fields(QueryBatch),
        "rejects": batch_fields(RejectBatch),
        "names": NAME_FIELDS,
        "clock": CLOCK_FIELDS,
    }
    pace: ClassVar = "follows"
    reads_what: ClassVar = "queries"

    path: Path | tuple[Path, ...]
    encoding: str = "utf-8"
    keywords: Literal["text", "given"] | None = None
    piped: str | None = None

    def __post_init__(self) -> None:
        self.form = ByteForm(self.encoding)
        self.cuts_keywords = self.keywords == "text"

    def open(self, context: TaskContext) -> None:
        """Open the files."""
        self._context = context
        self._files = self.files()
        self._encoder = Encoder(context.word_statistics, remember=context.limits.words)
        self._open = OpenQueries(context.limits.live_queries)
        self._paced = bool(context.targets.get("clock"))
        self._named = bool(context.targets.get("names"))
        self._ahead = ReadAhead(iter(self._injected()), QueryBatch.empty())

    def _injected(self, skip: int = 0, watermark: int | None = None, taken: int = 0) -> InjectedQueries:
        """Return the reader with injected queries merged in."""
        context = self._context
        self._merged = InjectedQueries(
            lambda: self._chunks(self._open, skip, watermark),
            lambda: self._chunks(OpenQueries(context.limits.live_queries)),
            context.injections,
            context.space,
            taken,
        )
        return self._merged

    def _chunks(self, open_queries: OpenQueries, skip: int = 0, watermark: int | None = None) -> Iterator[Any]:
        return read_queries(
            self._files,
            space=self._context.space,
            metric=self._context.metric,
            encoder=self._encoder,
            open_queries=open_queries,
            answers=self._context.answers or None,
            kept_ms=self._context.kept_ms,
            chunk_rows=min(max(self._context.epoch_queries, SMALLEST_CHUNK), LARGEST_CHUNK),
            skip=skip,
            watermark=watermark,
            limits=self._context.limits,
            form=self.form,
            tokenise=self.cuts_keywords,
        )

    def next_epoch(self, epoch: Epoch, inputs: Inputs, emit: Emitter) -> bool:
        """Emit the operations that the next objects need."""
        self._ahead.fill(self._context.epoch_queries)
        coming = max(told(inputs, "bound"), default=NEVER if self._paced else FOREVER)
        ts = self._ahead.rows.ts[: self._context.epoch_queries]
        rows = int(np.searchsorted(ts, coming, side="right"))
        if rows:
            self._last = int(ts[rows - 1])
            mine = self._mine(self._ahead.take(rows))
            self._context.count("queries", int(np.count_nonzero(mine.op == OP_REGISTER)))
            emit.batch(mine, "queries")
            if self._named:
                emit.batch(TupleBatch(NAME_FIELDS, (mine.target, mine.ids, mine.end)), "names")
            self._ahead.fill(1)
        if self._context.index == 0:
            self._emit_rejects(emit)
        self._ahead.rejects.clear()
        more = len(self._ahead.rows) > 0 or not self._ahead.ended
        delivered = self._delivered()
        tell(emit, delivered, self._last)
        emit.watermark = min(delivered, FOREVER - 1) + 1
        return more

    def _delivered(self) -> int:
        """Return up to which time all operations are delivered."""
        if len(self._ahead.rows):
            return int(self._ahead.rows.ts[0]) - 1
        if self._ahead.ended:
            return FOREVER
        return NEVER if self._ahead.watermark is None else self._ahead.watermark - 1

    def _mine(self, queries: QueryBatch) -> QueryBatch:
        """Return this task's part: every task reads all operations, because each must know which ids are taken."""
        n, index, parallelism = len(queries), self._context.index, self._context.parallelism
        return queries.slice(n * index // parallelism, n * (index + 1) // parallelism)

    def snapshot(self) -> State:
        """Return the position in the files, what was read ahead, and the ids that are taken."""
        return {**super().snapshot(), "open_queries": self._open.snapshot(), "injected": self._merged.taken}

    def restore(self, state: State) -> None:
        """Go on behind what was read."""
        self._check_sizes(state["sizes"])
        ahead = state["ahead"]
        self._open.restore(state["open_queries"])
        merged = self._injected(ahead["records"], ahead["watermark"], state["injected"])
        self._ahead = ReadAhead(iter(merged), QueryBatch.empty())
        self._ahead.restore(ahead)
        self._last = state["last"]

    @classmethod
    def redistribute(cls, states: Sequence[State], division: Division) -> list[State]:
        """All tasks have read the same, and each emits its part of what is emitted next."""
        return [dict(states[0])] * division.tasks
