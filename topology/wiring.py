"""A valid topology as tasks and channels: what a runtime needs to know, and nothing of how it was declared."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from partitioners.plans.plan import Plan
from streams.errors import DeclarationError
from topology.declaration import Component, Input, Topology
from topology.references import resolve

__all__ = [
    "CLOCK_STREAM", "INTERNAL_STREAMS", "NAMES_STREAM", "Edge", "TaskSpec", "Wiring", "answers_of", "naming_inputs",
    "output_streams", "pacing_inputs", "wire",
]  # fmt: skip

#: The stream on which spouts that share a timeline send each other how far they are.
CLOCK_STREAM = "clock"

#: The stream on which spouts of queries say which identifier a query number stands for.
NAMES_STREAM = "names"

#: Streams that nobody declares as inputs and that no metric counts.
INTERNAL_STREAMS = frozenset({CLOCK_STREAM, NAMES_STREAM})


@dataclass(frozen=True, slots=True)
class TaskSpec:
    """One task: its number in the topology, and which of its component's tasks it is."""

    id: int
    component: str
    index: int

    @property
    def name(self) -> str:
        """Return the name for messages and logs, such as ``evaluator[2]``."""
        return f"{self.component}[{self.index}]"


@dataclass(frozen=True, slots=True)
class Edge:
    """A stream from one component to another; its tuples arrive `lag` epochs after they were emitted."""

    id: int
    source: str
    target: str
    input: Input
    lag: int


class Wiring:
    """Tasks and the channels between them. A channel carries exactly one message an epoch, empty or not.

    Where it is `watched`, tasks show samples of their work (`topology.lens`).
    """

    def __init__(
        self,
        topology: Topology,
        edges: tuple[Edge, ...],
        answers: frozenset[str] = frozenset(),
        plan: Plan | None = None,
        watched: bool = False,
    ) -> None:
        self.topology = topology
        self.watched = watched
        self.edges = edges
        self.answers = answers
        self.plan = plan
        ids = iter(range(10**9))
        self.tasks = tuple(TaskSpec(next(ids), c.name, i) for c in topology.components for i in range(c.parallelism))

    @cached_property
    def _by_component(self) -> Mapping[str, tuple[TaskSpec, ...]]:
        found: dict[str, list[TaskSpec]] = {}
        for task in self.tasks:
            found.setdefault(task.component, []).append(task)
        return {name: tuple(tasks) for name, tasks in found.items()}

    def tasks_of(self, component: str) -> tuple[TaskSpec, ...]:
        """Return the tasks of a component."""
        return self._by_component[component]

    def incoming(self, task: TaskSpec) -> frozenset[tuple[int, int]]:
        """Return the channels into a task, as (sending task, lag)."""
        return frozenset(
            (source.id, edge.lag)
            for edge in self.edges
            if edge.target == task.component
            for source in self.tasks_of(edge.source)
        )

    def edges_from(self, component: str) -> list[Edge]:
        """Return the edges that leave a component."""
        return [edge for edge in self.edges if edge.source == component]

    def counted(self, component: str) -> frozenset[str]:
        """Return the streams of a component whose readers need no more than how many results there are.

        They count, or compare lists for somebody who does. Who watches a run wants to see what was found.
        """
        if self.watched:
            return frozenset()
        streams: dict[str, bool] = {}
        for edge in self.edges_from(component):
            streams[edge.input.stream] = streams.get(edge.input.stream, True) and self._counts(edge)
        return frozenset(stream for stream, counts in streams.items() if counts)

    def _counts(self, edge: Edge) -> bool:
        """Tell whether who reads a stream counts; a class derived from one that does may read more, as a grouping may."""
        if edge.input.using is not None or not set(edge.input.fields) <= {"number"}:
            return False
        target = self.topology.component(edge.target)
        operator = resolve(target.operator, (), self.topology.base, target.classes)
        if "counts_only" in vars(operator):
            return True
        passes_on = edge.input.stream in vars(operator).get("takes_prints", ())
        return passes_on and all(map(self._counts, self.edges_from(edge.target)))

    @cached_property
    def conducted(self) -> frozenset[int]:
        """Return the tasks whose reports complete an epoch.

        Spouts, those that send nothing on within the epoch, and those that feed back: an epoch's feedback must be known
        before anybody can say that the run has come to rest.
        """
        sending = {edge.source for edge in self.edges if edge.lag == 0}
        feeding = {edge.source for edge in self.edges if edge.lag and edge.input.stream != CLOCK_STREAM}
        spouts = {task.component for task in self.spouts}
        return frozenset(t.id for t in self.tasks if t.component in spouts | feeding or t.component not in sending)

    @cached_property
    def spouts(self) -> tuple[TaskSpec, ...]:
        """Return the tasks of all spouts."""
        return tuple(t for t in self.tasks if self.topology.component(t.component).kind == "spout")


def output_streams(component: Component, operator: type[Any]) -> Mapping[str, tuple[str, ...]]:
    """Return the streams that a component emits on, with their fields."""
    return component.streams if component.streams is not None else operator.outputs


def pacing_inputs(topology: Topology, operators: Mapping[str, type[Any]]) -> dict[str, list[Input]]:
    """Return the edges between spouts on one timeline, by receiving spout.

    The spout of objects receives in the same epoch how far the queries have come, so it never emits an object before a query
    operation of the same or an earlier time. The spout of queries receives with a lag which objects come next, so it does
    not run ahead. Both can thus bound what they put into one epoch.
    """
    paces = {c.name: getattr(operators[c.name], "pace", None) for c in topology.components if c.kind == "spout"}
    leaders = [name for name, pace in paces.items() if pace == "leads"]
    followers = [name for name, pace in paces.items() if pace == "follows"]
    if not leaders or not followers:
        return {}
    if len(leaders) > 1:
        raise DeclarationError(
            f"the spouts {' and '.join(leaders)} both set the time that '{followers[0]}' follows; "
            "give one spout all object files instead (path takes a list)",
            ("spout", leaders[1]),
        )
    leader = leaders[0]
    return {
        leader: [Input(name, CLOCK_STREAM, "all") for name in followers],
        **{name: [Input(leader, CLOCK_STREAM, "all", feedback=True)] for name in followers},
    }


def naming_inputs(topology: Topology, operators: Mapping[str, type[Any]]) -> dict[str, list[Input]]:
    """Return the edges from spouts of queries to those who write results under the users' identifiers, by receiver."""
    spouts = [
        c.name
        for c in topology.components
        if c.kind == "spout" and NAMES_STREAM in output_streams(c, operators[c.name])
    ]
    return {
        c.name: [Input(name, NAMES_STREAM, "all") for name in spouts]
        for c in topology.components
        if getattr(operators[c.name], "names_results", False)
    }


def _operators(topology: Topology) -> dict[str, type[Any]]:
    return {
        c.name: resolve(c.operator, (c.kind, c.name, "operator"), topology.base, c.classes) for c in topology.components
    }


def answers_of(topology: Topology) -> frozenset[str]:
    """Return the kinds of query that some operator of a topology answers; none where no operator says."""
    return frozenset(kind for operator in _operators(topology).values() for kind in getattr(operator, "answers", ()))


def wire(topology: Topology, plan: Plan | None = None, watched: bool = False) -> Wiring:
    """Return the wiring of a topology that has passed validation, with the plan that its routers follow."""
    operators = _operators(topology)
    pacing, naming = pacing_inputs(topology, operators), naming_inputs(topology, operators)
    pairs = [
        (c.name, item)
        for c in topology.components
        for item in (*c.inputs, *pacing.get(c.name, ()), *naming.get(c.name, ()))
    ]
    lag = topology.settings.epoch.feedback
    edges = tuple(Edge(i, item.component, target, item, _lag(item, lag)) for i, (target, item) in enumerate(pairs))
    return Wiring(topology, edges, answers_of(topology), plan, watched)


def _lag(item: Input, feedback: int) -> int:
    """Return how many epochs the tuples of an input are under way; clocks are always one epoch old."""
    return 0 if not item.feedback else 1 if item.stream == CLOCK_STREAM else feedback
