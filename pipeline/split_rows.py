"""Numbering the records of a split of a file, which Spark does not do.

Spark gives every row a number that grows within its task (`monotonically_increasing_id`). A task reads a split in one
go, so a record's number minus that of the first record of the split is its row, whatever else the task reads.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["SplitRows", "source_numbers"]

Ints = NDArray[np.int64]


class SplitRows:
    """Counts rows within splits over the batches of one task, which arrive in reading order."""

    def __init__(self) -> None:
        self._split: tuple[int, int] | None = None
        self._start = 0

    def rows(self, source: NDArray[np.integer], block: Ints, place: Ints) -> Ints:
        """Return each record's row in its split; a split is a file (`source`) and a first byte (`block`)."""
        new = np.ones(len(source), np.bool_)
        new[1:] = (source[1:] != source[:-1]) | (block[1:] != block[:-1])
        starts = place[new].copy()
        if (int(source[0]), int(block[0])) == self._split:
            starts[0] = self._start
        self._split, self._start = (int(source[-1]), int(block[-1])), int(starts[-1])
        return np.asarray(place - starts[np.cumsum(new) - 1], np.int64)


def source_numbers(paths: Any, sources: Mapping[str, int]) -> NDArray[np.int32]:
    """Return the number of each record's file; paths are the names that Spark gives."""
    coded = paths.dictionary_encode()
    numbers = np.array([sources[path] for path in coded.dictionary.to_pylist()], np.int32)
    return np.asarray(numbers[coded.indices.to_numpy(zero_copy_only=False)], np.int32)
