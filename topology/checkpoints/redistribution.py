"""A checkpoint for another parallelism: the states of all tasks, and the messages under way, divided anew.

Nothing here knows what operators hold: each divides its own state (`operators.redistribution`). With another number of
evaluators the routers are asked where each query belongs from now on.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from operators.redistribution import Division
from partitioners.columns import Csr
from streams.batches import QueryBatch
from streams.errors import DeclarationError
from topology.checkpoints.saved_state import Saved
from topology.checkpoints.under_way import UnderWay, divided_messages
from topology.declaration import Topology
from topology.plan_request import EVALUATOR
from topology.references import resolve
from topology.task import Task
from topology.wiring import Edge, Wiring

__all__ = ["redistributed"]

State = dict[str, Any]


def redistributed(wiring: Wiring, saved: Saved) -> dict[str, State]:
    """Return a state for each task of a wiring, by name, from a checkpoint whose components had other parallelisms."""
    before = Wiring(_with_parallelism(wiring.topology, saved.manifest.parallelism), wiring.edges)
    states = {c.name: _states_of(before, saved, c.name) for c in wiring.topology.components}
    operators = {c.name: _operator(wiring.topology, c.name) for c in wiring.topology.components}
    holders = [name for name, operator in operators.items() if hasattr(operator, "live_queries")]
    plans = {name: _replanned(wiring, before, name, operators[name], states[name]) for name in holders}
    found: dict[str, State] = {}
    for name, old in states.items():
        tasks, holder = wiring.tasks_of(name), _holder_of(wiring, holders, name)
        queries, routes = plans.get(holder, (None, None))
        evaluators = len(wiring.tasks_of(holder)) if queries is not None else 0
        division = Division(name, len(tasks), evaluators, queries, routes)
        divided = operators[name].redistribute([state["operator"] for state in old], division)
        dropped = operators[name].plan_streams if queries is not None else frozenset()
        under_way = divided_messages(wiring, before, name, UnderWay.of(before, name, old), dropped)
        for task, operator, lagged in zip(tasks, divided, under_way, strict=True):
            source = old[min(task.index, len(old) - 1)]
            groupings = [
                _grouping(wiring, before, edge, state)
                for edge, state in zip(wiring.edges_from(name), source["groupings"], strict=True)
            ]
            shares = [source] if len(tasks) == len(old) else old
            found[task.name] = {
                **source,
                "ended": all(state.get("ended", False) for state in shares),
                "operator": operator,
                "groupings": groupings,
                "lagged": lagged,
            }
    return found


def _with_parallelism(topology: Topology, parallelism: Mapping[str, int]) -> Topology:
    components = tuple(dataclasses.replace(c, parallelism=parallelism[c.name]) for c in topology.components)
    return dataclasses.replace(topology, components=components)


def _states_of(before: Wiring, saved: Saved, component: str) -> list[State]:
    assert saved.states is not None, "states to be divided were not kept"
    return [saved.states[task.name] for task in before.tasks_of(component)]


def _operator(topology: Topology, name: str) -> type[Any]:
    component = topology.component(name)
    path = (component.kind, name, "operator")
    return resolve(component.operator, path, topology.base, component.classes)


def _grouping(wiring: Wiring, before: Wiring, edge: Edge, state: Any) -> Any:
    """Return what a grouping remembers: as it was where both ends have as many tasks as before, else nothing."""
    if all(len(wiring.tasks_of(end)) == len(before.tasks_of(end)) for end in (edge.source, edge.target)):
        return state
    if edge.input.grouping == "custom" and state is not None:
        raise DeclarationError(
            f"the custom grouping of '{edge.source}' to '{edge.target}' remembers what it did among "
            f"{len(before.tasks_of(edge.target))} tasks of {len(before.tasks_of(edge.source))}; keep their parallelism",
            ("bolt", edge.target, "parallelism"),
        )
    return None


def _holder_of(wiring: Wiring, holders: Sequence[str], name: str) -> str:
    """Return the component whose queries one is about: its own, those that it routes, or those whose results it reads.

    Where several are, or none, it is the one that load is balanced among.
    """
    if name in holders:
        return name
    routed = [
        e.target for e in wiring.edges if e.source == name and e.target in holders and e.input.stream == "queries"
    ]
    read = [e.source for e in wiring.edges if e.target == name and e.source in holders]
    near = routed or read
    return EVALUATOR if EVALUATOR in near or not near else near[0]


def _replanned(
    wiring: Wiring, before: Wiring, name: str, operator: type[Any], states: Sequence[State]
) -> tuple[QueryBatch | None, Csr | None]:
    """Return the live queries of a component and where they belong from now on; None for both where it has as many tasks."""
    if len(wiring.tasks_of(name)) == len(before.tasks_of(name)):
        return None, None
    live: Any = operator
    queries: QueryBatch = live.live_queries([state["operator"] for state in states])
    for edge in wiring.edges:
        if edge.target == name and edge.input.stream == "queries" and edge.lag == 0:
            router = Task(wiring, wiring.tasks_of(edge.source)[0]).operator
            if hasattr(router, "routes"):
                return queries, router.routes(queries)
    raise DeclarationError(
        f"the tasks of '{name}' hold queries, but no router says which of {len(wiring.tasks_of(name))} they belong to; give "
        f"its operator a method 'routes(queries)', or set bolt.{name}.parallelism to {len(before.tasks_of(name))}"
    )
