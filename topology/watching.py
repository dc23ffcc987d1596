"""Whoever watches a run: what the driver passes on as it comes, and what it is asked in return."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from topology.faults import Fault
from topology.messages import Report
from topology.wiring import Wiring

__all__ = ["Watcher"]


class Watcher(Protocol):
    """Is called by the thread that drives the run, so it must return at once."""

    def begin(self, wiring: Wiring, totals: Mapping[str, float]) -> None:
        """Learn what runs, before the first report, and what was counted before, where it goes on from a checkpoint."""

    def report(self, report: Report) -> None:
        """Take a report as it comes."""

    def ack(self, epoch: int, pending: int) -> None:
        """Learn that an epoch is complete, and how many are still under way."""

    def struck(self, fault: Fault) -> None:
        """Learn that something goes wrong on purpose."""

    def go_back(self, start: int, totals: Mapping[str, float]) -> None:
        """Learn that something was lost, and that the run goes on with this epoch again, and with these counts."""

    def faults(self) -> Sequence[Fault]:
        """Return what is to go wrong now, because somebody who watches wants to see it; asked after each epoch."""
