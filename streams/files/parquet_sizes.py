"""How large the rows of a Parquet batch are before they are decoded.

Parquet stores a repeated value once, so a file of a few kilobytes can hold gigabytes of text. Columns that are stored that
way stay encoded until it is known what their rows would take; rows beyond the limit never are.
"""

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from streams.columns import Ints
from streams.errors import InputError
from streams.files.parquet_footer import StoredColumn

__all__ = ["check_row_groups", "encoded_columns", "in_pieces", "row_bytes", "without"]

#: Below so many bytes a value, a column of texts is stored mostly by reference to a dictionary.
_FEW_BYTES = 8

#: About how much text is decoded at a time.
_PIECE_BYTES = 64 << 20


def _leaves(stored: Sequence[StoredColumn], names: Sequence[str]) -> Iterator[StoredColumn]:
    """Yield the stored columns that belong to these of the table."""
    return (column for column in stored if column.path.partition(".")[0] in names)


def check_row_groups(path: str, stored: Sequence[StoredColumn], names: Sequence[str], most: int) -> None:
    """Raise `InputError` for a row group that announces too many values in a column."""
    for column in _leaves(stored, names):
        if column.values > most:
            raise InputError(
                f"{path} has {column.values:,} values of '{column.path}' in row group {column.group + 1}, "
                f"more than the limit of {most:,}; write smaller row groups, or raise topology.limits.row_group_values"
            )


def encoded_columns(stored: Sequence[StoredColumn], names: Sequence[str]) -> list[str]:
    """Return the stored columns of texts that are so small that they must be mostly references to a dictionary."""
    few = {c.path for c in _leaves(stored, names) if c.texts and c.size < _FEW_BYTES * c.values}
    return sorted(few)


def row_bytes(column: Any) -> Ints:
    """Return the bytes of the texts of each row, decoded; 0 where there are none."""
    if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
        ends = np.cumsum(_numbers(column.value_lengths()))
        before = np.concatenate([np.zeros(1, np.int64), np.cumsum(row_bytes(column.flatten()))])
        return np.asarray(np.diff(before[ends], prepend=0))
    if pa.types.is_dictionary(column.type):
        return row_bytes(column.dictionary)[_numbers(column.indices)] * _valid(column)
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        return _numbers(pc.binary_length(column))
    return np.zeros(len(column), np.int64)


def _numbers(column: Any) -> Ints:
    return np.asarray(column.fill_null(0).to_numpy(zero_copy_only=False), np.int64)


def _valid(column: Any) -> NDArray[np.bool_]:
    return np.asarray(column.is_valid().to_numpy(zero_copy_only=False), np.bool_)


def without(column: Any, rows: NDArray[np.bool_]) -> Any:
    """Return a column with null in these rows, nothing decoded."""
    return column.take(pa.array(np.arange(len(column)), mask=rows))


def in_pieces(batch: Any, sizes: Ints) -> Iterator[tuple[int, int]]:
    """Yield first and last row (exclusive) of pieces of a batch that decode to a bounded size."""
    place = np.cumsum(sizes) // _PIECE_BYTES
    cuts = [0, *(np.flatnonzero(np.diff(place)) + 1).tolist(), len(batch)]
    yield from itertools.pairwise(cuts)
