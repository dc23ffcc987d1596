"""Starts the actors, introduces them to each other, and conducts the run."""

import secrets
from collections.abc import Callable
from contextlib import suppress
from functools import cached_property
from typing import Any

from partitioners.plan import pack as pack_plan
from streams.errors import RunError
from topology.conductor import Conductor
from topology.local_runtime import IDLE_SECONDS_FIRST, IDLE_SECONDS_MOST
from topology.messages import Report
from topology.ray_runtime.actor import WorkerActor
from topology.ray_runtime.cluster import LOOPBACK, connect, cpu_count, node, shipped
from topology.ray_runtime.frames import (
    DRIVER,
    FAILED,
    GRANT,
    LOST,
    REPORT,
    Grant,
    failure_error,
    pack_grant,
    unpack_plain,
    unpack_reports,
)
from topology.ray_runtime.placement import Placement, place
from topology.ray_runtime.transport import TOKEN_BYTES, Address, Endpoint, Frame, Lost
from topology.wiring import Wiring

import ray  # isort: skip  # after `cluster`, which sets what Ray reads when it is imported

__all__ = ["RayRuntime", "connect"]

POLL_SECONDS = 0.2
CLOSE_SECONDS = 30.0
ANSWER_SECONDS = 5.0


class RayRuntime:
    """Runs a wiring on Ray actors, each a worker that hosts some of the tasks."""

    def __init__(
        self,
        wiring: Wiring,
        *,
        address: str | None = None,
        on_report: Callable[[Report], None] = lambda _report: None,
        on_ack: Callable[[int, int], None] = lambda _epoch, _pending: None,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> None:
        self.wiring = wiring
        self.on_report, self.on_ack, self.should_stop = on_report, on_ack, should_stop
        self._address = address
        self._settings = wiring.topology.settings
        self._placement: Placement = place(wiring, 1)
        self._actors: list[Any] = []

    def run(self) -> None:
        """Run until the final epoch is complete; raise what an operator raised, with its task's name."""
        owned = connect(self._address)
        try:
            self._placement = place(self.wiring, self._settings.ray.workers or cpu_count())
            endpoint = self._start()
            try:
                self._conduct(endpoint, Conductor(self.wiring))
                self._close()
            finally:
                endpoint.close()
        finally:
            for actor in self._actors:
                with suppress(Exception):  # the cluster may be gone already
                    ray.kill(actor)
            if owned:
                ray.shutdown()

    # --- start -----------------------------------------------------------------------------------------------------

    def _start(self) -> Endpoint:
        """Make all workers listen, then let all of them connect: two phases, so that nobody calls before all are there."""
        seconds = self._settings.ray.start_seconds
        self._actors = self._make_actors()
        nodes = self._get([actor.__ray_call__.remote(node) for actor in self._actors], seconds)
        single = len({id_ for id_, _ in nodes} | {node()[0]}) == 1
        token, generation = secrets.token_bytes(TOKEN_BYTES), 1
        here = LOOPBACK if single else node()[1]
        endpoint = Endpoint(here, token, generation, self._settings.limits.frame_bytes, DRIVER)
        listening = self._get(
            [
                actor.listen.remote(LOOPBACK if single else ip, token, generation)
                for actor, (_, ip) in zip(self._actors, nodes, strict=True)
            ],
            seconds,
        )
        addresses: dict[int, Address] = {worker: address for worker, (address, _) in enumerate(listening)}
        started = []
        for worker, actor in enumerate(self._actors):
            peers = {peer: addresses[peer] for peer in self._placement.peers(self.wiring, worker)}
            started.append(actor.start.remote({**peers, DRIVER: endpoint.address}))
        for failed in self._get(started, seconds):
            if failed is not None:
                task, failure = failed
                raise failure_error(self.wiring.tasks[task].name, -1, failure)
        endpoint.connect({worker: addresses[worker] for worker in self._spout_workers})
        return endpoint

    def _make_actors(self) -> list[Any]:
        """Create the workers; on a cluster of several nodes, spread over them."""
        with shipped(self.wiring.topology):
            topology_ref = ray.put(self.wiring.topology)
        plan_ref = ray.put(pack_plan(self.wiring.plan) if self.wiring.plan is not None else None)
        remote = ray.remote(WorkerActor)
        return [
            remote.options(
                num_cpus=round(self._settings.ray.cpus_per_task * len(tasks), 4),  # as fine as Ray counts
                max_concurrency=4,
                scheduling_strategy="SPREAD",
            ).remote(topology_ref, plan_ref, self._placement, worker)
            for worker, tasks in enumerate(self._placement.workers)
        ]

    @cached_property
    def _spout_workers(self) -> list[int]:
        """Return the workers that host spouts: those that need grants."""
        return sorted({self._placement.worker_of[task.id] for task in self.wiring.spouts})

    def _get(self, refs: list[Any], seconds: float) -> list[Any]:
        try:
            found: list[Any] = ray.get(refs, timeout=seconds)
        except ray.exceptions.GetTimeoutError:
            raise RunError(
                f"the workers did not start within {seconds:g} s; the cluster may lack resources: lower "
                f"topology.ray.cpus_per_task (now {self._settings.ray.cpus_per_task}) or raise topology.ray.start_seconds"
            ) from None
        except ray.exceptions.RayError as error:
            raise RunError(f"a worker could not be started: {error}") from error
        return found

    # --- run -------------------------------------------------------------------------------------------------------

    def _conduct(self, endpoint: Endpoint, conductor: Conductor) -> None:
        idle_seconds = IDLE_SECONDS_FIRST
        self._grant(endpoint, conductor)
        while not conductor.done:
            if self.should_stop():
                conductor.stop()
            waits = conductor.idle and conductor.pending == 0 and conductor.final is None
            if waits:  # for input: nothing is under way
                self._listen(endpoint, idle_seconds, conductor)
                idle_seconds = min(idle_seconds * 2, IDLE_SECONDS_MOST)
                self._grant(endpoint, conductor)
                continue
            acked = conductor.acked
            self._listen(endpoint, POLL_SECONDS, conductor)
            if conductor.acked > acked:
                idle_seconds = idle_seconds if conductor.idle else IDLE_SECONDS_FIRST
                if not conductor.idle or conductor.pending:
                    self._grant(endpoint, conductor)
        while not conductor.accounted:
            self._listen(endpoint, POLL_SECONDS, conductor)

    def _listen(self, endpoint: Endpoint, seconds: float, conductor: Conductor) -> None:
        """Take in what workers say within so many seconds."""
        for item in endpoint.poll(seconds):
            for epoch in self._take(item, conductor):
                self.on_ack(epoch, conductor.pending)

    def _take(self, item: Frame | Lost, conductor: Conductor) -> list[int]:
        if isinstance(item, Lost):
            raise RunError(self._lost(item, conductor))
        if item.kind == LOST:
            raise RunError(self._lost(Lost(*unpack_plain(item)), conductor))
        if item.kind == FAILED:
            self._tell_failure(conductor)
            raise failure_error(self.wiring.tasks[item.source].name, item.epoch, unpack_plain(item))
        assert item.kind == REPORT
        completed: list[int] = []
        for report in unpack_reports(item):
            self.on_report(report)
            completed += conductor.report(report)
        return completed

    def _grant(self, endpoint: Endpoint, conductor: Conductor) -> None:
        conductor.grant()
        body = pack_grant(Grant(conductor.limit, conductor.final, conductor.acked))
        for worker in self._spout_workers:
            endpoint.send(worker, DRIVER, worker, GRANT, 0, conductor.acked, body)

    def _lost(self, item: Lost, conductor: Conductor) -> str:
        """Say which tasks are gone: those of the workers whose process has ended, or of the one that was lost."""
        workers = self._dead() or [item.peer]
        names = ", ".join(self._placement.names(self.wiring, worker) for worker in workers)
        when = f"while epochs {conductor.acked} to {conductor.limit - 1} were under way"
        if conductor.done:
            when = "before its last reports had come"
        return f"the worker of {names} died {when} ({item.reason})"

    def _dead(self) -> list[int]:
        """Return the workers whose process has ended."""
        refs = [actor.__ray_call__.remote(node) for actor in self._actors]
        dead = []
        for worker, ref in enumerate(refs):
            try:
                ray.get(ref, timeout=ANSWER_SECONDS)
            except ray.exceptions.RayError:
                dead.append(worker)
        return dead

    # --- end -------------------------------------------------------------------------------------------------------

    def _tell_failure(self, conductor: Conductor) -> None:
        under_way = list(range(conductor.acked, conductor.limit))
        with suppress(Exception):  # the run fails with its own reason; spouts that are gone cannot be told
            ray.get(
                [self._actors[worker].fail.remote(under_way) for worker in self._spout_workers], timeout=ANSWER_SECONDS
            )

    def _close(self) -> None:
        """Close all operators: files are complete when this returns."""
        refs = [actor.close.remote() for actor in self._actors]
        for worker, ref in enumerate(refs):
            try:
                failed = ray.get(ref, timeout=CLOSE_SECONDS)
            except ray.exceptions.RayError as error:
                raise RunError(f"{self._placement.names(self.wiring, worker)} could not close: {error}") from error
            if failed is not None:
                task, (_, why) = failed
                raise RunError(f"{self.wiring.tasks[task].name} could not close: {why}")
