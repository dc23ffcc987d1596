"""Columns that numpy has no type for: identifiers kept as given, and ragged rows (CSR)."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

__all__ = ["Ids", "csr_concat", "csr_slice", "csr_take", "distinct", "sorted_rows", "union_of", "without"]

IdKind = Literal["int", "text", "json"]
Ints = NDArray[np.int64]
Offsets = NDArray[np.int32]

_INT64 = range(-(2**63), 2**63)


@dataclass(frozen=True, slots=True, eq=False)
class Ids:
    """Identifiers as the user wrote them: 7 stays a number and "7" a string.

    A column is one of three kinds: ``int`` (an int64 array), ``text`` (an Arrow string array) or, where both occur,
    ``json`` (an Arrow string array in which each value is the identifier's JSON text).
    """

    kind: IdKind
    values: Any  # an int64 array or a pa.StringArray: pyarrow has no types to say so

    @classmethod
    def of(cls, values: Iterable[int | str]) -> "Ids":
        """Make a column from Python values."""
        items = list(values)
        if all(type(v) is int and v in _INT64 for v in items):
            return cls("int", np.array(items, dtype=np.int64))
        if all(isinstance(v, str) for v in items):
            return cls("text", pa.array(items, pa.string()))
        return cls("json", pa.array([json.dumps(v, ensure_ascii=False) for v in items], pa.string()))

    def __len__(self) -> int:
        return len(self.values)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ids) and self.to_list() == other.to_list()

    __hash__ = None  # type: ignore[assignment]  # a column is not a key

    def to_list(self) -> list[int | str]:
        """Return the identifiers as Python values."""
        items: list[int | str] = self.values.tolist() if self.kind == "int" else self.values.to_pylist()
        return [json.loads(v) for v in items] if self.kind == "json" else items  # type: ignore[arg-type]

    def json_texts(self) -> list[str]:
        """Return each identifier as JSON text, ready for a results line."""
        if self.kind == "int":
            return list(map(str, self.values.tolist()))
        items: list[str] = self.values.to_pylist()
        return items if self.kind == "json" else [json.dumps(v, ensure_ascii=False) for v in items]

    def codes(self) -> tuple[Ints, "Ids"]:
        """Return a small number for each identifier, the same for the same, and the identifiers by these numbers."""
        if self.kind == "int":
            distinct, codes = np.unique(self.values, return_inverse=True)
            return codes.astype(np.int64), Ids("int", distinct)
        encoded = self.values.dictionary_encode()
        codes = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        return codes, Ids(self.kind, encoded.dictionary)

    def take(self, rows: NDArray[np.integer]) -> "Ids":
        """Return the identifiers of these rows."""
        if self.kind == "int":
            return Ids("int", self.values.take(rows))
        return Ids(self.kind, self.values.take(pa.array(rows)))

    def slice(self, start: int, stop: int) -> "Ids":
        """Return rows start to stop, without copying."""
        if self.kind == "int":
            return Ids("int", self.values[start:stop])
        return Ids(self.kind, self.values.slice(start, max(stop - start, 0)))

    @classmethod
    def concat(cls, parts: Sequence["Ids"]) -> "Ids":
        """Put columns one after the other; different kinds become ``json``."""
        filled = [part for part in parts if len(part)] or list(parts[:1])
        if not filled:
            return cls("int", np.empty(0, np.int64))
        if len(filled) == 1:
            return filled[0]
        kinds = {part.kind for part in filled}
        if len(kinds) > 1:
            filled = [cls("json", pa.array(part.json_texts(), pa.string())) for part in filled]
        kind = filled[0].kind
        if kind == "int":
            return cls("int", np.concatenate([part.values for part in filled]))
        return cls(kind, pa.concat_arrays([part.values for part in filled]))


def csr_take(off: Offsets, values: NDArray[np.generic], rows: NDArray[np.integer]) -> tuple[Offsets, NDArray]:  # type: ignore[type-arg]
    """Return offsets and values of these ragged rows; time and memory grow with what is returned."""
    new_off, source = csr_places(off, rows)
    return new_off, values.take(source)


def csr_places(off: Offsets, rows: NDArray[np.integer]) -> tuple[Offsets, Ints]:
    """Return the offsets of these ragged rows, and the places of their values."""
    starts = off[:-1].take(rows).astype(np.int64)  # take: twice as fast as an index in brackets
    lengths = off[1:].take(rows) - starts
    new_off = np.zeros(len(rows) + 1, np.int64)
    np.cumsum(lengths, out=new_off[1:])
    source = np.repeat(starts - new_off[:-1], lengths)
    source += np.arange(len(source))
    return new_off.astype(np.int32), source


def csr_slice(off: Offsets, values: NDArray[np.generic], start: int, stop: int) -> tuple[Offsets, NDArray]:  # type: ignore[type-arg]
    """Return ragged rows start to stop; the values are not copied."""
    part = off[start : stop + 1]
    return part - part[0], values[part[0] : part[-1]]


def csr_concat(parts: Sequence[tuple[Offsets, NDArray]]) -> tuple[Offsets, NDArray]:  # type: ignore[type-arg]
    """Put ragged columns one after the other."""
    sizes = np.cumsum([0] + [off[-1] for off, _ in parts])
    offsets = [np.zeros(1, np.int32)] + [off[1:] + base for (off, _), base in zip(parts, sizes, strict=False)]
    return np.concatenate(offsets).astype(np.int32), np.concatenate([values for _, values in parts])


def distinct(values: NDArray[np.integer]) -> NDArray[Any]:
    """Return the distinct values, ascending, by sorting; numpy's own goes by hash, which takes several times as long."""
    ordered = np.sort(values)
    return ordered if len(ordered) < 2 else ordered[np.append(True, ordered[1:] != ordered[:-1])]


def union_of(*parts: NDArray[np.integer]) -> NDArray[Any]:
    """Return the distinct values of several arrays, ascending; those that ascend are merged, in a third of the time."""
    filled = [part for part in parts if len(part)]
    if not filled:
        return parts[0]
    if not all((part[1:] > part[:-1]).all() for part in filled):
        return distinct(np.concatenate(filled))
    if len(filled) == 1:
        return filled[0]
    ordered: NDArray[Any] = np.sort(np.concatenate(filled), kind="stable")
    new: NDArray[Any] = ordered[np.append(True, ordered[1:] != ordered[:-1])]
    return new


def without(values: NDArray[np.integer], others: NDArray[np.integer]) -> NDArray[Any]:
    """Return the values, in their order, that are not among others."""
    return values if not len(values) or not len(others) else values[~np.isin(values, others)]


def sorted_rows(row: Ints, value: Ints, rows: int) -> tuple[Offsets, Ints]:
    """Make ragged rows of ascending, distinct values from (row, value) pairs, the rows in non-decreasing order."""
    order = np.lexsort((value, row))
    row, value = row[order], value[order]
    keep = np.ones(len(row), np.bool_)
    keep[1:] = (row[1:] != row[:-1]) | (value[1:] != value[:-1])
    off = np.zeros(rows + 1, np.int32)
    np.cumsum(np.bincount(row[keep], minlength=rows), out=off[1:])
    return off, value[keep]
