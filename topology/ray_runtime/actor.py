"""One task as an actor: a thin shell of sockets and a thread around the state machine.

The class is plain; `driver` applies ``ray.remote``. Control calls (`listen`, `start`, `fail`, `close`) come from Ray, served
beside the loop that does the work.
"""

import os
import threading
import time
from contextlib import suppress

from topology.declaration import Topology
from topology.messages import Report
from topology.ray_runtime.frames import (
    DATA,
    DRIVER,
    FAILED,
    GRANT,
    REPORT,
    Failure,
    Grant,
    PeerLostError,
    describe_failure,
    pack_message,
    pack_plain,
    pack_reports,
    unpack_message,
    unpack_plain,
)
from topology.ray_runtime.transport import Address, Endpoint, Frame, Lost
from topology.task import Task
from topology.wiring import Wiring, wire

__all__ = ["TaskActor"]

#: How many reports a task whose epochs the conductor need not hear of at once sends together.
REPORTS_TOGETHER = 8
FLUSH_SECONDS = 30.0


class TaskActor:
    """Hosts one task of a topology."""

    def __init__(self, topology: Topology, task_id: int) -> None:
        self._wiring: Wiring = wire(topology)
        self._spec = self._wiring.tasks[task_id]
        self._max_frame_bytes = topology.settings.limits.frame_bytes
        self._endpoint: Endpoint | None = None
        self._task: Task | None = None
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._acked = 0
        self._stopped = False
        self._prompt = self._spec.id in self._wiring.conducted
        self._reports: list[Report] = []

    def listen(self, host: str, token: bytes, generation: int) -> tuple[Address, int]:
        """Open a listener for a generation of the run, and forget an earlier one; return address and process id."""
        with self._lock:
            if self._endpoint is not None:
                self._endpoint.close()
            self._endpoint = Endpoint(host, token, generation, self._max_frame_bytes, self._spec.id)
            return self._endpoint.address, os.getpid()

    def start(self, addresses: dict[int, Address], local_tasks: frozenset[int]) -> Failure | None:
        """Connect to those who get messages from here, make the task, and work; return what the operator's start raised."""
        with self._lock:
            assert self._endpoint is not None, "start before listen"
            try:
                self._task = Task(self._wiring, self._spec, local_tasks)
            except Exception as error:  # an operator that cannot open: the driver ends the run with its traceback
                return describe_failure(self._spec.name, -1, error)
            self._endpoint.connect(addresses)
            self._thread = threading.Thread(target=self._work, args=(self._endpoint, self._task), daemon=True)
            self._thread.start()
            return None

    def fail(self, epochs: list[int]) -> None:
        """Tell a spout which epochs were under way when the run failed."""
        if self._task is not None:
            for epoch in epochs:
                self._task.operator.fail(epoch)

    def close(self) -> None:
        """End: stop the loop, close the operator, then the sockets."""
        with self._lock:
            self._stopped = True
            if self._thread is not None and self._endpoint is not None:
                self._endpoint.wake()
                self._thread.join(10)
            if self._task is not None:
                self._task.operator.close()
            if self._endpoint is not None:
                self._endpoint.close()

    # --- the loop --------------------------------------------------------------------------------------------------

    def _work(self, endpoint: Endpoint, task: Task) -> None:
        try:
            while not task.done and not self._stopped:
                for item in endpoint.poll():
                    self._take(item, task)
                while task.ready():
                    self._step(endpoint, task)
            endpoint.flush(FLUSH_SECONDS)
        except Exception as error:
            with suppress(OSError):  # the driver is gone too: nobody is left to tell
                failure = describe_failure(self._spec.name, task.next, error)
                endpoint.send(DRIVER, FAILED, 0, task.next, pack_plain(failure))
                endpoint.flush(FLUSH_SECONDS)

    def _take(self, item: Frame | Lost, task: Task) -> None:
        if isinstance(item, Lost):
            if item.source == DRIVER:
                self._stopped = True
            elif not task.done:
                name = self._wiring.tasks[item.source].name
                raise PeerLostError(f"lost the connection with {name}: {item.reason}")
        elif item.kind == DATA:
            task.accept(unpack_message(item, self._spec.id))
        elif item.kind == GRANT:
            grant = Grant(*unpack_plain(item))
            for epoch in range(self._acked, grant.acked):
                task.operator.ack(epoch)
            self._acked = grant.acked
            task.grant(grant.limit, grant.final)

    def _step(self, endpoint: Endpoint, task: Task) -> None:
        started = time.perf_counter()
        messages, report = task.step()
        counts = report.counts
        sent = 0
        for message in messages:
            sent += endpoint.send(message.target, DATA, message.lag, message.epoch, pack_message(message))
        counts["busy_ms"] = (time.perf_counter() - started) * 1e3  # type: ignore[index]
        counts["sent_bytes"] = sent  # type: ignore[index]
        self._reports.append(report)
        if self._prompt or report.outputs or task.done or len(self._reports) >= REPORTS_TOGETHER:
            endpoint.send(DRIVER, REPORT, 0, report.epoch, pack_reports(self._reports))
            self._reports.clear()
