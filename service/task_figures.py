"""Figures of the run by task, as operators of Storm know them: the engine counts and sends them, the service shows them."""

import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from topology.faults import Fault
from topology.messages import Report
from topology.wiring import Wiring

__all__ = ["BUCKETS_MS", "FIGURES", "TaskFigures"]

#: The kind of message that they are sent in.
FIGURES = "figures"

#: Epochs are counted by how long they took, up to each of so many milliseconds and beyond.
BUCKETS_MS = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1_000.0, 5_000.0)

#: So often they are sent.
SECONDS = 0.5

#: The counters of a task that are sent; others are for the summary.
COUNTED = ("executed", "emitted", "transferred", "busy_ms", "objects", "queries", "results", "rejected", "cost")


class TaskFigures:
    """Counts what tasks report, since this engine was started."""

    def __init__(self, send: Callable[..., None], clock: Callable[[], float] = time.monotonic) -> None:
        self._send, self._clock = send, clock
        self._names: dict[int, tuple[str, int]] = {}
        self._spouts: set[int] = set()
        self._counts: dict[int, dict[str, float]] = defaultdict(lambda: defaultdict(float))
        self._began: dict[int, float] = {}
        self._latency = [0] * (len(BUCKETS_MS) + 1)
        self._latency_sum = 0.0
        self._acked = self._rebalances = self._restarts = 0
        self._pending = 0
        self._sent_at = -SECONDS

    def begin(self, wiring: Wiring, _totals: Mapping[str, float]) -> None:
        """Learn which tasks there are."""
        self._names = {task.id: (task.component, task.index) for task in wiring.tasks}
        self._spouts = {task.id for task in wiring.spouts}

    def report(self, report: Report) -> None:
        """Add what a task has counted."""
        counts = self._counts[report.task]
        for name in COUNTED:
            if name in report.counts:
                counts[name] += report.counts[name]
        self._rebalances += int(report.counts.get("rebalances", 0))
        if report.task in self._spouts:
            self._began.setdefault(report.epoch, self._clock())

    def ack(self, epoch: int, pending: int) -> None:
        """Count how long an epoch took, and send all figures now and then."""
        now = self._clock()
        began = self._began.pop(epoch, now)
        took = (now - began) * 1e3
        self._latency[sum(took > bound for bound in BUCKETS_MS)] += 1
        self._latency_sum += took
        self._acked += 1
        self._pending = pending
        if now - self._sent_at >= SECONDS:
            self._sent_at = now
            self._send(FIGURES, self.figures())

    def figures(self) -> dict[str, Any]:
        """Return everything as plain values."""
        return {
            "tasks": [[*self._names[task], dict(counts)] for task, counts in sorted(self._counts.items())],
            "latency": list(self._latency),
            "latency_sum": self._latency_sum,
            "acked": self._acked,
            "pending": self._pending,
            "rebalances": self._rebalances,
            "restarts": self._restarts,
        }

    def struck(self, _fault: Fault) -> None:
        """Faults on purpose are not counted."""

    def go_back(self, _start: int, _totals: Mapping[str, float]) -> None:
        """Count that the run went back; epochs under way are gone."""
        self._restarts += 1
        self._began.clear()

    def faults(self) -> Sequence[Fault]:
        """Nothing is to go wrong."""
        return ()
