"""What epochs take on the clock, and processes of processor time and memory, while a topology runs."""

import time

import numpy as np
from numpy.typing import NDArray

from benchmarks.process_family import processor_s, together_gb
from topology.run import Progress

__all__ = ["EpochWatch"]

Floats = NDArray[np.float64]


class EpochWatch:
    """When each epoch was complete, by the clock; what processes have and took, around the epochs that are measured.

    Args:
        first: the epoch after which measuring begins.
        last: the last one that is measured.
    """

    def __init__(self, first: int, last: int) -> None:
        self._first, self._last = first, last
        self.complete: list[float] = []
        self.results: list[int] = []
        self.memory_gb: list[float] = []
        self._processor_s: list[dict[int, float]] = []

    def __call__(self, progress: Progress) -> None:
        """Note the time first: what looking takes is part of an epoch that is measured, or of none."""
        epoch = len(self.complete)
        self.complete.append(time.monotonic())
        self.results.append(progress.results)
        if epoch in (self._first, self._last):
            self.memory_gb.append(together_gb())
            self._processor_s.append(processor_s())

    def took_ms(self) -> Floats:
        """Return what passed on the clock in each epoch that is measured."""
        return np.diff(np.array(self.complete[self._first : self._last + 1])) * 1e3

    def changed(self) -> Floats:
        """Return the results of each epoch that is measured."""
        return np.diff(np.array(self.results[self._first : self._last + 1]))

    def worked_ms(self) -> Floats:
        """Return the processor time of each process, for an epoch that is measured."""
        before, after = self._processor_s
        worked = [after[process] - before[process] for process in after if process in before]
        return np.array(worked) * 1e3 / (self._last - self._first)
