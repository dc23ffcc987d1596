"""The rule kmax: the k' best messages, k' between k and kmax (Yi et al., as Skype compares itself with, Section 8.1)."""

import numpy as np

from operators.indexes.topk.buffer_rule import Ask, Slots, Unlearned, ranked

__all__ = ["Kmax"]


class Kmax(Unlearned):
    """A buffer has the best messages and no others; it loses some as they expire, and is filled when fewer than k are left.

    Which messages are newer is not looked at, so the threshold rises with every message that enters a full buffer.

    Args:
        factor: kmax as a multiple of k; 3, as the paper found best for k = 20.
    """

    skyband = False

    def __init__(self, factor: float = 3.0) -> None:
        self._factor = factor

    def capacity(self, k: Slots) -> Slots:
        """Return kmax."""
        return np.asarray(np.maximum(np.round(self._factor * k), k), np.int32)

    def keep(self, k: Slots) -> Slots:
        """Return kmax: the worst one makes room for a better one."""
        return self.capacity(k)

    def ask(self, k: Slots) -> Ask:
        """Ask for the kmax best."""
        return ranked(self.capacity(k))
