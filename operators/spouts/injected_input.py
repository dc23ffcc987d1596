"""Readers with injections applied: what spouts read, and what the oracle reads."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streams.batches import OP_REGISTER, ObjectBatch, QueryBatch, RejectBatch
from streams.geometry import Rect
from streams.injection import MAX_PATTERNS, Injection, inject_objects, injected_queries
from streams.vocabulary import Encoder

__all__ = ["InjectedChunk", "InjectedQueries", "injected_objects", "whole_objects", "whole_queries"]


@dataclass(frozen=True, slots=True, eq=False)
class InjectedChunk:
    """A chunk whose rows are not only those of the input."""

    batch: Any
    rejects: RejectBatch
    records: int
    refused: int
    mine: NDArray[np.bool_] | None = None


def injected_objects(
    chunks: Iterable[Any], injections: Sequence[Injection], space: Rect, encoder: Encoder, first: int = 0
) -> Iterator[Any]:
    """Yield the chunks of a reader of objects with the injections applied, and numbered from `first` on as it was."""
    if not injections:
        yield from chunks
        return
    for chunk in chunks:
        batch, mine = inject_objects(chunk.batch, chunk.record, chunk.mine, injections, space, encoder, first)
        first += len(batch)
        yield InjectedChunk(batch, chunk.rejects, chunk.records, chunk.refused, mine)


class InjectedQueries:
    """The chunks of a reader of queries, with the registrations of injections merged in by time.

    Attributes:
        taken: how many injected registrations were yielded; with it, a restored reader goes on where it was.
    """

    def __init__(
        self,
        read: Callable[[], Iterator[Any]],
        first: Callable[[], Iterator[Any]],
        injections: Sequence[Injection],
        space: Rect,
        taken: int = 0,
    ) -> None:
        """Take a function that opens the reader, one that opens it at the start of the input, and what to inject."""
        self._read = read
        self.taken = taken
        wanted = [(number, injection) for number, injection in enumerate(injections) if injection.kind == "queries"]
        self._injected = QueryBatch.empty()
        if wanted:
            patterns = _patterns(first())
            added = QueryBatch.concat([injected_queries(patterns, number, one, space) for number, one in wanted])
            self._injected = added.take(np.argsort(added.ts, kind="stable"))

    def __iter__(self) -> Iterator[Any]:
        """Yield merged chunks."""
        for chunk in self._read():
            yield self._merged(chunk)
        if self.taken < len(self._injected):
            rest = self._injected.slice(self.taken, len(self._injected))
            self.taken = len(self._injected)
            yield InjectedChunk(rest, RejectBatch.of("", [], []), 0, 0)

    def _merged(self, chunk: Any) -> Any:
        batch: QueryBatch = chunk.batch
        if not len(batch) or self.taken == len(self._injected):
            return chunk
        stop = int(np.searchsorted(self._injected.ts, batch.ts[-1], side="left"))
        if stop <= self.taken:
            return chunk
        both = QueryBatch.concat([batch, self._injected.slice(self.taken, stop)])
        self.taken = stop
        return InjectedChunk(both.take(np.argsort(both.ts, kind="stable")), chunk.rejects, chunk.records, chunk.refused)


def _patterns(chunks: Iterator[Any]) -> QueryBatch:
    """Return the first registrations of the input."""
    found: list[QueryBatch] = [QueryBatch.empty()]
    for chunk in chunks:
        batch: QueryBatch = chunk.batch
        found.append(batch.take(np.flatnonzero(batch.op == OP_REGISTER)[:MAX_PATTERNS]))
        if sum(map(len, found)) >= MAX_PATTERNS:
            break
    return QueryBatch.concat(found).slice(0, MAX_PATTERNS)


def whole_objects(chunks: Iterable[Any]) -> ObjectBatch:
    """Return all objects of a reader as one batch."""
    return ObjectBatch.concat([ObjectBatch.empty(), *(chunk.batch for chunk in chunks)])


def whole_queries(chunks: Iterable[Any]) -> QueryBatch:
    """Return all query operations of a reader as one batch."""
    return QueryBatch.concat([QueryBatch.empty(), *(chunk.batch for chunk in chunks)])
