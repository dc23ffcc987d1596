"""Hashes of field values that every process computes alike, and that do not depend on how a column is held."""

import hashlib
import json
from collections.abc import Sequence
from typing import Any

import msgpack
import numpy as np
from numpy.typing import NDArray

from streams.columns import Ids

__all__ = ["hash_columns", "places_by_hash"]

Hashes = NDArray[np.uint64]
_MASK = (1 << 64) - 1


def _mix(values: Hashes) -> Hashes:
    """Finish as splitmix64 does: every bit of the input moves half of the bits of the output."""
    z = values + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def _hash_bytes(data: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little")


def _hash_value(value: Any) -> int:
    """Hash one value; equal numbers hash alike, whether they are integers, floats or booleans."""
    if isinstance(value, bool | int | float) and value == value // 1 and -(2**63) <= value < 2**63:
        return int(_mix(np.array([int(value) & _MASK], np.uint64))[0])
    if isinstance(value, float):
        return int(_mix(np.array([value]).view(np.uint64))[0])
    if isinstance(value, str):
        return _hash_bytes(value.encode("utf-8", "surrogatepass"))
    return _hash_bytes(msgpack.packb(value, default=str))


def _hash_column(column: Any) -> Hashes:
    if isinstance(column, Ids) and column.kind != "int":
        encoded = column.values.dictionary_encode()
        words = encoded.dictionary.to_pylist()
        values = [json.loads(word) for word in words] if column.kind == "json" else words
        hashed = np.array([_hash_value(value) for value in values], np.uint64)
        rows: NDArray[np.int64] = encoded.indices.to_numpy(zero_copy_only=False)
        return hashed[rows]
    if isinstance(column, list):
        return np.array([_hash_value(value) for value in column], np.uint64)
    array = column.values if isinstance(column, Ids) else column
    if array.dtype.kind == "f":
        whole = (array == np.floor(array)) & (np.abs(array) < 2.0**63)
        integers = np.where(whole, array, 0.0).astype(np.int64).view(np.uint64)
        return _mix(np.where(whole, integers, array.astype(np.float64).view(np.uint64)))
    integers = np.asarray(array).astype(np.int64).view(np.uint64)
    return _mix(integers)


def hash_columns(columns: Sequence[Any]) -> Hashes:
    """Return a hash for each row of one or more columns."""
    with np.errstate(over="ignore"):
        combined = _hash_column(columns[0])
        for column in columns[1:]:
            combined = _mix(combined * np.uint64(31) ^ _hash_column(column))
        return combined


def places_by_hash(columns: Sequence[Any], tasks: int, *, by_remainder: bool = False) -> NDArray[np.int64]:
    """Return which of some tasks has each row of one or more columns.

    By remainder, the one column is the number of a query, and the plan divides queries among evaluators in the same way: what
    one evaluator has then stays together.
    """
    if by_remainder:
        return np.asarray(columns[0] % tasks, np.int64)
    return (hash_columns(columns) % np.uint64(tasks)).astype(np.int64)
