"""Run a topology, on either runtime, and say what came of it."""

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, cast

from streams.batches import Batch
from streams.errors import DeclarationError
from topology.checkpoints import (
    Checkpoints,
    Reading,
    Resumption,
    RunRecord,
    Store,
    open_store,
    resumption_of,
    same_place,
)
from topology.declaration import Topology
from topology.input_files import with_keywords, with_vocabulary
from topology.kernel_clock import kernel_clock
from topology.local_runtime import LocalRuntime
from topology.messages import Report
from topology.metric import with_metric
from topology.piped_input import piped_input
from topology.planning import plan_of
from topology.summary import Tally
from topology.validation import validate
from topology.watching import Watcher
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
    resume: str | Path | None = None,
    wait: Callable[[float], object] | None = None,
    watcher: Watcher | None = None,
) -> Outcome:
    """Run a topology to the end of its input (or until `should_stop`), and return the outcome.

    Times do not include the compilation of kernels in this process.

    Args:
        topology: what to run; it is checked first.
        runtime: ``local`` or ``ray``; the topology's own setting where it is not given.
        address: an existing Ray cluster; an own one is started where it is not given.
        scheduler_seed: the order in which the local runtime serves its tasks; the topology's seed by default.
        delays: the local runtime lets messages overtake each other, as a network does.
        on_progress: is called after each complete epoch.
        on_bytes: takes what sinks write to standard output.
        should_stop: is asked after each epoch; true drains the epochs under way and ends the run.
        resume: go on from the newest whole checkpoint in this folder or at this URL.
        wait: is called with a number of seconds when there is no input; it may return sooner, when there is some.
        watcher: is shown samples of what tasks do, as it happens.
    """
    if runtime is not None:
        topology = _on(topology, runtime)
    validate(topology)
    with piped_input(topology) as topology, kernel_clock() as clock:
        topology = _settled(topology)
        on_ray = topology.settings.runtime == "ray"
        whole: Reading = "checked" if on_ray else "kept"  # on Ray workers read the states of their tasks themselves
        resumption = resumption_of(topology, open_store(str(resume)), whole) if resume is not None else None
        plan = resumption.plan if resumption is not None else plan_of(topology)
        wiring = wire(topology, plan, watched=watcher is not None)
        record = RunRecord(Tally(wiring, clock), topology.settings.limits.collected, on_bytes)
        if resumption is not None:
            record.restore(resumption.driver)
        store, checkpoints = _checkpoints(wiring, record, resumption)
        if watcher is not None:
            watcher.begin(wiring, record.tally.totals)

        def on_report(report: Report) -> None:
            record.report(report)
            if watcher is not None:
                watcher.report(report)

        def on_ack(epoch: int, pending: int) -> None:
            record.ack(epoch)
            if watcher is not None:
                watcher.ack(epoch, pending)
            if on_progress is not None:
                tally = record.tally
                objects, results = int(tally.totals["objects"]), int(tally.totals["results"])
                on_progress(
                    Progress(tally.epochs, pending, objects, results, tally.seconds, tally.latency.percentile(50))
                )

        def go_back(reading: Reading = "kept", restarts: int = 1) -> Resumption | None:
            """Take everything outside of the tasks back to the newest checkpoint; None where there is none of this run yet."""
            assert checkpoints is not None
            assert store is not None
            if not checkpoints.abandon():
                record.tally.restarts += restarts
                return None
            newest = resumption_of(topology, store, reading)
            record.go_back(Tally(wiring, clock), newest.driver, restarts)
            if watcher is not None:
                watcher.go_back(newest.start, record.tally.totals)
            return newest

        def go_back_here() -> Mapping[int, Mapping[str, Any]] | None:
            newest = go_back()
            return newest.states(wiring) if newest is not None else None

        made: Runtime
        if on_ray:
            made = _ray_runtime()(
                wiring,
                address=address or topology.settings.address,
                on_report=on_report,
                on_ack=on_ack,
                should_stop=should_stop,
                origin=resumption,
                checkpoints=checkpoints,
                go_back=go_back,
                wait=wait,
                watcher=watcher,
            )
        else:
            made = LocalRuntime(
                wiring,
                seed=topology.settings.seed if scheduler_seed is None else scheduler_seed,
                delays=delays,
                clock=clock,
                on_report=on_report,
                on_ack=on_ack,
                should_stop=should_stop,
                snapshots=resumption.states(wiring) if resumption is not None else None,
                checkpoints=checkpoints,
                go_back=go_back_here,
                wait=wait,
                watcher=watcher,
            )
        del resumption  # what tasks take over need not be kept twice for as long as they run
        _run_saving(made, checkpoints)
        return Outcome(record.tally.summary(), record.collected)


def _settled(topology: Topology) -> Topology:
    """Return a topology with what its input tells: the vocabulary, the metric, and what keywords of queries are."""
    measured = with_metric(topology)
    if measured.settings.metric != topology.settings.metric:
        validate(measured)  # an operator may not be able to
    return with_keywords(with_vocabulary(measured))


def _ray_runtime() -> Any:
    """Import the runtime on Ray: that takes seconds, and the embedded one never needs it."""
    try:
        from topology.ray_runtime import RayRuntime
    except ModuleNotFoundError as error:
        if error.name != "ray":
            raise
        missing = "'ray' needs Ray, which is not installed; add it with: pip install 'waterspout[ray]'"
        raise DeclarationError(missing, ("topology", "runtime")) from None
    return RayRuntime


def _on(topology: Topology, runtime: str) -> Topology:
    """Return a topology for a runtime, so that it is checked for that one."""
    if runtime not in ("local", "ray"):
        raise DeclarationError(f"runtime = {runtime!r}, expected 'local' or 'ray'", ("topology", "runtime"))
    return dataclasses.replace(topology, settings=dataclasses.replace(topology.settings, runtime=cast(Any, runtime)))


def _checkpoints(
    wiring: Wiring, record: RunRecord, resumption: Resumption | None
) -> tuple[Store | None, Checkpoints | None]:
    settings = wiring.topology.settings.checkpoint
    if settings is None:
        return None, None
    store = open_store(settings.directory, wiring.topology.base)
    resumed_here = resumption is not None and same_place(resumption.store.url, store.url)
    parts = resumption.saved.manifest.parts if resumption is not None and resumed_here else None
    return store, Checkpoints(wiring, settings, store, record, resumed_from=parts)


def _run_saving(runtime: Runtime, checkpoints: Checkpoints | None) -> None:
    """Run, and leave no checkpoint half written; whoever interrupts wants the end at once, and what is torn does not count."""
    try:
        runtime.run()
    except KeyboardInterrupt:
        raise
    except BaseException:
        if checkpoints is not None:
            checkpoints.close()
        raise
    if checkpoints is not None:
        checkpoints.close()
