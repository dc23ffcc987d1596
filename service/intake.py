"""What is accepted, in which order, and at what time: requests in, entries of the journal out. No I/O, no clock.

The journal's order is the order of time. An object is never older than what came before it, and an operation that arrives
after an object takes effect after that object's time, as the contract has it for files: operations of a time before its
objects. Whoever gives no time gets one: that of the arrival, or, for a stream whose objects bring their own, the stream's.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec
import numpy as np

from operators.spouts.journal import NO_WORDS, JournalEntry
from service.registrations import Registrations
from streams.batches import OP_REGISTER, QUERY_TYPES, QueryBatch, RejectBatch, TupleBatch
from streams.files.file_blocks import cut_records_of
from streams.files.object_bodies import STAMPED_FORM, read_object_body, too_far_ahead
from streams.files.object_form import ObjectForm
from streams.files.open_queries import OpenQueries
from streams.files.query_columns import json_queries
from streams.files.query_files import QueryGate
from streams.files.query_records import QueryRules
from streams.files.read_limits import DEFAULT_LIMITS, ReadLimits
from streams.geometry import Metric, Rect
from streams.vocabulary import Encoder

__all__ = ["Accepted", "Intake", "Operation", "Rules", "TimeOf"]

#: Whose time records without one get: that of their arrival, or that of the newest object.
TimeOf = Literal["arrival", "event"]

Id = int | str


@dataclass(frozen=True, slots=True)
class Rules:
    """What records are judged by: all of it follows from the topology.

    Attributes:
        answers: the kinds of query that are answered; none: all.
        kept_ms: how far back snapshots may look.
        tracks_words: some operator must be told which word a keyword's number stands for.
        tokenise: objects are texts, so the keywords of queries are cut into words as these are.
        ahead_ms: with times of arrival, a time that is given may be so far ahead of the clock; None: any.
    """

    space: Rect
    metric: Metric = "euclidean"
    dynamic: bool = False
    answers: frozenset[str] = frozenset()
    kept_ms: int | None = None
    limits: ReadLimits = DEFAULT_LIMITS
    tracks_words: bool = False
    tokenise: bool = False
    form: ObjectForm = STAMPED_FORM
    time: TimeOf = "arrival"
    ahead_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Operation:
    """What is asked of a query: to be registered, in place of one of the same id that lives (`replaces`), or to end."""

    op: Literal["register", "unregister"]
    id: Id | None
    body: Mapping[str, Any] = field(default_factory=dict)
    replaces: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Accepted:
    """What came of a request: an entry for the journal (none where nothing is to be kept), and what was refused, by line.

    Attributes:
        count: how many records were accepted.
        replaced: how many queries took the place of one that lived.
        numbers: the query number of each accepted registration, by its id.
    """

    entry: JournalEntry | None
    count: int
    rejected: Sequence[tuple[int, str]] = ()
    replaced: int = 0
    numbers: Mapping[Id, int] = field(default_factory=dict)


class Intake:
    """Judges requests one after the other; what it returns must be journalled in that order.

    Attributes:
        registrations: the queries that live, as they were put.
        floor: no record with a smaller time is accepted.
        seq: the number of the next object.
        number: that of the next operation.
    """

    def __init__(self, rules: Rules, encoder: Encoder) -> None:
        self.rules, self._encoder = rules, encoder
        self.registrations = Registrations(rules.limits.live_queries)
        self.floor: int | None = None
        self.seq = self.number = 0
        self._object_time: int | None = None
        self._given = False  # the newest time was given, not stamped: whoever gave it may send more of it
        self._query_rules = QueryRules(
            rules.space, rules.metric, rules.limits.keywords, rules.limits.id_bytes, tokenise=rules.tokenise
        )
        self._open = OpenQueries(rules.limits.live_queries)

    # --- time ------------------------------------------------------------------------------------------------------

    def _stamp(self, now: int) -> int:
        """Return the time of a record that arrives now without one."""
        if self.rules.time == "event":
            return self.floor if self.floor is not None else 0
        return now if self.floor is None else max(now, self.floor)

    def _operation_stamp(self, now: int) -> int:
        """Return the same for an operation: behind all objects so far."""
        stamp = self._stamp(now)
        return stamp if self._object_time is None else max(stamp, self._object_time + 1)

    def _latest(self, now: int, stamp: int) -> int | None:
        """Return the latest time that may be given: one far ahead of the clock would make all that follows too old."""
        ahead = self.rules.ahead_ms if self.rules.time == "arrival" else None
        return None if ahead is None else max(now + ahead, stamp)

    def closing(self) -> JournalEntry | None:
        """Return the entry that closes the newest time, so that what depends on all of it is known; None where it is closed.

        A time that was given is left open: who gave it may have more. Where every query is about single objects nothing
        depends on a whole time, and it is left to `passing`.
        """
        if not (self.registrations.listed or self.rules.dynamic):
            return None
        newest = self._object_time if self.rules.time == "arrival" and not self._given else None
        if newest is None or self.floor is None or self.floor > newest:
            return None
        return self._until(newest + 1)

    def passing(self, now: int) -> JournalEntry | None:
        """Return the entry that says how late it is, where time goes by on its own: by the clock, and nobody gives another."""
        if self.rules.time != "arrival" or self._given or self.floor is None or now <= self.floor:
            return None
        return self._until(now)

    def _until(self, floor: int) -> JournalEntry:
        self.floor = floor if self.floor is None else max(self.floor, floor)
        return self._entry()

    def _entry(self, **parts: Any) -> JournalEntry:
        assert self.floor is not None
        return JournalEntry(self.floor, self.seq, self.number, self._object_time, **parts)

    def rebalance(self, now: int) -> Accepted:
        """Order a round of rebalancing, at the time of the stream."""
        self.floor = self._stamp(now) if self.floor is None else self.floor
        return Accepted(self._entry(about="rebalance"), 0)

    # --- objects ---------------------------------------------------------------------------------------------------

    def objects(self, lines: bytes, now: int, source: str = "POST /objects") -> Accepted:
        """Take lines of an objects file."""
        rules = self.rules
        body = read_object_body(
            lines,
            source=source,
            space=rules.space,
            encoder=self._encoder,
            arrival=self._stamp(now),
            watermark=self.floor,
            latest=self._latest(now, self._stamp(now)),
            first=self.seq,
            dynamic=rules.dynamic,
            words=len(self._encoder.vocabulary),
            limits=rules.limits,
            form=rules.form,
        )
        count = len(body.batch)
        lines_of, reasons = body.rejects.line.tolist(), map(str, body.rejects.reason.to_list())
        rejected = list(zip(lines_of, reasons, strict=True))
        if count:
            self.seq += count
            self.floor = self._object_time = int(body.batch.ts[-1])
            self._given = body.last_given
        elif self.floor is None:
            self.floor = self._stamp(now)
        entry = self._entry(objects=body.batch, rejects=body.rejects, words=self._words())
        return Accepted(entry if count or rejected else None, count, rejected)

    def _words(self) -> TupleBatch:
        """Return the words that were met first: kept for the engine only where somebody there wants them."""
        if not self.rules.tracks_words:
            return NO_WORDS
        words = self._encoder.new_words()
        return TupleBatch.of(("id", "word"), words) if words else NO_WORDS

    # --- query operations ------------------------------------------------------------------------------------------

    def operations(self, asked: Sequence[Operation], now: int, source: str, *, at_once: bool = False) -> Accepted:
        """Take operations on queries; with `at_once`, close their time, so that what they ask is answered."""
        stamp = self._operation_stamp(now)
        lines, bodies, owner = self._lines(asked, stamp)
        batch, reasons = self._judged(lines, source, self._latest(now, stamp))
        batch = self._kept_alive(batch, owner, reasons)
        last = int(batch.ts[-1]) if len(batch) else None
        number = self.number + len(lines)
        kept = [bodies[place] for place in (batch.number - self.number).tolist()]
        self.number = number
        if last is not None:
            self.floor = last + 1 if at_once else last
        elif self.floor is None:
            self.floor = stamp
        rejected = sorted({owner[row] + 1: reason for row, reason in sorted(reasons.items(), reverse=True)}.items())
        rejects = RejectBatch.of(source, [line for line, _ in rejected], [reason for _, reason in rejected])
        entry = self._entry(queries=batch, rejects=rejects, words=self._words(), bodies=kept, about="queries")
        replaced = sum(asked[owner[row - number + len(lines)]].replaces for row in _ends(batch))
        numbers = self._note(batch, kept)
        done = len(asked) - len(rejected)
        return Accepted(entry if len(batch) or rejected else None, done, rejected, replaced, numbers)

    def _lines(self, asked: Sequence[Operation], stamp: int) -> tuple[list[bytes], list[bytes], list[int]]:
        """Return the operations as lines of a query file, what to remember of each, and which of those asked it is."""
        lines: list[bytes] = []
        bodies: list[bytes] = []
        owner: list[int] = []
        for place, one in enumerate(asked):
            record = {"op": one.op, **({} if one.id is None else {"id": one.id}), **one.body}
            if record.get("ts") is None:
                record["ts"] = stamp
            if one.replaces and one.id is not None and self._lives(one.id, record["ts"]):
                lines.append(msgspec.json.encode({"op": "unregister", "id": one.id, "ts": record["ts"]}))
                bodies.append(b"")
                owner.append(place)
            lines.append(msgspec.json.encode(record))
            bodies.append(lines[-1] if one.op == "register" else b"")
            owner.append(place)
        return lines, bodies, owner

    def _lives(self, name: Id, ts: Any) -> bool:
        known = self.registrations.get(name)
        return known is not None and (not isinstance(ts, int) or known.end > ts)

    def _judged(self, lines: Sequence[bytes], source: str, latest: int | None) -> tuple[QueryBatch, dict[int, str]]:
        """Return the operations that are accepted, numbered, and the reason against each other line."""
        late = self.floor
        if self._object_time is not None and self.floor is not None:
            late = max(self.floor, self._object_time + 1)
        gate = QueryGate(self._open, self.rules.answers or None, self.rules.kept_ms, late)
        batches: list[QueryBatch] = [QueryBatch.empty()]
        reasons: dict[int, str] = {}
        first = 0
        for block in cut_records_of(b"\n".join(lines) + b"\n", limits=self.rules.limits):
            read = json_queries(block, self._query_rules, self._encoder, self.rules.limits.line_bytes)
            batch = read.batch
            if latest is not None and (ahead := batch.ts > latest).any():
                for row, ts in zip(batch.number[ahead].tolist(), batch.ts[ahead].tolist(), strict=True):
                    read.objections.note_row(row, too_far_ahead(ts, latest))
                batch = batch.take(np.flatnonzero(~ahead))
            batches.append(gate.admit(batch, read.objections, self.number + first))
            reasons |= {first + row: reason for row, reason in read.objections.reasons.items()}
            first += len(block)
        assert first == len(lines), "a line for each operation"
        return QueryBatch.concat(batches), reasons

    def _kept_alive(self, batch: QueryBatch, owner: Sequence[int], reasons: Mapping[int, str]) -> QueryBatch:
        """Let a query live on whose replacement was refused: it must not end for it."""
        refused = {owner[row] for row in reasons}
        rows = (batch.number - self.number).tolist()
        undone = [place for place, row in enumerate(rows) if owner[row] in refused and batch.op[place] != OP_REGISTER]
        for place in undone:
            name = batch.ids.slice(place, place + 1).to_list()[0]
            known = self.registrations.get(name)
            assert known is not None, "it lived a moment ago"
            self._open.register(name, known.number, int(batch.ts[place]), known.end)
        return batch.take(np.setdiff1d(np.arange(len(batch)), undone)) if undone else batch

    def _note(self, batch: QueryBatch, bodies: Sequence[bytes]) -> dict[Id, int]:
        """Remember what lives, and return the numbers of new queries."""
        found: dict[Id, int] = {}
        columns = (
            batch.ids.to_list(),
            batch.op.tolist(),
            batch.number.tolist(),
            batch.end.tolist(),
            batch.type.tolist(),
        )
        for name, op, number, end, kind, body in zip(*columns, bodies, strict=True):
            if op == OP_REGISTER:
                found[name] = number
                self.registrations.add(name, number, end, QUERY_TYPES[kind], body)
            else:
                self.registrations.remove(name)
        if self.floor is not None:
            self.registrations.purge(self.floor)
        return found

    # --- state -----------------------------------------------------------------------------------------------------

    def replay(self, entry: JournalEntry) -> None:
        """Take over an entry of the journal that was written before."""
        self.floor, self.seq, self.number, self._object_time = entry.floor, entry.seq, entry.number, entry.object_time
        if len(entry.objects):
            self._given = True  # the journal does not say; a time that is left open is never wrong
        columns = (entry.queries.ids.to_list(), entry.queries.op.tolist(), entry.queries.ts.tolist())
        more = (entry.queries.number.tolist(), entry.queries.end.tolist())
        for name, op, ts, number, end in zip(*columns, *more, strict=True):
            if op == OP_REGISTER:
                self._open.register(name, number, ts, end)
            else:
                self._open.unregister(name, ts)
        self._note(entry.queries, entry.bodies)

    def snapshot(self) -> dict[str, Any]:
        """Return all that goes on from here, as plain values."""
        return {
            "floor": self.floor,
            "seq": self.seq,
            "number": self.number,
            "object_time": self._object_time,
            "given": self._given,
            "open": self._open.snapshot(),
            "registrations": self.registrations.snapshot(),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over a snapshot."""
        self.floor, self.seq, self.number = state["floor"], state["seq"], state["number"]
        self._object_time, self._given = state["object_time"], state["given"]
        self._open.restore(state["open"])
        self.registrations.restore(state["registrations"])


def _ends(batch: QueryBatch) -> Iterable[int]:
    numbers: list[int] = batch.number[np.flatnonzero(batch.op != OP_REGISTER)].tolist()
    return numbers
