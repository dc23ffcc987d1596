"""Skype in the paper's own setting (Section 8.2): five million subscriptions, k = 20, a window of a million, on two cores.

Two tasks have half of the subscriptions each, by number, and all of the window, as `conf/skype.toml` with two evaluators. Each
is a process of its own. They begin what is measured together, so that the clock tells what two cores take where nothing else
runs; processor time, an epoch at a time and of the slower task, tells it where others do. (The paper: nearly 1,300 messages a
second with ten nodes.) What passes messages on to both and takes their lists is apart. Memory is that of both processes, with
the part of the stream that is under way.

What is measured comes after a full turnover of the window. The baseline, in the same run, is the same system with a tenth of
the subscriptions: what ten times as many cost.
"""

import multiprocessing
import queue
import resource
import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.report import Goal, Options, Report, resident_gb
from benchmarks.skype_engine import OURS, Engine, Setting, epochs_of, filled, scene_of
from benchmarks.skype_stream import BLOCK, skype_subscriptions
from streams.batches import QueryBatch
from streams.errors import RunError

__all__ = ["run"]

#: A task is a core.
TASKS = 2
#: Subscriptions of the baseline, as a divisor.
BASELINE = 10
#: Messages that are measured, as a part of the window.
MEASURED = 0.1

PAPER_PER_S = 1_300.0  # Section 8.2


@dataclass(frozen=True, slots=True)
class _Scale:
    """One size: microseconds a message on two cores, by stage for the sum of both tasks, and what it takes to get there."""

    clock_us: float
    message_us: float
    one_core_us: float
    stages_us: tuple[float, float, float]
    changed: float
    searches: float
    bytes_per_subscription: float
    loading_s: float
    rss_gb: float
    peak_gb: float


def run(options: Options) -> Report:
    """Measure a tenth of the subscriptions, then all of them."""
    size = options.queries or (50_000 if options.quick else 5_000_000)
    setting = Setting(size, 10_000 if options.quick else 1_000_000, seed=options.seed)
    goals = [Goal("messages_per_s", at_least=13_000), Goal("rss_gb", at_most=16.0)]
    sizes = (max(size // BASELINE, TASKS), size)
    found = [_measured(replace(setting, subscriptions=count)) for count in sizes]
    baseline, one = found
    figures = {
        "messages_per_s": 1e6 / one.message_us,
        "messages_per_s_by_the_clock": 1e6 / one.clock_us,
        "one_core_messages_per_s": 1e6 / one.one_core_us,
        "bytes_per_subscription": one.bytes_per_subscription,
        "loading_s": one.loading_s,
        "rss_gb": one.rss_gb,
        "peak_gb": one.peak_gb,
        "baseline_messages_per_s": 1e6 / baseline.message_us,
        "growth_of_time": one.one_core_us / baseline.one_core_us,
        "over_paper": 1e6 / one.message_us / PAPER_PER_S,
    }
    return Report(
        name="skype-scale",
        data=f"synthetic stream, {size:,} subscriptions with 1 to 5 words, k = {setting.k}, a window of {setting.window:,}, "
        f"epochs of {setting.epoch:,}, {TASKS} tasks",
        seed=options.seed,
        figures=figures,
        goals=[] if options.quick or options.queries is not None else goals,
        columns=(
            "subscriptions", "messages/s", "by the clock", "one core", "arrival us", "expiry us", "lists us", "changed",
            "searches", "bytes", "load s", "GB", "peak GB",
        ),
        rows=[_row(count, of) for count, of in zip(sizes, found, strict=True)],
        notes=(
            "messages/s: of the slower task in each epoch, by processor time; by the clock: until both have done; one core: "
            "both tasks one after the other; arrival, expiry and lists are the sums of both tasks; load s: of the slower task",
        ),
    )  # fmt: skip


def _row(count: int, of: _Scale) -> list[str]:
    speeds = (f"{1e6 / us:,.0f}" for us in (of.message_us, of.clock_us, of.one_core_us))
    return [
        f"{count:,}", *speeds, *(f"{us:.1f}" for us in of.stages_us), f"{of.changed:.1f}", f"{of.searches:.2f}",
        f"{of.bytes_per_subscription:.0f}", f"{of.loading_s:.0f}", f"{of.rss_gb:.2f}", f"{of.peak_gb:.2f}",
    ]  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """What one task has measured: seconds by epoch and stage, and by the clock from the common start on."""

    spent: NDArray[np.float64]
    clock_s: float
    messages: int
    changed: int
    searches: int
    nbytes: int
    loading_s: float
    rss_gb: float
    peak_gb: float


def _measured(setting: Setting) -> _Scale:
    parts = _in_processes(setting)
    messages = parts[0].messages
    spent = np.stack([part.spent for part in parts], axis=1)
    return _Scale(
        clock_us=max(part.clock_s for part in parts) / messages * 1e6,
        message_us=float(spent.sum(2).max(1).sum() / messages * 1e6),
        one_core_us=float(spent.sum() / messages * 1e6),
        stages_us=tuple((spent.sum((0, 1)) / messages * 1e6).tolist()),
        changed=sum(part.changed for part in parts) / messages,
        searches=sum(part.searches for part in parts) / setting.subscriptions * setting.window / messages,
        bytes_per_subscription=sum(part.nbytes for part in parts) / setting.subscriptions,
        loading_s=max(part.loading_s for part in parts),
        rss_gb=sum(part.rss_gb for part in parts),
        peak_gb=sum(part.peak_gb for part in parts),
    )


def _in_processes(setting: Setting) -> list[_Part]:
    """Run the tasks, a process each, and return what they have measured; raise where one of them dies."""
    start = multiprocessing.get_context("spawn")
    together, found = start.Barrier(TASKS), start.Queue()
    tasks = [start.Process(target=_run, args=(setting, task, together, found), daemon=True) for task in range(TASKS)]
    for task in tasks:
        task.start()
    parts: list[_Part] = []
    while len(parts) < TASKS:
        try:
            parts.append(found.get(timeout=1.0))
        except queue.Empty:
            if dead := [task for task in tasks if task.exitcode not in (None, 0)]:
                for task in tasks:
                    task.kill()
                raise RunError(
                    f"a task of {TASKS} has died (exit code {dead[0].exitcode}; -9 is what a machine without memory does); "
                    "give a smaller number of subscriptions (--queries)"
                ) from None
    for task in tasks:
        task.join()
    return parts


def _run(setting: Setting, task: int, together: Any, found: Any) -> None:
    """Load a task, let a window pass, and measure; subscriptions are drawn block by block, so that they need no room twice."""
    began = time.thread_time()
    engine = _loaded(setting, task)
    loading = time.thread_time() - began
    spent, changed, counted, searched, clock = [], 0, 0, 0, 0.0
    seen, wanted = 0, round(MEASURED * setting.window)
    for batch in epochs_of(setting, setting.window):
        if seen >= setting.window and not counted:
            together.wait()
            searched, clock = engine.core.searches, time.monotonic()
        took, (lists, _) = engine.step(batch)
        seen += len(batch)
        if seen > setting.window:
            spent.append(took)
            counted, changed = counted + len(batch), changed + lists
            if counted >= wanted:
                break
    found.put(
        _Part(
            spent=np.array(spent), clock_s=time.monotonic() - clock, messages=counted, changed=changed,
            searches=engine.core.searches - searched, nbytes=engine.nbytes, loading_s=loading, rss_gb=resident_gb(),
            peak_gb=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
        )
    )  # fmt: skip


def _loaded(setting: Setting, task: int) -> Engine:
    """Return an engine with a full window and the subscriptions of a task."""
    engine, _ = filled(OURS, setting, scene_of(setting, QueryBatch.empty()))
    for first in range(0, setting.subscriptions, BLOCK):
        block = skype_subscriptions(min(BLOCK, setting.subscriptions - first), setting.seed, k=setting.k, first=first)
        engine.register(block.take(np.flatnonzero(block.number % TASKS == task)), setting.window - 1)
    return engine
