"""Those who watch the run inside the engine, and send the service what they see."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from service.task_figures import TaskFigures
from topology.faults import Fault
from topology.messages import Report
from topology.watching import Watcher
from topology.wiring import Wiring

__all__ = ["WATCHERS", "Send", "Watchers"]

#: Sends the service a message: its kind, and plain values.
Send = Callable[..., None]

#: What makes each watcher. One that has a method `hear(kind, *values)` is also given what the service sends to the engine.
WATCHERS: tuple[Callable[[Send], Watcher], ...] = (TaskFigures,)


class Watchers:
    """Several watchers as one."""

    def __init__(self, send: Send) -> None:
        self._all = [make(send) for make in WATCHERS]

    def begin(self, wiring: Wiring, totals: Mapping[str, float]) -> None:
        """Pass on what runs."""
        for one in self._all:
            one.begin(wiring, totals)

    def report(self, report: Report) -> None:
        """Pass on a report."""
        for one in self._all:
            one.report(report)

    def ack(self, epoch: int, pending: int) -> None:
        """Pass on that an epoch is complete."""
        for one in self._all:
            one.ack(epoch, pending)

    def struck(self, fault: Fault) -> None:
        """Pass on what goes wrong on purpose."""
        for one in self._all:
            one.struck(fault)

    def go_back(self, start: int, totals: Mapping[str, float]) -> None:
        """Pass on that the run goes back."""
        for one in self._all:
            one.go_back(start, totals)

    def faults(self) -> Sequence[Fault]:
        """Return what is to go wrong now."""
        return [fault for one in self._all for fault in one.faults()]

    def hear(self, kind: str, *values: Any) -> None:
        """Pass on what the service sends."""
        for one in self._all:
            if (hear := getattr(one, "hear", None)) is not None:
                hear(kind, *values)
