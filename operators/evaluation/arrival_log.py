"""The objects that an evaluator keeps, as far as answers need them: their place in the input, their times and identifiers.

The window of a query becomes a range of `seq` here; which objects of it match is with an index of kept objects.
"""

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

import numpy as np

from operators.indexes.core.growth import ColumnQueue
from streams.batches import OP_UPSERT, ObjectBatch
from streams.columns import Ids, Ints
from streams.state import Part

__all__ = ["ArrivalLog"]

#: Identifiers of a chunk: one that is full never changes, so checkpoints write it once.
CHUNK = 1 << 14

_NONE: Ints = np.empty(0, np.int64)
_NO_IDS = Ids("int", np.empty(0, np.int64))


class ArrivalLog:
    """Objects by ascending `seq`, and so by ascending time."""

    def __init__(self) -> None:
        self._rows = ColumnQueue(_NONE, _NONE)  # seq, ts
        self._full: list[tuple[str, Ids]] = []  # a digest of the places, and the identifiers
        self._rest: list[tuple[Ints, Ids]] = []
        self._open = 0

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def nbytes(self) -> int:
        """Bytes in use."""
        return int(self._rows.nbytes + sum(part.values.nbytes for part in self._parts()))

    def _parts(self) -> list[Ids]:
        return [*(ids for _, ids in self._full), *(ids for _, ids in self._rest)]

    @property
    def seq(self) -> Ints:
        """The places of the objects that are kept."""
        return self._rows.column(0)

    @property
    def ts(self) -> Ints:
        """The times of the objects that are kept."""
        return self._rows.column(1)

    def append(self, objects: ObjectBatch) -> None:
        """Take in objects, all newer than those kept; a deletion is none."""
        if (objects.op != OP_UPSERT).any():
            objects = objects.take(np.flatnonzero(objects.op == OP_UPSERT))
        self._add(objects.seq, objects.ts, objects.ids)

    def _add(self, seq: Ints, ts: Ints, ids: Ids) -> None:
        count = len(seq)
        if not count:
            return
        self._rows.append(seq, ts)
        self._rest.append((np.array(seq), ids))
        while len(self._rest) > 1 and len(self._rest[-2][0]) < 2 * len(self._rest[-1][0]):
            # Parts that halve in size: little is copied, and few are looked through.
            (some, their_ids), (more, more_ids) = self._rest[-2:]
            self._rest[-2:] = [(np.concatenate([some, more]), Ids.concat([their_ids, more_ids]))]
        self._open += count
        if self._open >= CHUNK:
            self._seal()

    def _seal(self) -> None:
        """Make full chunks of what is in none."""
        seq, ids = np.concatenate([part for part, _ in self._rest]), Ids.concat([part for _, part in self._rest])
        full = len(seq) // CHUNK * CHUNK
        for start in range(0, full, CHUNK):
            digest = blake2b(seq[start : start + CHUNK].data, digest_size=16).hexdigest()
            self._full.append((digest, ids.slice(start, start + CHUNK)))
        self._open = len(seq) - full
        self._rest = [(seq[full:], ids.slice(full, len(seq)))] if self._open else []

    def drop(self, first: int) -> None:
        """Forget objects with ``seq < first``; identifiers go by chunks."""
        self._rows.drop(int(np.searchsorted(self.seq, first)))
        kept = -(-max(len(self) - self._open, 0) // CHUNK)
        if kept < len(self._full):
            self._full = self._full[len(self._full) - kept :]

    def ranges(self, after: Ints, upto: Ints) -> tuple[Ints, Ints]:
        """Return the ranges of `seq`, end excluded, of the objects with ``after < ts <= upto``."""
        first = np.searchsorted(self.ts, after, side="right")
        stop = np.searchsorted(self.ts, upto, side="right")
        return self._seq_at(first), self._seq_at(np.maximum(first, stop))

    def _seq_at(self, rows: Ints) -> Ints:
        """Return the `seq` of rows; behind the last row it is one more than that of the last."""
        if not len(self):
            return np.zeros(len(rows), np.int64)
        found: Ints = self.seq[np.minimum(rows, len(self) - 1)] + (rows == len(self))
        return found

    def first_after(self, ts: int) -> int:
        """Return the `seq` from which on all objects are younger than a time."""
        return int(self.ranges(np.array([ts]), np.array([ts]))[0][0])

    def ids(self, seq: Ints) -> Ids:
        """Return the identifiers of objects that are kept."""
        if not len(seq):
            return _NO_IDS
        parts = self._parts()
        begin = np.cumsum([0, *map(len, parts)])
        rows = np.searchsorted(self.seq, seq) + (begin[-1] - len(self))
        part = np.searchsorted(begin, rows, side="right") - 1
        order = np.argsort(part, kind="stable")
        rows, part = rows[order], part[order]
        ends = [*(np.flatnonzero(np.diff(part)) + 1).tolist(), len(part)]
        taken = [
            parts[part[start]].take(rows[start:end] - begin[part[start]])
            for start, end in zip([0, *ends[:-1]], ends, strict=True)
        ]
        back = np.empty(len(order), np.int64)
        back[order] = np.arange(len(order))
        return Ids.concat(taken).take(back)

    # --- state -------------------------------------------------------------------------------------------------------

    def snapshot(self) -> dict[str, Any]:
        """Return what is kept; full chunks of identifiers are parts, which are written once."""
        rest = Ids.concat([_NO_IDS, *(ids for _, ids in self._rest)])
        return {
            "seq": self.seq.copy(),
            "ts": self.ts.copy(),
            "full": [Part.of(f"identifiers-{digest}", ids) for digest, ids in self._full],
            "digests": [digest for digest, _ in self._full],
            "rest_seq": np.concatenate([np.empty(0, np.int64), *(seq for seq, _ in self._rest)]),
            "rest": rest,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Take over a snapshot."""
        self._rows = ColumnQueue(np.asarray(state["seq"]), np.asarray(state["ts"]))
        self._full = [(digest, part.value) for digest, part in zip(state["digests"], state["full"], strict=True)]
        self._open = len(state["rest"])
        self._rest = [(np.array(state["rest_seq"]), state["rest"])] if self._open else []

    @staticmethod
    def united(states: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """Return a state with the objects of several."""
        logs = [ArrivalLog() for _ in states]
        for log, state in zip(logs, states, strict=True):
            log.restore(state)
        seq = np.concatenate([np.empty(0, np.int64), *(log.seq for log in logs)])
        ts = np.concatenate([np.empty(0, np.int64), *(log.ts for log in logs)])
        ids = Ids.concat([_NO_IDS, *(log.ids(log.seq) for log in logs)])
        order = np.argsort(seq, kind="stable")
        whole = ArrivalLog()
        whole._add(seq[order], ts[order], ids.take(order))
        return whole.snapshot()
