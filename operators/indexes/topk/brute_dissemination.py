"""Every subscription against every message: what the other structures of dissemination are held against."""

import numpy as np
from numpy.typing import NDArray

from operators.indexes.topk.scored_pairs import PROBE_BITS, Verifier, known_messages
from operators.indexes.topk.scored_table import ScoredTable
from operators.indexes.topk.topk_index import Hits, Messages, joined_hits

__all__ = ["BruteForce"]

Slots = NDArray[np.int32]

#: Pairs that are looked at together, which bounds the scratch arrays.
PAIRS = 1 << 20


class BruteForce:
    """A list of all slots."""

    def __init__(self, table: ScoredTable) -> None:
        self._table, self._verifier = table, Verifier(table)
        self._slots: Slots = np.empty(0, np.int32)

    def add(self, slots: Slots) -> None:
        """Take in subscriptions."""
        self._slots = np.concatenate([self._slots, slots])

    def discard(self, slots: Slots) -> None:
        """Remove subscriptions."""
        self._slots = np.setdiff1d(self._slots, slots, assume_unique=True)

    def retune(self, slots: Slots) -> None:
        """Do nothing: thresholds are looked at where they are."""

    def probe(self, messages: Messages) -> Hits:
        """Score all pairs."""
        known = known_messages(messages, self._table)
        slots, found = self._slots.astype(np.int64) << PROBE_BITS, []
        step = max(1, PAIRS // max(1, len(slots)))
        for first in range(0, len(known), step):
            probes = np.arange(first, min(first + step, len(known)))
            found.append(self._verifier.hits((slots | probes[:, None]).ravel(), known))
        return joined_hits(found)

    @property
    def nbytes(self) -> int:
        """Bytes in use."""
        return self._slots.nbytes + self._verifier.nbytes
