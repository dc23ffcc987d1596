"""What is wrong with the faults of a topology: who they happen to, and whether the runtime can withstand them."""

from collections.abc import Iterator

from streams.errors import DeclarationError, did_you_mean
from topology.declaration import Topology
from topology.faults import NEED_CHECKPOINTS, ON_TASKS, Fault

__all__ = ["fault_problems"]

#: How many faults a topology may have.
MAX_FAULTS = 10_000


def fault_problems(topology: Topology) -> Iterator[DeclarationError]:
    """Yield all that is wrong with the faults of a topology."""
    if len(topology.faults) > MAX_FAULTS:
        yield DeclarationError(f"{len(topology.faults):,} faults, expected at most {MAX_FAULTS:,}", ("inject",))
        return
    for fault in topology.faults:
        if fault.kind in ON_TASKS:
            yield from _task_problems(topology, fault)
        yield from _runtime_problems(topology, fault)
    yield from _corruption_problems(topology)


def _task_problems(topology: Topology, fault: Fault) -> Iterator[DeclarationError]:
    parallelism = {component.name: component.parallelism for component in topology.components}
    name, index = fault.place
    if fault.task in parallelism:  # a component may have brackets in its name
        return
    if name not in parallelism:
        yield DeclarationError(
            f"a fault of kind '{fault.kind}' is to happen to '{fault.task}', but there is no component "
            f"'{name}'{did_you_mean(name, parallelism)}; there are: {', '.join(parallelism)}",
            ("inject", "task"),
        )
    elif index is not None and index >= parallelism[name]:
        last = parallelism[name] - 1
        yield DeclarationError(
            f"a fault of kind '{fault.kind}' is to happen to '{fault.task}', but '{name}' has a parallelism of "
            f"{parallelism[name]}: expected '{name}[{last}]' at most, or '{name}' for all of them",
            ("inject", "task"),
        )


def _runtime_problems(topology: Topology, fault: Fault) -> Iterator[DeclarationError]:
    settings = topology.settings
    if settings.runtime == "ray" and fault.kind in ("drop", "duplicate"):
        yield DeclarationError(
            f"a fault of kind '{fault.kind}' needs the local runtime (sockets between workers neither lose nor repeat "
            "messages); set topology.runtime = 'local', or use 'kill'",
            ("inject", "kind"),
        )
    if settings.checkpoint is not None:
        return
    if fault.kind in NEED_CHECKPOINTS:
        yield DeclarationError(
            f"a fault of kind '{fault.kind}' needs checkpoints to go back to; declare [topology.checkpoint] with a "
            "'directory'",
            ("inject", "kind"),
        )
    silent_ms = settings.ray.silent_seconds * 1_000
    if settings.runtime == "ray" and fault.kind == "pause" and fault.pause_ms >= silent_ms:
        yield DeclarationError(
            f"a pause of {fault.pause_ms} ms is as long as topology.ray.silent_seconds ({silent_ms:g} ms) or longer, so the "
            "worker would be replaced; declare [topology.checkpoint], or pause for less",
            ("inject", "duration"),
        )


def _corruption_problems(topology: Topology) -> Iterator[DeclarationError]:
    """A damaged checkpoint counts among those that are kept, so there must be one more than are damaged."""
    damaged = sum(fault.kind == "corrupt" for fault in topology.faults)
    checkpoint = topology.settings.checkpoint
    if checkpoint is not None and damaged and checkpoint.keep <= damaged:
        yield DeclarationError(
            f"{damaged} faults of kind 'corrupt' with topology.checkpoint.keep = {checkpoint.keep} may leave no whole "
            f"checkpoint to go back to; keep at least {damaged + 1}",
            ("inject", "kind"),
        )
