"""Starts the actors, introduces them to each other, and conducts the run."""

import logging
import os
import secrets
import socket
import sys
import sysconfig
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import astuple
from pathlib import Path
from typing import Any

from partitioners.plan import pack as pack_plan
from streams.errors import RunError
from topology.conductor import Conductor
from topology.declaration import Topology
from topology.local_runtime import IDLE_SECONDS_FIRST, IDLE_SECONDS_MOST
from topology.messages import Report
from topology.ray_runtime.actor import TaskActor
from topology.ray_runtime.frames import (
    DRIVER,
    FAILED,
    GRANT,
    LOST,
    REPORT,
    Grant,
    failure_error,
    pack_plain,
    unpack_plain,
    unpack_reports,
)
from topology.ray_runtime.transport import TOKEN_BYTES, Address, Endpoint, Lost
from topology.wiring import Wiring

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # read by Ray when it is imported
os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # or it warns on machines without accelerators

import ray

__all__ = ["RayRuntime"]

LOOPBACK = "127.0.0.1"
OUR_PACKAGES = frozenset({"streams", "partitioners", "operators", "topology", "benchmarks"})
POLL_SECONDS = 0.2
CLOSE_SECONDS = 30.0
REACH_SECONDS = 10.0


class RayRuntime:
    """Runs a wiring on Ray actors, one for each task."""

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
        self._actors: list[Any] = []
        self._spouts = [task.id for task in wiring.spouts]

    def run(self) -> None:
        """Run until the final epoch is complete; raise what an operator raised, with its task's name."""
        owned = connect(self._address)
        try:
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
        """Make all actors listen, then let all of them connect: two phases, so that nobody calls before all are there."""
        seconds = self._settings.ray.start_seconds
        remote = ray.remote(TaskActor).options(num_cpus=self._settings.ray.cpus_per_task, max_concurrency=4)
        with _shipped(self.wiring.topology):
            topology_ref = ray.put(self.wiring.topology)
        plan_ref = ray.put(pack_plan(self.wiring.plan) if self.wiring.plan is not None else None)
        self._actors = [remote.remote(topology_ref, plan_ref, task.id) for task in self.wiring.tasks]
        nodes = self._get([actor.__ray_call__.remote(_node) for actor in self._actors], seconds)
        single = len({node for node, _ in nodes} | {_node()[0]}) == 1
        token, generation = secrets.token_bytes(TOKEN_BYTES), 1
        here = LOOPBACK if single else _node()[1]
        endpoint = Endpoint(here, token, generation, self._settings.limits.frame_bytes, DRIVER)
        listening = self._get(
            [
                actor.listen.remote(LOOPBACK if single else ip, token, generation)
                for actor, (_, ip) in zip(self._actors, nodes, strict=True)
            ],
            seconds,
        )
        addresses: dict[int, Address] = {task.id: listening[task.id][0] for task in self.wiring.tasks}
        started = []
        for task in self.wiring.tasks:
            targets = {t.id for e in self.wiring.edges_from(task.component) for t in self.wiring.tasks_of(e.target)}
            reached = {**{target: addresses[target] for target in targets}, DRIVER: endpoint.address}
            local = frozenset(other.id for other in self.wiring.tasks if nodes[other.id][0] == nodes[task.id][0])
            started.append(self._actors[task.id].start.remote(reached, local))
        for task, failure in zip(self.wiring.tasks, self._get(started, seconds), strict=True):
            if failure is not None:
                raise failure_error(task.name, -1, failure)
        endpoint.connect({spout: addresses[spout] for spout in self._spouts})
        return endpoint

    def _get(self, refs: list[Any], seconds: float) -> list[Any]:
        try:
            found: list[Any] = ray.get(refs, timeout=seconds)
        except ray.exceptions.GetTimeoutError:
            raise RunError(
                f"the tasks did not start within {seconds:g} s; the cluster may lack resources: lower "
                f"topology.ray.cpus_per_task (now {self._settings.ray.cpus_per_task}) or raise topology.ray.start_seconds"
            ) from None
        except ray.exceptions.RayError as error:
            raise RunError(f"a task could not be started: {error}") from error
        return found

    # --- run -------------------------------------------------------------------------------------------------------

    def _conduct(self, endpoint: Endpoint, conductor: Conductor) -> None:
        idle_seconds = IDLE_SECONDS_FIRST
        self._grant(endpoint, conductor)
        while not conductor.done:
            if self.should_stop():
                conductor.stop()
            waits = conductor.idle and conductor.pending == 0 and conductor.final is None
            if waits:
                endpoint.poll(idle_seconds)  # nothing is under way: this sleeps
                idle_seconds = min(idle_seconds * 2, IDLE_SECONDS_MOST)
                self._grant(endpoint, conductor)
                continue
            acked = conductor.acked
            for item in endpoint.poll(POLL_SECONDS):
                for epoch in self._take(item, conductor):
                    self.on_ack(epoch, conductor.pending)
            if conductor.acked > acked:
                idle_seconds = idle_seconds if conductor.idle else IDLE_SECONDS_FIRST
                if not conductor.idle or conductor.pending:
                    self._grant(endpoint, conductor)
        while not conductor.accounted:
            for item in endpoint.poll(POLL_SECONDS):
                self._take(item, conductor)

    def _take(self, item: Any, conductor: Conductor) -> list[int]:
        if isinstance(item, Lost):
            if conductor.done:
                return []
            raise RunError(self._lost(item, conductor))
        if item.kind == FAILED:
            failure = unpack_plain(item)
            if failure[0] == LOST:
                raise RunError(self._lost(Lost(item.source, failure[1]), conductor))
            self._tell_failure(conductor)
            raise failure_error(self.wiring.tasks[item.source].name, item.epoch, failure)
        assert item.kind == REPORT
        completed: list[int] = []
        for report in unpack_reports(item):
            self.on_report(report)
            completed += conductor.report(report)
        return completed

    def _grant(self, endpoint: Endpoint, conductor: Conductor) -> None:
        conductor.grant()
        body = pack_plain(list(astuple(Grant(conductor.limit, conductor.final, conductor.acked))))
        for spout in self._spouts:
            try:
                endpoint.send(spout, GRANT, 0, conductor.acked, body)
            except OSError as error:
                raise RunError(self._lost(Lost(spout, str(error)), conductor)) from error

    def _lost(self, item: Lost, conductor: Conductor) -> str:
        name = self.wiring.tasks[item.source].name if item.source < len(self.wiring.tasks) else "an unknown task"
        dead = self._dead() or name
        return f"{dead} died while epochs {conductor.acked} to {conductor.limit - 1} were under way ({item.reason})"

    def _dead(self) -> str:
        """Return the names of tasks whose process has ended."""
        refs = {
            actor.__ray_call__.remote(_node): task for actor, task in zip(self._actors, self.wiring.tasks, strict=True)
        }
        dead = []
        for ref, task in refs.items():
            try:
                ray.get(ref, timeout=5)
            except ray.exceptions.RayError:
                dead.append(task.name)
        return ", ".join(dead)

    # --- end -------------------------------------------------------------------------------------------------------

    def _tell_failure(self, conductor: Conductor) -> None:
        under_way = list(range(conductor.acked, conductor.limit))
        with suppress(Exception):  # the run fails with its own reason; spouts that are gone cannot be told
            ray.get([self._actors[spout].fail.remote(under_way) for spout in self._spouts], timeout=5)

    def _close(self) -> None:
        """Close all operators: files are complete when this returns."""
        refs = [actor.close.remote() for actor in self._actors]
        for task, ref in zip(self.wiring.tasks, refs, strict=True):
            try:
                ray.get(ref, timeout=CLOSE_SECONDS)
            except ray.exceptions.RayError as error:
                raise RunError(f"{task.name} could not close: {error}") from error


def _node(_actor: Any = None) -> tuple[str, str]:
    """Return id and address of the node that this process runs on."""
    return ray.get_runtime_context().get_node_id(), ray.util.get_node_ip_address()  # type: ignore[no-untyped-call]


@contextmanager
def _shipped(topology: Topology) -> Iterator[None]:
    """Let the code of classes that were given to the builder travel with them.

    A script's own modules need not be importable where the actors run; installed packages are, and stay references.
    """
    installed = [Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    modules = []
    for cls in {cls for component in topology.components for cls in component.classes.values()}:
        module = sys.modules[cls.__module__]
        file = getattr(module, "__file__", None)
        ours = cls.__module__.partition(".")[0] in OUR_PACKAGES
        known = ours or module in modules or module.__name__ == "__main__"
        if file and not known and not any(Path(file).is_relative_to(folder) for folder in installed):
            modules.append(module)
    for module in modules:
        ray.cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        for module in modules:
            ray.cloudpickle.unregister_pickle_by_value(module)  # type: ignore[no-untyped-call]


def connect(address: str | None) -> bool:
    """Join a cluster, or start one of our own on this machine; return whether it is ours to shut down."""
    if ray.is_initialized():
        return False
    try:
        if address in (None, "local"):
            with _on_loopback():
                ray.init(
                    address="local",
                    include_dashboard=False,
                    log_to_driver=False,
                    logging_level=logging.ERROR,
                    _node_ip_address=LOOPBACK,
                )
        else:
            assert address is not None
            _reach(address)
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except (OSError, RuntimeError, ValueError) as error:
        where = f"join the Ray cluster at '{address}'" if address else "start Ray on this machine"
        raise RunError(f"cannot {where}: {error}") from error
    return True


def _reach(address: str) -> None:
    """See that somebody listens at host:port: Ray itself would try for minutes."""
    host, _, port = address.rpartition(":")
    if port.isdigit():
        socket.create_connection((host.removeprefix("ray://").strip("[]"), int(port)), timeout=REACH_SECONDS).close()


@contextmanager
def _on_loopback() -> Iterator[None]:
    """Let Ray's own servers listen on loopback.

    On Linux Ray replaces a loopback address by a reachable one, and its servers would listen on all interfaces; where it
    believes that clusters are off, as on other systems, it does not.
    """
    from ray._private import ray_constants

    before, ray_constants.ENABLE_RAY_CLUSTER = ray_constants.ENABLE_RAY_CLUSTER, False
    try:
        yield
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = before
