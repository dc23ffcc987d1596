"""A run on the local runtime looked at epoch by epoch."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from topology import Topology
from topology.local_runtime import LocalRuntime
from topology.messages import Report
from topology.planning import plan_of
from topology.summary import EVALUATOR, Tally
from topology.wiring import wire

__all__ = ["Observed", "observed"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Observed:
    """A run, epoch by epoch.

    Attributes:
        summary: of the run.
        cost: candidates examined, a row for each epoch and a column for each evaluator.
        moved: queries that an evaluator gave to or took from others.
        busy_ms: processor time of the tasks that objects go through; all run in one thread, so it is what passed between
            their reports.
        deciding_ms: that of the balancer, for which no object waits.
        evaluating_ms: that of the evaluators among them.
        results: how many were counted.
    """

    summary: dict[str, Any]
    cost: Floats
    moved: Floats
    busy_ms: Floats
    deciding_ms: Floats
    evaluating_ms: Floats
    results: Floats


def observed(topology: Topology, on_epoch: Callable[[int], object] = lambda _epoch: None) -> Observed:
    """Run a topology and keep what each task says of each epoch; `on_epoch` is called after each."""
    wiring = wire(topology, plan_of(topology))
    tally = Tally(wiring, time.monotonic)
    reports: list[Report] = []
    cpu_ms: list[float] = []
    seen = time.thread_time()

    def on_report(report: Report) -> None:
        nonlocal seen
        cpu_ms.append((time.thread_time() - seen) * 1e3)
        tally.report(report)
        reports.append(report)
        seen = time.thread_time()

    def on_ack(epoch: int, _pending: int) -> None:
        tally.ack(epoch)
        on_epoch(epoch)

    LocalRuntime(wiring, on_report=on_report, on_ack=on_ack).run()
    evaluators = [task.id for task in wiring.tasks if task.component == EVALUATOR]

    cost, moved, busy, results = (np.zeros((tally.epochs, len(wiring.tasks))) for _ in range(4))
    for report, worked in zip(reports, cpu_ms, strict=True):
        place = report.epoch, report.task
        cost[place] = report.counts.get("cost", 0.0)
        moved[place] = report.counts.get("queries_given", 0.0) + report.counts.get("queries_taken", 0.0)
        busy[place] = worked
        results[place] = report.counts.get("results", 0.0)
    deciding = [task.id for task in wiring.tasks if task.component == "balancer"]
    flow = np.delete(busy, deciding, axis=1)
    return Observed(
        tally.summary(), cost[:, evaluators], moved[:, evaluators], flow, busy[:, deciding], busy[:, evaluators],
        results.sum(1),
    )  # fmt: skip
