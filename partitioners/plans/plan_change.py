"""What changes between two versions of a plan: a plan is sent once, its successors as differences.

A change is worked out field by field, whatever the kind of plan. What is equal is left out; of an array that differs in few
places the places travel and what they hold; of one that grew, what was inserted. An assignment of ten million subscriptions
of which a thousand move is so some ten kilobytes, not a hundred megabytes.

Where rows were inserted is found out from the columns that ascend, as tables of subscriptions do; all other columns
grew at the same places, or at their end.
"""

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from partitioners.columns import Ints
from partitioners.plans.frames import framed, packed_array, unframed, unpacked_array
from partitioners.plans.plan import Plan, plan_fields, successor
from streams.errors import InputError, WaterspoutError
from streams.geometry import Rect

__all__ = ["ArrayChange", "PlanChange", "change_between", "changed", "pack_change", "unpack_change"]

_MAGIC = b"WSDIFF\r\n"

AnyArray = NDArray[Any]
P = TypeVar("P", bound=Plan)


@dataclass(frozen=True, slots=True, eq=False)
class ArrayChange:
    """What makes the new array of the old one.

    Attributes:
        inserted: the places of new rows, counted in the new array; where there are none, rows stay as they are.
        rows: the new rows.
        place, value: the places that hold something else, counted in the flat new array, and what they hold.
    """

    inserted: Ints
    rows: AnyArray
    place: Ints
    value: AnyArray

    @property
    def size(self) -> int:
        """About how many bytes it takes."""
        return self.inserted.nbytes + self.rows.nbytes + self.place.nbytes + self.value.nbytes


@dataclass(frozen=True, slots=True, eq=False)
class PlanChange:
    """The difference between two versions of a plan; it fits the version that it was made from, and no other.

    Attributes:
        kind, before, after: the kind of plan, and the versions between which it leads.
        base: a checksum of the older version.
        values: fields that are no arrays, with their new values.
        arrays: arrays that are sent whole.
        parts: arrays of which only the differences are sent.
    """

    kind: str
    before: int
    after: int
    base: int
    values: Mapping[str, Any]
    arrays: Mapping[str, AnyArray]
    parts: Mapping[str, ArrayChange]


def change_between(old: Plan, new: Plan) -> PlanChange:
    """Return what makes `new` of `old`; raise unless both are of one kind, for as many workers."""
    if (old.kind, old.workers) != (new.kind, new.workers) or new.version <= old.version:
        raise InputError(
            f"version {new.version} of a plan '{new.kind}' for {new.workers} workers cannot follow version "
            f"{old.version} of a plan '{old.kind}' for {old.workers}"
        )
    before, after = plan_fields(old), plan_fields(new)
    inserted = _insertions(before, after)
    values: dict[str, Any] = {}
    arrays: dict[str, AnyArray] = {}
    parts: dict[str, ArrayChange] = {}
    for name, value in after.items():
        if not isinstance(value, np.ndarray):
            if value != before[name]:
                values[name] = value
        elif value is not before[name] and not _same(before[name], value):
            part = _part(before[name], value, inserted)
            if part is None or part.size >= value.nbytes:
                arrays[name] = value
            else:
                parts[name] = part
    return PlanChange(old.kind, old.version, new.version, _checksum(old), values, arrays, parts)


def changed(old: P, change: PlanChange) -> P:
    """Return the plan that a change makes of an older one; raise unless the change was made from that very plan."""
    if (change.kind, change.before) != (old.kind, old.version) or change.base != _checksum(old):
        raise InputError(
            f"a change from version {change.before} of a plan '{change.kind}' does not fit this version {old.version} "
            f"of a plan '{old.kind}'; send the plan itself"
        )
    if change.after <= change.before:
        raise InputError(f"a change from version {change.before} to {change.after} of a plan; versions ascend")
    before = plan_fields(old)
    named = {**change.values, **change.arrays, **change.parts}
    if len(named) != len(change.values) + len(change.arrays) + len(change.parts) or not set(named) <= set(before):
        raise InputError(f"a change of the fields {', '.join(sorted(map(str, named)))[:200]} of a plan '{old.kind}'")
    for name, given in named.items():
        wanted = np.ndarray if isinstance(given, ArrayChange) else type(given)
        if type(before[name]) is not wanted:
            raise InputError(f"a change gives the field '{name}' of a plan '{old.kind}' another type")
    try:
        arrays = {name: _applied(name, before[name], part) for name, part in change.parts.items()}
        new = successor(old, version=change.after, **change.values, **change.arrays, **arrays)
        new.check()
    except WaterspoutError as error:
        raise InputError(f"a change of a plan '{old.kind}' makes no plan: {error}") from error
    except Exception as error:  # what a plan of ours never has: a value of another type, a shape that does not fit
        raise InputError(f"not a change of ours: {type(error).__name__}: {str(error)[:200]}") from error
    return new


def pack_change(change: PlanChange) -> bytes:
    """Return a change as bytes."""
    values = {name: list(v.as_tuple()) if isinstance(v, Rect) else v for name, v in change.values.items()}
    parts = {
        name: [packed_array(column) for column in (part.inserted, part.rows, part.place, part.value)]
        for name, part in change.parts.items()
    }
    body = {"kind": change.kind, "before": change.before, "after": change.after, "base": change.base, "values": values}
    arrays = {name: packed_array(array) for name, array in change.arrays.items()}
    return framed(_MAGIC, body | {"arrays": arrays, "parts": parts}, "change of a plan")


def unpack_change(data: bytes, path: str = "change of a plan") -> PlanChange:
    """Return the change that was packed; `path` names it in an error."""
    return unframed(_MAGIC, data, "change of a plan", path, _decoded)


def _decoded(body: Mapping[str, Any]) -> PlanChange:
    kind, before, after, base = (body[name] for name in ("kind", "before", "after", "base"))
    if type(kind) is not str or any(type(number) is not int for number in (before, after, base)):
        raise InputError(f"a change between the versions {before!r:.60} and {after!r:.60} of a plan {kind!r:.60}")
    values = dict(body["values"])
    if "space" in values:
        values["space"] = Rect(*values["space"])
    arrays = {name: unpacked_array(name, *parts) for name, parts in body["arrays"].items()}
    parts = {
        name: ArrayChange(*(unpacked_array(name, *column) for column in four)) for name, four in body["parts"].items()
    }
    for name, part in parts.items():
        if part.inserted.dtype != np.int64 or part.place.dtype != np.int64 or part.value.dtype != part.rows.dtype:
            raise InputError(f"a change of '{name}' has places that are no whole numbers, or values of several types")
    return PlanChange(kind, before, after, base, values, arrays, parts)


def _same(old: AnyArray, new: AnyArray) -> bool:
    """Tell whether two arrays hold the same bits; NaN is equal to itself here, and 0.0 is not -0.0."""
    return old.shape == new.shape and old.dtype == new.dtype and bool((_bits(old) == _bits(new)).all())


def _bits(array: AnyArray) -> AnyArray:
    whole = np.ascontiguousarray(array)
    return whole.view(f"i{whole.dtype.itemsize}") if whole.dtype.kind == "f" else whole


def _insertions(before: Mapping[str, Any], after: Mapping[str, Any]) -> Ints:
    """Return the places of new rows, by the first column that ascends and has kept all that it had."""
    for name, new in after.items():
        old = before[name]
        if not isinstance(new, np.ndarray) or new.ndim != 1 or new.dtype != np.int64 or len(new) <= len(old):
            continue
        if (np.diff(new) > 0).all() and (np.diff(old) > 0).all():
            place = np.searchsorted(new, old)
            if (new[np.minimum(place, len(new) - 1)] == old).all():
                fresh = np.ones(len(new), np.bool_)
                fresh[place] = False
                return np.flatnonzero(fresh)
    return np.empty(0, np.int64)


def _part(old: AnyArray, new: AnyArray, inserted: Ints) -> ArrayChange | None:
    """Return the differences of an array, or None where rows went away or values are of another form."""
    grown = len(new) - len(old)
    if old.ndim != new.ndim or old.shape[1:] != new.shape[1:] or old.dtype != new.dtype or grown < 0:
        return None
    where = inserted if len(inserted) == grown else np.arange(len(old), len(new))
    kept = new if grown == 0 else np.delete(new, where, axis=0)
    place = np.flatnonzero(_bits(old).ravel() != _bits(kept).ravel())
    return ArrayChange(where.astype(np.int64), new[where], place, kept.ravel()[place])


def _applied(name: str, old: AnyArray, part: ArrayChange) -> AnyArray:
    for what, places, size in (
        ("inserts", part.inserted, len(old) + len(part.inserted)),
        ("sets", part.place, old.size),
    ):
        ascends = places.ndim == 1 and (np.diff(places) > 0).all()
        if not ascends or (len(places) and not 0 <= places[0] <= places[-1] < size):
            raise InputError(f"a change of '{name}' {what} places that do not ascend below {size:,}")
    if part.rows.shape != (len(part.inserted), *old.shape[1:]) or part.value.shape != part.place.shape:
        raise InputError(f"a change of '{name}' has other numbers of places and of values")
    if part.rows.dtype != old.dtype or part.value.dtype != old.dtype:
        raise InputError(f"a change of '{name}' holds {part.value.dtype}, expected {old.dtype}")
    kept = old.copy()
    kept.reshape(-1)[part.place] = part.value
    if not len(part.inserted):
        return kept
    new = np.empty((len(old) + len(part.inserted), *old.shape[1:]), old.dtype)
    fresh = np.zeros(len(new), np.bool_)
    fresh[part.inserted] = True
    new[fresh], new[~fresh] = part.rows, kept
    return new


def _checksum(plan: Plan) -> int:
    """Return a checksum over all that a plan is made of: as fast as memory is read, and made again rather than kept."""
    total = zlib.crc32(repr((plan.kind, plan.version, plan.workers)).encode())
    for name, value in plan_fields(plan).items():
        total = zlib.crc32(name.encode(), total)
        if isinstance(value, np.ndarray):
            total = zlib.crc32(repr((value.dtype.str, value.shape)).encode(), total)
            total = zlib.crc32(cast(Any, np.ascontiguousarray(value)), total)
        else:
            total = zlib.crc32(repr(value).encode(), total)
    return total
