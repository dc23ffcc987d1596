"""Joining or starting a Ray cluster, and what travels to it besides installed code."""

import logging
import os
import socket
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from streams.errors import RunError
from topology.declaration import Topology

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # read by Ray when it is imported
os.environ.setdefault("RAY_worker_niceness", "0")  # 15 is for work in the background: beside others it stands still
os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # or it warns on machines without accelerators

import ray

__all__ = ["LOOPBACK", "connect", "cpu_count", "lost_ray", "node", "shipped"]

LOOPBACK = "127.0.0.1"
OUR_PACKAGES = frozenset({"streams", "partitioners", "operators", "topology", "benchmarks"})
REACH_SECONDS = 10.0


def node(_actor: Any = None) -> tuple[str, str]:
    """Return id and address of the node that this process runs on."""
    return ray.get_runtime_context().get_node_id(), ray.util.get_node_ip_address()  # type: ignore[no-untyped-call]


def process(actor: Any = None) -> tuple[str, str, int]:
    """Return id and address of the node, and the number of the process there."""
    return (*node(actor), os.getpid())


def lost_ray() -> str | None:
    """Return what of Ray does not answer any more, or None where all does.

    Somebody has to look: when its node's raylet or the cluster's control store is gone, Ray ends this process by itself sooner
    or later, without an exception that anybody could catch.
    """
    from ray._private.worker import global_worker

    if global_worker.node is None:
        return None
    try:
        with socket.socket(socket.AF_UNIX) as raylet:
            raylet.settimeout(REACH_SECONDS)
            raylet.connect(global_worker.node.raylet_socket_name)
    except OSError as error:
        return f"the raylet of this node does not answer ({error.strerror or error})"
    try:
        _reach(global_worker.node.gcs_address)
    except OSError as error:
        return f"the control store of the cluster does not answer ({error.strerror or error})"
    return None


def cpu_count() -> int:
    """Return how many CPUs the cluster has; one at least."""
    return max(1, int(ray.cluster_resources().get("CPU", 1)))  # type: ignore[no-untyped-call]


@contextmanager
def shipped(topology: Topology) -> Iterator[None]:
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
    except Exception as error:  # Ray raises errors of all classes here, plain ones too
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
