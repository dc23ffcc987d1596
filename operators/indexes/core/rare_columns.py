"""Columns of queries that most workloads never use: a column takes memory from the first query on that says something else.

A continuous range query has no k, no alpha, no window, no slide and nothing to detect; an index that holds nothing else has no
such columns, and everything it returns still has them whole. Saved states follow the same rule: an empty column stands for
usual values.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streams.batches import NO_WINDOW, TYPE_RANGE, QueryBatch

__all__ = ["RARE_COLUMNS", "RareColumns", "saved_rare", "whole_rare"]

Columns = dict[str, NDArray[Any]]

#: Name in a `QueryBatch` -> the usual value, in the column's type.
RARE_COLUMNS: Mapping[str, np.generic] = {
    "type": np.uint8(TYPE_RANGE),
    "continuous": np.bool_(True),
    "k": np.int32(0),
    "alpha": np.float64(0.0),
    "window": np.int64(NO_WINDOW),
    "slide": np.int64(0),
    "detect": np.uint8(0),
}


def saved_rare(queries: QueryBatch) -> Columns:
    """Return the rare columns of queries for a saved state: empty where all values are the usual one."""
    columns = {name: getattr(queries, name) for name in RARE_COLUMNS}
    return {name: column if (column != RARE_COLUMNS[name]).any() else column[:0] for name, column in columns.items()}


def whole_rare(columns: Mapping[str, NDArray[Any]], count: int) -> Columns:
    """Return the rare columns of a saved state with a value for each of its queries."""
    return {
        name: np.asarray(columns[name]) if len(columns[name]) else np.full(count, usual)
        for name, usual in RARE_COLUMNS.items()
    }


#: The usual values as they lie in memory, for columns of a length that indexes take in at once.
_USUAL_BYTES = {name: np.full(8192, usual).tobytes() for name, usual in RARE_COLUMNS.items()}


def _says_more(name: str, values: NDArray[Any]) -> bool:
    """Tell whether a column has any other value than the usual one.

    Bytes are compared, which for the usual column takes a fraction of what any look at its numbers does.
    """
    usual = RARE_COLUMNS[name]
    if values.dtype == usual.dtype and values.tobytes() == _USUAL_BYTES[name][: values.nbytes]:
        return False
    return bool(np.count_nonzero(values != usual))


class RareColumns:
    """The rare columns by slot, as far as they are in use.

    Args:
        elsewhere: those that the table keeps in rows of its own; they are the usual ones here.
    """

    def __init__(self, *elsewhere: str) -> None:
        self._kept = [name for name in RARE_COLUMNS if name not in elsewhere]
        self._columns: Columns = {}

    @property
    def row_bytes(self) -> int:
        """Bytes that a row takes."""
        return sum(column.itemsize for column in self._columns.values())

    def write(self, slots: NDArray[np.int32], queries: QueryBatch, room: int) -> None:
        """File the values of queries, into columns of so many rows."""
        for name in self._kept:
            values, usual = getattr(queries, name), RARE_COLUMNS[name]
            if name not in self._columns:
                if not _says_more(name, values):
                    continue
                self._columns[name] = np.full(room, usual)
            elif len(self._columns[name]) < room:
                grown = np.full(room, usual)
                grown[: len(self._columns[name])] = self._columns[name]
                self._columns[name] = grown
            self._columns[name][slots] = values  # usual ones too: a slot may have had another query before

    def read(self, slots: NDArray[np.int32]) -> Columns:
        """Return all rare columns of slots."""
        return {name: self.column(name, slots) for name in RARE_COLUMNS}

    def column(self, name: str, slots: NDArray[np.int32]) -> NDArray[Any]:
        """Return one rare column of slots."""
        return self._columns[name][slots] if name in self._columns else np.full(len(slots), RARE_COLUMNS[name])
