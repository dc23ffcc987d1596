"""DkM-SKS in the paper's own setting (section 5.1): ten million subscriptions, O_init of a million objects, two workers.

A time-stamp brings 1,000 objects, 100 registrations and 100 ends; k is up to 10. The topology runs on Ray, two processes with
a worker each: source, main server, mergers and sinks are divided between them, and what goes from one to the other goes over
their sockets. A time-stamp begins when the one before is complete, so its update time is what passes on the clock between two:
everything included, nothing overlapped. (The paper: 507 ms with 20 cores and a main server besides.) Sinks count, so evaluators
send a fingerprint of each list that has changed, and mergers compare it with the last; no list is copied. Memory is that of all
processes together, the driver and Ray itself among them. On a machine that does other work besides, the processor time of the
busier process says what the clock cannot. The plan is made before, in a process of its own, as by `waterspout
build`. The baseline, in the same run, is the same system with a tenth of the subscriptions: what ten times as many cost.
"""

import multiprocessing
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from benchmarks.dkm_stream import DkmStream
from benchmarks.dkm_topology import ALGORITHMS, SAMPLE, plan_of_start, planned_topology
from benchmarks.report import Goal, Options, Report
from benchmarks.watched_epochs import EpochWatch
from partitioners.plans.plan import save
from streams.errors import RunError
from topology import run as run_topology

__all__ = ["run"]

#: A worker is a core, as in the paper.
WORKERS = 2
#: Time-stamps, and how many of them are not measured: kernels are loaded, caches are cold.
STAMPS, COLD = 53, 3
#: Subscriptions of the baseline, as a divisor.
BASELINE = 10

PAPER_MS = 507.46  # Table 3, Place: the sum of its three rows

OURS = ALGORITHMS["waterspout"]

#: Of the paper's own setting, all of it.
_GOALS = [Goal("update_ms", at_most=50.0), Goal("memory_gb", at_most=8.0)]


@dataclass(frozen=True, slots=True)
class _Scale:
    """One size: milliseconds a time-stamp, by the clock and of processor time; seconds to plan and load; gigabytes."""

    update_ms: float
    median_ms: float
    longest_ms: float
    busier_ms: float
    processor_ms: float
    plan_s: float
    loading_s: float
    memory_gb: float
    changes: float


def run(options: Options) -> Report:
    """Measure a tenth of the subscriptions, then all of them."""
    size = options.queries or (200_000 if options.quick else 10_000_000)
    stream = DkmStream(
        size, initial=200_000 if options.quick else 1_000_000, stamps=STAMPS, bound=True, seed=options.seed
    )
    sizes = (max(size // BASELINE, 1), size)
    with tempfile.TemporaryDirectory() as folder:
        found = [_measured(replace(stream, subscriptions=count), Path(folder)) for count in sizes]
    baseline, one = found
    figures = {
        "update_ms": one.update_ms,
        "update_median_ms": one.median_ms,
        "update_longest_ms": one.longest_ms,
        "busier_process_ms": one.busier_ms,
        "processor_ms": one.processor_ms,
        "memory_gb": one.memory_gb,
        "plan_s": one.plan_s,
        "loading_s": one.loading_s,
        "changed_lists": one.changes,
        "baseline_update_ms": baseline.update_ms,
        "growth_of_time": one.update_ms / baseline.update_ms,
        "paper_over_update": PAPER_MS / one.update_ms,
    }
    return Report(
        name="dkm-scale",
        data=f"synthetic stream, {size:,} subscriptions with up to 5 words and k to {stream.most_k}, "
        f"O_init {stream.initial:,}, {WORKERS} workers on Ray, {stream.objects:,} objects, {stream.changes} registrations "
        f"and ends a time-stamp, {STAMPS - COLD} of them",
        seed=options.seed,
        figures=figures,
        goals=[] if options.quick or options.queries is not None else _GOALS,
        columns=(
            "subscriptions",
            "update ms",
            "median",
            "longest",
            "busier process",
            "all processes",
            "changed lists",
            "plan s",
            "load s",
            "GB",
        ),
        rows=[_row(count, of) for count, of in zip(sizes, found, strict=True)],
        notes=(
            "update: by the clock, from the end of one time-stamp to the end of the next; two processes, sockets between them",
            "lists are kept, compared and counted; nobody reads them, so what travels are fingerprints",
            "load: registering all subscriptions, with their balls among O_init, and taking O_init; lists are sent once",
        ),
    )


def _row(count: int, of: _Scale) -> list[str]:
    times = (of.update_ms, of.median_ms, of.longest_ms, of.busier_ms, of.processor_ms)
    return [
        f"{count:,}", *(f"{ms:.1f}" for ms in times), f"{of.changes:,.0f}", f"{of.plan_s:.0f}", f"{of.loading_s:.0f}",
        f"{of.memory_gb:.2f}",
    ]  # fmt: skip


def _made(stream: DkmStream, path: Path) -> None:
    save(plan_of_start(OURS, stream, WORKERS), path)


def _planned(stream: DkmStream, folder: Path) -> tuple[Path, float]:
    """Return the plan, and how long it took; sizes whose plans are made from the same sample share it."""
    path = folder / f"plan-{min(stream.subscriptions, SAMPLE)}"
    began = time.monotonic()
    if not path.exists():
        planner = multiprocessing.get_context("spawn").Process(target=_made, args=(stream, path))
        planner.start()
        planner.join()
        if planner.exitcode:
            raise RunError(
                f"a process that was to plan {stream.subscriptions:,} subscriptions ended with {planner.exitcode}"
            )
    return path, time.monotonic() - began


def _measured(stream: DkmStream, folder: Path) -> _Scale:
    plan, plan_s = _planned(stream, folder)
    # A merger in each process, and a sink: the lists of all subscriptions, behind O_init, are more than one message may have,
    # and what a merger has passed on need not travel once more.
    topology = planned_topology(OURS, stream, plan, WORKERS, mergers=WORKERS, max_pending=1, ray={"workers": WORKERS})
    watch = EpochWatch(stream.begin + COLD - 1, stream.begin + stream.stamps - 1)
    run_topology(topology, runtime="ray", on_progress=watch)
    took, worked = watch.took_ms(), watch.worked_ms()
    return _Scale(
        update_ms=float(took.mean()),
        median_ms=float(np.median(took)),
        longest_ms=float(took.max()),
        busier_ms=float(worked.max()),
        processor_ms=float(worked.sum()),
        plan_s=plan_s,
        loading_s=watch.complete[stream.begin - 1] - watch.complete[0],
        memory_gb=max(watch.memory_gb),
        changes=float(watch.changed().mean()),
    )
