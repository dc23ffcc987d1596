"""What must be the same for a run to go on from a checkpoint: all that the results, or the states of tasks, depend on.

The runtime, the number of epochs under way, limits, and where and how often checkpoints are taken may differ; so may the
parallelism of components, whose states are then divided anew (`topology.checkpoints.redistribution`).
"""

import dataclasses
import json
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from streams.errors import DeclarationError
from topology.conversion import to_plain
from topology.declaration import Component, Topology
from topology.plan_request import EVALUATOR, is_automatic, plan_path
from topology.references import resolve

__all__ = ["check_identity", "identity_of", "parallelism_of"]

#: The keys under [topology] that count.
SETTINGS = ("space", "metric", "seed", "plan", "partitioner", "vocabulary", "epoch", "window")

_MOST_TOLD, _MOST_SHOWN = 5, 300


def identity_of(topology: Topology) -> dict[str, Any]:
    """Return what counts, as plain values by the keys of a declaration."""
    settings = topology.settings
    found: dict[str, Any] = {"topology": {name: to_plain(getattr(settings, name)) for name in SETTINGS}}
    found["topology"]["metric"] = settings.metric or "euclidean"
    if settings.vocabulary is not None:
        found["topology"]["vocabulary"] = str(settings.vocabulary.resolve())
    if not is_automatic(topology):
        found["topology"]["plan"] = _plan(plan_path(topology))
    for component in topology.components:
        found.setdefault(component.kind, {})[component.name] = _component(component, topology)
    found["order"] = [component.name for component in topology.components]
    found["inject"] = {str(number): to_plain(one) for number, one in enumerate(topology.injections)}
    plain: dict[str, Any] = json.loads(json.dumps(found, default=str))  # as a manifest gives it back
    return plain


def _plan(path: Path) -> str:
    """Return what a plan is: where its file is says nothing of that."""
    try:
        return f"{path.name} ({zlib.crc32(path.read_bytes()):08x})"
    except OSError:
        return str(path)


def _component(component: Component, topology: Topology) -> dict[str, Any]:
    plain = {f.name: to_plain(getattr(component, f.name)) for f in dataclasses.fields(component)}
    operator = resolve(
        component.operator, (component.kind, component.name, "operator"), topology.base, component.classes
    )
    free: frozenset[str] = getattr(operator, "adjustable", frozenset())
    options = {key: value for key, value in plain["options"].items() if key not in free}
    if (pipe := options.pop("piped", None)) is not None:
        options["path"] = pipe  # where it was copied to says nothing of what is in it
    return {**{key: plain[key] for key in ("operator", "inputs", "tick", "streams")}, "options": options}


def parallelism_of(topology: Topology) -> dict[str, int]:
    """Return how many tasks each component has."""
    return {component.name: component.parallelism for component in topology.components}


def check_identity(topology: Topology, saved: Mapping[str, Any], parallelism: Mapping[str, int], where: str) -> None:
    """Raise `DeclarationError` where a checkpoint is of another topology, with the keys that differ.

    A plan is for so many evaluators, so another number of them comes with another plan.
    """
    mine = identity_of(topology)
    differing = list(_differences(mine, saved, ()))
    if parallelism_of(topology).get(EVALUATOR) != parallelism.get(EVALUATOR):
        differing = [one for one in differing if one[0] != ("topology", "plan")]
    if differing:
        told = "; ".join(
            f"{'.'.join(path)} is {_shown(a)}, it was {_shown(b)}" for path, a, b in differing[:_MOST_TOLD]
        )
        more = f"; and {len(differing) - _MOST_TOLD} more" if len(differing) > _MOST_TOLD else ""
        raise DeclarationError(
            f"the checkpoint in {where} is of another topology, so a run cannot go on from it: {told}{more}. "
            "Run the topology that it was taken of, or start afresh without resuming"
        )


_Difference = tuple[tuple[str, ...], Any, Any]


def _differences(mine: Any, saved: Any, path: tuple[str, ...]) -> Iterator[_Difference]:
    if isinstance(mine, Mapping) and isinstance(saved, Mapping):
        for key in (*mine, *(key for key in saved if key not in mine)):
            yield from _differences(mine.get(key), saved.get(key), (*path, str(key)))
    elif mine != saved:
        yield path, mine, saved


def _shown(value: Any) -> str:
    text = "not there" if value is None else repr(value)
    return text if len(text) <= _MOST_SHOWN else text[: _MOST_SHOWN - 3] + "..."
