"""The workers of a run: Ray actors that are made, introduced to each other, looked after and, where one is lost, replaced.

A run has generations. All workers of one know the same token and number; whatever a worker of an earlier one still sends
reaches nobody, and its process is ended before its place is taken.
"""

import os
import secrets
import signal
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from partitioners.plan import pack as pack_plan
from streams.errors import RunError
from topology.ray_runtime.actor import WorkerActor
from topology.ray_runtime.cluster import LOOPBACK, node, shipped
from topology.ray_runtime.frames import DRIVER, failure_error
from topology.ray_runtime.placement import Placement
from topology.ray_runtime.transport import TOKEN_BYTES, Address, Endpoint
from topology.wiring import Wiring

import ray  # isort: skip  # after `cluster`, which sets what Ray reads when it is imported

__all__ = ["Fleet", "WorkerLostError"]

CLOSE_SECONDS = 30.0
ANSWER_SECONDS = 5.0


class WorkerLostError(RunError):
    """A worker's process has ended, does not answer, or has lost its connections."""


class Fleet:
    """The actors of one run."""

    def __init__(self, wiring: Wiring, placement: Placement) -> None:
        self.wiring, self.placement = wiring, placement
        self._settings = wiring.topology.settings
        self._actors: list[Any] = []
        self._pids: dict[int, tuple[str, int]] = {}
        self._generation = 0

    def open(self, states: Mapping[int, bytes], *, save_start: bool) -> Endpoint:
        """Start a generation: all workers listen, then all of them connect, so that nobody calls before all are there.

        Args:
            states: what tasks go on from, packed; none at the start of a run.
            save_start: workers hand over the states that they start with.
        """
        seconds = self._settings.ray.start_seconds
        if not self._actors:
            self._actors = [self._make(worker) for worker in range(len(self.placement.workers))]
        self._generation += 1
        nodes = self._get([actor.__ray_call__.remote(node) for actor in self._actors], seconds)
        single = len({id_ for id_, _ in nodes} | {node()[0]}) == 1
        token = secrets.token_bytes(TOKEN_BYTES)
        here = LOOPBACK if single else node()[1]
        endpoint = Endpoint(here, token, self._generation, self._settings.limits.frame_bytes, DRIVER)
        try:
            calls = [
                actor.listen.remote(LOOPBACK if single else ip, token, self._generation)
                for actor, (_, ip) in zip(self._actors, nodes, strict=True)
            ]
            listening = self._get(calls, seconds)
            self._pids = {worker: (nodes[worker][0], pid) for worker, (_, pid) in enumerate(listening)}
            addresses = {worker: address for worker, (address, _) in enumerate(listening)}
            self._start(addresses, endpoint, states, save_start)
            endpoint.connect(addresses)
        except BaseException:
            endpoint.close()
            raise
        return endpoint

    def _start(
        self, addresses: Mapping[int, Address], endpoint: Endpoint, states: Mapping[int, bytes], save_start: bool
    ) -> None:
        started = []
        for worker, actor in enumerate(self._actors):
            peers = {peer: addresses[peer] for peer in self.placement.peers(self.wiring, worker)}
            own = {task: states[task] for task in self.placement.workers[worker] if task in states}
            started.append(actor.start.remote({**peers, DRIVER: endpoint.address}, own, save_start))
        for failed in self._get(started, self._settings.ray.start_seconds):
            if failed is not None:
                task, failure = failed
                raise failure_error(self.wiring.tasks[task].name, -1, failure)

    def _make(self, worker: int) -> Any:
        """Create a worker; on a cluster of several nodes they are spread over them."""
        with shipped(self.wiring.topology):
            topology_ref = ray.put(self.wiring.topology)
        plan_ref = ray.put(pack_plan(self.wiring.plan) if self.wiring.plan is not None else None)
        tasks = self.placement.workers[worker]
        return (
            ray.remote(WorkerActor)
            .options(
                num_cpus=round(self._settings.ray.cpus_per_task * len(tasks), 4),  # as fine as Ray counts
                max_concurrency=4,
                scheduling_strategy="SPREAD",
            )
            .remote(topology_ref, plan_ref, self.placement, worker)
        )

    def _get(self, refs: list[Any], seconds: float) -> list[Any]:
        try:
            found: list[Any] = ray.get(refs, timeout=seconds)
        except ray.exceptions.GetTimeoutError:
            raise RunError(
                f"the workers did not start within {seconds:g} s; the cluster may lack resources: lower "
                f"topology.ray.cpus_per_task (now {self._settings.ray.cpus_per_task}) or raise topology.ray.start_seconds"
            ) from None
        except ray.exceptions.RayActorError as error:
            raise WorkerLostError(f"a worker died while it was started: {error}") from error
        except ray.exceptions.RayError as error:
            raise RunError(f"a worker could not be started: {error}") from error
        return found

    # --- looking after ---------------------------------------------------------------------------------------------

    def names(self, workers: Iterable[int]) -> str:
        """Return the names of the tasks of some workers."""
        return ", ".join(self.placement.names(self.wiring, worker) for worker in workers)

    def dead(self) -> list[int]:
        """Return the workers whose process has ended or does not answer: a stopped one sends no end of file."""
        refs = [actor.__ray_call__.remote(node) for actor in self._actors]
        ready, _ = ray.wait(refs, num_returns=len(refs), timeout=ANSWER_SECONDS)
        answered = set(ready)
        found = []
        for worker, ref in enumerate(refs):
            try:
                if ref not in answered:
                    found.append(worker)
                else:
                    ray.get(ref)
            except ray.exceptions.RayError:
                found.append(worker)
        return found

    def replace(self, workers: Iterable[int]) -> None:
        """End the processes of workers, so that they can do no harm when they wake up, and put new ones in their place."""
        for worker in workers:
            self._end(worker)
            self._actors[worker] = self._make(worker)

    def _end(self, worker: int) -> None:
        where, pid = self._pids.pop(worker, ("", 0))
        if pid and where == node()[0]:  # `ray.kill` takes seconds for a process that is stopped
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        with suppress(Exception):  # it may be gone already
            ray.kill(self._actors[worker])
        deadline = time.monotonic() + ANSWER_SECONDS
        while time.monotonic() < deadline:
            try:
                ray.get(self._actors[worker].__ray_call__.remote(node), timeout=ANSWER_SECONDS)
            except ray.exceptions.RayActorError:
                return
            except ray.exceptions.RayError:
                continue

    # --- end -------------------------------------------------------------------------------------------------------

    def fail(self, epochs: list[int], workers: Iterable[int]) -> None:
        """Tell the spouts which epochs were under way when the run failed."""
        with suppress(Exception):  # the run fails with its own reason; spouts that are gone cannot be told
            ray.get([self._actors[worker].fail.remote(epochs) for worker in workers], timeout=ANSWER_SECONDS)

    def close(self) -> None:
        """Close all operators: files are complete when this returns."""
        refs = [actor.close.remote() for actor in self._actors]
        for worker, ref in enumerate(refs):
            try:
                failed = ray.get(ref, timeout=CLOSE_SECONDS)
            except ray.exceptions.RayActorError as error:
                raise WorkerLostError(f"{self.names([worker])} died before it was closed: {error}") from error
            except ray.exceptions.RayError as error:
                raise RunError(f"{self.names([worker])} could not close: {error}") from error
            if failed is not None:
                task, (_, why) = failed
                raise RunError(f"{self.wiring.tasks[task].name} could not close: {why}")

    def kill(self) -> None:
        """End all processes."""
        for actor in self._actors:
            with suppress(Exception):  # the cluster may be gone already
                ray.kill(actor)
