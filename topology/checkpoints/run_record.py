"""What the driver of a run knows: counters and collected results, as they are now and as they were after an epoch.

Tasks are not all in the same epoch, so while a checkpoint is being collected, some reports belong into it and some do not.
A second tally takes only those that do.
"""

from collections.abc import Callable, Mapping
from typing import Any

from streams.batches import Batch
from streams.errors import RunError
from topology.messages import Report
from topology.summary import Tally

__all__ = ["RunRecord"]


class RunRecord:
    """Takes reports.

    Attributes:
        tally: the counters, for the summary.
    """

    def __init__(self, tally: Tally, limit: int, on_bytes: Callable[[bytes], None] | None = None) -> None:
        self.tally = tally
        self._limit = limit
        self._on_bytes = on_bytes
        self._collected: list[tuple[int, Batch]] = []
        self._results = 0
        self._said: dict[int, int] = {}
        self._cut: tuple[int, Tally] | None = None

    @property
    def collected(self) -> list[Batch]:
        """Return the batches that collecting sinks handed over."""
        return [batch for _, batch in self._collected]

    def report(self, report: Report) -> None:
        """Take one report."""
        self.tally.report(report)
        if self._cut is not None and report.epoch <= self._cut[0]:
            self._cut[1].report(report)
        for output in report.outputs:
            self._take(report, output)
        if report.outputs:
            self._said[report.task] = max(report.epoch, self._said.get(report.task, -1))

    def ack(self, epoch: int) -> None:
        """Note that an epoch is complete."""
        self.tally.ack(epoch)
        if self._cut is not None and epoch <= self._cut[0]:
            self._cut[1].ack(epoch)

    def _take(self, report: Report, output: Any) -> None:
        """Keep what a collecting sink hands over, up to a limit; pass bytes on, unless this epoch's were before."""
        if isinstance(output, bytes | bytearray | memoryview):
            if self._on_bytes is not None and report.epoch > self._said.get(report.task, -1):
                self._on_bytes(bytes(output))
            return
        self._results += len(output)
        if self._results > self._limit:
            raise RunError(
                "a collecting sink has more results than topology.limits.collected allows; "
                "write them to a file (operator 'jsonl' or 'parquet'), or raise the limit"
            )
        self._collected.append((report.epoch, output))

    def begin_cut(self, epoch: int) -> None:
        """From now on keep apart what belongs to epochs up to this one; no report of a later one has come yet."""
        self._cut = (epoch, self.tally.copy())

    def drop_cut(self) -> None:
        """Forget a cut that will not be asked for."""
        self._cut = None

    def snapshot(self) -> dict[str, Any]:
        """Return what was known after the epoch of the cut, which must be complete."""
        assert self._cut is not None, "snapshot without a cut"
        (epoch, tally), self._cut = self._cut, None
        return {"tally": tally.snapshot(), "collected": [[e, b] for e, b in self._collected if e <= epoch]}

    def go_back(self, tally: Tally, state: Mapping[str, Any], restarts: int = 1) -> None:
        """Go back to a snapshot in the middle of a run, with a fresh tally; what was said cannot be unsaid."""
        tally.restarts = self.tally.restarts + restarts
        self.tally, self._cut = tally, None
        self.restore(state)

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a snapshot."""
        self.tally.restore(state["tally"])
        self._collected = [(epoch, batch) for epoch, batch in state["collected"]]
        self._results = sum(len(batch) for _, batch in self._collected)
