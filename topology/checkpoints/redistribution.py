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
    queries, routes = _replanned(wiring, before, operators, states)
    found: dict[str, State] = {}
    for name, old in states.items():
        tasks = wiring.tasks_of(name)
        evaluators = len(wiring.tasks_of(EVALUATOR)) if queries is not None else 0
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
            found[task.name] = {**source, "operator": operator, "groupings": groupings, "lagged": lagged}
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


def _replanned(
    wiring: Wiring, before: Wiring, operators: Mapping[str, type[Any]], states: Mapping[str, Sequence[State]]
) -> tuple[QueryBatch | None, Csr | None]:
    """Return all live queries and where they belong from now on; None for both where the evaluators are as many as before."""
    live = getattr(operators.get(EVALUATOR), "live_queries", None)
    if live is None or len(wiring.tasks_of(EVALUATOR)) == len(before.tasks_of(EVALUATOR)):
        return None, None
    queries: QueryBatch = live([state["operator"] for state in states[EVALUATOR]])
    for edge in wiring.edges:
        if edge.target == EVALUATOR and edge.input.stream == "queries" and edge.lag == 0:
            router = Task(wiring, wiring.tasks_of(edge.source)[0]).operator
            if hasattr(router, "routes"):
                return queries, router.routes(queries)
    raise DeclarationError(
        f"the evaluators hold queries, but no router says which of {len(wiring.tasks_of(EVALUATOR))} they belong to; give its "
        f"operator a method 'routes(queries)', or set bolt.{EVALUATOR}.parallelism to {len(before.tasks_of(EVALUATOR))}"
    )
