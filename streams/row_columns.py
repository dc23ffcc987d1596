"""Rows over columns: what all batches can do, whatever columns they have."""

from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from streams.columns import Ids, csr_concat, csr_places, csr_slice

__all__ = ["RowColumns"]


class RowColumns:
    """Row operations over dataclass fields; `RAGGED` names the ragged columns of a class as (offsets, values)."""

    __slots__ = ()
    RAGGED: tuple[tuple[str, tuple[str, ...]], ...] = ()

    #: The columns that have one value a row.
    PLAIN: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls) -> None:
        ragged = {name for off, values in cls.RAGGED for name in (off, *values)}
        cls.PLAIN = tuple(name for name in cls.__annotations__ if name not in ragged)

    @classmethod
    def empty(cls) -> Self:
        """Return a batch of no rows."""
        raise NotImplementedError

    def __len__(self) -> int:
        return len(getattr(self, self.PLAIN[0]))

    def take(self, rows: NDArray[np.integer]) -> Self:
        """Return a batch of these rows, in this order."""
        made: dict[str, Any] = {}
        for name in self.PLAIN:
            column = getattr(self, name)
            made[name] = column.take(rows) if isinstance(column, Ids) else column.take(rows, axis=0)
        for off_name, value_names in self.RAGGED:
            off = getattr(self, off_name)
            if off[-1] == 0:  # a column that most batches do not use
                made |= {
                    off_name: np.zeros(len(rows) + 1, np.int32),
                    **{name: getattr(self, name) for name in value_names},
                }
                continue
            made[off_name], places = csr_places(off, rows)
            made |= {name: getattr(self, name).take(places) for name in value_names}
        return type(self)(**made)

    def where(self, keep: NDArray[np.bool_]) -> Self:
        """Return the rows that are kept, in their order: this batch itself where all are."""
        if keep.all():
            return self
        return self.take(np.flatnonzero(keep)) if keep.any() else self.empty()

    def slice(self, start: int, stop: int) -> Self:
        """Return rows start to stop (as Python slices them) without copying."""
        start, stop, _ = slice(start, stop).indices(len(self))
        if stop - start == len(self):
            return self
        stop = max(start, stop)
        made: dict[str, Any] = {}
        for name in self.PLAIN:
            column = getattr(self, name)
            made[name] = column.slice(start, stop) if isinstance(column, Ids) else column[start:stop]
        for off_name, value_names in self.RAGGED:
            off = getattr(self, off_name)
            for name in value_names:
                values = getattr(self, name)
                if isinstance(values, Ids):
                    made[off_name] = off[start : stop + 1] - off[start]
                    made[name] = values.slice(int(off[start]), int(off[stop]))
                else:
                    made[off_name], made[name] = csr_slice(off, values, start, stop)
        return type(self)(**made)

    @classmethod
    def concat(cls, parts: Sequence[Self]) -> Self:
        """Put batches one after the other; there must be at least one."""
        parts = [part for part in parts if len(part)] or list(parts[:1])
        if len(parts) == 1:
            return parts[0]
        first = parts[0]

        def joined(columns: list[Any]) -> Any:
            return Ids.concat(columns) if isinstance(columns[0], Ids) else np.concatenate(columns)

        made = {name: joined([getattr(part, name) for part in parts]) for name in cls.PLAIN}
        for off_name, value_names in first.RAGGED:
            offsets = [getattr(part, off_name) for part in parts]
            made[off_name], _ = csr_concat([(off, np.empty(0, np.int8)) for off in offsets])
            for name in value_names:
                made[name] = joined([getattr(part, name) for part in parts])
        return cls(**made)
