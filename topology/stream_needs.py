"""Whether every bolt is sent what its operator needs: streams it understands, so divided that nothing is lost or repeated."""

from collections.abc import Iterator, Mapping
from typing import Any

from operators.needs import ANY_STREAM, Need
from operators.spouts.tuple_objects import OBJECTS_STREAM, missing_fields
from streams.errors import DeclarationError, did_you_mean, listed
from topology.declaration import Component, Input, Topology
from topology.wiring import output_streams

__all__ = ["need_problems"]

DIRECT = "direct"


def need_problems(topology: Topology, operators: Mapping[str, type[Any]]) -> Iterator[DeclarationError]:
    """Yield what would go wrong silently; `operators` are the classes of all components, by name."""
    for component in topology.components:
        path = (component.kind, component.name, "inputs")
        reads: Mapping[str, Need] | None = getattr(operators[component.name], "reads", None)
        for item in component.inputs:
            emitter = operators.get(item.component)
            if emitter is None:
                continue  # reported where components are looked up
            if reads is not None and (text := _tuple_problem(component, item, topology, emitter, reads)) is not None:
                yield DeclarationError(text, path)
                continue
            if (text := _table_problem(component, item, topology, operators)) is not None:
                yield DeclarationError(text, path)
            if text := _addressing_problem(component, item, emitter) or (
                _need_problem(component, item, emitter, reads) if reads is not None else None
            ):
                yield DeclarationError(text, path)
        if reads is not None:
            yield from (DeclarationError(text, path) for text in _whole_problems(component, reads))
            yield from (DeclarationError(text, path) for text in _routers_problems(component, topology, operators))


def _tuple_problem(
    component: Component, item: Input, topology: Topology, emitter: type[Any], reads: Mapping[str, Need]
) -> str | None:
    """Tuples of somebody's own spout become objects where they have the fields of one."""
    source = topology.component(item.component)
    fields = output_streams(source, emitter).get(item.stream)
    if source.kind != "spout" or item.stream != OBJECTS_STREAM or item.stream not in reads or fields is None:
        return None
    if (missing := missing_fields(fields)) is None:
        return None
    return (
        f"{_edge(component, item)}, whose tuples have {listed(fields) or 'no fields'}, but an object needs {missing}; emit id, "
        "ts, x and y (or lon and lat), and text or keywords"
    )


def _table_problem(
    component: Component, item: Input, topology: Topology, operators: Mapping[str, type[Any]]
) -> str | None:
    """A table has columns of its own, so tuples of somebody's own bolt must have these."""
    takes = getattr(operators[component.name], "takes_fields", None)
    emitter = operators[item.component]
    if takes is None or emitter.__module__.startswith("operators."):
        return None
    fields = output_streams(topology.component(item.component), emitter).get(item.stream, ())
    if not (other := [name for name in fields if name not in takes]):
        return None
    return (
        f"{_edge(component, item)}, whose tuples have a field '{other[0]}', but '{component.operator}' writes a table of "
        f"{listed(takes)}; name the fields like these, or write JSON lines ('jsonl')"
    )


def _edge(component: Component, item: Input) -> str:
    return f"bolt '{component.name}' reads stream '{item.stream}' of '{item.component}'"


def _addressing_problem(component: Component, item: Input, emitter: type[Any]) -> str | None:
    """A tuple sent to a task by its number reaches readers with ``direct`` only, and every other tuple all but those."""
    addressed = getattr(emitter, "addressed", None)
    if addressed is None or (item.stream in addressed) == (item.grouping == DIRECT):
        return None
    if item.grouping == DIRECT:
        return (
            f"{_edge(component, item)} with the grouping 'direct', but '{item.component}' names no task there, so nothing "
            f"would arrive; use another grouping, or read '{item.stream}' of a router"
        )
    return (
        f"{_edge(component, item)} with the grouping '{item.grouping}', but '{item.component}' names the task of each tuple "
        "there, so nothing would arrive; use 'direct'"
    )


def _need_problem(component: Component, item: Input, emitter: type[Any], reads: Mapping[str, Need]) -> str | None:
    need = reads.get(item.stream, reads.get(ANY_STREAM))
    if need is None:
        return (
            f"{_edge(component, item)}, which operator '{component.operator}' would ignore"
            f"{did_you_mean(item.stream, reads)}; it reads: {listed(list(reads))}"
        )
    if need.refused:
        return f"{_edge(component, item)}, which {need.refused}"
    addressed = getattr(emitter, "addressed", None)
    alone = component.parallelism == 1
    if need.routed is not None and addressed is not None and need.routed != (item.stream in addressed):
        if need.routed and not alone:
            return (
                f"{_edge(component, item)}, which is no router, so with {component.parallelism} tasks {need.why}; put a "
                f"'plan-router' or a 'broadcast-router' between them and read that with 'direct', or set parallelism = 1"
            )
        if not need.routed:
            return f"{_edge(component, item)}, which has routed them already, so {need.why}; read a spout instead"
    if need.feedback is not None and need.feedback != item.feedback:
        wanted = "say 'feedback = true'" if need.feedback else "leave 'feedback' out"
        arrives = "a later epoch" if need.feedback else "the epoch in which they were sent"
        return f"{_edge(component, item)}, whose tuples are for {arrives}; {wanted}"
    unknown = need.routed is True and addressed is None  # somebody's own router may divide as it likes
    if need.groupings and item.grouping not in need.groupings and not alone and not unknown:
        return (
            f"{_edge(component, item)} with the grouping '{item.grouping}', so {need.why}; "
            f"use '{need.groupings[0]}' or set parallelism = 1"
        )
    return None


def _whole_problems(component: Component, reads: Mapping[str, Need]) -> Iterator[str]:
    """Yield what is missing, and what is there twice."""
    streams = [(item.component, item.stream) for item in component.inputs]
    for stream, need in reads.items():
        if need.required and all(read != stream for _, read in streams):
            yield f"bolt '{component.name}' reads no stream '{stream}', without which it has nothing to do; add it"
    for source, stream in dict.fromkeys(one for one in streams if streams.count(one) > 1):
        yield f"bolt '{component.name}' reads stream '{stream}' of '{source}' twice, so it would count twice; take one out"


def _routers_problems(component: Component, topology: Topology, operators: Mapping[str, type[Any]]) -> Iterator[str]:
    """Yield pairs of routers that do not divide alike: a query and its objects would not meet."""
    known = {c.name: c for c in topology.components}
    routers: dict[str, tuple[Any, ...]] = {}
    for item in component.inputs:
        emitter = operators.get(item.component)
        alike = getattr(emitter, "routes_alike_with", None)
        if emitter is not None and alike is not None and item.stream in ("objects", "queries"):
            options = known[item.component].options
            family = getattr(emitter, "routes_as", emitter)
            routers[item.component] = (family, *(options.get(key, getattr(emitter, key, None)) for key in alike))
    first = next(iter(routers), None)
    for name, kind in routers.items():
        if first is not None and kind != routers[first]:
            yield (
                f"bolt '{component.name}' reads the routers '{first}' and '{name}', which divide in different ways, so that "
                "queries and their objects would not meet; give both the same operator and options"
            )
    asked = [item.component for item in component.inputs if item.stream == "queries"]
    alone = [name for name in asked if getattr(operators.get(name), "routes_all_queries", False)]
    if alone and len(asked) > 1:
        other = next(name for name in asked if name != alone[0])
        yield (
            f"bolt '{component.name}' reads queries of '{other}' beside those of '{alone[0]}', whose operator "
            f"'{known[alone[0]].operator}' must know of every query; let '{alone[0]}' route all of them"
        )
