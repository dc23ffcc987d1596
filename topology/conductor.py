"""Decides how far the spouts may go, and when the run has ended: a pure state machine, the same for every runtime.

At most `max_pending` epochs are under way. The run ends with a final epoch, in which operators emit what is left; it comes
when every spout has run dry and nothing is left on a feedback edge. Somebody who asks to stop makes the spouts run dry.
"""

from streams.errors import RunError
from topology.messages import Report
from topology.wiring import Wiring

__all__ = ["Conductor"]


class Conductor:
    """Counts reports, grants epochs.

    An epoch is complete when the spouts and the tasks at the end of the topology have reported it: everybody between
    them must have worked on it by then. Reports of the others may come later, several together.

    Attributes:
        acked: how many epochs are complete.
        limit: spouts may work on epochs below this.
        final: the final epoch, once it is known.
        dry: from this epoch on spouts emit nothing, because somebody asked to stop.
        idle: in the epoch that was completed last, no spout emitted and nothing was fed back.
    """

    def __init__(self, wiring: Wiring, *, start: int = 0) -> None:
        settings = wiring.topology.settings
        self.acked = start
        self.limit = start
        self.final: int | None = None
        self.dry: int | None = None
        self._max_pending = settings.max_pending
        self._drain_epochs = settings.limits.drain_epochs
        self._conducted = wiring.conducted
        self._unaccounted = {task.id for task in wiring.tasks}
        self._spouts = frozenset(task.id for task in wiring.spouts)
        self._reports: dict[int, int] = {}
        self._exhausted: dict[int, int] = {}
        self._lag = settings.epoch.feedback
        # Feedback of epochs before the start may be under way still.
        self._last_feedback = start - 1 if start else -1 - self._lag
        self._moved: dict[int, float] = {}
        self.idle = False

    @property
    def done(self) -> bool:
        """Tell whether the final epoch is complete."""
        return self.final is not None and self.acked > self.final

    @property
    def accounted(self) -> bool:
        """Tell whether every task has reported the final epoch: nothing of what they counted is missing."""
        return not self._unaccounted

    @property
    def pending(self) -> int:
        """Return how many epochs are under way."""
        return self.limit - self.acked

    def stop(self) -> None:
        """Ask for an end: the input ends before the next epoch that nobody has begun; what is under way comes to rest first."""
        if self.dry is None:
            self.dry = self.limit

    def report(self, report: Report) -> list[int]:
        """Take a report; return the epochs that it completes."""
        if report.task in self._spouts:
            if report.exhausted:
                self._exhausted.setdefault(report.task, report.epoch)
            else:
                self._exhausted.pop(report.task, None)
            self._moved[report.epoch] = self._moved.get(report.epoch, 0) + report.counts.get("emitted", 0)
        if report.feedback:
            self._moved[report.epoch] = self._moved.get(report.epoch, 0) + report.feedback
            self._last_feedback = max(self._last_feedback, report.epoch)
        if report.epoch == self.final:
            self._unaccounted.discard(report.task)
        if report.task not in self._conducted:
            return []
        self._reports[report.epoch] = self._reports.get(report.epoch, 0) + 1
        completed = []
        while self._reports.get(self.acked, 0) == len(self._conducted):
            del self._reports[self.acked]
            self.idle = self._moved.pop(self.acked, 0) == 0
            completed.append(self.acked)
            self.acked += 1
        return completed

    def grant(self, most: int | None = None) -> bool:
        """Let the spouts go on as far as they may, and not beyond `most`; return whether they may go further than before."""
        if self.final is not None:
            return False
        before = self.limit
        if self._settled():
            self.final = self.limit
            self.limit = self.final + 1
        else:
            window = 1 if self.idle else self._max_pending
            wanted = self.acked + window
            self.limit = max(self.limit, wanted if most is None else min(wanted, most))
        return self.limit > before

    def _settled(self) -> bool:
        """Tell whether all spouts are dry and an epoch after both that and the last feedback is complete."""
        if len(self._exhausted) < len(self._spouts):
            return False
        dry = max(self._exhausted.values())
        if self.acked - dry > self._drain_epochs:
            raise RunError(
                f"feedback has not come to rest {self._drain_epochs} epochs after the end of the input; "
                "break the loop, or raise topology.limits.drain_epochs"
            )
        return self.acked > dry and self.acked > self._last_feedback + self._lag
