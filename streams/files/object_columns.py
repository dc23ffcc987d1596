"""Objects as a file has them, in columns, and what is wrong with each.

Every format brings its columns into this form, so that all of them reject the same things with the same words.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from streams.batches import OP_DELETE
from streams.columns import Ids, Ints
from streams.errors import did_you_mean
from streams.files.file_blocks import ReadLimits
from streams.files.keyword_columns import KeywordColumns
from streams.files.object_fields import OPERATIONS, Field
from streams.files.objections import Objections, shown
from streams.geometry import Rect
from streams.timestamps import TIME_EXPECTED

__all__ = ["Location", "ObjectColumns", "settle"]

Flags = NDArray[np.bool_]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Location:
    """The two coordinates, and for each row whether it names them lon, lat (else x, y)."""

    x: Field
    y: Field
    geographic: Flags


@dataclass(frozen=True, slots=True, eq=False)
class ObjectColumns:
    """Objects of a block; the values of a row with an objection mean nothing, and a deletion without a place is at NaN.

    `geographic` tells whether any of them names its place lon, lat.
    """

    ids: Ids
    ts: Ints
    x: Floats
    y: Floats
    op: NDArray[np.uint8]
    keywords: KeywordColumns
    objections: Objections
    geographic: bool = False

    def __len__(self) -> int:
        return len(self.ts)

    def take(self, rows: Ints) -> "ObjectColumns":
        """Return the columns of these rows, each of them once."""
        return ObjectColumns(
            self.ids.take(rows), self.ts[rows], self.x[rows], self.y[rows], self.op[rows], self.keywords.take(rows),
            self.objections.take(rows), self.geographic,
        )  # fmt: skip

    @classmethod
    def concat(cls, parts: list["ObjectColumns"]) -> "ObjectColumns":
        """Put the objects of blocks one after the other; there must be at least one block."""
        if len(parts) == 1:
            return parts[0]
        return cls(
            Ids.concat([part.ids for part in parts]),
            np.concatenate([part.ts for part in parts]),
            np.concatenate([part.x for part in parts]),
            np.concatenate([part.y for part in parts]),
            np.concatenate([part.op for part in parts]),
            KeywordColumns.concat([part.keywords for part in parts]),
            Objections.concat([part.objections for part in parts]),
            any(part.geographic for part in parts),
        )


def settle(
    ids: Field,
    ts: Field,
    at: Location,
    op: Field,
    keywords: KeywordColumns,
    space: Rect,
    limits: ReadLimits,
    objections: Objections,
) -> ObjectColumns:
    """Check all columns of a block, field by field; the first thing that is wrong with a record is its reason."""
    objections.note(ids.missing, lambda _: "no id")
    objections.note(ids.bad, lambda row: f"id is {shown(ids.found(row))}, expected a string or an integer")
    objections.note(ts.missing, lambda _: "no ts")
    objections.note(ts.bad, lambda row: f"ts is {shown(ts.found(row))}, expected {TIME_EXPECTED}")
    _check_location(at, op.values == OP_DELETE, space, objections)
    objections.note(op.bad, lambda row: _unknown_operation(op.found(row)))
    keywords.note_objections(objections, limits.keywords)
    _check_length(ids.values, limits.id_bytes, objections)
    geographic = bool((at.geographic & ~at.x.missing & ~objections.bad).any())
    return ObjectColumns(ids.values, ts.values, at.x.values, at.y.values, op.values, keywords, objections, geographic)


def _check_length(ids: Ids, most: int, objections: Objections) -> None:
    """Note the ids that are too long; where ids of both kinds are kept as JSON, what counts is the id itself."""
    if ids.kind == "int":
        return
    sizes = pc.binary_length(ids.values).to_numpy(zero_copy_only=False)
    for row in np.flatnonzero((sizes > most) & ~objections.bad).tolist():
        text = ids.values[row].as_py()
        found = len(json.loads(text).encode()) if ids.kind == "json" and text.startswith('"') else int(sizes[row])
        if found > most:
            objections.note_row(row, f"an id of {found} bytes, longer than the limit of {most}")


def _unknown_operation(found: Any) -> str:
    near = did_you_mean(found, OPERATIONS) if isinstance(found, str) else ""
    return f"op is {shown(found)}, expected upsert or delete{near}"


def _check_location(at: Location, deletes: Flags, space: Rect, objections: Objections) -> None:
    """Note what is wrong with places; a deletion needs none, but one that it has must be one."""
    x, y = at.x.values, at.y.values
    inside = space.contains(x, y)
    if inside.all() and not (at.x.bad.any() or at.y.bad.any()):
        return  # so all of them are there, and finite
    nowhere = at.x.missing & at.y.missing
    needed = ~(nowhere & deletes)
    objections.note(nowhere & needed, lambda _: "no location, expected x and y or lon and lat")
    _check_coordinate(at.x, needed, lambda row: "lon" if at.geographic[row] else "x", objections)
    _check_coordinate(at.y, needed, lambda row: "lat" if at.geographic[row] else "y", objections)
    where = f"is outside the space {list(space.as_tuple())}"
    objections.note_many(~inside & needed, lambda rows: _told_places(x[rows], y[rows], where))


def _told_places(x: Floats, y: Floats, where: str) -> list[str]:
    """Return a sentence for each place, with numbers as Python writes them.

    Arrow writes them several times as fast, and alike but for whole, tiny and huge ones.
    """
    texts = (pc.cast(pa.array(axis), pa.string()) for axis in (x, y))
    told: list[str] = pc.binary_join_element_wise("(", next(texts), ", ", next(texts), f") {where}", "").to_pylist()
    for row in np.flatnonzero(~(_usual(x) & _usual(y))).tolist():
        told[row] = f"({x[row].item()!r}, {y[row].item()!r}) {where}"
    return told


def _usual(values: Floats) -> Flags:
    """Tell which numbers have a fraction, and neither need an exponent."""
    size = np.abs(values)
    usual: Flags = (size >= 1e-3) & (size < 1e9) & (values != np.trunc(values))
    return usual


def _number(found: Any) -> str:
    return "a number with a decimal point" if isinstance(found, str) and "," in found else "a number"


def _check_coordinate(field: Field, needed: Flags, name: Callable[[int], str], objections: Objections) -> None:
    values = field.values
    objections.note(field.missing & needed, lambda row: f"no {name(row)}")
    objections.note(
        field.bad, lambda row: f"{name(row)} is {shown(found := field.found(row))}, expected {_number(found)}"
    )
    objections.note(np.isnan(values) & needed, lambda row: f"{name(row)} is NaN, expected a finite number")
    objections.note(np.isinf(values), lambda row: f"{name(row)} is infinite, expected a finite number")
