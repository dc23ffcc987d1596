"""Plans: who gets what, as immutable values that travel in files.

A plan file is the only bridge from the offline to the online plane. It is msgpack behind a checksum, arrays as raw
bytes of a few permitted types, and nothing in it is ever executed:

    bytes 0..7    magic
    bytes 8..9    version of the format, little-endian
    bytes 10..41  BLAKE2b over magic, version and body
    body          msgpack: kind, version, space, workers, values by name, arrays by name as [type, shape, raw bytes]
"""

import hashlib
import struct
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar, cast

import msgpack
import numpy as np
from numpy.typing import NDArray

from partitioners.columns import Csr, Points, Regions
from streams.codec import unpack_plain
from streams.errors import InputError, WaterspoutError, did_you_mean
from streams.geometry import Rect

__all__ = [
    "FORMAT_VERSION", "MAX_PLAN_BYTES", "MAX_WORKERS", "Plan", "check_plan", "load", "pack", "plan_kind", "save", "unpack",
]  # fmt: skip

FORMAT_VERSION = 1

#: The largest plan file that is read or written, and the most workers a plan may name.
MAX_PLAN_BYTES = 1 << 30
MAX_WORKERS = 1 << 16

_MAGIC = b"WSPLAN\r\n"
_VERSION = struct.Struct("<H")
_BODY = len(_MAGIC) + _VERSION.size + 32
_DTYPES = {code: np.dtype(code) for code in ("<i8", "<i4", "<f8", "|u1", "|b1")}
_KINDS: dict[str, type[Any]] = {}

P = TypeVar("P")


class Plan(Protocol):
    """Who gets what.

    For every object and every query that it matches, some worker gets both; where `meets_once` is true, exactly one
    does. Rows of workers are ascending and distinct, and depend on the plan and the row alone, so that all routers
    agree. `version` counts the plans of a run: a rebalancing replaces a plan by its successor.
    """

    kind: ClassVar[str]

    @property
    def version(self) -> int:
        """The number of this plan among those of a run, from 1."""
        ...

    @property
    def space(self) -> Rect:
        """The space that the plan divides."""
        ...

    @property
    def workers(self) -> int:
        """How many workers the plan distributes to, numbered from 0."""
        ...

    @property
    def meets_once(self) -> bool:
        """Whether a matching pair meets at one worker only; otherwise see `partitioners.plans.meeting`."""
        ...

    @property
    def reads_words(self) -> bool:
        """Whether routes depend on keywords; where not, points and regions need not have any."""
        ...

    @property
    def single_home(self) -> bool:
        """Whether every query is held by exactly one worker."""
        ...

    def route_points(self, points: Points) -> Csr:
        """Return the workers that must see each object."""
        ...

    def route_regions(self, regions: Regions) -> Csr:
        """Return the workers that must hold each query.

        Plans that send objects everywhere and queries to one worker choose by the number or the place of a query.
        """
        ...

    def check(self) -> None:
        """Raise `InputError` unless the plan covers its space and names existing workers only."""
        ...


def plan_kind(cls: type[P]) -> type[P]:
    """Register a class of plans under its `kind`, so that files of it can be loaded."""
    _KINDS[cast(Any, cls).kind] = cls
    return cls


def check_plan(plan: Plan) -> None:
    """Raise unless what all plans share is in order."""
    if not 1 <= plan.workers <= MAX_WORKERS:
        raise InputError(f"a plan for {plan.workers} workers; expected 1 to {MAX_WORKERS}")
    if plan.version < 1:
        raise InputError(f"a plan of version {plan.version}; versions start at 1")


def pack(plan: Plan) -> bytes:
    """Return a plan as bytes: what a plan file holds."""
    values: dict[str, Any] = {}
    arrays: dict[str, Any] = {}
    for field in (f for f in fields(cast(Any, plan)) if f.init):
        value = getattr(plan, field.name)
        if isinstance(value, np.ndarray):
            arrays[field.name] = [value.dtype.str, list(value.shape), np.ascontiguousarray(value).tobytes()]
        elif field.name not in ("space", "workers", "version"):
            values[field.name] = value
    body: bytes = msgpack.packb(
        {
            "kind": plan.kind,
            "version": plan.version,
            "space": list(plan.space.as_tuple()),
            "workers": plan.workers,
            "values": values,
            "arrays": arrays,
        }
    )
    if len(body) > MAX_PLAN_BYTES - _BODY:
        raise InputError(f"plan of {len(body):,} bytes exceeds {MAX_PLAN_BYTES:,}; build it with a coarser grid")
    head = _MAGIC + _VERSION.pack(FORMAT_VERSION)
    return head + _digest(head, body) + body


def save(plan: Plan, path: str | Path) -> None:
    """Write a plan file; a file of that name is replaced only when the new one is complete."""
    path = Path(path)
    packed = pack(plan)
    partial = path.with_name(path.name + ".part")
    try:
        partial.write_bytes(packed)
        partial.replace(path)
    except OSError as error:
        raise InputError(f"{path}: cannot write the plan: {error.strerror or error}") from error


def load(path: str | Path) -> Plan:
    """Read a plan file; raise `InputError` for anything that is not a whole plan of this version."""
    path = Path(path)
    try:
        with path.open("rb") as file:  # read to the limit: the size that a file tells need not be true
            data = file.read(MAX_PLAN_BYTES + 1)
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot read the plan: {getattr(error, 'strerror', None) or error}") from error
    if len(data) > MAX_PLAN_BYTES:
        raise InputError(f"{path}: more than {MAX_PLAN_BYTES:,} bytes, which is the most that a plan may have")
    return unpack(data, str(path))


def unpack(data: bytes, path: str = "plan") -> Plan:
    """Return the plan that was packed; `path` names it in an error."""
    head, body = data[: len(_MAGIC) + _VERSION.size], data[_BODY:]
    if not head.startswith(_MAGIC) or len(data) < _BODY:
        raise InputError(f"{path}: not a plan file; make one with 'waterspout build'")
    (version,) = _VERSION.unpack(head[len(_MAGIC) :])
    if version != FORMAT_VERSION:
        raise InputError(f"{path}: a plan of format {version}, expected {FORMAT_VERSION}; build it again")
    if data[len(head) : _BODY] != _digest(head, body):
        raise InputError(f"{path}: the plan is damaged (its checksum differs); build or copy it again")
    try:
        return _decoded(unpack_plain(body, strict_map_key=True))
    except WaterspoutError as error:
        raise InputError(f"{path}: {error}") from error
    except Exception as error:  # whatever a body of another make trips over: it is one and the same fault
        raise InputError(f"{path}: not a plan of ours: {type(error).__name__}: {str(error)[:200]}") from error


def _digest(head: bytes, body: bytes) -> bytes:
    return hashlib.blake2b(head + body, digest_size=32).digest()


def _decoded(body: Mapping[str, Any]) -> Plan:
    kind = body["kind"]
    if kind not in _KINDS:
        near = did_you_mean(str(kind), _KINDS)
        raise InputError(f"a plan of the unknown kind '{kind}'{near}; known: {', '.join(sorted(_KINDS))}")
    arrays = {name: _array(name, *parts) for name, parts in body["arrays"].items()}
    make: Callable[..., Plan] = _KINDS[kind]
    plan = make(
        space=Rect(*body["space"]), workers=body["workers"], version=body["version"], **body["values"], **arrays
    )
    plan.check()
    return plan


def _array(name: str, code: str, shape: list[int], raw: bytes) -> NDArray[Any]:
    if code not in _DTYPES:
        raise InputError(f"array '{name}' has type '{code}', expected one of {sorted(_DTYPES)}")
    if any(size < 0 for size in shape) or np.prod(shape, dtype=object) * _DTYPES[code].itemsize != len(raw):
        raise InputError(f"array '{name}' has {len(raw)} bytes, which is not {shape} of '{code}'")
    return np.frombuffer(raw, _DTYPES[code]).reshape(shape)
