"""The loop around one task: sockets in, state machine, sockets out.

A plain class of its own: Ray wraps every method of an actor's class, which the hot path does not need.
"""

import time
from contextlib import suppress

from topology.messages import Report
from topology.ray_runtime.frames import (
    DATA,
    DRIVER,
    FAILED,
    GRANT,
    REPORT,
    Grant,
    PeerLostError,
    describe_failure,
    pack_message,
    pack_plain,
    pack_reports,
    unpack_message,
    unpack_plain,
)
from topology.ray_runtime.transport import Endpoint, Frame, Lost
from topology.task import Task
from topology.wiring import Wiring

__all__ = ["TaskLoop"]

#: How many reports a task whose epochs the conductor need not hear of at once sends together.
REPORTS_TOGETHER = 8
FLUSH_SECONDS = 30.0


class TaskLoop:
    """Drives a task until its final epoch, until it fails, or until it is told to stop."""

    def __init__(self, wiring: Wiring, task: Task, endpoint: Endpoint) -> None:
        self.task = task
        self._wiring = wiring
        self._endpoint = endpoint
        self._prompt = task.spec.id in wiring.conducted
        self._reports: list[Report] = []
        self._acked = 0
        self._stopped = False

    def stop(self) -> None:
        """Ask the loop to end; called from another thread."""
        self._stopped = True
        self._endpoint.wake()

    def run(self) -> None:
        """Work; a failure is told to the driver."""
        task, endpoint = self.task, self._endpoint
        try:
            while not task.done and not self._stopped:
                for item in endpoint.poll():
                    self._take(item)
                while task.ready():
                    self._step()
            endpoint.flush(FLUSH_SECONDS)
        except Exception as error:
            with suppress(OSError):  # the driver is gone too: nobody is left to tell
                failure = describe_failure(task.spec.name, task.next, error)
                endpoint.send(DRIVER, FAILED, 0, task.next, pack_plain(failure))
                endpoint.flush(FLUSH_SECONDS)

    def _take(self, item: Frame | Lost) -> None:
        task = self.task
        if isinstance(item, Lost):
            if item.source == DRIVER:
                self._stopped = True
            elif not task.done:
                name = self._wiring.tasks[item.source].name
                raise PeerLostError(f"lost the connection with {name}: {item.reason}")
        elif item.kind == DATA:
            task.accept(unpack_message(item, task.spec.id))
        elif item.kind == GRANT:
            grant = Grant(*unpack_plain(item))
            for epoch in range(self._acked, grant.acked):
                task.operator.ack(epoch)
            self._acked = grant.acked
            task.grant(grant.limit, grant.final)

    def _step(self) -> None:
        started = time.perf_counter()
        messages, report = self.task.step()
        sent = 0
        for message in messages:
            sent += self._endpoint.send(message.target, DATA, message.lag, message.epoch, pack_message(message))
        report.counts["busy_ms"] = (time.perf_counter() - started) * 1e3  # type: ignore[index]
        report.counts["sent_bytes"] = sent  # type: ignore[index]
        self._reports.append(report)
        if self._prompt or report.outputs or self.task.done or len(self._reports) >= REPORTS_TOGETHER:
            self._endpoint.send(DRIVER, REPORT, 0, report.epoch, pack_reports(self._reports))
            self._reports.clear()
