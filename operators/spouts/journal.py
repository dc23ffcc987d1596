"""Entries of the journal that a live spout follows: what arrived, as frames of the wire format.

An entry has objects or query operations, never both, with the records that were rejected and the words that were met first
in it. Its metadata say what goes on from there: the time below which nothing more is to come, and how the next object and
the next operation are numbered; and, for whoever answers for queries, how each operation was put.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from streams.batches import ObjectBatch, QueryBatch, RejectBatch, TupleBatch
from streams.codec import Buffers, decode, encode
from streams.columns import Ints
from streams.errors import CodecError
from streams.segment_log import Frame

__all__ = ["NO_WORDS", "JournalEntry", "pack_entry", "unpack_entry"]

NO_WORDS = TupleBatch.of(("id", "word"), [])


@dataclass(frozen=True, slots=True, eq=False)
class JournalEntry:
    """One entry.

    Attributes:
        floor: no record with a smaller time comes behind it.
        seq: the number of the next object.
        number: that of the next query operation.
        object_time: the time of the last object so far; None before the first.
        bodies: what users sent for each operation, as JSON.
        about: ``objects`` or ``queries``: what its records were meant to be, where all of them may be rejects; ``rebalance``:
            it orders a round of rebalancing; else nothing.
        position: where in the journal it is; -1 before it is there.
    """

    floor: int
    seq: int
    number: int
    object_time: int | None
    objects: ObjectBatch = field(default_factory=ObjectBatch.empty)
    queries: QueryBatch = field(default_factory=QueryBatch.empty)
    rejects: RejectBatch = field(default_factory=RejectBatch.empty)
    words: TupleBatch = NO_WORDS
    bodies: Sequence[bytes] = ()
    about: str = ""
    position: int = -1

    @property
    def ts(self) -> Ints:
        """The times of its rows."""
        return self.objects.ts if len(self.objects) else self.queries.ts


_PARTS = {"objects": ObjectBatch, "queries": QueryBatch, "rejects": RejectBatch, "words": TupleBatch}


def pack_entry(entry: JournalEntry) -> Buffers:
    """Return an entry as a frame's bytes; what is empty is left out."""
    parts = [(name, getattr(entry, name)) for name in _PARTS if len(getattr(entry, name))]
    return encode(parts, [entry.floor, entry.seq, entry.number, entry.object_time, list(entry.bodies), entry.about])


def unpack_entry(frame: Frame) -> JournalEntry:
    """Return the entry of a frame; raise `CodecError` for anything else."""
    meta, parts = decode(frame.data)
    named: dict[str, Any] = {}
    for name, batch in parts:
        if not isinstance(name, str) or not isinstance(batch, _PARTS.get(name, ())):
            raise CodecError(f"a {type(batch).__name__} under the name {name!r:.60} in a journal")
        named[name] = batch
    floor, seq, number, object_time, bodies, *rest = meta
    about = rest[0] if rest else ""  # journals of earlier versions do not say
    if about not in ("", "objects", "queries", "rebalance"):
        raise CodecError(f"an entry of a journal about {about!r:.60}, expected objects, queries or rebalance")
    return JournalEntry(floor, seq, number, object_time, bodies=bodies, about=about, position=frame.position, **named)
