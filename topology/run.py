"""Run a topology, on either runtime, and say what came of it."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from streams.batches import Batch
from streams.errors import RunError
from topology.declaration import Topology
from topology.local_runtime import LocalRuntime
from topology.messages import Report
from topology.planning import plan_of
from topology.summary import Tally
from topology.validation import validate
from topology.wiring import Wiring, wire

__all__ = ["Outcome", "Progress", "run"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a run: the summary of the contract, and the batches that collecting sinks handed over."""

    summary: dict[str, Any]
    collected: list[Batch] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run is, for a person to look at."""

    epochs: int
    pending: int
    objects: int
    results: int
    seconds: float
    latency_ms: float


class Runtime(Protocol):
    """Drives the tasks of a wiring to the end of their input."""

    def run(self) -> None:
        """Run to the end, or raise."""


def run(
    topology: Topology,
    *,
    runtime: str | None = None,
    address: str | None = None,
    scheduler_seed: int | None = None,
    delays: bool = False,
    on_progress: Callable[[Progress], None] | None = None,
    on_bytes: Callable[[bytes], None] | None = None,
    should_stop: Callable[[], bool] = lambda: False,
) -> Outcome:
    """Run a topology to the end of its input (or until `should_stop`), and return the outcome.

    Args:
        topology: what to run; it is checked first.
        runtime: ``local`` or ``ray``; the topology's own setting where it is not given.
        address: an existing Ray cluster; an own one is started where it is not given.
        scheduler_seed: the order in which the local runtime serves its tasks; the topology's seed by default.
        delays: the local runtime lets messages overtake each other, as a network does.
        on_progress: is called after each complete epoch.
        on_bytes: takes what sinks write to standard output.
        should_stop: is asked after each epoch; true drains the epochs under way and ends the run.
    """
    validate(topology)
    wiring = wire(topology, plan_of(topology))
    tally = Tally(wiring, time.monotonic)
    collector = _Collector(topology.settings.limits.collected, on_bytes)

    def on_report(report: Report) -> None:
        tally.report(report)
        for output in report.outputs:
            collector.take(output)

    def on_ack(epoch: int, pending: int) -> None:
        tally.ack(epoch)
        if on_progress is not None:
            objects, results = int(tally.totals["objects"]), int(tally.totals["results"])
            on_progress(Progress(tally.epochs, pending, objects, results, tally.seconds, tally.latency.percentile(50)))

    made: Runtime
    if (runtime or topology.settings.runtime) == "ray":
        made = _ray_runtime(wiring, address or topology.settings.address, on_report, on_ack, should_stop)
    else:
        seed = topology.settings.seed if scheduler_seed is None else scheduler_seed
        made = LocalRuntime(
            wiring, seed=seed, delays=delays, on_report=on_report, on_ack=on_ack, should_stop=should_stop
        )
    made.run()
    return Outcome(tally.summary(), collector.batches)


def _ray_runtime(
    wiring: Wiring,
    address: str | None,
    on_report: Callable[[Report], None],
    on_ack: Callable[[int, int], None],
    should_stop: Callable[[], bool],
) -> Runtime:
    from topology.ray_runtime import RayRuntime  # Ray takes seconds to import; the embedded runtime never needs it

    return RayRuntime(wiring, address=address, on_report=on_report, on_ack=on_ack, should_stop=should_stop)


class _Collector:
    """Keeps what collecting sinks hand over, up to a limit, and passes bytes on."""

    def __init__(self, limit: int, on_bytes: Callable[[bytes], None] | None) -> None:
        self.batches: list[Batch] = []
        self._left = limit
        self._on_bytes = on_bytes

    def take(self, output: Any) -> None:
        if isinstance(output, bytes | bytearray | memoryview):
            if self._on_bytes is not None:
                self._on_bytes(bytes(output))
            return
        self._left -= len(output)
        if self._left < 0:
            raise RunError(
                "a collecting sink has more results than topology.limits.collected allows; "
                "write them to a file (operator 'jsonl' or 'parquet'), or raise the limit"
            )
        self.batches.append(output)
