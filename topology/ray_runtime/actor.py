"""One task as an actor: what Ray calls. The work is done by a `TaskLoop` in a thread beside it.

The class is plain; `driver` applies ``ray.remote``.
"""

import importlib
import os
import threading

from partitioners.plan import Plan
from partitioners.plan import unpack as unpack_plan
from topology.declaration import Topology
from topology.ray_runtime.frames import Failure, describe_failure
from topology.ray_runtime.task_loop import TaskLoop
from topology.ray_runtime.transport import Address, Endpoint
from topology.task import Task
from topology.wiring import Wiring, wire

__all__ = ["TaskActor"]


class TaskActor:
    """Hosts one task of a topology."""

    def __init__(self, topology: Topology, plan: bytes | None, task_id: int) -> None:
        self._wiring: Wiring = wire(topology, _plan(plan))
        self._spec = self._wiring.tasks[task_id]
        self._max_frame_bytes = topology.settings.limits.frame_bytes
        self._endpoint: Endpoint | None = None
        self._task: Task | None = None
        self._loop: TaskLoop | None = None
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def listen(self, host: str, token: bytes, generation: int) -> tuple[Address, int]:
        """Open a listener for a generation of the run, and forget an earlier one; return address and process id."""
        with self._lock:
            self._stop_loop()
            if self._endpoint is not None:
                self._endpoint.close()
            self._endpoint = Endpoint(host, token, generation, self._max_frame_bytes, self._spec.id)
            return self._endpoint.address, os.getpid()

    def start(self, addresses: dict[int, Address], local_tasks: frozenset[int]) -> Failure | None:
        """Connect to those who get messages from here, make the task, and work; return what its start raised."""
        with self._lock:
            assert self._endpoint is not None, "start before listen"
            try:
                self._task = Task(self._wiring, self._spec, local_tasks)
            except Exception as error:  # an operator that cannot open: the driver ends the run with its traceback
                return describe_failure(self._spec.name, -1, error)
            self._endpoint.connect(addresses)
            self._loop = TaskLoop(self._wiring, self._task, self._endpoint)
            self._thread = threading.Thread(target=self._loop.run, daemon=True, name=self._spec.name)
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
            self._stop_loop()
            if self._task is not None:
                self._task.operator.close()
            if self._endpoint is not None:
                self._endpoint.close()

    def _stop_loop(self) -> None:
        if self._loop is not None and self._thread is not None:
            self._loop.stop()
            self._thread.join(10)
            self._loop = self._thread = None


def _plan(packed: bytes | None) -> Plan | None:
    """Return the plan of the run; its class is known once the partitioners are loaded."""
    if packed is None:
        return None
    importlib.import_module("partitioners.registry")
    return unpack_plan(packed)
