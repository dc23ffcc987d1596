"""The workers of a run: Ray actors that are made, introduced to each other, looked after and, where one is lost, replaced.

A run has generations. All workers of one know the same token and number; whatever a worker of an earlier one still sends
reaches nobody, and its process is ended before its place is taken.
"""

import os
import secrets
import signal
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from partitioners.plans.plan import taken_apart
from streams.errors import RunError
from streams.event_log import EventLog
from topology.checkpoints.collection import Attempt
from topology.checkpoints.manifest import SavedFile
from topology.checkpoints.reach import Probe
from topology.checkpoints.resumption import StateInStore
from topology.checkpoints.store import Store
from topology.ray_runtime.actor import Prepared, WorkerActor
from topology.ray_runtime.cluster import LOOPBACK, node, process, shipped
from topology.ray_runtime.frames import DRIVER, failure_error
from topology.ray_runtime.placement import Placement
from topology.ray_runtime.printed import show
from topology.ray_runtime.standstill import Standing
from topology.ray_runtime.state_writer import OwnStore
from topology.ray_runtime.transport import TOKEN_BYTES, Address, Endpoint
from topology.wiring import Wiring

import ray  # isort: skip  # after `cluster`, which sets what Ray reads when it is imported
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy  # isort: skip

__all__ = ["Fleet", "Saving", "StatesUnreadError", "WorkerLostError"]

log = EventLog()

#: How long operators may take to close: a sink may have a large file to finish, and workers are looked after meanwhile.
CLOSE_SECONDS = 3600.0
#: How long a worker that lives may take to say so.
ANSWER_SECONDS = 5.0


class WorkerLostError(RunError):
    """A worker's process has ended, does not answer, or has lost its connections.

    Attributes:
        workers: those that are known to be lost; none where it has to be found out.
    """

    def __init__(self, text: str, workers: Sequence[int] = ()) -> None:
        super().__init__(text)
        self.workers = tuple(workers)


class StatesUnreadError(RunError):
    """A worker cannot read the states of its tasks from the store: they are damaged, or it does not reach the store."""


@dataclass(frozen=True, slots=True)
class Saving:
    """How a generation saves its states.

    Attributes:
        store: where to.
        attempt: at a checkpoint of what the tasks start with; none where there is one already.
        parts: the parts of states that are in the store already.
    """

    store: Store
    attempt: Attempt | None
    parts: Mapping[str, SavedFile]


class Fleet:
    """The actors of one run."""

    def __init__(self, wiring: Wiring, placement: Placement) -> None:
        self.wiring, self.placement = wiring, placement
        self._settings = wiring.topology.settings
        self._actors: list[Any] = []
        self._pids: dict[int, tuple[str, int]] = {}
        self._generation = 0

    def open(self, states: Mapping[int, bytes | StateInStore], saving: Saving | None = None) -> Endpoint:
        """Start a generation: all workers listen, then all of them connect, so that nobody calls before all are there.

        Those who live are asked to take up their states before anybody waits for new ones, whose start takes seconds.

        Args:
            states: what tasks go on from: packed, or where workers read it themselves; none at the start of a run.
            saving: how workers save states, where the run has checkpoints.
        """
        seconds = self._settings.ray.start_seconds
        if not self._actors:
            self._actors = [self._make(worker) for worker in range(len(self.placement.workers))]
        self._generation += 1
        preparing = [actor.prepare.remote(self._own(states, worker)) for worker, actor in enumerate(self._actors)]
        processes = self._get([actor.__ray_call__.remote(process) for actor in self._actors], seconds)
        self._pids = {worker: (id_, pid) for worker, (id_, _, pid) in enumerate(processes)}
        self._check(self._get(preparing, seconds))
        single = len({id_ for id_, _, _ in processes} | {node()[0]}) == 1
        token = secrets.token_bytes(TOKEN_BYTES)
        here = LOOPBACK if single else node()[1]
        endpoint = Endpoint(here, token, self._generation, self._settings.limits.frame_bytes, DRIVER)
        try:
            probe = Probe.ask(saving.store) if saving is not None else None
            calls = [
                actor.listen.remote(LOOPBACK if single else ip, token, self._generation, probe)
                for actor, (_, ip, _) in zip(self._actors, processes, strict=True)
            ]
            addresses = dict(enumerate(self._get(calls, seconds)))
            self._start(addresses, endpoint, saving, self._own_store(saving, probe))
            endpoint.connect(addresses)
            pids = {self.names([worker]): pid for worker, (_, pid) in self._pids.items()}
            log.debug("workers_started", generation=self._generation, processes=pids)
        except OSError as error:
            endpoint.close()
            raise WorkerLostError(f"a worker died while it was started: {error}") from error
        except BaseException:
            endpoint.close()
            raise
        return endpoint

    def _own_store(self, saving: Saving | None, probe: Probe | None) -> OwnStore | None:
        """Return what workers write their states to; None where they cannot all reach it, or there are no checkpoints."""
        if saving is None or probe is None:
            return None
        if not probe.answered(saving.store, len(self._actors)):
            log.info(
                "states_go_through_the_driver", store=saving.store.url, reason="not every worker reaches the store"
            )
            return None
        return OwnStore(saving.store.place, self._settings.limits.state_bytes, saving.parts)

    def _own(self, states: Mapping[int, bytes | StateInStore], worker: int) -> dict[int, bytes | StateInStore]:
        """Return those states that are of a worker's tasks."""
        return {task: states[task] for task in self.placement.workers[worker] if task in states}

    def _check(self, answers: Sequence[Prepared]) -> None:
        """Raise unless all workers have their tasks."""
        if stuck := [worker for worker, answer in enumerate(answers) if answer.stuck]:
            raise WorkerLostError(f"{self.names(stuck)}: an operator does not return from an epoch", stuck)
        for answer in answers:
            if answer.failed is not None:
                task, failure = answer.failed
                raise failure_error(self.wiring.tasks[task].name, -1, failure)
        for answer in answers:
            if answer.unread is not None:
                raise StatesUnreadError(answer.unread)

    def _start(
        self, addresses: Mapping[int, Address], endpoint: Endpoint, saving: Saving | None, own: OwnStore | None
    ) -> None:
        attempt = saving.attempt if saving is not None else None
        started = []
        for worker, actor in enumerate(self._actors):
            peers = {peer: addresses[peer] for peer in self.placement.peers(self.wiring, worker)}
            started.append(actor.start.remote({**peers, DRIVER: endpoint.address}, attempt, own))
        self._get(started, self._settings.ray.start_seconds)

    def _make(self, worker: int) -> Any:
        """Create a worker; on a cluster of several nodes they are spread over them."""
        with shipped(self.wiring.topology):
            topology_ref = ray.put(self.wiring.topology)
        tasks = self.placement.workers[worker]
        return (
            ray.remote(WorkerActor)
            .options(
                num_cpus=round(self._settings.ray.cpus_per_task * len(tasks), 4),  # as fine as Ray counts
                max_concurrency=4,
                scheduling_strategy="SPREAD",
            )
            .remote(topology_ref, self._plan, self.placement, worker, self.wiring.watched, prints=True)
        )

    @cached_property
    def _plan(self) -> Any:
        """The plan in Ray's store, once for all workers."""
        return ray.put(None if self.wiring.plan is None else taken_apart(self.wiring.plan))

    def _get(self, refs: list[Any], seconds: float) -> list[Any]:
        """Return what all workers answer; while they take their time, see that those which have answered before still live."""
        deadline = time.monotonic() + seconds
        while True:
            left = deadline - time.monotonic()
            try:
                found: list[Any] = ray.get(refs, timeout=max(0.0, min(left, self._settings.ray.silent_seconds)))
            except ray.exceptions.GetTimeoutError:
                if silent := self.dead(self._pids):
                    raise WorkerLostError(f"the worker of {self.names(silent)} does not answer", silent) from None
                if left <= 0:
                    raise RunError(
                        f"the workers did not answer within {seconds:g} s; the cluster may lack resources: lower "
                        f"topology.ray.cpus_per_task (now {self._settings.ray.cpus_per_task}) or raise "
                        "topology.ray.start_seconds"
                    ) from None
            except ray.exceptions.RayActorError as error:
                raise WorkerLostError(f"a worker died while it was started or closed: {error}") from error
            except ray.exceptions.RayTaskError as error:
                if isinstance(error.cause, OSError):  # its peer has gone before it could connect
                    raise WorkerLostError(f"a worker could not reach another: {error.cause}") from error
                raise RunError(f"a worker could not be started: {error}") from error
            except ray.exceptions.RayError as error:
                raise RunError(f"a worker could not be started: {error}") from error
            else:
                return found

    # --- looking after ---------------------------------------------------------------------------------------------

    def names(self, workers: Iterable[int]) -> str:
        """Return the names of the tasks of some workers."""
        return ", ".join(self.placement.names(self.wiring, worker) for worker in workers)

    def dead(self, workers: Iterable[int] | None = None) -> list[int]:
        """Return those workers whose process has ended or does not answer: a stopped one sends no end of file."""
        asked = list(range(len(self._actors)) if workers is None else workers)
        refs = [self._actors[worker].__ray_call__.remote(node) for worker in asked]
        ready, _ = ray.wait(refs, num_returns=len(refs), timeout=ANSWER_SECONDS) if refs else ([], [])
        answered = set(ready)
        found = []
        for worker, ref in zip(asked, refs, strict=True):
            try:
                if ref not in answered:
                    found.append(worker)
                else:
                    ray.get(ref)
            except ray.exceptions.RayError:
                found.append(worker)
        return found

    def standing(self) -> list[Standing]:
        """Return what all workers do; nothing where not all of them say so."""
        try:
            found: list[Standing] = ray.get([a.standing.remote() for a in self._actors], timeout=ANSWER_SECONDS)
        except ray.exceptions.RayError:
            return []
        return found

    def strike(self, tasks: Iterable[int], blow: Callable[..., None], *args: float) -> None:
        """Let a fault happen in the processes of some tasks; nobody waits for an answer, as there may be none."""
        for worker in sorted({self.placement.worker_of[task] for task in tasks}):
            self._actors[worker].__ray_call__.remote(blow, *args)

    def replace(self, workers: Sequence[int]) -> None:
        """End the processes of workers, so that they can do no harm when they wake up, and put new ones in their place."""
        ending = [ref for worker in workers for ref in self._end(worker)]
        ending += [self._actors[worker].__ray_call__.remote(node) for worker in workers]  # fails when it has ended
        if ending:
            ray.wait(ending, num_returns=len(ending), timeout=ANSWER_SECONDS)
        for worker in workers:
            self._actors[worker] = self._make(worker)

    def _end(self, worker: int) -> list[Any]:
        """End a process, by its number: `ray.kill` takes seconds for one that is stopped.

        Return the call that does so where it is on another machine.
        """
        where, pid = self._pids.pop(worker, ("", 0))
        calls = []
        if pid and where == node()[0]:
            end_process(pid)
        elif pid:
            there = NodeAffinitySchedulingStrategy(where, soft=False)
            options = {"num_cpus": 0, "max_retries": 0, "scheduling_strategy": there}
            calls.append(ray.remote(end_process).options(**options).remote(pid))
        with suppress(Exception):  # it may be gone already
            ray.kill(self._actors[worker])
        return calls

    # --- end -------------------------------------------------------------------------------------------------------

    def fail(self, epochs: list[int], workers: Iterable[int]) -> None:
        """Report to the spouts which epochs were under way when the run failed."""
        with suppress(Exception):  # the run fails with its own reason; spouts that are gone cannot be reached
            ray.get([self._actors[worker].fail.remote(epochs) for worker in workers], timeout=ANSWER_SECONDS)

    def close(self) -> None:
        """Close all operators: files are complete when this returns."""
        closed = self._get([actor.close.remote() for actor in self._actors], CLOSE_SECONDS)
        for text in self._get([actor.printed.remote() for actor in self._actors], CLOSE_SECONDS):
            show(text)
        for failed in closed:
            if failed is not None:
                task, (_, why) = failed
                raise RunError(f"{self.wiring.tasks[task].name} could not close: {why}")

    def forget(self) -> None:
        """Leave all processes to themselves."""
        self._actors = []

    def kill(self) -> None:
        """End all processes."""
        for actor in self._actors:
            with suppress(Exception):  # the cluster may be gone already
                ray.kill(actor)


def end_process(pid: int) -> None:
    """End a worker's process of this machine, if there is one of that number still."""
    with suppress(OSError):
        if b"ray::" not in Path(f"/proc/{pid}/cmdline").read_bytes():
            return  # it has ended, and the number is another's
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)
