"""The objects that lists name: a row for each, however many lists name it, for as long as one does.

Rows are appended. When there are twice as many as were named the last time, those that lists still name are written anew.
"""

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from operators.indexes.core.growth import grown
from streams.columns import Ids, Ints

__all__ = ["ObjectRows"]

Rows = NDArray[np.int32]

#: So many more rows than were named the last time are worth a look at all lists.
SMALLEST_REWRITE = 4096


class ObjectRows:
    """Places in the input and identifiers of objects, by row.

    Attributes:
        seq: the place of each object in the input.
        top: rows in use, also those that no list names any more.
    """

    def __init__(self) -> None:
        self.seq: Ints = np.empty(0, np.int64)
        self.top = 0
        self._named = 0
        self._ids = _IdColumn()

    @property
    def nbytes(self) -> int:
        """Bytes in use."""
        return 8 * self.top + self._ids.nbytes

    def reserve(self, more: int) -> None:
        """Make room for more rows, which a kernel may fill."""
        if self.top + more > len(self.seq):
            seq = np.empty(2 * (self.top + more) + 64, np.int64)
            seq[: self.top] = self.seq[: self.top]
            self.seq = seq

    def name(self, ids: Ids) -> None:
        """Give identifiers to rows that a kernel has filled behind the others, in their order."""
        self._ids.append(ids)
        self.top += len(ids)

    def append(self, seq: Ints, ids: Ids) -> Rows:
        """Add objects; return their rows."""
        self.reserve(len(seq))
        rows = np.arange(self.top, self.top + len(seq), dtype=np.int32)
        self.seq[rows] = seq
        self.name(ids)
        return rows

    @property
    def numbered(self) -> Ints | None:
        """The identifiers by row where all are numbers; there may be room behind them."""
        return self._ids.numbers

    def ids(self, rows: Rows) -> Ids:
        """Return the identifiers of rows."""
        return self._ids.take(rows)

    @property
    def crowded(self) -> bool:
        """Whether most rows may be named by no list any more."""
        return self.top > 2 * self._named + SMALLEST_REWRITE

    def rewrite(self, named: NDArray[np.bool_]) -> Rows:
        """Keep the rows that lists name; return the new row of each old one."""
        kept = np.flatnonzero(named).astype(np.int32)
        self.seq = self.seq[kept]
        ids = self._ids.take(kept)
        self._ids = _IdColumn()
        self._ids.append(ids)
        self.top = self._named = len(kept)
        return (np.cumsum(named) - 1).astype(np.int32)


class _IdColumn:
    """Identifiers one after the other: numbers in one array with room for more, texts in parts of growing size.

    So appending copies little, and a number is looked up as fast as any column of its kind.
    """

    def __init__(self) -> None:
        self._numbers: Ints = np.empty(0, np.int64)
        self._count = 0
        self._parts: list[Ids] = []

    @property
    def nbytes(self) -> int:
        return 8 * self._count + sum(int(part.values.nbytes) for part in self._parts)

    @property
    def numbers(self) -> Ints | None:
        return None if self._parts else self._numbers

    def append(self, ids: Ids) -> None:
        if not len(ids):
            return
        if ids.kind == "int" and not self._parts:
            count = self._count + len(ids)
            if count > len(self._numbers):
                self._numbers = grown(self._numbers[: self._count], 2 * count + 64)
            self._numbers[self._count : count] = ids.values
            self._count = count
            return
        parts = [Ids("int", self._numbers[: self._count]), *self._parts, ids] if self._count else [*self._parts, ids]
        while len(parts) > 1 and len(parts[-2]) < 2 * len(parts[-1]):
            last = parts.pop()
            parts[-1] = Ids.concat([parts[-1], last])
        if len({part.kind for part in parts}) > 1:
            parts = [Ids.concat(parts)]
        self._parts, self._numbers, self._count = parts, np.empty(0, np.int64), 0

    def take(self, rows: Rows) -> Ids:
        if not self._parts:
            return Ids("int", self._numbers.take(rows))
        if len(self._parts) == 1:
            return self._parts[0].take(rows)
        values = pa.chunked_array([part.values for part in self._parts]).take(pa.array(rows))
        return Ids(self._parts[0].kind, values.combine_chunks())
