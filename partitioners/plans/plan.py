"""Plans: who gets what, as immutable values that travel in files.

A plan file is the only bridge from the offline to the online plane. It is a frame (`partitioners.plans.frames`) whose body
has kind, version, space, workers, values by name, and arrays by name as [type, shape, raw bytes].
"""

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike

from partitioners.columns import Csr, Points, Regions, Workers
from partitioners.plans.frames import FORMAT_VERSION, MAX_PLAN_BYTES, framed, packed_array, unframed, unpacked_array
from streams.errors import InputError, did_you_mean
from streams.geometry import Rect

__all__ = [
    "FORMAT_VERSION", "MAX_PLAN_BYTES", "MAX_WORKERS", "Plan", "check_plan", "load", "pack", "plan_fields", "plan_kind",
    "put_together", "save", "successor", "taken_apart", "unpack",
]  # fmt: skip

#: The most workers a plan may name.
MAX_WORKERS = 1 << 16

_MAGIC = b"WSPLAN\r\n"
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

    @property
    def unit_worker(self) -> Workers:
        """The worker of each unit that can move (`partitioners.plans.units`); empty where nothing can."""
        ...

    def with_units(self, units: ArrayLike, workers: ArrayLike) -> "Plan":
        """Return the next version of the plan, in which these units have these workers."""
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


def successor(plan: P, **changed: Any) -> P:
    """Return the next version of a plan with other fields; what was worked out from fields that stay is taken over."""
    entries = type(cast(Any, plan)).__dataclass_fields__
    near = {"near": plan} if "near" in entries else {}
    following: P = replace(cast(Any, plan), **({"version": cast(Any, plan).version + 1} | near | changed))
    return following


def check_plan(plan: Plan) -> None:
    """Raise unless what all plans share is in order."""
    if not 1 <= plan.workers <= MAX_WORKERS:
        raise InputError(f"a plan for {plan.workers} workers; expected 1 to {MAX_WORKERS}")
    if plan.version < 1:
        raise InputError(f"a plan of version {plan.version}; versions start at 1")


def pack(plan: Plan) -> bytes:
    """Return a plan as bytes: what a plan file holds."""
    body = taken_apart(plan)
    arrays = {name: packed_array(array) for name, array in body["arrays"].items()}
    return framed(_MAGIC, {**body, "arrays": arrays}, "plan")


def taken_apart(plan: Plan) -> dict[str, Any]:
    """Return a plan as plain values and arrays; processes that share memory share these arrays."""
    given = plan_fields(plan)
    arrays = {name: value for name, value in given.items() if isinstance(value, np.ndarray)}
    return {
        "kind": plan.kind,
        "version": plan.version,
        "space": list(plan.space.as_tuple()),
        "workers": plan.workers,
        "values": {name: value for name, value in given.items() if name not in arrays and name != "space"},
        "arrays": arrays,
    }


def plan_fields(plan: Plan) -> dict[str, Any]:
    """Return the fields that make a plan what it is, by name, but its version and its workers."""
    names = (f.name for f in fields(cast(Any, plan)) if f.init)
    return {name: getattr(plan, name) for name in names if name not in ("version", "workers")}


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
    return unframed(_MAGIC, data, "plan", path, _decoded)


def _decoded(body: Mapping[str, Any]) -> Plan:
    arrays = {name: unpacked_array(name, *parts) for name, parts in body["arrays"].items()}
    return put_together({**body, "arrays": arrays})


def put_together(body: Mapping[str, Any]) -> Plan:
    """Return the plan that was taken apart; arrays that are read-only are its own, others are copied."""
    kind = body["kind"]
    if kind not in _KINDS:
        near = did_you_mean(str(kind), _KINDS)
        raise InputError(f"a plan of the unknown kind '{kind}'{near}; known: {', '.join(sorted(_KINDS))}")
    make: Callable[..., Plan] = _KINDS[kind]
    plan = make(
        space=Rect(*body["space"]), workers=body["workers"], version=body["version"], **body["values"], **body["arrays"]
    )
    plan.check()
    return plan
