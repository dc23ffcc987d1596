"""Records read from files but not emitted yet: what lets a spout know which time comes next."""

from collections.abc import Iterator, Sequence
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from streams.batches import ObjectBatch, QueryBatch, RejectBatch

__all__ = ["Chunk", "ReadAhead", "merged_parts"]

#: After so many records that cannot be used a spout emits them, even where there is nothing else to emit.
MOST_REFUSED = 65_536

B = TypeVar("B", ObjectBatch, QueryBatch)


class Chunk(Protocol):
    """What a reader yields: accepted rows, rejects, and how many input records both are made of."""

    @property
    def batch(self) -> Any:
        """Return the accepted rows."""

    @property
    def rejects(self) -> RejectBatch:
        """Return the records that could not be used."""

    @property
    def records(self) -> int:
        """Return the number of input records."""

    @property
    def refused(self) -> int:
        """Return how many of them cannot be used."""


class ReadAhead(Generic[B]):
    """A buffer in front of a reader. It holds the rows asked for, and at most a chunk more; the same of rejects.

    Attributes:
        rows: accepted rows that were not taken yet.
        mine: for each of them, whether this task is to emit it (parallel readers share one input).
        records: how many input records were read.
        watermark: the largest timestamp read, or None.
    """

    def __init__(self, chunks: Iterator[Any], empty: B) -> None:
        self._chunks = chunks
        self.rows: B = empty
        self.mine: NDArray[np.bool_] = np.empty(0, np.bool_)
        self.rejects: list[RejectBatch] = []
        self.records = 0
        self.watermark: int | None = None
        self.ended = False

    def fill(self, rows: int) -> None:
        """Read until so many rows are here, the input has ended, or so many records were refused that they must go on.

        All tasks that share an input count all refused records, not only their own, so they stop at the same place.
        """
        refused = 0
        while len(self.rows) < rows and not self.ended and refused < MOST_REFUSED:
            chunk = next(self._chunks, None)
            if chunk is None:
                self.ended = True
                return
            if not chunk.records and not len(chunk.batch):
                return  # nothing more has come yet
            self.records += chunk.records
            refused += chunk.refused
            if len(chunk.rejects):
                self.rejects.append(chunk.rejects)
            if len(chunk.batch):
                mine = getattr(chunk, "mine", None)
                mine = np.ones(len(chunk.batch), np.bool_) if mine is None else mine
                self.rows = type(self.rows).concat([self.rows, chunk.batch])
                self.mine = np.concatenate([self.mine, mine])
                self.watermark = int(chunk.batch.ts[-1])

    def take(self, rows: int) -> B:
        """Remove the first rows and return those of them that are this task's to emit."""
        taken, mine = self.rows.slice(0, rows), self.mine[:rows]
        self.rows, self.mine = self.rows.slice(rows, len(self.rows)), self.mine[rows:]
        return taken if mine.all() else taken.take(np.flatnonzero(mine))

    def snapshot(self) -> dict[str, Any]:
        """Return the position in the input and the rows that were read but not taken."""
        return {
            "records": self.records,
            "watermark": self.watermark,
            "rows": self.rows,
            "mine": self.mine,
            "rejects": list(self.rejects),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Take over a snapshot; the reader must start behind its `records`."""
        self.records, self.watermark = state["records"], state["watermark"]
        self.rows, self.mine, self.rejects = state["rows"], state["mine"], list(state["rejects"])


def merged_parts(states: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Put together what the readers of one input had read ahead, each with the keywords of its own rows only.

    All of them read alike, so they hold the same rows in the same order, and each row is one reader's own.
    """
    rows = type(states[0]["rows"]).concat([state["rows"].take(np.flatnonzero(state["mine"])) for state in states])
    whole = rows.take(np.argsort(rows.seq, kind="stable"))
    rejects = [batch for state in states for batch in state["rejects"]]
    return {**states[0], "rows": whole, "mine": np.ones(len(whole), np.bool_), "rejects": rejects}
