"""Kept objects in states: full chunks are parts, known by a digest of what is in them, and written once."""

from collections.abc import Callable, Iterable, Sequence
from hashlib import blake2b
from typing import Any

import numpy as np

from operators.indexes.objects.object_index import Kept
from streams.state_parts import Part

__all__ = ["CHUNK", "digest_of", "restored", "saved", "united"]

#: Objects of a part. Every index cuts the stream at the same places of its own, so parts outlive a change of the index.
CHUNK = 8192

_COLUMNS = ("seq", "x", "y", "kw_off", "kw")


def digest_of(chunk: Kept) -> str:
    """Return a name for what is in a chunk that no other chunk has."""
    digest = blake2b(digest_size=16)
    for name in _COLUMNS:
        digest.update(np.ascontiguousarray(getattr(chunk, name)).data)
    return digest.hexdigest()


def saved(chunks: Iterable[tuple[str, Callable[[], Kept]]], rest: Kept, first: int, last: int) -> dict[str, Any]:
    """Return a state: full chunks by digest, the rest, the first `seq` that is not dropped, the last that was added."""
    parts = [Part(f"objects-{digest}", lambda make=make: _plain(make())) for digest, make in chunks]  # type: ignore[misc]
    return {"parts": parts, "rest": _plain(rest), "first": first, "last": last}


def _plain(chunk: Kept) -> dict[str, Any]:
    return {name: getattr(chunk, name) for name in _COLUMNS}


def restored(state: dict[str, Any]) -> Sequence[Kept]:
    """Return the chunks of a state, and what is in none; objects that were dropped are still in their chunks."""
    return [Kept(**part.value) for part in state["parts"]] + [Kept(**state["rest"])]


def united(states: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return a state with the objects of several that are not dropped.

    What one of them dropped may be younger than what another keeps, so one bound for all would not tell them apart.
    """
    chunks = ((chunk, int(np.searchsorted(chunk.seq, state["first"]))) for state in states for chunk in restored(state))
    kept = Kept.concat([Kept.empty(), *(chunk.slice(first, len(chunk)) for chunk, first in chunks)])
    last = max((state["last"] for state in states), default=-1)
    return saved((), kept.take(np.argsort(kept.seq, kind="stable")), 0, last)
