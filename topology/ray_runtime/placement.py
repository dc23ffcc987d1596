"""Which worker process hosts which tasks, and in which order it serves them: pure functions of the wiring.

Storm packs the tasks of a topology into worker processes, and so does this: tasks of one worker hand each other batches as
they are, without encoding them or waking anybody.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from topology.wiring import Wiring

__all__ = ["Placement", "downstream_first", "place"]


@dataclass(frozen=True)
class Placement:
    """The tasks of each worker, by their numbers."""

    workers: tuple[tuple[int, ...], ...]

    @cached_property
    def worker_of(self) -> Mapping[int, int]:
        """Return the worker of each task."""
        return {task: worker for worker, tasks in enumerate(self.workers) for task in tasks}

    def peers(self, wiring: Wiring, worker: int) -> frozenset[int]:
        """Return the other workers that get messages from one."""
        components = {wiring.tasks[task].component for task in self.workers[worker]}
        targets = {edge.target for component in components for edge in wiring.edges_from(component)}
        reached = {self.worker_of[task.id] for target in targets for task in wiring.tasks_of(target)}
        return frozenset(reached - {worker})

    def names(self, wiring: Wiring, worker: int) -> str:
        """Return the names of a worker's tasks, for a message."""
        return ", ".join(wiring.tasks[task].name for task in self.workers[worker])


def place(wiring: Wiring, workers: int) -> Placement:
    """Deal the tasks out to so many workers, in turn; there are never more workers than tasks.

    The tasks of a component have consecutive numbers, so each worker gets an equal part of every component, to one task,
    and an equal part of all tasks. A topology's loads differ between components far more than within one.
    """
    count = max(1, min(workers, len(wiring.tasks)))
    ids = [task.id for task in wiring.tasks]
    return Placement(tuple(tuple(ids[worker::count]) for worker in range(count)))


def downstream_first(wiring: Wiring) -> tuple[int, ...]:
    """Return all tasks, those furthest from the spouts first.

    Whoever serves them in this order lets epochs leave before new ones enter, so that little is under way at a time.
    Edges with a lag do not count: what they carry belongs to a later epoch, and they may form cycles.
    """
    depths: dict[str, int] = {}

    def depth(component: str) -> int:
        if component not in depths:
            sources = {edge.source for edge in wiring.edges if edge.target == component and not edge.lag}
            depths[component] = 1 + max(map(depth, sources), default=-1)
        return depths[component]

    return tuple(task.id for task in sorted(wiring.tasks, key=lambda task: (-depth(task.component), task.id)))
