"""What tasks send each other, and what they report to the conductor."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from streams.batches import Batch

__all__ = ["Message", "Report"]


@dataclass(frozen=True, slots=True)
class Message:
    """Everything that one task has for another in one epoch, empty or not.

    `epoch` is the epoch in which the receiver is to work on it: the sender's own, plus the lag of the channel. A part
    is a batch with the number of its edge.
    """

    source: int
    target: int
    lag: int
    epoch: int
    watermark: int | None
    final: bool
    parts: Sequence[tuple[int, Batch]]


@dataclass(frozen=True, slots=True)
class Report:
    """What a task reports to the conductor after each epoch.

    Attributes:
        counts: what the task's counters have grown by.
        exhausted: a spout's input has ended.
        feedback: how many tuples it sent that others will see in a later epoch.
        outputs: batches or bytes for whoever started the run.
        events: what happened that the summary lists, such as a rebalancing.
    """

    task: int
    epoch: int
    counts: Mapping[str, float] = field(default_factory=dict)
    exhausted: bool = False
    feedback: int = 0
    outputs: Sequence[Any] = ()
    events: Sequence[Mapping[str, Any]] = ()
