"""Arrays by word that kernels count in."""

import numpy as np
from numpy.typing import NDArray

__all__ = ["WordScratch"]

Slots = NDArray[np.int32]


class WordScratch:
    """Counts by word, which are 0 between two uses, and room for a list of all words."""

    def __init__(self) -> None:
        self.counted: Slots = np.zeros(0, np.int32)
        self.named: Slots = np.zeros(0, np.int32)
        self.met: Slots = np.empty(0, np.int32)
        self.place: NDArray[np.int64] = np.empty(0, np.int64)

    def ready(self, words: int) -> tuple[Slots, Slots, Slots]:
        """Return the arrays that terms are counted in, with room for so many words, and one more in the list."""
        if words >= len(self.met):
            room = words + words // 2 + 16
            self.counted, self.named = np.zeros(room, np.int32), np.zeros(room, np.int32)
            self.met, self.place = np.empty(room, np.int32), np.empty(room, np.int64)
        return self.counted, self.named, self.met

    @property
    def nbytes(self) -> int:
        """Bytes in use."""
        return self.counted.nbytes + self.named.nbytes + self.met.nbytes + self.place.nbytes
