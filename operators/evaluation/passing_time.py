"""How far time has gone by at an evaluator, where lists change with it: to the last record of a time that is complete.

Where messages leave a window because time goes by, between records too, it is the last complete time itself: a subscription
that ends before the next record ends with the list of that moment.
"""

import numpy as np

from operators.operator import Epoch
from streams.columns import Ints

__all__ = ["PassingTime"]


class PassingTime:
    """The times of query operations that are not complete yet; those of objects are known to who sends their lists.

    Args:
        between_records: lists change between records too.
    """

    def __init__(self, *, between_records: bool = False) -> None:
        self._between_records = between_records
        self.times: Ints = np.empty(0, np.int64)

    def note(self, times: Ints) -> None:
        """Remember the times of query operations."""
        self.times = np.append(self.times, times)

    def reached(self, epoch: Epoch, last: int | None) -> int | None:
        """Return how far time has gone by, None where no record has come since; `last` is the last complete time of objects.

        The end of the input is the last moment of all: time goes on to it wherever its record was sent.
        """
        mark = epoch.watermark
        complete = np.full(len(self.times), True) if mark is None else self.times < mark
        moments = self.times[complete].tolist()
        self.times = self.times[~complete]
        if last is not None:
            moments.append(last)
        if mark is not None and (epoch.final or self._between_records):
            moments.append(mark - 1)
        return max(moments, default=None)
