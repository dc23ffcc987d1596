"""Hotspots put into a stream on purpose, to see how a topology withstands them (Tornado, Section 5.4).

An injection changes what a spout reads between `start` and `start + duration` of event time: it shrinks places towards a
point, adds objects or queries in a region, adds a keyword, or repeats objects. What it does to a record depends on the
record and the seed alone, never on how the input is cut; so the oracle applies the same injection and stays the judge.
A record is known here by a key, made of its number in the input; `seq` is given at the end, to all that is left, without holes.
Deletions of dynamic objects are left alone.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from streams.batches import FOREVER, OP_REGISTER, OP_UPSERT, ObjectBatch, QueryBatch
from streams.columns import Ids, Ints, sorted_rows
from streams.errors import DeclarationError, brief
from streams.geometry import REGION_POLYGON, REGION_RECT, Rect
from streams.timestamps import MAX_TS
from streams.vocabulary import Encoder

__all__ = ["MAX_COPIES", "Injection", "inject_objects", "injected_queries"]

InjectionKind = Literal["condense", "objects", "queries", "keyword", "rate"]
Flags = NDArray[np.bool_]

#: Copies of an object get keys between its own and that of the next record.
COPY_SPACING = 1 << 10
MAX_COPIES = COPY_SPACING - 1

#: How many registrations serve as patterns for injected queries, and how many may be injected.
MAX_PATTERNS = 1_000
MAX_INJECTED_QUERIES = 5_000_000


@dataclass(frozen=True, slots=True)
class Injection:
    """One disturbance of the input.

    Attributes:
        kind: ``condense`` shrinks places towards `at` by `strength` (0.4 leaves four tenths of the distance);
            ``objects`` adds `strength` objects in `region` for each one; ``rate`` repeats each object `strength` times
            where it is; ``keyword`` adds `keyword` to objects; ``queries`` registers `strength` queries in `region`.
        start: event time, in milliseconds or ISO 8601; the start of the stream where it is not given.
        duration: milliseconds; for ever where it is not given.
        share: the part of the objects that is touched, from 0 to 1.
        seed: of what is chosen and where it goes.
    """

    kind: InjectionKind
    start: int | str | None = None
    duration: int | None = None
    strength: float = 1.0
    share: float = 1.0
    at: tuple[float, ...] | None = None
    region: Rect | None = None
    keyword: str | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        needs = {"condense": "at", "objects": "region", "queries": "region", "keyword": "keyword"}.get(self.kind)
        if needs is not None and getattr(self, needs) is None:
            raise DeclarationError(f"an injection of kind '{self.kind}' needs '{needs}'")
        if self.at is not None and (len(self.at) != 2 or not all(map(math.isfinite, self.at))):
            raise DeclarationError(f"at = {brief(list(self.at))}, expected [x, y], finite numbers")
        if not 0.0 <= self.share <= 1.0:
            raise DeclarationError(f"share = {self.share}, expected a number from 0 to 1")
        most = {"condense": 1.0, "queries": float(MAX_INJECTED_QUERIES)}.get(self.kind, float(MAX_COPIES))
        if not 0.0 <= self.strength <= most:
            raise DeclarationError(f"strength = {self.strength}, expected a number from 0 to {most:g}")
        if self.duration is not None and not 1 <= self.duration < MAX_TS:
            raise DeclarationError(f"duration = {brief(self.duration)}, expected at least 1 (milliseconds)")
        if self.kind == "queries" and self.duration is None:
            raise DeclarationError(
                "an injection of kind 'queries' needs a 'duration': the queries come evenly spread over it"
            )
        if self.start is not None and not -MAX_TS < self.first_ms() < MAX_TS:
            raise DeclarationError(f"start = {brief(self.start)}, expected milliseconds or ISO 8601")

    def first_ms(self) -> int:
        """Return the start in milliseconds."""
        if isinstance(self.start, str):
            try:
                when = datetime.fromisoformat(self.start)
            except ValueError:
                raise DeclarationError(f"start = {brief(self.start)}, expected milliseconds or ISO 8601") from None
            return round((when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp() * 1000)
        return int(np.iinfo(np.int64).min) if self.start is None else self.start

    def last_ms(self) -> int:
        """Return the end in milliseconds, exclusive."""
        return FOREVER if self.duration is None else self.first_ms() + self.duration

    def during(self, ts: Ints) -> Flags:
        """Tell which times are within."""
        return (ts >= self.first_ms()) & (ts < self.last_ms())


def _uniform(keys: Ints, seed: int, salt: int) -> NDArray[np.float64]:
    """Return a number in [0, 1) for each key: a hash, so that it does not depend on the other rows."""
    with np.errstate(over="ignore"):
        z = keys.astype(np.uint64) + np.uint64((seed * 0x9E3779B97F4A7C15 + salt * 0xD1B54A32D192ED03) % 2**64)
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            z = (z ^ (z >> np.uint64(shift))) * np.uint64(factor)
        z ^= z >> np.uint64(31)
    return (z >> np.uint64(11)).astype(np.float64) * 2.0**-53


def inject_objects(
    batch: ObjectBatch,
    record: Ints,
    mine: Flags,
    injections: Sequence[Injection],
    space: Rect,
    encoder: Encoder,
    first: int = 0,
) -> tuple[ObjectBatch, Flags]:
    """Return a batch of objects with all injections applied, in the order given, and whose rows they are.

    Args:
        batch: the objects.
        record: the number of the input record of each.
        mine: which of them this reader is to emit.
        injections: what to do to them.
        space: where objects may be.
        encoder: turns an added keyword into its id.
        first: the `seq` of the first object that is returned.
    """
    adds = any(injection.kind in ("objects", "rate") for injection in injections)
    key = record * COPY_SPACING if adds else record
    for number, injection in enumerate(injections):
        if injection.kind == "condense":
            batch = _condensed(batch, key, injection, space)
        elif injection.kind == "keyword":
            batch = _with_keyword(batch, key, mine, injection, encoder)
        elif injection.kind in ("objects", "rate"):
            source, key, is_copy = _copies(batch, key, injection)
            batch, mine = _copied(batch.take(source), key, is_copy, number, injection, space), mine[source]
    return _with(batch, seq=np.arange(first, first + len(batch))), mine


def _with(batch: ObjectBatch, **columns: object) -> ObjectBatch:
    names = ("seq", "ts", "x", "y", "op", "kw_off", "kw", "ids")
    return ObjectBatch(**{name: columns.get(name, getattr(batch, name)) for name in names})  # type: ignore[arg-type]


def _touched(batch: ObjectBatch, key: Ints, injection: Injection) -> Flags:
    chosen = injection.during(batch.ts) & (_uniform(key, injection.seed, 1) < injection.share)
    return np.asarray(chosen & (batch.op == OP_UPSERT))


def _condensed(batch: ObjectBatch, key: Ints, injection: Injection, space: Rect) -> ObjectBatch:
    assert injection.at is not None
    touched = _touched(batch, key, injection)
    moved = []
    for values, centre, low, high in zip(
        (batch.x, batch.y), injection.at, (space.min_x, space.min_y), (space.max_x, space.max_y), strict=True
    ):
        near = np.clip(centre + (values - centre) * injection.strength, low, high)
        moved.append(np.where(touched, near, values))
    return _with(batch, x=moved[0], y=moved[1])


def _with_keyword(batch: ObjectBatch, key: Ints, mine: Flags, injection: Injection, encoder: Encoder) -> ObjectBatch:
    assert injection.keyword is not None
    rows = np.flatnonzero(_touched(batch, key, injection) & mine)
    row = np.concatenate([np.repeat(np.arange(len(batch)), np.diff(batch.kw_off)), rows])
    added = np.full(len(rows), encoder.words([injection.keyword])[0], np.int64)
    off, kw = sorted_rows(row, np.concatenate([batch.kw, added]), len(batch))
    return _with(batch, kw_off=off, kw=kw)


def _copies(batch: ObjectBatch, key: Ints, injection: Injection) -> tuple[Ints, Ints, Flags]:
    """Say what copies there are, behind their originals: a whole number of them, and one more with the chance of the rest.

    Returned are for each row its source in the batch, its key, and whether it is a copy.
    """
    whole, rest = divmod(injection.strength, 1.0)
    copies = np.where(_touched(batch, key, injection), whole + (_uniform(key, injection.seed, 2) < rest), 0)
    repeat = copies.astype(np.int64) + 1
    source = np.repeat(np.arange(len(batch)), repeat)
    place = np.arange(len(source)) - np.repeat(np.cumsum(repeat) - repeat, repeat)
    return source, _keys(key[source] // COPY_SPACING), place > 0


def _copied(
    batch: ObjectBatch, key: Ints, is_copy: Flags, number: int, injection: Injection, space: Rect
) -> ObjectBatch:
    """Give copies their own ids and, where the injection has a region, their own places."""
    x, y = batch.x, batch.y
    if injection.region is not None:
        region = _clipped(injection.region, space)
        x = np.where(is_copy, region.min_x + _uniform(key, injection.seed, 3) * (region.max_x - region.min_x), x)
        y = np.where(is_copy, region.min_y + _uniform(key, injection.seed, 4) * (region.max_y - region.min_y), y)
    return _with(batch, ids=_ids_of_copies(batch.ids, key, is_copy, number), x=x, y=y)


def _keys(record: Ints) -> Ints:
    """Number the rows behind each input record from its own key on."""
    first = np.flatnonzero(np.concatenate([[True], record[1:] != record[:-1]])) if len(record) else record
    rank = np.arange(len(record)) - np.repeat(first, np.diff(np.append(first, len(record))))
    if len(rank) and rank.max() > MAX_COPIES:
        raise DeclarationError(f"injections make more than {MAX_COPIES} copies of one object; lower their strength")
    return record * COPY_SPACING + rank


def _clipped(region: Rect, space: Rect) -> Rect:
    """Return the part of a region that is in the space; raise where there is none."""
    return Rect(
        max(region.min_x, space.min_x),
        max(region.min_y, space.min_y),
        min(region.max_x, space.max_x),
        min(region.max_y, space.max_y),
    )


def _ids_of_copies(ids: Ids, key: Ints, is_copy: Flags, number: int) -> Ids:
    """Give copies ids of their own, made of their keys."""
    named = [f"inject-{number}-{one}" for one in key[is_copy].tolist()]
    rows = np.arange(len(ids))
    rows[is_copy] = len(ids) + np.arange(len(named))
    return Ids.concat([ids, Ids("text", pa.array(named, pa.string()))]).take(rows) if named else ids


def injected_queries(patterns: QueryBatch, number: int, injection: Injection, space: Rect) -> QueryBatch:
    """Return the registrations that an injection of queries adds, in the order of time.

    Each takes keywords and shape from one of the patterns (the first registrations of the input) and a place in the
    region; it lives to the end of the injection. Its number is negative, so it cannot be that of a query from a file.
    """
    assert injection.region is not None
    assert injection.duration is not None
    usable = patterns.take(np.flatnonzero((patterns.op == OP_REGISTER) & patterns.continuous))
    count = int(injection.strength) if len(usable) else 0
    key = np.arange(count)
    made = usable.take((_uniform(key, injection.seed, 5) * len(usable)).astype(np.int64))
    region = _clipped(injection.region, space)
    x = region.min_x + _uniform(key, injection.seed, 6) * (region.max_x - region.min_x)
    y = region.min_y + _uniform(key, injection.seed, 7) * (region.max_y - region.min_y)
    names = -1 - (number * (MAX_INJECTED_QUERIES + 1) + key)
    pace, rest = divmod(injection.duration, max(count, 1))  # apart, so that no product leaves 64 bits
    columns = {f: getattr(made, f) for f in QueryBatch.__dataclass_fields__}
    columns |= {
        "number": names,
        "target": names,
        "ts": injection.first_ms() + pace * key + rest * key // max(count, 1),
        "end": np.full(count, injection.last_ms(), np.int64),
        **_moved(made, x, y),
        "ids": Ids("text", pa.array([f"inject-{number}-{i}" for i in range(count)], pa.string())),
    }
    return QueryBatch(**columns)


def _moved(queries: QueryBatch, x: NDArray[np.float64], y: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
    """Return the shapes and rings of queries around new centres."""
    shape, kind = queries.shape, queries.region
    moved = shape.copy()
    rect, polygon = kind == REGION_RECT, kind == REGION_POLYGON
    half_x, half_y = (shape[:, 2] - shape[:, 0]) / 2, (shape[:, 3] - shape[:, 1]) / 2
    moved[rect] = np.stack([x - half_x, y - half_y, x + half_x, y + half_y], axis=1)[rect]
    # A sum never falls as one of its parts rises, so what was the box around a polygon still is, once both are moved alike.
    by_x, by_y = x - half_x - shape[:, 0], y - half_y - shape[:, 1]
    moved[polygon] = (shape + np.stack([by_x, by_y, by_x, by_y], axis=1))[polygon]
    other = ~rect & ~polygon
    moved[other, 0], moved[other, 1] = x[other], y[other]
    vertices = np.diff(queries.ring_off)
    return {
        "shape": moved,
        "ring_x": queries.ring_x + np.repeat(by_x, vertices),
        "ring_y": queries.ring_y + np.repeat(by_y, vertices),
    }
