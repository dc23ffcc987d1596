"""Hotspots and faults side by side: what an ``[[inject]]`` table, a call of the builder or an argument can be."""

import dataclasses
import typing
from collections.abc import Iterable, Mapping
from typing import Any

from streams.errors import DeclarationError, brief, did_you_mean
from streams.injection import Injection, InjectionKind
from topology.conversion import from_plain
from topology.declaration import Topology
from topology.faults import FAULT_KINDS, Fault

__all__ = ["Disturbance", "disturbances", "with_disturbances"]

#: One of them, or the keys of its table.
Disturbance = Injection | Fault | Mapping[str, Any]

HOTSPOT_KINDS: tuple[str, ...] = typing.get_args(InjectionKind)
_PATH = ("inject",)


def disturbances(given: Iterable[Disturbance]) -> tuple[tuple[Injection, ...], tuple[Fault, ...]]:
    """Return the hotspots and the faults among what was given, made of their keys by their kind."""
    made = [one if isinstance(one, Injection | Fault) else _made(one) for one in given]
    return (
        tuple(one for one in made if isinstance(one, Injection)),
        tuple(one for one in made if isinstance(one, Fault)),
    )


def with_disturbances(topology: Topology, given: Iterable[Disturbance]) -> Topology:
    """Add hotspots and faults to those of a topology."""
    injections, faults = disturbances(given)
    return dataclasses.replace(
        topology, injections=(*topology.injections, *injections), faults=(*topology.faults, *faults)
    )


def _made(table: Mapping[str, Any]) -> Injection | Fault:
    kind, known = table.get("kind"), HOTSPOT_KINDS + FAULT_KINDS
    if "kind" not in table:
        raise DeclarationError("the key 'kind' is missing", _PATH)
    if not isinstance(kind, str) or kind not in known:
        hint = did_you_mean(kind, known) if isinstance(kind, str) else ""
        raise DeclarationError(
            f"found {brief(kind)}, expected a hotspot "
            f"({', '.join(HOTSPOT_KINDS)}) or a fault ({', '.join(FAULT_KINDS)}){hint}",
            (*_PATH, "kind"),
        )
    return from_plain(Fault, table, _PATH) if kind in FAULT_KINDS else from_plain(Injection, table, _PATH)
