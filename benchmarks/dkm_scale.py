"""DkM-SKS in the paper's own setting (section 5.1): ten million subscriptions, O_init of a million objects, two workers.

A time-stamp brings 1,000 objects, 100 registrations and 100 ends; k is up to 10. Everything runs on the local runtime, in one
process and one thread, so that the processor time of each task can be told, and with it what two cores take: the update time
of a time-stamp is that of the source, the main server, the slower worker, the merger and the sink. (The paper: 507 ms with 20
cores and a main server besides.) Memory is that of the process, with all of the stream. The baseline, in the same run, is the
same system with a tenth of the subscriptions: what ten times as many cost.
"""

import resource
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from benchmarks.dkm_stream import DkmStream
from benchmarks.dkm_topology import ALGORITHMS, dkm_topology, plan_of_start
from benchmarks.observed import observed
from benchmarks.report import Goal, Options, Report, resident_gb

__all__ = ["run"]

#: A worker is a core, as in the paper.
WORKERS = 2
#: Time-stamps, and how many of them are not measured: kernels are compiled, caches are cold.
STAMPS, COLD = 53, 3
#: Subscriptions of the baseline, as a divisor.
BASELINE = 10

PAPER_MS = 507.46  # Table 3, Place: the sum of its three rows


@dataclass(frozen=True, slots=True)
class _Scale:
    """One size: milliseconds a time-stamp on two cores (mean and median) and in one thread, seconds to load, gigabytes."""

    update_ms: float
    median_ms: float
    one_core_ms: float
    evaluating_ms: float
    plan_s: float
    loading_s: float
    rss_gb: float
    peak_gb: float
    changes: float
    moved: int


def run(options: Options) -> Report:
    """Measure a tenth of the subscriptions, then all of them."""
    size = options.queries or (200_000 if options.quick else 10_000_000)
    stream = DkmStream(
        size, initial=200_000 if options.quick else 1_000_000, stamps=STAMPS, bound=True, seed=options.seed
    )
    sizes = (max(size // BASELINE, 1), size)
    found = [_measured(replace(stream, subscriptions=count)) for count in sizes]
    baseline, one = found
    figures = {
        "update_ms": one.update_ms,
        "update_median_ms": one.median_ms,
        "one_core_ms": one.one_core_ms,
        "evaluating_ms": one.evaluating_ms,
        "rss_gb": one.rss_gb,
        "peak_gb": one.peak_gb,
        "plan_s": one.plan_s,
        "loading_s": one.loading_s,
        "changed_lists": one.changes,
        "baseline_update_ms": baseline.update_ms,
        "growth_of_time": one.one_core_ms / baseline.one_core_ms,
        "paper_over_update": PAPER_MS / one.update_ms,
    }
    return Report(
        name="dkm-scale",
        data=f"synthetic stream, {size:,} subscriptions with up to 5 words and k to {stream.most_k}, "
        f"O_init {stream.initial:,}, {WORKERS} workers, {stream.objects:,} objects, {stream.changes} registrations and "
        f"ends a time-stamp, {STAMPS - COLD} of them",
        seed=options.seed,
        figures=figures,
        goals=[Goal("update_ms", at_most=50.0), Goal("rss_gb", at_most=8.0)],
        columns=(
            "subscriptions",
            "update ms",
            "median",
            "one core",
            "changed lists",
            "plan s",
            "load s",
            "GB",
            "peak GB",
        ),
        rows=[_row(count, of) for count, of in zip(sizes, found, strict=True)],
        notes=(
            "update: source, main server, slower worker, merger, sink; one core: all tasks one after the other",
            "load: registering all subscriptions, with their balls among O_init, and taking O_init; lists are sent once",
        ),
    )


def _row(count: int, of: _Scale) -> list[str]:
    times = (of.update_ms, of.median_ms, of.one_core_ms)
    return [
        f"{count:,}", *(f"{ms:.1f}" for ms in times), f"{of.changes:,.0f}", f"{of.plan_s:.0f}", f"{of.loading_s:.0f}",
        f"{of.rss_gb:.2f}", f"{of.peak_gb:.2f}",
    ]  # fmt: skip


def _measured(stream: DkmStream) -> _Scale:
    algorithm = ALGORITHMS["waterspout"]
    began = time.thread_time()
    plan = plan_of_start(algorithm, stream, WORKERS)
    planned = time.thread_time()
    stamps = slice(stream.begin + COLD, stream.begin + stream.stamps)
    with tempfile.TemporaryDirectory() as folder:
        topology = dkm_topology(algorithm, stream, plan, Path(folder))
        del plan
        rss: list[float] = []
        seen = observed(topology, on_epoch=lambda epoch: rss.append(resident_gb()) if epoch >= stamps.start else None)
    busy, evaluating = seen.busy_ms[stamps], seen.evaluating_ms[stamps]
    update = busy.sum(1) - evaluating.sum(1) + evaluating.max(1)
    return _Scale(
        update_ms=float(update.mean()),
        median_ms=float(np.median(update)),
        one_core_ms=float((busy.sum(1) + seen.deciding_ms[stamps].sum(1)).mean()),
        evaluating_ms=float(evaluating.sum(1).mean()),
        plan_s=planned - began,
        loading_s=float(seen.busy_ms[: stream.begin].sum() / 1e3),
        rss_gb=max(rss),
        peak_gb=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
        changes=float(seen.results[stamps].mean()),
        moved=sum(move["queries_moved"] for move in seen.summary["rebalances"]),
    )
