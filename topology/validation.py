"""Every check that can be made before anything starts. All problems are reported at once."""

import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from operators.operator import Bolt, Spout
from streams.errors import DeclarationError, brief, did_you_mean
from topology.conversion import from_plain
from topology.declaration import COMPONENT_KEYS, Component, Input, Topology
from topology.fault_checks import fault_problems
from topology.groupings import GROUPINGS
from topology.object_vocabulary import vocabulary_problems
from topology.plan_request import plan_problems
from topology.references import resolve
from topology.stream_needs import need_problems
from topology.wiring import output_streams, pacing_inputs

__all__ = ["InvalidTopologyError", "make_operator", "problems", "validate"]

MAX_PARALLELISM = 10_000

#: How many components of a cycle are named.
MAX_NAMED = 20
_BASES: Mapping[str, type[Any]] = {"spout": Spout, "bolt": Bolt}


class InvalidTopologyError(DeclarationError):
    """A topology cannot run: all that is wrong with it, each with the key in the declaration."""

    def __init__(self, problems: tuple[DeclarationError, ...]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.args = (problems,)
        self.problems = problems


def make_operator(component: Component, topology: Topology) -> Any:
    """Return a fresh operator of a component, its options checked."""
    path = (component.kind, component.name)
    cls = resolve(component.operator, (*path, "operator"), topology.base, component.classes)
    if dataclasses.is_dataclass(cls):
        return from_plain(cls, component.options, path, topology.base, COMPONENT_KEYS)
    if component.options:
        key = next(iter(component.options))
        near = did_you_mean(key, COMPONENT_KEYS)
        raise DeclarationError(
            f"unknown key '{key}'{near}; operator '{component.operator}' takes no options: those of a class of your own are "
            "its fields, where it is a dataclass",
            (*path, key),
        )
    try:
        return cls()
    except TypeError as error:
        raise DeclarationError(
            f"'{component.operator}' cannot be made without arguments ({error}); make it a dataclass, whose fields are options",
            (*path, "operator"),
        ) from error


def validate(topology: Topology) -> None:
    """Raise `InvalidTopologyError` with everything that is wrong; return if nothing is."""
    if found := tuple(problems(topology)):
        raise InvalidTopologyError(found)


def problems(topology: Topology) -> Iterator[DeclarationError]:
    """Yield all that is wrong with a topology."""
    if not any(c.kind == "spout" for c in topology.components):
        yield DeclarationError("there is no spout; a topology needs at least one source")
    operators: dict[str, type[Any]] = {}
    for component in topology.components:
        try:
            operators[component.name] = _check_operator(component, topology)
        except DeclarationError as error:
            yield error
        yield from _parallelism_problems(component, operators.get(component.name))
    if len(operators) < len(topology.components):
        return  # what follows would only report the same mistakes again
    streams = {c.name: output_streams(c, operators[c.name]) for c in topology.components}
    for component in topology.components:
        yield from _input_problems(component, streams, topology)
    yield from need_problems(topology, operators)
    yield from _cycle_problems(topology)
    yield from _tick_problems(topology, operators)
    yield from plan_problems(topology)
    yield from _checkpoint_problems(topology)
    yield from _statistics_problems(topology, operators)
    yield from fault_problems(topology)
    try:
        pacing_inputs(topology, operators)
    except DeclarationError as error:
        yield error
    yield from _vocabulary_problems(topology)
    for component in topology.components:
        check = getattr(operators[component.name], "check", None)
        if check is not None:
            yield from _own_problems(component, topology)


def _vocabulary_problems(topology: Topology) -> Iterator[DeclarationError]:
    for component in topology.components:
        if component.kind == "spout":
            operator = make_operator(component, topology)
            if getattr(operator, "takes_prepared", False) and not list(operator.check(topology.settings, component)):
                yield from vocabulary_problems(topology.settings.vocabulary, component.name, operator.files())


def _checkpoint_problems(topology: Topology) -> Iterator[DeclarationError]:
    """Find a folder for checkpoints that is none."""
    settings = topology.settings.checkpoint
    if settings is not None and "://" not in settings.directory:
        place = (topology.base or Path()) / settings.directory
        if place.exists() and not place.is_dir():
            yield DeclarationError(
                f"{place} is a file; give a folder, which is made where it does not exist",
                ("topology", "checkpoint", "directory"),
            )


def _statistics_problems(topology: Topology, operators: Mapping[str, type[Any]]) -> Iterator[DeclarationError]:
    """Find a policy that decides by what the evaluators cannot report."""
    cores = {name: core for name, cls in operators.items() if (core := getattr(cls, "core_class", None)) is not None}
    for component in (c for c in topology.components if hasattr(operators[c.name], "asks")):
        from operators.balancing.registry import POLICIES  # with kernels: only where there is a balancer
        from operators.balancing.statistics import STATISTICS

        asked = make_operator(component, topology).asks.kind
        for name, core in cores.items():
            if (lacks := STATISTICS[asked].lacks(core)) is not None:
                others = [p.name for p in POLICIES.values() if STATISTICS[p.statistics].lacks(core) is None]
                yield DeclarationError(
                    f"the policy '{component.options.get('policy', 'tornado')}' decides by '{asked}', {lacks}, but "
                    f"{core.__name__} of bolt '{name}' does not; use one of: {', '.join(others)}",
                    (component.kind, component.name, "policy"),
                )


def _check_operator(component: Component, topology: Topology) -> type[Any]:
    path = (component.kind, component.name)
    cls = resolve(component.operator, (*path, "operator"), topology.base, component.classes)
    if not issubclass(cls, _BASES[component.kind]):
        raise DeclarationError(
            f"operator '{component.operator}' is no {component.kind}; derive {cls.__name__} from "
            f"operators.{_BASES[component.kind].__name__}, or declare it under [{_other(component.kind)}.{component.name}]",
            (*path, "operator"),
        )
    make_operator(component, topology)
    if component.kind == "spout" and cls.next_epoch is Spout.next_epoch:
        raise DeclarationError(
            f"{cls.__name__} has no method 'next_epoch(epoch, inputs, emit)', which emits the tuples of one epoch and returns "
            "whether there may be more",
            (*path, "operator"),
        )
    return cls


def _other(kind: str) -> str:
    return "bolt" if kind == "spout" else "spout"


def _own_problems(component: Component, topology: Topology) -> Iterator[DeclarationError]:
    """Ask an operator that has a `check(settings, component)` of its own for what is wrong."""
    operator = make_operator(component, topology)
    for key, text in operator.check(topology.settings, component):
        yield DeclarationError(text, (component.kind, component.name, key))


def _parallelism_problems(component: Component, operator: type[Any] | None) -> Iterator[DeclarationError]:
    found, path = component.parallelism, (component.kind, component.name, "parallelism")
    if type(found) is not int or not 1 <= found <= MAX_PARALLELISM:
        yield DeclarationError(f"parallelism = {brief(found)}, expected an integer from 1 to {MAX_PARALLELISM}", path)
    elif found > 1 and getattr(operator, "single", False):
        why = getattr(operator, "single_because", "writes one output")
        yield DeclarationError(f"operator '{component.operator}' {why}; parallelism must be 1", path)


def _input_problems(
    component: Component, streams: Mapping[str, Mapping[str, tuple[str, ...]]], topology: Topology
) -> Iterator[DeclarationError]:
    path = (component.kind, component.name, "inputs")
    if component.kind == "bolt" and not component.inputs:
        yield DeclarationError(f"bolt '{component.name}' has no inputs, so it would never do anything", path)
    if component.kind == "spout" and component.inputs:
        yield DeclarationError(f"spout '{component.name}' has inputs; only bolts read streams", path)
    for item in component.inputs:
        if item.component not in streams:
            hint = did_you_mean(item.component, streams)
            yield DeclarationError(
                f"{component.kind} '{component.name}' reads component '{item.component}', which does not exist{hint}; "
                f"there are: {', '.join(streams)}",
                path,
            )
        elif item.stream not in streams[item.component]:
            emitted = streams[item.component]
            there = ", ".join(emitted) or 'nothing; a class says what it emits: outputs = {"default": ("field", ...)}'
            yield DeclarationError(
                f"{component.kind} '{component.name}' reads stream '{item.stream}' of '{item.component}', which nobody "
                f"emits{did_you_mean(item.stream, emitted)}; '{item.component}' emits: {there}",
                path,
            )
        else:
            yield from _grouping_problems(component, item, streams[item.component][item.stream], topology)


def _grouping_problems(
    component: Component, item: Input, fields: tuple[str, ...], topology: Topology
) -> Iterator[DeclarationError]:
    path = (component.kind, component.name, "inputs")
    if item.grouping not in GROUPINGS:
        hint = did_you_mean(item.grouping, GROUPINGS)
        yield DeclarationError(
            f"unknown grouping '{item.grouping}'{hint}; expected one of: {', '.join(GROUPINGS)}", path
        )
        return
    by_fields = item.grouping in ("fields", "partial-key")
    if by_fields and not item.fields:
        yield DeclarationError(f"a {item.grouping} grouping of '{item.component}' needs 'fields'", path)
    if item.fields and not by_fields:
        yield DeclarationError(f"a {item.grouping} grouping takes no 'fields'; use 'fields' or 'partial-key'", path)
    for name in item.fields:
        if name not in fields:
            yield DeclarationError(
                f"bolt '{component.name}' groups by '{name}', but stream '{item.stream}' has {', '.join(fields)}; "
                f"add '{name}' to the fields of '{item.component}' or group by one of these",
                path,
            )
    if (item.using is not None) != (item.grouping == "custom"):
        yield DeclarationError("'using' names the class of a custom grouping: give both or neither", path)
    elif item.using is not None:
        try:
            chooser = resolve(item.using, path, topology.base, component.classes)
        except DeclarationError as error:
            yield error
            return
        missing = [name for name in ("prepare", "choose") if not callable(getattr(chooser, name, None))]
        if missing:
            yield DeclarationError(f"custom grouping '{item.using}' lacks the method {' and '.join(missing)}", path)


def _cycle_problems(topology: Topology) -> Iterator[DeclarationError]:
    """Find a cycle that has no feedback edge: its tasks would wait for each other for ever."""
    reads = {c.name: [i.component for i in c.inputs if not i.feedback] for c in topology.components}
    done: set[str] = set()
    for start in reads:
        trail: dict[str, Iterator[str]] = {} if start in done else {start: iter(reads[start])}
        while trail:
            name = next(reversed(trail))
            source = next((s for s in trail[name] if s in reads and s not in done), None)
            if source is None:
                done.add(name)
                del trail[name]
            elif source in trail:
                names = list(trail)
                cycle = names[names.index(source) :]
                found = [*(cycle if len(cycle) <= MAX_NAMED else [*cycle[:MAX_NAMED], "..."]), source]
                yield DeclarationError(
                    f"the components {' <- '.join(found)} form a cycle; mark one of these inputs with 'feedback = true' "
                    "(its tuples then arrive in the next epoch)",
                    ("bolt", source, "inputs"),
                )
                return
            else:
                trail[source] = iter(reads[source])


def _tick_problems(topology: Topology, operators: Mapping[str, type[Any]]) -> Iterator[DeclarationError]:
    timed = any(getattr(operators[c.name], "timed", False) for c in topology.components if c.kind == "spout")
    for component in topology.components:
        path = (component.kind, component.name, "tick")
        if component.tick is not None and component.kind == "spout":
            yield DeclarationError("a spout has no tick", path)
        elif component.tick is not None and component.tick.ms is not None and not timed:
            yield DeclarationError(
                "no spout here has event time, so a tick by 'ms' would never come; use 'epochs'", path
            )
