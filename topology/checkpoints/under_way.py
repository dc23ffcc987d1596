"""Messages on feedback edges when a checkpoint was taken, divided among other numbers of senders and receivers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from streams.batches import Batch
from streams.errors import DeclarationError
from topology.groupings import GroupingContext, make_grouping
from topology.wiring import Edge, TaskSpec, Wiring

__all__ = ["UnderWay", "divided_messages"]


@dataclass(frozen=True, slots=True)
class UnderWay:
    """What the tasks of one component had sent and nobody had worked on yet.

    Attributes:
        watermarks: by (lag, epoch), what the senders knew of time.
        batches: (sending task, edge, epoch, receiving task, batch), tasks by their place in their component.
    """

    watermarks: dict[tuple[int, int], int | None]
    batches: tuple[tuple[int, int, int, int, Batch], ...]

    @classmethod
    def of(cls, before: Wiring, component: str, states: Sequence[dict[str, Any]]) -> "UnderWay":
        """Take the messages out of the states of a component's tasks."""
        watermarks: dict[tuple[int, int], int | None] = {}
        batches = []
        for source, state in zip(before.tasks_of(component), states, strict=True):
            for target, lag, epoch, watermark, parts in state["lagged"]:
                watermarks.setdefault((lag, epoch), watermark)
                batches += [(source.index, edge, epoch, before.tasks[target].index, batch) for edge, batch in parts]
        return cls(watermarks, tuple(batches))


def divided_messages(
    wiring: Wiring, before: Wiring, component: str, under_way: UnderWay, dropped: frozenset[str]
) -> list[list[Any]]:
    """Return for each task of a component the messages that it has under way, in the form of `Task.snapshot`.

    What a task had sent that is no more, the first one has sent. Every channel gets its message, empty or not. Tuples of
    `dropped` streams are left out.
    """
    edges = {edge.id: edge for edge in wiring.edges_from(component) if edge.lag}
    tasks = wiring.tasks_of(component)
    parts: dict[tuple[int, int, int, int], list[Any]] = {}
    for lag, epoch in under_way.watermarks:
        for edge in (edge for edge in edges.values() if edge.lag == lag):
            for task in tasks:
                for target in wiring.tasks_of(edge.target):
                    parts[task.index, target.id, lag, epoch] = []
    for source, number, epoch, target_index, batch in under_way.batches:
        edge = edges[number]
        if edge.input.stream not in dropped:
            sender = tasks[source if source < len(tasks) else 0]
            for target_id, part in _receivers(wiring, before, edge, sender, target_index, batch):
                parts[sender.index, target_id, edge.lag, epoch].append((number, part))
    return [
        [
            [target, lag, epoch, under_way.watermarks[lag, epoch], found]
            for (source, target, lag, epoch), found in parts.items()
            if source == task.index
        ]
        for task in tasks
    ]


def _receivers(
    wiring: Wiring, before: Wiring, edge: Edge, sender: TaskSpec, target: int, batch: Batch
) -> list[tuple[int, Batch]]:
    """Return who is to receive a batch that went to one task of before."""
    targets = wiring.tasks_of(edge.target)
    if len(targets) == len(before.tasks_of(edge.target)):
        return [(targets[target].id, batch)]
    grouping = edge.input.grouping
    if grouping == "all":
        return [(task.id, batch) for task in targets] if target == 0 else []
    if grouping in ("direct", "custom"):
        raise DeclarationError(
            f"tuples of '{edge.source}' to '{edge.target}' on the stream '{edge.input.stream}' were under way at "
            f"the checkpoint, and with a {grouping} grouping nobody can say who is to get them among {len(targets)} tasks; "
            f"set its parallelism to {len(before.tasks_of(edge.target))}",
            ("bolt", edge.target, "parallelism"),
        )
    everywhere = tuple(range(len(targets)))
    context = GroupingContext(sender.index, len(targets), everywhere, edge.input.fields, wiring.topology.settings.seed)
    made = make_grouping(grouping, context)
    assert made is not None
    return [(task.id, part) for task, part in zip(targets, made.divide(batch), strict=True) if part is not None]
