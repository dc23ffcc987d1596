"""Figures of a run as they were a while ago, so that it can be told what came within ten minutes, three hours, a day.

Figures only grow; what came within a time is what they have grown by. A bounded number of them is kept for each time. When a
new engine begins to count, what was kept says nothing any more.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["WINDOWS", "FigureWindows", "Figures"]

#: The times that Storm's UI tells figures for, in seconds.
WINDOWS = (600, 10_800, 86_400)

#: So many are kept for each of them.
KEPT = 60

#: What is kept of each task.
KEPT_COUNTS = ("executed", "emitted", "transferred", "busy_ms")

#: As `service.task_figures` counts them.
Figures = Mapping[str, Any]


@dataclass(frozen=True, slots=True, eq=False)
class _Then:
    """Figures of a moment, small: there may be many tasks."""

    at: float
    acked: int
    latency_sum: float
    tasks: tuple[tuple[str, int], ...]
    counts: NDArray[np.float64]

    @classmethod
    def of(cls, at: float, figures: Figures, before: "_Then | None") -> "_Then":
        rows = figures.get("tasks", ())
        tasks = tuple((owner, index) for owner, index, _ in rows)
        known = before.tasks if before is not None and before.tasks == tasks else tasks
        counts = np.array([[counts.get(name, 0.0) for name in KEPT_COUNTS] for *_, counts in rows], np.float64)
        return cls(at, figures["acked"], figures.get("latency_sum", 0.0), known, counts.reshape(-1, len(KEPT_COUNTS)))

    def figures(self) -> Figures:
        rows = zip(self.tasks, self.counts.tolist(), strict=True)
        tasks = [[*task, dict(zip(KEPT_COUNTS, counts, strict=True))] for task, counts in rows]
        return {"acked": self.acked, "latency_sum": self.latency_sum, "tasks": tasks}


class FigureWindows:
    """Keeps what was, now and then."""

    def __init__(self) -> None:
        self._kept: dict[int, deque[_Then]] = {seconds: deque(maxlen=KEPT + 1) for seconds in WINDOWS}
        self._acked = 0

    def note(self, now: float, figures: Figures) -> None:
        """Take figures as they are now, in seconds of some clock."""
        if figures["acked"] < self._acked:
            for kept in self._kept.values():
                kept.clear()
        self._acked = figures["acked"]
        for seconds, kept in self._kept.items():
            if not kept or now - kept[-1].at >= seconds / KEPT:
                kept.append(_Then.of(now, figures, kept[-1] if kept else None))

    def before(self, now: float, seconds: int) -> tuple[float, Figures | None]:
        """Return how long ago a window begins, and the figures of then; none where the run is younger, and all is in it."""
        found: _Then | None = None
        for then in self._kept[seconds]:
            if now - then.at < seconds:
                break
            found = then
        return (float(seconds), None) if found is None else (now - found.at, found.figures())
