"""One worker as an actor: what Ray calls. The work is done by a `WorkerLoop` in a thread beside it.

The class is plain; `driver` applies ``ray.remote``.
"""

import gc
import importlib
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from partitioners.plans.plan import Plan, put_together
from streams.errors import InputError, RunError
from streams.state import unpack_state
from topology.checkpoints.collection import Attempt
from topology.checkpoints.part_files import PartError
from topology.checkpoints.reach import Probe
from topology.checkpoints.resumption import StateInStore
from topology.declaration import Topology
from topology.lens import Shutter
from topology.messages import Message
from topology.ray_runtime.frames import Failure, describe_failure
from topology.ray_runtime.placement import Placement
from topology.ray_runtime.printed import Printed
from topology.ray_runtime.standstill import Standing
from topology.ray_runtime.state_writer import OwnStore, StateWriter
from topology.ray_runtime.transport import Address, Endpoint
from topology.ray_runtime.worker_loop import WorkerLoop
from topology.task import Task
from topology.wiring import wire

__all__ = ["Prepared", "WorkerActor"]

#: How long an operator may take to return from an epoch when its worker is to stop.
STOP_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Prepared:
    """What came of `WorkerActor.prepare`.

    Attributes:
        stuck: an operator of the earlier generation does not return from its epoch: only the end of the process helps.
        failed: the task whose operator could not start, and what it raised.
        unread: why the state of a task could not be read from the store.
    """

    stuck: bool = False
    failed: tuple[int, Failure] | None = None
    unread: str | None = None


class WorkerActor:
    """Hosts some tasks of a topology."""

    def __init__(
        self,
        topology: Topology,
        plan: Mapping[str, Any] | None,
        placement: Placement,
        worker: int,
        watched: bool = False,
        prints: bool = False,
    ) -> None:
        self._printed = Printed.catch(topology.settings.limits.frame_bytes) if prints else None
        self._wiring = wire(topology, _plan(plan), watched)
        self._placement = placement
        self._worker = worker
        self._here = frozenset(placement.workers[worker])
        self._max_frame_bytes = topology.settings.limits.frame_bytes
        self._endpoint: Endpoint | None = None
        self._tasks: list[Task] = []
        self._under_way: list[Message] = []
        self._loop: WorkerLoop | None = None
        self._writer: StateWriter | None = None
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        # To look through all modules for garbage would stop the worker for more than a tenth of a second. There is no task
        # yet: those of a generation that is over must go.
        gc.freeze()

    def prepare(self, states: Mapping[int, bytes | StateInStore]) -> Prepared:
        """Forget an earlier generation of the run, make the tasks of a new one, and give them their states.

        Nobody else is needed for this, so those who live do it while others are still being replaced.

        Args:
            states: of tasks that go on from a checkpoint: packed, or where to read them.
        """
        self._under_way = []
        with self._lock:
            if not self._stop_loop():
                return Prepared(stuck=True)
            for task in self._tasks:
                with suppress(Exception):  # of a generation that is over: nobody waits for it
                    task.operator.close()
            self._tasks = []
            shown = Shutter(time.monotonic)
            for id_ in self._placement.workers[self._worker]:
                try:
                    task = Task(self._wiring, self._wiring.tasks[id_], self._here, shown)
                    self._tasks.append(task)
                    if id_ in states:
                        self._under_way += task.restore(_state(states[id_]))
                except (UnreadError, PartError) as error:
                    return Prepared(unread=f"{self._wiring.tasks[id_].name}: {error}")
                except Exception as error:  # the driver ends the run with its traceback
                    return Prepared(failed=(id_, describe_failure(self._wiring.tasks[id_].name, -1, error)))
            return Prepared()

    def listen(self, host: str, token: bytes, generation: int, probe: Probe | None = None) -> Address:
        """Open a listener for a generation of the run, and return its address; answer where the store can be reached."""
        if probe is not None:
            probe.answer(self._worker)
        with self._lock:
            if self._endpoint is not None:
                self._endpoint.close()
            self._endpoint = Endpoint(host, token, generation, self._max_frame_bytes, self._worker)
            return self._endpoint.address

    def start(self, addresses: Mapping[int, Address], attempt: Attempt | None, own: OwnStore | None) -> None:
        """Connect to the workers that get messages from here, and work.

        Args:
            addresses: of these workers, and of the driver.
            attempt: at a checkpoint of the states that the tasks start with; none where there is one already.
            own: where to write states of tasks; without, they are sent to the driver.
        """
        with self._lock:
            assert self._endpoint is not None, "start before listen"
            self._endpoint.connect(addresses)
            self._writer = StateWriter(own, self._endpoint.wake) if own is not None else None
            self._loop = WorkerLoop(
                self._wiring, self._tasks, self._placement.worker_of, self._endpoint, self._writer, self._printed
            )
            self._loop.prepare(self._under_way, attempt)
            self._under_way = []
            self._thread = threading.Thread(target=self._loop.run, daemon=True, name=f"worker-{self._worker}")
            self._thread.start()

    def standing(self) -> Standing:
        """Return what the loop does."""
        loop = self._loop  # which another thread may take away
        return loop.standing() if loop is not None else Standing(False, 0, 0)

    def fail(self, epochs: list[int]) -> None:
        """Report to the spouts which epochs were under way when the run failed."""
        spouts = {spec.id for spec in self._wiring.spouts}
        for task in self._tasks:
            if task.spec.id in spouts:
                for epoch in epochs:
                    task.operator.fail(epoch)

    def close(self) -> tuple[int, Failure] | None:
        """End: stop the loop, close all operators, then the sockets; return the first that could not close, and why."""
        failure = None
        with self._lock:
            if not self._stop_loop():
                raise RunError(
                    f"worker {self._worker} ({self._placement.names(self._wiring, self._worker)}) did not stop within "
                    f"{STOP_SECONDS:g} s: an operator does not return from an epoch"
                )
            for task in self._tasks:
                try:
                    task.operator.close()
                except Exception as error:  # others must be closed all the same
                    failure = failure or (task.spec.id, describe_failure(task.spec.name, task.next, error))
            self._tasks = []
            if self._endpoint is not None:
                self._endpoint.close()
        return failure

    def printed(self) -> str:
        """Return what operators have printed and nobody was sent yet: when they closed, and lines without an end."""
        return self._printed.take(all_of_it=True) if self._printed is not None else ""

    def _stop_loop(self) -> bool:
        """Ask the loop to end; return whether it has."""
        if self._loop is None or self._thread is None:
            return True
        self._loop.stop()
        self._thread.join(STOP_SECONDS)
        if self._thread.is_alive():
            return False
        if self._writer is not None:
            self._writer.stop()
        self._loop = self._thread = self._writer = None
        return True


class UnreadError(InputError):
    """A state cannot be read from the store, or is not what was written there."""


def _state(source: bytes | StateInStore) -> dict[str, Any]:
    if not isinstance(source, StateInStore):
        state: dict[str, Any] = unpack_state(source)
        return state
    try:
        return source.read()
    except Exception as error:  # whatever a store raises: the driver looks for another way
        raise UnreadError(str(error)) from error


def _plan(parts: Mapping[str, Any] | None) -> Plan | None:
    """Return the plan of the run; its class is known once the partitioners are loaded.

    Its arrays are those of Ray's store, so that all workers of a machine have one copy.
    """
    if parts is None:
        return None
    importlib.import_module("partitioners.builders.registry")
    return put_together(parts)
